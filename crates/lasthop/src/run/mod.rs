//! Running scenarios: replications in parallel, results as a table.
//!
//! The table does not depend on the number of threads: each replication is single-threaded, draws
//! from its own streams, and has its own row.

mod air;
mod build;
mod links;
mod resolved;
mod trace;

pub use air::Transmission;
pub use resolved::resolved;
pub use trace::{Trace, TraceEvent, trace};

use crate::rng::Streams;
use crate::scenario::Scenario;
use crate::sim::probe::{Probe, Silent};
use crate::sim::world::{End, World};
use crate::units::Instant;
use rayon::prelude::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Version of the engine, part of every result.
pub const ENGINE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// How often [`run`] tells its observer how far it is.
const OBSERVE_EVERY: Duration = Duration::from_millis(50);

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Replications of each point.
    pub replications: u64,
    /// Index of the first one.
    pub first_replication: u64,
    /// Master seed.
    pub seed: u64,
    /// Threads; 0 takes all cores.
    pub jobs: usize,
}

/// How far a run is, in replications of all points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Finished.
    pub done: u64,
    /// In all.
    pub total: u64,
}

/// What one replication of one point gave.
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
    /// By point, then by replication.
    pub rows: Vec<Row>,
    /// False if the observer stopped the run; the rows there are are complete.
    pub complete: bool,
}

/// Why a run is impossible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A channel cannot be built.
    #[error("link.{link}.errors: {error}")]
    Channel {
        /// Name of the link.
        link: String,
        /// What is wrong.
        error: crate::channel::ChannelError,
    },
    /// A link protocol refuses its parameters.
    #[error("link.{link}.protocol: {error}")]
    Link {
        /// Name of the link.
        link: String,
        /// What is wrong.
        error: crate::link::LinkError,
    },
    /// The operating system gives no threads.
    #[error("no threads for {jobs} jobs: {reason}")]
    Threads {
        /// Threads asked for.
        jobs: usize,
        /// What the system says.
        reason: String,
    },
}

/// Runs every replication of every point. `observe` is called from this thread every 50 ms or so;
/// when it returns false, the run stops and returns what is finished.
pub fn run(
    points: &[Scenario],
    options: &Options,
    observe: &mut dyn FnMut(Progress) -> bool,
) -> Result<Results, RunError> {
    let schemas = points.iter().map(Schema::new).collect::<Result<Vec<_>, _>>()?;
    let mut metrics: Vec<String> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let columns: Vec<Vec<usize>> = schemas
        .iter()
        .map(|schema| {
            let place = |name: &String| {
                *places.entry(name.clone()).or_insert_with(|| {
                    metrics.push(name.clone());
                    metrics.len() - 1
                })
            };
            schema.names.iter().map(place).collect()
        })
        .collect();
    let width = metrics.len();

    let last = options.first_replication + options.replications;
    let work: Vec<(u32, u64)> = (0..points.len() as u32)
        .flat_map(|point| (options.first_replication..last).map(move |index| (point, index)))
        .collect();
    let total = work.len() as u64;
    let (done, interrupt) = (AtomicU64::new(0), AtomicBool::new(false));
    let failure: Mutex<Option<RunError>> = Mutex::new(None);
    let one = |&(point, replication): &(u32, u64)| {
        if interrupt.load(Ordering::Relaxed) {
            return None;
        }
        let streams = Streams { seed: options.seed, replication };
        let mut values = vec![f64::NAN; width];
        let columns = &columns[point as usize];
        match replicate(&points[point as usize], streams, &interrupt, &mut values, columns) {
            Ok(true) => {
                done.fetch_add(1, Ordering::Relaxed);
                Some(Row { point, replication, values })
            }
            Ok(false) => None,
            Err(error) => {
                interrupt.store(true, Ordering::Relaxed);
                failure
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner())
                    .get_or_insert(error);
                None
            }
        }
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(options.jobs)
        .build()
        .map_err(|error| RunError::Threads { jobs: options.jobs, reason: error.to_string() })?;
    let finished = AtomicBool::new(false);
    let watcher = std::thread::current();
    let rows: Vec<Row> = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let rows = pool.install(|| work.par_iter().with_max_len(1).filter_map(one).collect());
            finished.store(true, Ordering::Release);
            watcher.unpark();
            rows
        });
        while !finished.load(Ordering::Acquire) && !worker.is_finished() {
            std::thread::park_timeout(OBSERVE_EVERY);
            let progress = Progress { done: done.load(Ordering::Relaxed), total };
            if !observe(progress) {
                interrupt.store(true, Ordering::Relaxed);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        return Err(error);
    }
    let complete = rows.len() == work.len();
    Ok(Results { metrics, rows, complete })
}

/// Names of a point's metrics.
struct Schema {
    names: Vec<String>,
}

impl Schema {
    fn new(scenario: &Scenario) -> Result<Self, RunError> {
        let world = build::build(scenario, Streams { seed: 0, replication: 0 })?.build(Silent);
        let mut names = Vec::new();
        world.metrics(&link_names(scenario), &mut |entity, metric, _| {
            names.push(format!("{entity}.{metric}"));
        });
        Ok(Schema { names })
    }
}

fn link_names(scenario: &Scenario) -> Vec<String> {
    scenario.links.iter().map(|link| link.name.clone()).collect()
}

/// Runs `world` to the end that the scenario asks for.
fn finish<P: Probe>(world: &mut World<P>, scenario: &Scenario, interrupt: &AtomicBool) -> End {
    let run = &scenario.run;
    let stop = Instant::ZERO + run.duration.unwrap_or(run.max_time);
    world.run(stop, run.duration.is_none(), interrupt)
}

/// One replication; false if it was interrupted.
fn replicate(
    scenario: &Scenario,
    streams: Streams,
    interrupt: &AtomicBool,
    values: &mut [f64],
    columns: &[usize],
) -> Result<bool, RunError> {
    let mut world = build::build(scenario, streams)?.build(Silent);
    if finish(&mut world, scenario, interrupt) == End::Interrupted {
        return Ok(false);
    }
    let mut next = columns.iter();
    world.metrics(&link_names(scenario), &mut |_, _, value| {
        if let Some(&column) = next.next() {
            values[column] = value;
        }
    });
    Ok(true)
}
