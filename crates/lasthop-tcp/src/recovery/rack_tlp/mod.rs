//! Recovery with RACK-TLP (RFC 8985) and proportional rate reduction (RFC 9937), as in Linux.
//!
//! ```text
//!            segment SACKed                  segment lost
//!   OPEN <--------------------> DISORDER ----------------------> RECOVERY: PRR sends lost segments
//!    ^  ^                           ^                            |         first, then new ones
//!    |  |                           |                            |
//!    |  +-- SND.UNA at the end -----+----------------------------+
//!    |                                                           | the timer expires (in any state)
//!    |                                                           v
//!    +------- SND.UNA at the end, or a spurious timeout ------ LOSS: segments are lost except those
//!                                                              that are recent for RACK,
//!                                                              cwnd = in flight + 1, slow start
//!   OPEN, DISORDER -- congestion mark (ECE) --> REDUCED: PRR without losses, until the end
//! ```
//!
//! The *end* is SND.MAX at the time when the state was entered. Segments are counted as in Linux:
//! in flight = outstanding - SACKed - lost + retransmitted.
//!
//! At most one of three timers is running: the retransmission timer, RACK's reordering timer, or
//! the timer of the tail loss probe. In OPEN and REDUCED, the probe timer replaces the
//! retransmission timer.
//!
//! A reduction is undone if all its retransmissions are reported as duplicates (`undo/dsack.rs`),
//! if the ACK echoes a timestamp older than these, or if ACKs after a timeout acknowledge data that
//! was not retransmitted (`undo/frto.rs`).
//!
//! Without SACK, duplicate ACKs are counted. An excess of duplicates over the segments that can be
//! above holes indicates reordering and raises the threshold.
//!
//! `acks.rs` processes ACKs, `phases.rs` changes the state, `sending.rs` selects segments, and
//! `timers.rs` has the timers.
//!
//! A receiver may drop data that it has SACKed (RFC 2018, section 8). If the first missing segment
//! is SACKed, the timer expires after half an RTT, and all outstanding segments are lost.

mod acks;
mod phases;
mod sending;
mod timers;

use super::super::config::{Config, UndoKind};
use super::super::congestion_control::{AckSample, CongestionControl, Control, Delivery};
use super::super::flight::Flight;
use super::super::loss::rack::Rack;
use super::super::loss::tail_probe::TailProbe;
use super::super::policy::{Policies, RackPolicy};
use super::super::timers::Timer;
use super::super::undo::dsack::Duplicated;
use super::super::undo::frto::ForwardRto;
use super::LossRecovery;
use super::prr::Prr;
use lasthop_base::units::{Duration, Instant};

/// Delay that Linux adds to its short timers.
const LINUX_SLACK: Duration = Duration::from_millis(2);
/// Delay of a timer whose deadline has already passed.
const TICK: Duration = Duration::from_millis(1);
/// Maximum number of duplicates that indicate a loss, regardless of reordering (Linux).
const MAX_REORDERING: u32 = 300;

/// Properties of a segment with an acknowledgment, for recovery.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub now: Instant,
    /// Acknowledgment number.
    pub ack: u64,
    /// SACK blocks, the newest first.
    pub blocks: &'a [(u64, u64)],
    /// Whether it has no payload and leaves the window unchanged.
    pub is_pure: bool,
    /// Send time of the segment that it acknowledges, from its timestamp.
    pub echo: Option<Instant>,
    /// Whether it echoes a congestion mark (ECE).
    pub has_echo_of_mark: bool,
}

/// Counts of segments by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentCounts {
    /// Segments delivered.
    pub delivered: u64,
    /// Of these, segments delivered by ACKs that echo a mark.
    pub marked: u64,
    /// Segments reported as duplicates.
    pub duplicates: u64,
    /// Number of ACKs that revealed reordering.
    pub reorderings: u64,
}

/// State of the sender, in order of severity (Linux: `tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    Disorder,
    Reduced,
    Recovery,
    Loss,
}

/// Segments that may be sent in addition to new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resend {
    Nothing,
    /// Retransmissions of lost segments.
    Lost,
    /// New data before retransmissions: F-RTO needs the ACKs for new data.
    NewFirst,
}

/// A segment that is sent regardless of the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    /// The oldest segment, after a timeout.
    Oldest,
    /// The next new segment, as a probe.
    NewProbe,
    /// A retransmission of the newest segment, as a probe.
    OldProbe,
}

/// Information extracted from an ACK.
#[derive(Clone, Copy, Debug, Default)]
struct AckSummary {
    una_advanced: bool,
    /// Whether whole segments were acknowledged.
    has_acked: bool,
    has_sacked: bool,
    has_dsack: bool,
    /// Whether the duplicate was the tail loss probe.
    has_dsack_of_probe: bool,
    /// Whether segments sent before the end and never retransmitted were delivered.
    has_original: bool,
    /// Whether retransmitted segments were acknowledged.
    has_retransmitted: bool,
    /// Whether the timer is to be restarted.
    sets_timer: bool,
    /// Number of segments delivered.
    delivered: u32,
    /// Number of originals newly declared lost.
    lost: u32,
    /// Number of retransmissions newly declared lost.
    lost_again: u32,
    acked: u32,
    duplicates: u32,
    prior_fack: u64,
    prior_una: u64,
    /// Start of the lowest segment that arrived after higher ones and was never retransmitted.
    overtaken: Option<u64>,
    /// Send times of the first and last segments newly acknowledged and never retransmitted.
    acked_sent: Option<(Instant, Instant)>,
    /// Send times of the first and last segments newly SACKed and never retransmitted.
    sacked_sent: Option<(Instant, Instant)>,
}

/// Use of the congestion window (RFC 7661).
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    is_limited: bool,
    /// Maximum number of segments outstanding in this window of data.
    most: u32,
    /// End of this window of data.
    end: u64,
}

#[derive(Clone, Debug)]
pub struct RackTlp {
    rules: RackPolicy,
    undo: UndoKind,
    has_sack: bool,
    /// Tick of the timestamp clock, ns.
    tick: u64,
    phase: Phase,
    /// SND.MAX at the start of the phase (Linux: high_seq).
    end: u64,
    /// Without SACK: number of segments above holes, inferred from duplicate ACKs.
    counted: u32,
    /// Number of duplicates that indicate a loss.
    threshold: u32,
    initial_threshold: u32,
    rack: Rack,
    probe: TailProbe,
    prr: Prr,
    duplicated: Duplicated,
    frto: ForwardRto,
    /// Whether congestion control can undo its latest reduction.
    can_restore: bool,
    /// Send time of the first retransmission of this phase.
    resent_at: Option<Instant>,
    /// Number of successive timeouts.
    timeouts: u32,
    counts: SegmentCounts,
    resend: Resend,
    forced: Option<Forced>,
    usage: Usage,
    /// For a socket: whether permitted segments wait for an ACK or a send call.
    is_deferring: bool,
    /// For a socket: whether a timer has expired since the latest ACK or send call.
    is_after_timer: bool,
}

impl RackTlp {
    pub fn new(config: &Config) -> Self {
        RackTlp {
            rules: Policies::of(config.profile).rack,
            undo: config.undo,
            has_sack: config.sack,
            tick: config.clock_granularity.as_nanos(),
            phase: Phase::Open,
            end: 0,
            counted: 0,
            threshold: config.dupack_threshold,
            initial_threshold: config.dupack_threshold,
            rack: Rack::new(),
            probe: TailProbe::default(),
            prr: Prr::default(),
            duplicated: Duplicated::default(),
            frto: ForwardRto::default(),
            can_restore: false,
            resent_at: None,
            timeouts: 0,
            counts: SegmentCounts::default(),
            resend: Resend::Nothing,
            forced: None,
            usage: Usage::default(),
            is_deferring: false,
            is_after_timer: false,
        }
    }

    fn sacked(&self, flight: &Flight) -> u32 {
        if self.has_sack { flight.records().marks().sacked } else { self.counted }
    }

    fn cwnd(flight: &Flight) -> u32 {
        flight.congestion_control.cwnd() as u32
    }

    /// Returns `true` if a retransmission is outstanding.
    fn has_retransmitted(flight: &Flight) -> bool {
        let records = flight.records();
        records.marks().resent > 0
            || records.get(0).is_some_and(|oldest| oldest.was_retransmitted())
    }

    fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Reduced | Phase::Recovery)
    }

    /// Processes a segment with an acknowledgment.
    pub fn on_segment(&mut self, flight: &mut Flight, arrival: &Arrival) {
        (self.is_deferring, self.is_after_timer) = (false, false);
        let una = flight.snd_una;
        if arrival.ack < una && arrival.blocks.is_empty() {
            return;
        }
        let had_outstanding = flight.records().len() > 0;
        let overtaken = self.rack.overtaken();
        let prior_in_flight = self.in_flight(flight);
        flight.begin_ack();
        let mut summary = AckSummary {
            una_advanced: arrival.ack > una,
            prior_fack: self.rack.fack().max(una),
            prior_una: una,
            ..AckSummary::default()
        };
        if self.has_sack && !arrival.blocks.is_empty() {
            self.on_blocks(flight, arrival, &mut summary);
        }
        if summary.una_advanced {
            self.timeouts = 0;
            self.acknowledge(flight, arrival, &mut summary);
        }
        let rtt = self.measure(flight, arrival, &mut summary);
        let delivery = flight.tell_delivery(arrival.now, flight.snd_una - una, rtt);
        if una == 0 && summary.una_advanced {
            self.on_established(flight);
            flight.congestion_control.on_established(arrival.now, rtt);
            return;
        }
        if !had_outstanding && !summary.has_dsack {
            if self.rules.answers_stray_probes {
                // It may nevertheless acknowledge a probe.
                self.on_probe_answer(flight, arrival, &summary);
            }
            return;
        }
        self.resend = Resend::Nothing;
        self.on_probe_answer(flight, arrival, &summary);
        let is_dup =
            !summary.una_advanced && arrival.is_pure && arrival.ack == una && !summary.has_dsack;
        summary.duplicates = u32::from(is_dup && had_outstanding);
        let is_dubious = arrival.is_pure && !summary.has_acked
            || summary.has_sacked
            || summary.has_dsack
            || arrival.has_echo_of_mark
            || self.phase != Phase::Open;
        if is_dubious {
            self.alert(flight, arrival, &mut summary);
        }
        if summary.sets_timer {
            self.set_timer(flight, arrival.now);
        }
        self.counts.reorderings += u64::from(self.rack.overtaken() > overtaken);
        self.counts.delivered += u64::from(summary.delivered);
        if arrival.has_echo_of_mark {
            self.counts.marked += u64::from(summary.delivered);
        }
        if !had_outstanding && self.rules.only_undoes_after_the_last_ack {
            return;
        }
        self.control(flight, arrival.now, &summary, rtt);
        if flight.congestion_control.keeps_window_in_recovery() {
            self.hand_over(flight, delivery, prior_in_flight, &summary);
        }
    }

    /// Passes the result of an ACK to a congestion control algorithm that sets window and rate
    /// itself.
    fn hand_over(
        &self,
        flight: &mut Flight,
        delivery: Delivery,
        prior_in_flight: u32,
        summary: &AckSummary,
    ) {
        let (state, _) = self.outstanding(flight);
        flight.congestion_control.on_control(&Control {
            delivery,
            delivered: summary.delivered,
            losses: summary.lost + summary.lost_again,
            lost: flight.counters.losses_declared,
            prior_in_flight,
            in_flight: self.in_flight(flight),
            state,
            until_departure: flight.until_departure(delivery.now),
        });
        if flight.congestion_control.is_self_limited() {
            flight.records_mut().on_app_limited();
        }
    }

    /// Starts the transfer of data after the handshake.
    fn on_established(&mut self, flight: &mut Flight) {
        let initial_window = flight.initial_window;
        flight.congestion_control.set_cwnd(initial_window);
        let has_sample = flight.rtt.srtt() > Duration::ZERO;
        let starts_slowly = self.rules.starts_slowly_after_lost_syn;
        if starts_slowly && flight.has_lost_syn() && !has_sample {
            flight.rtt.after_lost_syn();
        }
        self.phase = Phase::Open;
        self.resent_at = None;
        self.duplicated.end();
        self.frto.end();
        self.forced = None;
        Self::stop_timers(flight);
    }

    /// Handles the time at which pacing permits the next segment.
    pub fn on_pacing_timer(&mut self, flight: &Flight) {
        if !self.rules.decides_after_pacing {
            return;
        }
        self.is_deferring = false;
        if self.resend == Resend::NewFirst {
            if flight.snd_max == self.end {
                self.frto.end();
            }
            self.resend = Resend::Lost;
        }
    }

    /// Handles a deadline.
    pub fn handle_timeout(&mut self, flight: &mut Flight, now: Instant) {
        if flight.timers.is_due(Timer::Reordering, now) {
            self.on_reordering_timer(flight, now);
        } else if flight.timers.is_due(Timer::TailProbe, now) {
            self.on_probe_timer(flight, now);
        } else if flight.timers.is_due(Timer::Retransmission, now) {
            self.on_retransmission_timer(flight, now);
        } else {
            return;
        }
        self.is_after_timer = self.rules.ends_deferral_by_timers;
    }

    /// Updates the window after an ACK: by PRR during a reduction, otherwise by congestion control.
    fn control(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        summary: &AckSummary,
        rtt: Option<Duration>,
    ) {
        let keeps = flight.congestion_control.keeps_window_in_recovery();
        let reduces = self.is_reducing() && !keeps;
        if reduces && summary.delivered > 0 {
            let is_safe = summary.una_advanced && summary.lost + summary.lost_again == 0;
            self.proportion(flight, summary.delivered, is_safe);
        }
        let progress = summary.has_acked
            || self.threshold > self.initial_threshold && summary.has_sacked
            || keeps && summary.delivered > 0;
        let grows = progress && !reduces;
        if !grows && rtt.is_none() {
            return;
        }
        let sample = AckSample {
            now,
            acked: u64::from(summary.delivered) * flight.mss,
            delivered_segments: summary.delivered,
            is_window_limited: self.is_window_limited(flight),
            prior_in_flight: flight.snd_max - flight.snd_una
                + u64::from(summary.acked) * flight.mss,
            snd_una: flight.snd_una,
            snd_max: flight.snd_max,
            rtt,
            srtt: flight.rtt.srtt(),
        };
        match grows {
            true => flight.congestion_control.on_ack(&sample),
            false => flight.congestion_control.on_round_trip(&sample),
        }
    }

    fn proportion(&mut self, flight: &mut Flight, delivered: u32, is_safe: bool) {
        let pipe = self.in_flight(flight);
        let count = self.prr.on_ack(delivered, pipe, is_safe);
        flight.congestion_control.set_cwnd(f64::from(pipe + count));
    }

    /// Counts of segments by outcome.
    pub fn counts(&self) -> SegmentCounts {
        self.counts
    }

    /// Number of duplicates that indicate a loss. It is higher once reordering was detected.
    pub fn reordering(&self) -> u32 {
        self.threshold
    }
}
