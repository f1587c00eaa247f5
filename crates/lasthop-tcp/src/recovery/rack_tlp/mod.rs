//! Recovery with RACK-TLP (RFC 8985) and proportional rate reduction (RFC 9937), as Linux joins them.
//!
//! ```text
//!            something SACKed                something lost
//!   OPEN <--------------------> DISORDER -----------------------> RECOVERY: PRR lets out lost
//!    ^  ^                           ^                            |    segments first, then new ones
//!    |  |                           |                            |
//!    |  +-- SND.UNA at the end -----+----------------------------+
//!    |                                                           |  the timer fires (from anywhere)
//!    |                                                           v
//!    +------- SND.UNA at the end, or the timeout was none ----- LOSS: what RACK's time allows counts as
//!                                                               lost, cwnd = in flight + 1, slow start
//!   OPEN, DISORDER -- the network marked a segment --> REDUCED: PRR without losses, until the end
//! ```
//!
//! The *end* is what had been sent when the state began. Segments are counted, as Linux does:
//! in flight = outstanding - SACKed - lost + sent again.
//!
//! One of three timers runs: that of the retransmission, of RACK's reordering, of the tail loss probe. The
//! probe's stands in for the retransmission timer while nothing is SACKed or lost.
//!
//! A reduction is taken back if all its retransmissions are reported as duplicates (`undo/dsack.rs`), if the ACK
//! echoes a time before them, or if the ACKs after a timeout deliver what never went out again (`undo/frto.rs`).
//!
//! Without SACK duplicates are counted; more of them than can be missing raise the threshold.
//!
//! `acks.rs` has what an ACK tells, `phases.rs` what follows from it, `sending.rs` what goes out, `timers.rs` the timers.
//!
//! A receiver may drop what it had SACKed (RFC 2018, section 8). If the first segment that it misses is one of these, the
//! timer fires after half a round trip, and all that is outstanding counts as lost.

mod acks;
mod phases;
mod sending;
mod timers;

use super::super::config::{Config, Conventions, UndoKind};
use super::super::congestion_control::{AckSample, CongestionControl, Control, Delivery};
use super::super::flight::Flight;
use super::super::loss::rack::Rack;
use super::super::loss::tail_probe::TailProbe;
use super::super::timers::Timer;
use super::super::undo::dsack::Duplicated;
use super::super::undo::frto::ForwardRto;
use super::LossRecovery;
use super::prr::Prr;
use lasthop_base::units::{Duration, Instant};

/// Ticks by which Linux sets its short timers later than computed.
const LINUX_SLACK: Duration = Duration::from_millis(2);
/// A timer whose time has passed fires a tick later.
const TICK: Duration = Duration::from_millis(1);
/// Duplicates that mean a loss at most, however much reordering there is (Linux).
const MAX_REORDERING: u32 = 300;

/// A segment that acknowledges, as recovery sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub now: Instant,
    /// Its acknowledgment number.
    pub ack: u64,
    /// SACK blocks, the newest first.
    pub blocks: &'a [(u64, u64)],
    /// Has it neither payload nor a new window?
    pub is_pure: bool,
    /// When the segment left that it answers, by its timestamp.
    pub echo: Option<Instant>,
    /// Does it say that the network marked a segment (ECE)?
    pub has_echo_of_mark: bool,
}

/// What became of segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentCounts {
    /// Delivered.
    pub delivered: u64,
    /// Of these, by acknowledgments that echo a mark.
    pub marked: u64,
    /// Reported as duplicates.
    pub duplicates: u64,
    /// How often some were seen to overtake others.
    pub reorderings: u64,
}

/// Where the sender stands, in the order of how much it has done about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    Disorder,
    Reduced,
    Recovery,
    Loss,
}

/// What may go out besides new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resend {
    Nothing,
    /// Segments that are lost.
    Lost,
    /// New data in place of them: F-RTO wants to see what they bring.
    NewFirst,
}

/// A segment that goes out whatever the window says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    /// The oldest, after a timeout.
    Oldest,
    /// The next one, as a probe.
    NewProbe,
    /// The newest once more, as a probe.
    OldProbe,
}

/// What an ACK told.
#[derive(Clone, Copy, Debug, Default)]
struct AckSummary {
    una_advanced: bool,
    /// Whole segments were acknowledged.
    has_acked: bool,
    has_sacked: bool,
    has_dsack: bool,
    /// The duplicate was the tail loss probe.
    has_dsack_of_probe: bool,
    /// Segments that were never sent again and left before the end were delivered.
    has_original: bool,
    /// Segments that had been sent again were acknowledged.
    has_retransmitted: bool,
    /// The timer is to start anew.
    sets_timer: bool,
    /// Segments delivered, and found lost.
    delivered: u32,
    lost: u32,
    /// Retransmissions found lost.
    lost_again: u32,
    acked: u32,
    duplicates: u32,
    prior_fack: u64,
    prior_una: u64,
    /// Where the lowest segment begins that others had overtaken; it was never sent again.
    overtaken: Option<u64>,
    /// Sending times of the first and last segments that were acknowledged or SACKed and never sent again.
    acked_sent: Option<(Instant, Instant)>,
    sacked_sent: Option<(Instant, Instant)>,
}

/// How much of its window the sender uses (RFC 7661).
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    is_limited: bool,
    /// Most segments outstanding in this window of data.
    most: u32,
    /// End of this window of data.
    end: u64,
}

#[derive(Clone, Debug)]
pub struct RackTlp {
    conventions: Conventions,
    undo: UndoKind,
    has_sack: bool,
    /// Tick of the timestamp clock, ns.
    tick: u64,
    phase: Phase,
    /// What had been sent when the phase began (Linux: high_seq).
    end: u64,
    /// Without SACK: segments that duplicates say have arrived.
    counted: u32,
    /// Duplicates that mean a loss.
    threshold: u32,
    initial_threshold: u32,
    rack: Rack,
    probe: TailProbe,
    prr: Prr,
    duplicated: Duplicated,
    frto: ForwardRto,
    /// May the law take its latest reduction back?
    can_restore: bool,
    /// When the first retransmission of this phase left.
    resent_at: Option<Instant>,
    /// Timeouts in a row.
    timeouts: u32,
    counts: SegmentCounts,
    resend: Resend,
    forced: Option<Forced>,
    usage: Usage,
    /// Of a socket: what the window lets out waits for an ACK, or for more to be written.
    is_deferring: bool,
    /// The same: a timer has expired, and nothing was acknowledged or written since.
    is_after_timer: bool,
}

impl RackTlp {
    pub fn new(config: &Config) -> Self {
        RackTlp {
            conventions: config.conventions,
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
        flight.law.cwnd() as u32
    }

    /// Is anything sent again outstanding?
    fn has_retransmitted(flight: &Flight) -> bool {
        let records = flight.records();
        records.marks().resent > 0
            || records.get(0).is_some_and(|oldest| oldest.was_retransmitted())
    }

    fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Reduced | Phase::Recovery)
    }

    /// A segment that acknowledges arrived.
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
            flight.law.on_established(arrival.now, rtt);
            return;
        }
        if !had_outstanding && !summary.has_dsack {
            if self.conventions == Conventions::Linux {
                // It may answer a probe all the same.
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
        self.control(flight, arrival.now, &summary, rtt);
        if flight.law.keeps_window_in_recovery() {
            self.hand_over(flight, delivery, prior_in_flight, &summary);
        }
    }

    /// The law sets window and rate by itself.
    fn hand_over(
        &self,
        flight: &mut Flight,
        delivery: Delivery,
        prior_in_flight: u32,
        summary: &AckSummary,
    ) {
        let (state, _) = self.outstanding(flight);
        flight.law.on_control(&Control {
            delivery,
            delivered: summary.delivered,
            losses: summary.lost + summary.lost_again,
            prior_in_flight,
            in_flight: self.in_flight(flight),
            state,
            until_departure: flight.until_departure(delivery.now),
        });
        if flight.law.is_self_limited() {
            flight.records_mut().on_app_limited();
        }
    }

    /// The handshake is over.
    fn on_established(&mut self, flight: &mut Flight) {
        let initial_window = flight.initial_window;
        flight.law.set_cwnd(initial_window);
        let has_sample = flight.rtt.srtt() > Duration::ZERO;
        if self.conventions == Conventions::Linux && flight.has_lost_syn() && !has_sample {
            flight.rtt.after_lost_syn();
        }
        self.phase = Phase::Open;
        self.resent_at = None;
        self.duplicated.end();
        self.frto.end();
        self.forced = None;
        Self::stop_timers(flight);
    }

    /// A deadline has come.
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
        self.is_after_timer = self.conventions == Conventions::Linux;
    }

    /// The window after an ACK: PRR while it shrinks, the law's growth otherwise.
    fn control(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        summary: &AckSummary,
        rtt: Option<Duration>,
    ) {
        let keeps = flight.law.keeps_window_in_recovery();
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
            true => flight.law.on_ack(&sample),
            false => flight.law.on_round_trip(&sample),
        }
    }

    fn proportion(&mut self, flight: &mut Flight, delivered: u32, is_safe: bool) {
        let pipe = self.in_flight(flight);
        let count = self.prr.on_ack(delivered, pipe, is_safe);
        flight.law.set_cwnd(f64::from(pipe + count));
    }

    /// What became of segments so far.
    pub fn counts(&self) -> SegmentCounts {
        self.counts
    }

    /// Duplicates that mean a loss: more once the network has been seen to change the order.
    pub fn reordering(&self) -> u32 {
        self.threshold
    }
}
