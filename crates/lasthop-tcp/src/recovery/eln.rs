//! Reactions of a sender to explicit loss notifications (ELN), which report a segment lost on a
//! link and not by congestion. They extend a recovery scheme that has no support for ELN.
//!
//! ```text
//!                      extends    ELN(s): s damaged or discarded      duplicate ACKs for s
//!   hack               RFC 6675   retransmit s, keep the window       counted
//!   hack-fixed         RFC 6675   as hack                             not counted
//!   ewln               Reno       as hack                             counted
//!   tcp-eln            NewReno    as hack; clear the duplicates       counted
//!   balakrishnan-eln   Reno       none: ELN is a mark on duplicates   if marked: not counted; the
//!                                                                     first one retransmits s
//! ```
//!
//! Sources: Balan, Lee, Kumar, Jacob, Seah, Ananda, "TCP HACK: TCP Header Checksum Option to
//! Improve Performance over Lossy Links", INFOCOM 2001; Yun, EURASIP JWCN 2009 (HACK-fixed); Zhang,
//! Shirazi, "Explicit Wireless Loss Notification", 2003; Buchholcz, Ziegler, Do, "TCP-ELN", WWIC
//! 2005; Balakrishnan, Katz, GLOBECOM 1998 and ns-2's `tcp_eln`.
//!
//! In the first four schemes the ELN is a message with the sequence number of the segment
//! ([`flags::ELN`](lasthop_base::packet::flags)). It is sent by a receiver that got a damaged
//! segment with a readable header, or by an agent at a link. The sender ignores a second ELN for
//! the same segment within one SRTT. It also ignores an ELN for a segment that is not outstanding
//! or has been SACKed. Yun's article only names HACK-fixed; which duplicates it ignores is our
//! interpretation.
//!
//! *Not modelled*: the cumulative acknowledgment number in HACK's message; EWLN over SACK, which is
//! identical to `hack`.

use super::super::config::{Config, Notices};
use super::super::flight::Flight;
use super::super::info::{Outstanding, RecoveryState};
use super::{LossRecovery, Recovery};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub struct ElnRecovery {
    base: Recovery,
    notices: Notices,
    /// First bytes of segments to be retransmitted now.
    due: VecDeque<u64>,
    /// First bytes of segments reported lost, each with the time of the notification.
    known: Vec<(u64, Instant)>,
}

impl ElnRecovery {
    pub fn new(config: &Config) -> Self {
        let base = Recovery::without_notices(config);
        ElnRecovery { base, notices: config.notices, due: VecDeque::new(), known: Vec::new() }
    }

    fn forget(&mut self) {
        self.due.clear();
        self.known.clear();
    }

    fn resend(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        flight.counters.explicit_losses += 1;
        self.known.push((seq, now));
        self.due.push_back(seq);
        if seq == flight.snd_una {
            flight.restart_timer(now);
        }
    }
}

impl LossRecovery for ElnRecovery {
    fn wants_every_sack(&self) -> bool {
        self.base.wants_every_sack()
    }

    fn on_reorder_timeout(&mut self, flight: &mut Flight, now: Instant) {
        self.base.on_reorder_timeout(flight, now);
    }

    fn outstanding(&self, flight: &Flight) -> (RecoveryState, Outstanding) {
        self.base.outstanding(flight)
    }

    fn reset(&mut self, config: &Config) {
        self.base.reset(config);
        self.forget();
    }

    #[inline(never)]
    fn inflation(&self) -> u32 {
        self.base.inflation()
    }

    #[inline(never)]
    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let una = flight.snd_una;
        let is_marked = flight.hints.loss_mark.take() == Some(ack);
        if ack > una {
            self.known.retain(|&(seq, _)| seq >= ack);
        } else if ack == una {
            let is_known = self.known.iter().any(|&(seq, _)| seq == una);
            if self.notices == Notices::Excuse && is_known {
                self.base.on_uncounted_duplicate(flight, blocks);
                return;
            }
            if self.notices == Notices::Marks && is_marked {
                if !is_known {
                    self.resend(flight, now, una);
                }
                return;
            }
        }
        self.base.on_ack(flight, now, ack, blocks);
    }

    fn on_explicit_loss(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        let is_outstanding = (flight.snd_una..flight.snd_max).contains(&seq);
        if self.notices == Notices::Marks || !is_outstanding || self.base.has_arrived(seq) {
            return;
        }
        let srtt = flight.rtt.srtt();
        let is_repeat = |&(known, at): &(u64, Instant)| known == seq && now < at + srtt;
        if !self.known.iter().any(is_repeat) {
            self.known.retain(|&(known, _)| known != seq);
            self.resend(flight, now, seq);
            if self.notices == Notices::Restart {
                flight.duplicates.clear();
            }
        }
    }

    fn on_timeout(&mut self, flight: &mut Flight) {
        self.forget();
        self.base.on_timeout(flight);
    }

    fn on_spurious(&mut self) {
        self.base.on_spurious();
    }

    #[inline(never)]
    fn is_plain(&self, flight: &Flight) -> bool {
        self.due.is_empty() && self.base.is_plain(flight)
    }

    #[inline(never)]
    fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64> {
        if let Some(seq) = self.due.pop_front() {
            flight.forget_timed_segment(flight.segment_end(seq));
            return Some(seq);
        }
        self.base.next_segment(flight, now)
    }
}
