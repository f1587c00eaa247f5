//! From the keys of a transport to its parameters: the one place where profiles fill in what a
//! scenario leaves open. The checks and the simulator both ask here.

use super::model::{Flow, SackRecovery, Tcp, Transport};
use lasthop_base::schema::quantity::{DelayedAck, Window};
use lasthop_base::units::Bytes;
use lasthop_tcp::config::RecoveryKind;
use lasthop_tcp::{Config, Overrides, presets};

impl Tcp {
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
}

/// The largest packets of each kind that a TCP sends, headers and options included.
pub(super) struct TcpPackets {
    /// A full segment.
    pub data: Bytes,
    /// What opens or closes a connection.
    pub control: Bytes,
    /// An acknowledgment.
    pub ack: Bytes,
}

impl TcpPackets {
    pub fn new(config: &Config) -> Self {
        let blocks = config.max_sack_blocks() as u8;
        let bytes = |payload, blocks| Bytes::new(config.wire_bytes(payload, blocks).into());
        let data = bytes(config.segment.get() as u32, 0);
        TcpPackets { data, control: bytes(0, 0), ack: bytes(0, blocks) }
    }
}

impl Flow {
    /// The largest packets that it sends: from `from` to `to`, and back.
    pub fn largest_packets(&self) -> [Bytes; 2] {
        let Transport::Tcp(tcp) = &self.transport else {
            return [self.app.packet().unwrap_or_default(), Bytes::default()];
        };
        let TcpPackets { data, control, ack } = TcpPackets::new(&tcp.config());
        // Requests of a browser are data too.
        if self.app.sends_back() { [data.max(ack); 2] } else { [data.max(control), ack] }
    }
}
