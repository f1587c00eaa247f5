//! What an ACK brings: times, the sequence space, growth of the window, what the law measures.

use super::Flight;
use super::kept::Kept;
use crate::congestion_control::{AckSample, CongestionControl, Delivery};
use crate::timers::Timer;
use lasthop_base::units::{Duration, Instant};

impl Flight {
    /// An ACK for new data: times, timers, the sequence space. Returns how many bytes it
    /// acknowledges.
    #[inline(always)]
    pub(crate) fn new_ack(&mut self, now: Instant, ack: u64) -> u64 {
        let acked = ack - self.snd_una;
        self.duplicates.clear();
        self.limited_transmit_due = false;
        self.losses.limited_bytes = 0;
        if self.losses.timed_out_at == Some(0) && self.snd_una == 0 {
            self.rtt.after_lost_syn();
        }
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

    /// Does it keep full records of what it sent?
    #[inline]
    pub(crate) fn keeps_records(&self) -> bool {
        matches!(self.kept, Kept::Records(_))
    }

    /// Does what is kept of segments have to hear of every ACK?
    #[inline]
    pub(crate) fn hears_of_acks(&self) -> bool {
        !self.kept.is_nothing()
    }

    /// An ACK with news, or a duplicate, before recovery makes anything of it: what is kept of segments, and what a law
    /// measures.
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
                if self.law.is_self_limited() {
                    self.on_app_limited();
                }
            }
            Kept::Records(records) => {
                let delivery = records.on_ack(now, una, blocks);
                self.on_delivered(delivery);
            }
        }
    }

    /// What is kept of segments has taken in an ACK. In line, as copies of what it tells cost.
    #[inline(always)]
    fn on_delivered(&mut self, mut delivery: Delivery) {
        self.hints.ack_rtt = delivery.rtt;
        self.measure(&mut delivery);
    }

    /// The records have taken in an ACK that moved the left edge by `acked` bytes and tells the round trip `rtt`: what a
    /// law measures.
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

    /// What a law measures, with what the ACK in hand tells besides: filled in in place, as copies of it cost.
    #[inline]
    fn measure(&mut self, delivery: &mut Delivery) {
        if self.parts.law_measures {
            delivery.is_marked = self.hints.has_echo_of_mark;
            delivery.passage = self.hints.passage.take();
            delivery.lost = self.lost_bytes();
            if self.config.handshake && delivery.snd_una == delivery.acked {
                // A SYN alone tells the path's round trip, and nothing of its rate.
                delivery.rate = None;
            }
            self.law.on_delivery(delivery);
        }
    }

    /// An ACK arrived.
    pub(crate) fn begin_ack(&mut self) {
        self.piece.since_ack = 0;
    }

    /// Bytes declared lost so far, in full segments.
    pub(super) fn lost_bytes(&self) -> u64 {
        self.counters.losses_declared * self.mss
    }

    /// Moves the left edge; neither duplicates nor timers are touched.
    #[inline]
    pub(crate) fn move_una(&mut self, ack: u64) {
        self.snd_una = ack;
        self.snd_nxt = self.snd_nxt.max(ack);
        if ack >= self.stream.first_message_end {
            self.forget_messages(ack);
        }
    }

    /// Grows the window by an ACK of `acked` bytes, or opens it after the handshake.
    #[inline(always)]
    pub(crate) fn grow_window(&mut self, now: Instant, acked: u64) {
        let sample = AckSample {
            now,
            acked,
            // Mostly one, which needs no division.
            delivered_segments: if acked <= self.mss { 1 } else { acked.div_ceil(self.mss) as u32 },
            is_window_limited: true,
            prior_in_flight: self.snd_max - self.snd_una + acked,
            snd_una: self.snd_una,
            snd_max: self.snd_max,
            rtt: self.hints.ack_rtt,
            srtt: self.rtt.srtt(),
        };
        if self.parts.checks_window_growth {
            self.judge(sample);
        } else {
            self.law.on_ack(&sample);
        }
        if self.config.handshake && self.snd_una == 1 {
            self.law.set_cwnd(self.initial_window);
        }
    }

    /// Starts the timer anew while anything is outstanding. Halving can leave ns-2's window below
    /// one packet, which forbids all; there the timer runs on and opens it again.
    #[inline(always)]
    pub(crate) fn restart_timer(&mut self, now: Instant) {
        let is_running = self.snd_una < self.snd_max
            || self.law.window() < self.mss && self.snd_una < self.write_end;
        let deadline = if is_running { now + self.rtt.rto() } else { Instant::NEVER };
        self.timers.set(Timer::Retransmission, deadline);
    }
}
