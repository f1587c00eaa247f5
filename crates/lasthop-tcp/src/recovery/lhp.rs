//! The packet list of LHP (Gao, Diggavi, Muthukrishnan, "LHP: An End-to-End Reliable Transport
//! Protocol over Wireless Data Networks", ICC 2003; Yun, EURASIP JWCN 2009, section 2), with the
//! acknowledgments of SMART (Keshav, Morgan, INFOCOM 1997).
//!
//! ```text
//!   list: outstanding segments in transmission order, each entry with a count
//!
//!   ACK(cumulative, trigger)   remove entries below the cumulative number, and the trigger;
//!                              count + 1 for entries before the trigger
//!   a count of 3               for each such entry: reduce the window, retransmit the segment,
//!                              put it last with count 0
//!   ELN(s)                     retransmit s, put it last with count 0; same window
//!   timeout                    as Reno; clear the list
//!   sending                    new data while the list is shorter than the window
//! ```
//!
//! The trigger is the segment that caused the receiver to send the ACK. It is the segment of the
//! only SACK block or, if the cumulative number advances, the segment that was missing at SND.UNA.
//! LHP reduces the window once for each lost segment. The window is not inflated: entries removed
//! from the list make room.
//!
//! *Not modelled*: the fragments of its link, of which the first contains the header. Whether the
//! header of a damaged segment is readable is a key of the error process.

use super::super::config::Config;
use super::super::congestion_control::CongestionControl;
use super::super::flight::Flight;
use super::super::info::Outstanding;
use super::LossRecovery;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Number of later segments whose arrival indicates the loss of an entry.
const THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    end: u64,
    count: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Lhp {
    /// In transmission order.
    list: VecDeque<Entry>,
    /// First bytes of segments to be retransmitted now.
    due: VecDeque<u64>,
}

impl Lhp {
    fn clear(&mut self) {
        self.list.clear();
        self.due.clear();
    }

    /// Schedules the retransmission of the entry and puts it last in transmission order.
    fn again(&mut self, entry: Entry) {
        self.list.push_back(Entry { count: 0, ..entry });
        self.due.push_back(entry.start);
    }
}

impl LossRecovery for Lhp {
    fn on_spurious(&mut self) {
        self.clear();
    }

    /// Always `false`: the window is compared with the number of entries, not with bytes.
    fn is_plain(&self, _: &Flight) -> bool {
        false
    }

    fn reset(&mut self, _: &Config) {
        self.clear();
    }

    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let una = flight.snd_una;
        let trigger = if ack > una {
            let acked = flight.new_ack(now, ack);
            flight.grow_window(now, acked);
            una
        } else {
            match blocks.first() {
                Some(&(start, _)) => start,
                None => return,
            }
        };
        if let Some(place) = self.list.iter().position(|entry| entry.start == trigger) {
            for entry in self.list.range_mut(..place) {
                entry.count += 1;
            }
            self.list.remove(place);
        }
        self.list.retain(|entry| entry.end > flight.snd_una);
        while let Some(place) = self.list.iter().position(|entry| entry.count >= THRESHOLD) {
            let outstanding = self.list.len() as f64;
            if let Some(entry) = self.list.remove(place) {
                flight.fast_retransmit_of(now, entry.start, outstanding);
                self.again(entry);
            }
        }
    }

    fn on_explicit_loss(&mut self, flight: &mut Flight, _: Instant, seq: u64) {
        let place = self.list.iter().position(|entry| entry.start == seq);
        if let Some(entry) = place.and_then(|place| self.list.remove(place)) {
            flight.counters.explicit_losses += 1;
            self.again(entry);
        }
    }

    fn on_timeout(&mut self, _: &mut Flight) {
        self.clear();
    }

    fn known(&self, flight: &Flight) -> Outstanding {
        let listed = self.list.len() as u64;
        let sacked = flight.outstanding_segments().saturating_sub(listed);
        let lost = self.due.len() as u64;
        Outstanding { sacked, lost, retransmitted: 0 }
    }

    fn next_segment(&mut self, flight: &mut Flight, _: Instant) -> Option<u64> {
        while let Some(seq) = self.due.pop_front() {
            if seq >= flight.snd_una {
                flight.forget_timed_segment(flight.segment_end(seq));
                return Some(seq);
            }
        }
        let has_room = (self.list.len() as f64) < flight.congestion_control.cwnd().floor();
        (has_room && flight.fits_receiver()).then(|| flight.advance_next())
    }

    fn on_sent(&mut self, flight: &mut Flight, _: Instant, seq: u64) {
        if self.list.iter().all(|entry| entry.start != seq) {
            self.list.push_back(Entry { start: seq, end: flight.segment_end(seq), count: 0 });
        }
    }
}
