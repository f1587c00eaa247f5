//! Runs replications in threads and returns their results as they finish.
//!
//! Threads take replications from a common schedule and put their results into a common outbox,
//! which [`Stream::next`] empties. The first replication of each point measures its cost, unless it
//! is already known. Then the most expensive replications are run first, so that cheap ones fill
//! the gaps at the end and all cores are busy until then. The outbox has room for a few thousand
//! rows: a slow caller slows down the threads, and memory does not grow with the number of
//! replications. The result of a replication depends neither on the order nor on the threads.

use super::{Names, RunError, replicate, schema};
use crate::scenario::{Scenario, in_other_heap};
use cpu_time::ThreadTime;
use lasthop_base::rng::Streams;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of rows in the outbox.
const OUTBOX_ROWS: usize = 4096;

/// Number of metrics from which their names are written in another heap.
const MANY: usize = 1024;

/// Replications of one point to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Index of the point.
    pub point: u32,
    /// Indexes of the replications.
    pub replications: Range<u64>,
    /// Processor time of one replication, if known.
    pub cost: Option<Duration>,
}

/// Results and cost of one replication.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Index of the point.
    pub point: u32,
    /// Index of the replication.
    pub replication: u64,
    /// Processor time of the replication.
    pub cost: Duration,
    /// One value per name in [`Stream::metrics`]; NaN where a metric does not apply.
    pub values: Vec<f64>,
}

/// Replications in progress. Dropping it stops them.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    metrics: Names,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    points: Vec<Scenario>,
    /// Data shared by the replications of each point.
    common: Vec<super::Shared>,
    width: usize,
    seed: u64,
    schedule: Mutex<Schedule>,
    outbox: Mutex<Outbox>,
    /// Signals that the outbox is full or that the last thread has ended.
    filled: Condvar,
    /// Signals that rows have been taken from the outbox or that the threads must stop.
    emptied: Condvar,
    interrupt: AtomicBool,
}

#[derive(Debug, Default)]
struct Outbox {
    rows: Vec<Finished>,
    threads: usize,
    failure: Option<RunError>,
}

impl Stream {
    /// Starts `jobs` threads (0: the number of cores) for the replications of these points.
    ///
    /// # Panics
    /// If `work` contains an invalid index of a point.
    pub fn start(
        points: Vec<Scenario>,
        work: &[Work],
        seed: u64,
        jobs: usize,
    ) -> Result<Self, RunError> {
        // In a thread the panic would be hidden.
        assert!(work.iter().all(|work| (work.point as usize) < points.len()), "work for a point");
        let (metrics, common) = in_other_heap(|| schema(&points))?;
        let jobs = match jobs {
            0 => cores(),
            jobs => jobs,
        };
        let shared = Arc::new(Shared {
            points,
            common,
            width: metrics.len(),
            seed,
            schedule: Mutex::new(Schedule::new(work)),
            outbox: Mutex::new(Outbox::default()),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            interrupt: AtomicBool::new(false),
        });
        let mut stream = Stream { shared, metrics, threads: Vec::new() };
        let total = work.iter().fold(0u64, |sum, work| {
            sum.saturating_add(work.replications.end.saturating_sub(work.replications.start))
        });
        for _ in 0..jobs.min(usize::try_from(total).unwrap_or(usize::MAX)) {
            let shared = Arc::clone(&stream.shared);
            lock(&shared.outbox).threads += 1;
            let thread = std::thread::Builder::new().name("replications".to_owned());
            match thread.spawn(move || shared.work()) {
                Ok(thread) => stream.threads.push(thread),
                Err(error) => {
                    lock(&stream.shared.outbox).threads -= 1;
                    return Err(RunError::Threads { jobs, reason: error.to_string() });
                }
            }
        }
        Ok(stream)
    }

    /// Names of the metrics, in the order of a row's values.
    pub fn metrics(&self) -> Vec<String> {
        let all = || self.metrics.all();
        if self.width() < MANY { all() } else { in_other_heap(all) }
    }

    /// Number of metrics, which is the number of values of a row.
    pub fn width(&self) -> usize {
        self.shared.width
    }

    /// Returns the rows finished since the last call. Waits up to `wait`, or until the outbox is
    /// full or all replications have finished. Returns `None` once all have finished or the stream
    /// was stopped, and all rows have been taken.
    pub fn next(&self, wait: Duration) -> Result<Option<Vec<Finished>>, RunError> {
        let shared = &self.shared;
        // `None` if the deadline exceeds the range of the clock.
        let deadline = Instant::now().checked_add(wait);
        let mut outbox = lock(&shared.outbox);
        while outbox.threads > 0 && outbox.rows.len() < OUTBOX_ROWS {
            let left = deadline
                .map_or(wait, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            outbox = match shared.filled.wait_timeout(outbox, left) {
                Ok((outbox, _)) => outbox,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        if outbox.rows.is_empty() && outbox.threads == 0 {
            return outbox.failure.take().map_or(Ok(None), Err);
        }
        let rows = std::mem::take(&mut outbox.rows);
        shared.emptied.notify_all();
        Ok(Some(rows))
    }

    /// Abandons unfinished replications. Finished ones can still be taken.
    pub fn stop(&self) {
        // With the lock held, because a thread that is about to wait for room would miss the
        // notification otherwise.
        let _outbox = lock(&self.shared.outbox);
        self.shared.interrupt.store(true, Ordering::Relaxed);
        self.shared.emptied.notify_all();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // Threads catch the panics of replications; there is nothing to propagate.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Body of a thread.
    fn work(&self) {
        let failure = self.replicate().err();
        let mut outbox = lock(&self.outbox);
        if failure.is_some() {
            self.interrupt.store(true, Ordering::Relaxed);
            self.emptied.notify_all();
        }
        if outbox.failure.is_none() {
            outbox.failure = failure;
        }
        outbox.threads -= 1;
        self.filled.notify_all();
    }

    fn replicate(&self) -> Result<(), RunError> {
        while !self.is_interrupted() {
            let Some(task) = lock(&self.schedule).next() else {
                break;
            };
            let mut values = vec![f64::NAN; self.width];
            let streams = Streams { seed: self.seed, replication: task.replication };
            let index = task.point as usize;
            let (point, common) = (&self.points[index], &self.common[index]);
            let start = processor_time();
            let run = || replicate(point, common, streams, &self.interrupt, &mut values);
            // Data that a panic may have left inconsistent is not used again.
            let is_finished = catch_unwind(AssertUnwindSafe(run)).map_err(|_| {
                let Streams { seed, replication } = streams;
                RunError::Panic { point: point.name.clone(), hash: point.hash(), seed, replication }
            })??;
            if !is_finished {
                break;
            }
            let cost = processor_time().saturating_sub(start);
            lock(&self.schedule).learn(task.item, cost);
            let mut outbox = lock(&self.outbox);
            while outbox.rows.len() >= OUTBOX_ROWS && !self.is_interrupted() {
                outbox = self.emptied.wait(outbox).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
            let Task { point, replication, .. } = task;
            outbox.rows.push(Finished { point, replication, cost, values });
            if outbox.rows.len() >= OUTBOX_ROWS {
                self.filled.notify_all();
            }
        }
        Ok(())
    }
}

/// Number of cores available to this process, limited by its CPU affinity and quota.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get())
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    ThreadTime::now().as_duration()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The remaining work and its order.
#[derive(Debug, Default)]
struct Schedule {
    work: Vec<Work>,
    /// Indices of work of unknown cost that has not been started.
    untried: VecDeque<usize>,
    /// Work of unknown cost whose first replication is in progress. Its length is at most the
    /// number of threads.
    tried: VecDeque<usize>,
    /// Work of known cost, the most expensive first; ties are broken by index.
    known: BinaryHeap<(Duration, Reverse<usize>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    /// Index of the work that it belongs to.
    item: usize,
    point: u32,
    replication: u64,
}

impl Schedule {
    fn new(work: &[Work]) -> Self {
        let mut schedule = Schedule { work: work.to_vec(), ..Schedule::default() };
        for (item, work) in work.iter().enumerate() {
            match work.cost {
                _ if work.replications.is_empty() => {}
                None => schedule.untried.push_back(item),
                Some(cost) => schedule.known.push((cost, Reverse(item))),
            }
        }
        schedule
    }

    fn next(&mut self) -> Option<Task> {
        if let Some(item) = self.untried.pop_front() {
            let (task, is_last) = self.take(item)?;
            if !is_last {
                self.tried.push_back(item);
            }
            return Some(task);
        }
        if let Some(&(_, Reverse(item))) = self.known.peek() {
            let (task, is_last) = self.take(item)?;
            if is_last {
                self.known.pop();
            }
            return Some(task);
        }
        let item = *self.tried.front()?;
        let (task, is_last) = self.take(item)?;
        if is_last {
            self.tried.pop_front();
        }
        Some(task)
    }

    /// Returns the next replication of some work, and whether it is the last one.
    fn take(&mut self, item: usize) -> Option<(Task, bool)> {
        let work = &mut self.work[item];
        let replication = work.replications.next()?;
        Some((Task { item, point: work.point, replication }, work.replications.is_empty()))
    }

    /// Records the cost of a replication.
    fn learn(&mut self, item: usize, cost: Duration) {
        if let Some(place) = self.tried.iter().position(|tried| *tried == item) {
            self.tried.remove(place);
            self.known.push((cost, Reverse(item)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(point: u32, count: u64, cost: Option<u64>) -> Work {
        Work { point, replications: 0..count, cost: cost.map(Duration::from_millis) }
    }

    fn order(schedule: &mut Schedule) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| schedule.next()).map(|task| (task.point, task.replication)).collect()
    }

    #[test]
    fn no_wait_is_too_long() {
        let stream = Stream::start(Vec::new(), &[], 1, 1).expect("a stream");
        assert_eq!(stream.next(Duration::MAX).expect("no failure"), None);
    }

    #[test]
    fn the_dearest_goes_first_and_equals_in_order() {
        let list =
            [work(0, 1, Some(5)), work(1, 2, Some(9)), work(2, 1, Some(5)), work(3, 0, Some(99))];
        let expected = [(1, 0), (1, 1), (0, 0), (2, 0)];
        assert_eq!(order(&mut Schedule::new(&list)), expected);
    }

    #[test]
    fn every_unknown_point_is_tried_before_the_dearest_goes_on() {
        let mut schedule = Schedule::new(&[work(0, 2, None), work(1, 2, None), work(2, 1, None)]);
        let mut next = || schedule.next().map(|task| (task.point, task.replication));
        assert_eq!((next(), next()), (Some((0, 0)), Some((1, 0))));
        schedule.learn(0, Duration::from_millis(1));
        schedule.learn(1, Duration::from_millis(2));
        assert_eq!(order(&mut schedule), [(2, 0), (1, 1), (0, 1)]);
    }

    #[test]
    fn one_point_of_unknown_cost_keeps_all_threads_busy() {
        let mut schedule = Schedule::new(&[work(0, 3, None)]);
        assert_eq!(order(&mut schedule), [(0, 0), (0, 1), (0, 2)]);
        schedule.learn(0, Duration::from_millis(1));
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn gaps_of_a_point_are_filled() {
        let gaps = [Work { point: 0, replications: 7..9, cost: None }, work(0, 1, None)];
        assert_eq!(order(&mut Schedule::new(&gaps)), [(0, 7), (0, 0), (0, 8)]);
    }
}
