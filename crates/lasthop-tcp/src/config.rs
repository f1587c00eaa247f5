//! The parameters of a TCP connection, fixed at its construction.

use super::congestion_control::{CongestionControlKind, Marks, RenoKeys, Variant};
use super::receiver::Memory;
use super::wheel::Wheel;
use lasthop_base::packet::{MAX_SACK_BLOCKS, MAX_SACK_BLOCKS_WITH_TIMESTAMPS};
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::quantity::{DelayedAck, Window};
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
    Stream,
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

choice! {
    /// SACK loss recovery.
    pub enum SackRecovery {
        /// As in the TCP agents of ns-2: "pipe" is incremented and decremented.
        Ns2 = "ns-2",
        /// RFC 6675.
        Rfc6675 = "rfc6675",
        /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937).
        RackTlp = "rack-tlp",
        /// Like "ns-2", with explicit notifications of losses on a link by the agent "ll-elsn"
        /// (ESACK, Yun 2009).
        Esack = "esack",
    }
}

impl From<SackRecovery> for RecoveryKind {
    fn from(recovery: SackRecovery) -> Self {
        match recovery {
            SackRecovery::Ns2 => RecoveryKind::SackNs2,
            SackRecovery::Rfc6675 => RecoveryKind::Sack6675,
            SackRecovery::RackTlp => RecoveryKind::RackTlp,
            SackRecovery::Esack => RecoveryKind::Esack,
        }
    }
}

/// Tick of a host's timers, up to 100 ms.
const TICK: Limits = Limits::range(0, 100_000_000);
/// Delay and slack of compressed ACKs, up to 1 s.
const COMPRESSION: Limits = Limits::range(0, 1_000_000_000);

/// Converts the value of a key to that of its parameter. `segment` is the length of a full segment.
trait FromKey<K> {
    fn from_key(key: K, segment: Bytes) -> Self;
}

impl<T> FromKey<T> for T {
    fn from_key(key: T, _: Bytes) -> Self {
        key
    }
}

impl FromKey<Window> for f64 {
    fn from_key(window: Window, segment: Bytes) -> Self {
        match window {
            Window::Segments(segments) => f64::from(segments),
            Window::Bytes(bytes) => bytes.get() as f64 / segment.get() as f64,
        }
    }
}

impl FromKey<DelayedAck> for Option<Duration> {
    fn from_key(delay: DelayedAck, _: Bytes) -> Self {
        match delay {
            DelayedAck::Off => None,
            DelayedAck::After(delay) => Some(delay),
        }
    }
}

impl FromKey<Bytes> for Option<Bytes> {
    fn from_key(size: Bytes, _: Bytes) -> Self {
        Some(size)
    }
}

impl FromKey<u32> for Option<u32> {
    fn from_key(most: u32, _: Bytes) -> Self {
        (most > 0).then_some(most)
    }
}

/// Returns the type of the key of a parameter.
macro_rules! key_type {
    ($type:ty) => {
        $type
    };
    ($type:ty, $key:ty) => {
        $key
    };
}

/// Declares the parameters: those with a key, then the others. `name: Type as KeyType = [defaults]`
/// lists the default for all profiles, or for `ns-2`, `rfc` and `linux`. Defines [`TcpKeys`],
/// [`Config`], the defaults of each profile, and [`Overrides`].
macro_rules! parameters {
    (
        keys {
            $($(#[doc = $doc:literal])+ $(#[was = $was:literal])? $name:ident: $type:ty $(as $key:ty)?
                = [$($value:expr),+] $(, $limits:expr)?;)+
        }
        others {
            $($(#[doc = $about:literal])+ $other:ident: $other_type:ty = [$($other_value:expr),+];)+
        }
    ) => {
        table! {
            /// TCP.
            pub struct TcpKeys as "tcp" {
                /// TCP variant: a named combination of loss recovery and congestion control.
                variant: Variant;
                /// Conventions and defaults of all following keys. With profile "linux", hosts use
                /// RACK-TLP, and the variant selects the congestion control only: "newreno" and
                /// "sack" mean "reno". Variants with a different loss recovery ("tahoe", "lt-tcp" …)
                /// require profile "rfc" or "ns-2".
                profile: Profile = "linux";
                /// SACK loss recovery; requires a variant with selective acknowledgments.
                sack_recovery: Option<SackRecovery>;
                $($(#[doc = $doc])+ $(#[was = $was])? $name: Option<key_type!($type $(, $key)?)>
                    $(, $limits)?;)+
            }
        }

        /// All parameters of one TCP, resolved. Obtain one from
        /// [`presets::config`](super::presets::config) or [`TcpKeys::config`]. `None` means that a
        /// mechanism is off or a quantity unlimited; windows are numbers of segments.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $name: $type,)+
            $($(#[doc = $about])+ pub $other: $other_type,)+
        }

        /// Parameters set by the user, one per field of [`Config`]. All others are those of the
        /// profile and of the variant.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct Overrides {
            $($(#[doc = $doc])+ pub $name: Option<$type>,)+
            $($(#[doc = $about])+ pub $other: Option<$other_type>,)+
        }

        impl TcpKeys {
            /// Returns the parameters that the keys set, with segments of length `segment`.
            pub(super) fn overrides(&self, segment: Bytes) -> Overrides {
                Overrides {
                    recovery: self.sack_recovery.map(RecoveryKind::from),
                    $($name: self.$name.map(|key| FromKey::from_key(key, segment)),)+
                    ..Overrides::default()
                }
            }
        }

        impl Config {
            /// Returns the parameters of a profile, without a variant.
            pub(super) const fn of(profile: Profile) -> Self {
                match profile {
                    Profile::Ns2 => Config {
                        $($name: of_profile!(ns2, $($value),+),)+
                        $($other: of_profile!(ns2, $($other_value),+),)+
                    },
                    Profile::Rfc => Config {
                        $($name: of_profile!(rfc, $($value),+),)+
                        $($other: of_profile!(rfc, $($other_value),+),)+
                    },
                    Profile::Linux => Config {
                        $($name: of_profile!(linux, $($value),+),)+
                        $($other: of_profile!(linux, $($other_value),+),)+
                    },
                }
            }

            /// Replaces the parameters that are set.
            pub(super) fn with(self, set: &Overrides) -> Self {
                Config {
                    $($name: set.$name.unwrap_or(self.$name),)+
                    $($other: set.$other.unwrap_or(self.$other),)+
                }
            }
        }
    };
}

parameters! {
    keys {
        /// Payload of a full-sized segment.
        segment: Bytes = [Bytes::new(1000), Bytes::new(1460), Bytes::new(1460)], Limits::PACKET;
        /// TCP and IP headers added to each segment.
        header: Bytes = [Bytes::new(0), Bytes::new(40), Bytes::new(40)], Limits::HEADER;
        /// Size of a pure ACK, including headers.
        ack_size: Bytes = [Bytes::new(40)], Limits::PACKET;
        /// Receive buffer.
        receive_window: f64 as Window = [20.0, 64.0, 2048.0];
        /// Whether the buffers of both hosts grow with the connection. With profile "linux" only;
        /// default: on, unless `receive_window` is set.
        autotuning: bool = [false, false, true];
        /// Send buffer: maximum number of bytes that are written and not acknowledged. An
        /// application that finds it full waits. With profile "linux", the memory of a socket is
        /// twice as large (`SO_SNDBUF`), and by default, the buffer grows with the connection; with
        /// other profiles it is unlimited by default.
        send_buffer: Option<Bytes> as Bytes = [None], Limits::BUFFER;
        /// Whether hosts pass several segments to the link simultaneously; requires `autotuning`.
        /// Off in live links.
        segmentation_offload: bool = [true];
        /// Tick of the hosts' timers; 0 s: exact timers. With profile "linux" only, whose kernels
        /// have a tick of 4 ms (CONFIG_HZ=250) or 1 ms.
        timer_tick: Duration = [Duration::ZERO, Duration::ZERO, Duration::from_millis(4)], TICK;
        /// Maximum delay of an acknowledgment.
        delayed_ack: Option<Duration> as DelayedAck = [None, Some(Duration::from_millis(200)), Some(Duration::from_millis(40))];
        /// Loss detection, for loss recovery based on SACK as in RFC 6675.
        loss_detection: LossDetection = [LossDetection::Duplicates];
        /// Congestion control algorithm, instead of that of the variant.
        #[was = "law"]
        congestion_control: CongestionControlKind = [CongestionControlKind::Reno(RenoKeys {})];
        /// HyStart++ (RFC 9406): end slow start when the RTT grows; default: off.
        hystart: bool = [false];
        /// Pace segments instead of sending the whole window immediately; default: off, except with
        /// congestion control algorithms that determine transmission times.
        pacing: bool = [false];
        /// Detection and undoing of spurious window reductions.
        undo: UndoKind = [UndoKind::Off, UndoKind::Off, UndoKind::All];
        /// Selective acknowledgments (RFC 2018). With profile "linux" only; with other profiles,
        /// the variant decides.
        sack: bool = [false, false, true];
        /// Explicit congestion notification (RFC 3168): queues mark packets instead of dropping
        /// them; default: off. Not with profile "ns-2".
        ecn: bool = [false];
        /// Reduce the window less for a mark than for a loss (RFC 8511), with congestion control
        /// "reno" and "cubic".
        abe: bool = [false];
        /// Timestamps option (RFC 7323).
        timestamps: bool = [false, false, true];
        /// Whether a short segment waits while another short one is unacknowledged: Nagle's
        /// algorithm (RFC 9293, section 3.7.4) with Minshall's change. Unsent data of several send
        /// calls then shares segments, which it always does with profile "linux". Default: off, as
        /// after `TCP_NODELAY`. Not with profile "ns-2".
        nagle: bool = [false];
        /// Whether tail loss probes are sent (RFC 8985, section 7). With RACK-TLP only, where the
        /// default is on.
        tail_probes: bool = [true];
        /// Whether the ACKs after a timeout indicate that it was spurious (F-RTO, RFC 5682). With
        /// undo "all" only, where the default is on.
        frto: bool = [true];
        /// Whether the receiver reports duplicate segments (DSACK, RFC 2883). With SACK and profile
        /// "rfc" (default: off) or "linux" (`tcp_dsack`; default: on).
        dsack: bool = [false, false, true];
        /// Maximum delay of the ACKs for segments above a hole after the third, which one ACK
        /// replaces (`tcp_comp_sack_delay_ns`); the delay is also at most 1/20 of the RTT. With
        /// profile "linux" and SACK only, like the following two keys.
        sack_compression_delay: Duration = [Duration::ZERO, Duration::ZERO, Duration::from_millis(1)], COMPRESSION;
        /// Time added to the timer of delayed ACKs above a hole (`tcp_comp_sack_slack_ns`).
        sack_compression_slack: Duration = [Duration::ZERO, Duration::ZERO, Duration::from_nanos(100_000)], COMPRESSION;
        /// Maximum number of ACKs above a hole that one ACK replaces (`tcp_comp_sack_nr`); 0: each
        /// segment above a hole is acknowledged immediately.
        sack_compression_count: u32 = [0, 0, 44], Limits::range(0, 255);
        /// Minimum number of segments per GSO segment, if the window and the data permit as many
        /// (`tcp_min_tso_segs`); requires `autotuning` and `segmentation_offload`. Default: 2.
        min_tso_segments: u32 = [0, 0, 2], Limits::range(1, 65);
        /// Limited Transmit (RFC 3042).
        limited_transmit: bool = [true];
        /// Keep a window that the application does not use, without growth (RFC 7661). With profile
        /// "rfc" only; default: off.
        window_validation: bool = [false];
        /// Reset the window to the initial one after an idle period longer than the retransmission
        /// timeout (RFC 5681, section 4.1). With profile "linux", the window is halved for each
        /// timeout (`tcp_slow_start_after_idle`), and the default is on. Not with profile "ns-2".
        restart_after_idle: bool = [false, false, true];
        /// Increase the window by the number of acknowledged bytes (RFC 3465). The value is the
        /// maximum increase per acknowledgment in slow start, in segments (L of the RFC). With
        /// profile "rfc" and congestion control "reno" only; default: off.
        byte_counting: Option<u32> as u32 = [None], Limits::range(1, 65_535);
        /// Whether SYN segments open the connection.
        handshake: bool = [true];
        /// Whether FIN segments close the connection.
        fin: bool = [false, true, true];
        /// Initial congestion window.
        initial_window: f64 as Window = [2.0, 10.0, 10.0];
        /// Minimum retransmission timeout.
        min_rto: Duration = [Duration::from_secs(1), Duration::from_secs(1), Duration::from_millis(200)];
        /// Maximum retransmission timeout, including backoff.
        max_rto: Duration = [Duration::from_secs(60), Duration::from_secs(60), Duration::from_secs(120)], Limits::POSITIVE;
        /// Retransmission timeout before the first RTT sample.
        initial_rto: Duration = [Duration::from_secs(3), Duration::from_secs(1), Duration::from_secs(1)], Limits::POSITIVE;
        /// Granularity of the clock for RTT samples.
        clock_granularity: Duration = [Duration::from_millis(10), Duration::from_millis(1), Duration::from_millis(1)], Limits::POSITIVE;
        /// Number of timeouts of the SYN before the timeout doubles (`tcp_syn_linear_timeouts`); 0:
        /// it doubles immediately (RFC 6298). Requires `handshake`; not with profile "ns-2".
        syn_linear_timeouts: u32 = [0, 0, 4], Limits::range(0, 127);
        /// Number of duplicate ACKs that indicate a loss (DupThresh).
        dupack_threshold: u32 = [3], Limits::range(1, 255);
        /// Maximum number of consecutive explicit loss notifications (ELN) attributed to noise.
        /// More of them indicate a disconnected receiver, and only every second one triggers a
        /// retransmission. 0: unlimited; with "esack" only.
        eln_filter: Option<u32> as u32 = [Some(2)], Limits::range(0, 1_000_000);
        /// Reaction to a notification that a link retransmits a segment (ERSN); with "esack" only.
        ersn: Ersn = [Ersn::Hold];
        /// Whether the last segment of a transfer is padded to full size, as in simulators that
        /// count packets.
        pad_segments: bool = [true, false, false];
    }
    others {
        /// Profile where the RFCs and ns-2 differ.
        profile: Profile = [Profile::Ns2, Profile::Rfc, Profile::Linux];
        /// Recovery scheme.
        recovery: RecoveryKind = [RecoveryKind::Reno, RecoveryKind::Reno, RecoveryKind::RackTlp];
        /// Whether options (SACK, timestamps) are counted in full on the wire. ns-2 counts only 8 bytes
        /// per SACK block.
        charge_options: bool = [false, true, true];
        /// Number of ACKs that are sent immediately at the start of a connection, regardless of
        /// `delayed_ack`.
        quick_acks: u32 = [0, 0, 16];
        /// Meaning of the congestion marks that it echoes and receives.
        marks: Marks = [Marks::Classic];
        /// Tick of the timestamp clock. It equals [`Self::clock_granularity`] except with congestion
        /// control algorithms that require arrival times.
        timestamp_tick: Duration = [Duration::from_millis(10), Duration::from_millis(1), Duration::from_millis(1)];
        /// Whether only the opener sends data, and the other endpoint answers the SYN with a plain ACK.
        one_way: bool = [true, false, false];
        /// Segmentation of written data.
        writes: WritePolicy = [WritePolicy::Messages, WritePolicy::Messages, WritePolicy::Stream];
        /// Reactions to explicit loss notifications.
        notices: Notices = [Notices::Off];
    }
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
