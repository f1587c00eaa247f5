//! A direction with a block-ack agreement (802.11n, ac, ax): its packets in the MAC, and the lengths and
//! durations of its PPDUs.
//!
//! ```text
//!   interface queue | waiting, without number | window of the originator |     air    | reorder buffer |
//!
//!   A-MPDU   | delimiter 4 | MPDU | padding to 4 | delimiter 4 | MPDU | ...   no padding after the last
//!   A-MSDU   | QoS header 26 | subframe header 14 | LLC 8 | packet | padding to 4 | ... | FCS 4 |
//! ```
//!
//! A PPDU contains MPDUs of one receiver: retransmissions first, then new MPDUs up to the end of the window,
//! as far as the maximum length and number and 5,484 us permit. A PPDU with one MPDU is answered by an Ack; in
//! HT, it has no delimiter.
//!
//! Source: IEEE Std 802.11-2020, 9.3.2.2.2 (A-MSDU), 9.7.1 (A-MPDU), 10.12.

use super::station::Waiting;
use crate::block_ack::{Originator, Recipient};
use crate::frames;
use crate::phy::{ControlFrame, Format, MAX_PPDU_TIME, Mode, PpduTiming, response_rate};
use crate::rate_control::{Choice, RateMachine};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::choice;
use lasthop_base::schema::metrics::Ratio;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::queue::{Queue, Transmitter};
use std::collections::VecDeque;

choice! {
    /// Action of an originator that has received no BlockAck for its A-MPDU.
    pub enum MissedBlockAck {
        /// It retransmits all MPDUs.
        Retransmit = "retransmit",
        /// It requests a BlockAck, and retransmits the MPDUs that this one does not acknowledge.
        Request = "request",
    }
}

choice! {
    /// Order in which an access point serves its stations.
    pub enum Scheduler {
        /// One queue for all stations; the station of the oldest packet is next.
        Fifo = "fifo",
        /// A queue for each station; each has one PPDU in turn.
        RoundRobin = "round-robin",
        /// A queue for each station; stations have equal air time, as in Linux.
        Airtime = "airtime",
    }
}

choice! {
    /// Packets that the driver of an access point with a queue for each station takes from these queues.
    pub enum DriverQueue {
        /// None: packets are taken when a PPDU is built.
        Pull = "pull",
        /// As many as the airtime queue limits of Linux permit.
        Aql = "aql",
        /// All, up to 1000 packets per station.
        Unlimited = "unlimited",
    }
}

/// Airtime queue limits of Linux in ns (`include/net/cfg80211.h`): a station may have the low one in the driver, or
/// the high one while all together have less than the threshold.
const AQL_LOW: u64 = 5_000_000;
const AQL_HIGH: u64 = 12_000_000;
const AQL_THRESHOLD: u64 = 24_000_000;
/// Maximum number of packets of a station in a driver without limits.
const UNLIMITED: u64 = 1_000;

impl DriverQueue {
    /// Returns `true` if a station with `own` packets in the driver, of an air time of `time`, may have another one.
    /// `all`: air time of all stations, both in ns.
    pub fn has_room(self, own: u64, time: u64, all: u64) -> bool {
        match self {
            DriverQueue::Pull => false,
            DriverQueue::Aql => time < AQL_LOW || (time < AQL_HIGH && all < AQL_THRESHOLD),
            DriverQueue::Unlimited => own < UNLIMITED,
        }
    }
}

/// Airtime that a station receives in its turn, in ns: the weight of 256 us of Linux (`net/mac80211/tx.c`,
/// `ieee80211_next_txq`).
pub(super) const QUANTUM: i64 = 256_000;

/// Delimiter of an MPDU in an A-MPDU, in bytes.
const DELIMITER: u64 = 4;
/// Header of a subframe of an A-MSDU, in bytes.
const SUBFRAME_HEADER: u64 = 14;

/// Parameters of a direction with a block-ack agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Durations of PPDUs.
    pub timing: PpduTiming,
    /// Mode of the data.
    pub mode: Mode,
    /// Rate of RTS, CTS, Ack, BlockAck and BlockAck request.
    pub control_rate: Rate,
    /// Maximum length of an A-MPDU; 0: none.
    pub max_ampdu: Bytes,
    /// Maximum number of MPDUs of an A-MPDU, at least 1.
    pub max_mpdus: u32,
    /// Maximum length of an A-MSDU; 0: none.
    pub max_amsdu: Bytes,
    /// Window of the agreement in MPDUs, 1 to 256. Without A-MPDUs it is 1.
    pub window: u16,
    /// Maximum number of transmissions of an MPDU, at least 1.
    pub attempts: u32,
    /// Maximum time of a packet in the MAC.
    pub lifetime: Duration,
    /// Maximum time of an MPDU in the reorder buffer.
    pub reorder_timeout: Duration,
    /// Action if the BlockAck is missing.
    pub missed: MissedBlockAck,
}

/// A mode of a direction with the durations that depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeTimes {
    pub mode: Mode,
    /// Maximum length of a PSDU.
    longest: u64,
    /// Duration from the start of a PPDU to its data.
    pub preamble: Duration,
    pub rts: Duration,
    /// Air time of an Ack or a CTS.
    pub ack: Duration,
    pub block_ack: Duration,
    pub request: Duration,
    /// The latest length of a PSDU, and its air time.
    known: (Bytes, Duration),
}

impl ModeTimes {
    fn new(parameters: &Aggregation, mode: Mode, control_rate: Rate) -> Self {
        let Aggregation { timing, window, max_ampdu, .. } = *parameters;
        let control = |frame| timing.band.control_airtime(frame, control_rate);
        let longest = timing.max_psdu(mode, MAX_PPDU_TIME).unwrap_or_default();
        ModeTimes {
            mode,
            longest: longest.min(max_ampdu).get(),
            preamble: timing.preamble(mode),
            rts: control(ControlFrame::Rts),
            ack: control(ControlFrame::Ack),
            block_ack: control(ControlFrame::block_ack(window)),
            request: control(ControlFrame::BlockAckRequest),
            known: (Bytes::default(), timing.duration(mode, Bytes::default())),
        }
    }

    /// Returns the air time of a PPDU with a PSDU of `length`.
    pub fn ppdu(&mut self, timing: PpduTiming, length: Bytes) -> Duration {
        if self.known.0 != length {
            self.known = (length, timing.duration(self.mode, length));
        }
        self.known.1
    }
}

/// Numbers of MPDUs by mode and by PPDU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// MPDUs sent in each mode.
    pub modes: Vec<(Mode, u64)>,
    /// Number of PPDUs with 1, 2, … MPDUs.
    pub lengths: Vec<u64>,
}

impl Histograms {
    /// Adds the numbers of another direction.
    pub fn add(&mut self, other: &Histograms) {
        for &(mode, count) in &other.modes {
            match self.modes.iter_mut().find(|(known, _)| *known == mode) {
                Some((_, known)) => *known += count,
                None => self.modes.push((mode, count)),
            }
        }
        if self.lengths.len() < other.lengths.len() {
            self.lengths.resize(other.lengths.len(), 0);
        }
        self.lengths.iter_mut().zip(&other.lengths).for_each(|(own, count)| *own += count);
    }

    /// Returns the number of MPDUs that a share `quantile` of the PPDUs does not exceed; NaN without PPDUs.
    pub fn length_at(&self, quantile: f64) -> f64 {
        let all: u64 = self.lengths.iter().sum();
        let mut sum = 0;
        let reaches = |&count: &u64| {
            sum += count;
            sum as f64 >= quantile * all as f64
        };
        match self.lengths.iter().position(reaches) {
            Some(place) if all > 0 => place as f64 + 1.0,
            _ => f64::NAN,
        }
    }

    /// Returns the share of the MPDUs sent in modes with a property; NaN without MPDUs.
    pub fn share(&self, has: impl Fn(Mode) -> bool) -> Ratio {
        let sum = |has: &dyn Fn(Mode) -> bool| -> u64 {
            self.modes.iter().filter(|(mode, _)| has(*mode)).map(|(_, count)| count).sum()
        };
        Ratio::new(sum(&has) as f64, sum(&|_| true) as f64)
    }

    /// Returns the mean data rate of the MPDUs in bits per second; NaN without MPDUs.
    pub fn mean_rate(&self) -> Ratio {
        let count: u64 = self.modes.iter().map(|(_, count)| count).sum();
        let of = |&(mode, count): &(Mode, u64)| mode.rate().as_bps() as f64 * count as f64;
        Ratio::new(self.modes.iter().map(of).sum(), count as f64)
    }
}

/// State of a direction with a block-ack agreement.
#[derive(Clone, Debug)]
pub(super) struct Session<P: Payload> {
    pub parameters: Aggregation,
    pub originator: Originator<Waiting<P>>,
    pub recipient: Recipient<Waiting<P>>,
    /// Packets without a number, with the ends of their lifetimes.
    pub waiting: VecDeque<(Instant, Waiting<P>)>,
    /// Whether the MPDUs of the latest PPDU wait for the answer to a request.
    pub is_unanswered: bool,
    /// Attempts of the current request.
    pub request_attempts: u32,
    /// The modes between which the rate control chooses.
    pub modes: Vec<ModeTimes>,
    /// Rate control; `None`: there is one mode.
    pub rate_control: Option<RateMachine>,
    /// Mode of the current or the latest PPDU.
    pub choice: Choice,
    pub latest: Reception,
    pub histograms: Histograms,
    /// Maximum length of the next PSDU, from the rest of a TXOP.
    pub cap: u64,
    /// The direction's own queue, if it does not share that of the station.
    pub queue: Option<Queue<Waiting<P>>>,
    /// Packets of the direction in the MAC, and their bytes.
    pub in_mac: [u64; 2],
    /// Airtime in ns that the direction may use before others, negative after it has used more.
    pub deficit: i64,
}

/// State of the receiver after the latest PPDU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reception {
    /// Number of MPDUs without errors, and the highest of their sequence numbers.
    pub mpdus: u64,
    pub last: u64,
    /// Whether an MPDU with errors has a readable header.
    pub has_damaged: bool,
}

/// The PSDU of a PPDU under construction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Psdu {
    pub mpdus: u32,
    /// Length of the first MPDU.
    first: u64,
    /// Length in A-MPDU form.
    bytes: u64,
}

impl Psdu {
    /// Returns the PSDU with another MPDU of `mpdu` bytes.
    pub fn with(self, mpdu: u64) -> Self {
        let first = if self.mpdus == 0 { mpdu } else { self.first };
        let bytes = self.bytes.next_multiple_of(4) + DELIMITER + mpdu;
        Psdu { mpdus: self.mpdus + 1, first, bytes }
    }

    /// Returns `true` if the PSDU has one MPDU, or is within `limits`: numbers of MPDUs and bytes.
    pub fn is_within(self, (most, longest): (u32, u64)) -> bool {
        self.mpdus == 1 || (self.mpdus <= most && self.bytes <= longest)
    }

    /// Returns the offset of an MPDU of `mpdu` bytes that was added last, delimiter included.
    pub fn offset_of_last(self, mpdu: u64) -> u64 {
        self.bytes - mpdu - DELIMITER
    }
}

impl<P: Payload + Clone> Session<P> {
    pub fn new(parameters: Aggregation) -> Self {
        let Aggregation { mode, control_rate, window, reorder_timeout, .. } = parameters;
        let most = usize::from(window).max(parameters.max_mpdus as usize);
        Session {
            parameters,
            originator: Originator::new(window),
            recipient: Recipient::new(window, reorder_timeout),
            waiting: VecDeque::with_capacity(window.into()),
            is_unanswered: false,
            request_attempts: 0,
            modes: vec![ModeTimes::new(&parameters, mode, control_rate)],
            rate_control: None,
            choice: Choice { mode: 0, is_probe: false, is_fallback: false },
            latest: Reception::default(),
            histograms: Histograms { modes: vec![(mode, 0)], lengths: vec![0; most] },
            cap: u64::MAX,
            queue: None,
            in_mac: [0, 0],
            deficit: 0,
        }
    }

    /// Lets a rate control choose between `modes`. Control frames are sent at `control_rate`, or at the rate
    /// that belongs to the mode.
    pub fn adapt(&mut self, modes: &[Mode], control_rate: Option<Rate>, machine: RateMachine) {
        let times = |&mode: &Mode| {
            let control_rate = control_rate.unwrap_or(response_rate(mode));
            ModeTimes::new(&self.parameters, mode, control_rate)
        };
        self.modes = modes.iter().map(times).collect();
        self.histograms.modes = modes.iter().map(|&mode| (mode, 0)).collect();
        self.choice.mode = machine.best();
        self.rate_control = Some(machine);
    }

    /// Chooses the mode of the next PPDU.
    pub fn choose(&mut self, now: Instant) {
        if let Some(machine) = &mut self.rate_control {
            self.choice = machine.choose(now);
        }
    }

    /// Informs the rate control of the result of a PPDU of `mpdus`; `None`: it had no response.
    pub fn on_result(&mut self, now: Instant, mpdus: u32, acknowledged: Option<u32>) {
        if let Some(machine) = &mut self.rate_control {
            machine.on_result(now, mpdus, acknowledged);
        }
    }

    /// Returns the mode of the current or the latest PPDU, with its durations.
    pub fn times(&self) -> &ModeTimes {
        &self.modes[self.choice.mode]
    }

    /// Returns the end of the lifetime of the oldest packet; the start of time if a request is due; `None` if
    /// there is nothing to send.
    pub fn oldest(&self) -> Option<Instant> {
        if self.request().is_some() {
            return Some(Instant::ZERO);
        }
        let start = self.originator.start();
        let outstanding =
            (self.originator.outstanding() > 0).then(|| self.originator.mpdu(start).expires);
        let waiting = self.waiting.front().map(|&(expires, _)| expires);
        outstanding.into_iter().chain(waiting).min()
    }

    /// Returns `true` if there is something to send, in the MAC or in the direction's own queue.
    pub fn has_work(&self) -> bool {
        self.oldest().is_some() || self.queue.as_ref().is_some_and(|queue| !queue.is_empty())
    }

    /// Returns the state of the transmitter for the direction's own queue: the packets in the MAC.
    pub fn server(&self) -> Transmitter {
        let [packets, bytes] = self.in_mac;
        let until = if packets > 0 { Instant::NEVER } else { Instant::ZERO };
        Transmitter::standing_in(self.times().mode.rate(), packets, bytes, until)
    }

    /// Returns the estimated air time of the packets in the MAC in ns, without preambles and contention.
    pub fn time_in_mac(&self) -> u64 {
        let rate = self.times().mode.rate().as_bps().max(1);
        self.in_mac[1] * 8 * 1_000_000_000 / rate
    }

    /// Returns the start of the BlockAck request to be sent next, if any.
    pub fn request(&self) -> Option<u64> {
        let owed = self.originator.request();
        owed.or_else(|| self.is_unanswered.then(|| self.originator.start()))
    }

    /// Returns the maximum number of MPDUs of a PPDU and the maximum length of its PSDU.
    pub fn limits(&self) -> (u32, u64) {
        let most = if self.choice.is_probe { 1 } else { self.parameters.max_mpdus };
        (most, self.times().longest.min(self.cap))
    }

    /// Returns `true` if a PPDU may be `psdu`. Every MPDU may be sent alone.
    pub fn fits(&self, psdu: Psdu) -> bool {
        psdu.is_within(self.limits())
    }

    /// Limits the next PSDU to a PPDU of `time`; `None`: no limit.
    pub fn limit_to(&mut self, time: Option<Duration>) {
        let (timing, mode) = (self.parameters.timing, self.times().mode);
        let longest = |time| timing.max_psdu(mode, time).unwrap_or_default().get();
        self.cap = time.map_or(u64::MAX, longest);
    }

    /// Returns the duration of the shortest exchange: the next request or MPDU, alone, with its response.
    /// `header`: overhead of a data frame with LLC.
    pub fn shortest_exchange(&mut self, header: u64, sifs: Duration) -> Duration {
        let &ModeTimes { ack, block_ack, request, .. } = self.times();
        if self.request().is_some() {
            return request + sifs + block_ack;
        }
        let start = self.originator.start();
        let known = self.originator.pending(start).map(|number| self.originator.mpdu(number).bytes);
        let waiting =
            || self.waiting.front().map(|(_, packet)| u64::from(packet.wire_bytes()) + header);
        let bytes = known.map(u64::from).or_else(waiting).unwrap_or_default();
        let length = self.length(Psdu::default().with(bytes));
        let (timing, place) = (self.parameters.timing, self.choice.mode);
        self.modes[place].ppdu(timing, length) + sifs + ack
    }

    /// Returns the length of `psdu`.
    pub fn length(&self, psdu: Psdu) -> Bytes {
        let is_bare = psdu.mpdus == 1 && self.parameters.mode.format() == Format::Ht;
        Bytes::new(if is_bare { psdu.first } else { psdu.bytes })
    }

    /// Returns the length of an A-MSDU of `length` bytes after a further packet is added, padding included.
    pub fn amsdu_with(length: u64, packet: u64) -> u64 {
        length.next_multiple_of(4) + SUBFRAME_HEADER + frames::LLC + packet
    }

    /// Returns the length of an MPDU with the A-MSDU. `header`: overhead of a data frame with LLC.
    pub fn mpdu_with(amsdu: u64, header: u64) -> u64 {
        header.saturating_sub(frames::LLC) + amsdu
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Band, Coding, Form, GuardInterval, PacketExtension, Width};

    fn session(format: Format, max_ampdu: u64, max_mpdus: u32) -> Session<Vec<u8>> {
        let mode = Mode::new(format, 7, 1, Width::Mhz20, GuardInterval::Ns800).expect("defined");
        let timing = PpduTiming {
            band: Band::Ghz5,
            form: Form::Standard,
            coding: Coding::Bcc,
            packet_extension: PacketExtension::Us0,
        };
        Session::new(Aggregation {
            timing,
            mode,
            control_rate: Rate::from_bps(24_000_000),
            max_ampdu: Bytes::new(max_ampdu),
            max_mpdus,
            max_amsdu: Bytes::default(),
            window: 64,
            attempts: 10,
            lifetime: Duration::from_nanos(1),
            reorder_timeout: Duration::from_nanos(1),
            missed: MissedBlockAck::Retransmit,
        })
    }

    /// Returns the number of MPDUs of 1,538 B in a PPDU, and its length.
    fn fill(session: &Session<Vec<u8>>) -> (u32, u64) {
        let mut psdu = Psdu::default();
        while session.fits(psdu.with(1_538)) {
            psdu = psdu.with(1_538);
        }
        (psdu.mpdus, session.length(psdu).get())
    }

    /// HT, MCS 7: 28 MPDUs of 1,544 B without the last padding of 2 B take 5,360 us, a 29th more than 5,484 us.
    /// The other limits: 4 + 1,538 B for the first, 1,544 B for each further one.
    #[test]
    fn mpdus_of_an_aggregate() {
        for (limit, mpdus, bytes) in [
            (0, 1, 1_538),
            (3_085, 1, 1_538),
            (3_086, 2, 3_086),
            (8_000, 5, 7_718),
            (16_000, 10, 15_438),
            (32_000, 20, 30_878),
            (65_535, 28, 43_230),
        ] {
            assert_eq!(fill(&session(Format::Ht, limit, 64)), (mpdus, bytes), "{limit} B");
        }
        assert_eq!(fill(&session(Format::Ht, 65_535, 3)), (3, 4_630));
        assert_eq!(fill(&session(Format::Vht, 0, 64)), (1, 1_542));
    }

    /// Packets of 1,500 B take 1,522 B, padded to 1,524 B; five are 7,618 B, within 7,935 B.
    #[test]
    fn lengths_of_an_amsdu() {
        let lengths: Vec<_> = (0..6)
            .scan(0, |length, _| {
                *length = Session::<Vec<u8>>::amsdu_with(*length, 1_500);
                Some(*length)
            })
            .collect();
        assert_eq!(lengths, [1_522, 3_046, 4_570, 6_094, 7_618, 9_142]);
        assert_eq!(Session::<Vec<u8>>::mpdu_with(7_618, 38), 7_648);
    }
}
