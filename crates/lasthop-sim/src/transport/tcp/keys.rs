//! The keys of TCP, and its parameters: the one place where profiles fill in what a scenario leaves open. The checks and the
//! simulator both ask here.

use super::rules;
use crate::transport::family::{Carries, Load, PathShare, Sizes, TransportKeys, TransportSite};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::schema::numbers::seconds;
use lasthop_base::schema::quantity::{DelayedAck, Window};
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::config::{Ersn, LossDetection, RecoveryKind, UndoKind};
use lasthop_tcp::law::LawKind;
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};
use serde_json::{Value, json};

/// The tick of a host, up to 100 ms.
const TICK: Limits = Limits::range(0, 100_000_000);

table! {
    /// TCP.
    pub struct TcpKeys as "tcp" {
        /// A named TCP: how losses are recovered and how the window moves.
        variant: Variant;
        /// Conventions and defaults of every key below. A host with profile "linux" recovers losses by RACK-TLP, whatever
        /// its variant, which names the congestion control only: "newreno" and "sack" mean "reno". Variants that name
        /// another loss recovery ("tahoe", "lt-tcp" …) need profile "rfc" or "ns-2".
        profile: Profile = "linux";
        /// Payload of a full segment.
        segment: Option<Bytes>, Limits::PACKET;
        /// TCP and IP headers added to each segment.
        header: Option<Bytes>, Limits::HEADER;
        /// Size of a pure acknowledgment, headers included.
        ack_size: Option<Bytes>, Limits::PACKET;
        /// The receiver's buffer.
        receive_window: Option<Window>;
        /// Do the buffers of both hosts grow with the connection; with profile "linux" only, where they do unless
        /// `receive_window` is given.
        autotuning: Option<bool>;
        /// Do hosts hand several segments on at once; only where `autotuning` is on. Live links have hosts that do not.
        segmentation_offload: Option<bool>;
        /// Time between two ticks of the hosts, at which their timers fire; 0 s: timers are exact. With profile "linux"
        /// only, whose kernels tick every 4 ms (CONFIG_HZ=250) or 1 ms.
        timer_tick: Option<Duration>, TICK;
        /// Longest time an acknowledgment is held back.
        delayed_ack: Option<DelayedAck>;
        /// Which SACK recovery; with variants that use selective acknowledgments only.
        sack_recovery: Option<SackRecovery>;
        /// What tells that a segment is lost, where recovery goes by SACK blocks as RFC 6675 says.
        loss_detection: Option<LossDetection>;
        /// How the congestion window moves, in place of the law of the variant.
        law: Option<LawKind>;
        /// HyStart++ (RFC 9406): leave slow start when the round-trip time grows; off by default.
        hystart: Option<bool>;
        /// Keep segments apart in time instead of sending what a window allows at once; off by default,
        /// except with laws that say when segments leave.
        pacing: Option<bool>;
        /// Whether reductions that answered no loss are found out and taken back.
        undo: Option<UndoKind>;
        /// Selective acknowledgments (RFC 2018); with profile "linux" only, elsewhere the variant says.
        sack: Option<bool>;
        /// Explicit congestion notification (RFC 3168): queues that mark need not drop; off by default, not with
        /// profile "ns-2".
        ecn: Option<bool>;
        /// Reduce the window by less for a mark than for a loss (RFC 8511), with the laws "reno" and "cubic".
        abe: Option<bool>;
        /// Timestamps option (RFC 7323).
        timestamps: Option<bool>;
        /// Limited Transmit (RFC 3042).
        limited_transmit: Option<bool>;
        /// Keep a window that the application does not use, without letting it grow (RFC 7661); with profile "rfc" only,
        /// off by default.
        window_validation: Option<bool>;
        /// Bring the window back to the initial one after a pause longer than the retransmission timeout (RFC 5681,
        /// section 4.1); with profile "linux", where it is on by default, by halves for each timeout
        /// (`tcp_slow_start_after_idle`). Not with profile "ns-2".
        restart_after_idle: Option<bool>;
        /// Let the window grow by the bytes that an acknowledgment acknowledges (RFC 3465), in slow start by so many
        /// segments at most (the RFC's L); with profile "rfc" and law "reno" only, off by default.
        byte_counting: Option<u32>, Limits::range(1, 65_535);
        /// Whether SYN segments open the connection.
        handshake: Option<bool>;
        /// Whether FIN segments close the connection.
        fin: Option<bool>;
        /// Initial congestion window.
        initial_window: Option<Window>;
        /// Least retransmission timeout.
        min_rto: Option<Duration>;
        /// Greatest retransmission timeout, back-off included.
        max_rto: Option<Duration>, Limits::POSITIVE;
        /// Retransmission timeout before the first measurement.
        initial_rto: Option<Duration>, Limits::POSITIVE;
        /// Tick of the clock that measures round trips.
        clock_granularity: Option<Duration>, Limits::POSITIVE;
        /// Duplicate acknowledgments that mean a loss.
        dupack_threshold: Option<u32>, Limits::range(1, 255);
        /// Consecutive explicit losses (ELN) that noise can cause at most; more of them mean that the
        /// receiver is disconnected, and only every other one is answered. 0: no limit; with "esack" only.
        eln_filter: Option<u32>, Limits::range(0, 1_000_000);
        /// What a notice that a link has begun to send a segment again (ERSN) does; with "esack" only.
        ersn: Option<Ersn>;
        /// Whether the last segment of a transfer is filled up to a full one, as simulators do
        /// that count in packets.
        pad_segments: Option<bool>;
    }
}

choice! {
    /// SACK loss recovery.
    pub enum SackRecovery {
        /// As in the TCP agents of ns-2: "pipe" counted up and down.
        Ns2 = "ns-2",
        /// RFC 6675.
        Rfc6675 = "rfc6675",
        /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937).
        RackTlp = "rack-tlp",
        /// As "ns-2", and what agent "ll-elsn" tells of losses on a link (ESACK, Yun 2009).
        Esack = "esack",
    }
}

impl TcpKeys {
    /// All parameters: what the scenario sets, and for the rest what its profile says.
    pub fn config(&self) -> Config {
        let (variant, profile) = (self.variant, self.profile);
        let sack_recovery = self.sack_recovery.map(|recovery| match recovery {
            SackRecovery::Ns2 => RecoveryKind::SackNs2,
            SackRecovery::Rfc6675 => RecoveryKind::Sack6675,
            SackRecovery::RackTlp => RecoveryKind::RackTlp,
            SackRecovery::Esack => RecoveryKind::Esack,
        });
        let mut overrides = Overrides {
            sack_recovery,
            loss_detection: self.loss_detection,
            law: self.law,
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
            segmentation_offload: self.segmentation_offload,
            timer_tick: self.timer_tick,
            sack: self.sack,
            ecn: self.ecn,
            abe: self.abe,
            timestamps: self.timestamps,
            limited_transmit: self.limited_transmit,
            window_validation: self.window_validation,
            restart_after_idle: self.restart_after_idle,
            byte_counting: self.byte_counting,
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
        // Windows may be given in bytes, which become segments of the profile's or the user's size.
        let segment = presets::config(variant, profile, &overrides).segment;
        let segments = |window: Window| match window {
            Window::Segments(segments) => f64::from(segments),
            Window::Bytes(bytes) => bytes.get() as f64 / segment.get() as f64,
        };
        overrides.receive_window = self.receive_window.map(segments);
        overrides.initial_window = self.initial_window.map(segments);
        presets::config(variant, profile, &overrides)
    }

    /// Like [`Self::config`], on a path with this fair share and round-trip time, which the congestion control with the ideal
    /// bandwidth estimate is given unless the scenario sets them.
    pub(crate) fn config_on(&self, path: PathShare<'_>) -> Config {
        let mut config = self.config();
        if let LawKind::IdealBandwidth(mut keys) = config.law {
            let wire = |payload| Bytes::new(config.wire_bytes(payload, 0).into());
            let data = wire(config.segment.get() as u32);
            let sizes = Sizes { payload: config.segment, data, ack: wire(0) };
            if let Some((bandwidth, round_trip)) = path(sizes) {
                keys.bandwidth.get_or_insert(bandwidth);
                keys.round_trip.get_or_insert(round_trip);
            }
            config.law = LawKind::IdealBandwidth(keys);
        }
        config
    }
}

/// The largest packets of each kind that a TCP sends, headers and options included.
pub(super) struct Packets {
    /// A full segment.
    pub data: Bytes,
    /// What opens or closes a connection.
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

    const CARRIES: Carries = Carries::Streams;
    const METRICS: &'static [&'static [Metric]] =
        &[super::TcpMetrics::METRICS, super::NoticeMetrics::METRICS];

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        rules::check(self, path)
    }

    fn largest_packets(&self, load: Load) -> [Bytes; 2] {
        let Packets { data, control, ack } = Packets::new(&self.config());
        // Requests of a browser are data too.
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
            // Requests are data too, and replies are acknowledged.
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
        super::Tcp::new(&self.config_on(site.path), site.clock)
    }
}
