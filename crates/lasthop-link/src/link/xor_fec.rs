//! Exclusive-or (XOR) forward error correction: one parity frame after each block of data frames.
//!
//! Source: Xylomenos and Polyzos, "Wireless link layer enhancements for TCP and UDP applications",
//! IPDPS 2003. Data frames are sent unmodified and without delay. The parity frame that follows
//! recovers one lost frame of its block, out of sequence. A timeout closes incomplete blocks.
//! Frames are neither acknowledged nor retransmitted. `docs/links/xor-fec.md` derives the default
//! values.
//!
//! States of a block at the sender:
//!
//! ```text
//!            data frame                     k-th data frame, or timeout
//!   (empty) ------------> open, m frames -------------------------------> closed
//!      ^                    ^      |                                        |
//!      |                    +------+ data frame: timeout restarted          | parity frame
//!      +--------------------------------------------------------------------+
//! ```
//!
//! States of a sequence number at the receiver:
//!
//! ```text
//!             later number received           parity, all others received
//!   not seen ---------------------> missing ------------------------------> delivered
//!      |                               |
//!      | received                      | parity, another is missing too;
//!      +--> delivered                  | or a frame that can only follow the parity
//!                                      +--> abandoned
//! ```
//!
//! With `interleave` d > 1, d blocks are interleaved. Consecutive data frames belong to different
//! blocks, and the d parity frames follow the last of the d k data frames, in the same order. Any d
//! consecutive frames, data or parity, belong to d blocks. A burst that destroys at most d frames
//! therefore affects at most one frame per block. Data is not delayed; recovered packets are
//! available at the end of the d blocks.
//!
//! ```text
//!   d = 3, k = 2:   a0 b0 c0 a1 b1 c1 Pa Pb Pc | a2 b2 c2 ...
//! ```
//!
//! The channel preserves the order, so a block ends when its parity, or any later frame, is
//! received. If the parity is lost, the receiver cannot detect the end of the block, since a
//! timeout may have closed the block early. A missing frame is therefore abandoned when a frame is
//! received that is a full block beyond it. For the same reason the receiver buffers the packets of
//! the last block and not their running exclusive or. After the loss of the parity of a short
//! block, the latter would contain packets of two blocks, and the next parity would be useless.
//! Each packet is copied once, and the exclusive or is computed only if a packet is missing. Slots
//! are reused, so no memory is allocated.
//!
//! With `in_order`, packets received behind a missing one are held until it is recovered or
//! abandoned. A layer above that interprets gaps as losses then detects only residual losses
//! ([stacks](super::stack())).
//!
//! The timeout starts at the beginning of the transmission of the last data frame.
//!
//! Residual loss with full blocks of k frames and independent losses p: p (1 - (1 - p)^k).
//!
//! Not modelled: interleavers that delay data, several parity frames per block, adaptive block
//! sizes, reordering by the channel.

use super::fec_wire::{MOST_NUMBERS, PARITY_FIELDS};
use super::protocol::{NUMBER_HEADER, ProtocolKeys, Site, refuse};
use super::timing::{LinkTiming, deadline};
use super::{
    Abilities, Air, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkError, LinkEvent,
    check_header,
};
use super::{ByteFormat, BytesError, fec_wire};
use lasthop_base::packet::Payload;
use lasthop_base::schema::LinkTimeout;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// Maximum block size in frames: half of the sequence number range.
const MOST_FRAMES: u32 = (MOST_NUMBERS / 2) as u32;

table! {
    /// Forward error correction: each block of frames is followed by a parity frame, their
    /// exclusive or, from which the receiver recovers one lost frame; delivers out of sequence.
    pub struct XorFecKeys as "xor-fec" {
        /// Number of data frames per parity frame.
        block: u32 = "8", Limits::range(1, 64);
        /// Number of interleaved blocks: a burst of at most this many losses affects one frame per
        /// block; times `block` at most 64.
        interleave: u32 = "1", Limits::range(1, 64);
        /// Time after the last data frame at which the parity of an incomplete block is sent;
        /// "auto" is twice the packet interval of the slowest constant-rate flow on the link in
        /// that direction, otherwise the transmission time of two full frames.
        parity_timeout: LinkTimeout = "auto";
        /// Whether packets behind a missing one are held until it is recovered or abandoned;
        /// otherwise packets are delivered on arrival, and recovered ones out of order.
        in_order: bool = "false";
    }
}

/// The state machine of one end.
pub type Machine<P> = XorFec<P>;

impl ProtocolKeys for XorFecKeys {
    type Machine<P: Payload + Clone> = Machine<P>;

    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
        let timing = site.timing(Bytes::default());
        let auto = XorFecParameters::for_link(&timing, site.interval);
        XorFec::new(XorFecParameters {
            block: self.block,
            interleave: self.interleave,
            parity_timeout: self.parity_timeout.or(auto.parity_timeout),
            in_order: self.in_order,
            header: site.header,
        })
    }

    /// Time until the parity frames that follow the last frame of the blocks.
    fn repair_time(&self, site: &Site) -> Duration {
        let frames =
            u64::from(self.block) * u64::from(self.interleave) + u64::from(self.interleave);
        site.timing(Bytes::default()).frame_time() * frames
    }

    fn default_header(&self) -> Bytes {
        NUMBER_HEADER
    }

    fn check(&self, path: &str, _identifier: Bytes, _directions: [Air; 2]) -> Read<()> {
        let largest = MOST_FRAMES / self.block;
        if self.interleave > largest {
            let found = format!("{} with blocks of {} frames", self.interleave, self.block);
            let allowed = format!("up to {largest}, {MOST_FRAMES} frames together");
            return refuse(format!("{path}.interleave"), found, allowed);
        }
        Ok(())
    }
}

/// Parameters of exclusive-or FEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XorFecParameters {
    /// Number of data frames per parity frame (k), 1 to 64; with 1 each packet is sent twice.
    pub block: u32,
    /// Number of interleaved blocks (d), at least 1; d k is at most 64.
    pub interleave: u32,
    /// Time after which an incomplete block is closed, from the start of the transmission of its
    /// last data frame, in nanoseconds; above 0. A timeout shorter than the packet interval or the
    /// transmission time of a frame closes blocks prematurely.
    pub parity_timeout: Duration,
    /// Whether packets behind a missing one are held until it is recovered or abandoned.
    pub in_order: bool,
    /// Link header of a data or parity frame (default 1 B: the number).
    pub header: Bytes,
}

impl XorFecParameters {
    /// Returns the defaults for a link: blocks of 8, closed after twice the packet interval
    /// `interval`, or after 2 T_f without constant-rate traffic: two frames of a fully used link.
    pub fn for_link(timing: &LinkTiming, interval: Option<Duration>) -> Self {
        let parity_timeout = interval.unwrap_or_else(|| timing.frame_time()) * 2;
        XorFecParameters {
            block: 8,
            interleave: 1,
            // On a link without traffic, the frame length and thus the timeout would be 0.
            parity_timeout: parity_timeout.max(Duration::from_nanos(1)),
            in_order: false,
            header: Bytes::new(1),
        }
    }
}

/// One end of a link with exclusive-or FEC. Received packets are stored in the slot of their
/// sequence number modulo the number of slots, a power of two.
///
/// ```
/// use lasthop_base::units::{Bytes, Duration, Instant, Rate};
/// use lasthop_link::link::{Endpoint, LinkTiming, XorFec, XorFecParameters};
///
/// let (rate, delay) = (Rate::from_bps(1_000_000), Duration::from_millis(10));
/// let timing = LinkTiming::symmetric(rate, delay, Bytes::new(1_000), Bytes::new(2));
/// let parameters = XorFecParameters { block: 2, ..XorFecParameters::for_link(&timing, None) };
/// let [mut sender, mut receiver] =
///     [(); 2].map(|()| XorFec::<Vec<u8>>::new(parameters).expect("valid parameters"));
/// let now = Instant::ZERO;
/// let mut frames = Vec::new();
/// for packet in [b"one", b"two"] {
///     sender.enqueue(now, packet.to_vec());
///     frames.extend(std::iter::from_fn(|| sender.poll_transmit(now)));
/// }
/// assert_eq!(frames.len(), 3, "two data frames and their parity");
/// // The first frame is lost and recovered from the other two.
/// for frame in frames.into_iter().skip(1) {
///     receiver.receive(now, frame);
/// }
/// let delivered: Vec<_> = std::iter::from_fn(|| receiver.poll_deliver()).collect();
/// assert_eq!(delivered, [b"two", b"one"]);
/// ```
#[derive(Clone, Debug)]
pub struct XorFec<P> {
    /// Number of interleaved blocks, and of the frames of all of them.
    interleave: u64,
    span: u64,
    parity_timeout: Duration,
    header: u32,
    mask: u64,

    /// Sequence number of the first frame of the blocks being sent.
    first: u64,
    /// Number of the next new frame.
    next: u64,
    waiting: Option<P>,
    /// The blocks, and the index of the block of the next data or parity frame.
    blocks: Box<[Block<P>]>,
    turn: usize,
    /// Number of closed blocks whose parity is to be sent.
    parities_due: usize,
    deadline: Instant,

    /// Highest number known to have been sent, plus 1.
    seen: u64,
    /// Bit i is set if number `seen - 1 - i` is missing and may still be recovered.
    missing: u64,
    /// Packets received of the last `span` numbers.
    held: Box<[Option<P>]>,
    /// With in-order delivery: bit i of `arrived` is set if number `seen - 1 - i` was received or
    /// recovered; `next_up` is the next number to deliver.
    in_order: bool,
    arrived: u64,
    next_up: u64,

    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    counters: LinkCounters,
}

/// State of a block at the sender.
#[derive(Clone, Debug, Default)]
struct Block<P> {
    /// Exclusive or of its packets so far, and of their lengths.
    parity: Option<P>,
    lengths: u32,
}

/// Returns a bitmap with the `n` lowest bits set.
#[inline]
fn low_bits(n: u64) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl<P> XorFec<P> {
    /// Creates an idle endpoint. Returns an error if the block is outside 1 to 64, the interleaved
    /// blocks exceed 64 frames, or the timeout is 0.
    pub fn new(parameters: XorFecParameters) -> Result<Self, LinkError> {
        let XorFecParameters { block, interleave, parity_timeout, in_order, header } = parameters;
        let protocol = "XOR FEC";
        if !(1..=MOST_FRAMES).contains(&block) {
            return Err(LinkError::Block { protocol, found: block, largest: MOST_FRAMES });
        }
        let largest = MOST_FRAMES / block;
        if !(1..=largest).contains(&interleave) {
            return Err(LinkError::Interleave { protocol, found: interleave, block, largest });
        }
        if parity_timeout == Duration::ZERO {
            return Err(LinkError::Timeout { protocol });
        }
        let span = block * interleave;
        let slots = span.next_power_of_two() as usize;
        Ok(XorFec {
            interleave: interleave.into(),
            span: span.into(),
            parity_timeout,
            header: check_header(protocol, header)?,
            mask: slots as u64 - 1,
            first: 0,
            next: 0,
            waiting: None,
            blocks: (0..interleave).map(|_| Block { parity: None, lengths: 0 }).collect(),
            turn: 0,
            parities_due: 0,
            deadline: Instant::NEVER,
            seen: 0,
            missing: 0,
            held: (0..slots).map(|_| None).collect(),
            in_order,
            arrived: 0,
            next_up: 0,
            up: VecDeque::with_capacity(4),
            events: VecDeque::with_capacity(2 * slots),
            counters: LinkCounters::default(),
        })
    }

    /// Returns the next number that this end expects, for [`super::fec_wire::decode`].
    pub fn next_expected(&self) -> u64 {
        self.seen
    }

    #[inline]
    fn slot(&self, sequence: u64) -> usize {
        (sequence & self.mask) as usize
    }

    fn close_blocks(&mut self) {
        // Between 1 and 64: at least one frame has been sent.
        self.parities_due = self.interleave.min(self.next - self.first) as usize;
        self.turn = 0;
        self.deadline = Instant::NEVER;
    }

    #[cold]
    fn give_up(&mut self, sequence: u64) {
        self.counters.skipped += 1;
        self.events.push_back(LinkEvent::Abandoned { sequence });
    }

    /// Abandons the missing numbers below `end`.
    #[cold]
    fn give_up_below(&mut self, end: u64) {
        while self.missing != 0 {
            let age = 63 - self.missing.leading_zeros();
            let sequence = self.seen - 1 - u64::from(age);
            if sequence >= end {
                return;
            }
            self.missing &= !(1 << age);
            self.give_up(sequence);
        }
    }

    /// Advances `seen` by `count` numbers.
    #[inline]
    fn shift(&mut self, count: u64) {
        let shifted = |bits: u64| if count >= 64 { 0 } else { bits << count };
        (self.missing, self.arrived) = (shifted(self.missing), shifted(self.arrived));
        self.seen += count;
    }
}

impl<P: Clone> XorFec<P> {
    /// Delivers the packets received before the oldest missing number, with in-order delivery.
    fn release(&mut self) {
        // The oldest missing number is at most 64 below `seen`.
        let end = self.seen - u64::from(u64::BITS - self.missing.leading_zeros());
        while self.in_order && self.next_up < end {
            let (number, age) = (self.next_up, self.seen - 1 - self.next_up);
            self.next_up += 1;
            if age < 64 && self.arrived >> age & 1 == 1 {
                let slot = self.slot(number);
                self.up.extend(self.held[slot].clone());
            }
        }
    }

    /// Handles the information that all numbers below `next` have been sent and that no parity will
    /// arrive for those below `first`. At most 64 numbers lie between the two.
    #[cold]
    fn pass(&mut self, first: u64, next: u64) {
        self.give_up_below(first);
        for sequence in self.seen..first {
            self.give_up(sequence);
        }
        self.release();
        let unseen = low_bits(next - first.max(self.seen));
        self.shift(next - self.seen);
        self.missing |= unseen;
    }
}

impl<P: Payload + Clone> XorFec<P> {
    #[inline]
    fn on_data(&mut self, sequence: u64, packet: P) {
        if sequence < self.seen {
            // Delivered or abandoned before.
            self.counters.duplicates += 1;
            return;
        }
        if sequence > self.seen || self.missing != 0 {
            self.pass((sequence + 1).saturating_sub(self.span), sequence);
        }
        self.shift(1);
        let slot = self.slot(sequence);
        match &mut self.held[slot] {
            Some(held) => held.clone_from(&packet),
            held => *held = Some(packet.clone()),
        }
        self.arrived |= 1;
        if self.in_order {
            return self.release();
        }
        self.up.push_back(packet);
    }

    #[inline]
    fn on_parity(&mut self, first: u64, count: u64, lengths: u32, parity: P) {
        let next = first + count.saturating_sub(1) * self.interleave + 1;
        // Frames of the other blocks may follow it.
        let is_late = next + self.interleave <= self.seen;
        if is_late || !(1..=self.span / self.interleave).contains(&count) {
            // A correct sender does not send this parity now.
            self.counters.discarded += 1;
            return;
        }
        if next > self.seen {
            self.pass(first, next);
        } else if self.missing != 0 {
            self.give_up_below(first);
        } else {
            return;
        }
        self.recover(first, next, lengths, parity);
        self.give_up_of(first, next);
        self.release();
    }

    /// Returns a bitmap of the numbers of a block, from `first` to `next` (exclusive) in steps of
    /// `interleave`.
    fn members(&self, first: u64, next: u64) -> u64 {
        let ages = (first..next).step_by(self.interleave as usize).map(|n| self.seen - 1 - n);
        ages.filter(|&age| age < 64).fold(0, |bits, age| bits | 1 << age)
    }

    /// Abandons the missing numbers of a block whose parity has been used.
    #[cold]
    fn give_up_of(&mut self, first: u64, next: u64) {
        if self.interleave == 1 {
            return self.give_up_below(next);
        }
        let mut lost = self.missing & self.members(first, next);
        self.missing &= !lost;
        while lost != 0 {
            let age = 63 - lost.leading_zeros();
            lost &= !(1 << age);
            self.give_up(self.seen - 1 - u64::from(age));
        }
    }

    /// Recovers the packet of the block from `first` to `next` (exclusive), if exactly one is
    /// missing.
    #[cold]
    fn recover(&mut self, first: u64, next: u64, lengths: u32, parity: P) {
        let lost = self.missing & self.members(first, next);
        if !lost.is_power_of_two() {
            return;
        }
        let sequence = self.seen - 1 - u64::from(lost.trailing_zeros());
        let (mut packet, mut bytes) = (parity, lengths);
        let members = (first..next).step_by(self.interleave as usize);
        for other in members.filter(|&other| other != sequence) {
            if let Some(held) = &self.held[self.slot(other)] {
                packet.xor(held);
                bytes ^= held.wire_bytes();
            }
        }
        if bytes > packet.wire_bytes() {
            // After a long outage, numbers modulo 128 can combine frames of different blocks.
            return;
        }
        packet.truncate(bytes);
        packet.keep_frame(sequence);
        self.missing &= !lost;
        self.counters.recovered += 1;
        self.events.push_back(LinkEvent::Recovered { sequence });
        if self.in_order {
            self.arrived |= lost;
            let slot = self.slot(sequence);
            self.held[slot] = Some(packet);
        } else {
            self.up.push_back(packet);
        }
    }
}

impl<P: Payload + Clone> Endpoint<P> for XorFec<P> {
    type Control = FrameKind;

    #[inline]
    fn wants_packet(&self) -> bool {
        self.parities_due == 0 && self.waiting.is_none()
    }

    #[inline]
    fn enqueue(&mut self, _now: Instant, packet: P) {
        debug_assert!(self.wants_packet(), "enqueue without wants_packet");
        self.waiting = Some(packet);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        if self.parities_due > 0 {
            let Block { parity, lengths } = &mut self.blocks[self.turn];
            let (parity, lengths) = (parity.take(), std::mem::take(lengths));
            let packet = parity.as_ref().map_or(0, Payload::wire_bytes);
            let bytes = self.header + PARITY_FIELDS + packet;
            let first = self.first + self.turn as u64;
            // At most 64.
            let count = (self.next - first).div_ceil(self.interleave) as u16;
            self.turn += 1;
            self.parities_due -= 1;
            if self.parities_due == 0 {
                (self.first, self.turn) = (self.next, 0);
            }
            self.counters.parities += 1;
            let kind = FrameKind::Parity { first, count, lengths };
            return Some(Frame { kind, ack: None, payload: parity, bytes, service: 0 });
        }
        let packet = self.waiting.take()?;
        let sequence = self.next;
        self.next += 1;
        self.counters.data_frames += 1;
        let block = &mut self.blocks[self.turn];
        block.lengths ^= packet.wire_bytes();
        match &mut block.parity {
            Some(parity) => parity.xor(&packet),
            parity => *parity = Some(packet.clone()),
        }
        self.turn += 1;
        if self.turn == self.blocks.len() {
            self.turn = 0;
        }
        if self.next - self.first == self.span {
            self.close_blocks();
        } else {
            self.deadline = deadline(now, self.parity_timeout);
        }
        let bytes = self.header + packet.wire_bytes();
        Some(Frame {
            kind: FrameKind::Data { sequence },
            ack: None,
            payload: Some(packet),
            bytes,
            service: 0,
        })
    }

    #[inline]
    fn has_frame(&self) -> bool {
        self.parities_due > 0 || self.waiting.is_some()
    }

    #[inline]
    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        match (frame.kind, frame.payload) {
            (FrameKind::Data { sequence }, Some(packet)) => self.on_data(sequence, packet),
            (FrameKind::Parity { first, count, lengths }, Some(parity)) => {
                self.on_parity(first, u64::from(count), lengths, parity);
            }
            _ => {}
        }
    }

    #[inline]
    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline]
    fn next_timeout(&self) -> Instant {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline <= now {
            self.close_blocks();
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload + Clone> Abilities<P> for XorFec<P> {}

impl<P: Payload + Clone> Driven<P> for XorFec<P> {}

impl ByteFormat for XorFec<Vec<u8>> {
    fn encode(&self, frame: &Frame<Vec<u8>>, bytes: &mut Vec<u8>) -> Result<(), BytesError> {
        Ok(fec_wire::encode(frame, self.interleave, bytes)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<Frame<Vec<u8>>, BytesError> {
        Ok(fec_wire::decode(bytes, self.next_expected(), self.interleave)?)
    }
}
