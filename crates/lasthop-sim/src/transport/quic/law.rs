//! Congestion control algorithms of Lasthop's TCP as controllers of the stack.
//!
//! ```text
//!   OPEN --packets lost or marked--> RECOVERY --acknowledged: a packet sent after the reduction--> OPEN
//! ```
//!
//! The stack reports each detection of losses. Only the first one of a window of data reduces the
//! window (RFC 9002, section 7.3.2): later ones concern packets sent before the reduction.

use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_tcp::congestion_control::standalone::{AckedPacket, Standalone};
use lasthop_tcp::congestion_control::{Congestion, CongestionControlKind};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics, NewRenoConfig};
use std::any::Any;
use std::sync::Arc;
use std::time::Instant as StackInstant;

/// Builds controllers.
pub(super) struct LawFactory {
    pub kind: CongestionControlKind,
    pub datagram: Bytes,
    pub initial_window: Bytes,
}

impl ControllerFactory for LawFactory {
    fn build(self: Arc<Self>, now: StackInstant, mtu: u16) -> Box<dyn Controller> {
        let LawFactory { kind, datagram, initial_window } = *self;
        match Standalone::new(kind, datagram, initial_window) {
            Some(algorithm) => Box::new(Law {
                algorithm,
                origin: now,
                minimum: Bytes::new(2 * datagram.get()),
                initial: initial_window,
                in_flight: 0,
                reduced_at: None,
            }),
            // Unreachable: the check of the keys rejects such an algorithm.
            None => Arc::new(NewRenoConfig::default()).build(now, mtu),
        }
    }
}

/// A controller with an algorithm of Lasthop.
#[derive(Clone)]
struct Law {
    algorithm: Standalone,
    /// Origin of the times that the algorithm sees.
    origin: StackInstant,
    /// Minimum window: two datagrams (RFC 9002, section 7.2).
    minimum: Bytes,
    initial: Bytes,
    /// Bytes outstanding after the latest ACK, and those sent since.
    in_flight: u64,
    /// Time of the latest reduction.
    reduced_at: Option<StackInstant>,
}

impl Law {
    fn at(&self, now: StackInstant) -> Instant {
        Instant::ZERO + duration(now.saturating_duration_since(self.origin))
    }
}

fn duration(duration: std::time::Duration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl Controller for Law {
    fn on_sent(&mut self, now: StackInstant, bytes: u64, _last: u64) {
        self.in_flight += bytes;
        self.algorithm.on_sent(self.at(now), bytes);
    }

    fn on_ack(
        &mut self,
        now: StackInstant,
        sent: StackInstant,
        bytes: u64,
        is_app_limited: bool,
        rtt: &RttEstimator,
    ) {
        let is_recovered = self.reduced_at.is_none_or(|reduced| sent > reduced);
        let packet = AckedPacket {
            bytes,
            // The stack knows better than a comparison whether the window was in use.
            in_flight: self.in_flight.max(self.algorithm.window()),
            rtt: duration(now.saturating_duration_since(sent)),
            srtt: duration(rtt.get()),
            may_grow: is_recovered && !is_app_limited,
        };
        self.algorithm.on_ack(self.at(now), &packet);
    }

    fn on_end_acks(&mut self, _: StackInstant, in_flight: u64, _: bool, _: Option<u64>) {
        self.in_flight = in_flight;
    }

    fn on_congestion_event(
        &mut self,
        now: StackInstant,
        sent: StackInstant,
        is_persistent: bool,
        lost_bytes: u64,
    ) {
        self.algorithm.on_lost(lost_bytes);
        let at = self.at(now);
        if self.reduced_at.is_none_or(|reduced| sent > reduced) {
            self.reduced_at = Some(now);
            // A mark has no lost bytes.
            let cause = if lost_bytes == 0 { Congestion::Ecn } else { Congestion::Loss };
            // Reductions are computed from the window (RFC 9002, section 7.3.2).
            self.algorithm.on_congestion(at, cause, self.algorithm.window());
        }
        if is_persistent {
            self.algorithm.on_persistent_congestion(at, self.minimum);
            self.reduced_at = None;
        }
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.algorithm.window().max(self.minimum.get())
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.ssthresh = Some(self.algorithm.threshold() as u64);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial.get()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
