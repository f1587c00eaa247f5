//! Processing of a segment that has passed the checks: in full, or only as expected by header prediction (Linux).

use super::{Endpoint, Host};
use crate::timers::Timer;
use lasthop_base::packet::TcpHeader;
use lasthop_base::units::Instant;

impl Endpoint<Host> {
    /// Passes a segment to the connection and updates the state of the host.
    pub(super) fn pass_on(&mut self, now: Instant, header: &TcpHeader, ack: u64) {
        let had_peer_closed = self.has_peer_closed();
        self.note_probe_passed(ack);
        let una = self.sender.flight.snd_una;
        let had_outstanding = una < self.sender.flight.snd_max;
        let had_timed_out = self.sender.has_timed_out();
        let seq = self.receiver.unwrap(header.seq);
        let looks = self.process(now, header, seq);
        self.host.progress.heard_at = now;
        self.note_window();
        self.host.app.awaits_room &= !self.is_writable();
        if looks && (ack >= una || !self.policies.abort.is_by_time()) {
            self.host.progress.probes_unanswered = 0;
            self.host.reason = None;
        }
        self.host.progress.keep_alives_unanswered = 0;
        if header.payload > 0 {
            self.host.progress.data_at = now;
        }
        if ack > una
            || self.policies.abort.is_by_time() && had_timed_out && !self.sender.has_timed_out()
        {
            self.host.progress.waiting_since = now;
            self.host.progress.repeating_since = None;
            self.host.progress.retransmission_back_off = 0;
        }
        let flight = &self.sender.flight;
        if self.policies.abort.is_by_time() {
            if ack >= una && !had_outstanding && looks && flight.snd_max < flight.write_end {
                self.answer_probe(now);
            }
        } else if flight.timers.is_running(Timer::Persist) {
            // RFC 9293, section 3.8.6.1: the interval between probes increases; an answer resets
            // it.
            let is_open = flight.snd_una < flight.write_end && flight.fits_receiver();
            self.stop(Timer::Persist);
            if is_open {
                self.host.progress.repeating_since = None;
                self.sender.probe_back_off = 0;
            }
        }
        self.watch_data(now);
        self.follow(now, had_peer_closed);
    }

    /// Handles an acknowledgment while no data is outstanding and unsent data waits for the window
    /// (Linux: `tcp_ack_probe`).
    fn answer_probe(&mut self, now: Instant) {
        let flight = &mut self.sender.flight;
        let end = self.host.buffer.first_end(flight.snd_max).unwrap_or(flight.write_end);
        if end <= flight.snd_una + flight.peer.window {
            flight.rtt.forget_doublings();
            flight.timers.stop(Timer::Persist);
            self.host.progress.repeating_since = None;
        } else {
            self.set_persist(now);
        }
    }
}
