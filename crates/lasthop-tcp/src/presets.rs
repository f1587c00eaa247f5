//! Named TCPs and profiles, as data.

use super::config::{
    Config, Conventions, Ersn, LossDetection, Notices, RecoveryKind, TIMESTAMPS, UndoKind,
    WritePolicy,
};
use super::congestion_control::{CongestionControlKind, Marks, Parts, RenoKeys};
use super::receiver::AckCompression;
use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Bytes, Duration};

pub use super::congestion_control::Variant;

impl Variant {
    /// Returns `true` if the variant uses selective acknowledgments.
    pub fn has_sack(self) -> bool {
        let [rfc, _] = self.parts().recovery;
        matches!(
            rfc,
            RecoveryKind::Sack6675
                | RecoveryKind::SackNs2
                | RecoveryKind::Esack
                | RecoveryKind::Lhp
        )
    }

    /// Returns `true` if a Linux host supports all components of the variant, apart from its
    /// congestion control algorithm.
    pub fn is_of_hosts(self) -> bool {
        let Parts { recovery: [rfc, _], detection, notices, .. } = self.parts();
        let is_own = matches!(rfc, RecoveryKind::Tahoe | RecoveryKind::Lhp);
        !is_own && detection == LossDetection::Duplicates && notices == Notices::Off
    }
}

choice! {
    /// Conventions that TCP defaults follow.
    pub enum Profile {
        /// The current standards.
        Rfc = "rfc",
        /// The simulator ns-2, as papers of its time used it.
        Ns2 = "ns-2",
        /// A Linux 6 kernel with its default settings.
        Linux = "linux",
    }
}

/// Values set by the user, one field per key; all others are those of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overrides {
    /// See [`Config::recovery`]; only if [`Variant::has_sack`].
    pub sack_recovery: Option<RecoveryKind>,
    /// See [`Config::loss_detection`].
    pub loss_detection: Option<LossDetection>,
    /// See [`Config::congestion_control`].
    pub congestion_control: Option<CongestionControlKind>,
    /// See [`Config::hystart`].
    pub hystart: Option<bool>,
    /// See [`Config::pacing`].
    pub pacing: Option<bool>,
    /// See [`Config::undo`]; needs timestamps.
    pub undo: Option<UndoKind>,
    /// See [`Config::segment`].
    pub segment: Option<Bytes>,
    /// See [`Config::header`].
    pub header: Option<Bytes>,
    /// See [`Config::ack_size`].
    pub ack_size: Option<Bytes>,
    /// See [`Config::receive_window`], in segments.
    pub receive_window: Option<f64>,
    /// See [`Config::autotuning`]; only under [`Profile::Linux`], and not with `receive_window`.
    pub autotuning: Option<bool>,
    /// See [`Config::send_buffer`].
    pub send_buffer: Option<Bytes>,
    /// See [`Config::offload`]; only with [`Config::autotuning`].
    pub segmentation_offload: Option<bool>,
    /// See [`Config::timer_tick`]; only under [`Profile::Linux`].
    pub timer_tick: Option<Duration>,
    /// See [`Config::delayed_ack`].
    pub delayed_ack: Option<Option<Duration>>,
    /// See [`Config::sack`]; only under [`Profile::Linux`].
    pub sack: Option<bool>,
    /// See [`Config::ecn`].
    pub ecn: Option<bool>,
    /// See [`Config::abe`].
    pub abe: Option<bool>,
    /// See [`Config::timestamps`].
    pub timestamps: Option<bool>,
    /// See [`Config::limited_transmit`].
    pub limited_transmit: Option<bool>,
    /// See [`Config::window_validation`].
    pub window_validation: Option<bool>,
    /// See [`Config::restart_after_idle`].
    pub restart_after_idle: Option<bool>,
    /// See [`Config::byte_counting`].
    pub byte_counting: Option<u32>,
    /// See [`Config::handshake`].
    pub handshake: Option<bool>,
    /// See [`Config::fin`].
    pub fin: Option<bool>,
    /// See [`Config::pad_segments`].
    pub pad_segments: Option<bool>,
    /// See [`Config::writes`].
    pub writes: Option<WritePolicy>,
    /// See [`Config::initial_window`], in segments.
    pub initial_window: Option<f64>,
    /// See [`Config::dupack_threshold`].
    pub dupack_threshold: Option<u32>,
    /// See [`Config::eln_filter`].
    pub eln_filter: Option<Option<u32>>,
    /// See [`Config::ersn`].
    pub ersn: Option<Ersn>,
    /// See [`Config::initial_rto`].
    pub initial_rto: Option<Duration>,
    /// See [`Config::min_rto`].
    pub min_rto: Option<Duration>,
    /// See [`Config::max_rto`].
    pub max_rto: Option<Duration>,
    /// See [`Config::clock_granularity`].
    pub clock_granularity: Option<Duration>,
}

const NS2: Config = Config {
    conventions: Conventions::Ns2,
    recovery: RecoveryKind::Reno,
    loss_detection: LossDetection::Duplicates,
    congestion_control: CongestionControlKind::Reno(RenoKeys {}),
    hystart: false,
    pacing: false,
    undo: UndoKind::Off,
    segment: Bytes::new(1000),
    header: Bytes::new(0),
    ack_size: Bytes::new(40),
    charge_options: false,
    receive_window: 20.0,
    delayed_ack: None,
    sack: false,
    dsack: false,
    ecn: false,
    abe: false,
    autotuning: false,
    send_buffer: None,
    pieces: 0,
    offload: true,
    timer_tick: Duration::ZERO,
    linear_syns: 0,
    tail_probes: true,
    frto: true,
    quick_acks: 0,
    ack_compression: None,
    marks: Marks::Classic,
    timestamps: false,
    limited_transmit: true,
    window_validation: false,
    restart_after_idle: false,
    byte_counting: None,
    handshake: true,
    one_way: true,
    fin: false,
    pad_segments: true,
    writes: WritePolicy::Messages,
    initial_window: 2.0,
    dupack_threshold: 3,
    eln_filter: Some(2),
    ersn: Ersn::Hold,
    notices: Notices::Off,
    initial_rto: Duration::from_secs(3),
    min_rto: Duration::from_secs(1),
    max_rto: Duration::from_secs(60),
    clock_granularity: Duration::from_millis(10),
    timestamp_tick: Duration::from_millis(10),
};

const RFC: Config = Config {
    conventions: Conventions::Rfc,
    recovery: RecoveryKind::Reno,
    loss_detection: LossDetection::Duplicates,
    congestion_control: CongestionControlKind::Reno(RenoKeys {}),
    hystart: false,
    pacing: false,
    undo: UndoKind::Off,
    segment: Bytes::new(1460),
    header: Bytes::new(40),
    ack_size: Bytes::new(40),
    charge_options: true,
    receive_window: 64.0,
    delayed_ack: Some(Duration::from_millis(200)),
    sack: false,
    dsack: false,
    ecn: false,
    abe: false,
    autotuning: false,
    send_buffer: None,
    pieces: 0,
    offload: true,
    timer_tick: Duration::ZERO,
    linear_syns: 0,
    tail_probes: true,
    frto: true,
    quick_acks: 0,
    ack_compression: None,
    marks: Marks::Classic,
    timestamps: false,
    limited_transmit: true,
    window_validation: false,
    restart_after_idle: false,
    byte_counting: None,
    handshake: true,
    one_way: false,
    fin: true,
    pad_segments: false,
    writes: WritePolicy::Messages,
    initial_window: 10.0,
    dupack_threshold: 3,
    eln_filter: Some(2),
    ersn: Ersn::Hold,
    notices: Notices::Off,
    initial_rto: Duration::from_secs(1),
    min_rto: Duration::from_secs(1),
    max_rto: Duration::from_secs(60),
    clock_granularity: Duration::from_millis(1),
    timestamp_tick: Duration::from_millis(1),
};

/// `net/ipv4` of Linux 6 and its `sysctl` defaults.
const LINUX: Config = Config {
    conventions: Conventions::Linux,
    recovery: RecoveryKind::RackTlp,
    undo: UndoKind::All,
    receive_window: 2048.0,
    delayed_ack: Some(Duration::from_millis(40)),
    sack: true,
    dsack: true,
    autotuning: true,
    pieces: 2,
    // CONFIG_HZ=250.
    timer_tick: Duration::from_millis(4),
    linear_syns: 4,
    quick_acks: 16,
    ack_compression: Some(AckCompression {
        delay: Duration::from_millis(1),
        slack: Duration::from_nanos(100_000),
        most: 44,
    }),
    timestamps: true,
    // The simulated applications set TCP_NODELAY, as browsers and servers do.
    writes: WritePolicy::Stream { nagle: false },
    min_rto: Duration::from_millis(200),
    max_rto: Duration::from_secs(120),
    restart_after_idle: true,
    ..RFC
};

/// Tick of the timestamps from which algorithms derive arrival times. They replace the separate
/// header fields of the algorithms' papers.
const FINE_TICK: Duration = Duration::from_nanos(10_000);

/// Returns the parameters of `variant` under `profile`, with the user's overrides.
///
/// ```
/// use lasthop_tcp::{Overrides, Profile, Variant, presets};
///
/// let newreno = presets::config(Variant::NewReno, Profile::Rfc, &Overrides::default());
/// assert_eq!(newreno.dupack_threshold, 3);
/// let set = Overrides { dupack_threshold: Some(5), ..Overrides::default() };
/// assert_eq!(presets::config(Variant::NewReno, Profile::Rfc, &set).dupack_threshold, 5);
/// ```
pub fn config(variant: Variant, profile: Profile, set: &Overrides) -> Config {
    let base = match profile {
        Profile::Ns2 => NS2,
        Profile::Rfc => RFC,
        Profile::Linux => LINUX,
    };
    let Parts { recovery: [rfc, ns2], detection, notices, congestion_control: algorithm } =
        variant.parts();
    let algorithm = set.congestion_control.unwrap_or(algorithm);
    let (recovery, sack) = match profile {
        Profile::Rfc => (rfc, variant.has_sack()),
        Profile::Ns2 => (ns2, variant.has_sack()),
        // In Linux, SACK is an option of the host, independent of the algorithm.
        Profile::Linux => (base.recovery, set.sack.unwrap_or(base.sack)),
    };
    let sends_blocks = matches!(algorithm, CongestionControlKind::LtTcp(_));
    let hystart = profile == Profile::Linux && matches!(algorithm, CongestionControlKind::Cubic(_));
    // Any other recovery scheme ignores explicit loss notifications.
    let own = if profile == Profile::Ns2 { ns2 } else { rfc };
    let recovery = set.sack_recovery.filter(|_| sack).unwrap_or(recovery);
    let notices = if recovery == own { notices } else { Notices::Off };
    let timestamps = set.timestamps.unwrap_or(base.timestamps || algorithm.reads_arrivals());
    // RFC 6691: options of every segment reduce its payload.
    let options = if timestamps && base.charge_options { TIMESTAMPS } else { 0 };
    let segment = set.segment.unwrap_or(Bytes::new(base.segment.get() - u64::from(options)));
    let granularity = set.clock_granularity.unwrap_or(base.clock_granularity);
    // RFC 6928: min(10 MSS, max(2 MSS, 14600 B)).
    let initial_window = match profile {
        Profile::Ns2 => base.initial_window,
        Profile::Linux => base.initial_window,
        Profile::Rfc => (14_600.0 / segment.get() as f64).floor().clamp(2.0, base.initial_window),
    };
    let autotuning = base.autotuning
        && !sends_blocks
        && set.receive_window.is_none()
        && set.autotuning.unwrap_or(true);
    Config {
        recovery,
        loss_detection: set.loss_detection.unwrap_or(detection),
        congestion_control: algorithm,
        hystart: set.hystart.unwrap_or(hystart),
        pacing: set.pacing.unwrap_or(base.pacing || algorithm.paces()),
        undo: set.undo.unwrap_or(if recovery == RecoveryKind::RackTlp {
            UndoKind::All
        } else {
            base.undo
        }),
        segment,
        header: set.header.unwrap_or(base.header),
        ack_size: set.ack_size.unwrap_or(base.ack_size),
        receive_window: set.receive_window.unwrap_or(base.receive_window),
        autotuning,
        send_buffer: set.send_buffer,
        pieces: if autotuning { base.pieces } else { 0 },
        offload: set.segmentation_offload.unwrap_or(base.offload),
        timer_tick: set.timer_tick.unwrap_or(base.timer_tick),
        delayed_ack: set.delayed_ack.unwrap_or(base.delayed_ack.filter(|_| !sends_blocks)),
        sack,
        dsack: base.dsack && sack,
        ack_compression: base.ack_compression.filter(|_| sack),
        ecn: set.ecn.unwrap_or(base.ecn || sends_blocks || algorithm.marks() != Marks::Classic),
        marks: algorithm.marks(),
        abe: set.abe.unwrap_or(base.abe),
        timestamps,
        timestamp_tick: if algorithm.reads_arrivals() { FINE_TICK } else { granularity },
        limited_transmit: set.limited_transmit.unwrap_or(base.limited_transmit),
        window_validation: set.window_validation.unwrap_or(base.window_validation),
        // Linux does not reduce the window of a paced algorithm.
        restart_after_idle: set
            .restart_after_idle
            .unwrap_or(base.restart_after_idle && !algorithm.paces()),
        byte_counting: set.byte_counting.or(base.byte_counting),
        handshake: set.handshake.unwrap_or(base.handshake),
        fin: set.fin.unwrap_or(base.fin && !sends_blocks),
        pad_segments: set.pad_segments.unwrap_or(base.pad_segments),
        writes: set.writes.unwrap_or(base.writes),
        initial_window: set.initial_window.unwrap_or(initial_window),
        dupack_threshold: set.dupack_threshold.unwrap_or(base.dupack_threshold),
        eln_filter: set.eln_filter.unwrap_or(base.eln_filter),
        ersn: set.ersn.unwrap_or(base.ersn),
        notices,
        initial_rto: set.initial_rto.unwrap_or(base.initial_rto),
        min_rto: set.min_rto.unwrap_or(base.min_rto),
        max_rto: set.max_rto.unwrap_or(base.max_rto),
        clock_granularity: granularity,
        ..base
    }
}
