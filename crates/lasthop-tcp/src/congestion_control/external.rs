//! Congestion control algorithms outside the engine: classes in Python.
//!
//! The engine contains no interpreter. A [`Language`], installed once per process, loads the class
//! that a scenario names and creates one instance per connection. An instance is a
//! [`CongestionControl`] behind a trait object, which algorithms of the engine do not need. It is
//! created at the first event of its sender: a connection that sends nothing has none.
//!
//! An instance that cannot continue calls [`fail`], which ends the replication. [`session`] returns
//! the failure to the caller of the simulation.
//!
//! *Not modelled*: HyStart++, byte counting and ABE do not apply to these algorithms, and they
//! cannot be used without TCP.

use super::super::config::Config;
use super::{
    AckSample, Congestion, CongestionControl, Control, Delivery, LostSegment, Marks,
    window_over_round_trip,
};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Field, Limits, Node, Read, Shape, table};
use lasthop_base::units::{Duration, Instant};
use serde_json::Value;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

table! {
    /// Algorithm written in Python: a class whose methods handle ACKs, losses, marks and timeouts,
    /// and whose attributes are the window and the pacing rate.
    pub struct PythonKeys as "python" {
        /// File and name of the class, as in "my_cc.py:MyCc"; relative to the scenario file.
        class: ClassRef;
    }
}

impl Copy for PythonKeys {}

/// Form of the key `class`.
const ALLOWED: &str = "FILE:CLASS, such as \"my_cc.py:MyCc\"";

/// Properties that a class declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// Whether it handles [`CongestionControl::on_delivery`], and needs the RTT of each ACK.
    pub measures: bool,
    /// Whether it also needs delivery rates.
    pub reads_rates: bool,
    /// Whether it sets a pacing rate, so that pacing is on by default.
    pub paces: bool,
    /// Whether it controls the window in recovery.
    pub controls_recovery: bool,
    /// How it uses congestion marks.
    pub marks: Marks,
}

/// A class that was loaded.
pub struct Loaded {
    /// Text of its file, which identifies the algorithm in addition to its name.
    pub source: String,
    /// Properties that it declares.
    pub properties: Properties,
    /// Creates instances.
    pub factory: Box<dyn Factory>,
}

/// Creates the instances of a class.
pub trait Factory: Send + Sync {
    /// Creates an instance for one end of a connection. Calls [`fail`] if that is impossible.
    fn start(&self, start: &Start) -> Box<dyn CongestionControl + Send + Sync>;
}

/// Initial state of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Time of its first event.
    pub now: Instant,
    /// SMSS in bytes.
    pub segment: u64,
    /// Window in segments.
    pub cwnd: f64,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// Language in which external algorithms are written.
pub trait Language: Sync {
    /// Loads a class of a file.
    ///
    /// # Errors
    /// The reason, in one line, if there is no such class, or if the user has not permitted its
    /// execution.
    fn load(&self, file: &Path, class: &str) -> Result<Loaded, String>;

    /// Calls `work`, in which instances are used, once and in this thread.
    fn session(&self, work: &mut dyn FnMut());
}

static LANGUAGE: OnceLock<&'static dyn Language> = OnceLock::new();

/// Installs the language of external algorithms; only the first call has an effect.
pub fn install(language: &'static dyn Language) {
    let _ = LANGUAGE.set(language);
}

struct Class {
    /// As in the scenario.
    name: String,
    file: String,
    loaded: Loaded,
}

/// Classes that scenarios have named. They are kept until the process ends: the parameters of a
/// connection are `Copy`, and a process uses few classes.
static CLASSES: Mutex<Vec<&'static Class>> = Mutex::new(Vec::new());

/// A class that a scenario names, and the seed of its instances.
#[derive(Clone, Copy)]
pub struct ClassRef {
    class: &'static Class,
    seed: u64,
}

impl std::fmt::Debug for ClassRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (seed {})", self.class.name, self.seed)
    }
}

impl PartialEq for ClassRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.class, other.class) && self.seed == other.seed
    }
}

impl ClassRef {
    /// Returns the properties that the class declares.
    pub fn properties(&self) -> Properties {
        self.class.loaded.properties
    }

    /// Returns the text of its file.
    pub fn source(&self) -> &'static str {
        &self.class.loaded.source
    }

    /// Derives the seed of its instances from random `bits`.
    #[must_use]
    pub fn seeded(self, bits: u64) -> Self {
        let streams = Streams { seed: bits, replication: 0 };
        ClassRef { seed: streams.stream("tcp", "congestion control").bits(), ..self }
    }
}

impl Field for ClassRef {
    const SHAPE: Shape = Shape::Text;

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let name = String::read(node, limits)?;
        let parts = name.rsplit_once(':');
        let Some((file, class)) =
            parts.filter(|(file, class)| !file.is_empty() && !class.is_empty())
        else {
            return Err(node.wrong(ALLOWED));
        };
        let Some(language) = LANGUAGE.get() else {
            let found = format!("{name:?}, but this program cannot run Python");
            return Err(node.error(found, "the Python package lasthop"));
        };
        node.files.read_once(file, class, |path| {
            let loaded = language
                .load(path, class)
                .map_err(|reason| node.error(format!("{name:?}: {reason}"), ALLOWED))?;
            Ok(intern(&name, path, loaded))
        })
    }

    fn write(&self) -> Value {
        self.class.name.as_str().into()
    }
}

/// Returns the keys of an algorithm that is not named by a scenario. It is kept until the process
/// ends.
pub fn register(loaded: Loaded) -> PythonKeys {
    let (name, file) = ("registered".to_owned(), String::new());
    let class = Box::leak(Box::new(Class { name, file, loaded }));
    PythonKeys { class: ClassRef { class, seed: 0 } }
}

/// Returns the class that is known by this name, file and text, or adds it.
fn intern(name: &str, path: &Path, loaded: Loaded) -> ClassRef {
    let file = path.display().to_string();
    let mut classes = CLASSES.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = |class: &Class| {
        class.name == name && class.file == file && class.loaded.source == loaded.source
    };
    let class = classes.iter().copied().find(|class| is_known(class)).unwrap_or_else(|| {
        let class = Box::leak(Box::new(Class { name: name.to_owned(), file, loaded }));
        classes.push(class);
        class
    });
    ClassRef { class, seed: 0 }
}

/// Returns the pacing rate, in bytes per second, with which a window is sent in less than one RTT.
pub fn window_rate(window: u64, is_in_slow_start: bool, srtt: Duration) -> f64 {
    window_over_round_trip(window, is_in_slow_start, srtt)
}

/// Returns the cube root, with the same bits on all platforms.
pub fn cbrt(number: f64) -> f64 {
    libm::cbrt(number)
}

/// The reason why an external algorithm cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Simulated time.
    pub at: Instant,
    /// Place and reason, in one line.
    pub message: String,
}

/// Ends the replication. Calls are within [`session`], which returns the failure.
pub fn fail(at: Instant, message: String) -> ! {
    // The panic hook is not called: the failure is one of the algorithm, not of the engine.
    resume_unwind(Box::new(Failure { at, message }))
}

/// Calls `work`, in which external algorithms may be used.
///
/// # Errors
/// If an algorithm fails; data of `work` must not be used then.
pub fn session<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    let (mut work, mut outcome) = (Some(work), None);
    let mut once = || {
        if let Some(work) = work.take() {
            outcome = Some(catch_unwind(AssertUnwindSafe(work)));
        }
    };
    match LANGUAGE.get() {
        Some(language) => language.session(&mut once),
        None => once(),
    }
    let failed = |payload: Box<dyn Any + Send>| match payload.downcast::<Failure>() {
        Ok(failure) => *failure,
        Err(other) => resume_unwind(other),
    };
    outcome.expect("a session calls its work").map_err(failed)
}

/// An external algorithm of one end of a connection.
pub struct External {
    class: ClassRef,
    segment: u64,
    /// Window in segments before the instance is created.
    cwnd: f64,
    /// Number of connections that used this state before.
    incarnation: u64,
    instance: Option<Box<dyn CongestionControl + Send + Sync>>,
}

impl std::fmt::Debug for External {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "External({:?}, cwnd {})", self.class, self.cwnd())
    }
}

/// A copy has the window of the original and begins with a new instance.
impl Clone for External {
    fn clone(&self) -> Self {
        External { cwnd: self.cwnd(), instance: None, ..*self }
    }
}

impl External {
    /// Creates the algorithm with a window of `cwnd` segments.
    pub(super) fn new(keys: &PythonKeys, config: &Config, cwnd: f64) -> Self {
        let segment = config.segment.get();
        External { class: keys.class, segment, cwnd, incarnation: 0, instance: None }
    }

    /// Resets the state for the next connection.
    pub(super) fn restart(&mut self, config: &Config, cwnd: f64) {
        let (segment, incarnation) = (config.segment.get(), self.incarnation + 1);
        *self = External { class: self.class, segment, cwnd, incarnation, instance: None };
    }

    /// Returns the instance, which is created at the first event.
    #[inline]
    fn instance(&mut self, now: Instant) -> &mut (dyn CongestionControl + Send + Sync) {
        let External { class, segment, cwnd, incarnation, instance } = self;
        let create = || {
            let seed = class.seed.wrapping_add(*incarnation);
            let start = Start { now, segment: *segment, cwnd: *cwnd, seed };
            class.class.loaded.factory.start(&start)
        };
        &mut **instance.get_or_insert_with(create)
    }
}

impl CongestionControl for External {
    fn on_ack(&mut self, sample: &AckSample) {
        self.instance(sample.now).on_ack(sample);
    }

    fn on_delivery(&mut self, delivery: &Delivery) {
        self.instance(delivery.now).on_delivery(delivery);
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        if let Some(instance) = &mut self.instance {
            instance.on_lost(lost);
        }
    }

    fn on_established(&mut self, now: Instant, rtt: Option<Duration>) {
        if let Some(instance) = &mut self.instance {
            instance.on_established(now, rtt);
        }
    }

    fn on_control(&mut self, control: &Control) {
        if let Some(instance) = &mut self.instance {
            instance.on_control(control);
        }
    }

    fn is_self_limited(&self) -> bool {
        false
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64) {
        self.instance(now).on_congestion(now, congestion, in_use);
    }

    fn on_timeout(&mut self, now: Instant, in_use: Option<f64>) {
        self.instance(now).on_timeout(now, in_use);
    }

    fn on_spurious(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.on_spurious();
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.instance(now).on_sent(now, bytes);
    }

    fn keeps_window_in_recovery(&self) -> bool {
        self.class.properties().controls_recovery
    }

    fn window(&self) -> u64 {
        let before = (self.cwnd * self.segment as f64) as u64;
        self.instance.as_ref().map_or(before, |instance| instance.window())
    }

    fn cwnd(&self) -> f64 {
        self.instance.as_ref().map_or(self.cwnd, |instance| instance.cwnd())
    }

    fn ssthresh(&self) -> f64 {
        self.instance.as_ref().map_or(f64::INFINITY, |instance| instance.ssthresh())
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.cwnd = cwnd;
        if let Some(instance) = &mut self.instance {
            instance.set_cwnd(cwnd);
        }
    }

    fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
        self.cwnd = cwnd;
        if let Some(instance) = &mut self.instance {
            instance.slow_start_to(cwnd, ssthresh);
        }
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        match &self.instance {
            Some(instance) => instance.pacing_rate(srtt),
            None => window_over_round_trip(self.window(), true, srtt),
        }
    }
}
