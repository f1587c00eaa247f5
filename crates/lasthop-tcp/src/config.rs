//! The parameters of a TCP connection, fixed at its construction.

use super::congestion_control::{CongestionControlKind, Marks};
pub use super::receiver::AckCompression;
use super::receiver::Memory;
use super::wheel::Wheel;
use lasthop_base::packet::{MAX_SACK_BLOCKS, MAX_SACK_BLOCKS_WITH_TIMESTAMPS};
use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Bytes, Duration};

/// Which arithmetic a TCP follows where the RFCs and ns-2 differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conventions {
    /// ns-2 2.30 to 2.35: windows count whole packets, half of the window in use is kept
    /// fractional, a transfer is one-way.
    Ns2,
    /// RFC 5681, 6582, 6675: windows count bytes, half of the flight size.
    Rfc,
    /// Linux 6: windows count whole segments and grow by what is delivered; half of the window; the
    /// timeout is SRTT and a variation that is never below the minimum RTO.
    Linux,
}

choice! {
    /// How a TCP finds out that a reduction of its window answered no loss.
    pub enum UndoKind {
        /// Not at all.
        Off = "off",
        /// By timestamps: Eifel (RFC 3522); needs `timestamps = true`.
        Eifel = "eifel",
        /// By whatever tells first: reports of duplicates (DSACK, RFC 2883), the ACKs after a timeout
        /// (F-RTO, RFC 5682), timestamps; with RACK-TLP only.
        All = "all",
    }
}

/// How the writes of an application become segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Each write ends a segment, and the FIN has a segment of its own.
    Messages,
    /// Writes that are not sent yet form one stream of full segments, and the FIN is sent with the last of them.
    Stream {
        /// Whether a short segment waits while another short one is unacknowledged: Nagle's algorithm (RFC 9293,
        /// section 3.7.4) with Minshall's change.
        nagle: bool,
    },
}

choice! {
    /// What tells that a segment is lost.
    pub enum LossDetection {
        /// As many duplicate acknowledgments as dupack_threshold says.
        Duplicates = "duplicates",
        /// A round trip has passed since the first of them (TCP-DCR), so that the link may repair it before.
        Delayed = "delayed",
        /// A window of them (RFC 4653); one new segment for two of them meanwhile.
        NcrCareful = "ncr-careful",
        /// A window of them (RFC 4653); one new segment for each of them meanwhile.
        NcrAggressive = "ncr-aggressive",
    }
}

/// How losses are found and repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Fast retransmit and fast recovery, left at the first new ACK (RFC 5681).
    Reno,
    /// Fast retransmit and slow start.
    Tahoe,
    /// Partial ACKs retransmit the next hole (RFC 6582).
    NewReno,
    /// ns-2's `Sack1`.
    SackNs2,
    /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937); without SACK three duplicates and
    /// partial ACKs find the losses.
    RackTlp,
    /// Conservative SACK-based recovery (RFC 6675).
    Sack6675,
    /// ns-2's `Sack1` with explicit notifications of a link (ESACK, Yun 2009).
    Esack,
    /// The packet list of LHP.
    Lhp,
}

/// What a sender makes of the news that a link has lost a segment, over its recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notices {
    /// Nothing, or what its recovery knows by itself.
    #[default]
    Off,
    /// The segment goes again (HACK, EWLN).
    Resend,
    /// The same, and duplicates that ask for it do not count until it is there (HACK-fixed).
    Excuse,
    /// The same, and duplicates begin anew (TCP-ELN).
    Restart,
    /// A marked duplicate sends again what it asks for, once, and does not count (Balakrishnan and Katz).
    Marks,
    /// Some segments are for queues to drop first; a mark of the receiver on the duplicate that counts says that the loss
    /// was random (Casablanca).
    Casablanca,
    /// The same, but the sender judges by what was lost (Ifrane).
    Ifrane,
}

choice! {
    /// What a notice that a link has begun to send a segment again (ERSN) does to the sender's timer.
    pub enum Ersn {
        /// Nothing.
        Off = "off",
        /// It starts anew when it would fire for that segment, without a timeout.
        Hold = "hold",
        /// It starts anew at once.
        Restart = "restart",
    }
}

/// All parameters of one TCP, resolved. Obtain one from
/// [`presets::config`](super::presets::config).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which arithmetic.
    pub conventions: Conventions,
    /// How losses are repaired.
    pub recovery: RecoveryKind,
    /// What tells that a segment is lost; only with [`RecoveryKind::Sack6675`].
    pub loss_detection: LossDetection,
    /// How the congestion window moves.
    pub law: CongestionControlKind,
    /// Does HyStart++ (RFC 9406) end slow start?
    pub hystart: bool,
    /// Are segments paced?
    pub pacing: bool,
    /// How spurious reductions are found out.
    pub undo: UndoKind,
    /// Sender maximum segment size: payload bytes of a full segment.
    pub segment: Bytes,
    /// Bytes added to the payload of each data segment on the wire.
    pub header: Bytes,
    /// Bytes of a segment without payload (ACK, SYN, FIN), SACK blocks and timestamps apart.
    pub ack_size: Bytes,
    /// Does the wire carry the bytes of options (SACK, timestamps) in full? ns-2 counts 8 bytes
    /// per SACK block and nothing else.
    pub charge_options: bool,
    /// Receive window, in segments; at least one.
    pub receive_window: f64,
    /// Delay of an ACK for in-order data; `None` acknowledges every segment at once.
    pub delayed_ack: Option<Duration>,
    /// Do ACKs carry SACK blocks?
    pub sack: bool,
    /// Does the receiver report duplicates (DSACK, RFC 2883)?
    pub dsack: bool,
    /// Does it ask for explicit congestion notification (RFC 3168)?
    pub ecn: bool,
    /// Does a mark reduce the window by less than a loss does (RFC 8511)? Reno's law and CUBIC's of RFC 9438 know
    /// how.
    pub abe: bool,
    /// Do the buffers of both hosts grow with the connection, as Linux's do (`net.ipv4.tcp_rmem`, `tcp_wmem`)? Then
    /// `receive_window` says nothing.
    pub autotuning: bool,
    /// Are tail losses probed for (RFC 8985, section 7)? Only with [`RecoveryKind::RackTlp`], as the next.
    pub tail_probes: bool,
    /// Do the ACKs after a timeout show whether it was spurious (RFC 5682)?
    pub frto: bool,
    /// Segments that leave in one piece at least if there are as many, as from a host with segmentation offload; 0: each
    /// leaves by itself.
    pub pieces: u32,
    /// Does a host hand several segments on at once (segmentation offload)? If not, no piece has more than one.
    pub offload: bool,
    /// Time between two ticks of the host, at which its timers fire, those of long delays at every eighth or later ones;
    /// zero: timers are exact. Only with [`RecoveryKind::RackTlp`].
    pub timer_tick: Duration,
    /// The first SYN are sent again so often, before the timeout doubles (`net.ipv4.tcp_syn_linear_timeouts`).
    pub linear_syns: u32,
    /// ACKs that leave at once at the beginning of a connection, whatever `delayed_ack` says.
    pub quick_acks: u32,
    /// Are ACKs of what arrives above a hole held back for a moment (Linux)? Only with [`Self::quick_acks`] and
    /// [`Self::sack`].
    pub ack_compression: Option<AckCompression>,
    /// What the marks that it echoes and gets tell.
    pub marks: Marks,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// Tick of the clock that stamps; that of [`Self::clock_granularity`] but for laws that need to know when segments
    /// arrived.
    pub timestamp_tick: Duration,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Does a window that the application does not use stay as it is (RFC 7661)?
    pub window_validation: bool,
    /// Does a pause longer than the RTO bring the window back to the initial one (RFC 5681, section 4.1)?
    pub restart_after_idle: bool,
    /// Does Reno's window grow by the bytes that an ACK acknowledges (RFC 3465), in slow start by so many segments at most?
    pub byte_counting: Option<u32>,
    /// Does a SYN open the connection?
    pub handshake: bool,
    /// Only the opener sends data, and the other side answers the SYN with a plain ACK.
    pub one_way: bool,
    /// Does a FIN close it?
    pub fin: bool,
    /// Is the last segment of an application write padded to full size?
    pub pad_segments: bool,
    /// How writes become segments.
    pub writes: WritePolicy,
    /// Initial window, in segments; at least one.
    pub initial_window: f64,
    /// Duplicate ACKs that trigger fast retransmit.
    pub dupack_threshold: u32,
    /// Consecutive explicit losses that noise can cause at most: more of them mean a disconnection. `None`: any number.
    /// Only with [`RecoveryKind::Esack`], as the next.
    pub eln_filter: Option<u32>,
    /// What a notice that a link sends a segment again does.
    pub ersn: Ersn,
    /// What news of losses on a link do.
    pub notices: Notices,
    /// RTO before the first sample.
    pub initial_rto: Duration,
    /// Lower bound of the RTO, before back-off.
    pub min_rto: Duration,
    /// Upper bound of the RTO, after back-off.
    pub max_rto: Duration,
    /// Granularity G of the clock that times segments.
    pub clock_granularity: Duration,
}

/// Bytes of the timestamp option of a segment: 10 and 2 of padding (RFC 7323).
pub(super) const TIMESTAMPS: u32 = 12;

impl Config {
    /// Does a sender keep a full record of each segment? Loss detection that marks segments as lost needs one.
    pub(super) fn keeps_records(&self) -> bool {
        self.recovery == RecoveryKind::RackTlp
    }

    /// Phases of the clocks of hosts differ within this time.
    pub fn clock_period(&self) -> Duration {
        match self.timer_tick {
            Duration::ZERO => self.clock_granularity,
            tick => Wheel::period(tick),
        }
    }

    /// Whether blocks of an erasure code are sent.
    pub fn sends_blocks(&self) -> bool {
        matches!(self.law, CongestionControlKind::LtTcp(_))
    }

    /// The window that a host advertises first, bytes.
    pub(super) fn first_window(&self) -> u64 {
        if self.autotuning {
            Memory::of_host(self.segment.get()).1
        } else {
            (self.receive_window * self.segment.get() as f64) as u64
        }
    }

    /// Do data go from the opener to the acceptor only? Then a dialogue takes a connection for each
    /// direction.
    pub fn is_simplex(&self) -> bool {
        self.one_way
    }

    /// Does an acceptor do nothing but acknowledge, each segment at once? Then it never waits for
    /// anything.
    pub fn only_acknowledges(&self) -> bool {
        self.one_way
            && self.delayed_ack.is_none()
            && self.quick_acks == 0
            && !self.announces_damage()
    }

    /// Does a receiver tell the sender of segments that arrive damaged, with a header that can be read?
    pub fn announces_damage(&self) -> bool {
        let wants_news =
            matches!(self.notices, Notices::Resend | Notices::Excuse | Notices::Restart);
        wants_news || self.recovery == RecoveryKind::Lhp
    }

    /// Are some segments for queues to drop first?
    #[inline]
    pub fn marks_some_out(&self) -> bool {
        matches!(self.notices, Notices::Casablanca | Notices::Ifrane)
    }

    /// Does the sender make anything of the news that a link has lost a segment?
    pub fn knows_notices(&self) -> bool {
        let by_itself = matches!(self.recovery, RecoveryKind::Esack | RecoveryKind::Lhp);
        by_itself || self.notices != Notices::Off
    }

    /// Have any segments of such a connection SACK blocks or timestamps? Units of an erasure code stand in these, too.
    pub fn writes_options(&self) -> bool {
        self.sack || self.timestamps || self.sends_blocks()
    }

    /// SACK blocks that an ACK reports at most: as many as the option space holds (RFC 2018,
    /// section 4); ns-2's sink reports three.
    pub fn max_sack_blocks(&self) -> usize {
        match (self.sack, self.conventions) {
            (false, _) => 0,
            // SMART: what made the receiver acknowledge.
            _ if self.recovery == RecoveryKind::Lhp => 1,
            (true, Conventions::Rfc | Conventions::Linux) if !self.timestamps => MAX_SACK_BLOCKS,
            (true, _) => MAX_SACK_BLOCKS_WITH_TIMESTAMPS,
        }
    }

    /// Bytes on the wire of a segment with `payload` bytes and `sack_blocks` SACK blocks.
    #[inline]
    pub fn wire_bytes(&self, payload: u32, sack_blocks: u8) -> u32 {
        let base = if payload > 0 {
            self.header.get() as u32 + payload
        } else {
            self.ack_size.get() as u32
        };
        if !self.charge_options {
            // ns-2 counts the blocks, but neither the option's head nor timestamps.
            return base + 8 * u32::from(sack_blocks);
        }
        let timestamps = if self.timestamps { TIMESTAMPS } else { 0 };
        // RFC 2018: 2 + 8 n and 2 of padding.
        let sack = if sack_blocks > 0 { 4 + 8 * u32::from(sack_blocks) } else { 0 };
        base + timestamps + sack
    }
}
