//! Processing of ACKs: RTT, sequence numbers, growth of the window, measurements for congestion
//! control.

use super::Flight;
use super::kept::Kept;
use crate::congestion_control::{AckSample, CongestionControl, Delivery};
use crate::timers::Timer;
use lasthop_base::units::{Duration, Instant};

impl Flight {
    /// Processes an ACK for new data: RTT, timers, sequence numbers. Returns the number of bytes
    /// acknowledged.
    #[inline(always)]
    pub(crate) fn new_ack(&mut self, now: Instant, ack: u64) -> u64 {
        self.duplicates.clear();
        self.losses.limited_transmit_due = false;
        self.losses.limited_bytes = 0;
        if self.losses.timed_out_at == Some(0) && self.snd_una == 0 {
            self.rtt.after_lost_syn();
        }
        self.advance(now, ack)
    }

    /// Processes an ACK for new data if the connection [takes plain ACKs](Self::takes_plain_acks).
    #[inline(always)]
    pub(crate) fn on_plain_ack(&mut self, now: Instant, ack: u64) {
        debug_assert!(!self.has_counted_duplicates() && self.snd_una > 0, "nothing to reset");
        let acked = self.advance(now, ack);
        let sample = self.ack_sample(now, acked);
        self.congestion_control.on_ack(&sample);
        self.refresh_calm();
    }

    /// Returns `true` if there is state of duplicate ACKs, which the next ACK for new data resets.
    #[inline]
    pub(super) fn has_counted_duplicates(&self) -> bool {
        self.duplicates.count() > 0
            || self.losses.limited_transmit_due
            || self.losses.limited_bytes > 0
    }

    /// Advances SND.UNA, with RTT measurement and retransmission timer. Returns the number of bytes
    /// acknowledged.
    #[inline(always)]
    fn advance(&mut self, now: Instant, ack: u64) -> u64 {
        let acked = ack - self.snd_una;
        self.move_una(ack);
        if let Some((end, sent)) = self.timed
            && ack >= end
        {
            self.timed = None;
            self.rtt.end_back_off();
            self.rtt.sample(sent, now);
        }
        self.restart_timer(now);
        acked
    }

    /// Returns `true` if full records of sent segments are kept.
    #[inline]
    pub(crate) fn keeps_records(&self) -> bool {
        matches!(self.kept, Kept::Records(_))
    }

    /// Returns `true` if the records have to process every ACK.
    #[inline]
    pub(crate) fn records_deliveries(&self) -> bool {
        !self.kept.is_nothing()
    }

    /// Updates the records and the measurements for congestion control by an ACK with new
    /// information or a duplicate, before recovery processes it.
    #[inline(never)]
    pub(crate) fn on_delivery(&mut self, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        let una = ack.max(self.snd_una);
        match &mut self.kept {
            Kept::Nothing => {}
            Kept::Departures(departures) => {
                let delivery = departures.on_ack(now, una, blocks);
                self.on_delivered(delivery);
            }
            Kept::Rates(departures) => {
                let delivery = departures.on_ack(now, una, blocks);
                self.on_delivered(delivery);
                if self.congestion_control.is_self_limited() {
                    self.on_app_limited();
                }
            }
            Kept::Records(records) => {
                let delivery = records.on_ack(now, una, blocks);
                self.on_delivered(delivery);
            }
        }
    }

    /// Handles the result of an ACK from the records. Inlined, because copies of `delivery` are
    /// expensive.
    #[inline(always)]
    fn on_delivered(&mut self, mut delivery: Delivery) {
        self.hints.ack_rtt = delivery.rtt;
        self.measure(&mut delivery);
    }

    /// Passes the result of an ACK from the full records to congestion control. The ACK advanced
    /// SND.UNA by `acked` bytes and yields the RTT sample `rtt`.
    pub(crate) fn tell_delivery(
        &mut self,
        now: Instant,
        acked: u64,
        rtt: Option<Duration>,
    ) -> Delivery {
        let una = self.snd_una;
        let delivery = self.records_mut().delivery(now, una, acked, rtt);
        self.measure(&mut { delivery });
        delivery
    }

    /// Completes `delivery` with other information of the ACK and passes it to a congestion control
    /// algorithm that measures. Changed in place, because copies are expensive.
    #[inline]
    fn measure(&mut self, delivery: &mut Delivery) {
        if self.parts.measures_deliveries {
            delivery.is_marked = self.hints.has_echo_of_mark;
            delivery.passage = self.hints.passage.take();
            delivery.lost = self.lost_bytes();
            if self.config.handshake && delivery.snd_una == delivery.acked {
                // A SYN alone yields an RTT sample, but no rate.
                delivery.rate = None;
            }
            self.congestion_control.on_delivery(delivery);
        }
    }

    /// Prepares for the processing of an ACK.
    pub(crate) fn begin_ack(&mut self) {
        self.output.piece.since_ack = 0;
    }

    /// Bytes declared lost so far, in full segments.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.counters.losses_declared * self.mss
    }

    /// Advances SND.UNA, without changing duplicates or timers.
    #[inline]
    pub(crate) fn move_una(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        if ack >= self.stream.first_message_end {
            self.forget_messages(ack);
            self.note_write_acked();
        }
    }

    /// Grows the window for an ACK of `acked` bytes, or opens it after the handshake.
    #[inline(always)]
    pub(crate) fn grow_window(&mut self, now: Instant, acked: u64) {
        let sample = self.ack_sample(now, acked);
        if self.parts.checks_window_growth {
            self.judge(sample);
        } else {
            self.congestion_control.on_ack(&sample);
        }
        if self.snd_una == 1 && self.config.handshake {
            self.congestion_control.set_cwnd(self.initial_window);
        }
    }

    #[inline(always)]
    fn ack_sample(&self, now: Instant, acked: u64) -> AckSample {
        AckSample {
            now,
            acked,
            // Usually one, which requires no division.
            delivered_segments: if acked <= self.mss { 1 } else { acked.div_ceil(self.mss) as u32 },
            is_window_limited: true,
            prior_in_flight: self.snd_max - self.snd_una + acked,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            rtt: self.hints.ack_rtt,
            srtt: self.rtt.srtt(),
        }
    }

    /// Restarts the timer while data is outstanding. ns-2's window can be halved to less than one
    /// packet, which permits no transmission. The timer then continues to run and opens the window
    /// again.
    #[inline(always)]
    pub(crate) fn restart_timer(&mut self, now: Instant) {
        let is_running = self.snd_una < self.snd_max
            || self.congestion_control.window() < self.mss && self.snd_una < self.write_end;
        let deadline = if is_running { now + self.rtt.rto() } else { Instant::NEVER };
        self.timers.set(Timer::Retransmission, deadline);
    }
}
