//! Background traffic that shares a computed FIFO, replayed when somebody looks.
//!
//! A source of packets that nobody observes has no events: before the queue is asked for anything, the
//! packets that have come meanwhile are worked through, whole blocks at once where a rule allows:
//!
//! - transmitter idle, and service shorter than the interval: every packet of the block starts on
//!   arrival, nothing is left but the last departure;
//! - transmitter busy: packets extend the current run while (a) the transmitter stays busy and
//!   (b) each of them has room. As the backlog shrinks from one to the next, (b) holds for the whole
//!   block if the backlog is short for its first packet. If it is not, the departure that admits each of
//!   them stands one place further along an older run; as the run advances by the service time and
//!   arrivals by the longer interval, (b) holds for the whole run if it holds for its first packet.
//!
//! Every step is in integers, so that drops and delays equal those of the packet-by-packet run bit
//! for bit; where no rule applies (lossy channel, byte limit, service not shorter than the interval, several
//! sources), the replay goes packet by packet.
//!
//! *Not modelled*: blocks of more than one background source.

use super::super::PropagationDelay;
use super::super::ahead::{Pace, UnderWay};
use super::backlog::{Backlog, LONGEST_RUN_BITS};
use super::earliest::Earliest;
use super::on_off::OnOff;
use super::{ComputedFifo, QueueCounters};
use crate::channel::Channel;
use lasthop_base::units::{Duration, ExactTime, Instant, Rate};

/// What the packets of the sources share with others.
pub(super) struct Line<'a> {
    pub backlog: &'a mut Backlog,
    pub propagation: &'a mut PropagationDelay,
    pub channel: &'a mut Channel,
}

/// Background traffic that ends behind this link.
#[derive(Clone, Debug)]
struct Background {
    source: OnOff,
    /// Length of a frame, how long it takes, and the rate that counts its fractions.
    bits: u64,
    service: ExactTime,
    rate: Rate,
    /// Packets of the longest block; 0 where blocks may not be used.
    longest_block: u64,
    counters: QueueCounters,
    /// Departures of packets that survive the channel.
    under_way: UnderWay,
}

/// The sources of one queue.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    sources: Vec<Background>,
    /// Whose turn it is, where there are several.
    earliest: Earliest,
    /// When the next packet comes, or [`Instant::NEVER`].
    next_at: Instant,
}

impl Replay {
    /// No source.
    pub fn new() -> Self {
        Replay { sources: Vec::new(), earliest: Earliest::default(), next_at: Instant::NEVER }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// When the next packet comes, or [`Instant::NEVER`].
    #[inline(always)]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// One more source, whose frames have `bits` and leave at `rate`; they arrive `delay` after they depart.
    /// `may_block`: blocks of one source alone may be taken at once.
    fn add(&mut self, source: OnOff, bits: u64, delay: Duration, may_block: bool, rate: Rate) {
        let service = ExactTime::default().after(bits, rate);
        // Two nanoseconds of margin keep rounded times monotone within a block.
        let has_slack = source.interval_floor() >= service.nanos + 3;
        let in_blocks = has_slack && may_block && self.sources.is_empty();
        for other in &mut self.sources {
            other.longest_block = 0;
        }
        let longest_block = if in_blocks { LONGEST_RUN_BITS / 2 / bits } else { 0 };
        let pace = Pace { source: (source.packet().bits(), source.rate()), link: (bits, rate) };
        let under_way = UnderWay::new(delay, pace);
        self.earliest.add(source.next_at());
        self.next_at = self.next_at.min(source.next_at());
        let counters = QueueCounters::default();
        self.sources.push(Background {
            source,
            bits,
            service,
            rate,
            longest_block,
            counters,
            under_way,
        });
    }

    /// Steps that the replay of a second takes.
    pub fn rate(&self) -> f64 {
        // The next of several sources is searched for packet by packet.
        let search = f64::log2(self.sources.len().max(1) as f64) / 4.0;
        let packets =
            |background: &Background| 1e9 / background.source.interval_floor().max(1) as f64;
        let packets: f64 = self.sources.iter().map(packets).sum();
        packets * (1.0 + search)
    }

    /// Counters of all sources.
    pub fn counters(&self) -> QueueCounters {
        let counters = self.sources.iter().map(|background| background.counters);
        counters.fold(QueueCounters::default(), |sum, counters| sum + counters)
    }

    /// What is over by then will not be asked for.
    pub fn set_horizon(&mut self, horizon: Instant) {
        for background in &mut self.sources {
            background.under_way.set_horizon(horizon);
        }
    }

    /// Works through all packets up to and including `now`.
    #[inline(never)]
    pub fn until(&mut self, now: Instant, line: &mut Line<'_>) {
        if let [background] = self.sources.as_mut_slice() {
            while background.source.next_at() <= now {
                if !background.replay_block(now, line.backlog) {
                    background.replay_packet(line);
                }
            }
            self.next_at = background.source.next_at();
        } else {
            // Several sources: the earliest packet first, ties by index.
            while let Some(index) = self.earliest.until(now) {
                let background = &mut self.sources[index];
                background.replay_packet(line);
                self.earliest.advance(index, background.source.next_at());
            }
            self.next_at = self.earliest.next_at();
        }
    }
}

impl Background {
    #[inline(never)]
    fn replay_packet(&mut self, line: &mut Line<'_>) {
        let at = self.source.next_at();
        self.source.advance(1);
        let Some(airtime) = line.backlog.admit(at, self.bits) else {
            self.counters.drops += 1;
            return;
        };
        self.counters.frames_sent += 1;
        self.counters.bits_sent += self.bits;
        if line.channel.is_lost(airtime) {
            line.backlog.mark_lost();
            self.counters.frames_lost += 1;
        } else {
            let end = match line.propagation.constant() {
                Some(_) => airtime.end,
                None => line.propagation.arrival(airtime.end),
            };
            self.under_way.one(at, end);
        }
    }

    /// Takes as many packets at once as one rule covers; false if that is none.
    #[inline(always)]
    fn replay_block(&mut self, now: Instant, backlog: &mut Backlog) -> bool {
        let Background { source, bits, service, rate, .. } = self;
        let (bits, service, rate) = (*bits, *service, *rate);
        let block = source.count_until(now).min(self.longest_block);
        if block == 0 {
            return false;
        }
        let first = source.next_at();
        let free_at = backlog.transmitter.free_at();
        let mut count = block;
        if free_at.instant() < first {
            // Idle: every packet of the block starts on arrival and is gone before the next.
            let arrived = source.next_exact();
            let last = source.departure(count - 1);
            source.advance_past(count, last);
            backlog.transmitter.send_at(last.instant(), service);
            backlog.begin(bits);
            let end = backlog.transmitter.free_at().instant();
            self.under_way.spaced(first, arrived, end, count);
        } else {
            count = backlog.ready(first, bits, block);
            if count == 0 {
                return false;
            }
            // When the transmitter falls free before the packet after `index` more.
            let before = |index: u64| {
                if service.fraction == 0 {
                    ExactTime { nanos: free_at.nanos + index * service.nanos, ..free_at }
                } else {
                    free_at.after(bits * index, rate)
                }
            };
            // The backlog shrinks by at least two nanoseconds a packet, so "it finds the transmitter busy" holds up
            // to some packet.
            let mut last = source.departure(count - 1);
            if before(count - 1).instant() <= last.instant() {
                let finds_busy = |index: u64| before(index).instant() > source.at(index);
                count = first_false(count - 1, finds_busy);
                if count == 0 {
                    return false;
                }
                last = source.departure(count - 1);
            }
            source.advance_past(count, last);
            let departure = free_at.plus(service, rate);
            let end = before(count - 1).plus(service, rate);
            backlog.transmitter.send_until(end);
            backlog.join(departure, bits, count);
            self.under_way.back_to_back(first, departure, end.instant(), count);
        }
        self.counters.frames_sent += count;
        self.counters.bits_sent += count * bits;
        true
    }
}

/// The first of `end` numbers for which `holds` does not, if it holds for all below some number.
fn first_false(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl ComputedFifo {
    /// Lets `source` share this queue. Returns its index for [`Self::background_counters`].
    pub fn add_background(&mut self, source: OnOff) -> usize {
        let bits = self.frame_bits(source.packet().get() as u32);
        let may_block = matches!(self.backlog.limit, super::Limit::Packets(_))
            && self.backlog.transmitter.is_steady()
            && self.propagation.constant().is_some()
            && matches!(self.channel, Channel::Clean(_));
        self.backlog.share(bits);
        self.usual = super::NO_LENGTH;
        let rate = self.backlog.transmitter.rate();
        // Where the delay changes, arrivals are remembered instead of departures.
        let delay = self.propagation.constant().unwrap_or_default();
        self.replay.add(source, bits, delay, may_block, rate);
        self.replay.sources.len() - 1
    }

    /// Packets of background source `index` that survive and have not arrived at `now`, the time
    /// of the last catch-up.
    pub fn background_under_way(&self, index: usize, now: Instant) -> u64 {
        self.replay.sources[index].under_way.after(now)
    }

    /// Counters of background source `index`, as of the last catch-up.
    pub fn background_counters(&self, index: usize) -> QueueCounters {
        self.replay.sources[index].counters
    }
}
