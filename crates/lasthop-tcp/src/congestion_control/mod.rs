//! How much may be outstanding?
//!
//! A law hears of events, never of mechanisms: ACKs for new data outside recovery, congestion (once a
//! window of data), expiries of the timer, losses that were none. It answers with a window in bytes and,
//! if it wants to, a pacing rate. What recovery adds to the window meanwhile (inflation) is not its
//! business.
//!
//! A law is one file and one line of the list below; its source stands at the top of its file. Reno, with its two
//! arithmetics, is what every other law starts from. Linux's arithmetic of Reno and
//! CUBIC, in whole segments, is that of the profile `linux` (`reno_linux.rs`, `cubic_linux.rs`).
//!
//! HyStart++ (RFC 9406, `hystart.rs`) ends the slow start of any law that has one; Linux's CUBIC has HyStart
//! (`hystart_linux.rs`).

mod bandwidth;
mod bbr_linux;
mod cubic_linux;
mod family;
mod highest;
mod hystart;
mod hystart_linux;
mod mark_share;
#[cfg(test)]
mod ns2;
pub mod reno;
mod reno_linux;
mod rounds;
mod sample;
#[cfg(test)]
mod testing;
mod window;

// The list of named TCPs: those that keep Reno's window, each with its word in scenarios and its parts; then the laws
// beside Reno's, the file of each, and its keys and so its word.
laws! {
    over reno {
        /// Reno: fast retransmit and fast recovery (RFC 5681).
        Reno = "reno": Parts::over_reno([RecoveryKind::Reno; 2]);
        /// NewReno: partial acknowledgments continue the recovery (RFC 6582).
        NewReno = "newreno": Parts::over_reno([RecoveryKind::NewReno; 2]);
        /// Selective acknowledgments (RFC 2018).
        Sack = "sack": Parts::over_reno(BY_SACK);
        /// ESACK: the same, and what agent "ll-elsn" tells of losses on a link (Yun 2009).
        Esack = "esack": Parts::over_reno([RecoveryKind::Esack; 2]);
        /// Tahoe: fast retransmit, and slow start from there on.
        Tahoe = "tahoe": Parts::over_reno([RecoveryKind::Tahoe; 2]);
        /// TCP-DCR: a loss counts a round trip after its first duplicate, so that the link may repair it before.
        Dcr = "tcp-dcr": Parts::patient(LossDetection::Delayed);
        /// NCR (RFC 4653): a loss counts after a window of duplicates; a new segment leaves for every second one.
        Ncr = "ncr": Parts::patient(LossDetection::NcrCareful);
        /// HACK: the receiver tells of damaged segments whose header it can read; they go again and cost nothing.
        Hack = "hack": Parts::told(Notices::Resend, RecoveryKind::Sack6675);
        /// HACK-fixed: the same, and duplicates that ask for such a segment do not count.
        HackFixed = "hack-fixed": Parts::told(Notices::Excuse, RecoveryKind::Sack6675);
        /// EWLN: as HACK, over Reno.
        Ewln = "ewln": Parts::told(Notices::Resend, RecoveryKind::Reno);
        /// TCP-ELN: as HACK, over NewReno, and duplicates begin anew.
        TcpEln = "tcp-eln": Parts::told(Notices::Restart, RecoveryKind::NewReno);
        /// The sender of Balakrishnan and Katz: a marked duplicate sends again what it asks for; over Reno.
        BalakrishnanEln = "balakrishnan-eln": Parts::told(Notices::Marks, RecoveryKind::Reno);
        /// Casablanca: queues drop some segments first, and the receiver tells random losses from congestion by that.
        Casablanca = "casablanca": Parts::told(Notices::Casablanca, RecoveryKind::NewReno);
        /// Ifrane: the same, by the sender.
        Ifrane = "ifrane": Parts::told(Notices::Ifrane, RecoveryKind::NewReno);
        /// LHP: a list of packets in the order of sending, acknowledged as SMART has it; damaged segments go again.
        Lhp = "lhp": Parts::over_reno([RecoveryKind::Lhp; 2]);
    }
    cubic: Cubic(CubicKeys);
    westwood: WestwoodPlus(WestwoodPlusKeys), Westwood(WestwoodKeys);
    veno: Veno(VenoKeys);
    vegas: Vegas(VegasKeys);
    hybla: Hybla(HyblaKeys);
    bic: Bic(BicKeys);
    htcp: Htcp(HtcpKeys);
    illinois: Illinois(IllinoisKeys);
    tibet: Tibet(TibetKeys);
    jersey: Jersey(JerseyKeys);
    newreno_ff: NewRenoFf(NewRenoFfKeys);
    bbr: Bbr(BbrKeys);
    jtcp: Jtcp(JtcpKeys);
    santa_cruz: SantaCruz(SantaCruzKeys);
    ideal_bandwidth: IdealBandwidth(IdealBandwidthKeys);
    dctcp: Dctcp(DctcpKeys);
    prague: Prague(PragueKeys);
    bbr3: Bbr3(Bbr3Keys);
    lt_tcp: LtTcp(LtTcpKeys);
}

use super::config::{Config, Conventions, LossDetection, Notices, RecoveryKind};
use family::{BY_SACK, LawKeys, defaults, laws};
use lasthop_base::schema::error::suggestion;
use lasthop_base::schema::keys::{Field, Kind, Limits, Node, Read, Shape, kinds, one_of};
use lasthop_base::units::{Duration, Instant};
use serde_json::Value;

pub use family::Marks;
pub(super) use family::Parts;
pub use reno::RenoKeys;
pub use sample::{AckSample, Control, Delivery, LostSegment, Passage, RateSample};

impl Variant {
    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        let (word, _) = Self::WORDS[self as usize];
        word
    }
}

impl Field for Variant {
    const SHAPE: Shape = Shape::Choice(Self::WORDS);

    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let words = || Self::WORDS.iter().map(|(word, _)| *word);
        let allowed = one_of(words());
        let word = node.text(&allowed)?;
        match words().position(|known| known == word) {
            Some(place) => Ok(Self::ALL[place]),
            None => Err(node.error(format!("{word:?}{}", suggestion(word, words())), allowed)),
        }
    }

    fn write(&self) -> Value {
        self.word().into()
    }
}

/// A sign of congestion, at most one for each window of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A segment was lost.
    Loss,
    /// The path marked a segment instead (RFC 3168).
    Ecn,
}

/// A congestion control law. Windows are in bytes at this interface; inside, a law counts as its
/// source does.
pub trait CongestionControl {
    /// An ACK for new data arrived outside recovery.
    fn on_ack(&mut self, sample: &AckSample);

    /// The same where bytes are counted (RFC 3465). Laws that do not know how count ACKs.
    fn on_ack_by_bytes(&mut self, sample: &AckSample) {
        self.on_ack(sample);
    }

    /// An ACK with news arrived, or a duplicate, in recovery too; before anything else is made of it. Only laws that
    /// measure hear of it ([`CongestionControlKind::measures`]).
    fn on_delivery(&mut self, _delivery: &Delivery) {}

    /// Loss detection has declared a segment lost. Only laws that read rates hear of it ([`CongestionControlKind::reads_rates`]).
    fn on_lost(&mut self, _lost: &LostSegment) {}

    /// The handshake is over; `rtt` is its round trip.
    fn on_established(&mut self, _now: Instant, _rtt: Option<Duration>) {}

    /// An ACK was processed, recovery included; only for laws that keep their window in recovery, under recoveries that
    /// count segments.
    fn on_control(&mut self, _control: &Control) {}

    /// Does the law send less than it could, so that rates do not tell of the path?
    fn is_self_limited(&self) -> bool {
        false
    }

    /// Congestion was seen, once for each window of data. `in_use`: what a reduction is computed from,
    /// in segments of SMSS (the flight size; ns-2: the window).
    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64);

    /// The retransmission timer fired; `in_use` as above but at most the window
    /// (`Flight::in_use_at_timeout`), or `None` if it fired for the same segment before, which
    /// reduces the threshold once only.
    fn on_timeout(&mut self, now: Instant, in_use: Option<f64>);

    /// An ACK told a round trip, but nothing by which the window may grow.
    fn on_round_trip(&mut self, _sample: &AckSample) {}

    /// The latest reduction answered a loss that was none: take it back (RFC 4015, RFC 9438 4.9).
    fn on_spurious(&mut self);

    /// `bytes` left at `now`.
    fn on_sent(&mut self, _now: Instant, _bytes: u64) {}

    /// Does the law set its window itself while losses are repaired? Otherwise recovery does, and tells the law of
    /// no ACK meanwhile.
    fn keeps_window_in_recovery(&self) -> bool {
        false
    }

    /// Congestion window in bytes.
    fn window(&self) -> u64;

    /// Congestion window in segments of SMSS, with its fraction.
    fn cwnd(&self) -> f64;

    /// Slow-start threshold in segments; infinite before the first reduction of most laws.
    fn ssthresh(&self) -> f64;

    /// Sets the window, in segments: after the handshake, and by recoveries that deflate it.
    fn set_cwnd(&mut self, cwnd: f64);

    /// Full segments have `bytes` from now on; the window keeps its number of them. Only laws that conformance scripts may
    /// name hear of it.
    fn set_segment(&mut self, _bytes: u64) {}

    /// Sets the window to `cwnd` segments, from where slow start brings it back to `ssthresh`. Laws without a threshold
    /// set the window only.
    fn slow_start_to(&mut self, cwnd: f64, _ssthresh: f64) {
        self.set_cwnd(cwnd);
    }

    /// Bytes a second at which segments should leave, if pacing is on and the round trip `srtt` is
    /// known.
    fn pacing_rate(&self, srtt: Duration) -> f64 {
        window_over_round_trip(self.window(), self.cwnd() < self.ssthresh(), srtt)
    }
}

/// Pacing gains: a window in less than a round trip, so that pacing never holds the window back.
/// Linux's `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const SLOW_START_GAIN: f64 = 2.0;
const AVOIDANCE_GAIN: f64 = 1.2;

fn window_over_round_trip(window: u64, in_slow_start: bool, srtt: Duration) -> f64 {
    let gain = if in_slow_start { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
    gain * window as f64 / srtt.as_secs_f64()
}

/// What is inline for the two variants of Reno, out of line for all laws.
impl Law {
    /// By value: a sample behind a reference would have to be in memory for Reno too.
    #[inline(never)]
    fn on_ack_of_any(&mut self, sample: AckSample) {
        dispatch!(self, law => law.on_ack(&sample));
    }

    #[inline(never)]
    fn on_sent_of_any(&mut self, now: Instant, bytes: u64) {
        dispatch!(self, law => law.on_sent(now, bytes));
    }

    #[inline(never)]
    fn window_of_any(&self) -> u64 {
        dispatch!(self, law => law.window())
    }
}

impl CongestionControl for Law {
    #[inline(always)]
    fn on_ack(&mut self, sample: &AckSample) {
        match self {
            Law::RenoNs2(law) => law.on_ack(sample),
            Law::Reno(law) => law.on_ack(sample),
            _ => self.on_ack_of_any(*sample),
        }
    }

    #[inline(always)]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        match self {
            Law::RenoNs2(law) => law.on_sent(now, bytes),
            Law::Reno(law) => law.on_sent(now, bytes),
            _ => self.on_sent_of_any(now, bytes),
        }
    }

    #[inline]
    fn window(&self) -> u64 {
        match self {
            Law::RenoNs2(law) => law.window(),
            Law::Reno(law) => law.window(),
            _ => self.window_of_any(),
        }
    }

    forward! {
        dispatch:
        mut {
            on_ack_by_bytes(sample: &AckSample);
            on_delivery(delivery: &Delivery);
            on_lost(lost: &LostSegment);
            on_established(now: Instant, rtt: Option<Duration>);
            on_control(control: &Control);
            on_congestion(now: Instant, congestion: Congestion, in_use: f64);
            on_timeout(now: Instant, in_use: Option<f64>);
            on_round_trip(sample: &AckSample);
            on_spurious();
            set_cwnd(cwnd: f64);
            set_segment(bytes: u64);
            slow_start_to(cwnd: f64, ssthresh: f64);
        }
        ref {
            is_self_limited() -> bool;
            keeps_window_in_recovery() -> bool;
            #[inline]
            cwnd() -> f64;
            ssthresh() -> f64;
            pacing_rate(srtt: Duration) -> f64;
        }
    }
}
