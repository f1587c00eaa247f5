//! Congestion control algorithms: how many bytes may be outstanding.
//!
//! An algorithm is notified of events, not of the mechanisms that detect them. The events are ACKs
//! for new data outside recovery, congestion (once per window of data), expiries of the
//! retransmission timer, and spurious losses. The algorithm returns a window in bytes and
//! optionally a pacing rate. Window inflation during recovery is left to the recovery scheme.
//!
//! Each algorithm is one file and one entry in the list below; the head of the file cites its
//! source. Reno is the base of the other algorithms; it has two variants of arithmetic. Profile
//! `linux` uses Linux's arithmetic in whole segments for Reno, CUBIC and BBR (`reno_linux.rs`,
//! `cubic_linux.rs`, `bbr_linux.rs`).
//!
//! An algorithm may also be outside the engine, for example a class in Python (`external.rs`). Only
//! such an algorithm is called through a trait object.
//!
//! HyStart++ (RFC 9406, `hystart.rs`) can end the slow start of any algorithm that has one. Linux's
//! CUBIC uses the original HyStart (`hystart_linux.rs`).

mod bandwidth;
mod bbr_linux;
mod cubic_linux;
pub mod external;
mod family;
mod highest;
mod hystart;
mod hystart_linux;
mod mark_share;
#[cfg(test)]
mod ns2;
mod policer;
pub mod reno;
mod reno_linux;
mod rounds;
mod sample;
pub mod standalone;
mod state;
#[cfg(test)]
mod testing;
mod window;

// The named TCPs. First those with Reno's window: the name in scenarios and the components of each.
// Then the algorithms other than Reno: the file of each, its variant and its keys, which define the
// name.
algorithms! {
    over reno {
        /// Reno: fast retransmit and fast recovery (RFC 5681).
        Reno = "reno": Parts::over_reno([RecoveryKind::Reno; 2]);
        /// NewReno: partial acknowledgments continue the recovery (RFC 6582).
        NewReno = "newreno": Parts::over_reno([RecoveryKind::NewReno; 2]);
        /// Selective acknowledgments (RFC 2018).
        Sack = "sack": Parts::over_reno(BY_SACK);
        /// ESACK: SACK with explicit loss notifications of the agent "ll-elsn" (Yun 2009).
        Esack = "esack": Parts::over_reno([RecoveryKind::Esack; 2]);
        /// Tahoe: fast retransmit, followed by slow start.
        Tahoe = "tahoe": Parts::over_reno([RecoveryKind::Tahoe; 2]);
        /// TCP-DCR: a segment is declared lost one RTT after the first duplicate ACK, so that the
        /// link can repair the loss before.
        Dcr = "tcp-dcr": Parts::with_detection(LossDetection::Delayed);
        /// NCR (RFC 4653): a segment is declared lost after a window of duplicate ACKs; every
        /// second duplicate ACK allows one new segment.
        Ncr = "ncr": Parts::with_detection(LossDetection::NcrCareful);
        /// HACK: the receiver reports segments received with errors and a readable header; they are
        /// retransmitted without a reduction of the window.
        Hack = "hack": Parts::with_notices(Notices::Resend, RecoveryKind::Sack6675);
        /// HACK-fixed: HACK, except that duplicate ACKs for such a segment are not counted.
        HackFixed = "hack-fixed": Parts::with_notices(Notices::Excuse, RecoveryKind::Sack6675);
        /// EWLN: notifications as in HACK, with Reno.
        Ewln = "ewln": Parts::with_notices(Notices::Resend, RecoveryKind::Reno);
        /// TCP-ELN: notifications as in HACK, with NewReno; a notification resets the count of
        /// duplicate ACKs.
        TcpEln = "tcp-eln": Parts::with_notices(Notices::Restart, RecoveryKind::NewReno);
        /// The sender of Balakrishnan and Katz: Reno that retransmits the segment requested by a
        /// marked duplicate ACK.
        BalakrishnanEln = "balakrishnan-eln": Parts::with_notices(Notices::Marks, RecoveryKind::Reno);
        /// Casablanca: queues drop some segments first, so that the receiver can distinguish random
        /// losses from congestion.
        Casablanca = "casablanca": Parts::with_notices(Notices::Casablanca, RecoveryKind::NewReno);
        /// Ifrane: Casablanca with the classification of losses by the sender.
        Ifrane = "ifrane": Parts::with_notices(Notices::Ifrane, RecoveryKind::NewReno);
        /// LHP: a list of packets in transmission order with acknowledgments as in SMART; segments
        /// received with errors are retransmitted.
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

use super::config::{Config, LossDetection, Notices, Profile, RecoveryKind};
use family::{AlgorithmKeys, BY_SACK, algorithms, defaults};
use lasthop_base::schema::error::suggestion;
use lasthop_base::schema::keys::{Field, Kind, Limits, Node, Read, Shape, kinds, one_of};
use lasthop_base::units::{Duration, Instant};
use serde_json::Value;

pub use family::Marks;
pub(super) use family::Parts;
pub use reno::RenoKeys;
pub use sample::{AckSample, Control, Delivery, LostSegment, Passage, RateSample};
pub use state::{CongestionPhase, ModelState};

impl Variant {
    /// Returns the name of the variant in scenarios.
    pub fn word(self) -> &'static str {
        let (word, _) = Self::WORDS[self as usize];
        word
    }
}

/// Values allowed for a variant that is a class in Python.
const PYTHON_ALLOWED: &str = "a variant such as \"sack\", and for a class in Python in addition \
     congestion_control = { kind = \"python\", class = \"FILE.py:CLASS\" }";

impl Field for Variant {
    const SHAPE: Shape = Shape::Choice(Self::WORDS);

    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let words = || Self::WORDS.iter().map(|(word, _)| *word);
        // Users look here for the class in Python, which has a separate key.
        let names_class = |text: &str| text == "python" || text.contains(".py");
        if node.value.get("python").is_some() || node.value.as_str().is_some_and(names_class) {
            return Err(node.wrong(PYTHON_ALLOWED));
        }
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

/// Congestion signal, at most one per window of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// A segment was lost.
    Loss,
    /// The path marked a segment with Congestion Experienced (RFC 3168).
    Ecn,
}

/// Congestion control algorithm. Windows are in bytes at this interface; internally, an algorithm
/// uses the unit of its source.
pub trait CongestionControl {
    /// Handles an ACK for new data that arrived outside recovery.
    fn on_ack(&mut self, sample: &AckSample);

    /// Like [`Self::on_ack`], with appropriate byte counting (RFC 3465). Algorithms that do not
    /// support it count ACKs.
    fn on_ack_by_bytes(&mut self, sample: &AckSample) {
        self.on_ack(sample);
    }

    /// Handles an ACK that acknowledges or SACKs new data, or a duplicate ACK, also in recovery. It
    /// is called before any other processing of the ACK, and only for algorithms that measure
    /// ([`CongestionControlKind::measures`]).
    fn on_delivery(&mut self, _delivery: &Delivery) {}

    /// Handles the loss of a segment that loss detection declared lost. It is called only for
    /// algorithms that read delivery rates ([`CongestionControlKind::reads_rates`]).
    fn on_lost(&mut self, _lost: &LostSegment) {}

    /// Handles the end of the handshake; `rtt` is the RTT sample of the handshake.
    fn on_established(&mut self, _now: Instant, _rtt: Option<Duration>) {}

    /// Handles an ACK that was processed, also in recovery. It is called only for algorithms that
    /// control their window in recovery, and only by recovery schemes that count segments.
    fn on_control(&mut self, _control: &Control) {}

    /// Returns `true` if the algorithm deliberately sends less than it could, so that delivery
    /// rates do not measure the path.
    fn is_self_limited(&self) -> bool {
        false
    }

    /// Handles congestion, once per window of data. A reduction is computed from `in_use`, in
    /// segments of SMSS (the flight size; for ns-2 the window).
    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64);

    /// Handles an expiry of the retransmission timer. `in_use` is as in [`Self::on_congestion`],
    /// but at most the window (`Flight::in_use_at_timeout`). It is `None` if the timer expired for
    /// the same segment before: the threshold is reduced only once.
    fn on_timeout(&mut self, now: Instant, in_use: Option<f64>);

    /// Handles an ACK that yields an RTT sample but must not grow the window.
    fn on_round_trip(&mut self, _sample: &AckSample) {}

    /// Undoes the latest reduction, which responded to a spurious loss (RFC 4015; RFC 9438, section
    /// 4.9).
    fn on_spurious(&mut self);

    /// Records that `bytes` were sent at `now`.
    fn on_sent(&mut self, _now: Instant, _bytes: u64) {}

    /// Returns `true` if the algorithm controls the window itself during recovery. Otherwise the
    /// recovery scheme does, and the algorithm is not notified of ACKs meanwhile.
    fn keeps_window_in_recovery(&self) -> bool {
        false
    }

    /// Returns the congestion window in bytes.
    fn window(&self) -> u64;

    /// Returns the congestion window in segments of SMSS, including the fraction.
    fn cwnd(&self) -> f64;

    /// Returns the slow-start threshold in segments. For most algorithms it is infinite before the
    /// first reduction.
    fn ssthresh(&self) -> f64;

    /// Sets the window in segments: after the handshake, and in recovery schemes that deflate it.
    fn set_cwnd(&mut self, cwnd: f64);

    /// Changes the size of full segments to `bytes`; the window keeps its number of segments.
    /// Implemented only by the algorithms that conformance scripts can select.
    fn set_segment(&mut self, _bytes: u64) {}

    /// Sets the window to `cwnd` segments, below the threshold `ssthresh`, so that slow start
    /// restores it. Algorithms without a threshold only set the window.
    fn slow_start_to(&mut self, cwnd: f64, _ssthresh: f64) {
        self.set_cwnd(cwnd);
    }

    /// Returns the pacing rate in bytes per second for the smoothed RTT `srtt`. Used only if pacing
    /// is on.
    fn pacing_rate(&self, srtt: Duration) -> f64 {
        window_over_round_trip(self.window(), self.cwnd() < self.ssthresh(), srtt)
    }

    /// Returns phase and path model. Called only for observers.
    fn state(&self) -> ModelState {
        ModelState::default()
    }
}

/// Pacing gains. They exceed 1, so that a window is sent in less than one RTT and pacing never
/// limits the window. Linux: `tcp_pacing_ss_ratio` and `tcp_pacing_ca_ratio`.
const SLOW_START_GAIN: f64 = 2.0;
const AVOIDANCE_GAIN: f64 = 1.2;

fn window_over_round_trip(window: u64, in_slow_start: bool, srtt: Duration) -> f64 {
    let gain = if in_slow_start { SLOW_START_GAIN } else { AVOIDANCE_GAIN };
    gain * window as f64 / srtt.as_secs_f64()
}

/// Out-of-line versions, for all algorithms, of the calls that are inlined for the two variants of
/// Reno.
impl Algorithm {
    /// Takes the sample by value: a reference would force it into memory for Reno too.
    #[inline(never)]
    fn on_ack_of_any(&mut self, sample: AckSample) {
        dispatch!(self, algorithm => algorithm.on_ack(&sample));
    }

    #[inline(never)]
    fn on_sent_of_any(&mut self, now: Instant, bytes: u64) {
        dispatch!(self, algorithm => algorithm.on_sent(now, bytes));
    }

    #[inline(never)]
    fn window_of_any(&self) -> u64 {
        dispatch!(self, algorithm => algorithm.window())
    }
}

impl CongestionControl for Algorithm {
    #[inline(always)]
    fn on_ack(&mut self, sample: &AckSample) {
        match self {
            Algorithm::RenoNs2(algorithm) => algorithm.on_ack(sample),
            Algorithm::Reno(algorithm) => algorithm.on_ack(sample),
            _ => self.on_ack_of_any(*sample),
        }
    }

    #[inline(always)]
    fn on_sent(&mut self, now: Instant, bytes: u64) {
        match self {
            Algorithm::RenoNs2(algorithm) => algorithm.on_sent(now, bytes),
            Algorithm::Reno(algorithm) => algorithm.on_sent(now, bytes),
            _ => self.on_sent_of_any(now, bytes),
        }
    }

    #[inline]
    fn window(&self) -> u64 {
        match self {
            Algorithm::RenoNs2(algorithm) => algorithm.window(),
            Algorithm::Reno(algorithm) => algorithm.window(),
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
            state() -> ModelState;
        }
    }
}
