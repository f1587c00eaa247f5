//! What a socket does with a segment that has passed the checks: it goes to the connection, and as in Linux is looked at in
//! full or only for what is expected (header prediction).

use super::states::State;
use super::{Endpoint, Host, TIMESTAMPS_BYTES};
use crate::timers::Timer;
use lasthop_base::packet::{Ecn, TcpHeader, flags};
use lasthop_base::units::Instant;

impl Endpoint<Host> {
    /// To the connection, and what follows from it.
    pub(super) fn pass_on(&mut self, now: Instant, header: &TcpHeader, ack: u64) {
        let had_peer_closed = self.has_peer_closed();
        self.note_probe_passed(ack);
        let una = self.sender.flight.snd_una;
        let had_outstanding = una < self.sender.flight.snd_max;
        let had_timed_out = self.sender.has_timed_out();
        let options = if header.has_timestamps { u64::from(TIMESTAMPS_BYTES) } else { 0 };
        let fill = self.sender.flight.keeps_records().then(|| self.sender.fill());
        let charged = fill.map_or(0, |fill| self.host.buffer.memory(&fill));
        let bounds = self.receiver.window.as_deref().and_then(|window| window.bounds());
        let has_reserve =
            bounds.is_none_or(|memory| memory.has_reserve(header.payload.into(), options, charged));
        let is_predicted = header.payload > 0
            && has_reserve
            && self.host.state == State::Established
            && !header.has(flags::FIN | flags::ECE | flags::CWR)
            && header.seq == self.receiver.rcv_nxt as u32
            && !self.receiver.has_holes()
            && header.sack_blocks == 0
            && u64::from(header.window) == self.sender.flight.peer_window;
        // An ACK that says nothing but what is expected: Linux's path of header prediction takes its time stamp.
        let is_bare = header.flags == flags::ACK
            && header.payload == 0
            && header.seq == self.receiver.rcv_nxt as u32
            && self.receiver.last_ack_sent() == self.receiver.rcv_nxt
            && !self.receiver.has_holes()
            && header.sack_blocks == 0
            && u64::from(header.window) == self.sender.flight.peer_window
            && self.host.state == State::Established;
        let rcv_nxt = self.receiver.rcv_nxt;
        let seq = self.receiver.unwrap(header.seq);
        let end = seq + u64::from(header.payload);
        let arriving = self.arriving(now, header, seq, self.host.is_pushed);
        self.receiver.expect(&self.config, now, &arriving);
        let ts_recent = self.receiver.ts_recent;
        let takes_data = header.payload > 0 || header.has(flags::FIN);
        let deferral = self.sender.deferral();
        let is_known = self.is_linux && header.payload > 0 && end <= rcv_nxt;
        // A mark on what has come before is no news.
        let ecn = if is_known { Ecn::NotEct } else { header.ecn };
        let length = header.length().into();
        self.receive_options(&TcpHeader { ecn, ..*header }, seq);
        self.receive_ack(now, header, seq, length == 0);
        if self.is_linux && is_predicted && ack == una {
            // Linux does not look for what to send.
            self.sender.restore_deferral(deferral);
        }
        if ack < una && self.is_linux && !is_bare {
            // What an old acknowledgment says of time counts as little as it does.
            self.receiver.ts_recent = ts_recent;
        }
        // Linux looks for what to send after each ACK, but not after data in order that acknowledge nothing new.
        let is_linux = self.is_linux;
        let looks = !is_predicted || ack > una;
        if is_linux && looks && std::mem::take(&mut self.host.has_more) {
            // The announcement of more holds until then.
            self.release(self.host.is_corked);
        }
        self.note_probe_lost();
        if is_linux && takes_data && !is_predicted {
            self.resend_lost(now);
        }
        self.receive_data(now, header, seq, length);
        self.host.heard_at = now;
        self.note_window();
        self.host.awaits_room &= !self.is_writable();
        if !is_linux || looks && ack >= una {
            self.host.probes_unanswered = 0;
            self.host.reason = None;
        }
        self.host.keep_alives_unanswered = 0;
        if header.payload > 0 {
            self.host.data_at = now;
        }
        if ack > una || is_linux && had_timed_out && !self.sender.has_timed_out() {
            self.host.waiting_since = now;
            self.host.repeating_since = None;
            self.host.retransmission_back_off = 0;
        }
        let flight = &self.sender.flight;
        if is_linux {
            if ack >= una && !had_outstanding && looks && flight.snd_max < flight.write_end {
                self.answer_probe(now);
            }
        } else if flight.timers.is_running(Timer::Persist) {
            // RFC 9293, section 3.8.6.1: the interval between probes grows; an answer starts it anew.
            let is_open = flight.snd_una < flight.write_end && flight.fits_receiver();
            self.stop(Timer::Persist);
            if is_open {
                self.host.repeating_since = None;
                self.sender.probe_back_off = 0;
            }
        }
        self.watch_data(now);
        self.follow(now, had_peer_closed);
    }

    /// Retransmits what the acknowledgment of a segment with data finds lost. Linux does so before it processes the data
    /// (`tcp_xmit_recovery`).
    fn resend_lost(&mut self, now: Instant) {
        while self.sender.has_to_resend(now)
            && let Some(segment) = self.poll_marked(now)
        {
            self.host.departed.push_back(segment);
        }
    }

    /// An acknowledgment comes while nothing is outstanding and something waits for a window (Linux: `tcp_ack_probe`).
    fn answer_probe(&mut self, now: Instant) {
        let flight = &mut self.sender.flight;
        let end = self.host.buffer.first_end(flight.snd_max).unwrap_or(flight.write_end);
        if end <= flight.snd_una + flight.peer_window {
            flight.rtt.forget_doublings();
            flight.timers.stop(Timer::Persist);
            self.host.repeating_since = None;
        } else {
            self.set_persist(now);
        }
    }
}
