//! Congestion control algorithms written in Python.
//!
//! `lasthop.running.algorithms` loads a class and describes its errors. Here, an instance becomes a
//! [`CongestionControl`]: events call its methods, after which its attributes are read. Attributes
//! are written before the next call if the engine has changed them.

use lasthop::tcp::congestion_control::external::{
    self, Factory, Language, Loaded, Properties, Start, fail,
};
use lasthop::tcp::congestion_control::{
    AckSample, Congestion, CongestionControl, Delivery, Marks, RateSample,
};
use lasthop::units::{Duration, Instant};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};
use std::path::Path;

/// Module with the functions that load classes and describe errors.
const MODULE: &str = "lasthop.running.algorithms";

/// Largest window, in segments.
const LARGEST_WINDOW: f64 = 1e9;

/// An ACK for new data outside recovery. Times are in seconds, and in whole nanoseconds in
/// attributes that end in `_ns`.
///
/// Attributes that most classes read are Python objects: the interpreter reads them without a call.
#[pyclass(frozen, module = "lasthop._lasthop")]
pub(crate) struct Ack {
    /// Arrival time.
    #[pyo3(get)]
    now_ns: Py<PyInt>,
    /// Bytes acknowledged for the first time.
    #[pyo3(get)]
    acked: Py<PyInt>,
    /// Segments acknowledged or SACKed for the first time.
    #[pyo3(get)]
    delivered_segments: Py<PyInt>,
    /// Whether the window limited the sender.
    #[pyo3(get)]
    is_window_limited: bool,
    /// Bytes outstanding before the ACK.
    #[pyo3(get)]
    in_flight: Py<PyInt>,
    /// RTT of the acknowledged segment; None if ambiguous.
    #[pyo3(get)]
    rtt_ns: Option<u64>,
    /// Smoothed RTT; 0 before the first sample.
    #[pyo3(get)]
    srtt_ns: u64,
    /// Arrival time, of which `now` is computed.
    time: u64,
}

/// A number of an event as a Python object, which the next event with the same number uses again.
struct Counted {
    number: u64,
    object: Py<PyInt>,
}

impl Counted {
    fn new(py: Python<'_>) -> Self {
        Counted { number: 0, object: integer(py, 0) }
    }

    #[inline]
    fn get(&mut self, py: Python<'_>, number: u64) -> Py<PyInt> {
        if number != self.number {
            *self = Counted { number, object: integer(py, number) };
        }
        self.object.clone_ref(py)
    }
}

fn integer(py: Python<'_>, number: u64) -> Py<PyInt> {
    let Ok(object) = number.into_pyobject(py);
    object.unbind()
}

/// An ACK that acknowledges or SACKs new data, or a duplicate ACK, also in recovery.
#[pyclass(frozen, get_all, name = "Delivery", module = "lasthop._lasthop")]
pub(crate) struct DeliverySample {
    /// Arrival time.
    now_ns: u64,
    /// Bytes by which the first unacknowledged byte advances.
    acked: u64,
    /// Bytes acknowledged or SACKed for the first time.
    delivered: u64,
    /// Bytes delivered since the connection began.
    total: u64,
    /// Bytes outstanding after the ACK.
    in_flight: u64,
    /// Bytes declared lost since the connection began.
    lost: u64,
    /// Whether the ACK echoes a congestion mark.
    is_marked: bool,
    /// RTT of the latest segment acknowledged; None if ambiguous.
    rtt_ns: Option<u64>,
    /// Delivery rate in bit/s; None without a sample.
    delivery_rate: Option<f64>,
    /// Bytes that had been delivered when the segment was sent; None without a rate sample.
    prior_delivered: Option<u64>,
    /// Bytes that had been declared lost when the segment was sent; None without a rate sample.
    prior_lost: Option<u64>,
    /// Bytes in flight when the segment was sent; None without a rate sample.
    in_flight_at_send: Option<u64>,
    /// Whether the application limited the bytes in flight when the segment was sent.
    is_app_limited: bool,
}

/// A congestion signal or an expiry of the retransmission timer.
#[pyclass(frozen, get_all, module = "lasthop._lasthop")]
pub(crate) struct Signal {
    /// Time of the event.
    now_ns: u64,
    /// Segments in use, of which a reduction is computed: the flight size, or, for ns-2, the window.
    /// None if the timer expired for the same segment before.
    in_use: Option<f64>,
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

#[pymethods]
impl Ack {
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.time)
    }

    #[getter]
    fn rtt(&self) -> Option<f64> {
        self.rtt_ns.map(seconds)
    }

    #[getter]
    fn srtt(&self) -> f64 {
        seconds(self.srtt_ns)
    }
}

#[pymethods]
impl DeliverySample {
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.now_ns)
    }

    #[getter]
    fn rtt(&self) -> Option<f64> {
        self.rtt_ns.map(seconds)
    }
}

#[pymethods]
impl Signal {
    #[getter]
    fn now(&self) -> f64 {
        seconds(self.now_ns)
    }
}

/// The language, installed when the module is imported.
struct Python3;

static PYTHON: Python3 = Python3;

/// Makes Python available to scenarios.
pub(crate) fn install() {
    external::install(&PYTHON);
}

/// Cube root with the same bits on all platforms.
#[pyfunction]
pub(crate) fn cbrt(number: f64) -> f64 {
    lasthop::tcp::congestion_control::external::cbrt(number)
}

impl Language for Python3 {
    fn load(&self, file: &Path, class: &str) -> Result<Loaded, String> {
        Python::attach(|py| {
            let load = || -> PyResult<Loaded> {
                let found = py.import(MODULE)?.getattr("load")?.call1((file, class))?;
                let is_set = |name: &str| found.getattr(name)?.extract::<bool>();
                let marks: String = found.getattr("marks")?.extract()?;
                let properties = Properties {
                    measures: true,
                    reads_rates: is_set("reads_rates")?,
                    paces: is_set("paces")?,
                    controls_recovery: is_set("controls_recovery")?,
                    marks: match marks.as_str() {
                        "share" => Marks::Share,
                        "scalable" => Marks::Scalable,
                        _ => Marks::Classic,
                    },
                };
                let source = found.getattr("source")?.extract()?;
                Ok(Loaded { source, properties, factory: Box::new(Class(found.unbind())) })
            };
            load().map_err(|error| error.value(py).to_string())
        })
    }

    fn session(&self, work: &mut dyn FnMut()) {
        // An attached thread calls Python at a fraction of the cost of attaching for each call.
        Python::attach(|_| work());
    }
}

/// A loaded class: `lasthop.running.algorithms.Algorithm`.
struct Class(Py<PyAny>);

impl Factory for Class {
    fn start(&self, start: &Start) -> Box<dyn CongestionControl + Send + Sync> {
        match Python::attach(|py| {
            Instance::new(py, &self.0, start).map_err(|e| self.text(py, &e, ""))
        }) {
            Ok(instance) => Box::new(instance),
            Err(message) => fail(start.now, message),
        }
    }
}

impl Class {
    /// Describes an error in `method` in one line.
    fn text(&self, py: Python<'_>, error: &PyErr, method: &str) -> String {
        // `into_value` attaches the traceback.
        let value = error.clone_ref(py).into_value(py);
        let described = self.0.call_method1(py, "describe", (value, method));
        let text = described.and_then(|text| text.extract(py));
        text.unwrap_or_else(|_| error.to_string())
    }
}

/// Methods that a class may define.
struct Methods {
    ack: Py<PyAny>,
    loss: Py<PyAny>,
    ecn: Py<PyAny>,
    timeout: Py<PyAny>,
    delivery: Option<Py<PyAny>>,
    sent: Option<Py<PyAny>>,
    spurious: Option<Py<PyAny>>,
}

/// An instance of a class.
struct Instance {
    class: Class,
    object: Py<PyAny>,
    methods: Methods,
    attributes: [Py<PyString>; 3],
    /// Bytes and segments of the latest ACK.
    acked: Counted,
    in_flight: Counted,
    delivered_segments: Counted,
    segment: u64,
    state: State,
    /// Window and threshold before the latest reduction.
    prior: State,
    /// Time of the latest event.
    last: Instant,
    /// Whether the engine has changed the window or the threshold since the last call.
    is_changed: bool,
}

/// Attributes of an instance.
#[derive(Clone, Copy, PartialEq)]
struct State {
    /// Window in segments.
    cwnd: f64,
    /// Window in bytes.
    window: u64,
    /// Threshold in segments; `None` if the class has none.
    ssthresh: Option<f64>,
    /// Threshold in its place: the window after the latest reduction.
    target: f64,
    /// Pacing rate in bytes per second; `None`: derived from the window.
    rate: Option<f64>,
}

const CWND: usize = 0;
const SSTHRESH: usize = 1;
const RATE: usize = 2;

impl Instance {
    fn new(py: Python<'_>, class: &Py<PyAny>, start: &Start) -> PyResult<Self> {
        let class = class.bind(py);
        let arguments = (start.segment, start.cwnd, start.seed);
        let object = class.call_method1("start", arguments)?;
        let method = |name: &str| object.getattr(name).map(Bound::unbind);
        let optional = |name: &str| match object.getattr_opt(name)? {
            Some(found) if !found.is_none() => Ok::<_, PyErr>(Some(found.unbind())),
            _ => Ok(None),
        };
        let methods = Methods {
            ack: method("on_ack")?,
            loss: method("on_loss")?,
            ecn: optional("on_ecn")?.map_or_else(|| method("on_loss"), Ok)?,
            timeout: method("on_timeout")?,
            delivery: optional("on_delivery")?,
            sent: optional("on_sent")?,
            spurious: optional("on_spurious")?,
        };
        let name = |text: &str| PyString::intern(py, text).unbind();
        let state = State {
            cwnd: start.cwnd,
            window: 0,
            ssthresh: None,
            target: f64::INFINITY,
            rate: None,
        };
        let mut instance = Instance {
            class: Class(class.clone().unbind()),
            object: object.unbind(),
            methods,
            attributes: ["cwnd", "ssthresh", "pacing_rate"].map(name),
            acked: Counted::new(py),
            in_flight: Counted::new(py),
            delivered_segments: Counted::new(py),
            segment: start.segment,
            state,
            prior: state,
            last: start.now,
            is_changed: false,
        };
        instance.read(py)?;
        instance.prior = instance.state;
        Ok(instance)
    }

    /// Reads the attributes.
    fn read(&mut self, py: Python<'_>) -> PyResult<()> {
        let object = self.object.bind(py);
        let attribute = |which: usize| object.getattr(self.attributes[which].bind(py));
        let cwnd = attribute(CWND)?.extract::<f64>().ok();
        let cwnd = cwnd.filter(|cwnd| (f64::MIN_POSITIVE..=LARGEST_WINDOW).contains(cwnd));
        let wrong = |which: usize, allowed: &str| {
            let name = self.attributes[which].bind(py);
            let found = attribute(which)
                .and_then(|value| value.repr())
                .map_or_else(|_| "an invalid value".to_owned(), |text| text.to_string());
            PyValueError::new_err(format!("{name}: found {found}; expected {allowed}"))
        };
        let cwnd =
            cwnd.ok_or_else(|| wrong(CWND, "a number of segments, more than 0 and at most 1e9"))?;
        let optional = |which: usize| -> Result<Option<f64>, ()> {
            let value = attribute(which).map_err(|_| ())?;
            if value.is_none() {
                return Ok(None);
            }
            value.extract::<f64>().ok().filter(|number| *number > 0.0).map(Some).ok_or(())
        };
        let ssthresh = optional(SSTHRESH)
            .map_err(|()| wrong(SSTHRESH, "None or a positive number of segments"))?;
        let rate =
            optional(RATE).map_err(|()| wrong(RATE, "None or a positive number of bit/s"))?;
        let window = (cwnd * self.segment as f64) as u64;
        self.state =
            State { cwnd, window, ssthresh, rate: rate.map(|bits| bits / 8.0), ..self.state };
        Ok(())
    }

    /// Writes the attributes that the engine has changed.
    fn write(&mut self, py: Python<'_>) -> PyResult<()> {
        let object = self.object.bind(py);
        object.setattr(self.attributes[CWND].bind(py), self.state.cwnd)?;
        if self.state.ssthresh.is_some() {
            object.setattr(self.attributes[SSTHRESH].bind(py), self.state.ssthresh)?;
        }
        self.is_changed = false;
        Ok(())
    }

    /// Calls a method and reads the attributes.
    #[inline]
    fn call(
        &mut self,
        now: Instant,
        name: &str,
        call: impl FnOnce(Python<'_>, &mut Self) -> PyResult<()>,
    ) {
        self.last = now;
        let message = Python::attach(|py| {
            let mut outcome = if self.is_changed { self.write(py) } else { Ok(()) };
            outcome = outcome.and_then(|()| call(py, self)).and_then(|()| self.read(py));
            outcome.err().map(|error| self.class.text(py, &error, name))
        });
        if let Some(message) = message {
            fail(now, message);
        }
    }

    fn reduce(&mut self, now: Instant, name: &str, in_use: Option<f64>) {
        self.prior = self.state;
        self.call(now, name, |py, instance| {
            let method = match name {
                "on_timeout" => &instance.methods.timeout,
                "on_ecn" => &instance.methods.ecn,
                _ => &instance.methods.loss,
            };
            method.call1(py, (Signal { now_ns: now.as_nanos(), in_use },)).map(drop)
        });
    }
}

fn rate_of(sample: &RateSample) -> f64 {
    8.0 * sample.rate()
}

impl CongestionControl for Instance {
    fn on_ack(&mut self, sample: &AckSample) {
        self.call(sample.now, "on_ack", |py, instance| {
            let time = sample.now.as_nanos();
            let ack = Ack {
                now_ns: integer(py, time),
                acked: instance.acked.get(py, sample.acked),
                delivered_segments: instance
                    .delivered_segments
                    .get(py, sample.delivered_segments.into()),
                is_window_limited: sample.is_window_limited,
                in_flight: instance.in_flight.get(py, sample.prior_in_flight),
                rtt_ns: sample.rtt.map(Duration::as_nanos),
                srtt_ns: sample.srtt.as_nanos(),
                time,
            };
            instance.methods.ack.call1(py, (ack,)).map(drop)
        });
    }

    fn on_delivery(&mut self, delivery: &Delivery) {
        if self.methods.delivery.is_none() {
            return;
        }
        let rate = delivery.rate.filter(|rate| rate.interval > Duration::ZERO);
        let sample = DeliverySample {
            now_ns: delivery.now.as_nanos(),
            acked: delivery.acked,
            delivered: delivery.delivered,
            total: delivery.total,
            in_flight: delivery.in_flight,
            lost: delivery.lost,
            is_marked: delivery.is_marked,
            rtt_ns: delivery.rtt.map(Duration::as_nanos),
            delivery_rate: rate.as_ref().map(rate_of),
            prior_delivered: rate.map(|rate| rate.prior_delivered),
            prior_lost: rate.map(|rate| rate.prior_lost),
            in_flight_at_send: rate.map(|rate| rate.in_flight_at_send),
            is_app_limited: rate.is_some_and(|rate| rate.is_app_limited),
        };
        self.call(delivery.now, "on_delivery", |py, instance| match &instance.methods.delivery {
            Some(method) => method.call1(py, (sample,)).map(drop),
            None => Ok(()),
        });
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion, in_use: f64) {
        let name = match congestion {
            Congestion::Loss => "on_loss",
            Congestion::Ecn => "on_ecn",
        };
        self.reduce(now, name, Some(in_use));
        self.state.target = self.state.cwnd;
    }

    fn on_timeout(&mut self, now: Instant, in_use: Option<f64>) {
        let prior = self.prior;
        self.reduce(now, "on_timeout", in_use);
        if in_use.is_none() {
            self.prior = prior;
        }
    }

    /// Restores window and threshold, like the algorithms of the engine, unless the class does.
    fn on_spurious(&mut self) {
        if self.methods.spurious.is_none() {
            self.state.cwnd = self.state.cwnd.max(self.prior.cwnd);
            self.state.window = (self.state.cwnd * self.segment as f64) as u64;
            let restored =
                self.state.ssthresh.zip(self.prior.ssthresh).map(|(now, then)| now.max(then));
            self.state.ssthresh = restored.or(self.state.ssthresh);
            self.state.target = self.state.target.max(self.prior.target);
            self.is_changed = true;
            return;
        }
        self.call(self.last, "on_spurious", |py, instance| match &instance.methods.spurious {
            Some(method) => method.call0(py).map(drop),
            None => Ok(()),
        });
    }

    fn on_sent(&mut self, now: Instant, bytes: u64) {
        if self.methods.sent.is_none() {
            return;
        }
        self.call(now, "on_sent", |py, instance| match &instance.methods.sent {
            Some(method) => method.call1(py, (seconds(now.as_nanos()), bytes)).map(drop),
            None => Ok(()),
        });
    }

    fn window(&self) -> u64 {
        self.state.window
    }

    fn cwnd(&self) -> f64 {
        self.state.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.state.ssthresh.unwrap_or(self.state.target)
    }

    fn set_cwnd(&mut self, cwnd: f64) {
        self.state.cwnd = cwnd;
        self.state.window = (cwnd * self.segment as f64) as u64;
        self.is_changed = true;
    }

    fn slow_start_to(&mut self, cwnd: f64, ssthresh: f64) {
        match &mut self.state.ssthresh {
            Some(own) => *own = ssthresh,
            None => self.state.target = ssthresh,
        }
        self.set_cwnd(cwnd);
    }

    fn pacing_rate(&self, srtt: Duration) -> f64 {
        self.state.rate.unwrap_or_else(|| {
            let is_in_slow_start = self.state.cwnd < self.ssthresh();
            external::window_rate(self.state.window, is_in_slow_start, srtt)
        })
    }
}
