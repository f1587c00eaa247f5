//! The parameters of a TCP connection, fixed at its construction.

use super::congestion_control::{CongestionControlKind, Marks, RenoKeys};
pub use super::receiver::AckCompression;
use super::receiver::Memory;
use super::wheel::Wheel;
use lasthop_base::packet::{MAX_SACK_BLOCKS, MAX_SACK_BLOCKS_WITH_TIMESTAMPS};
use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Bytes, Duration};

choice! {
    /// Conventions that a TCP follows where the RFCs, ns-2 and Linux differ, and defaults of its
    /// parameters.
    pub enum Profile {
        /// The current standards. RFC 5681, 6582, 6675: windows are counted in bytes; a reduction
        /// halves the flight size.
        Rfc = "rfc",
        /// The simulator ns-2, versions 2.30 to 2.35, as papers of its time used it: windows are
        /// counted in whole packets, half of the window in use is not rounded, and transfers are
        /// one-way.
        Ns2 = "ns-2",
        /// A Linux 6 kernel with its default settings (`net/ipv4`, `sysctl`): windows are counted in
        /// whole segments and grow by delivered segments; a reduction halves the window; the RTO is
        /// SRTT plus a variation of at least the minimum RTO.
        Linux = "linux",
    }
}

choice! {
    /// Detection of spurious reductions of the window.
    pub enum UndoKind {
        /// No detection.
        Off = "off",
        /// By timestamps: Eifel (RFC 3522); needs `timestamps = true`.
        Eifel = "eifel",
        /// By the first evidence of any kind: reports of duplicates (DSACK, RFC 2883), ACKs after a
        /// timeout (F-RTO, RFC 5682), timestamps. Only with RACK-TLP.
        All = "all",
    }
}

/// Segmentation of data written by an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Each send call ends a segment, and the FIN is sent in its own segment.
    Messages,
    /// Unsent data of several send calls forms one stream of full segments, and the FIN is sent
    /// with the last of them.
    Stream {
        /// Whether a short segment waits while another short one is unacknowledged: Nagle's algorithm (RFC 9293,
        /// section 3.7.4) with Minshall's change.
        nagle: bool,
    },
}

choice! {
    /// Condition for declaring a segment lost.
    pub enum LossDetection {
        /// As many duplicate ACKs as dupack_threshold specifies.
        Duplicates = "duplicates",
        /// One RTT after the first duplicate ACK (TCP-DCR), so that the link can repair the loss
        /// before.
        Delayed = "delayed",
        /// A window of duplicate ACKs (RFC 4653); meanwhile one new segment per two duplicates.
        NcrCareful = "ncr-careful",
        /// A window of duplicate ACKs (RFC 4653); meanwhile one new segment per duplicate.
        NcrAggressive = "ncr-aggressive",
    }
}

/// Recovery scheme: detection and repair of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Fast retransmit and fast recovery, which ends at the first ACK for new data (RFC 5681).
    Reno,
    /// Fast retransmit and slow start.
    Tahoe,
    /// A partial ACK triggers the retransmission of the next hole (RFC 6582).
    NewReno,
    /// ns-2's `Sack1`.
    SackNs2,
    /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937); without SACK, losses are
    /// detected by three duplicates and partial ACKs.
    RackTlp,
    /// Conservative SACK-based recovery (RFC 6675).
    Sack6675,
    /// ns-2's `Sack1` with explicit notifications of a link (ESACK, Yun 2009).
    Esack,
    /// The packet list of LHP.
    Lhp,
}

/// Reactions of a sender to notifications that a link has lost a segment, in addition to its
/// recovery scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notices {
    /// None, except those of the recovery scheme.
    #[default]
    Off,
    /// The segment is retransmitted (HACK, EWLN).
    Resend,
    /// Like [`Self::Resend`], and duplicate ACKs for the segment are not counted until it is
    /// acknowledged (HACK-fixed).
    Excuse,
    /// Like [`Self::Resend`], and the count of duplicates is cleared (TCP-ELN).
    Restart,
    /// The first marked duplicate ACK triggers the retransmission of its segment. Marked duplicates
    /// are not counted (Balakrishnan and Katz).
    Marks,
    /// Queues drop some segments first. The receiver marks its ACKs if the loss was random, and the
    /// sender uses the mark on the duplicate ACK that triggers fast retransmit (Casablanca).
    Casablanca,
    /// Like [`Self::Casablanca`], but the sender classifies losses by the segments lost (Ifrane).
    Ifrane,
}

choice! {
    /// Effect of an explicit retransmission start notification (ERSN) on the sender's timer.
    pub enum Ersn {
        /// No effect.
        Off = "off",
        /// When the timer expires for that segment, it is restarted without a timeout.
        Hold = "hold",
        /// The timer is restarted immediately.
        Restart = "restart",
    }
}

/// Selects a value from one for all profiles, or one each for `ns-2`, `rfc` and `linux`.
macro_rules! of_profile {
    ($profile:ident, $all:expr) => {
        $all
    };
    (ns2, $ns2:expr, $rfc:expr, $linux:expr) => {
        $ns2
    };
    (rfc, $ns2:expr, $rfc:expr, $linux:expr) => {
        $rfc
    };
    (linux, $ns2:expr, $rfc:expr, $linux:expr) => {
        $linux
    };
}

/// Declares the parameters: [`Config`], the defaults of each profile, and [`Overrides`].
macro_rules! parameters {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = [$($value:expr),+];)+) => {
        /// All parameters of one TCP, resolved: one field per key. Obtain one from
        /// [`presets::config`](super::presets::config).
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Config {
            $($(#[$doc])+ pub $name: $type,)+
        }

        /// Parameters set by the user, one per field of [`Config`]. All others are those of the
        /// profile and of the variant.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Overrides {
            $($(#[$doc])+ pub $name: Option<$type>,)+
        }

        impl Config {
            /// Returns the parameters of a profile, without a variant.
            pub(super) const fn of(profile: Profile) -> Self {
                match profile {
                    Profile::Ns2 => Config { $($name: of_profile!(ns2, $($value),+),)+ },
                    Profile::Rfc => Config { $($name: of_profile!(rfc, $($value),+),)+ },
                    Profile::Linux => Config { $($name: of_profile!(linux, $($value),+),)+ },
                }
            }

            /// Replaces the parameters that are set.
            pub(super) fn with(self, set: &Overrides) -> Self {
                Config { $($name: set.$name.unwrap_or(self.$name),)+ }
            }
        }
    };
}

parameters! {
    /// Profile where the RFCs and ns-2 differ.
    profile: Profile = [Profile::Ns2, Profile::Rfc, Profile::Linux];
    /// Recovery scheme.
    recovery: RecoveryKind = [RecoveryKind::Reno, RecoveryKind::Reno, RecoveryKind::RackTlp];
    /// Condition for declaring a segment lost; only with [`RecoveryKind::Sack6675`].
    loss_detection: LossDetection = [LossDetection::Duplicates];
    /// Congestion control algorithm.
    congestion_control: CongestionControlKind = [CongestionControlKind::Reno(RenoKeys {})];
    /// Whether HyStart++ (RFC 9406) ends slow start.
    hystart: bool = [false];
    /// Whether segments are paced.
    pacing: bool = [false];
    /// Detection of spurious reductions.
    undo: UndoKind = [UndoKind::Off, UndoKind::Off, UndoKind::All];
    /// Sender maximum segment size: payload bytes of a full segment.
    segment: Bytes = [Bytes::new(1000), Bytes::new(1460), Bytes::new(1460)];
    /// Bytes added to the payload of each data segment on the wire.
    header: Bytes = [Bytes::new(0), Bytes::new(40), Bytes::new(40)];
    /// Bytes of a segment without payload (ACK, SYN, FIN), excluding SACK blocks and timestamps.
    ack_size: Bytes = [Bytes::new(40)];
    /// Whether options (SACK, timestamps) are counted in full on the wire. ns-2 counts only 8 bytes
    /// per SACK block.
    charge_options: bool = [false, true, true];
    /// Receive window in segments, at least 1.
    receive_window: f64 = [20.0, 64.0, 2048.0];
    /// Delay of an ACK for in-order data; `None`: every segment is acknowledged immediately.
    delayed_ack: Option<Duration> = [None, Some(Duration::from_millis(200)), Some(Duration::from_millis(40))];
    /// Whether ACKs carry SACK blocks.
    sack: bool = [false, false, true];
    /// Whether the receiver reports duplicates (DSACK, RFC 2883).
    dsack: bool = [false, false, true];
    /// Whether explicit congestion notification is requested (RFC 3168).
    ecn: bool = [false];
    /// Whether a mark reduces the window by less than a loss (RFC 8511). Supported by Reno and by
    /// CUBIC of RFC 9438.
    abe: bool = [false];
    /// Whether the buffers of both hosts grow with the connection, as in Linux
    /// (`net.ipv4.tcp_rmem`, `tcp_wmem`). `receive_window` is then ignored.
    autotuning: bool = [false, false, true];
    /// Maximum number of bytes that are written and not acknowledged; `None`: unlimited, or under
    /// [`Self::autotuning`] a buffer that grows. At least one segment.
    send_buffer: Option<Bytes> = [None];
    /// Whether tail loss probes are sent (RFC 8985, section 7). Only with
    /// [`RecoveryKind::RackTlp`], like [`Self::frto`].
    tail_probes: bool = [true];
    /// Whether F-RTO uses the ACKs after a timeout to detect a spurious one (RFC 5682).
    frto: bool = [true];
    /// Minimum number of segments per GSO segment if as many are available, for a host with
    /// segmentation offload; 0: each segment is sent individually.
    pieces: u32 = [0, 0, 2];
    /// Whether GSO segments can have more than one segment (segmentation offload).
    offload: bool = [true];
    /// Interval between the timer ticks of the host, at which its timers expire. Timers with long
    /// delays expire at every eighth or a later tick. Zero: exact timers. Only with
    /// [`RecoveryKind::RackTlp`].
    timer_tick: Duration = [Duration::ZERO, Duration::ZERO, Duration::from_millis(4)];
    /// Number of retransmissions of the SYN before the timeout doubles
    /// (`net.ipv4.tcp_syn_linear_timeouts`).
    linear_syns: u32 = [0, 0, 4];
    /// Number of ACKs that are sent immediately at the start of a connection, regardless of
    /// `delayed_ack`.
    quick_acks: u32 = [0, 0, 16];
    /// ACK compression: ACKs of segments above a hole are held back briefly (Linux). Only with
    /// [`Self::quick_acks`] and [`Self::sack`].
    ack_compression: Option<AckCompression> = [None, None, Some(AckCompression { delay: Duration::from_millis(1), slack: Duration::from_nanos(100_000), most: 44, })];
    /// Meaning of the congestion marks that it echoes and receives.
    marks: Marks = [Marks::Classic];
    /// Timestamps option (RFC 7323).
    timestamps: bool = [false, false, true];
    /// Tick of the timestamp clock. It equals [`Self::clock_granularity`] except with congestion
    /// control algorithms that require arrival times.
    timestamp_tick: Duration = [Duration::from_millis(10), Duration::from_millis(1), Duration::from_millis(1)];
    /// Limited transmit (RFC 3042).
    limited_transmit: bool = [true];
    /// Whether a window that the application does not use remains unchanged (RFC 7661).
    window_validation: bool = [false];
    /// Whether an idle period longer than the RTO reduces the window to the initial one (RFC 5681,
    /// section 4.1).
    restart_after_idle: bool = [false, false, true];
    /// Maximum growth of Reno's window per ACK in slow start, in segments, if it grows by
    /// acknowledged bytes (RFC 3465).
    byte_counting: Option<u32> = [None];
    /// Whether a SYN opens the connection.
    handshake: bool = [true];
    /// Whether only the opener sends data, and the other endpoint answers the SYN with a plain ACK.
    one_way: bool = [true, false, false];
    /// Whether a FIN closes the connection.
    fin: bool = [false, true, true];
    /// Whether the last segment of a send call is padded to full size.
    pad_segments: bool = [true, false, false];
    /// Segmentation of written data.
    writes: WritePolicy = [WritePolicy::Messages, WritePolicy::Messages, WritePolicy::Stream { nagle: false }];
    /// Initial window in segments, at least 1.
    initial_window: f64 = [2.0, 10.0, 10.0];
    /// Number of duplicate ACKs that trigger fast retransmit.
    dupack_threshold: u32 = [3];
    /// Maximum number of consecutive ELNs attributed to noise; more of them mean a disconnection.
    /// `None`: no maximum. Only with [`RecoveryKind::Esack`], like [`Self::ersn`].
    eln_filter: Option<u32> = [Some(2)];
    /// Effect of an ERSN on the timer.
    ersn: Ersn = [Ersn::Hold];
    /// Reactions to explicit loss notifications.
    notices: Notices = [Notices::Off];
    /// RTO before the first sample.
    initial_rto: Duration = [Duration::from_secs(3), Duration::from_secs(1), Duration::from_secs(1)];
    /// Lower bound of the RTO, before backoff.
    min_rto: Duration = [Duration::from_secs(1), Duration::from_secs(1), Duration::from_millis(200)];
    /// Upper bound of the RTO, after backoff.
    max_rto: Duration = [Duration::from_secs(60), Duration::from_secs(60), Duration::from_secs(120)];
    /// Granularity G of the clock that times segments.
    clock_granularity: Duration = [Duration::from_millis(10), Duration::from_millis(1), Duration::from_millis(1)];
}

/// Bytes of the timestamp option of a segment: 10 and 2 of padding (RFC 7323).
pub(super) const TIMESTAMPS: u32 = 12;

impl Config {
    /// Returns `true` if the sender keeps a full record of each segment, which is required by loss
    /// detection that marks segments as lost.
    pub(super) fn keeps_records(&self) -> bool {
        self.recovery == RecoveryKind::RackTlp
    }

    /// Period of the host clocks: their phases differ by less.
    pub fn clock_period(&self) -> Duration {
        match self.timer_tick {
            Duration::ZERO => self.clock_granularity,
            tick => Wheel::period(tick),
        }
    }

    /// Returns `true` if blocks of an erasure code are sent.
    pub fn sends_blocks(&self) -> bool {
        matches!(self.congestion_control, CongestionControlKind::LtTcp(_))
    }

    /// Returns the first window that a host advertises, in bytes.
    pub fn first_window(&self) -> u64 {
        if self.autotuning {
            Memory::of_host(self.segment.get()).1
        } else {
            (self.receive_window * self.segment.get() as f64) as u64
        }
    }

    /// Returns `true` if data flows only from the opener to the acceptor. A dialogue then uses one
    /// connection per direction.
    pub fn is_simplex(&self) -> bool {
        self.one_way
    }

    /// Returns `true` if an acceptor only acknowledges, each segment immediately, so that it has no
    /// timers.
    pub fn only_acknowledges(&self) -> bool {
        self.one_way
            && self.delayed_ack.is_none()
            && self.quick_acks == 0
            && !self.announces_damage()
    }

    /// Returns `true` if a receiver notifies the sender of damaged segments with a readable header.
    pub fn announces_damage(&self) -> bool {
        let wants_news =
            matches!(self.notices, Notices::Resend | Notices::Excuse | Notices::Restart);
        wants_news || self.recovery == RecoveryKind::Lhp
    }

    /// Returns `true` if some segments are marked for queues to drop first.
    #[inline]
    pub fn marks_some_out(&self) -> bool {
        matches!(self.notices, Notices::Casablanca | Notices::Ifrane)
    }

    /// Returns `true` if the sender reacts to explicit loss notifications.
    pub fn knows_notices(&self) -> bool {
        let by_itself = matches!(self.recovery, RecoveryKind::Esack | RecoveryKind::Lhp);
        by_itself || self.notices != Notices::Off
    }

    /// Returns `true` if segments can have SACK blocks or timestamps, or units of an erasure code
    /// in their place.
    pub fn writes_options(&self) -> bool {
        self.sack || self.timestamps || self.sends_blocks()
    }

    /// Maximum number of SACK blocks per ACK: as many as fit into the option space (RFC 2018,
    /// section 4). ns-2's sink reports three.
    pub fn max_sack_blocks(&self) -> usize {
        match (self.sack, self.profile) {
            (false, _) => 0,
            // SMART: the segment that triggered the ACK.
            _ if self.recovery == RecoveryKind::Lhp => 1,
            (true, Profile::Rfc | Profile::Linux) if !self.timestamps => MAX_SACK_BLOCKS,
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
            // ns-2 counts the blocks, but neither the header of the option nor timestamps.
            return base + 8 * u32::from(sack_blocks);
        }
        let timestamps = if self.timestamps { TIMESTAMPS } else { 0 };
        // RFC 2018: 2 + 8 n and 2 of padding.
        let sack = if sack_blocks > 0 { 4 + 8 * u32::from(sack_blocks) } else { 0 };
        base + timestamps + sack
    }
}
