//! Runs scenarios: parallel replications, with the results as a table.
//!
//! The table does not depend on the number of threads: each replication is single-threaded, uses
//! its own random number streams, and has its own row.

mod air;
mod build;
mod capture;
mod headers;
mod links;
mod observations;
mod oracle;
mod plan;
mod radiotap;
mod resolved;
mod rows;
mod script;
mod session;
mod stream;
mod trace;
mod windows;
mod wlans;

pub use crate::sim::wlan::{WlanMedium, WlanPlace};
pub use air::Transmission;
pub use capture::{CaptureError, Captured, View, capture};
pub use resolved::resolved;
pub use script::{HostScriptError, host_script};
pub use session::{Controller, Observation, Session};
pub use stream::{Finished, Stream, Work, cores};
pub use trace::{Trace, TraceEvent, trace};
pub use wlans::wlan_media;

pub use links::services as service_endpoints;
pub use plan::link_site;

use plan::Plan;
use windows::Marks;

use crate::scenario::{Aggregates, Scenario};
use crate::sim::probe::{Probe, Silent};
use crate::sim::world::{End, World};
use indexmap::{IndexMap, IndexSet};
use lasthop_base::packet::{Extension, TcpOptions, Watched};
use lasthop_base::rng::Streams;
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::Instant;
use lasthop_tcp::congestion_control::external::{Failure, session};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Version of the engine, part of every result.
pub const ENGINE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Interval at which [`run`] reports its progress to the observer.
const OBSERVE_EVERY: Duration = Duration::from_millis(50);

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of replications per point.
    pub replications: u64,
    /// Index of the first replication.
    pub first_replication: u64,
    /// Master seed.
    pub seed: u64,
    /// Number of threads; 0 uses all cores.
    pub jobs: usize,
}

/// Progress of a run, in replications of all points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Finished replications.
    pub done: u64,
    /// Total number of replications.
    pub total: u64,
}

/// Results of one replication of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Index of the point.
    pub point: u32,
    /// Index of the replication.
    pub replication: u64,
    /// One value per name in [`Results::metrics`]; NaN where a metric does not apply.
    pub values: Vec<f64>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Names of the metrics, such as `flow.transfer.goodput_bps`; SI units, named.
    pub metrics: Vec<String>,
    /// Sorted by point, then by replication.
    pub rows: Vec<Row>,
    /// Whether all replications were run. `false` if the observer stopped the run; then some rows
    /// are missing.
    pub complete: bool,
}

/// The reason why a run is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A channel cannot be built.
    #[error("link.{link}.errors: {error}")]
    Channel {
        /// Name of the link.
        link: String,
        /// The cause.
        error: lasthop_link::channel::ChannelError,
    },
    /// A link protocol rejects its parameters.
    #[error("link.{link}.protocol: {error}")]
    Link {
        /// Name of the link.
        link: String,
        /// The cause.
        error: lasthop_link::link::LinkError,
    },
    /// An agent rejects its parameters.
    #[error("link.{link}.agent: {error}")]
    Agent {
        /// Name of the link.
        link: String,
        /// The cause.
        error: lasthop_analysis::AnalysisError,
    },
    /// The operating system cannot create the threads.
    #[error("no threads for {jobs} jobs: {reason}")]
    Threads {
        /// Requested number of threads.
        jobs: usize,
        /// Message of the operating system.
        reason: String,
    },
    /// A replication has more events than are kept in memory.
    #[error(
        "more than {most} events by {:.3} s, all of which are kept in memory: expected a shorter run \
         (run.duration, or a smaller file)",
        at.as_secs_f64()
    )]
    TooManyEvents {
        /// Maximum number of events kept.
        most: usize,
        /// Time of the first event that cannot be kept.
        at: lasthop_base::units::Duration,
    },
    /// A congestion control outside the engine failed.
    #[error("{message}, at {:.9} s", at.as_secs_f64())]
    Algorithm {
        /// Place and reason.
        message: String,
        /// Simulated time.
        at: Instant,
    },
    /// A replication panicked, which is a fault of the engine.
    #[error(
        "replication {replication} with seed {seed} of {point:?} ({hash:016x}) panicked: this is a \
         fault of the engine, please report it with the scenario"
    )]
    Panic {
        /// Name of the point's scenario.
        point: String,
        /// Hash of the point's scenario.
        hash: u64,
        /// Master seed.
        seed: u64,
        /// Index of the replication.
        replication: u64,
    },
}

/// Runs all replications of all points. Calls `observe` in this thread about every 50 ms. If it
/// returns `false`, the run stops and returns the finished replications.
///
/// ```
/// use lasthop_sim::run::{Options, run};
/// use lasthop_sim::scenario::Scenario;
/// use std::path::Path;
///
/// let text = r#"
/// name = "first"
/// [link.air]
/// between = ["server", "client"]
/// rate = "2 Mbps"
/// delay = "20 ms"
/// errors = { kind = "uniform", loss = "1 %" }
/// [flow.f]
/// from = "server"
/// to = "client"
/// transport = { kind = "tcp", variant = "newreno" }
/// app = { kind = "file", size = "20 kB" }
/// "#;
/// let point = Scenario::from_toml(text, Path::new("."))?.points()?.remove(0);
/// let options = Options { replications: 3, first_replication: 0, seed: 1, jobs: 1 };
/// let results = run(&[point.scenario.clone()], &options, &mut |_| true)?;
/// assert_eq!(results.rows.len(), 3);
/// assert!(results.metrics.contains(&"flow.f.goodput_bps".to_owned()));
/// // The same scenario and seed give the same numbers with any number of threads.
/// let options = Options { jobs: 2, ..options };
/// let again = run(&[point.scenario], &options, &mut |_| true)?;
/// assert_eq!(format!("{:?}", again.rows), format!("{:?}", results.rows));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(
    points: &[Scenario],
    options: &Options,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<Results, RunError> {
    let first = options.first_replication;
    let work: Vec<Work> = (0..points.len() as u32)
        .map(|point| Work { point, replications: first..first + options.replications, cost: None })
        .collect();
    let total = points.len() as u64 * options.replications;
    let stream = Stream::start(points.to_vec(), &work, options.seed, options.jobs)?;
    let mut rows: Vec<Row> = Vec::new();
    while let Some(finished) = stream.next(OBSERVE_EVERY)? {
        rows.extend(finished.into_iter().map(|Finished { point, replication, values, .. }| Row {
            point,
            replication,
            values,
        }));
        if !observe(Progress { done: rows.len() as u64, total }) {
            stream.stop();
        }
    }
    rows.sort_unstable_by_key(|row| (row.point, row.replication));
    let complete = rows.len() as u64 == total;
    Ok(Results { metrics: stream.metrics(), rows, complete })
}

/// Data shared by the replications of a point.
#[derive(Clone, Debug)]
struct Shared {
    plan: Plan,
    /// Columns of the point's metrics in a row.
    columns: Vec<u32>,
}

/// Names of metrics, each once. Many entities have the same metrics, and an entity has many.
#[derive(Debug, Default)]
struct Names {
    /// Names of metrics without entity.
    metrics: IndexSet<&'static str>,
    /// For each entity, its metrics: indices in `metrics` and in the list of all names.
    entities: IndexMap<String, Vec<(u16, u32)>>,
    len: u32,
}

impl Names {
    /// Adds a name unless it is known, and returns its index.
    fn add(&mut self, entity: &str, metric: &'static str) -> u32 {
        let metric = self.metrics.insert_full(metric).0 as u16;
        if !self.entities.contains_key(entity) {
            self.entities.insert(entity.to_owned(), Vec::new());
        }
        let known = &mut self.entities[entity];
        if let Some(&(_, index)) = known.iter().find(|(other, _)| *other == metric) {
            return index;
        }
        known.push((metric, self.len));
        self.len += 1;
        self.len - 1
    }

    fn len(&self) -> usize {
        self.len as usize
    }

    fn all(&self) -> Vec<String> {
        let mut all = vec![String::new(); self.len()];
        for (entity, metrics) in &self.entities {
            for &(metric, index) in metrics {
                all[index as usize] = [entity, self.metrics[usize::from(metric)]].join(".");
            }
        }
        all
    }
}

/// Returns the metrics of all points, and the shared data of each.
fn schema(points: &[Scenario]) -> Result<(Names, Vec<Shared>), RunError> {
    let mut metrics = Names::default();
    let mut shared = Vec::with_capacity(points.len());
    for scenario in points {
        let plan = Plan::new(scenario);
        let mut columns = Vec::new();
        names(scenario, &plan, &mut |entity, metric| columns.push(metrics.add(entity, metric)))?;
        columns.shrink_to_fit();
        shared.push(Shared { plan, columns });
    }
    Ok((metrics, shared))
}

/// Names of a point's metrics.
pub fn metric_names(scenario: &Scenario) -> Result<Vec<String>, RunError> {
    let mut all = Vec::new();
    names(scenario, &Plan::new(scenario), &mut |entity, metric| {
        all.push([entity, metric].join("."))
    })?;
    Ok(all)
}

/// Passes the entities and names of a point's metrics to `add`.
fn names(
    scenario: &Scenario,
    plan: &Plan,
    add: &mut dyn FnMut(&str, &'static str),
) -> Result<(), RunError> {
    let streams = Streams { seed: 0, replication: 0 };
    let world = build::build::<()>(scenario, plan, streams)?.build(Silent);
    let mut put = |entity: &str, metric: &'static Metric, _: f64| {
        debug_assert!(
            crate::sim::metrics::is_listed(entity, metric),
            "{entity}.{metric} is not in the list of metrics"
        );
        add(entity, metric.name);
    };
    report(&world, scenario, &mut put);
    windows::report(&world, scenario, &Marks::default(), &mut put);
    Ok(())
}

/// Reports all metrics of a finished world, followed by those aggregated over the flows of a table.
fn report<P: Probe, X: Extension>(
    world: &World<P, X>,
    scenario: &Scenario,
    report: &mut dyn FnMut(&str, &'static Metric, f64),
) {
    let mut aggregates = Aggregates::new(&scenario.flows);
    world.metrics(&link_names(scenario), &mut |entity, metric, value| {
        let value = value.value();
        aggregates.add(entity, metric, value);
        report(entity, metric, value);
    });
    aggregates.report(report);
}

fn link_names(scenario: &Scenario) -> Vec<String> {
    scenario.links.iter().map(|link| link.name.clone()).collect()
}

/// Runs `world` to the end that the scenario specifies.
fn finish<P: Probe, X: Extension>(
    world: &mut World<P, X>,
    scenario: &Scenario,
    interrupt: &AtomicBool,
) -> Result<End, RunError> {
    let run = &scenario.run;
    let stop = Instant::ZERO + run.duration.unwrap_or(run.max_time);
    run_to(stop, world, scenario, interrupt)
}

/// Runs `world` up to the time `stop`.
fn run_to<P: Probe, X: Extension>(
    stop: Instant,
    world: &mut World<P, X>,
    scenario: &Scenario,
    interrupt: &AtomicBool,
) -> Result<End, RunError> {
    let mut run = || world.run(stop, scenario.run.duration.is_none(), interrupt);
    if scenario.programs().next().is_none() {
        return Ok(run());
    }
    session(run).map_err(|Failure { at, message }| RunError::Algorithm { message, at })
}

/// Runs one replication; returns `false` if it was interrupted.
fn replicate(
    scenario: &Scenario,
    shared: &Shared,
    streams: Streams,
    interrupt: &AtomicBool,
    values: &mut [f64],
) -> Result<bool, RunError> {
    let replicate = match (shared.plan.has_layers(), shared.plan.has_options()) {
        (true, _) => replicate_carrying::<Watched>,
        (false, true) => replicate_carrying::<TcpOptions>,
        (false, false) => replicate_carrying::<()>,
    };
    replicate(scenario, shared, streams, interrupt, values)
}

/// Like [`replicate`], with packets that have the extension `X`.
fn replicate_carrying<X: Extension>(
    scenario: &Scenario,
    shared: &Shared,
    streams: Streams,
    interrupt: &AtomicBool,
    values: &mut [f64],
) -> Result<bool, RunError> {
    let mut world = build::build::<X>(scenario, &shared.plan, streams)?.build(Silent);
    let mut marks = Marks::default();
    for time in windows::times(scenario) {
        if run_to(time, &mut world, scenario, interrupt)? == End::Interrupted {
            return Ok(false);
        }
        if world.now() < time {
            break;
        }
        marks.put(&world, scenario);
    }
    if finish(&mut world, scenario, interrupt)? == End::Interrupted {
        return Ok(false);
    }
    let mut next = shared.columns.iter();
    let mut put = |_: &str, _: &'static Metric, value| {
        if let Some(&column) = next.next() {
            values[column as usize] = value;
        }
    };
    report(&world, scenario, &mut put);
    windows::report(&world, scenario, &marks, &mut put);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A point with a file transfer over a link with these keys, and on-off traffic.
    fn point(transport: &str, link: &str) -> Scenario {
        let text = format!(
            r#"
            name = "t"
            [link.wired]
            between = ["server", "ap"]
            rate = "10 Mbps"
            delay = "1 ms"
            [link.wireless]
            between = ["ap", "client"]
            rate = "64 kbps"
            delay = "50 ms"
            errors = {{ kind = "uniform", loss = "2.5 %" }}
            {link}
            [flow.f]
            from = "server"
            to = "client"
            transport = {{ kind = "tcp", segment = "250 B", {transport} }}
            app = {{ kind = "file", size = "100 kB" }}
            [flow.d]
            from = "server"
            to = "client"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "8 kbps", on = "exp 1 s", off = "exp 1 s", packet = "50 B" }}
            "#
        );
        let document = Scenario::from_toml(&text, Path::new("."));
        let points = document.and_then(|document| document.points());
        points.unwrap_or_else(|error| panic!("{error}\n{text}")).remove(0).scenario
    }

    #[test]
    fn packets_have_room_for_options_where_a_flow_has_any() {
        let has = |transport: &str| Plan::new(&point(transport, "")).has_options();
        for without in [
            r#"variant = "reno", profile = "ns-2""#,
            r#"variant = "newreno", profile = "rfc""#,
            r#"variant = "cubic", profile = "linux", sack = false, timestamps = false"#,
        ] {
            assert!(!has(without), "{without}");
        }
        for with in [
            r#"variant = "sack", profile = "rfc""#,
            r#"variant = "reno", profile = "rfc", timestamps = true"#,
            r#"variant = "cubic", profile = "linux""#,
            r#"variant = "lt-tcp", profile = "rfc""#,
        ] {
            assert!(has(with), "{with}");
        }
    }

    #[test]
    fn room_for_options_that_nobody_has_changes_nothing() {
        let split = r#"agent = { kind = "split-connection", at = "ap" }"#;
        for (transport, link) in [
            (r#"variant = "reno", profile = "ns-2""#, ""),
            (r#"variant = "newreno", profile = "rfc""#, r#"protocol = { kind = "xor-fec" }"#),
            (r#"variant = "reno", profile = "rfc""#, split),
        ] {
            let scenario = point(transport, link);
            let (metrics, shared) = schema(std::slice::from_ref(&scenario)).expect("a point");
            let streams = Streams { seed: 1, replication: 0 };
            let interrupt = AtomicBool::new(false);
            let [without, with] =
                [replicate_carrying::<()>, replicate_carrying::<TcpOptions>].map(|replicate| {
                    let mut values = vec![f64::NAN; metrics.len()];
                    let done = replicate(&scenario, &shared[0], streams, &interrupt, &mut values);
                    assert_eq!(done, Ok(true), "{transport}");
                    values.into_iter().map(f64::to_bits).collect::<Vec<_>>()
                });
            assert_eq!(without, with, "{transport} {link}");
        }
    }
}
