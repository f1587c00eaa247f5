//! The keys of TCP as a transport of scenarios. `lasthop_tcp::config` declares them, with the defaults
//! of profiles.

use super::rules;
use crate::transport::family::{Carries, Load, PathShare, Sizes, TransportKeys, TransportSite};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::metrics::Metric;
use lasthop_base::schema::numbers::seconds;
use lasthop_base::units::Bytes;
use lasthop_tcp::congestion_control::CongestionControlKind;
use lasthop_tcp::{Config, TcpKeys};
use serde_json::{Value, json};

/// Returns the parameters of a TCP on a path with this fair share and round-trip time. The congestion
/// control with the ideal bandwidth estimate uses them unless the scenario sets these values.
pub(crate) fn config_on(keys: &TcpKeys, path: PathShare<'_>) -> Config {
    let mut config = keys.config();
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
        let mut config = config_on(self, site.path);
        if let CongestionControlKind::Python(keys) = &mut config.congestion_control {
            keys.class = keys.class.seeded(site.clock.clone().bits());
        }
        super::Tcp::new(&config, site.clock)
    }
}
