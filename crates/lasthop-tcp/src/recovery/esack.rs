//! ELSN-capable SACK, ESACK (Yun, "Cross-Layer Explicit Link Status Notification to Improve TCP
//! Performance in Wireless Networks", EURASIP JWCN 2009, section 4): ns-2's [`Sack1`] with support
//! for explicit notifications of a link.
//!
//! ```text
//!   as Sack1; in every state
//!     ELN(s)     retransmit s immediately and put it last in transmission order; same window
//!     ERSN(s)    the timer is restarted instead of expiring for s, until s is settled
//!
//!   OPEN, a duplicate with new SACK information; F: first unSACKed segment in transmission order
//!     F is the segment at SND.UNA         duplicates + 1
//!     F < the highest byte SACKed         1 if F has changed, else duplicates + 1
//!     the segment at SND.UNA is SACKed    retransmit it: the receiver has dropped it
//!     otherwise                           F waits for its own acknowledgment: one new segment for
//!                                         each one delivered, as far as the window allows
//!   third duplicate --> RECOVERY as in Sack1, with F instead of the oldest segment
//!
//!   more than N successive ELNs --> DISCONNECTED: only every other ELN is answered,
//!     the timer sends a probe and does not reduce the window
//!   ACK with new information --> segments of unanswered ELNs are retransmitted; normal operation
//! ```
//!
//! The transmission order is the order of sequence numbers, except for segments that were
//! retransmitted because of an ELN. Each of these is recorded with SND.MAX at that time: original
//! segments below it precede the retransmission. Without ELN the list is empty, and each step
//! equals that of Sack1.
//!
//! Choices where the paper is silent:
//!
//! - While a segment retransmitted because of an ELN is outstanding, an ACK for new data does not
//!   clear the scoreboard (the paper's segments have flags). New data may then be sent while the
//!   number of segments in the network is below the window.
//! - An ELN is ignored if its segment has been acknowledged or SACKed, or was never sent.
//! - A retransmission of the oldest segment restarts the timer. A retransmission of the timed
//!   segment cancels its RTT sample (Karn's algorithm).
//! - ELNs are successive if no ACK with new information arrives between them.
//! - In DISCONNECTED the first ELN is not answered, the second is, and so on.
//! - An ERSN holds the timer for 1 s or two RTOs, whichever is longer, in case the ELN that follows
//!   is lost.

use super::super::config::{Config, Ersn};
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::loss::duplicates::Duplicate;
use super::super::loss::sack_ns2::Scoreboard;
use super::super::timers::Timer;
use super::LossRecovery;
use super::sack_ns2::Sack1;
use lasthop_base::units::{Duration, Instant};
use std::collections::VecDeque;

/// Minimum time for which an ERSN is valid.
const HOLD: Duration = Duration::from_secs(1);

/// A segment that was retransmitted because of an ELN.
#[derive(Clone, Copy, Debug)]
struct Resent {
    start: u64,
    end: u64,
    /// SND.MAX at the time of the retransmission, which determines its place in transmission order.
    after: u64,
}

#[derive(Clone, Debug)]
pub struct Esack {
    sack: Sack1,
    /// In transmission order.
    resent: VecDeque<Resent>,
    /// First bytes of segments to be retransmitted now.
    due: VecDeque<u64>,
    /// First segment in transmission order that was not SACKed at the latest duplicate.
    first_unsacked: u64,
    /// Maximum number of successive ELNs attributed to noise; more of them mean a disconnection.
    filter: Option<u32>,
    /// Number of ELNs since the latest ACK with new information.
    run: u32,
    is_disconnected: bool,
    /// First bytes of segments whose ELN was not answered.
    left_out: VecDeque<u64>,
    ersn: Ersn,
    /// First bytes of segments that a link is retransmitting, each with the end of the ERSN's
    /// validity.
    retrying: Vec<(u64, Instant)>,
}

impl Esack {
    pub fn new(config: &Config) -> Self {
        Esack {
            sack: Sack1::new(config),
            resent: VecDeque::new(),
            due: VecDeque::new(),
            first_unsacked: u64::MAX,
            filter: config.eln_filter,
            run: 0,
            is_disconnected: false,
            left_out: VecDeque::new(),
            ersn: config.ersn,
            retrying: Vec::new(),
        }
    }

    /// Clears the list; all segments will be retransmitted in order of sequence numbers.
    fn forget(&mut self) {
        self.resent.clear();
        self.due.clear();
        self.retrying.clear();
        self.first_unsacked = u64::MAX;
    }

    /// Handles a duplicate while a segment retransmitted because of an ELN is outstanding
    /// (Algorithm 1).
    fn on_duplicate(&mut self, flight: &mut Flight, now: Instant) {
        let una = flight.snd_una;
        let first = self.first_unsacked(flight);
        let changed = std::mem::replace(&mut self.first_unsacked, first) != first;
        let scoreboard = &self.sack.scoreboard;
        let duplicate = if first == una {
            flight.duplicates.add()
        } else if first < scoreboard.highest() {
            if changed {
                flight.duplicates.clear();
            }
            flight.duplicates.add()
        } else {
            if scoreboard.has(una) {
                self.due.push_back(una);
            }
            return;
        };
        match duplicate {
            Duplicate::Early => flight.limited_transmit(),
            Duplicate::Threshold => {
                let in_network = self.in_network(flight);
                if self.sack.enter_recovery(flight, now, first, in_network) {
                    self.resent.retain(|known| known.start != first);
                }
            }
            Duplicate::Further => {}
        }
    }

    /// Returns the start of the first segment in transmission order that is not known to have
    /// arrived.
    fn first_unsacked(&self, flight: &Flight) -> u64 {
        let scoreboard = &self.sack.scoreboard;
        let mut resent = self.resent.iter().filter(|known| !scoreboard.has(known.start));
        let original = self.original_hole(flight, flight.snd_una);
        match resent.next() {
            Some(known) if original.is_none_or(|start| start >= known.after) => known.start,
            _ => original.unwrap_or(flight.snd_max),
        }
    }

    /// Returns the lowest byte at or above `from` that has neither arrived nor been retransmitted.
    fn original_hole(&self, flight: &Flight, from: u64) -> Option<u64> {
        let mut at = from;
        while at < flight.snd_max {
            let start = self.sack.scoreboard.end_of_range_at(at);
            match self.resent.iter().find(|known| known.start == start) {
                Some(known) => at = known.end,
                None => return (start < flight.snd_max).then_some(start),
            }
        }
        None
    }

    /// Number of segments in the network: sent and not SACKed, each counted once.
    fn in_network(&self, flight: &Flight) -> i64 {
        let sacked = self.sack.scoreboard.bytes();
        (flight.snd_max - flight.snd_una).saturating_sub(sacked).div_ceil(flight.mss) as i64
    }

    /// Ends DISCONNECTED after an ACK that reports a delivery.
    fn on_new_information(&mut self, flight: &Flight) {
        self.run = 0;
        if std::mem::take(&mut self.is_disconnected) {
            while let Some(seq) = self.left_out.pop_front() {
                self.retransmit(flight, seq);
            }
        }
    }

    fn is_outstanding(&self, flight: &Flight, seq: u64) -> bool {
        (flight.snd_una..flight.snd_max).contains(&seq) && !self.sack.scoreboard.has(seq)
    }

    fn retransmit(&mut self, flight: &Flight, seq: u64) {
        if self.is_outstanding(flight, seq) && !self.due.contains(&seq) {
            self.due.push_back(seq);
        }
    }
}

impl LossRecovery for Esack {
    fn reset(&mut self, config: &Config) {
        self.sack.reset(config);
        self.forget();
        self.run = 0;
        self.is_disconnected = false;
        self.left_out.clear();
    }

    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        if ack > flight.snd_una {
            self.first_unsacked = u64::MAX;
            self.resent.retain(|known| known.end > ack);
            self.retrying.retain(|&(seq, _)| seq >= ack);
            self.sack.scoreboard.keep_on_ack(!self.resent.is_empty());
            self.sack.on_ack(flight, now, ack, blocks);
            // Sack1 ignores the SACK blocks of an ACK for new data.
            if !self.resent.is_empty() {
                self.sack.scoreboard.update(blocks);
            }
            self.on_new_information(flight);
        } else if self.resent.is_empty() || self.sack.in_recovery() {
            let before = self.sack.scoreboard.generation();
            self.sack.on_ack(flight, now, ack, blocks);
            if self.sack.scoreboard.generation() != before {
                self.on_new_information(flight);
            }
        } else if ack == flight.snd_una
            && !self.sack.is_after_timeout()
            && self.sack.scoreboard.update(blocks)
        {
            self.on_duplicate(flight, now);
            self.on_new_information(flight);
        }
    }

    fn on_explicit_loss(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        if !self.is_outstanding(flight, seq) {
            return;
        }
        flight.counters.explicit_losses += 1;
        self.retrying.retain(|&(known, _)| known != seq);
        self.run += 1;
        if self.filter.is_some_and(|most| self.run > most) {
            let is_first = !std::mem::replace(&mut self.is_disconnected, true);
            let beyond = self.run - self.filter.unwrap_or_default();
            if is_first || beyond % 2 == 1 {
                self.left_out.push_back(seq);
                return;
            }
        }
        self.retransmit(flight, seq);
        if seq == flight.snd_una {
            flight.restart_timer(now);
        }
    }

    fn on_retransmission_started(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        if !self.is_outstanding(flight, seq) {
            return;
        }
        match self.ersn {
            Ersn::Off => {}
            Ersn::Restart => flight.restart_timer(now),
            Ersn::Hold => {
                let rto = flight.rtt.rto();
                let until = now + HOLD.max(rto * 2);
                match self.retrying.iter_mut().find(|(known, _)| *known == seq) {
                    Some(known) => known.1 = until,
                    None => self.retrying.push((seq, until)),
                }
            }
        }
    }

    fn holds_timer(&mut self, flight: &mut Flight, now: Instant) -> bool {
        let una = flight.snd_una;
        if self.is_disconnected {
            self.retransmit(flight, una);
            flight.rtt.back_off();
        } else {
            let is_retrying = |&(seq, until): &(u64, Instant)| seq == una && now < until;
            if !self.retrying.iter().any(is_retrying) {
                return false;
            }
            flight.counters.timeouts_held += 1;
        }
        flight.timers.set(Timer::Retransmission, now + flight.rtt.rto());
        true
    }

    fn in_recovery(&self) -> bool {
        self.sack.in_recovery()
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.sack.on_timeout(flight);
        self.forget();
    }

    fn on_spurious(&mut self) {
        self.sack.on_spurious();
    }

    #[inline]
    fn is_plain(&self, flight: &Flight) -> bool {
        self.sack.is_plain(flight) && self.resent.is_empty() && self.due.is_empty()
    }

    fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64> {
        while let Some(seq) = self.due.pop_front() {
            if self.is_outstanding(flight, seq) {
                let (end, after) = (flight.segment_end(seq), flight.snd_max);
                self.resent.retain(|known| known.start != seq);
                self.resent.push_back(Resent { start: seq, end, after });
                flight.forget_timed_segment(end);
                return Some(seq);
            }
        }
        if self.sack.in_recovery() {
            let resent = &mut self.resent;
            return self.sack.next_in_recovery(flight, |scoreboard, from| {
                let hole = next_lost(scoreboard, resent, from)?;
                resent.retain(|known| known.start != hole);
                Some(hole)
            });
        }
        if self.resent.is_empty() {
            return self.sack.next_segment(flight, now);
        }
        if let Some(seq) = flight.poll_limited_transmit() {
            return Some(seq);
        }
        let is_new = flight.snd_nxt == flight.snd_max;
        if !is_new {
            return flight.next_allowed();
        }
        let has_room = self.in_network(flight) < flight.congestion_control.cwnd() as i64;
        (has_room && flight.fits_receiver()).then(|| flight.advance_next())
    }
}

/// Returns the lowest hole at or above `from` that is lost in recovery. A segment retransmitted
/// because of an ELN is lost only if a byte sent after the retransmission has arrived.
fn next_lost(scoreboard: &Scoreboard, resent: &VecDeque<Resent>, from: u64) -> Option<u64> {
    let mut at = from;
    loop {
        let hole = scoreboard.next_hole(at)?;
        match resent.iter().find(|known| known.start == hole) {
            Some(known) if known.after >= scoreboard.highest() => at = known.end,
            _ => return Some(hole),
        }
    }
}
