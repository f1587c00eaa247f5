//! Background traffic that shares a computed FIFO, replayed on demand.
//!
//! A source whose packets are not observed has no events. Before the queue is read, the packets
//! that have arrived in the meantime are processed, in blocks where one of these rules applies:
//!
//! - Transmitter idle, and transmission time shorter than the interval: every packet of the block
//!   is sent on arrival. Only the last departure remains to be stored.
//! - Transmitter busy: packets extend the current run while (a) the transmitter stays busy and (b)
//!   each of them has room. The backlog shrinks from packet to packet. If it is short for the first
//!   packet of the block, (b) therefore holds for the whole block. Otherwise, the departure that
//!   admits each packet is one place further along an older run. The run advances by the
//!   transmission time and the arrivals by the longer interval. Therefore (b) holds for the whole
//!   run if it holds for its first packet.
//!
//! All steps use integers, so that drops and delays are bit-identical to those of the
//! packet-by-packet replay. Where no rule applies (lossy channel, byte limit, transmission time not
//! shorter than the interval, several sources, delays that are measured), the replay processes packet by packet.
//!
//! *Not modelled*: blocks of more than one background source.

use super::super::PropagationDelay;
use super::super::lookahead::{Pace, UnderWay};
use super::backlog::{Backlog, LONGEST_RUN_BITS};
use super::earliest::Earliest;
use super::measured::StartedDelays;
use super::on_off::OnOff;
use super::{ComputedFifo, QueueCounters};
use crate::channel::Channel;
use lasthop_base::units::{Duration, ExactTime, Instant, Rate};

/// The parts of the link that background packets share with others.
pub(super) struct Line<'a> {
    pub backlog: &'a mut Backlog,
    pub propagation: &'a mut PropagationDelay,
    pub channel: &'a mut Channel,
    pub delays: Option<&'a mut StartedDelays>,
}

/// A background source. Its packets are discarded after this link.
#[derive(Clone, Debug)]
struct Background {
    source: OnOff,
    /// Length of a frame in bits, its transmission time, and the rate in which the fraction of that
    /// time is expressed.
    bits: u64,
    service: ExactTime,
    rate: Rate,
    /// Maximum number of packets per block; 0 if blocks must not be used.
    longest_block: u64,
    counters: QueueCounters,
    /// Departures of packets that survive the channel.
    under_way: UnderWay,
}

/// The background sources of one queue.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    sources: Vec<Background>,
    /// The earliest source, if there are several.
    earliest: Earliest,
    /// Time of the next packet, or [`Instant::NEVER`].
    next_at: Instant,
}

impl Replay {
    /// Without sources.
    pub fn new() -> Self {
        Replay { sources: Vec::new(), earliest: Earliest::default(), next_at: Instant::NEVER }
    }

    /// Returns `true` if there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Time of the next packet, or [`Instant::NEVER`].
    #[inline(always)]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Adds a source whose frames have `bits`, are sent at `rate` and arrive `delay` after their
    /// departure. `may_block`: whether blocks may be used if this is the only source.
    fn add(&mut self, source: OnOff, bits: u64, delay: Duration, may_block: bool, rate: Rate) {
        let service = ExactTime::default().after(bits, rate);
        // A margin of two nanoseconds keeps rounded times monotone within a block.
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

    /// Number of steps per second of simulated time.
    pub fn rate(&self) -> f64 {
        // With several sources, each packet requires a search for the earliest source.
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

    /// Sets the horizon: packets that have arrived by then are not kept.
    pub fn set_horizon(&mut self, horizon: Instant) {
        for background in &mut self.sources {
            background.under_way.set_horizon(horizon);
        }
    }

    /// Processes all packets up to and including `now`.
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
        if let Some(delays) = &mut line.delays {
            delays.record(at, at, airtime.start);
        }
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

    /// Processes as many packets as one rule covers; returns `false` if no rule applies.
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
            // Idle: every packet of the block is sent on arrival and has departed before the next
            // one.
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
            // Time at which the transmitter becomes idle before the packet `index` places after the
            // next one.
            let before = |index: u64| {
                if service.fraction == 0 {
                    ExactTime { nanos: free_at.nanos + index * service.nanos, ..free_at }
                } else {
                    free_at.after(bits * index, rate)
                }
            };
            // The backlog shrinks by at least two nanoseconds per packet. The packets that find the
            // transmitter busy are therefore the first ones of the block.
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

/// Returns the first number below `end` for which `holds` is false, or `end`. `holds` must be true
/// for all numbers below it and false above.
fn first_false(end: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl ComputedFifo {
    /// Adds `source`, which shares this queue. Returns its index for [`Self::background_counters`].
    pub fn add_background(&mut self, source: OnOff) -> usize {
        let bits = self.frame_bits(source.packet().get() as u32);
        let may_block = matches!(self.backlog.limit, super::Limit::Packets(_))
            && self.backlog.transmitter.is_steady()
            && self.propagation.constant().is_some()
            && matches!(self.channel, Channel::Clean(_))
            && self.delays.is_none();
        self.backlog.share(bits);
        self.usual = super::NO_LENGTH;
        let rate = self.backlog.transmitter.rate();
        // With a time-varying delay, arrival times are kept instead of departures.
        let delay = self.propagation.constant().unwrap_or_default();
        self.replay.add(source, bits, delay, may_block, rate);
        self.replay.sources.len() - 1
    }

    /// Number of surviving packets of background source `index` that have not arrived at `now`, the
    /// time of the last catch-up.
    pub fn background_under_way(&self, index: usize, now: Instant) -> u64 {
        self.replay.sources[index].under_way.after(now)
    }

    /// Counters of background source `index` at the last catch-up.
    pub fn background_counters(&self, index: usize) -> QueueCounters {
        self.replay.sources[index].counters
    }
}
