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
//! *Not modelled*: a receiver that takes back what it had SACKed (reneging).

use super::super::config::{Config, Conventions, UndoKind};
use super::super::flight::Flight;
use super::super::info::{Outstanding, RecoveryState};
use super::super::law::{AckSample, Congestion, CongestionLaw};
use super::super::loss::rack::{Found, Rack};
use super::super::loss::tail_probe::{self, TailProbe, Verdict};
use super::super::sent::SentSegment;
use super::super::timers::Timer;
use super::super::undo::dsack::Duplicated;
use super::super::undo::frto::{self, ForwardRto};
use super::prr::Prr;
use crate::packet::MAX_SACK_BLOCKS;
use crate::units::{Duration, Instant};

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
struct News {
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
    has_resent: bool,
    /// Retransmissions were found lost.
    has_lost_again: bool,
    /// The timer is to start anew.
    sets_timer: bool,
    /// Segments delivered, and found lost.
    delivered: u32,
    lost: u32,
    acked: u32,
    duplicates: u32,
    prior_fack: u64,
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
    /// Segments reported as duplicates.
    dsacks: u64,
    resend: Resend,
    forced: Option<Forced>,
    usage: Usage,
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
            dsacks: 0,
            resend: Resend::Nothing,
            forced: None,
            usage: Usage::default(),
        }
    }

    fn sacked(&self, flight: &Flight) -> u32 {
        if self.has_sack { flight.records().marks().sacked } else { self.counted }
    }

    /// The phase, and what is known of the segments outstanding.
    pub fn outstanding(&self, flight: &Flight) -> (RecoveryState, Outstanding) {
        let marks = flight.records().marks();
        let state = match self.phase {
            Phase::Open => RecoveryState::Open,
            Phase::Disorder => RecoveryState::Disorder,
            Phase::Reduced => RecoveryState::CongestionWindowReduced,
            Phase::Recovery => RecoveryState::Recovery,
            Phase::Loss => RecoveryState::Loss,
        };
        let sacked = self.sacked(flight).into();
        let [lost, retransmitted] = [marks.lost.into(), marks.resent.into()];
        (state, Outstanding { sacked, lost, retransmitted })
    }

    /// Outstanding segments that are neither known to have arrived nor lost, and retransmissions.
    fn in_flight(&self, flight: &Flight) -> u32 {
        let records = flight.records();
        let marks = records.marks();
        // Without SACK the duplicates may exceed what is not lost for a moment.
        (records.len() + marks.resent).saturating_sub(self.sacked(flight) + marks.lost)
    }

    fn cwnd(flight: &Flight) -> u32 {
        flight.law.cwnd() as u32
    }

    /// Is anything sent again outstanding?
    fn has_resent(flight: &Flight) -> bool {
        let records = flight.records();
        records.marks().resent > 0 || records.get(0).is_some_and(|oldest| oldest.was_resent())
    }

    fn is_reducing(&self) -> bool {
        matches!(self.phase, Phase::Reduced | Phase::Recovery)
    }

    // ---- Inputs ----

    /// A segment that acknowledges arrived.
    pub fn on_segment(&mut self, flight: &mut Flight, arrival: &Arrival) {
        let una = flight.snd_una;
        if arrival.ack < una && arrival.blocks.is_empty() {
            return;
        }
        let had_outstanding = flight.records().len() > 0;
        let mut news = News {
            una_advanced: arrival.ack > una,
            prior_fack: self.rack.fack().max(una),
            ..News::default()
        };
        if self.has_sack && !arrival.blocks.is_empty() {
            self.on_blocks(flight, arrival, &mut news);
        }
        if news.una_advanced {
            self.timeouts = 0;
            self.acknowledge(flight, arrival, &mut news);
        }
        let rtt = self.measure(flight, arrival, &mut news);
        flight.tell_delivery(arrival.now, flight.snd_una - una, rtt);
        if una == 0 && news.una_advanced {
            self.on_established(flight);
            return;
        }
        if !had_outstanding && !news.has_dsack {
            return;
        }
        self.resend = Resend::Nothing;
        self.on_probe_answer(flight, arrival, &news);
        let is_dup = !news.una_advanced && arrival.is_pure && arrival.ack == una && !news.has_dsack;
        news.duplicates = u32::from(is_dup && had_outstanding);
        let is_dubious = arrival.is_pure && !news.has_acked
            || news.has_sacked
            || news.has_dsack
            || arrival.has_echo_of_mark
            || self.phase != Phase::Open;
        if is_dubious {
            self.alert(flight, arrival, &mut news);
        }
        if news.sets_timer {
            self.set_timer(flight, arrival.now);
        }
        self.control(flight, arrival.now, &news, rtt);
    }

    /// The handshake is over.
    fn on_established(&mut self, flight: &mut Flight) {
        let initial_window = flight.initial_window;
        flight.law.set_cwnd(initial_window);
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
        }
    }

    // ---- What an ACK tells ----

    /// SACK blocks: duplicates first, then what they cover.
    fn on_blocks(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        let una = flight.snd_una;
        let (start, end) = arrival.blocks[0];
        let within = |other: &(u64, u64)| start >= other.0 && end <= other.1;
        let is_duplicate = end <= flight.snd_max
            && start < end
            && (start < arrival.ack || arrival.blocks.get(1).is_some_and(within));
        if is_duplicate {
            self.on_dsack(flight, start, end, news);
        }
        let mut blocks = [(0, 0); MAX_SACK_BLOCKS];
        let count = arrival.blocks.len().min(MAX_SACK_BLOCKS);
        blocks[..count].copy_from_slice(&arrival.blocks[..count]);
        // In the order of the sequence space, so that order tells of reordering.
        blocks[..count].sort_unstable();
        for &(start, end) in &blocks[..count] {
            if end > una && end <= flight.snd_max {
                self.sack(flight, arrival, (start.max(una), end), news);
            }
        }
    }

    fn on_dsack(&mut self, flight: &mut Flight, start: u64, end: u64, news: &mut News) {
        let segments = (end - start).div_ceil(flight.mss) as u32;
        self.dsacks += u64::from(segments);
        if self.dsacks > flight.counters.retransmissions {
            // The network duplicates segments.
            return;
        }
        news.has_dsack = true;
        news.delivered += segments;
        if self.probe.is_probe(end) {
            news.has_dsack_of_probe = true;
        } else {
            self.rack.on_dsack(flight.snd_una, flight.snd_max);
        }
        if end <= flight.snd_una {
            self.duplicated.on_duplicate(end, segments);
            return;
        }
        let records = flight.records_mut();
        let mut index = records.index_of(start);
        while let Some(record) = records.get(index).filter(|record| record.end <= end) {
            if record.was_resent() {
                self.duplicated.on_duplicate(record.end, 1);
            }
            records.unmark_resent(index);
            index += 1;
        }
    }

    fn sack(&mut self, flight: &mut Flight, arrival: &Arrival, block: (u64, u64), news: &mut News) {
        let (start, end) = block;
        let (phase_end, mss) = (self.end, flight.mss);
        let records = flight.records_mut();
        let mut index = records.index_of(start);
        while let Some(&record) = records.get(index).filter(|record| record.end <= end) {
            if record.start >= start && !record.is_sacked {
                let is_original = self.is_original(arrival, &record);
                self.rack.on_delivered(arrival.now, &record, is_original);
                self.rack.on_order(&record, news.prior_fack);
                self.see_order(&record, mss, news.prior_fack);
                if !record.was_resent() {
                    news.has_original |= record.end <= phase_end;
                    let first = news.sacked_sent.map_or(record.sent, |(first, _)| first);
                    news.sacked_sent = Some((first, record.sent));
                }
                records.mark_sacked(index);
                news.has_sacked = true;
                news.delivered += 1;
            }
            index += 1;
        }
    }

    /// Does the timestamp say that not the latest copy was answered?
    fn is_original(&self, arrival: &Arrival, record: &SentSegment) -> bool {
        record.was_resent() && self.echoes_before(arrival.echo, record.sent)
    }

    fn echoes_before(&self, echo: Option<Instant>, sent: Instant) -> bool {
        echo.is_some_and(|echo| echo.as_nanos() / self.tick < sent.as_nanos() / self.tick)
    }

    /// An original that arrives behind others raises the threshold to how far it was behind.
    fn see_order(&mut self, record: &SentSegment, mss: u64, prior_fack: u64) {
        if !record.was_resent() && record.start < prior_fack {
            let distance = (prior_fack - record.start).div_ceil(mss) as u32;
            self.threshold = self.threshold.max(distance.min(MAX_REORDERING));
        }
    }

    /// Everything below the ACK has arrived.
    fn acknowledge(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        let prior_fack = news.prior_fack;
        let mss = flight.mss;
        while let Some(record) = flight.records_mut().pop_below(arrival.ack) {
            news.has_acked = true;
            news.acked += 1;
            if record.was_resent() {
                news.has_resent = true;
            } else if !record.is_sacked {
                let first = news.acked_sent.map_or(record.sent, |(first, _)| first);
                news.acked_sent = Some((first, record.sent));
                news.has_original |= record.end <= self.end;
                if self.has_sack {
                    self.see_order(&record, mss, prior_fack);
                }
            }
            if self.has_sack && !record.is_sacked {
                news.delivered += 1;
                let is_original = self.is_original(arrival, &record);
                self.rack.on_delivered(arrival.now, &record, is_original);
                self.rack.on_order(&record, prior_fack);
            }
        }
        flight.duplicates.clear();
        flight.records_mut().trim(arrival.ack);
        flight.move_una(arrival.ack);
        news.sets_timer |= news.has_acked;
        if !self.has_sack && news.has_acked {
            // One of the segments was the missing one, the duplicates told of the others.
            news.delivered += news.acked.saturating_sub(self.counted).max(1);
            self.counted = self.counted.saturating_sub(news.acked - 1);
            self.limit_counted(flight, news.acked);
            // What was sent again may have been acknowledged for its original.
            news.has_original &= !news.has_resent;
        }
    }

    /// No more duplicates than segments outside of the holes; otherwise there is reordering.
    fn limit_counted(&mut self, flight: &Flight, acked: u32) {
        let records = flight.records();
        let outstanding = records.len();
        let holes = records.marks().lost.max(1).min(outstanding);
        if self.counted + holes > outstanding {
            self.counted = outstanding - holes;
            self.threshold = (outstanding + acked).min(MAX_REORDERING);
            self.rack.see_reordering();
        }
    }

    /// The round-trip time that the ACK tells: for the estimator, and for the law, which is returned.
    fn measure(
        &mut self,
        flight: &mut Flight,
        arrival: &Arrival,
        news: &mut News,
    ) -> Option<Duration> {
        let now = arrival.now;
        let acked = news.acked_sent.filter(|_| !news.has_resent);
        let mut for_law = acked.map(|(_, last)| now - last);
        let mut sample = acked.map(|(first, _)| now - first);
        // Beside a retransmission that is acknowledged, the report of what is SACKed may be an old one: the ACKs
        // before were lost. Linux takes the sample.
        if let Some((first, last)) = news.sacked_sent.filter(|_| !news.has_resent) {
            for_law = Some(now - last);
            sample = sample.or(Some(now - first));
        }
        if sample.is_none() && news.has_acked {
            let by_timestamp = arrival.echo.map(|echo| now - echo);
            for_law = by_timestamp;
            sample = by_timestamp;
        }
        let rtt = sample?;
        if let Some(rtt) = for_law {
            self.rack.on_round_trip(rtt);
        }
        flight.timed = None;
        match self.conventions {
            Conventions::Linux => flight.rtt.sample_linux(rtt, flight.snd_una, flight.snd_max),
            _ => {
                flight.rtt.end_back_off();
                flight.rtt.sample(Instant::from_nanos(now.as_nanos() - rtt.as_nanos()), now);
            }
        }
        // What was SACKed left after the oldest: that one's timer may start anew.
        if !news.has_acked
            && let (Some((first, _)), Some(oldest)) = (news.sacked_sent, flight.records().get(0))
        {
            news.sets_timer |= first < oldest.sent;
        }
        for_law
    }

    fn on_probe_answer(&mut self, flight: &mut Flight, arrival: &Arrival, news: &News) {
        let is_duplicate =
            !news.una_advanced && arrival.is_pure && !news.has_acked && !news.has_sacked;
        let verdict = self.probe.on_ack(arrival.ack, news.has_dsack_of_probe, is_duplicate);
        if verdict == Verdict::Repaired {
            self.can_restore = false;
            self.reduce(flight, arrival.now, Congestion::Loss, news.delivered);
            flight.counters.losses_declared += 1;
            self.phase = Phase::Reduced;
            self.end_reduction(flight);
            self.keep_open(flight);
        }
    }

    // ---- Phases ----

    /// The ACK tells of losses, or a phase is to end.
    fn alert(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        if arrival.has_echo_of_mark {
            self.can_restore = false;
        }
        if flight.records().len() == 0 {
            self.counted = 0;
        }
        if self.phase == Phase::Open {
            self.resent_at = None;
        } else if flight.snd_una >= self.end {
            match self.phase {
                Phase::Reduced if flight.snd_una > self.end => {
                    self.end_reduction(flight);
                    self.phase = Phase::Open;
                }
                Phase::Recovery => {
                    self.counted = 0;
                    if self.is_held_at_end(flight, arrival) {
                        return;
                    }
                    self.end_reduction(flight);
                }
                _ => {}
            }
        }
        match self.phase {
            Phase::Recovery => {
                if !news.una_advanced {
                    self.count_duplicates(flight, news);
                } else if self.is_reordered_in_recovery(flight, arrival) {
                    return;
                }
                if self.take_back_by_dsack(flight) {
                    self.try_to_open(flight, arrival, news);
                }
                self.identify_losses(flight, arrival.now, news);
                if self.phase != Phase::Recovery {
                    if flight.records().marks().lost == 0 {
                        return;
                    }
                    self.enter_recovery(flight, arrival.now, arrival.has_echo_of_mark, news);
                }
            }
            Phase::Loss => {
                self.on_ack_in_loss(flight, arrival, news);
                self.identify_losses(flight, arrival.now, news);
                if self.phase != Phase::Open && !news.has_lost_again {
                    return;
                }
                self.look_for_recovery(flight, arrival, news);
                return;
            }
            _ => {
                self.look_for_recovery_anew(flight, arrival, news);
                return;
            }
        }
        self.resend = Resend::Lost;
    }

    fn look_for_recovery_anew(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        if !self.has_sack {
            if news.una_advanced {
                self.counted = 0;
            }
            self.count_duplicates(flight, news);
        }
        if self.phase <= Phase::Disorder {
            self.take_back_by_dsack(flight);
        }
        self.identify_losses(flight, arrival.now, news);
        self.look_for_recovery(flight, arrival, news);
    }

    fn look_for_recovery(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        if flight.records().marks().lost == 0 {
            self.try_to_open(flight, arrival, news);
            return;
        }
        self.enter_recovery(flight, arrival.now, arrival.has_echo_of_mark, news);
        self.resend = Resend::Lost;
    }

    fn on_ack_in_loss(&mut self, flight: &mut Flight, arrival: &Arrival, news: &mut News) {
        let is_everything = flight.snd_una >= self.end;
        if news.una_advanced && self.may_take_back(arrival) {
            self.take_back_timeout(flight, false);
            return;
        }
        let sent_new = flight.snd_max > self.end;
        let verdict = self.frto.on_ack(frto::Told {
            original: news.has_original,
            una_advanced: news.una_advanced,
            is_duplicate: news.has_sacked || news.duplicates > 0,
            is_everything,
            sent_new,
        });
        match verdict {
            frto::Verdict::Spurious => {
                self.take_back_timeout(flight, true);
                return;
            }
            frto::Verdict::SendNew => {
                self.end = flight.snd_max;
                if flight.fits_receiver() {
                    self.resend = Resend::NewFirst;
                    return;
                }
                self.frto.end();
            }
            frto::Verdict::Undecided | frto::Verdict::Genuine => {}
        }
        if is_everything {
            self.is_held_at_end(flight, arrival);
            return;
        }
        if !self.has_sack {
            if sent_new && news.duplicates > 0 {
                self.count_duplicates(flight, news);
            } else if news.una_advanced {
                self.counted = 0;
            }
        }
        self.resend = Resend::Lost;
    }

    /// All that had been sent is acknowledged. Without SACK the phase is held until something beyond it is, so that
    /// duplicates of it begin no other.
    fn is_held_at_end(&mut self, flight: &mut Flight, arrival: &Arrival) -> bool {
        if self.may_take_back(arrival) {
            self.take_back(flight, false);
        } else {
            self.rack.on_recovered();
        }
        if flight.snd_una == self.end && !self.has_sack {
            if !Self::has_resent(flight) {
                self.resent_at = None;
            }
            return true;
        }
        self.phase = Phase::Open;
        false
    }

    /// In recovery the oldest hole was filled by its original. Returns whether nothing more is to be done.
    fn is_reordered_in_recovery(&mut self, flight: &mut Flight, arrival: &Arrival) -> bool {
        if !self.duplicated.has_reduction() || !self.is_delayed(arrival) {
            return false;
        }
        self.rack.see_reordering();
        if flight.records().marks().resent > 0 {
            return true;
        }
        if !Self::has_resent(flight) {
            self.resent_at = None;
        }
        self.take_back(flight, true);
        self.keep_open(flight);
        false
    }

    fn try_to_open(&mut self, flight: &mut Flight, arrival: &Arrival, news: &News) {
        if !Self::has_resent(flight) {
            self.resent_at = None;
        }
        if arrival.has_echo_of_mark && self.phase < Phase::Reduced {
            self.can_restore = false;
            self.duplicated.end();
            self.reduce(flight, arrival.now, Congestion::Ecn, news.delivered);
            self.phase = Phase::Reduced;
        }
        if self.phase != Phase::Reduced {
            self.keep_open(flight);
        }
    }

    fn keep_open(&mut self, flight: &Flight) {
        let left = self.sacked(flight) + flight.records().marks().lost;
        let phase =
            if left > 0 || Self::has_resent(flight) { Phase::Disorder } else { Phase::Open };
        if self.phase != phase {
            self.phase = phase;
            self.end = flight.snd_max;
        }
    }

    fn enter_recovery(&mut self, flight: &mut Flight, now: Instant, is_marked: bool, news: &News) {
        self.can_restore = false;
        self.duplicated.on_reduction(flight.snd_una, flight.records().marks().resent);
        flight.counters.fast_retransmits += 1;
        if !self.is_reducing() {
            self.can_restore = !is_marked;
            self.reduce(flight, now, Congestion::Loss, news.delivered);
        }
        self.phase = Phase::Recovery;
    }

    /// One reduction; `delivered` by the ACK that begins it.
    fn reduce(&mut self, flight: &mut Flight, now: Instant, cause: Congestion, delivered: u32) {
        self.end = flight.snd_max;
        self.probe.end();
        flight.counters.window_cuts += 1;
        let in_flight = match self.conventions {
            Conventions::Linux => Self::cwnd(flight),
            _ => flight.records().len() + delivered - self.sacked(flight).min(delivered),
        };
        let in_use = flight.in_use(0);
        flight.law.on_congestion(now, cause, in_use);
        self.prr.begin(flight.law.ssthresh() as u32, in_flight);
    }

    fn end_reduction(&mut self, flight: &mut Flight) {
        if self.phase == Phase::Reduced || self.duplicated.has_reduction() {
            let ssthresh = flight.law.ssthresh();
            if ssthresh.is_finite() && !flight.law.keeps_window_in_recovery() {
                flight.law.set_cwnd(ssthresh);
            }
        }
    }

    // ---- Losses ----

    fn count_duplicates(&mut self, flight: &mut Flight, news: &mut News) {
        if self.has_sack || news.duplicates == 0 {
            return;
        }
        let before = self.counted;
        self.counted += news.duplicates;
        self.limit_counted(flight, 0);
        news.delivered += self.counted.saturating_sub(before);
    }

    fn identify_losses(&mut self, flight: &mut Flight, now: Instant, news: &mut News) {
        if flight.records().len() == 0 {
            return;
        }
        if !self.has_sack {
            let is_lost = self.phase < Phase::Recovery && self.counted >= self.threshold
                || self.phase == Phase::Recovery && news.una_advanced;
            if is_lost && flight.records().get(0).is_some_and(|oldest| !oldest.is_lost) {
                flight.records_mut().mark_lost(0);
                flight.counters.losses_declared += 1;
                news.lost += 1;
            }
            return;
        }
        let window = self.reordering_window(flight);
        let found = self.rack.look(now, flight.records_mut(), window);
        self.take_in(flight, &found, news);
        if found.look_again > Duration::ZERO {
            Self::arm(flight, Timer::Reordering, now + found.look_again + self.slack());
            news.sets_timer = false;
        }
    }

    fn take_in(&mut self, flight: &mut Flight, found: &Found, news: &mut News) {
        news.lost += found.lost;
        news.has_lost_again |= found.lost_again > 0;
        flight.counters.losses_declared += u64::from(found.lost);
    }

    fn reordering_window(&self, flight: &Flight) -> Duration {
        let is_eager = self.phase >= Phase::Recovery || self.sacked(flight) >= self.threshold;
        self.rack.reordering_window(is_eager, flight.rtt.srtt())
    }

    fn slack(&self) -> Duration {
        if self.conventions == Conventions::Linux { LINUX_SLACK } else { Duration::ZERO }
    }

    // ---- Undo ----

    /// Does the ACK answer a segment that left before anything was sent again?
    fn is_delayed(&self, arrival: &Arrival) -> bool {
        self.undo != UndoKind::Off
            && self.resent_at.is_none_or(|sent| self.echoes_before(arrival.echo, sent))
    }

    fn may_take_back(&self, arrival: &Arrival) -> bool {
        let by_dsack = self.undo == UndoKind::All && self.duplicated.is_spurious();
        self.duplicated.has_reduction() && (by_dsack || self.is_delayed(arrival))
    }

    fn take_back(&mut self, flight: &mut Flight, is_nothing_lost: bool) {
        if is_nothing_lost {
            flight.records_mut().unmark_lost();
        }
        if self.can_restore {
            flight.counters.spurious_reductions += 1;
            flight.law.on_spurious();
        }
        self.duplicated.end();
        self.rack.on_taken_back();
    }

    fn take_back_by_dsack(&mut self, flight: &mut Flight) -> bool {
        let is_spurious = self.undo == UndoKind::All && self.duplicated.is_spurious();
        if is_spurious {
            self.take_back(flight, false);
        }
        is_spurious
    }

    fn take_back_timeout(&mut self, flight: &mut Flight, by_frto: bool) {
        self.take_back(flight, true);
        self.timeouts = 0;
        let is_held = flight.snd_una == self.end && !self.has_sack;
        if !is_held && (by_frto || self.has_sack) {
            self.phase = Phase::Open;
        }
    }

    // ---- Window ----

    /// The window after an ACK: PRR while it shrinks, the law's growth otherwise.
    fn control(&mut self, flight: &mut Flight, now: Instant, news: &News, rtt: Option<Duration>) {
        let keeps = flight.law.keeps_window_in_recovery();
        if self.is_reducing() && !keeps {
            if news.delivered > 0 {
                let is_safe = news.una_advanced && news.lost == 0;
                self.proportion(flight, news.delivered, is_safe);
            }
            return;
        }
        let progress = news.has_acked
            || self.threshold > self.initial_threshold && news.has_sacked
            || keeps && news.delivered > 0;
        if progress {
            flight.law.on_ack(&AckSample {
                now,
                acked: u64::from(news.delivered) * flight.mss,
                delivered_segments: news.delivered,
                is_window_limited: self.is_window_limited(flight),
                prior_in_flight: flight.snd_max - flight.snd_una
                    + u64::from(news.acked) * flight.mss,
                snd_una: flight.snd_una,
                snd_max: flight.snd_max,
                rtt,
                srtt: flight.rtt.srtt(),
            });
        }
    }

    fn proportion(&mut self, flight: &mut Flight, delivered: u32, is_safe: bool) {
        let pipe = self.in_flight(flight);
        let count = self.prr.on_ack(delivered, pipe, is_safe);
        flight.law.set_cwnd(f64::from(pipe + count));
    }

    /// Did the window limit the sender, so that it may grow? In slow start it may be twice what was used.
    fn is_window_limited(&self, flight: &Flight) -> bool {
        self.usage.is_limited
            || flight.law.cwnd() < flight.law.ssthresh() && Self::cwnd(flight) < 2 * self.usage.most
    }

    /// New data have left, or could not for want of a window.
    fn note_usage(&mut self, flight: &Flight) {
        let outstanding = flight.records().len();
        let is_limited = self.in_flight(flight) >= Self::cwnd(flight);
        let usage = &mut self.usage;
        let is_more = !usage.is_limited && outstanding > usage.most;
        if flight.snd_una >= usage.end || is_limited || is_more {
            *usage = Usage { is_limited, most: outstanding, end: flight.snd_max };
        }
    }

    // ---- Timers ----

    fn arm(flight: &mut Flight, timer: Timer, deadline: Instant) {
        Self::stop_timers(flight);
        flight.timers.set(timer, deadline);
    }

    fn stop_timers(flight: &mut Flight) {
        for timer in [Timer::Retransmission, Timer::Reordering, Timer::TailProbe] {
            flight.timers.stop(timer);
        }
    }

    /// When the retransmission timer would fire had it started with the oldest segment.
    fn oldest_deadline(flight: &Flight, now: Instant) -> Instant {
        let oldest = flight.records().get(0).map_or(now, |oldest| oldest.sent);
        (oldest + flight.rtt.rto()).max(now + TICK)
    }

    /// Starts the retransmission timer; in place of another one it counts from the oldest segment.
    fn restart_timer(flight: &mut Flight, now: Instant, replaces: bool) {
        if flight.records().len() == 0 {
            Self::stop_timers(flight);
            return;
        }
        let deadline =
            if replaces { Self::oldest_deadline(flight, now) } else { now + flight.rtt.rto() };
        Self::arm(flight, Timer::Retransmission, deadline);
    }

    fn set_timer(&mut self, flight: &mut Flight, now: Instant) {
        if !self.schedule_probe(flight, now, true) {
            let replaces = flight.timers.is_running(Timer::Reordering)
                || flight.timers.is_running(Timer::TailProbe);
            Self::restart_timer(flight, now, replaces);
        }
    }

    /// Starts the timer of the tail loss probe where one may be needed. `is_ack`: an ACK for new data does.
    fn schedule_probe(&mut self, flight: &mut Flight, now: Instant, is_ack: bool) -> bool {
        let outstanding = flight.records().len();
        let is_calm = matches!(self.phase, Phase::Open | Phase::Reduced);
        if !self.has_sack || outstanding == 0 || !is_calm || flight.snd_una == 0 {
            return false;
        }
        let until_rto =
            if is_ack { flight.rtt.rto() } else { Self::oldest_deadline(flight, now) - now };
        let srtt = flight.rtt.srtt();
        let timeout = tail_probe::timeout(srtt, outstanding, self.slack(), until_rto);
        Self::arm(flight, Timer::TailProbe, now + timeout);
        true
    }

    fn on_reordering_timer(&mut self, flight: &mut Flight, now: Instant) {
        let mut news = News::default();
        let window = self.reordering_window(flight);
        let found = self.rack.detect(now, flight.records_mut(), window);
        self.take_in(flight, &found, &mut news);
        if found.lost + found.lost_again > 0 {
            if self.phase != Phase::Recovery {
                self.enter_recovery(flight, now, false, &news);
                if !flight.law.keeps_window_in_recovery() {
                    self.proportion(flight, 1, false);
                }
            }
            self.resend = Resend::Lost;
        }
        Self::restart_timer(flight, now, true);
    }

    fn on_probe_timer(&mut self, flight: &mut Flight, now: Instant) {
        Self::restart_timer(flight, now, true);
        if self.probe.is_outstanding() || flight.records().len() == 0 {
            return;
        }
        self.forced =
            Some(if flight.fits_receiver() { Forced::NewProbe } else { Forced::OldProbe });
    }

    fn on_retransmission_timer(&mut self, flight: &mut Flight, now: Instant) {
        if flight.snd_una == 0 {
            flight.on_timeout(now);
            return;
        }
        if flight.records().len() == 0 {
            Self::stop_timers(flight);
            return;
        }
        flight.counters.timeouts += 1;
        self.probe.end();
        self.enter_loss(flight, now);
        self.timeouts += 1;
        self.forced = Some(Forced::Oldest);
        self.resend = Resend::Nothing;
        flight.timed = None;
        flight.rtt.back_off();
        Self::arm(flight, Timer::Retransmission, now + flight.rtt.rto());
    }

    fn enter_loss(&mut self, flight: &mut Flight, now: Instant) {
        let is_new = self.phase < Phase::Recovery;
        self.counted = 0;
        let mut index = 0;
        while let Some(record) = flight.records().get(index) {
            let is_recent = index > 0 && self.rack.remaining(now, record, Duration::ZERO).is_some();
            if !record.is_sacked && !is_recent && flight.records_mut().mark_lost(index) {
                flight.counters.losses_declared += 1;
            }
            index += 1;
        }
        let cuts = self.phase <= Phase::Disorder
            || self.end <= flight.snd_una
            || self.phase == Phase::Loss && self.timeouts == 0;
        let in_use = cuts.then(|| flight.in_use(0));
        flight.law.on_timeout(now, in_use);
        if cuts {
            flight.counters.window_cuts += 1;
            self.can_restore = true;
            self.duplicated.on_reduction(flight.snd_una, flight.records().marks().resent);
        }
        let window = self.in_flight(flight) + 1;
        if !flight.law.keeps_window_in_recovery() {
            flight.law.set_cwnd(f64::from(window));
        }
        if self.phase <= Phase::Disorder && self.sacked(flight) >= self.initial_threshold {
            self.threshold = self.threshold.min(self.initial_threshold);
        }
        self.phase = Phase::Loss;
        self.end = flight.snd_max;
        let may_suspect = self.undo == UndoKind::All && (is_new || self.timeouts > 0);
        self.frto.on_timeout(may_suspect);
    }

    // ---- Output ----

    /// Duplicates that mean a loss: more once the network has been seen to change the order.
    pub fn reordering(&self) -> u32 {
        self.threshold
    }

    /// First byte of the segment that may go out now.
    pub fn next_segment(&mut self, flight: &mut Flight, _now: Instant) -> Option<u64> {
        if flight.snd_una == 0 {
            return flight.next_allowed();
        }
        match self.forced {
            Some(Forced::Oldest) => return flight.records().get(0).map(|oldest| oldest.start),
            Some(Forced::OldProbe) => return flight.records().last().map(|newest| newest.start),
            Some(Forced::NewProbe) if flight.fits_receiver() => return Some(flight.advance_next()),
            _ => self.forced = None,
        }
        let has_room = self.in_flight(flight) < Self::cwnd(flight);
        if self.resend == Resend::NewFirst && flight.snd_max == self.end {
            if has_room && flight.fits_receiver() {
                return Some(flight.advance_next());
            }
            self.frto.end();
            self.resend = Resend::Lost;
        }
        if has_room
            && self.resend == Resend::Lost
            && let Some(lost) = flight.records().first_to_resend()
        {
            return Some(lost.start);
        }
        if !flight.fits_receiver() {
            return None;
        }
        if !has_room {
            self.note_usage(flight);
            return None;
        }
        Some(flight.advance_next())
    }

    /// The segment at `seq` leaves.
    pub fn on_sent(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        let forced = self.forced.take();
        let runs = |timer| flight.timers.is_running(timer);
        let replaces_probe = runs(Timer::TailProbe);
        let awaits_reordering = runs(Timer::Reordering);
        if replaces_probe || awaits_reordering {
            flight.timers.stop(Timer::Retransmission);
        }
        let index = flight.records().index_of(seq);
        let is_again = flight.records().get(index).is_some_and(|record| record.was_resent());
        if is_again {
            self.duplicated.on_retransmission();
            self.resent_at.get_or_insert(now);
            if index == 0 && !awaits_reordering && forced != Some(Forced::Oldest) {
                Self::restart_timer(flight, now, false);
            }
        } else if flight.snd_una > 0 {
            if replaces_probe {
                Self::restart_timer(flight, now, true);
            }
            self.note_usage(flight);
        }
        if self.is_reducing() && forced.is_none() {
            self.prr.on_sent();
        }
        match forced {
            Some(Forced::NewProbe | Forced::OldProbe) => {
                flight.counters.tail_probes += 1;
                self.probe.on_sent(flight.snd_max, is_again);
                Self::restart_timer(flight, now, false);
            }
            Some(Forced::Oldest) => {}
            None if !is_again => {
                self.schedule_probe(flight, now, false);
            }
            None => {}
        }
    }
}
