//! A replication that a controller advances step by step, for reinforcement learning.
//!
//! In each step the controller sets the window or the pacing rate of one flow's senders, and the
//! simulation advances to a given time. Observations are sums of counters since the start; the
//! caller computes differences. A step does not change the simulation: a replication in steps has
//! the events of a run whose senders have the same windows at the same times.
//!
//! Windows and rates take effect at the next event of a sender: an ACK, a timer, or a packet that
//! pacing has delayed. Loss recovery determines the segments that are retransmitted, but does not
//! change the window.

use super::plan::Plan;
use super::{RunError, build, report};
use crate::scenario::Scenario;
use crate::sim::ids::FlowId;
use crate::sim::probe::Silent;
use crate::sim::world::{End, World};
use crate::transport::{CarriesStreams, End as ConnectionEnd, Observed};
use lasthop_base::packet::{Extension, TcpOptions, Watched};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::congestion_control::external::{
    self, Factory, Failure, Loaded, Properties, PythonKeys, Start,
};
use lasthop_tcp::congestion_control::{
    AckSample, Congestion, CongestionControl, CongestionControlKind, Delivery,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Window and rate of the senders of a flow, and what their ACKs report. One thread uses it at a
/// time; the atomic types allow a session to move between threads.
#[derive(Debug)]
struct Knob {
    /// Window in segments, as bits.
    cwnd: AtomicU64,
    /// Pacing rate in bytes per second, as bits; 0: derived from the window.
    rate: AtomicU64,
    sent_bytes: AtomicU64,
    rtt_samples: AtomicU64,
    rtt_sum_ns: AtomicU64,
    rtt_last_ns: AtomicU64,
    rtt_min_ns: AtomicU64,
    loss_signals: AtomicU64,
    marks: AtomicU64,
    timeouts: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    // One thread writes: a load and a store are faster than a locked addition.
    counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
}

impl Knob {
    fn get(&self, number: &AtomicU64) -> f64 {
        f64::from_bits(number.load(Ordering::Relaxed))
    }

    #[inline]
    fn sample(&self, rtt: Option<Duration>) {
        let Some(rtt) = rtt.map(Duration::as_nanos) else { return };
        add(&self.rtt_samples, 1);
        add(&self.rtt_sum_ns, rtt);
        self.rtt_last_ns.store(rtt, Ordering::Relaxed);
        if rtt < self.rtt_min_ns.load(Ordering::Relaxed) {
            self.rtt_min_ns.store(rtt, Ordering::Relaxed);
        }
    }
}

/// The congestion control of a controlled sender.
struct Held {
    knob: Arc<Knob>,
    segment: u64,
}

impl CongestionControl for Held {
    fn on_ack(&mut self, _sample: &AckSample) {}

    #[inline]
    fn on_delivery(&mut self, delivery: &Delivery) {
        self.knob.sample(delivery.rtt);
    }

    fn on_congestion(&mut self, _now: Instant, congestion: Congestion, _in_use: f64) {
        match congestion {
            Congestion::Loss => add(&self.knob.loss_signals, 1),
            Congestion::Ecn => add(&self.knob.marks, 1),
        }
    }

    fn on_timeout(&mut self, _now: Instant, _in_use: Option<f64>) {
        add(&self.knob.timeouts, 1);
    }

    /// The controller decides.
    fn on_spurious(&mut self) {}

    #[inline]
    fn on_sent(&mut self, _now: Instant, bytes: u64) {
        add(&self.knob.sent_bytes, bytes);
    }

    #[inline]
    fn window(&self) -> u64 {
        (self.cwnd() * self.segment as f64) as u64
    }

    #[inline]
    fn cwnd(&self) -> f64 {
        self.knob.get(&self.knob.cwnd)
    }

    fn ssthresh(&self) -> f64 {
        self.cwnd()
    }

    /// The controller decides.
    fn set_cwnd(&mut self, _cwnd: f64) {}

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        match self.knob.get(&self.knob.rate) {
            rate if rate > 0.0 => rate,
            _ => external::window_rate(self.window(), false, srtt),
        }
    }
}

/// Creates the congestion control of each sender of the flow.
struct Holder(Arc<Knob>);

impl Factory for Holder {
    fn start(&self, start: &Start) -> Box<dyn CongestionControl + Send + Sync> {
        Box::new(Held { knob: Arc::clone(&self.0), segment: start.segment })
    }
}

/// Counters of the senders of a flow since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Observation {
    /// Simulated time.
    pub now: Instant,
    /// Bytes acknowledged in order.
    pub acked_bytes: u64,
    /// Bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Segments sent for the first time.
    pub sent_segments: u64,
    /// Segments declared lost.
    pub lost_segments: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Sum of the RTT samples.
    pub rtt_sum: Duration,
    /// Latest RTT sample.
    pub rtt_last: Duration,
    /// Minimum RTT; zero before the first sample.
    pub rtt_min: Duration,
    /// Losses, counted once per window of data.
    pub loss_signals: u64,
    /// Congestion marks, counted once per window of data.
    pub marks: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
}

/// A world of any extension.
trait Steps: Send {
    fn run(&mut self, stop: Instant, until_complete: bool) -> End;
    fn count(&self, flow: FlowId, observation: &mut Observation);
    fn metrics(&self, scenario: &Scenario) -> Vec<(String, f64)>;
}

impl<X: Extension + Send> Steps for World<Silent, X>
where
    World<Silent, X>: Send,
{
    fn run(&mut self, stop: Instant, until_complete: bool) -> End {
        World::run(self, stop, until_complete, &AtomicBool::new(false))
    }

    fn count(&self, flow: FlowId, observation: &mut Observation) {
        observation.now = self.now();
        for transport in self.transports_of(flow) {
            for end in ConnectionEnd::BOTH {
                let losses = transport.losses(end);
                observation.acked_bytes += transport.acknowledged(end);
                observation.sent_segments += losses.sent;
                observation.lost_segments += losses.lost;
            }
        }
    }

    fn metrics(&self, scenario: &Scenario) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        report(self, scenario, &mut |entity, metric, value| {
            found.push((format!("{entity}.{metric}"), value));
        });
        found
    }
}

/// The controller of a flow: a place for the congestion control of its senders.
#[derive(Clone, Copy, Debug)]
pub struct Controller {
    keys: PythonKeys,
    knob: &'static Arc<Knob>,
}

impl Controller {
    /// Creates a controller; `paces`: the senders are paced. It exists until the process ends, and
    /// controls one session at a time.
    pub fn new(paces: bool) -> Self {
        let knob = Arc::new(Knob {
            cwnd: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            rtt_samples: AtomicU64::new(0),
            rtt_sum_ns: AtomicU64::new(0),
            rtt_last_ns: AtomicU64::new(0),
            rtt_min_ns: AtomicU64::new(u64::MAX),
            loss_signals: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        });
        let properties = Properties { measures: true, paces, ..Properties::default() };
        let factory = Box::new(Holder(Arc::clone(&knob)));
        let keys = external::register(Loaded { source: String::new(), properties, factory });
        Controller { keys, knob: Box::leak(Box::new(knob)) }
    }

    /// Sets the window in segments.
    pub fn set_window(&self, segments: f64) {
        self.knob.cwnd.store(segments.to_bits(), Ordering::Relaxed);
    }

    /// Sets the pacing rate in bit/s; `None`: derived from the window.
    pub fn set_rate(&self, rate: Option<f64>) {
        self.knob.rate.store((rate.unwrap_or(0.0) / 8.0).to_bits(), Ordering::Relaxed);
    }

    fn reset(&self) {
        let knob = self.knob;
        for counter in [
            &knob.sent_bytes,
            &knob.rtt_samples,
            &knob.rtt_sum_ns,
            &knob.rtt_last_ns,
            &knob.loss_signals,
            &knob.marks,
            &knob.timeouts,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        knob.rtt_min_ns.store(u64::MAX, Ordering::Relaxed);
    }
}

/// Builds the world of a replication.
fn world<X: Extension + Send + 'static>(
    scenario: &Scenario,
    plan: &Plan,
    streams: Streams,
) -> Result<Box<dyn Steps>, RunError> {
    Ok(Box::new(build::build::<X>(scenario, plan, streams)?.build(Silent)))
}

/// A replication in steps.
pub struct Session {
    world: Box<dyn Steps>,
    scenario: Scenario,
    flow: FlowId,
    controller: Controller,
    has_programs: bool,
    is_done: bool,
}

impl Session {
    /// Starts a replication of a scenario in which `controller` controls the flow with an index.
    /// Returns `None` if this flow is not one over TCP.
    ///
    /// # Errors
    /// If the scenario cannot be built.
    pub fn new(
        scenario: &Scenario,
        flow: usize,
        controller: Controller,
        seed: u64,
        replication: u64,
    ) -> Result<Option<Self>, RunError> {
        let mut scenario = scenario.clone();
        let has_programs = scenario.programs().next().is_some();
        let flows = Arc::make_mut(&mut scenario.flows);
        let Some(tcp) = flows.get_mut(flow).and_then(|flow| flow.transport.tcp_mut()) else {
            return Ok(None);
        };
        tcp.congestion_control = Some(CongestionControlKind::Python(controller.keys));
        controller.reset();
        let plan = Plan::new(&scenario);
        let streams = Streams { seed, replication };
        let world = match (plan.has_layers(), plan.has_options()) {
            (true, _) => world::<Watched>(&scenario, &plan, streams)?,
            (false, true) => world::<TcpOptions>(&scenario, &plan, streams)?,
            (false, false) => world::<()>(&scenario, &plan, streams)?,
        };
        let flow = FlowId::new(flow);
        Ok(Some(Session { world, scenario, flow, controller, has_programs, is_done: false }))
    }

    /// Returns the controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Advances to `time`, or to the end of the run. Returns `false` at the end.
    ///
    /// # Errors
    /// If a congestion control of another flow fails.
    pub fn advance(&mut self, time: Instant) -> Result<bool, RunError> {
        if self.is_done {
            return Ok(false);
        }
        let run = &self.scenario.run;
        let end = Instant::ZERO + run.duration.unwrap_or(run.max_time);
        let until_complete = run.duration.is_none();
        let world = &mut self.world;
        let mut step = || world.run(time.min(end), until_complete);
        let reached = if self.has_programs {
            let failed = |Failure { at, message }| RunError::Algorithm { message, at };
            external::session(step).map_err(failed)?
        } else {
            step()
        };
        self.is_done = reached == End::Complete || time >= end;
        Ok(!self.is_done)
    }

    /// Returns the counters since the start.
    pub fn observe(&self) -> Observation {
        let knob = self.controller.knob;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let span = |counter: &AtomicU64| Duration::from_nanos(count(counter));
        let rtt_samples = count(&knob.rtt_samples);
        let mut observation = Observation {
            sent_bytes: count(&knob.sent_bytes),
            rtt_samples,
            rtt_sum: span(&knob.rtt_sum_ns),
            rtt_last: span(&knob.rtt_last_ns),
            rtt_min: if rtt_samples == 0 { Duration::ZERO } else { span(&knob.rtt_min_ns) },
            loss_signals: count(&knob.loss_signals),
            marks: count(&knob.marks),
            timeouts: count(&knob.timeouts),
            ..Observation::default()
        };
        self.world.count(self.flow, &mut observation);
        observation
    }

    /// Returns the metrics of the run up to now, by full name.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        self.world.metrics(&self.scenario)
    }
}
