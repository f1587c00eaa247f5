//! What a sender makes of the news that a link, not congestion, has lost a segment, over a recovery that knows nothing of it.
//!
//! ```text
//!                      over       ELN(s): s was damaged or given up              duplicates that ask for such a segment
//!   hack               RFC 6675   send s again at once; no window is cut         count as always
//!   hack-fixed         RFC 6675   the same                                       do not count until it is there
//!   ewln               Reno       the same                                       count as always
//!   tcp-eln            NewReno    the same; duplicates begin anew                count as always
//!   balakrishnan-eln   Reno       nothing: its news are marks on duplicates      a marked one sends the segment again,
//!                                                                                once, and does not count
//! ```
//!
//! Sources: Balan, Lee, Kumar, Jacob, Seah, Ananda, "TCP HACK: TCP Header Checksum Option to Improve Performance over Lossy
//! Links", INFOCOM 2001; Yun, EURASIP JWCN 2009 (HACK-fixed); Zhang, Shirazi, "Explicit Wireless Loss Notification",
//! 2003; Buchholcz, Ziegler, Do, "TCP-ELN", WWIC 2005; Balakrishnan, Katz, GLOBECOM 1998 and ns-2's `tcp_eln`.
//!
//! The news of the first four is a message with the number of the segment ([`flags::ELN`](lasthop_base::packet::flags)): from a
//! receiver that got a damaged segment with a readable header, or from an agent at a link. A second one for the same segment
//! within a smoothed round trip is ignored, and so is one for what is not outstanding or has been SACKed. How HACK-fixed
//! ignores duplicates is our reading: Yun's article names it only.
//!
//! *Not modelled*: the cumulative number that HACK's message repeats; EWLN over SACK, which is `hack`.

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
    /// First bytes of segments to be sent again now.
    due: VecDeque<u64>,
    /// First bytes of segments of which there was news, and when it came.
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
