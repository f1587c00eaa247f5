//! The receiving half of a connection: reassembly and acknowledgments.

mod compression;
mod copies;
mod host;
mod memory;
mod quick;
mod window;

use super::config::{Config, RecoveryKind};
use super::copies::Copies;
use super::random::{is_out, outs};
use super::ranges::Ranges;
use super::receiver_rtt::ReceiverRtt;
use super::recent_blocks::RecentBlocks;
use super::timers::{Timer, Timers};
pub(super) use host::Arriving;
use lasthop_base::packet::flags;
use lasthop_base::units::{Duration, Instant};
pub(super) use memory::Memory;
pub use memory::ReceiveMemory;
pub(super) use window::ReceiveWindow;

use compression::Compression;
use quick::{ANSWER_TIME, QuickAcks};

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// Next byte expected (RFC 9293: RCV.NXT).
    pub rcv_nxt: u64,
    out_of_order: Ranges,
    /// Most recently received blocks, for a host that reports only these.
    recent: Option<Box<RecentBlocks>>,
    /// Number of out-of-order arrivals. It orders the blocks, so that the newest is reported first.
    arrivals: u64,
    /// Number of in-order segments not yet acknowledged.
    unacked: u32,
    ack_due: bool,
    /// Segment that the next acknowledgment reports first: a duplicate (RFC 2883) or, with SMART,
    /// the segment that triggers the acknowledgment.
    duplicate: Option<(u64, u64)>,
    /// First byte of a segment received with errors and not yet reported, and whether an
    /// acknowledgment was also due.
    damaged: Option<(u64, bool)>,
    /// Acknowledgment number sent last (RFC 7323: Last.ACK.sent).
    last_ack_sent: u64,
    /// Timestamp to echo (RFC 7323: TS.Recent).
    pub ts_recent: u32,
    /// Number of segments without new data.
    pub duplicates: u64,
    /// Retransmissions of the peer; `None` before the first.
    copies: Option<Box<Copies>>,
    /// One past the highest byte that the peer has retransmitted; 0 before the first, and while a
    /// retransmission is received.
    copied_to: u64,
    /// Number of segments received above a hole.
    pub out_of_order_count: u64,
    quick: QuickAcks,
    compression: Compression,
    /// RTT estimate of the receiver, for a socket.
    rtt: Option<Box<ReceiverRtt>>,
    /// Advertised window, for a host whose window is not constant.
    pub window: Option<Box<ReceiveWindow>>,
    /// Timestamp echoed by the latest data segment of the peer.
    echoed: u32,
}

impl Receiver {
    pub fn new(config: &Config) -> Self {
        Receiver {
            rcv_nxt: u64::from(!config.handshake),
            out_of_order: Ranges::default(),
            recent: None,
            arrivals: 0,
            unacked: 0,
            ack_due: false,
            duplicate: None,
            damaged: None,
            last_ack_sent: u64::from(!config.handshake),
            ts_recent: 0,
            duplicates: 0,
            copies: None,
            copied_to: 0,
            out_of_order_count: 0,
            quick: QuickAcks::of(config),
            compression: Compression::default(),
            rtt: None,
            window: None,
            echoed: 0,
        }
        .of_host(config)
    }

    /// Resets the state in place for a new connection instance. Only the counts of duplicates and
    /// of copies are kept.
    pub fn reset(&mut self, config: &Config) {
        if self.copies.is_some() {
            self.with_copies(|copies, has| copies.end_incarnation(has));
        }
        let Receiver {
            rcv_nxt,
            out_of_order,
            recent,
            arrivals,
            unacked,
            ack_due,
            duplicate,
            damaged,
            last_ack_sent,
            ts_recent,
            duplicates: _,
            copies: _,
            copied_to,
            out_of_order_count,
            quick,
            compression,
            rtt,
            window,
            echoed,
        } = self;
        [*rcv_nxt, *last_ack_sent] = [u64::from(!config.handshake); 2];
        out_of_order.clear();
        if let Some(recent) = recent {
            **recent = RecentBlocks::default();
        }
        (*arrivals, *unacked, *ack_due, *ts_recent, *copied_to) = (0, 0, false, 0, 0);
        (*duplicate, *damaged, *out_of_order_count, *echoed) = (None, None, 0, 0);
        *quick = QuickAcks::of(config);
        *compression = Compression::default();
        if let Some(rtt) = rtt {
            **rtt = ReceiverRtt::default();
        }
        if let Some(window) = window {
            **window = ReceiveWindow::of_host(config.segment.get());
        }
    }

    /// Records the arrival of the peer's SYN with timestamp `stamp`, which is to be echoed. The
    /// component that accepts the connection sends the acknowledgment.
    pub fn take_syn(&mut self, stamp: u32) {
        (self.rcv_nxt, self.last_ack_sent, self.ts_recent) = (1, 1, stamp);
    }

    /// Unwraps a 32-bit sequence number near the next expected byte.
    #[inline]
    pub fn unwrap(&self, wire: u32) -> u64 {
        self.rcv_nxt.wrapping_add_signed(i64::from(wire.wrapping_sub(self.rcv_nxt as u32) as i32))
    }

    /// Processes data at a receiver that acknowledges every segment immediately. Returns `true` if
    /// the data is the next expected after a SYN and no data is missing. It then counts as received
    /// and acknowledged.
    #[inline]
    pub fn take_next(&mut self, seq: u32, payload: u32) -> bool {
        let is_next = payload > 0
            && seq == self.rcv_nxt as u32
            && self.rcv_nxt > 0
            && self.out_of_order.is_empty();
        if is_next {
            self.rcv_nxt += u64::from(payload);
            self.last_ack_sent = self.rcv_nxt;
        }
        is_next
    }

    /// Like [`Self::take_next`], for data that follows the highest segment received above a hole.
    #[inline]
    pub fn take_highest(&mut self, seq: u32, payload: u32) -> bool {
        let start = self.unwrap(seq);
        let is_plain =
            payload > 0 && self.rcv_nxt > 0 && start >= self.copied_to && self.recent.is_none();
        let end = start.wrapping_add(u64::from(payload));
        let is_highest =
            is_plain && self.out_of_order.extend_highest(start, end, self.arrivals + 1);
        if is_highest {
            self.arrivals += 1;
            self.out_of_order_count += 1;
            self.last_ack_sent = self.rcv_nxt;
        }
        is_highest
    }

    /// Processes the arrival of the sequence numbers `[seq, end)`.
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
        self.look_for_late_original(seq, end);
        let in_order = seq <= self.rcv_nxt && end > self.rcv_nxt;
        let had_holes = !self.out_of_order.is_empty();
        if config.dsack && (seq != self.rcv_nxt || !self.out_of_order.is_empty()) {
            // A FIN in order ends the stream, so that no duplicate is reported.
            let ends = in_order && is_syn_or_fin;
            self.duplicate = self.repeated(seq, end).filter(|_| !ends);
        }
        let mut immediate = config.delayed_ack.is_none() || is_syn_or_fin;
        let mut is_early = false;
        if in_order {
            self.rcv_nxt = end;
            if had_holes {
                // A segment that fills a hole is acknowledged immediately (RFC 5681, section 4.2).
                immediate = true;
                while let Some(end) = self.out_of_order.take_in_order(self.rcv_nxt) {
                    self.rcv_nxt = self.rcv_nxt.max(end);
                }
                if let Some(recent) = &mut self.recent {
                    recent.release();
                    recent.remove_below(self.rcv_nxt);
                }
            }
        } else {
            immediate = true;
            self.arrivals += 1;
            self.out_of_order_count += u64::from(end > self.rcv_nxt);
            if let Some(recent) = &mut self.recent
                && end > self.rcv_nxt
            {
                // The held-back ACK reports the blocks before this segment, which is not acknowledged itself.
                is_early = self.compression.is_holding() && recent.pushes_back(seq, end);
                if is_early {
                    recent.keep();
                } else {
                    recent.release();
                }
                recent.add(seq, end);
            }
            if config.recovery == RecoveryKind::Lhp {
                self.duplicate = Some((seq, end));
            }
            // The segment usually follows the highest one received.
            if !self.out_of_order.extend_highest(seq, end, self.arrivals)
                && (end <= self.rcv_nxt || !self.out_of_order.insert(seq, end, self.arrivals))
            {
                self.duplicates += 1;
            }
        }
        // A segment longer than the MSS was several segments on the network.
        self.unacked += 1 + u32::from(end - seq > config.segment.get());
        if config.quick_acks > 0 && seq > 0 {
            if let Some(full) = self.quick.take_size(end - seq - u64::from(is_syn_or_fin)) {
                let is_enough = self.rcv_nxt.saturating_sub(self.last_ack_sent) > full;
                self.unacked = if is_enough && !self.quick.is_edge_fixed { 2 } else { 1 };
            }
            if is_early {
                self.ack_due = true;
                return;
            }
            immediate &= !is_syn_or_fin;
            let has_data = end - seq > u64::from(is_syn_or_fin);
            let is_above = end > self.rcv_nxt;
            immediate |= self.is_quick(config, now, in_order, is_above, has_data, is_syn_or_fin);
            if immediate && self.holds_back(config, timers, now) {
                return;
            }
            let is_delayed = !immediate && self.unacked < 2 && config.delayed_ack.is_some();
            if is_delayed && self.quick.full.is_some() {
                return self.delay_ack(timers, now);
            }
        }
        if immediate || self.unacked >= 2 {
            self.ack_due = true;
        } else if let Some(delay) = config.delayed_ack {
            timers.start(Timer::DelayedAck, now, delay);
        }
    }

    /// Returns `true` if the ACK of a segment is held back by ACK compression because data below it
    /// is missing.
    #[cold]
    fn holds_back(&mut self, config: &Config, timers: &mut Timers, now: Instant) -> bool {
        if self.out_of_order.is_empty() {
            return false;
        }
        let quick = &self.quick;
        let is_quick = quick.left > 0 && !quick.is_interactive;
        let full = quick.full.unwrap_or(config.segment.get());
        let is_enough = self.rcv_nxt.saturating_sub(self.last_ack_sent) > full;
        if self.ack_due || is_quick || is_enough || config.delayed_ack.is_none() {
            return false;
        }
        let rtt = self.rtt.as_ref().and_then(|rtt| rtt.get());
        let srtt = Some(quick.srtt).filter(|srtt| *srtt > Duration::ZERO);
        let rtt = rtt.map(|rtt| srtt.map_or(rtt, |srtt| srtt.min(rtt)));
        match self.compression.hold(config, now, self.rcv_nxt, rtt) {
            None => false,
            Some(None) => true,
            Some(Some(fires)) => {
                // No other delayed ACK is pending above a hole.
                timers.set(Timer::DelayedAck, fires);
                true
            }
        }
    }

    /// Delays an ACK of a socket. A pending ACK is not deferred further. It is sent immediately if
    /// its deadline is near.
    #[cold]
    fn delay_ack(&mut self, timers: &mut Timers, now: Instant) {
        let wait = self.quick.wait();
        if !timers.is_running(Timer::DelayedAck) {
            timers.start(Timer::DelayedAck, now, wait);
        } else if timers.deadline(Timer::DelayedAck)
            <= now + Duration::from_nanos(wait.as_nanos() / 4)
        {
            self.ack_due = true;
        } else if timers.deadline(Timer::DelayedAck) > now + wait {
            timers.start(Timer::DelayedAck, now, wait);
        }
    }

    /// Returns the first part of a segment that had been received before (RFC 2883).
    fn repeated(&self, seq: u64, end: u64) -> Option<(u64, u64)> {
        if seq < self.rcv_nxt {
            return Some((seq, end.min(self.rcv_nxt)));
        }
        let range = self.out_of_order.first_ending_from(seq + 1)?;
        if range.start >= end {
            return None;
        }
        Some((range.start.max(seq), range.end.min(end)))
    }

    /// Returns `true` if a received segment is acknowledged immediately under
    /// [`Config::quick_acks`].
    #[cold]
    fn is_quick(
        &mut self,
        config: &Config,
        now: Instant,
        in_order: bool,
        is_above: bool,
        has_data: bool,
        is_fin: bool,
    ) -> bool {
        let quick = &mut self.quick;
        if !in_order {
            if !is_above {
                quick.begin(config);
                quick.is_interactive = false;
                quick.delay = quick.least;
            }
            return true;
        }
        if has_data {
            let last = quick.data_at.replace(now);
            if quick.full.is_some() {
                quick.follow(config, last.map(|last| now - last));
                quick.left |= u32::from(std::mem::take(&mut quick.is_opening));
            } else if last.is_none() {
                quick.left = config.quick_acks;
            }
        }
        quick.is_interactive |= is_fin;
        quick.left > 0 && !quick.is_interactive
    }

    /// Records that a segment with `payload` bytes of data is sent, or a SYN or FIN without.
    #[inline]
    pub fn data_sent(&mut self, config: &Config, now: Instant, payload: u32) {
        if config.quick_acks > 0 && payload > 0 {
            let time = if self.quick.full.is_some() { self.quick.delay } else { ANSWER_TIME };
            let is_answer = |data_at| now < data_at + time;
            self.quick.is_interactive |= self.quick.data_at.is_some_and(is_answer);
        }
    }

    /// Turns immediate ACKs on or off at the request of the application (Linux: `TCP_QUICKACK`).
    pub fn set_quick(&mut self, is_quick: bool) {
        self.quick.is_interactive = !is_quick;
        if is_quick {
            self.ack_due |= self.unacked > 0;
        }
    }

    /// Returns `true` if the connection is not interactive, i.e. data flows in one direction only.
    pub fn has_quick_acks(&self) -> bool {
        !self.quick.is_interactive
    }

    /// Handles a data segment with `segment_flags` at an endpoint that supports ECN. `is_urgent`:
    /// whether it is the first marked segment since marks were last echoed, or is not ECN-capable
    /// although an earlier one was, so that it is probably a retransmission. Linux acknowledges such
    /// a segment immediately (`tcp_data_ecn_check`). It also acknowledges CWR immediately, since the
    /// window of the sender may permit no other segment.
    #[cold]
    pub fn on_codepoint(&mut self, is_urgent: bool, segment_flags: u8) {
        if is_urgent {
            self.quick.left = self.quick.left.max(2);
            self.quick.is_interactive = false;
        }
        self.ack_due |= segment_flags & flags::CWR != 0;
    }

    /// Updates the timestamp to echo. It is the one of the earliest unacknowledged segment, so that
    /// the RTT includes the delay of a delayed ACK (RFC 7323, section 4.3).
    pub fn on_timestamp(&mut self, seq: u64, value: u32) {
        // 0 means that no timestamp was received. A clock may start in the upper half of its range.
        let is_newer = self.ts_recent == 0 || value.wrapping_sub(self.ts_recent) as i32 >= 0;
        if seq <= self.last_ack_sent && is_newer {
            self.ts_recent = value;
        }
    }

    pub fn handle_timeout(&mut self, timers: &Timers, now: Instant) {
        if timers.is_due(Timer::DelayedAck, now) {
            self.ack_due = true;
            if self.compression.is_holding() {
                return;
            }
            // The ACK was not piggybacked on data. Linux then regards the connection as not
            // interactive, or doubles the delay if it already was not.
            let quick = &mut self.quick;
            quick.delay = match quick.is_interactive {
                true => quick.least,
                false => (quick.delay * 2).min(quick.rto),
            };
            quick.is_interactive = false;
        }
    }

    /// Returns `true` if a segment that ends at `end` lies below the acknowledgment number sent
    /// last.
    pub fn is_old(&self, end: u64) -> bool {
        end < self.last_ack_sent
    }

    /// Acknowledgment number sent last.
    pub fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    #[inline]
    pub fn is_ack_due(&self) -> bool {
        self.ack_due
    }

    /// Returns `true` if the byte at `seq` has been received.
    pub fn has(&self, seq: u64) -> bool {
        seq < self.rcv_nxt
            || self.out_of_order.first_ending_from(seq + 1).is_some_and(|range| range.start <= seq)
    }

    /// Handles the arrival of the segment at `seq` with errors.
    #[cold]
    pub fn on_damaged(&mut self, seq: u64) {
        if !self.has(seq) {
            self.damaged = Some((seq, self.ack_due));
            self.ack_due = true;
        }
    }

    /// Returns the first byte of the damaged segment that is to be reported now, if any.
    pub fn take_damaged(&mut self) -> Option<u64> {
        let (seq, was_due) = self.damaged.take()?;
        self.ack_due = was_due;
        Some(seq)
    }

    /// Returns `true` if a segment received in order has not been acknowledged.
    pub fn is_ack_waiting(&self) -> bool {
        self.unacked > 0
    }

    /// Records that an acknowledgment is sent, alone or piggybacked on data.
    #[inline]
    pub fn ack_sent(&mut self, timers: &mut Timers) {
        self.last_ack_sent = self.rcv_nxt;
        self.ack_due = false;
        self.duplicate = None;
        // A segment that acknowledges no new arrival does not count (`tcp_dec_quickack_mode`).
        if self.quick.left > 0 && self.unacked > 0 {
            self.quick.spend();
        }
        self.unacked = 0;
        self.quick.pushes = 0;
        if self.compression.is_holding()
            && let Some(recent) = &mut self.recent
        {
            recent.release();
        }
        self.compression.ack_sent();
        timers.stop(Timer::DelayedAck);
    }

    /// Schedules an acknowledgment in response to a segment that was dropped (RFC 9293, section
    /// 3.10.7.4).
    pub fn challenge(&mut self) {
        self.ack_due = true;
    }

    /// Handles a retransmitted SYN of the peer: acknowledges it and, with DSACK, reports it as a
    /// duplicate.
    pub fn repeat_syn(&mut self, config: &Config) {
        self.repeat(config, (0, 1));
    }

    /// Acknowledges the duplicate sequence numbers `numbers` and, with DSACK, reports them.
    pub fn repeat(&mut self, config: &Config, numbers: (u64, u64)) {
        self.ack_due = true;
        self.duplicate = config.dsack.then_some(numbers);
    }

    /// Drops data above the peer's FIN, which has been received (Linux).
    pub fn forget_above(&mut self) {
        self.duplicate = None;
        self.out_of_order.clear();
        if let Some(recent) = &mut self.recent {
            **recent = RecentBlocks::default();
        }
    }

    /// Returns `true` if all bytes in `[start, end)` have been received.
    pub fn has_all(&self, start: u64, end: u64) -> bool {
        let range = self.out_of_order.first_ending_from(end);
        end <= self.rcv_nxt || range.is_some_and(|range| range.start <= start)
    }

    /// Fills in SACK blocks and returns their number: first a duplicate segment (RFC 2883, section
    /// 4), then data above holes, most recently received first (RFC 2018, section 4).
    pub fn sack_blocks(&self, blocks: &mut [(u32, u32)]) -> usize {
        let mut count = 0;
        if let (Some((start, end)), Some(first)) = (self.duplicate, blocks.first_mut()) {
            *first = (start as u32, end as u32);
            count = 1;
        }
        if let Some(recent) = &self.recent {
            for (block, &(start, end)) in blocks[count..].iter_mut().zip(recent.iter()) {
                *block = (start as u32, end as u32);
                count += 1;
            }
            return count;
        }
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

    /// Returns `true` if the next missing segment was lost at random, judged by the loss of
    /// segments that queues drop first.
    #[cold]
    pub fn is_random_loss(&self, config: &Config) -> bool {
        let Some(end) = self.out_of_order.highest() else { return false };
        let has_come = |seq| self.out_of_order.end_of_range_at(seq) > seq;
        let (mut all, mut missing) = (0, 0);
        for seq in outs(config, self.rcv_nxt, end) {
            all += 1;
            missing += u32::from(!has_come(seq));
        }
        !is_out(config, self.rcv_nxt) && 2 * missing <= all
    }

    /// One past the highest byte received above a hole, if any.
    pub fn highest(&self) -> Option<u64> {
        self.out_of_order.highest()
    }

    /// Bytes received above a hole.
    pub fn waiting_bytes(&self) -> u64 {
        self.out_of_order.iter().map(|range| range.end - range.start).sum()
    }

    /// Returns `true` if data was received above a hole.
    pub fn has_holes(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Returns `true` if an acknowledgment has SACK blocks to report.
    pub fn has_blocks(&self) -> bool {
        !self.out_of_order.is_empty() || self.duplicate.is_some()
    }
}
