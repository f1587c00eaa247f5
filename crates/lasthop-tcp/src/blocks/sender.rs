//! The sending half: blocks, their units in flight and lost, and the parity units that are
//! required.

use super::super::config::Config;
use super::super::congestion_control::lt_tcp::LtTcpKeys;
use super::super::congestion_control::{AckSample, Congestion, CongestionControl};
use super::super::flight::Flight;
use super::super::timers::Timer;
use super::Unit;
use lasthop_base::units::Instant;
use std::collections::VecDeque;

/// Maximum number of units per block: unit numbers are one byte.
const MOST_UNITS: u64 = 255;

/// Minimum number of units of a block whose loss fraction may indicate congestion. The fraction of
/// fewer units is mainly noise.
const LEAST_SAMPLE: u32 = 32;

/// A block that is not known to have arrived, or has units with unknown outcome.
#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    length: u64,
    size: u16,
    data: u8,
    /// Number of units of the first transmission, N.
    first: u8,
    /// Number of units sent so far; modulo 256, the number of the next one.
    sent: u32,
    /// Number of parity units to send because of losses.
    due: u32,
    /// Number of distinct units known to have arrived: acknowledged individually or reported.
    received: u32,
    /// Number of distinct units that were acknowledged individually.
    acknowledged: u32,
    /// Number of units in flight.
    in_flight: u32,
    /// Number of units of the first transmission with known outcome.
    settled: u32,
    /// Number of units of the first transmission that were lost.
    lost: u32,
    /// Whether a unit has been lost since parity units were last scheduled.
    has_lost: bool,
    is_done: bool,
}

/// A unit in flight.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    number: u8,
    is_first: bool,
    /// Whether it has been acknowledged.
    is_settled: bool,
    bytes: u32,
    at: Instant,
}

/// Sending half of one endpoint.
#[derive(Clone, Debug)]
pub(in super::super) struct BlockSender {
    keys: LtTcpKeys,
    /// Maximum size of a unit, bytes.
    most: u64,
    blocks: VecDeque<Block>,
    /// First byte of the next block.
    next_start: u64,
    /// Units in flight, in transmission order. The first is number `base` of all units ever sent.
    sent: VecDeque<Sent>,
    base: u64,
    in_flight: u64,
    /// One past the number of the newest unit that was acknowledged.
    newest: u64,
    /// Number of the first unit for which a mark reduces the window again: one reduction per RTT.
    reduced_to: u64,
    /// Whether any mark has been echoed.
    has_marks: bool,
    /// First byte of the first block whose losses may indicate congestion again: one reduction per
    /// window.
    congested_to: u64,
    loss: f64,
    variance: f64,
}

impl BlockSender {
    pub fn new(config: &Config, keys: LtTcpKeys) -> Self {
        BlockSender {
            keys,
            most: config.segment.get().min(u64::from(u16::MAX)),
            blocks: VecDeque::with_capacity(16),
            next_start: u64::from(!config.handshake),
            sent: VecDeque::with_capacity(256),
            base: 0,
            in_flight: 0,
            newest: 0,
            reduced_to: 0,
            has_marks: false,
            congested_to: 0,
            loss: 0.0,
            variance: 0.0,
        }
    }

    pub fn reset(&mut self, config: &Config) {
        let (mut blocks, mut sent) =
            (std::mem::take(&mut self.blocks), std::mem::take(&mut self.sent));
        blocks.clear();
        sent.clear();
        *self = BlockSender { blocks, sent, ..BlockSender::new(config, self.keys) };
    }

    /// Returns the unit to send now, if the windows allow one: parity for losses, then the rest of
    /// the newest block, then the next block.
    pub fn poll(&mut self, flight: &mut Flight, now: Instant) -> Option<Unit> {
        self.next_start = self.next_start.max(flight.snd_una.min(1));
        let window = flight.congestion_control.window().min(flight.peer.window);
        let repairs = self.blocks.iter().position(|block| block.due > 0);
        let place = match repairs {
            Some(place) => place,
            None => {
                let is_open = |block: &Block| !block.is_done && block.sent < u32::from(block.first);
                if !self.blocks.back().is_some_and(is_open) && !self.begin(flight, window) {
                    return None;
                }
                self.blocks.len() - 1
            }
        };
        let block = &mut self.blocks[place];
        let Block { start, length, size, data, .. } = *block;
        let number = block.sent as u8;
        let unit = Unit { start, length, number, data, size };
        let bytes = unit.payload();
        if self.in_flight > 0 && self.in_flight + u64::from(bytes) > window {
            return None;
        }
        let is_first = block.sent < u32::from(block.first);
        block.sent += 1;
        block.in_flight += 1;
        if is_first {
            flight.snd_max =
                flight.snd_max.max(start + length.min(u64::from(size) * u64::from(block.sent)));
            flight.snd_nxt = flight.snd_max;
        } else {
            block.due -= 1;
            flight.counters.retransmissions += 1;
        }
        flight.counters.segments_sent += 1;
        self.sent.push_back(Sent { start, number, is_first, is_settled: false, bytes, at: now });
        self.in_flight += u64::from(bytes);
        if !flight.timers.is_running(Timer::Retransmission) {
            flight.timers.set(Timer::Retransmission, now + flight.rtt.rto());
        }
        Some(unit)
    }

    /// Starts a block with the next window of data. Returns `false` if there is no data to send, or
    /// no room for a unit.
    fn begin(&mut self, flight: &Flight, window: u64) -> bool {
        let end = flight.write_end.min(flight.snd_una + flight.peer.window);
        let waiting = end.saturating_sub(self.next_start);
        let least = self.keys.min_segment.get().min(self.most);
        let size = (window / u64::from(self.keys.granularity)).clamp(least, self.most);
        let room = self.in_flight == 0 || self.in_flight + size.min(waiting) <= window;
        if waiting == 0 || !room {
            return false;
        }
        let units = (window / size).clamp(1, MOST_UNITS);
        let spread = f64::from(self.keys.deviations) * self.variance.sqrt();
        let share = (self.loss + spread).min(1.0);
        let parity = ((units as f64 * share - 1e-9).ceil() as u64).min(units - 1);
        // Less data than a full block gets a proportional number of parity units.
        let data = (units - parity).min(waiting.div_ceil(size));
        let parity = (parity * data).div_ceil(units - parity).min(MOST_UNITS - data);
        let length = waiting.min(data * size);
        self.blocks.push_back(Block {
            start: self.next_start,
            length,
            // Parity units are not longer than the data.
            size: size.min(length) as u16,
            data: data as u8,
            first: (data + parity) as u8,
            sent: 0,
            due: 0,
            received: 0,
            acknowledged: 0,
            in_flight: 0,
            settled: 0,
            lost: 0,
            has_lost: false,
            is_done: false,
        });
        self.next_start += length;
        true
    }

    /// Processes an acknowledgment. All data below `ack` was delivered by the peer. `echo` is the
    /// unit acknowledged, `reports` has the number of units that arrived of later blocks, and
    /// `is_marked`: whether it echoes a congestion mark.
    pub fn on_ack(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        ack: u64,
        echo: Option<(u64, u8)>,
        reports: &[(u64, u32)],
        is_marked: bool,
    ) {
        if ack > flight.snd_una && ack <= self.next_start {
            flight.move_una(ack);
        }
        let una = flight.snd_una;
        for block in &mut self.blocks {
            if block.start + block.length <= una {
                block.is_done = true;
            } else if let Some(&(_, count)) =
                reports.iter().find(|(start, _)| *start == block.start)
            {
                block.received = block.received.max(count);
                block.is_done |= block.received >= u32::from(block.data);
            }
            if block.is_done {
                block.due = 0;
            }
        }
        let answered = echo.and_then(|echo| self.settle(flight, now, echo));
        self.lose(flight);
        if let Some(unit) = answered {
            self.has_marks |= is_marked;
            if is_marked && unit >= self.reduced_to {
                self.reduced_to = self.base + self.sent.len() as u64;
                flight.congestion_control.on_congestion(now, Congestion::Ecn, 0.0);
                flight.counters.window_cuts += 1;
            }
            flight.rtt.end_back_off();
            let runs = una < flight.write_end && (self.in_flight > 0 || self.is_owed());
            let deadline = if runs { now + flight.rtt.rto() } else { Instant::NEVER };
            flight.timers.set(Timer::Retransmission, deadline);
        }
        if una == flight.write_end {
            flight.timers.stop(Timer::Retransmission);
        }
        self.repair();
        self.forget(flight, now);
    }

    /// Returns `true` if a block is not known to have arrived.
    fn is_owed(&self) -> bool {
        self.blocks.iter().any(|block| !block.is_done)
    }

    /// Records the arrival of a unit, given by the start of its block and its number. Returns its
    /// number among all units sent, or `None` if it was not in flight.
    fn settle(
        &mut self,
        flight: &mut Flight,
        now: Instant,
        (start, number): (u64, u8),
    ) -> Option<u64> {
        let is_it = |sent: &Sent| sent.start == start && sent.number == number && !sent.is_settled;
        let place = self.sent.iter().position(is_it)?;
        let sent = &mut self.sent[place];
        sent.is_settled = true;
        let Sent { bytes, at, is_first, .. } = *sent;
        self.in_flight -= u64::from(bytes);
        let ordinal = self.base + place as u64;
        self.newest = self.newest.max(ordinal + 1);
        flight.rtt.sample(at, now);
        flight.congestion_control.on_ack(&AckSample {
            now,
            acked: u64::from(bytes),
            delivered_segments: 1,
            is_window_limited: true,
            prior_in_flight: self.in_flight + u64::from(bytes),
            snd_una: flight.snd_una,
            snd_max: flight.snd_max,
            rtt: Some(now - at),
            srtt: flight.rtt.srtt(),
        });
        if let Some(block) = self.block(start) {
            block.in_flight -= 1;
            block.settled += u32::from(is_first);
            // After 256 units the numbers repeat, and only the receiver can distinguish new units.
            block.acknowledged += u32::from(block.sent <= 256);
            block.received = block.received.max(block.acknowledged);
            block.is_done |= block.received >= u32::from(block.data);
        }
        Some(ordinal)
    }

    fn block(&mut self, start: u64) -> Option<&mut Block> {
        self.blocks.iter_mut().find(|block| block.start == start)
    }

    /// Removes acknowledged units, and units declared lost because `loss_threshold` later ones have
    /// overtaken them.
    fn lose(&mut self, flight: &mut Flight) {
        let threshold = u64::from(self.keys.loss_threshold);
        while let Some(&first) = self.sent.front() {
            if !first.is_settled {
                if self.base + threshold >= self.newest {
                    return;
                }
                self.on_lost(flight, &first);
            }
            self.sent.pop_front();
            self.base += 1;
        }
    }

    fn on_lost(&mut self, flight: &mut Flight, sent: &Sent) {
        self.in_flight -= u64::from(sent.bytes);
        flight.counters.losses_declared += 1;
        if let Some(block) = self.block(sent.start) {
            block.in_flight -= 1;
            block.has_lost = true;
            if sent.is_first {
                block.settled += 1;
                block.lost += 1;
            }
        }
    }

    /// Schedules parity units for blocks for which the units in flight are not sufficient.
    fn repair(&mut self) {
        let kept = (1.0 - self.loss).max(0.01);
        let is_full = self.keys.full_repair;
        for block in &mut self.blocks {
            let unsent = u32::from(block.first).saturating_sub(block.sent);
            // The outcome of all units is known, and they did not suffice: repeated numbers had no
            // effect.
            let is_stranded = block.in_flight + unsent == 0;
            if block.is_done || block.due > 0 || !(block.has_lost || is_stranded) {
                continue;
            }
            let coming = f64::from(block.in_flight + unsent) * kept;
            let missing = f64::from(u32::from(block.data).saturating_sub(block.received)) - coming;
            block.has_lost = false;
            if missing > 1e-9 {
                block.due = match is_full {
                    true => u32::from(block.first),
                    false => (missing / kept - 1e-9).ceil() as u32,
                };
            }
        }
    }

    /// Samples the loss of blocks whose outcome is known, and removes those that are done.
    fn forget(&mut self, flight: &mut Flight, now: Instant) {
        while let Some(&block) = self.blocks.front()
            && block.is_done
            && (block.settled >= block.sent.min(u32::from(block.first)))
        {
            // Note that a lost acknowledgment is not a lost unit.
            let sent = f64::from(block.settled.max(1));
            let lost = f64::from(block.lost) / sent;
            let error = lost - self.loss;
            let weight =
                if error > 0.0 { self.keys.rising_weight } else { self.keys.falling_weight };
            let weight = weight.get();
            self.loss += weight * error;
            self.variance = (1.0 - weight) * (self.variance + weight * error * error);
            // Without marks, such a loss fraction indicates an overflowing queue.
            let most = self.keys.unmarked_congestion.get();
            if !self.has_marks
                && block.settled >= LEAST_SAMPLE
                && lost.min(self.loss) > most
                && block.start >= self.congested_to
            {
                self.congested_to = self.next_start;
                flight.congestion_control.on_congestion(now, Congestion::Ecn, 0.0);
                flight.counters.window_cuts += 1;
            }
            self.blocks.pop_front();
        }
    }

    /// Handles the expiry of the retransmission timer. Units in flight are lost, and the parity
    /// units required are scheduled for each block that has not arrived.
    pub fn on_timeout(&mut self, flight: &mut Flight, now: Instant) {
        flight.counters.timeouts += 1;
        let in_use = self.in_flight as f64 / self.most as f64;
        while let Some(sent) = self.sent.pop_front() {
            self.base += 1;
            if !sent.is_settled {
                self.on_lost(flight, &sent);
            }
        }
        self.newest = self.base;
        // The timeout has already reduced the window for these losses.
        self.congested_to = self.next_start;
        flight.congestion_control.on_timeout(now, Some(in_use));
        flight.counters.window_cuts += u64::from(self.keys.timeout_is_congestion);
        flight.rtt.back_off();
        for block in &mut self.blocks {
            block.has_lost = true;
            block.due = 0;
        }
        self.repair();
        self.forget(flight, now);
        let deadline = if self.is_owed() { now + flight.rtt.rto() } else { Instant::NEVER };
        flight.timers.set(Timer::Retransmission, deadline);
    }
}
