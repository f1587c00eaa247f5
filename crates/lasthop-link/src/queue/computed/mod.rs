//! A drop-tail FIFO in front of a transmitter, computed rather than simulated.
//!
//! The departure of a packet from a FIFO is determined by its arrival, so that departures need no
//! events. With a limit of `L` packets, including the one in transmission (as ns-2's `DropTail`
//! with `limit_` = L), an arrival is admitted if the packet admitted `L` places earlier has
//! departed: one comparison. If a departure and an arrival coincide, the departure is processed
//! first.
//!
//! Departures are stored as *runs* of packets of equal length that are sent back to back
//! ([`backlog`]). Therefore background traffic is cheap: an [`OnOff`] source that only shares this
//! queue is *replayed* on demand, in blocks of packets ([`replay`]).
//!
//! Precondition: the outcome and the departure of a packet only depend on earlier packets. This
//! holds for drop-tail in front of a link without protocol. The disciplines driven by events are in
//! [`Queue`](super::Queue).

mod backlog;
mod earliest;
mod measured;
mod on_off;
mod replay;

use super::lookahead::Ahead;
use super::{Delays, Limit, PropagationDelay, Transmitter};
use crate::channel::{Airtime, Channel, ErrorProcess};
use backlog::Backlog;
use lasthop_base::schema::metrics::{Ratio, metrics};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use measured::StartedDelays;
use replay::{Line, Replay};

pub use on_off::{OnOff, OnOffParameters};

/// Counters of a queue and its transmitter; always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Bits sent.
    pub bits_sent: u64,
    /// Frames that the channel destroyed.
    pub frames_lost: u64,
}

metrics! {
    /// A queue and its transmitter.
    pub struct QueueMetrics {
        /// Packets dropped by the queue.
        queue_drops: "Queue drops", Count, Lower, Sum;
        /// Frames sent.
        frames_sent: "Frames sent", Count, Neither, Sum;
        /// Frames that the channel destroyed.
        frames_lost: "Frames lost", Count, Lower, Sum;
        /// Frames that the channel destroyed, as a fraction of those sent.
        frame_loss: "Frame loss", Fraction, Lower, Mean, Ratio;
    }
}

impl From<&QueueCounters> for QueueMetrics {
    fn from(counters: &QueueCounters) -> Self {
        let QueueCounters { drops, frames_sent, frames_lost, .. } = *counters;
        let [sent, lost] = [frames_sent, frames_lost].map(|frames| frames as f64);
        QueueMetrics {
            queue_drops: drops as f64,
            frames_sent: sent,
            frames_lost: lost,
            frame_loss: Ratio::new(lost, sent),
        }
    }
}

impl std::ops::Add for QueueCounters {
    type Output = QueueCounters;
    fn add(self, rhs: QueueCounters) -> QueueCounters {
        QueueCounters {
            drops: self.drops + rhs.drops,
            frames_sent: self.frames_sent + rhs.frames_sent,
            bits_sent: self.bits_sent + rhs.bits_sent,
            frames_lost: self.frames_lost + rhs.frames_lost,
        }
    }
}

/// Outcome of a packet that is offered to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Dropped, because the queue is full.
    Dropped,
    /// Sent, but destroyed by the channel.
    Lost {
        /// End of the transmission.
        end: Instant,
    },
    /// Sent, and not destroyed by the channel.
    Sent {
        /// End of the transmission.
        end: Instant,
    },
}

impl std::ops::Sub for QueueCounters {
    type Output = QueueCounters;
    fn sub(self, rhs: QueueCounters) -> QueueCounters {
        QueueCounters {
            drops: self.drops - rhs.drops,
            frames_sent: self.frames_sent - rhs.frames_sent,
            bits_sent: self.bits_sent - rhs.bits_sent,
            frames_lost: self.frames_lost - rhs.frames_lost,
        }
    }
}

/// The queue, its transmitter, its channel, and the background traffic that shares them.
#[derive(Clone, Debug)]
pub struct ComputedFifo {
    backlog: Backlog,
    propagation: PropagationDelay,
    /// The propagation delay if it is constant.
    delay: Duration,
    channel: Channel,
    /// Frame header added to each packet, in bytes.
    header: u32,
    replay: Replay,
    counters: QueueCounters,
    /// If packets are offered ahead of time: the outcomes of the newest packets. Transmissions that
    /// end after `remembered_from` are recorded there.
    ahead: Option<Box<Ahead>>,
    remembered_from: Instant,
    /// Length of the last packet offered, if equal lengths can use the fast path, and the number of
    /// such packets that `counters` does not include yet.
    usual: u32,
    alike: u64,
    /// Queueing delays, if they are measured.
    delays: Option<Box<StartedDelays>>,
}

/// A length that no packet has, even with a header.
const NO_LENGTH: u32 = u32::MAX - u16::MAX as u32;

impl ComputedFifo {
    /// Creates an empty queue in front of an idle `transmitter`.
    pub fn new(transmitter: Transmitter, limit: Limit, header: Bytes, channel: Channel) -> Self {
        ComputedFifo {
            backlog: Backlog::new(transmitter, limit),
            propagation: PropagationDelay::default(),
            delay: Duration::ZERO,
            channel,
            header: header.get() as u32,
            replay: Replay::new(),
            counters: QueueCounters::default(),
            ahead: None,
            remembered_from: Instant::NEVER,
            usual: NO_LENGTH,
            alike: 0,
            delays: None,
        }
    }

    /// Sets the propagation delay.
    #[must_use]
    pub fn over(mut self, propagation: PropagationDelay) -> Self {
        match propagation.constant() {
            Some(delay) => self.delay = delay,
            None => self.backlog.write_everything(),
        }
        ComputedFifo { propagation, ..self }
    }

    /// Measures queueing delays. Call it before the first packet and before background traffic is added. Every
    /// packet is then processed separately.
    #[must_use]
    pub fn measured(mut self) -> Self {
        self.backlog.write_everything();
        ComputedFifo { delays: Some(Box::default()), ..self }
    }

    /// Delays of the packets whose transmission has started by `now`, at the last catch-up; `None` if they are not
    /// measured. `now` must not be before the time of the last packet, except those offered ahead of time.
    pub fn delays(&self, now: Instant) -> Option<Delays> {
        self.delays.as_ref().map(|delays| delays.until(now))
    }

    /// Arrival time of a surviving frame whose transmission ends at `end`. Call it for each
    /// surviving frame, in order.
    #[inline(always)]
    pub fn arrival(&mut self, end: Instant) -> Instant {
        self.propagation.arrival(end)
    }

    /// Enables packets to be offered ahead of time.
    pub fn run_ahead(&mut self) {
        self.ahead = Some(Box::default());
        self.remembered_from = Instant::ZERO;
    }

    /// Replays background traffic up to and including `now`. Call before reading counters.
    #[inline]
    pub fn catch_up(&mut self, now: Instant) {
        if self.replay.next_at() <= now {
            let ComputedFifo { replay, backlog, propagation, channel, delays, .. } = self;
            let delays = delays.as_deref_mut();
            replay.until(now, &mut Line { backlog, propagation, channel, delays });
        }
    }

    /// Like [`Self::catch_up`], and advances the channel, to which no frame may have been offered
    /// for a long time.
    pub fn catch_up_with_channel(&mut self, now: Instant) {
        self.catch_up(now);
        self.channel.catch_up(now);
    }

    /// Number of steps per second that the replay takes.
    pub fn replay_rate(&self) -> f64 {
        self.replay.rate() + self.channel.replay_rate()
    }

    /// Returns `true` if background traffic shares this queue.
    pub fn has_background(&self) -> bool {
        !self.replay.is_empty()
    }

    /// The transmitter.
    pub fn transmitter(&self) -> &Transmitter {
        &self.backlog.transmitter
    }

    /// Rate of the transmitter.
    pub fn rate(&self) -> Rate {
        self.backlog.transmitter.rate()
    }

    /// Counters of all packets, including background traffic up to the last catch-up.
    pub fn total_counters(&self) -> QueueCounters {
        let alike = QueueCounters {
            frames_sent: self.alike,
            bits_sent: self.alike * self.frame_bits(self.usual),
            ..QueueCounters::default()
        };
        self.counters + alike + self.replay.counters()
    }

    /// The part of [`Self::total_counters`] that has happened at `now`: drops, and frames that have
    /// started. `now` must not be before any arrival, except those offered ahead of time.
    pub fn counters(&self, now: Instant) -> QueueCounters {
        let later = match &self.ahead {
            Some(ahead) => ahead.after(now),
            None => self.backlog.unstarted(now),
        };
        self.total_counters() - later
    }

    /// Number of bits of the frame in transmission at `now` that are not yet sent.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        match &self.ahead {
            Some(ahead) => ahead.unsent_bits(now),
            None => {
                let waiting = self.backlog.unstarted(now).bits_sent;
                (self.backlog.transmitter.unsent_bits(now) - waiting as f64).max(0.0)
            }
        }
    }

    /// Time at which the transmission of a packet that arrives at `now` would start.
    pub fn next_start(&mut self, now: Instant) -> Instant {
        self.catch_up(now);
        self.backlog.transmitter.free_at().instant().max(now)
    }

    /// Frame header added to each packet, in bytes.
    pub fn header(&self) -> u32 {
        self.header
    }

    /// Sets the horizon: counters are not read for times before `horizon`.
    pub fn set_horizon(&mut self, horizon: Instant) {
        if let Some(ahead) = &mut self.ahead {
            ahead.set_horizon(horizon);
            self.remembered_from = horizon;
        }
        self.replay.set_horizon(horizon);
    }

    /// Offers a packet of `bytes` that arrives at `now`.
    #[inline]
    pub fn offer(&mut self, now: Instant, bytes: u32) -> Fate {
        self.offer_at(now, now, bytes)
    }

    /// Offers a packet of `bytes` that arrives at `now`. It may be later than `clock`, the current
    /// time, if [`Self::run_ahead`] has been called.
    #[inline(always)]
    pub fn offer_at(&mut self, clock: Instant, now: Instant, bytes: u32) -> Fate {
        if bytes != self.usual {
            return self.offer_any(clock, now, bytes);
        }
        let Some(airtime) = self.backlog.repeat(now) else { return self.offer_behind(clock, now) };
        self.alike += 1;
        self.expose(clock, airtime)
    }

    /// Like [`Self::offer_at`], but returns only the arrival time if the packet survives.
    #[inline(always)]
    pub fn pass_at(&mut self, clock: Instant, now: Instant, bytes: u32) -> Option<Instant> {
        let is_usual = bytes == self.usual;
        let Some(airtime) = is_usual.then(|| self.backlog.repeat(now)).flatten() else {
            let fate = if is_usual {
                self.offer_behind(clock, now)
            } else {
                self.offer_any(clock, now, bytes)
            };
            let Fate::Sent { end } = fate else { return None };
            return Some(self.arrival(end));
        };
        self.alike += 1;
        if self.channel.is_lost(airtime) {
            self.lose(clock, airtime.start, airtime.end);
            return None;
        }
        if airtime.end > self.remembered_from {
            self.remember(clock, airtime.start, airtime.end, false);
        }
        Some(airtime.end + self.delay)
    }

    /// Like [`Self::offer_at`], for a packet of the usual length that has to wait and cannot use
    /// the fast path.
    #[inline(never)]
    fn offer_behind(&mut self, clock: Instant, now: Instant) -> Fate {
        let Some(airtime) = self.backlog.repeat_behind(now) else {
            return self.refuse(clock, now);
        };
        self.alike += 1;
        self.expose(clock, airtime)
    }

    /// Like [`Self::offer_at`], for a packet whose length differs from the last one. Also used with
    /// background traffic, a limit in bytes or a time-varying rate or delay.
    #[inline(never)]
    fn offer_any(&mut self, clock: Instant, now: Instant, bytes: u32) -> Fate {
        self.catch_up(now);
        let bits = self.frame_bits(bytes);
        self.backlog.write_down();
        let Some(airtime) = self.backlog.admit(now, bits) else { return self.refuse(clock, now) };
        if self.backlog.is_plain() {
            // `alike` has counted packets of the previous length.
            let usual = self.frame_bits(self.usual);
            self.counters.frames_sent += self.alike;
            self.counters.bits_sent += self.alike * usual;
            self.usual = bytes;
            self.alike = 1;
        } else {
            self.counters.frames_sent += 1;
            self.counters.bits_sent += bits;
            if let Some(delays) = &mut self.delays {
                delays.record(clock, now, airtime.start);
            }
        }
        self.expose(clock, airtime)
    }

    /// Counts a packet that is dropped because the queue is full.
    #[cold]
    fn refuse(&mut self, clock: Instant, now: Instant) -> Fate {
        self.counters.drops += 1;
        if let Some(ahead) = &mut self.ahead {
            ahead.refuse(clock, now);
        }
        Fate::Dropped
    }

    /// Exposes an admitted packet to the error process.
    #[inline(always)]
    fn expose(&mut self, clock: Instant, airtime: Airtime) -> Fate {
        let Airtime { start, end, .. } = airtime;
        if self.channel.is_lost(airtime) {
            self.lose(clock, start, end);
            return Fate::Lost { end };
        }
        if end > self.remembered_from {
            self.remember(clock, start, end, false);
        }
        Fate::Sent { end }
    }

    /// Counts a packet whose frame the channel destroys; it must be the last one admitted.
    #[inline(never)]
    fn lose(&mut self, clock: Instant, start: Instant, end: Instant) {
        if end > self.remembered_from {
            self.remember(clock, start, end, true);
        }
        self.counters.frames_lost += 1;
        // Frames ahead of time are recorded one by one.
        if self.ahead.is_none() {
            self.backlog.mark_lost();
        }
    }

    #[inline(never)]
    fn remember(&mut self, clock: Instant, start: Instant, end: Instant, is_lost: bool) {
        if let Some(ahead) = &mut self.ahead {
            let bits = self.backlog.transmitter.last_bits();
            ahead.send(clock, Airtime { start, end, bits }, is_lost);
        }
    }

    /// Number of packets ahead of an arrival at `now`, including the one in transmission.
    pub fn length(&self, now: Instant) -> u64 {
        self.backlog.length(now)
    }

    /// Returns `true` if there is room for a packet of `bytes` at `now` and for another one like
    /// it.
    pub fn has_spare_room(&mut self, now: Instant, bytes: u32) -> bool {
        self.catch_up(now);
        match self.backlog.limit {
            Limit::Packets(limit) => self.length(now) + 2 <= limit,
            Limit::Bytes(limit) => {
                self.backlog.held_bits(now) + 2 * self.frame_bits(bytes) <= limit.bits()
            }
        }
    }

    #[inline]
    fn frame_bits(&self, bytes: u32) -> u64 {
        u64::from(bytes + self.header) * 8
    }
}
