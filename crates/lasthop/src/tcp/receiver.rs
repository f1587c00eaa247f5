//! The receiving half of a connection: reassembly and when to acknowledge.

use super::config::Config;
use super::ranges::Ranges;
use super::timers::{Timer, Timers};
use crate::units::Instant;

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Next byte expected (RFC 9293: RCV.NXT).
    pub rcv_nxt: u64,
    out_of_order: Ranges,
    /// Counts out-of-order arrivals, to report the newest block first.
    arrivals: u64,
    /// In-order segments not yet acknowledged.
    unacked: u32,
    ack_due: bool,
    /// What the newest acknowledgment said (RFC 7323: Last.ACK.sent).
    last_ack_sent: u64,
    /// Timestamp to echo (RFC 7323: TS.Recent).
    pub ts_recent: u32,
    /// Segments that brought nothing new.
    pub duplicates: u64,
}

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Receiver {
            rcv_nxt: u64::from(!config.handshake),
            out_of_order: Ranges::default(),
            arrivals: 0,
            unacked: 0,
            ack_due: false,
            last_ack_sent: u64::from(!config.handshake),
            ts_recent: 0,
            duplicates: 0,
        }
    }

    pub fn reset(&mut self, config: &Config) {
        let mut out_of_order = std::mem::take(&mut self.out_of_order);
        out_of_order.clear();
        *self = Receiver { out_of_order, duplicates: self.duplicates, ..Receiver::new(config) };
    }

    /// Unwraps a 32-bit number near the next expected byte.
    #[inline]
    pub fn unwrap(&self, wire: u32) -> u64 {
        self.rcv_nxt.wrapping_add_signed(i64::from(wire.wrapping_sub(self.rcv_nxt as u32) as i32))
    }

    /// Sequence space `[seq, end)` arrived.
    #[inline]
    pub fn receive(
        &mut self,
        config: &Config,
        timers: &mut Timers,
        now: Instant,
        seq: u64,
        end: u64,
        is_syn_or_fin: bool,
    ) {
        let in_order = seq <= self.rcv_nxt && end > self.rcv_nxt;
        let mut immediate = config.delayed_ack.is_none() || is_syn_or_fin;
        if in_order {
            self.rcv_nxt = end;
            if !self.out_of_order.is_empty() {
                // Filling a hole is acknowledged at once (RFC 5681, section 4.2).
                immediate = true;
                while let Some(end) = self.out_of_order.take_in_order(self.rcv_nxt) {
                    self.rcv_nxt = self.rcv_nxt.max(end);
                }
            }
        } else {
            immediate = true;
            self.arrivals += 1;
            if end <= self.rcv_nxt || !self.out_of_order.insert(seq, end, self.arrivals) {
                self.duplicates += 1;
            }
        }
        self.unacked += 1;
        if immediate || self.unacked >= 2 {
            self.ack_due = true;
        } else if let Some(delay) = config.delayed_ack {
            timers.set(Timer::DelayedAck, now + delay);
        }
    }

    /// RFC 7323, section 4.3: the echo is that of the earliest unacknowledged segment, so that a
    /// delayed ACK's wait is part of the round trip.
    pub fn on_timestamp(&mut self, seq: u64, value: u32) {
        // 0 is none yet: a clock may start in the upper half of its range.
        let is_newer = self.ts_recent == 0 || value.wrapping_sub(self.ts_recent) as i32 >= 0;
        if seq <= self.last_ack_sent && is_newer {
            self.ts_recent = value;
        }
    }

    pub fn handle_timeout(&mut self, timers: &Timers, now: Instant) {
        if timers.is_due(Timer::DelayedAck, now) {
            self.ack_due = true;
        }
    }

    #[inline]
    pub fn is_ack_due(&self) -> bool {
        self.ack_due
    }

    /// An acknowledgment leaves, alone or on data.
    #[inline]
    pub fn ack_sent(&mut self, timers: &mut Timers) {
        self.last_ack_sent = self.rcv_nxt;
        self.ack_due = false;
        self.unacked = 0;
        timers.stop(Timer::DelayedAck);
    }

    /// An acknowledgment is due although the segment that asks for it was dropped (RFC 9293,
    /// section 3.10.7.4).
    pub fn challenge(&mut self) {
        self.ack_due = true;
    }

    /// Fills in SACK blocks, most recently received first (RFC 2018, section 4), and returns their
    /// number.
    pub fn sack_blocks(&self, blocks: &mut [(u32, u32)]) -> usize {
        let mut count = 0;
        let mut below = u64::MAX;
        while count < blocks.len() {
            let newest = self
                .out_of_order
                .iter()
                .filter(|range| range.touched < below)
                .max_by_key(|range| range.touched);
            let Some(range) = newest else { break };
            blocks[count] = (range.start as u32, range.end as u32);
            below = range.touched;
            count += 1;
        }
        count
    }

    pub fn has_holes(&self) -> bool {
        !self.out_of_order.is_empty()
    }
}
