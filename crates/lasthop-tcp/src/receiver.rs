//! The receiving half of a connection: reassembly and when to acknowledge.

mod compression;
mod copies;
mod host;
mod memory;
mod quick;
mod window;

use super::config::{Config, RecoveryKind};
use super::copies::Copies;
use super::random::{is_out, outs};
use super::ranges::{Range, Ranges};
use super::receiver_rtt::ReceiverRtt;
use super::recent_blocks::RecentBlocks;
use super::timers::{Timer, Timers};
pub use compression::AckCompression;
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
    /// Of a host that reports only these.
    recent: Option<Box<RecentBlocks>>,
    /// Counts out-of-order arrivals, to report the newest block first.
    arrivals: u64,
    /// In-order segments not yet acknowledged.
    unacked: u32,
    ack_due: bool,
    /// The segment that the next acknowledgment reports before all others: a repeated one (RFC 2883), or with SMART
    /// the one that makes it acknowledge.
    duplicate: Option<(u64, u64)>,
    /// A segment that came damaged and was not announced yet, and whether an acknowledgment was due besides.
    damaged: Option<(u64, bool)>,
    /// What the newest acknowledgment said (RFC 7323: Last.ACK.sent).
    last_ack_sent: u64,
    /// Timestamp to echo (RFC 7323: TS.Recent).
    pub ts_recent: u32,
    /// Segments that brought nothing new.
    pub duplicates: u64,
    /// What the peer has sent again, once it has.
    copies: Option<Box<Copies>>,
    /// One past the highest byte that was, while an original is received; 0 else.
    copied_to: u64,
    /// Segments that came above a hole.
    pub out_of_order_count: u64,
    quick: QuickAcks,
    compression: Compression,
    /// The round trip, of a socket.
    rtt: Option<Box<ReceiverRtt>>,
    /// The window to advertise, of a host whose window is not constant.
    pub window: Option<Box<ReceiveWindow>>,
    /// Whether the application reads at once, as a simulated one does.
    pub reads_at_once: bool,
    /// The timestamp that the peer's data echoed last.
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
            reads_at_once: true,
            echoed: 0,
        }
        .of_host(config)
    }

    /// A new incarnation, in place; only counts of duplicates and of copies go on.
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
            reads_at_once: _,
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

    /// The peer's SYN has arrived, with the timestamp that is to be echoed: whoever admitted it answers.
    pub fn take_syn(&mut self, stamp: u32) {
        (self.rcv_nxt, self.last_ack_sent, self.ts_recent) = (1, 1, stamp);
    }

    /// Unwraps a 32-bit number near the next expected byte.
    #[inline]
    pub fn unwrap(&self, wire: u32) -> u64 {
        self.rcv_nxt.wrapping_add_signed(i64::from(wire.wrapping_sub(self.rcv_nxt as u32) as i32))
    }

    /// Data arrived at a receiver that acknowledges every segment at once: if they are the next ones,
    /// after a SYN, and none are missing, they are taken and count as acknowledged.
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
        self.look_for_late_original(seq, end);
        let in_order = seq <= self.rcv_nxt && end > self.rcv_nxt;
        let had_holes = !self.out_of_order.is_empty();
        if config.dsack && (seq != self.rcv_nxt || !self.out_of_order.is_empty()) {
            // A FIN in order ends it: there is nothing left to repeat.
            let ends = in_order && is_syn_or_fin;
            self.duplicate = self.repeated(seq, end).filter(|_| !ends);
        }
        let mut immediate = config.delayed_ack.is_none() || is_syn_or_fin;
        if in_order {
            self.rcv_nxt = end;
            if had_holes {
                // Filling a hole is acknowledged at once (RFC 5681, section 4.2).
                immediate = true;
                while let Some(end) = self.out_of_order.take_in_order(self.rcv_nxt) {
                    self.rcv_nxt = self.rcv_nxt.max(end);
                }
                if let Some(recent) = &mut self.recent {
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
                recent.add(seq, end);
            }
            if config.recovery == RecoveryKind::Lhp {
                self.duplicate = Some((seq, end));
            }
            // Mostly it follows what came last.
            if !self.out_of_order.extend_highest(seq, end, self.arrivals)
                && (end <= self.rcv_nxt || !self.out_of_order.insert(seq, end, self.arrivals))
            {
                self.duplicates += 1;
            }
        }
        // A segment of more than one full size was several on the way.
        self.unacked += 1 + u32::from(end - seq > config.segment.get());
        if config.quick_acks > 0 && seq > 0 {
            if let Some(full) = self.quick.take_size(end - seq - u64::from(is_syn_or_fin)) {
                let is_enough = self.rcv_nxt.saturating_sub(self.last_ack_sent) > full;
                self.unacked = if is_enough && !self.quick.is_edge_fixed { 2 } else { 1 };
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

    /// Is the ACK of a segment held back, as something is missing below what has arrived?
    #[cold]
    fn holds_back(&mut self, config: &Config, timers: &mut Timers, now: Instant) -> bool {
        let above = config.ack_compression.filter(|_| !self.out_of_order.is_empty());
        let Some(how) = above else { return false };
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
        match self.compression.hold(how, now, self.rcv_nxt, rtt) {
            None => false,
            Some(None) => true,
            Some(Some(fires)) => {
                // No other ACK waits above a hole.
                timers.set(Timer::DelayedAck, fires);
                true
            }
        }
    }

    /// A socket's ACK is delayed. What waits already is not put off, and leaves at once if it would leave soon.
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

    /// The first part of a segment that had arrived before (RFC 2883).
    fn repeated(&self, seq: u64, end: u64) -> Option<(u64, u64)> {
        if seq < self.rcv_nxt {
            return Some((seq, end.min(self.rcv_nxt)));
        }
        let overlaps = |range: &&Range| range.start < end && range.end > seq;
        let range = self.out_of_order.iter().find(overlaps)?;
        Some((range.start.max(seq), range.end.min(end)))
    }

    /// Is a segment that has arrived acknowledged at once under [`Config::quick_acks`]?
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
        // Without data there is no delay known to wait for.
        quick.data_at.is_none() || quick.left > 0 && !quick.is_interactive
    }

    /// Data leave.
    #[inline]
    pub fn data_sent(&mut self, config: &Config, now: Instant) {
        if config.quick_acks > 0 {
            let time = if self.quick.full.is_some() { self.quick.delay } else { ANSWER_TIME };
            let is_answer = |data_at| now < data_at + time;
            self.quick.is_interactive |= self.quick.data_at.is_some_and(is_answer);
        }
    }

    /// The application wants ACKs at once, or not (Linux's `TCP_QUICKACK`).
    pub fn set_quick(&mut self, is_quick: bool) {
        self.quick.is_interactive = !is_quick;
        if is_quick {
            self.ack_due |= self.unacked > 0;
        }
    }

    /// Do data flow one way only, as far as ACKs are concerned?
    pub fn has_quick_acks(&self) -> bool {
        !self.quick.is_interactive
    }

    /// A segment with data and `flags` arrived at an end that knows ECN; is it the first one marked since marks were
    /// echoed? Linux tells of that at once, and acknowledges at once what says that the window was reduced, as that may be
    /// all that the sender may send.
    #[cold]
    pub fn on_mark(&mut self, is_first: bool, segment_flags: u8) {
        if is_first {
            self.quick.left = self.quick.left.max(2);
            self.quick.is_interactive = false;
        }
        self.ack_due |= segment_flags & flags::CWR != 0;
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
            if self.compression.is_holding() {
                return;
            }
            // No answer came for the ACK to ride on: Linux counts on none any more, and waits for longer if it did not.
            let quick = &mut self.quick;
            quick.delay = match quick.is_interactive {
                true => quick.least,
                false => (quick.delay * 2).min(quick.rto),
            };
            quick.is_interactive = false;
        }
    }

    /// Whether a segment that ends at `end` lies below what the newest acknowledgment said.
    pub fn is_old(&self, end: u64) -> bool {
        end < self.last_ack_sent
    }

    /// What the newest acknowledgment said.
    pub fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    #[inline]
    pub fn is_ack_due(&self) -> bool {
        self.ack_due
    }

    /// Has the byte at `seq` come?
    pub fn has(&self, seq: u64) -> bool {
        seq < self.rcv_nxt
            || self.out_of_order.iter().any(|range| (range.start..range.end).contains(&seq))
    }

    /// The segment at `seq` has come damaged.
    #[cold]
    pub fn on_damaged(&mut self, seq: u64) {
        if !self.has(seq) {
            self.damaged = Some((seq, self.ack_due));
            self.ack_due = true;
        }
    }

    /// The damaged segment that is to be announced now.
    pub fn take_damaged(&mut self) -> Option<u64> {
        let (seq, was_due) = self.damaged.take()?;
        self.ack_due = was_due;
        Some(seq)
    }

    /// Has a segment arrived in order that no acknowledgment has told of?
    pub fn is_ack_waiting(&self) -> bool {
        self.unacked > 0
    }

    /// An acknowledgment leaves, alone or on data.
    #[inline]
    pub fn ack_sent(&mut self, timers: &mut Timers) {
        self.last_ack_sent = self.rcv_nxt;
        self.ack_due = false;
        self.duplicate = None;
        self.unacked = 0;
        if self.quick.left > 0 {
            self.quick.spend();
        }
        self.quick.pushes = 0;
        self.compression.ack_sent();
        timers.stop(Timer::DelayedAck);
    }

    /// An acknowledgment is due although the segment that asks for it was dropped (RFC 9293,
    /// section 3.10.7.4).
    pub fn challenge(&mut self) {
        self.ack_due = true;
    }

    /// The peer's SYN has come twice: that is acknowledged, and reported if duplicates are.
    pub fn repeat_syn(&mut self, config: &Config) {
        self.repeat(config, (0, 1));
    }

    /// The same of numbers without data.
    pub fn repeat(&mut self, config: &Config, numbers: (u64, u64)) {
        self.ack_due = true;
        self.duplicate = config.dsack.then_some(numbers);
    }

    /// Nothing can follow the peer's FIN, which has arrived: what lies above it is dropped (Linux).
    pub fn forget_above(&mut self) {
        self.duplicate = None;
        self.out_of_order.clear();
        if let Some(recent) = &mut self.recent {
            **recent = RecentBlocks::default();
        }
    }

    /// Has all from `start` to `end` come?
    pub fn has_all(&self, start: u64, end: u64) -> bool {
        let holds = |range: &Range| range.start <= start && end <= range.end;
        end <= self.rcv_nxt || self.out_of_order.iter().any(holds)
    }

    /// Fills in SACK blocks and returns their number: a repeated segment (RFC 2883, section 4), then
    /// what lies beyond holes, most recently received first (RFC 2018, section 4).
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

    /// Is what is missing next lost at random, as far as the segments tell that queues drop first?
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

    /// One past the last byte beyond a hole, if there is one.
    pub fn highest(&self) -> Option<u64> {
        self.out_of_order.highest()
    }

    /// Is anything beyond a hole?
    pub fn has_holes(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// Does an acknowledgment have anything to report in SACK blocks?
    pub fn has_blocks(&self) -> bool {
        !self.out_of_order.is_empty() || self.duplicate.is_some()
    }
}
