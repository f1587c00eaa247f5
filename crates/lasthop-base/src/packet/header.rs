//! The TCP header of a descriptor, and its options, which are stored only where they are used.

use std::borrow::Borrow;
use std::fmt::Debug;

/// Maximum number of SACK blocks per ACK. 40 bytes of options contain 4 blocks, or 3 with the
/// timestamps option (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 4;

/// Maximum number of SACK blocks per ACK with the timestamps option.
pub const MAX_SACK_BLOCKS_WITH_TIMESTAMPS: usize = 3;
/// ECN field of an IP header (RFC 3168, section 5), by its codepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not support ECN: a congested queue drops the packet.
    #[default]
    NotEct = 0,
    /// ECN-capable transport that requests the L4S treatment (RFC 9331).
    Ect1 = 1,
    /// ECN-capable transport.
    Ect0 = 2,
    /// Congestion experienced: a queue on the path is congested.
    Ce = 3,
}

impl Ecn {
    /// Reads the two bits of the field; ignores higher bits.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Returns the two bits of the field.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Returns `true` if a queue may mark the packet instead of dropping it.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }

    /// Returns `true` if a queue treats the packet as L4S (RFC 9331, section 5.1). This includes
    /// packets that are already marked.
    pub const fn is_l4s(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }
}
/// Space of a header for optional fields. The extension is chosen when a world is built, so that
/// only runs that need options store them: `()` if no segment has options, [`TcpOptions`] if
/// segments may have options, [`Watched`] if an observer is attached to the run.
pub trait Extension: Copy + Debug + Default + Eq + Send + 'static {
    /// Stores `header` with its options in this extension.
    ///
    /// # Panics
    /// If the header has options and the extension has no space for them.
    fn narrow(header: &TcpHeader) -> Header<Self>;

    /// Returns `header` with all its options.
    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader>;

    /// Computes the exclusive or with `other`: see [`Payload::xor`](super::Payload::xor).
    fn xor(&mut self, other: &Self);

    /// Stores the number of the link frame that contained the packet: see
    /// [`Payload::keep_frame`](super::Payload::keep_frame).
    #[inline(always)]
    fn keep_frame(&mut self, _number: u64) {}

    /// Returns the number of the link frame, if it is stored and the packet was received in a
    /// frame.
    #[inline(always)]
    fn frame(&self) -> Option<u64> {
        None
    }

    /// Stores the header of a frame of link layer `layer`; the uppermost layer is 0. The descriptor
    /// then represents that frame.
    ///
    /// # Panics
    /// If the extension has no space for it: only worlds with stacked link layers provide it.
    fn put_header(&mut self, _layer: usize, header: FrameHeader) {
        unreachable!("there is no room for {header:?}: the world has no stacked link layers")
    }

    /// Removes the header of the frame of link layer `layer`; `None` if the descriptor does not
    /// represent such a frame.
    fn take_header(&mut self, _layer: usize) -> Option<FrameHeader> {
        None
    }

    /// Returns the headers of the frames that the descriptor represents, by link layer.
    fn headers(&self) -> &[Option<FrameHeader>] {
        &[]
    }
}

/// Header of a link frame carried by a packet of the layer below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    /// The content of the frame except packet and acknowledgment, packed by its link layer.
    pub control: [u64; 3],
    /// Cumulative acknowledgment, or 0.
    pub ack: u64,
    /// Number of the frame in transmission order of its layer, modulo 2^32, for observers.
    pub number: u32,
    /// Length of the packet in the frame in bytes, or 0.
    pub packet_bytes: u32,
    /// Whether the frame has an acknowledgment.
    pub has_ack: bool,
    /// Whether the frame has a packet.
    pub has_packet: bool,
}

impl FrameHeader {
    /// Returns the exclusive or of two headers; an absent header counts as zero.
    fn xor(this: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (mut sum, other) = match (this, other) {
            (Some(this), Some(other)) => (this, other),
            (one, other) => return one.or(other),
        };
        sum.combine(&other);
        Some(sum)
    }

    fn combine(&mut self, other: &Self) {
        for (word, other) in self.control.iter_mut().zip(other.control) {
            *word ^= other;
        }
        self.ack ^= other.ack;
        self.number ^= other.number;
        self.packet_bytes ^= other.packet_bytes;
        self.has_ack ^= other.has_ack;
        self.has_packet ^= other.has_packet;
    }
}

/// Maximum number of link layers in a stack. A packet of the lowest layer carries a frame of each
/// layer above.
pub const MAX_LAYERS: usize = 3;

/// Options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The first three SACK blocks [left, right), most recently received first (RFC 2018).
    pub sack: [(u32, u32); MAX_SACK_BLOCKS_WITH_TIMESTAMPS],
    /// Timestamp value and echo reply in clock ticks (RFC 7323). Without the timestamps option,
    /// this field contains the fourth SACK block; the two exclude each other on the wire.
    pub timestamps: (u32, u32),
}

impl TcpOptions {
    /// Creates options with a timestamp value and an echo reply only.
    pub fn stamps(value: u32, echo: u32) -> Self {
        TcpOptions { timestamps: (value, echo), ..TcpOptions::default() }
    }
}

impl Extension for () {
    #[inline(always)]
    fn narrow(header: &TcpHeader) -> Header<Self> {
        assert!(!header.has_options(), "no segment has options where there is no room for them");
        header.with(())
    }

    #[inline(always)]
    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader> {
        header.with(TcpOptions::default())
    }

    fn xor(&mut self, (): &Self) {}
}

impl Extension for TcpOptions {
    #[inline(always)]
    fn narrow(header: &TcpHeader) -> Header<Self> {
        *header
    }

    #[inline(always)]
    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader> {
        header
    }

    fn xor(&mut self, other: &Self) {
        for (block, other) in self.sack.iter_mut().zip(&other.sack) {
            *block = (block.0 ^ other.0, block.1 ^ other.1);
        }
        self.timestamps.0 ^= other.timestamps.0;
        self.timestamps.1 ^= other.timestamps.1;
    }
}

/// Options, fields that only observers of a run read, and headers of stacked link layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    options: TcpOptions,
    frame: Option<u64>,
    headers: [Option<FrameHeader>; MAX_LAYERS - 1],
}

impl Extension for Watched {
    fn narrow(header: &TcpHeader) -> Header<Self> {
        header.with(Watched { options: header.options, ..Watched::default() })
    }

    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader> {
        header.with(header.options.options)
    }

    fn xor(&mut self, other: &Self) {
        self.options.xor(&other.options);
        for (header, other) in self.headers.iter_mut().zip(&other.headers) {
            *header = FrameHeader::xor(*header, *other);
        }
    }

    fn keep_frame(&mut self, number: u64) {
        self.frame = Some(number);
    }

    fn frame(&self) -> Option<u64> {
        self.frame
    }

    fn put_header(&mut self, layer: usize, header: FrameHeader) {
        self.headers[layer] = Some(header);
    }

    fn take_header(&mut self, layer: usize) -> Option<FrameHeader> {
        self.headers.get_mut(layer)?.take()
    }

    fn headers(&self) -> &[Option<FrameHeader>] {
        &self.headers
    }
}

/// A TCP header, with or without space for options. Sequence and acknowledgment numbers are the
/// 32-bit numbers of RFC 9293, starting at 0. State machines extend them to 64 bits on reception.
#[derive(Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<X> {
    /// Sequence number of the first payload byte (or of the SYN or FIN).
    pub seq: u32,
    /// Cumulative acknowledgment: the next byte expected.
    pub ack: u32,
    /// Number of payload bytes.
    pub payload: u32,
    /// Advertised receive window in bytes (after scaling, RFC 7323).
    pub window: u32,
    /// Flag bits of RFC 9293, see [`flags`].
    pub flags: u8,
    /// ECN field of the enclosing IP header, which TCP sets and reads together with its own flags.
    pub ecn: Ecn,
    /// Number of SACK blocks, see [`TcpHeader::sack_blocks`].
    pub sack_blocks: u8,
    /// Whether the timestamps option is present (RFC 7323).
    pub has_timestamps: bool,
    /// Option values.
    pub options: X,
}

/// Copies the header as a whole; a derived implementation would copy field by field.
impl<X: Copy> Clone for Header<X> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

/// A TCP header with its options, as TCP endpoints write and read it.
pub type TcpHeader = Header<TcpOptions>;

impl<X: Extension> Header<X> {
    /// Returns `true` for an ACK without payload, SACK blocks, timestamps, ECN field and other flags.
    #[inline(always)]
    pub fn is_plain_ack(&self) -> bool {
        // Adjacent in memory, so that they are compared as one number.
        let Header { flags, sack_blocks, ecn, has_timestamps, .. } = *self;
        let marks = [flags, sack_blocks, ecn as u8, has_timestamps.into()];
        self.payload == 0 && marks == [flags::ACK, 0, 0, 0]
    }

    /// Returns `true` if any bit of `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the length in sequence numbers: data, SYN and FIN (SEG.LEN of RFC 9293).
    pub fn length(&self) -> u32 {
        self.payload + u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN))
    }

    /// Returns `true` if the receiver should deliver the data immediately ([`flags::PSH`]).
    pub fn is_pushed(&self) -> bool {
        self.payload > 0 && self.flags & flags::NOTICE == flags::PSH
    }

    /// Returns `true` if the header has SACK blocks or timestamps.
    #[inline(always)]
    pub fn has_options(&self) -> bool {
        self.sack_blocks | u8::from(self.has_timestamps) != 0
    }

    /// Returns the header with all its options.
    #[inline(always)]
    pub fn full(&self) -> impl Borrow<TcpHeader> {
        X::full(self)
    }

    /// Returns the header with other options, which its flags and counts describe.
    #[inline(always)]
    fn with<Y>(&self, options: Y) -> Header<Y> {
        let Header { seq, ack, payload, window, flags, ecn, sack_blocks, has_timestamps, .. } =
            *self;
        Header { seq, ack, payload, window, flags, ecn, sack_blocks, has_timestamps, options }
    }

    pub(super) fn xor(&mut self, other: &Self) {
        self.seq ^= other.seq;
        self.ack ^= other.ack;
        self.payload ^= other.payload;
        self.window ^= other.window;
        self.flags ^= other.flags;
        self.ecn = Ecn::from_bits(self.ecn.bits() ^ other.ecn.bits());
        self.sack_blocks ^= other.sack_blocks;
        self.has_timestamps ^= other.has_timestamps;
        self.options.xor(&other.options);
    }
}

impl TcpHeader {
    /// Returns the SACK blocks; the first `self.sack_blocks` entries are valid.
    pub fn sack_blocks(&self) -> [(u32, u32); MAX_SACK_BLOCKS] {
        let [first, second, third] = self.options.sack;
        [first, second, third, self.options.timestamps]
    }

    /// Replaces the SACK blocks. A fourth block requires a header without timestamps.
    pub fn set_sack_blocks(&mut self, blocks: &[(u32, u32)]) {
        debug_assert!(blocks.len() <= MAX_SACK_BLOCKS, "at most four SACK blocks");
        self.sack_blocks = blocks.len() as u8;
        for (place, &block) in self.options.sack.iter_mut().zip(blocks) {
            *place = block;
        }
        if let Some(&fourth) = blocks.get(MAX_SACK_BLOCKS_WITH_TIMESTAMPS) {
            debug_assert!(!self.has_timestamps, "at most three SACK blocks with timestamps");
            self.options.timestamps = fourth;
        }
    }
}

/// TCP flag bits (RFC 9293, section 3.1).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// A retransmission of a link has started, see [`NOTICE`].
    pub const ERSN: u8 = 0x08;
    /// In a data segment: the receiver should deliver the data immediately, as the segment ends a
    /// burst of a Linux host. In memory, it shares the bit of [`ERSN`], which only segments without
    /// data use.
    pub const PSH: u8 = ERSN;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// A link has lost a segment, see [`NOTICE`].
    pub const ELN: u8 = 0x20;
    /// Both bits of explicit notification (Yun 2009, section 3.1). One bit alone marks a
    /// notification in the format of an ACK; the acknowledgment number is the sequence number of
    /// the first byte of the reported segment. Both bits together mark a genuine ACK whose
    /// requested segment was lost on a link. On the wire they are the second and third of the four
    /// reserved bits ([`NOTICE_ON_WIRE`]). In memory they use the bits of PSH and URG.
    pub const NOTICE: u8 = ERSN | ELN;
    /// Marks a data segment to be dropped before others
    /// ([`is_out`](crate::packet::Payload::is_out)). In memory, it shares the bit of [`ERSN`],
    /// which data segments never have. On the wire it would be a drop precedence of RFC 2597.
    pub const OUT: u8 = ERSN;
    /// Bits of [`ERSN`] and [`ELN`] in the byte of the data offset.
    pub const NOTICE_ON_WIRE: [u8; 2] = [0x02, 0x04];
    /// Echo of congestion experienced (RFC 3168, section 6.1).
    pub const ECE: u8 = 0x40;
    /// The congestion window has been reduced (RFC 3168, section 6.1).
    pub const CWR: u8 = 0x80;
}
