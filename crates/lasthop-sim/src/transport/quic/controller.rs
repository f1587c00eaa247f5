//! Congestion control of the stack, observed.
//!
//! A [`Watched`] controller forwards all calls, counts reductions of the window, and knows the latest
//! RTT sample and the bytes in flight. The machine can close it: then the stack sends only what congestion control does not limit, namely
//! acknowledgments and the packets of a probe timeout (PTO), which it does not count itself.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// State that a controller and the machine share. One thread uses both.
#[derive(Debug, Default)]
pub(super) struct Shared {
    is_closed: AtomicBool,
    detections: AtomicU64,
    reductions: AtomicU64,
    /// Nanoseconds; 0 before the first sample.
    latest_rtt: AtomicU64,
    in_flight: AtomicU64,
}

impl Shared {
    /// Closes or opens the window.
    pub fn close(&self, is_closed: bool) {
        self.is_closed.store(is_closed, Ordering::Relaxed);
    }

    /// Returns the number of calls in which packets were declared lost or marked.
    pub fn detections(&self) -> u64 {
        self.detections.load(Ordering::Relaxed)
    }

    /// Returns the number of reductions of the window.
    pub fn reductions(&self) -> u64 {
        self.reductions.load(Ordering::Relaxed)
    }

    /// Returns the latest RTT sample (RFC 9002, section 5.1), in seconds; `None` before the first one.
    pub fn latest_rtt(&self) -> Option<f64> {
        let nanos = self.latest_rtt.load(Ordering::Relaxed);
        (nanos > 0).then(|| nanos as f64 / 1e9)
    }

    /// Returns the bytes in flight (RFC 9002, appendix B.2): after the latest ACK, less packets that
    /// were declared lost, plus [`Self::add_in_flight`].
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Adds bytes that are sent.
    pub fn add_in_flight(&self, bytes: u64) {
        self.in_flight.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Builds watched controllers.
pub(super) struct WatchedFactory {
    pub inner: Arc<dyn ControllerFactory + Send + Sync>,
    pub shared: Arc<Shared>,
}

impl ControllerFactory for WatchedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, mtu);
        Box::new(Watched { inner, shared: self.shared.clone(), acked: None, largest: None })
    }
}

/// A controller, observed.
struct Watched {
    inner: Box<dyn Controller>,
    shared: Arc<Shared>,
    /// Time at which the last packet that the present ACK acknowledges was sent.
    acked: Option<Instant>,
    /// Largest acknowledged packet number: only an ACK that changes it yields an RTT sample.
    largest: Option<u64>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        self.inner.on_sent(now, bytes, last);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        is_app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked = Some(sent);
        self.inner.on_ack(now, sent, bytes, is_app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        is_app_limited: bool,
        largest: Option<u64>,
    ) {
        let is_new = std::mem::replace(&mut self.largest, largest) != largest;
        if let Some(sent) = self.acked.take().filter(|_| is_new) {
            let nanos = now.saturating_duration_since(sent).as_nanos() as u64;
            self.shared.latest_rtt.store(nanos, Ordering::Relaxed);
        }
        self.shared.in_flight.store(in_flight, Ordering::Relaxed);
        self.inner.on_end_acks(now, in_flight, is_app_limited, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent: bool,
        lost_bytes: u64,
    ) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
        self.shared.detections.fetch_add(1, Ordering::Relaxed);
        let left = self.shared.in_flight().saturating_sub(lost_bytes);
        self.shared.in_flight.store(left, Ordering::Relaxed);
        if self.inner.window() < before {
            self.shared.reductions.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        if self.shared.is_closed.load(Ordering::Relaxed) { 0 } else { self.inner.window() }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Watched {
            inner: self.inner.clone_box(),
            shared: self.shared.clone(),
            acked: self.acked,
            largest: self.largest,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
