//! The keys of TCP, and the parameters derived from them. Only this module applies the defaults of
//! profiles, for both the checks and the simulator.

use super::rules;
use crate::transport::family::{Carries, Load, PathShare, Sizes, TransportKeys, TransportSite};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::schema::numbers::seconds;
use lasthop_base::schema::quantity::{DelayedAck, Window};
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::config::{Ersn, LossDetection, RecoveryKind, UndoKind};
use lasthop_tcp::congestion_control::CongestionControlKind;
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};
use serde_json::{Value, json};

/// Tick of a host's timers, up to 100 ms.
const TICK: Limits = Limits::range(0, 100_000_000);

table! {
    /// TCP.
    pub struct TcpKeys as "tcp" {
        /// TCP variant: a named combination of loss recovery and congestion control.
        variant: Variant;
        /// Conventions and defaults of all following keys. With profile "linux", hosts use
        /// RACK-TLP, and the variant selects the congestion control only: "newreno" and "sack" mean
        /// "reno". Variants with a different loss recovery ("tahoe", "lt-tcp" …) require profile
        /// "rfc" or "ns-2".
        profile: Profile = "linux";
        /// Payload of a full-sized segment.
        segment: Option<Bytes>, Limits::PACKET;
        /// TCP and IP headers added to each segment.
        header: Option<Bytes>, Limits::HEADER;
        /// Size of a pure ACK, including headers.
        ack_size: Option<Bytes>, Limits::PACKET;
        /// Receive buffer.
        receive_window: Option<Window>;
        /// Whether the buffers of both hosts grow with the connection. With profile "linux" only;
        /// default: on, unless `receive_window` is set.
        autotuning: Option<bool>;
        /// Send buffer: maximum number of bytes that are written and not acknowledged. An
        /// application that finds it full waits. With profile "linux", the memory of a socket is
        /// twice as large (`SO_SNDBUF`), and by default, the buffer grows with the connection; with
        /// other profiles it is unlimited by default.
        send_buffer: Option<Bytes>, Limits::BUFFER;
        /// Whether hosts pass several segments to the link simultaneously; requires `autotuning`.
        /// Off in live links.
        segmentation_offload: Option<bool>;
        /// Tick of the hosts' timers; 0 s: exact timers. With profile "linux" only, whose kernels
        /// have a tick of 4 ms (CONFIG_HZ=250) or 1 ms.
        timer_tick: Option<Duration>, TICK;
        /// Maximum delay of an acknowledgment.
        delayed_ack: Option<DelayedAck>;
        /// SACK loss recovery; requires a variant with selective acknowledgments.
        sack_recovery: Option<SackRecovery>;
        /// Loss detection, for loss recovery based on SACK as in RFC 6675.
        loss_detection: Option<LossDetection>;
        /// Congestion control algorithm, instead of that of the variant.
        #[was = "law"]
        congestion_control: Option<CongestionControlKind>;
        /// HyStart++ (RFC 9406): end slow start when the RTT grows; default: off.
        hystart: Option<bool>;
        /// Pace segments instead of sending the whole window immediately; default: off, except with
        /// congestion control algorithms that determine transmission times.
        pacing: Option<bool>;
        /// Detection and undoing of spurious window reductions.
        undo: Option<UndoKind>;
        /// Selective acknowledgments (RFC 2018). With profile "linux" only; with other profiles,
        /// the variant decides.
        sack: Option<bool>;
        /// Explicit congestion notification (RFC 3168): queues mark packets instead of dropping
        /// them; default: off. Not with profile "ns-2".
        ecn: Option<bool>;
        /// Reduce the window less for a mark than for a loss (RFC 8511), with congestion control
        /// "reno" and "cubic".
        abe: Option<bool>;
        /// Timestamps option (RFC 7323).
        timestamps: Option<bool>;
        /// Limited Transmit (RFC 3042).
        limited_transmit: Option<bool>;
        /// Keep a window that the application does not use, without growth (RFC 7661). With profile
        /// "rfc" only; default: off.
        window_validation: Option<bool>;
        /// Reset the window to the initial one after an idle period longer than the retransmission
        /// timeout (RFC 5681, section 4.1). With profile "linux", the window is halved for each
        /// timeout (`tcp_slow_start_after_idle`), and the default is on. Not with profile "ns-2".
        restart_after_idle: Option<bool>;
        /// Increase the window by the number of acknowledged bytes (RFC 3465). The value is the
        /// maximum increase per acknowledgment in slow start, in segments (L of the RFC). With
        /// profile "rfc" and congestion control "reno" only; default: off.
        byte_counting: Option<u32>, Limits::range(1, 65_535);
        /// Whether SYN segments open the connection.
        handshake: Option<bool>;
        /// Whether FIN segments close the connection.
        fin: Option<bool>;
        /// Initial congestion window.
        initial_window: Option<Window>;
        /// Minimum retransmission timeout.
        min_rto: Option<Duration>;
        /// Maximum retransmission timeout, including backoff.
        max_rto: Option<Duration>, Limits::POSITIVE;
        /// Retransmission timeout before the first RTT sample.
        initial_rto: Option<Duration>, Limits::POSITIVE;
        /// Granularity of the clock for RTT samples.
        clock_granularity: Option<Duration>, Limits::POSITIVE;
        /// Number of duplicate ACKs that indicate a loss (DupThresh).
        dupack_threshold: Option<u32>, Limits::range(1, 255);
        /// Maximum number of consecutive explicit loss notifications (ELN) attributed to noise.
        /// More of them indicate a disconnected receiver, and only every second one triggers a
        /// retransmission. 0: unlimited; with "esack" only.
        eln_filter: Option<u32>, Limits::range(0, 1_000_000);
        /// Reaction to a notification that a link retransmits a segment (ERSN); with "esack" only.
        ersn: Option<Ersn>;
        /// Whether the last segment of a transfer is padded to full size, as in simulators that
        /// count packets.
        pad_segments: Option<bool>;
    }
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

impl TcpKeys {
    /// Returns all parameters: keys of the scenario, completed by those of its profile.
    pub fn config(&self) -> Config {
        let (variant, profile) = (self.variant, self.profile);
        let recovery = self.sack_recovery.map(|recovery| match recovery {
            SackRecovery::Ns2 => RecoveryKind::SackNs2,
            SackRecovery::Rfc6675 => RecoveryKind::Sack6675,
            SackRecovery::RackTlp => RecoveryKind::RackTlp,
            SackRecovery::Esack => RecoveryKind::Esack,
        });
        let mut overrides = Overrides {
            recovery,
            loss_detection: self.loss_detection,
            congestion_control: self.congestion_control,
            hystart: self.hystart,
            pacing: self.pacing,
            undo: self.undo,
            segment: self.segment,
            header: self.header,
            ack_size: self.ack_size,
            delayed_ack: self.delayed_ack.map(|delay| match delay {
                DelayedAck::Off => None,
                DelayedAck::After(delay) => Some(delay),
            }),
            autotuning: self.autotuning,
            send_buffer: self.send_buffer.map(Some),
            offload: self.segmentation_offload,
            timer_tick: self.timer_tick,
            sack: self.sack,
            ecn: self.ecn,
            abe: self.abe,
            timestamps: self.timestamps,
            limited_transmit: self.limited_transmit,
            window_validation: self.window_validation,
            restart_after_idle: self.restart_after_idle,
            byte_counting: self.byte_counting.map(Some),
            handshake: self.handshake,
            fin: self.fin,
            pad_segments: self.pad_segments,
            dupack_threshold: self.dupack_threshold,
            eln_filter: self.eln_filter.map(|most| (most > 0).then_some(most)),
            ersn: self.ersn,
            initial_rto: self.initial_rto,
            min_rto: self.min_rto,
            max_rto: self.max_rto,
            clock_granularity: self.clock_granularity,
            ..Overrides::default()
        };
        // Windows in bytes are converted to segments of the effective size.
        let segment = presets::config(variant, profile, &overrides).segment;
        let segments = |window: Window| match window {
            Window::Segments(segments) => f64::from(segments),
            Window::Bytes(bytes) => bytes.get() as f64 / segment.get() as f64,
        };
        overrides.receive_window = self.receive_window.map(segments);
        overrides.initial_window = self.initial_window.map(segments);
        presets::config(variant, profile, &overrides)
    }

    /// Returns the text of the program that contains its congestion control, if that is not part of
    /// the engine.
    pub(crate) fn program(&self) -> Option<&'static str> {
        match self.congestion_control {
            Some(CongestionControlKind::Python(keys)) => Some(keys.class.source()),
            _ => None,
        }
    }

    /// Like [`Self::config`], on a path with this fair share and round-trip time. The congestion
    /// control with the ideal bandwidth estimate uses them unless the scenario sets these values.
    pub(crate) fn config_on(&self, path: PathShare<'_>) -> Config {
        let mut config = self.config();
        if let CongestionControlKind::IdealBandwidth(mut keys) = config.congestion_control {
            let wire = |payload| Bytes::new(config.wire_bytes(payload, 0).into());
            let data = wire(config.segment.get() as u32);
            let sizes = Sizes { payload: config.segment, data, ack: wire(0) };
            if let Some((bandwidth, round_trip)) = path(sizes) {
                keys.bandwidth.get_or_insert(bandwidth);
                keys.rtt.get_or_insert(round_trip);
            }
            config.congestion_control = CongestionControlKind::IdealBandwidth(keys);
        }
        config
    }
}

/// Sizes of the largest packets of each type that a TCP sends, including headers and options.
pub(super) struct Packets {
    /// A full-sized segment.
    pub data: Bytes,
    /// A segment that opens or closes a connection.
    pub control: Bytes,
    /// An acknowledgment.
    pub ack: Bytes,
}

impl Packets {
    pub fn new(config: &Config) -> Self {
        let blocks = config.max_sack_blocks() as u8;
        let bytes = |payload, blocks| Bytes::new(config.wire_bytes(payload, blocks).into());
        let data = bytes(config.segment.get() as u32, 0);
        Packets { data, control: bytes(0, 0), ack: bytes(0, blocks) }
    }
}

impl TransportKeys for TcpKeys {
    type Machine = super::Machine;

    const CARRIES: &'static [Carries] = &[Carries::Streams];
    const METRICS: &'static [&'static [Metric]] =
        &[super::TcpMetrics::METRICS, super::NoticeMetrics::METRICS];

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        rules::check(self, path)
    }

    fn largest_packets(&self, load: Load) -> [Bytes; 2] {
        let Packets { data, control, ack } = Packets::new(&self.config());
        // Requests of a browser are data, too.
        if load.sends_back { [data.max(ack); 2] } else { [data.max(control), ack] }
    }

    fn limits(&self, load: Load) -> Vec<(&'static str, Bytes, bool)> {
        let Packets { data, control, ack } = Packets::new(&self.config());
        let key = match (self.segment, self.header) {
            (None, Some(_)) => "transport.header",
            _ => "transport.segment",
        };
        let mut limits = vec![(key, data, false)];
        let mut opening = control;
        if load.sends_back {
            // Requests are data, too, and replies are acknowledged.
            limits.push((key, data, true));
            opening = ack;
        }
        limits.push(("transport.ack_size", opening, false));
        limits.push(("transport.ack_size", ack, true));
        limits
    }

    fn writes_options(&self) -> bool {
        self.config().writes_options()
    }

    fn resolved(&self) -> Value {
        let config = self.config();
        json!({
            "segment": config.segment.get(),
            "receive_window": config.receive_window,
            "autotuning": config.autotuning,
            "send_buffer": config.send_buffer.map(Bytes::get),
            "initial_window": config.initial_window,
            "delayed_ack": config.delayed_ack.map(seconds),
            "min_rto": seconds(config.min_rto),
            "clock_granularity": seconds(config.clock_granularity),
            "handshake": config.handshake,
            "pad_segments": config.pad_segments,
            "ack": config.wire_bytes(0, 0),
            "variant": self.variant.word(),
            "profile": self.profile.word(),
        })
    }

    fn build(&self, site: TransportSite<'_>) -> super::Machine {
        let mut config = self.config_on(site.path);
        if let CongestionControlKind::Python(keys) = &mut config.congestion_control {
            keys.class = keys.class.seeded(site.clock.clone().bits());
        }
        super::Tcp::new(&config, site.clock)
    }
}
