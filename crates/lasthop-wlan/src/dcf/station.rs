//! A station of 802.11: its queue, the frame that it attempts to send, its contention window and its retry
//! counters.
//!
//! ```text
//!             packet, medium idle for DIFS, end of backoff
//!   +------+ -----------------------------------------------> +---------+
//!   | idle |                                                  | attempt |
//!   +------+ <---------------+             +----------------> +---------+
//!      |        backoff      |     backoff |                   |       |
//!      | packet, medium busy | ends, queue | ends      success |       | failure
//!      |                     |       empty |   CW = CWmin,     |       | CW doubles, counters
//!      |                  +-----------------------+ <----------+       | increase; at a limit the
//!      +----------------> |        backoff        |                    | frame is discarded and
//!                         +-----------------------+ <------------------+ CW = CWmin
//! ```
//!
//! A station has two retry counters, for short frames (SSRC) and long frames (SLRC), which determine when the
//! contention window is reset. Each frame also has two counters, which determine when it is discarded.
//! Frames above the RTS threshold are long; their RTS is short. Limits count attempts: a limit of 1 means no
//! retransmission.
//!
//! Source: IEEE Std 802.11-2012, 9.3.3 (random backoff), 9.3.4.3 (backoff procedure), 9.3.4.4 (recovery,
//! retry limits), 9.3.2.10 (duplicates).

use super::exchange::FrameExchange;
use super::session::{DriverQueue, Scheduler};
use lasthop_base::packet::Payload;
use lasthop_base::rng::Stream;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::queue::{DisciplineCounters, Queue, Transmitter};
use std::collections::VecDeque;

/// Parameters of a station's MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacParameters {
    /// Overhead of a data frame: MAC header, LLC and SNAP, FCS.
    pub header: Bytes,
    /// Data frames longer than this, including the header, are preceded by an RTS.
    pub rts_threshold: Bytes,
    /// Maximum number of attempts for a frame up to the RTS threshold, and for an RTS, at least 1.
    pub short_retry_limit: u32,
    /// Maximum number of attempts for a longer frame, at least 1.
    pub long_retry_limit: u32,
    /// Contention window of a first attempt, in slots.
    pub cw_min: u32,
    /// Maximum contention window, in slots.
    pub cw_max: u32,
    /// Delay from a failure to the backoff of the next attempt of the frame.
    pub retry_delay: Duration,
    /// Rate of its data frames, which its queue assumes as the service rate.
    pub rate: Rate,
}

/// Result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Acknowledged.
    Acknowledged,
    /// An RTS without CTS.
    NoCts,
    /// Data without acknowledgment; `is_long`: the frame exceeds the RTS threshold.
    NoAck { is_long: bool },
}

/// Action of a station after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The frame is finished.
    Done,
    /// The frame is retransmitted; `is_first`: for the first time.
    Retry { is_first: bool },
    /// A retry limit is reached; the frame is discarded.
    GiveUp,
}

/// A packet and its receiver.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<P> {
    /// Index of the pair of transmitter and receiver.
    pub(super) pair: u32,
    /// Time of its arrival at the queue.
    pub(super) arrived: Instant,
    pub(super) packet: P,
}

/// The queue sees the packet.
impl<P: Payload> Payload for Waiting<P> {
    fn wire_bytes(&self) -> u32 {
        self.packet.wire_bytes()
    }

    fn xor(&mut self, other: &Self) {
        self.packet.xor(&other.packet);
    }

    fn truncate(&mut self, bytes: u32) {
        self.packet.truncate(bytes);
    }

    fn slice(&self, from: u32, bytes: u32) -> Self {
        Waiting { packet: self.packet.slice(from, bytes), ..*self }
    }

    fn append(&mut self, next: &Self) {
        self.packet.append(&next.packet);
    }

    fn mark_congestion(&mut self) -> bool {
        self.packet.mark_congestion()
    }

    fn is_l4s(&self) -> bool {
        self.packet.is_l4s()
    }

    fn is_out(&self) -> bool {
        self.packet.is_out()
    }

    fn flow(&self) -> u64 {
        self.packet.flow()
    }
}

/// Access category of a station: a host with several has a station for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Category {
    /// Number of the host; stations of one host do not collide.
    pub host: u16,
    /// Of stations of a host whose backoffs end in the same slot, the one with the highest priority transmits.
    pub priority: u8,
    /// Slots of its AIFS above those of the medium's DIFS.
    pub extra_slots: u32,
    /// Maximum duration of a TXOP; 0: one PPDU with its response.
    pub txop_limit: Duration,
}

/// The frame that a station attempts to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current<P> {
    pub pair: u32,
    pub packet: P,
    /// Time of the arrival of the packet at the queue.
    pub arrived: Instant,
    pub sequence: u64,
    /// Failures that count towards the short and the long limit.
    short_failures: u32,
    long_failures: u32,
    /// Whether its data has been transmitted before.
    pub is_retry: bool,
}

impl<P> Current<P> {
    /// Returns `true` if an attempt of the frame has failed.
    pub fn has_failed(&self) -> bool {
        self.short_failures + self.long_failures > 0
    }
}

/// A station.
#[derive(Clone, Debug)]
pub(super) struct Station<P: Payload> {
    pub parameters: MacParameters,
    pub queue: Queue<Waiting<P>>,
    pub current: Option<Current<P>>,
    /// Directions with a block-ack agreement: none, or all of the station.
    pub directions: VecDeque<u32>,
    /// Order in which directions with queues of their own are served.
    pub scheduler: Scheduler,
    /// Packets that its driver takes from these queues in advance.
    pub driver: DriverQueue,
    /// The direction with a block-ack agreement that the station serves next.
    pub turn: Option<u32>,
    /// The current attempt of a direction with a block-ack agreement.
    pub exchange: Option<FrameExchange>,
    /// Packets of such directions that have no number, and all packets in the MAC with their bytes.
    pub waiting: u32,
    pub in_mac: [u64; 2],
    pub category: Category,
    /// Number of its class of stations with equal AIFS.
    pub class: u16,
    /// End of the TXOP in progress, if any.
    pub txop_end: Option<Instant>,
    /// Contention window of the next backoff.
    cw: u32,
    /// SSRC and SLRC.
    short_retries: u32,
    long_retries: u32,
    next_sequence: u64,
    /// Idle slot of the medium in which its backoff ends, with or without a frame, less the shift of its class.
    pub backoff_until: u64,
    /// Time until which the medium counts as busy for the station.
    pub defer_until: Instant,
    /// Time until which a frame occupies its place in the queue: the end of its acknowledgment.
    held_until: Instant,
    held_bytes: u64,
    /// Periods during which the station is out of range, in order.
    away: Vec<[Instant; 2]>,
    backoff: Stream,
}

impl<P: Payload> Station<P> {
    /// Creates an idle station whose packets wait in `queue`; `backoff` is the random stream of its backoffs.
    pub fn new(parameters: MacParameters, queue: Queue<Waiting<P>>, backoff: Stream) -> Self {
        debug_assert!(
            parameters.short_retry_limit > 0 && parameters.long_retry_limit > 0,
            "limits count attempts"
        );
        Station {
            parameters,
            queue,
            current: None,
            directions: VecDeque::new(),
            scheduler: Scheduler::Fifo,
            driver: DriverQueue::Pull,
            turn: None,
            exchange: None,
            waiting: 0,
            in_mac: [0, 0],
            category: Category { host: 0, priority: 0, extra_slots: 0, txop_limit: Duration::ZERO },
            class: 0,
            txop_end: None,
            cw: parameters.cw_min,
            short_retries: 0,
            long_retries: 0,
            next_sequence: 0,
            backoff_until: 0,
            defer_until: Instant::ZERO,
            held_until: Instant::ZERO,
            held_bytes: 0,
            away: Vec::new(),
            backoff,
        }
    }

    /// Sets the `periods` during which the station is out of range. They are in order and do not overlap.
    pub fn set_away(&mut self, periods: &[[Instant; 2]]) {
        self.away = periods.to_vec();
    }

    /// Returns the end of the period during which the station is out of range at `now`, if any.
    pub fn away_until(&self, now: Instant) -> Option<Instant> {
        let [from, until] = *self.away.iter().find(|[_, until]| now < *until)?;
        (from <= now).then_some(until)
    }

    /// Returns the frame that the station attempts to send.
    #[inline]
    pub fn frame(&self) -> &Current<P> {
        let Some(frame) = &self.current else { unreachable!("an attempt is that of a frame") };
        frame
    }

    /// Returns `true` if the directions of the station have block-ack agreements.
    pub fn is_aggregating(&self) -> bool {
        !self.directions.is_empty()
    }

    /// Returns `true` if the station has something to send.
    pub fn is_contending(&self) -> bool {
        self.current.is_some() || self.turn.is_some()
    }

    /// Returns the direction of what the station sends next, if any.
    pub fn next_pair(&self) -> Option<u32> {
        self.turn.or_else(|| self.current.as_ref().map(|frame| frame.pair))
    }

    /// Returns the direction of the attempt.
    pub fn attempted(&self) -> u32 {
        self.turn.unwrap_or_else(|| self.frame().pair)
    }

    /// Takes a packet with its direction from the shared queue.
    pub fn dequeue(&mut self, now: Instant) -> Option<Waiting<P>> {
        self.queue.dequeue(now)
    }

    /// Records that a packet has entered the MAC. Returns its length with header.
    pub fn enter_mac(&mut self, packet: &impl Payload) -> u64 {
        self.waiting += 1;
        let bytes = self.frame_length(packet).get();
        self.in_mac = [self.in_mac[0] + 1, self.in_mac[1] + bytes];
        bytes
    }

    /// Records that a packet without a number has left the MAC. Returns its length with header.
    pub fn leave_mac(&mut self, packet: &impl Payload) -> u64 {
        self.waiting -= 1;
        let bytes = self.frame_length(packet).get();
        self.in_mac = [self.in_mac[0] - 1, self.in_mac[1] - bytes];
        bytes
    }

    /// Resets the contention window of EDCA after a success, doubles it after as many failures as the retry limit
    /// permits, and resets it after the next one (802.11-2020, 10.23.2.2); the DCF resets it after the last of them.
    pub fn update_window(&mut self, is_success: bool) {
        let MacParameters { short_retry_limit, cw_min, cw_max, .. } = self.parameters;
        if is_success || self.short_retries >= short_retry_limit {
            (self.short_retries, self.cw) = (0, cw_min);
        } else {
            self.short_retries += 1;
            self.cw = self.cw.saturating_mul(2).saturating_add(1).min(cw_max);
        }
    }

    /// Returns the length of the frame of `packet`.
    pub fn frame_length(&self, packet: &impl Payload) -> Bytes {
        Bytes::new(u64::from(packet.wire_bytes()) + self.parameters.header.get())
    }

    /// Returns the state of the transmitter for its queue: the frame being sent, and the frame
    /// whose acknowledgment is not over.
    fn server(&self, now: Instant) -> Transmitter {
        let is_held = now < self.held_until;
        let held = if is_held { self.held_bytes } else { 0 };
        let (current, until) = match &self.current {
            Some(frame) => (self.frame_length(&frame.packet).get(), Instant::NEVER),
            None => (0, self.held_until),
        };
        let frames = u64::from(is_held) + u64::from(self.current.is_some());
        let [packets, bytes] = self.in_mac;
        if packets > 0 {
            return Transmitter::standing_in(self.parameters.rate, packets, bytes, Instant::NEVER);
        }
        Transmitter::standing_in(self.parameters.rate, frames, held + current, until)
    }

    /// Returns the number of packets that the queue counts at its transmitter: those in the MAC, or the frame being
    /// sent and the frame whose acknowledgment is not over.
    fn frames_inside(&self, now: Instant) -> u64 {
        match self.in_mac[0] {
            0 => u64::from(now < self.held_until) + u64::from(self.current.is_some()),
            packets => packets,
        }
    }

    /// Returns `true` if only packets passed to the queue are dropped.
    #[inline]
    pub fn drops_arrivals_only(&self) -> bool {
        self.queue.is_drop_tail()
    }

    /// Returns `true` if the queue has room for `count` packets like `packet`.
    pub fn has_room(&self, now: Instant, packet: &P, count: u64) -> bool {
        self.queue.has_room(now, packet.wire_bytes(), count, &self.server(now))
    }

    /// Returns the number of packets in the queue, including the frame being sent.
    pub fn length(&self, now: Instant) -> u64 {
        let inside = u64::from(now < self.held_until) + u64::from(self.current.is_some());
        self.queue.len() as u64 + inside + self.in_mac[0]
    }

    /// Appends a packet to the queue; returns `false` if the queue is full.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, pair: u32, packet: P) -> bool {
        let waiting = Waiting { pair, arrived: now, packet };
        let known = self.queue.enqueue_behind(waiting, self.frames_inside(now));
        known.unwrap_or_else(|waiting| {
            let server = self.server(now);
            self.queue.enqueue(now, waiting, &server)
        })
    }

    /// Returns the packets that the queue dropped during the last call, excluding the packet passed
    /// to [`Self::enqueue`], with their pairs.
    pub fn dropped(&self) -> impl Iterator<Item = &Waiting<P>> {
        self.queue.dropped()
    }

    /// Returns the counters of the queue discipline; `None` if the queue drops packets only when it is full.
    pub fn early(&self) -> Option<DisciplineCounters> {
        self.queue.detects_early().then(|| self.queue.counters())
    }

    /// Dequeues the next frame, if any.
    pub fn take_next(&mut self, now: Instant) -> bool {
        debug_assert!(self.current.is_none(), "one frame at a time");
        let next = self.queue.dequeue(now);
        let Some(Waiting { pair, arrived, packet }) = next else { return false };
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.current = Some(Current {
            pair,
            packet,
            arrived,
            sequence,
            short_failures: 0,
            long_failures: 0,
            is_retry: false,
        });
        true
    }

    /// Samples a backoff: uniform from 0 to CW slots.
    pub fn draw_backoff(&mut self) -> u32 {
        let values = u64::from(self.cw) + 1;
        (((self.backoff.bits() >> 32) * values) >> 32) as u32
    }

    /// Returns the current contention window.
    pub fn contention_window(&self) -> u32 {
        self.cw
    }

    /// Processes a CTS.
    pub fn on_cts(&mut self) {
        self.short_retries = 0;
    }

    /// Processes the end of an attempt; `until`: the end of its acknowledgment.
    #[inline(always)]
    pub fn on_attempt(&mut self, attempt: Attempt, until: Instant) -> Next {
        let MacParameters { short_retry_limit, long_retry_limit, cw_min, cw_max, .. } =
            self.parameters;
        let Some(frame) = &mut self.current else { unreachable!("an attempt is that of a frame") };
        let is_first = !frame.has_failed();
        // The station's counter, the frame's counter, and their common limit.
        let (retries, failures, limit) = match attempt {
            Attempt::Acknowledged => {
                self.held_bytes =
                    u64::from(frame.packet.wire_bytes()) + self.parameters.header.get();
                self.held_until = until;
                self.current = None;
                (self.short_retries, self.long_retries, self.cw) = (0, 0, cw_min);
                return Next::Done;
            }
            Attempt::NoAck { is_long: true } => {
                (&mut self.long_retries, &mut frame.long_failures, long_retry_limit)
            }
            Attempt::NoAck { is_long: false } | Attempt::NoCts => {
                (&mut self.short_retries, &mut frame.short_failures, short_retry_limit)
            }
        };
        *failures += 1;
        let is_given_up = *failures >= limit;
        *retries += 1;
        self.cw = if *retries >= limit {
            *retries = 0;
            cw_min
        } else {
            self.cw.saturating_mul(2).saturating_add(1).min(cw_max)
        };
        if attempt != Attempt::NoCts {
            frame.is_retry = true;
        }
        if is_given_up {
            self.current = None;
            return Next::GiveUp;
        }
        Next::Retry { is_first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::{Ecn, Packet};
    use lasthop_base::rng::Streams;
    use lasthop_link::queue::Limit;

    fn station(short: u32, long: u32) -> Station<Vec<u8>> {
        let parameters = MacParameters {
            header: Bytes::new(28),
            rts_threshold: Bytes::new(500),
            short_retry_limit: short,
            long_retry_limit: long,
            cw_min: 31,
            cw_max: 255,
            retry_delay: Duration::ZERO,
            rate: Rate::from_bps(11_000_000),
        };
        let streams = Streams { seed: 1, replication: 0 };
        let queue = Queue::drop_tail(Limit::Packets(3), parameters.header);
        Station::new(parameters, queue, streams.stream("station", "back-off"))
    }

    /// Dequeues packets until the station has a frame.
    fn with_frame(mut station: Station<Vec<u8>>) -> Station<Vec<u8>> {
        assert!(station.enqueue(Instant::ZERO, 0, vec![0; 100]));
        assert!(station.take_next(Instant::ZERO));
        station
    }

    #[test]
    fn the_window_doubles_up_to_its_limit_and_starts_again() {
        let mut one = with_frame(station(7, 4));
        let fail = Attempt::NoAck { is_long: false };
        let (mut windows, mut nexts) = (vec![one.contention_window()], Vec::new());
        for _ in 0..7 {
            nexts.push(one.on_attempt(fail, Instant::ZERO));
            windows.push(one.contention_window());
        }
        assert_eq!(windows, [31, 63, 127, 255, 255, 255, 255, 31]);
        assert_eq!(nexts[0], Next::Retry { is_first: true });
        assert!(nexts[1..6].iter().all(|&next| next == Next::Retry { is_first: false }));
        assert_eq!(nexts[6], Next::GiveUp);
    }

    #[test]
    fn the_window_of_edca_is_reset_by_the_failure_after_the_limit() {
        let mut one = station(5, 4);
        for window in [63, 127, 255, 255, 255, 31, 63] {
            one.update_window(false);
            assert_eq!(one.contention_window(), window);
        }
        one.update_window(true);
        assert_eq!(one.contention_window(), 31);
    }

    #[test]
    fn rts_count_as_short_and_their_data_as_long() {
        let mut one = with_frame(station(3, 2));
        assert_eq!(one.on_attempt(Attempt::NoCts, Instant::ZERO), Next::Retry { is_first: true });
        one.on_cts();
        let fail = Attempt::NoAck { is_long: true };
        assert_eq!(one.on_attempt(fail, Instant::ZERO), Next::Retry { is_first: false });
        // The CTS has reset the station's counter, but not that of the frame.
        assert_eq!(one.on_attempt(Attempt::NoCts, Instant::ZERO), Next::Retry { is_first: false });
        assert_eq!(one.contention_window(), 255);
        assert_eq!(one.on_attempt(Attempt::NoCts, Instant::ZERO), Next::GiveUp);
    }

    #[test]
    fn the_limit_counts_the_frame_until_its_acknowledgment_is_over() {
        let mut one = with_frame(station(7, 4));
        let packet = vec![0; 100];
        let accepted = [(); 3].map(|()| one.enqueue(Instant::ZERO, 0, packet.clone()));
        assert_eq!(accepted, [true, true, false]);
        let over = Instant::from_nanos(100);
        assert_eq!(one.on_attempt(Attempt::Acknowledged, over), Next::Done);
        assert!(one.take_next(Instant::from_nanos(50)));
        assert!(!one.enqueue(Instant::from_nanos(99), 0, packet.clone()));
        assert!(one.enqueue(over, 0, packet));
    }

    /// 64,000 samples from 0 to 63: each count within 5 standard errors, false-positive rate below 4e-5 in total.
    #[test]
    fn backoffs_are_uniform() {
        let mut one = with_frame(station(7, 4));
        one.on_attempt(Attempt::NoAck { is_long: false }, Instant::ZERO);
        let mut counts = [0u32; 64];
        for _ in 0..64_000 {
            counts[one.draw_backoff() as usize] += 1;
        }
        for count in counts {
            assert!((f64::from(count) - 1000.0).abs() < 5.0 * 1000f64.sqrt(), "{count}");
        }
    }

    #[test]
    fn a_queue_sees_the_ecn_field_of_what_waits() {
        let mut packet = Packet::default();
        assert!(!Waiting { pair: 0, arrived: Instant::ZERO, packet }.is_l4s());
        packet.tcp.ecn = Ecn::Ect1;
        assert!(Waiting { pair: 0, arrived: Instant::ZERO, packet }.is_l4s());
    }

    #[test]
    fn periods_out_of_reach() {
        let mut one = station(7, 4);
        let at = Instant::from_nanos;
        one.set_away(&[[at(10), at(20)], [at(30), at(40)]]);
        for (now, until) in [(9, None), (10, Some(20)), (19, Some(20)), (20, None), (35, Some(40))]
        {
            assert_eq!(one.away_until(at(now)), until.map(at));
        }
        assert_eq!(one.away_until(at(40)), None);
    }
}
