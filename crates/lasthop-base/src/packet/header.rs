//! The TCP header that a descriptor carries, and its options, for which there is room where they are used.

use std::borrow::Borrow;
use std::fmt::Debug;

/// Number of SACK blocks that an ACK carries at most: 40 bytes of options hold 4 of them, or 3 beside
/// the timestamps option (RFC 2018, section 3).
pub const MAX_SACK_BLOCKS: usize = 4;

/// The number of SACK blocks beside the timestamps option.
pub const MAX_SACK_BLOCKS_WITH_TIMESTAMPS: usize = 3;
/// The ECN field of an IP header (RFC 3168, section 5), by its codepoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The transport does not know ECN: a congested queue drops the packet.
    #[default]
    NotEct = 0,
    /// ECN-capable transport that asks for the treatment of L4S (RFC 9331).
    Ect1 = 1,
    /// ECN-capable transport.
    Ect0 = 2,
    /// A queue on the way is congested.
    Ce = 3,
}

impl Ecn {
    /// From the two bits of the field; higher bits are ignored.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits of the field.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// May a queue mark the packet instead of dropping it?
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotEct)
    }

    /// Does a queue treat the packet as one of L4S (RFC 9331, section 5.1)? One that is marked already may be.
    pub const fn is_l4s(self) -> bool {
        matches!(self, Ecn::Ect1 | Ecn::Ce)
    }
}
/// What headers have room for besides the fields that every segment needs. It is chosen when a world is built, so that
/// only who needs it pays for it: `()` where no segment has options, [`TcpOptions`] where some may have, [`Watched`] where
/// somebody observes the run.
pub trait Extension: Copy + Debug + Default + Eq + Send + 'static {
    /// `header` with its options in this extension.
    ///
    /// # Panics
    /// If it has options and there is no room for them.
    fn narrow(header: &TcpHeader) -> Header<Self>;

    /// `header` with all its options.
    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader>;

    /// Exclusive or with another one: see [`Payload::xor`](super::Payload::xor).
    fn xor(&mut self, other: &Self);

    /// Keeps the number of the link frame in which its packet came: see [`Payload::keep_frame`](super::Payload::keep_frame).
    #[inline(always)]
    fn keep_frame(&mut self, _number: u64) {}

    /// That number, of packets that keep it and have come in a frame.
    #[inline(always)]
    fn frame(&self) -> Option<u64> {
        None
    }
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The first SACK blocks [left, right), most recently received first (RFC 2018).
    pub sack: [(u32, u32); MAX_SACK_BLOCKS_WITH_TIMESTAMPS],
    /// Timestamp value and echo reply in clock ticks (RFC 7323). Without the option the fourth SACK
    /// block stands here, as the two exclude each other on the wire.
    pub timestamps: (u32, u32),
}

impl TcpOptions {
    /// Timestamps alone, a value and an echo reply.
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

/// Options, and what only observers of a run ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    options: TcpOptions,
    frame: Option<u64>,
}

impl Extension for Watched {
    fn narrow(header: &TcpHeader) -> Header<Self> {
        header.with(Watched { options: header.options, frame: None })
    }

    fn full(header: &Header<Self>) -> impl Borrow<TcpHeader> {
        header.with(header.options.options)
    }

    fn xor(&mut self, other: &Self) {
        self.options.xor(&other.options);
    }

    fn keep_frame(&mut self, number: u64) {
        self.frame = Some(number);
    }

    fn frame(&self) -> Option<u64> {
        self.frame
    }
}

/// A TCP header with room for options, or without. Sequence and acknowledgment numbers are the 32-bit numbers of
/// RFC 9293, starting from 0; machines unwrap them to 64 bits at the door.
#[derive(Copy, Debug, Default, PartialEq, Eq)]
pub struct Header<X> {
    /// Sequence number of the first payload byte (or of the SYN or FIN).
    pub seq: u32,
    /// Cumulative acknowledgment: the next byte expected.
    pub ack: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Advertised receive window in bytes (after scaling, RFC 7323).
    pub window: u32,
    /// Flag bits of RFC 9293, see [`flags`].
    pub flags: u8,
    /// ECN field of the IP header around it, which TCP sets and reads together with its own.
    pub ecn: Ecn,
    /// Number of SACK blocks, see [`TcpHeader::sack_blocks`].
    pub sack_blocks: u8,
    /// Is the timestamps option present (RFC 7323)?
    pub has_timestamps: bool,
    /// What stands in the options.
    pub options: X,
}

/// In one piece; what is derived for a type with parameters goes field by field.
impl<X: Copy> Clone for Header<X> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

/// A TCP header with its options, as the machines of TCP write and read it.
pub type TcpHeader = Header<TcpOptions>;

impl<X: Extension> Header<X> {
    /// Does it acknowledge, and do nothing else: no payload, SACK block, timestamp or other flag?
    #[inline(always)]
    pub fn is_plain_ack(&self) -> bool {
        self.payload == 0 && self.flags == flags::ACK && !self.has_options()
    }

    /// Whether one of the bits of `flag` is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Length in sequence numbers: data, SYN and FIN (SEG.LEN of RFC 9293).
    pub fn length(&self) -> u32 {
        self.payload + u32::from(self.has(flags::SYN)) + u32::from(self.has(flags::FIN))
    }

    /// Does it end data that should be handed up at once ([`flags::PSH`])?
    pub fn is_pushed(&self) -> bool {
        self.payload > 0 && self.flags & flags::NOTICE == flags::PSH
    }

    /// Has it SACK blocks or timestamps?
    #[inline(always)]
    pub fn has_options(&self) -> bool {
        self.sack_blocks | u8::from(self.has_timestamps) != 0
    }

    /// With all its options.
    #[inline(always)]
    pub fn full(&self) -> impl Borrow<TcpHeader> {
        X::full(self)
    }

    /// The same with other options, of which its marks tell.
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
    /// All SACK blocks; the first `self.sack_blocks` entries are valid.
    pub fn sack_blocks(&self) -> [(u32, u32); MAX_SACK_BLOCKS] {
        let [first, second, third] = self.options.sack;
        [first, second, third, self.options.timestamps]
    }

    /// Puts SACK blocks in place of those that the header has. A fourth one needs a header without
    /// timestamps.
    pub fn set_sack_blocks(&mut self, blocks: &[(u32, u32)]) {
        debug_assert!(blocks.len() <= MAX_SACK_BLOCKS, "at most four SACK blocks");
        self.sack_blocks = blocks.len() as u8;
        for (place, &block) in self.options.sack.iter_mut().zip(blocks) {
            *place = block;
        }
        if let Some(&fourth) = blocks.get(MAX_SACK_BLOCKS_WITH_TIMESTAMPS) {
            debug_assert!(!self.has_timestamps, "three SACK blocks beside timestamps");
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
    /// In a segment with data: the receiver should hand them up at once, as they end what a Linux host sends in one
    /// piece. In memory it is the bit of [`ERSN`], which stands in segments without data.
    pub const PSH: u8 = ERSN;
    /// The acknowledgment field is significant.
    pub const ACK: u8 = 0x10;
    /// A link has lost a segment, see [`NOTICE`].
    pub const ELN: u8 = 0x20;
    /// Both bits of explicit notification (Yun 2009, section 3.1). Alone, each makes a message of what has
    /// the format of an ACK, whose acknowledgment number is that of the first byte of the segment that it
    /// is about; together they mark a genuine ACK: the segment that it asks for was lost on a link. On the
    /// wire they are the second and third of the four reserved bits ([`NOTICE_ON_WIRE`]); in memory they stand
    /// where PSH and URG would.
    pub const NOTICE: u8 = ERSN | ELN;
    /// The flag of a data segment that is to be dropped before others ([`is_out`](crate::packet::Payload::is_out)). It stands in
    /// memory where [`ERSN`] does, which data never carry; on the wire it would be a drop precedence of RFC 2597.
    pub const OUT: u8 = ERSN;
    /// Where [`ERSN`] and [`ELN`] stand in the byte of the data offset.
    pub const NOTICE_ON_WIRE: [u8; 2] = [0x02, 0x04];
    /// Echo of congestion experienced (RFC 3168, section 6.1).
    pub const ECE: u8 = 0x40;
    /// The congestion window has been reduced (RFC 3168, section 6.1).
    pub const CWR: u8 = 0x80;
}
