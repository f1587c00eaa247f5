//! A minimal driver for tests: two endpoints and two directions with a rate and a delay.

use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::wire::NumberWidth;
use lasthop_link::link::{
    Abilities, Acknowledgment, CarriesFrames, Endpoint, Frame, FrameKind, GoBackN,
    GoBackNParameters, Harq, HarqMode, HarqParameters, IdealSr, IdealSrParameters, LinkEndpoint,
    LinkEvent, LinkTiming, Raw, Release, Renack, Rlc, RlcParameters, Rlp, RlpParameters,
    SelectiveRepeat, SelectiveRepeatParameters, ServiceParameters, Services, ServicesParameters,
    StopAndWait, StopAndWaitParameters, TimerMode, XorFec, XorFecParameters,
};
use lasthop_link::queue::{Limit, Queue};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::num::NonZeroU32;

/// A packet that consists of a number and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub number: u64,
    pub bytes: u32,
}

impl Payload for Token {
    fn wire_bytes(&self) -> u32 {
        self.bytes
    }

    fn xor(&mut self, other: &Self) {
        self.number ^= other.number;
        self.bytes = self.bytes.max(other.bytes);
    }

    fn truncate(&mut self, bytes: u32) {
        self.bytes = self.bytes.min(bytes);
    }

    fn slice(&self, _from: u32, bytes: u32) -> Self {
        Token { bytes, ..*self }
    }

    fn append(&mut self, next: &Self) {
        assert_eq!(self.number, next.number, "pieces of one packet belong together");
        self.bytes += next.bytes;
    }

    /// Cycles through four classes, for links that distinguish classes.
    fn class(&self) -> u8 {
        (self.number % 4) as u8
    }
}

/// Tokens cannot carry frames.
impl CarriesFrames for Token {}

/// `count` packets of `bytes` bytes, all offered at time 0.
pub fn tokens(count: u64, bytes: u32) -> VecDeque<(Instant, Token)> {
    (0..count).map(|number| (Instant::ZERO, Token { number, bytes })).collect()
}

/// Outcome of the k-th frame of a direction: whether it is lost, and its extra delay.
pub type Fate = Box<dyn FnMut(u64) -> (bool, Duration)>;

/// Outcomes of the first frames of a direction (lost, extra delay in ms). Later frames arrive
/// without extra delay.
pub type Pattern = Vec<(bool, u64)>;

/// The outcomes of `pattern` as a function.
pub fn fate(pattern: &Pattern) -> Fate {
    let pattern = pattern.clone();
    Box::new(move |index| {
        let (lost, extra) = pattern.get(index as usize).copied().unwrap_or((false, 0));
        (lost, Duration::from_millis(extra))
    })
}

/// Packets of different lengths with these intervals in milliseconds.
pub fn offers(gaps: &[u64]) -> VecDeque<(Instant, Token)> {
    let mut at = Instant::ZERO;
    let token = |(number, &gap): (usize, &u64)| {
        at += Duration::from_millis(gap);
        (at, Token { number: number as u64, bytes: 1 + (number as u32 * 37) % 250 })
    };
    gaps.iter().enumerate().map(token).collect()
}

/// A direction without losses.
pub fn clean() -> Fate {
    Box::new(|_| (false, Duration::ZERO))
}

/// A direction that loses the frames with these indices.
pub fn losing(indices: &'static [u64]) -> Fate {
    Box::new(move |index| (indices.contains(&index), Duration::ZERO))
}

/// Conversion of a frame before it is passed to the receiving endpoint.
pub type Codec<P> = fn(Frame<P>, &LinkEndpoint<P>) -> Frame<P>;

/// Bit mask of the intact units of the k-th frame, which is in transmission between these times.
pub type UnitFate = Box<dyn FnMut(u64, [Instant; 2]) -> u64>;

/// Selects frames of a direction by index.
pub type Choice = Box<dyn FnMut(u64) -> bool>;

/// One frame of the log: start, sending end, kind, acknowledgment.
pub type LogEntry = (Instant, usize, FrameKind, Option<u64>);

/// A frame in transit. Damaged frames are only kept if the receiver processes them.
#[derive(Clone)]
struct Flying<P> {
    frame: Frame<P>,
    is_damaged: bool,
}

struct Direction<P> {
    fate: Fate,
    frames: u64,
    busy_until: Instant,
    last_arrival: Instant,
    in_flight: VecDeque<(Instant, Flying<P>)>,
}

/// Maximum number of arrivals and deadlines before a run is considered endless; tests need a tenth.
const MOST_TURNS: u32 = 20_000_000;

/// Two endpoints and the channels between them.
pub struct Link<P: Payload> {
    pub ends: [LinkEndpoint<P>; 2],
    pub delivered: [Vec<P>; 2],
    pub delivered_at: [Vec<Instant>; 2],
    /// Events of the ends and their times, if a log is kept.
    pub events: [Vec<LinkEvent>; 2],
    pub event_times: [Vec<Instant>; 2],
    /// Delivery reports of the ends, if enabled.
    pub fates: [Vec<(DeliveryReport, P)>; 2],
    /// Frames received by each end and their times, if a log is kept.
    pub arrivals: [Vec<(Instant, FrameKind)>; 2],
    /// All frames in order of transmission, if kept.
    pub log: Option<Vec<LogEntry>>,
    /// Whether the call contract is checked at every step, which is slow.
    pub strict: bool,
    pub now: Instant,
    rate: Rate,
    delay: Duration,
    codec: Codec<P>,
    /// Masks of the surviving units, for frames with units.
    pub unit_fates: [Option<UnitFate>; 2],
    /// Selects the frames that arrive twice.
    pub repeated: [Option<Choice>; 2],
    offers: [VecDeque<(Instant, P)>; 2],
    directions: [Direction<P>; 2],
}

impl<P: CarriesFrames + Debug> Link<P> {
    pub fn new(
        ends: [LinkEndpoint<P>; 2],
        (rate, delay): (Rate, Duration),
        offers: [VecDeque<(Instant, P)>; 2],
        fates: [Fate; 2],
    ) -> Self {
        Link {
            ends,
            delivered: [Vec::new(), Vec::new()],
            delivered_at: [Vec::new(), Vec::new()],
            events: [Vec::new(), Vec::new()],
            event_times: [Vec::new(), Vec::new()],
            fates: [Vec::new(), Vec::new()],
            arrivals: [Vec::new(), Vec::new()],
            log: None,
            strict: false,
            now: Instant::ZERO,
            rate,
            delay,
            codec: |frame, _| frame,
            unit_fates: [None, None],
            repeated: [None, None],
            offers,
            directions: fates.map(|fate| Direction {
                fate,
                frames: 0,
                busy_until: Instant::ZERO,
                last_arrival: Instant::ZERO,
                in_flight: VecDeque::new(),
            }),
        }
    }

    pub fn with_codec(mut self, codec: Codec<P>) -> Self {
        self.codec = codec;
        self
    }

    /// Runs until no events are left or until `end`. Endpoints that never become idle fail the test
    /// instead of exhausting the memory with their log.
    pub fn run(&mut self, end: Instant) {
        for _ in 0..MOST_TURNS {
            for side in 0..2 {
                while self.transmit(side) {}
            }
            let next = (0..2).map(|side| self.next_instant(side)).min().unwrap_or(Instant::NEVER);
            if next == Instant::NEVER || next >= end {
                return;
            }
            self.now = self.now.max(next);
            for side in 0..2 {
                self.arrive(side);
                self.wake(side);
            }
        }
        panic!("no end after {MOST_TURNS} turns, at {:?}", self.now);
    }

    fn next_instant(&self, side: usize) -> Instant {
        let direction = &self.directions[side];
        let mut next = self.ends[side].next_timeout();
        if let Some((arrival, _)) = direction.in_flight.front() {
            next = next.min(*arrival);
        }
        if direction.busy_until > self.now {
            next = next.min(direction.busy_until);
        }
        match self.offers[side].front() {
            Some((offer, _)) if *offer > self.now => next.min(*offer),
            _ => next,
        }
    }

    /// Sends the next frame of `side`. Returns `true` if it takes no time, so that another one may
    /// follow.
    fn transmit(&mut self, side: usize) -> bool {
        let (now, end) = (self.now, &mut self.ends[side]);
        if self.directions[side].busy_until > now {
            return false;
        }
        // Endpoints with internal queues accept all packets; the others accept one at a time.
        while self.offers[side].front().is_some_and(|(offer, _)| *offer <= now)
            && end.wants_packet()
        {
            let (_, packet) = self.offers[side].pop_front().expect("an offer");
            end.enqueue(now, packet);
        }
        let Some(mut frame) = end.poll_transmit(now) else {
            if self.strict {
                let before = format!("{end:?}");
                assert!(end.poll_transmit(now).is_none(), "output without progress");
                assert_eq!(before, format!("{end:?}"), "an idle poll changes nothing");
            }
            return false;
        };
        self.drain(side);
        if let Some(log) = &mut self.log {
            log.push((now, side, frame.kind, frame.ack));
        }
        let direction = &mut self.directions[side];
        let is_free = frame.bytes == 0;
        let airtime = u64::from(frame.bytes) * 8_000_000_000 / self.rate.as_bps();
        direction.busy_until = now + Duration::from_nanos(airtime);
        let (mut is_damaged, jitter) = match is_free {
            true => (false, Duration::ZERO),
            false => (direction.fate)(direction.frames),
        };
        if let FrameKind::Block { intact, .. } = &mut frame.kind
            && let Some(fate) = &mut self.unit_fates[side]
        {
            *intact &= fate(direction.frames, [now, direction.busy_until]);
            is_damaged |= *intact == 0;
        }
        let index = direction.frames;
        direction.frames += u64::from(!is_free);
        if !is_damaged || self.ends[1 - side].ideal_feedback().is_some() {
            let arrival = direction.busy_until + self.delay + jitter;
            direction.last_arrival = direction.last_arrival.max(arrival);
            let flying = Flying { frame, is_damaged };
            if self.repeated[side].as_mut().is_some_and(|is_repeated| is_repeated(index)) {
                direction.in_flight.push_back((direction.last_arrival, flying.clone()));
            }
            direction.in_flight.push_back((direction.last_arrival, flying));
        }
        is_free
    }

    /// Passes the frames that `side` has sent and that arrive now to the other end.
    fn arrive(&mut self, side: usize) {
        let other = 1 - side;
        while self.directions[side].in_flight.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, flying) = self.directions[side].in_flight.pop_front().expect("a frame");
            if flying.is_damaged {
                let ideal = self.ends[other].ideal_feedback().expect("ideal feedback");
                ideal.receive_damaged(self.now, flying.frame);
                self.drain(other);
                continue;
            }
            let frame = (self.codec)(flying.frame, &self.ends[other]);
            if self.log.is_some() {
                self.arrivals[other].push((self.now, frame.kind));
            }
            self.ends[other].receive(self.now, frame);
            self.take_delivered(other);
            self.drain(other);
        }
    }

    fn wake(&mut self, side: usize) {
        let (now, end) = (self.now, &mut self.ends[side]);
        if end.next_timeout() <= now {
            end.handle_timeout(now);
            self.take_delivered(side);
        }
        let end = &mut self.ends[side];
        if self.strict {
            assert!(end.next_timeout() > now, "a deadline stays in the past");
            let before = format!("{end:?}");
            end.handle_timeout(now);
            assert_eq!(before, format!("{end:?}"), "a spurious wake changes nothing");
        }
        self.drain(side);
    }

    fn take_delivered(&mut self, side: usize) {
        while let Some(packet) = self.ends[side].poll_deliver() {
            self.delivered[side].push(packet);
            self.delivered_at[side].push(self.now);
        }
    }

    fn drain(&mut self, side: usize) {
        self.fates[side].extend(std::iter::from_fn(|| self.ends[side].delivery_reports()?.poll()));
        while let Some(event) = self.ends[side].poll_event() {
            if self.log.is_some() {
                self.events[side].push(event);
                self.event_times[side].push(self.now);
            }
        }
    }
}

/// A protocol with its parameters, printable for failing cases.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    Raw,
    SelectiveRepeat(SelectiveRepeatParameters),
    GoBackN(GoBackNParameters),
    Rlp(RlpParameters),
    StopAndWait(StopAndWaitParameters),
    XorFec(XorFecParameters),
    IdealSr(IdealSrParameters),
    Rlc(RlcParameters),
    Harq(HarqParameters),
}

impl Protocol {
    pub fn ends<P: Payload + Clone>(self) -> [LinkEndpoint<P>; 2] {
        [self.end(), self.end()]
    }

    fn end<P: Payload + Clone>(self) -> LinkEndpoint<P> {
        match self {
            Protocol::Raw => LinkEndpoint::Raw(Raw::new()),
            Protocol::SelectiveRepeat(parameters) => LinkEndpoint::SelectiveRepeat(
                SelectiveRepeat::new(parameters).expect("valid parameters"),
            ),
            Protocol::GoBackN(parameters) => {
                LinkEndpoint::GoBackN(GoBackN::new(parameters).expect("valid parameters"))
            }
            Protocol::Rlp(parameters) => {
                LinkEndpoint::KarnRlp(Rlp::new(parameters).expect("valid parameters"))
            }
            Protocol::StopAndWait(parameters) => {
                LinkEndpoint::StopAndWait(StopAndWait::new(parameters).expect("valid parameters"))
            }
            Protocol::XorFec(parameters) => {
                LinkEndpoint::XorFec(XorFec::new(parameters).expect("valid parameters"))
            }
            Protocol::IdealSr(parameters) => {
                LinkEndpoint::IdealSr(Box::new(IdealSr::new(parameters).expect("valid parameters")))
            }
            Protocol::Harq(parameters) => {
                LinkEndpoint::Harq(Box::new(Harq::new(parameters).expect("valid parameters")))
            }
            Protocol::Rlc(parameters) => {
                LinkEndpoint::RlcAm(Box::new(Rlc::new(parameters).expect("valid parameters")))
            }
        }
    }
}

/// Both ends of a link shared by these protocols. The k-th one has weight k + 1 and packets of
/// class k.
pub fn services<P: CarriesFrames>(protocols: &[Protocol], identifier: u64) -> [LinkEndpoint<P>; 2] {
    let end = || {
        let service = |(index, protocol): (usize, &Protocol)| ServiceParameters {
            endpoint: protocol.end(),
            weight: NonZeroU32::MIN.saturating_add(index as u32),
            queue: Queue::drop_tail(Limit::Packets(1000), Bytes::new(2 + identifier)),
        };
        let parameters = ServicesParameters {
            services: protocols.iter().enumerate().map(service).collect(),
            classes: (0..protocols.len() as u8).collect(),
            identifier: Bytes::new(identifier),
            rate: Rate::from_bps(1_000_000),
            measure: None,
        };
        LinkEndpoint::Services(Box::new(Services::new(parameters).expect("valid parameters")))
    };
    [end(), end()]
}

/// Selective repeat that repeats a NACK after half of the timeout and ignores outdated NACKs for
/// that time.
pub fn selective_repeat(window: u32, timeout: Duration) -> SelectiveRepeatParameters {
    SelectiveRepeatParameters {
        window,
        timeout,
        renack: Renack::AfterRoundTrip(Duration::from_nanos(timeout.as_nanos() / 2)),
        timer: TimerMode::PerFrame,
        nack_guard: Duration::from_nanos(timeout.as_nanos() / 2),
        acknowledgment: Acknowledgment::Piggyback,
        header: NumberWidth::selective(window).header(),
        control: NumberWidth::selective(window).header(),
    }
}

/// Go-back-N without rejects.
pub fn go_back_n(window: u32, timeout: Duration) -> GoBackNParameters {
    GoBackNParameters {
        window,
        timeout,
        restart_on_ack: false,
        reject: false,
        acknowledgment: Acknowledgment::Piggyback,
        header: NumberWidth::cumulative(window).header(),
        control: NumberWidth::cumulative(window).header(),
    }
}

/// Stop-and-wait that abandons a frame after this number of retransmissions.
pub fn stop_and_wait(retries: Option<u32>, timeout: Duration) -> StopAndWaitParameters {
    StopAndWaitParameters { retries, timeout, header: Bytes::new(2), control: Bytes::new(2) }
}

/// Exclusive-or FEC with the one-byte header.
pub fn xor_fec(block: u32, parity_timeout: Duration) -> XorFecParameters {
    XorFecParameters {
        block,
        interleave: 1,
        parity_timeout,
        in_order: false,
        header: Bytes::new(1),
    }
}

/// Ideal selective repeat with segments of 40 B.
pub fn ideal_sr(max_transmissions: Option<u32>) -> IdealSrParameters {
    IdealSrParameters { max_transmissions, payload: Bytes::new(40), header: Bytes::new(2) }
}

/// RLC acknowledged mode with its defaults for a link with equal directions.
pub fn rlc(payload: u64, rate: Rate, delay: Duration) -> RlcParameters {
    let pdu = Bytes::new(2 + payload);
    let timing = LinkTiming::symmetric(rate, delay, pdu, pdu);
    RlcParameters::for_link(&timing, Bytes::new(payload))
}

/// Hybrid ARQ with blocks of `units` units, without a retry limit and with the given timeout.
pub fn harq(units: u32, timeout: Duration) -> HarqParameters {
    let timing =
        LinkTiming::symmetric(Rate::UNLIMITED, timeout, Bytes::default(), Bytes::default());
    HarqParameters { timeout, max_transmissions: None, ..HarqParameters::for_link(&timing, units) }
}

/// Karn RLP without keep-alives.
pub fn karn_rlp(
    retransmissions: u32,
    nack_timeout: Duration,
    copy_time: Duration,
) -> RlpParameters {
    RlpParameters {
        release: Release::InSequence,
        retransmissions,
        nack_timeout,
        copy_time,
        keepalive: None,
        keepalives: None,
        header: Bytes::new(1),
        control: Bytes::new(2),
    }
}

/// The largest window up to `window` for one-byte numbers; windows above 255 use two-byte numbers.
fn one_byte(window: u32) -> u32 {
    if window > 255 { window } else { window.min(128) }
}

/// All modes of all protocols that repair every loss.
pub fn every_reliable_protocol(window: u32, timeout: Duration) -> Vec<Protocol> {
    let mut all = vec![Protocol::StopAndWait(stop_and_wait(None, timeout))];
    let round_trip = Duration::from_nanos(timeout.as_nanos() / 2);
    for acknowledgment in [Acknowledgment::Piggyback, Acknowledgment::StandAlone] {
        for timer in [TimerMode::PerFrame, TimerMode::BaseOnly] {
            for renack in [
                Renack::OncePerGap,
                Renack::EveryGap,
                Renack::EveryArrival,
                Renack::AfterRoundTrip(round_trip),
            ] {
                all.push(Protocol::SelectiveRepeat(SelectiveRepeatParameters {
                    acknowledgment,
                    timer,
                    renack,
                    ..selective_repeat(one_byte(window), timeout)
                }));
            }
        }
        for (reject, restart_on_ack) in [(false, false), (true, false), (false, true)] {
            all.push(Protocol::GoBackN(GoBackNParameters {
                acknowledgment,
                reject,
                restart_on_ack,
                ..go_back_n(if reject { one_byte(window) } else { window }, timeout)
            }));
        }
    }
    for (units, interleave, mode) in [
        (20, 1, HarqMode::Adaptive),
        (20, 3, HarqMode::Adaptive),
        (1, 1, HarqMode::Pipelined),
        (64, 1, HarqMode::StopAndWait),
    ] {
        // Comparing all slots of a wide window at every step is slow.
        let window = window.min(32);
        let parameters = HarqParameters { mode, window, interleave, ..harq(units, timeout) };
        all.push(Protocol::Harq(parameters));
    }
    all
}
