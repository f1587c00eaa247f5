//! Python bindings of the analytic models.

use lasthop::analysis::arq_efficiency::{ArqLink, rlp_residual_loss};
use lasthop::analysis::block_codes::{self, BlockLoss};
use lasthop::analysis::dcf_saturation::{Counting, Saturation, Times};
use lasthop::analysis::frame_loss::{self, TwoStateLoss};
use lasthop::analysis::gilbert_elliott::GilbertElliottLaw;
use lasthop::analysis::ideal_sr;
use lasthop::analysis::loss_notification::{self, Form, PathDelays, Scheme};
use lasthop::analysis::tcp_chain::{self, TcpChain};
use lasthop::analysis::tcp_formulas::{LossSpacing, TcpPath};
use lasthop::analysis::{self, Restart};
use lasthop::channel::MarkovChainParameters;
use lasthop::medium::dcf::{Phy, Preamble, Standard};
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Decibels, Distance, Duration, Probability, Rate};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    lasthop,
    AnalysisError,
    PyValueError,
    "An argument of a model is invalid: name, value found, values allowed."
);

pub(crate) fn refused(error: analysis::AnalysisError) -> PyErr {
    AnalysisError::new_err(error.to_string())
}

/// A Gilbert–Elliott channel in its stationary distribution.
#[pyclass(frozen, module = "lasthop._lasthop")]
struct ChannelLaw(GilbertElliottLaw);

#[pymethods]
impl ChannelLaw {
    #[new]
    fn new(
        good_to_bad: f64,
        bad_to_good: f64,
        loss_in_good: f64,
        loss_in_bad: f64,
    ) -> PyResult<Self> {
        GilbertElliottLaw::new(good_to_bad, bad_to_good, loss_in_good, loss_in_bad)
            .map(Self)
            .map_err(refused)
    }

    fn spaced(&self, frames: u32) -> PyResult<Self> {
        self.0.spaced(frames).map(Self).map_err(refused)
    }

    /// Transition probabilities out of good and bad, and loss probabilities in good and bad.
    fn parameters(&self) -> [f64; 4] {
        let ([p, r], [good, bad]) = (self.0.leave(), self.0.loss());
        [p, r, good, bad]
    }

    fn bad_share(&self) -> f64 {
        self.0.stationary()[1]
    }

    fn loss_rate(&self) -> f64 {
        self.0.loss_rate()
    }

    fn mean_run(&self, lost: bool) -> PyResult<f64> {
        self.0.mean_run(lost).map_err(refused)
    }

    fn run_lengths(&self, lost: bool, longest: u32) -> PyResult<Vec<f64>> {
        self.0.run_lengths(lost, longest).map_err(refused)
    }

    fn losses_among(&self, frames: u32) -> PyResult<Vec<f64>> {
        self.0.losses_among(frames).map_err(refused)
    }

    fn loss_correlation(&self, distance: u32) -> PyResult<f64> {
        self.0.loss_correlation(distance).map_err(refused)
    }

    /// Residual loss and block failure of an MDS code.
    fn mds(&self, py: Python<'_>, n: u32, k: u32) -> PyResult<(f64, f64)> {
        let block = py.detach(|| block_codes::mds(&self.0, n, k)).map_err(refused)?;
        let BlockLoss { residual, failure } = block;
        Ok((residual, failure))
    }

    fn parity_for(&self, py: Python<'_>, k: u32, target: f64, most: u32) -> PyResult<u32> {
        py.detach(|| block_codes::parity_for(&self.0, k, target, most)).map_err(refused)
    }
}

/// The selective-repeat chain.
#[pyclass(frozen, module = "lasthop._lasthop")]
struct ArqChain(analysis::ArqChain);

#[pymethods]
impl ArqChain {
    #[new]
    fn new(channel: &ChannelLaw, pdus: u32, spacing: u32) -> PyResult<Self> {
        analysis::ArqChain::new(channel.0, pdus, spacing).map(Self).map_err(refused)
    }

    /// F(0) to F(longest).
    fn residual_losses(&self, py: Python<'_>, longest: u32) -> PyResult<Vec<f64>> {
        py.detach(|| self.0.residual_loss_table(longest)).map_err(refused)
    }

    fn residual_loss(&self, py: Python<'_>, limit: u32) -> PyResult<f64> {
        py.detach(|| self.0.residual_loss(limit)).map_err(refused)
    }

    fn approximate_residual_loss(&self, limit: u32) -> PyResult<f64> {
        self.0.approximate_residual_loss(limit).map_err(refused)
    }

    fn mean_attempts(&self, py: Python<'_>, limit: Option<u32>) -> PyResult<f64> {
        let mean = py.detach(|| match limit {
            None => self.0.mean_attempts(),
            Some(limit) => self.0.mean_attempts_limited(limit),
        });
        mean.map_err(refused)
    }

    fn mean_attempts_of_delivered(&self, py: Python<'_>, limit: u32) -> PyResult<f64> {
        py.detach(|| self.0.mean_attempts_of_delivered(limit)).map_err(refused)
    }

    fn transmissions_per_pdu(&self, py: Python<'_>, limit: Option<u32>) -> PyResult<f64> {
        py.detach(|| self.0.transmissions_per_pdu(limit)).map_err(refused)
    }

    fn attempts_quantile(
        &self,
        py: Python<'_>,
        quantile: f64,
        limit: Option<u32>,
    ) -> PyResult<u32> {
        py.detach(|| self.0.attempts_quantile(quantile, limit)).map_err(refused)
    }

    fn attempts_law(&self, py: Python<'_>, longest: u32) -> PyResult<Vec<f64>> {
        py.detach(|| self.0.attempts_law(longest)).map_err(refused)
    }

    fn frames(&self, attempts: u32) -> u64 {
        self.0.frames(attempts)
    }

    fn dominant_eigenvalue(&self) -> f64 {
        self.0.dominant_eigenvalue()
    }

    fn limit_for(&self, py: Python<'_>, target: f64, exact: bool) -> PyResult<u32> {
        let limit = py.detach(|| {
            if exact { self.0.limit_for(target) } else { self.0.limit_for_approximate(target) }
        });
        limit.map_err(refused)
    }

    /// The restart is `restart_after` frames later; in the stationary channel if `None`.
    fn energy_ratio(
        &self,
        py: Python<'_>,
        limit: u32,
        restart_after: Option<u32>,
    ) -> PyResult<f64> {
        let restart = restart_after.map_or(Restart::Stationary, Restart::After);
        py.detach(|| self.0.energy_ratio(limit, restart)).map_err(refused)
    }
}

/// Stationary distribution of the TCP window chain, mean window, packets per second.
#[pyfunction]
fn tcp_window_chain(
    py: Python<'_>,
    loss: f64,
    max_window: Option<u32>,
    capacity: f64,
    round_trip: f64,
) -> PyResult<(Vec<f64>, f64, f64)> {
    py.detach(|| {
        let chain = TcpChain::new(loss, max_window)?;
        let throughput = chain.throughput(capacity, round_trip)?;
        Ok((chain.stationary().to_vec(), chain.mean_window(), throughput))
    })
    .map_err(refused)
}

/// Radio loss, total loss, transmissions per PDU, RTT, capacity, throughput, goodput.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as many as the model has")]
fn tcp_over_arq(
    py: Python<'_>,
    channel: &ChannelLaw,
    pdus: u32,
    spacing: u32,
    limit: Option<u32>,
    frame: f64,
    capacity: f64,
    wired_loss: f64,
    wired_round_trip: f64,
) -> PyResult<[f64; 7]> {
    let channel = channel.0;
    let system = tcp_chain::TcpOverArq {
        channel,
        pdus,
        spacing,
        limit,
        frame,
        capacity,
        wired_loss,
        wired_round_trip,
    };
    let found = py.detach(|| system.solve()).map_err(refused)?;
    Ok([
        found.radio_loss,
        found.loss,
        found.transmissions_per_pdu,
        found.round_trip,
        found.capacity,
        found.throughput,
        found.goodput,
    ])
}

/// Segments per second: Mathis (regular, independent losses), PFTK simplified, PFTK full.
#[pyfunction]
fn tcp_formulas(
    loss: f64,
    round_trip: f64,
    timeout: f64,
    segments_per_ack: u32,
    window: f64,
) -> PyResult<[f64; 4]> {
    let path =
        TcpPath::new(loss, round_trip, timeout, segments_per_ack, window).map_err(refused)?;
    Ok([
        path.mathis(LossSpacing::Regular),
        path.mathis(LossSpacing::Independent),
        path.padhye_simplified(),
        path.padhye(),
    ])
}

/// Efficiency of stop-and-wait, go-back-N, selective repeat.
#[pyfunction]
fn arq_efficiency(loss: f64, round_trip: f64, recovery: f64, window: u32) -> PyResult<[f64; 3]> {
    let link = ArqLink::new(loss, round_trip, recovery).map_err(refused)?;
    Ok([
        link.stop_and_wait(),
        link.go_back_n(window).map_err(refused)?,
        link.selective_repeat(window).map_err(refused)?,
    ])
}

#[pyfunction]
#[pyo3(name = "rlp_residual_loss")]
fn rlp(loss: f64, control_loss: f64, rounds: u32) -> PyResult<f64> {
    rlp_residual_loss(loss, control_loss, rounds).map_err(refused)
}

/// Loss of a frame under independent bit errors.
#[pyfunction]
fn independent_bits_loss(ber: f64, bits: u64) -> PyResult<f64> {
    frame_loss::independent_bits(ber, bits).map_err(refused)
}

/// Loss of a frame under bit errors at exponential intervals.
#[pyfunction]
fn exponential_bits_loss(mean: f64, bits: u64) -> PyResult<f64> {
    frame_loss::exponential_bits(mean, bits).map_err(refused)
}

/// Loss of a frame on a channel with two states in time.
#[pyfunction]
fn two_state_loss(durations: [f64; 2], bers: [f64; 2], bits: u64, airtime: f64) -> PyResult<f64> {
    TwoStateLoss { durations, bers }.of(bits, airtime).map_err(refused)
}

/// Loss of a frame on a Markov chain that steps once per frame.
#[pyfunction]
fn markov_chain_loss(transitions: Vec<Vec<f64>>, loss: Vec<f64>) -> PyResult<f64> {
    let read = |name: &str, list: Vec<f64>| -> PyResult<Vec<Probability>> {
        let one = |p| {
            Probability::new(p).ok_or_else(|| {
                AnalysisError::new_err(format!(
                    "{name}: found {p}; expected a probability, from 0 to 1"
                ))
            })
        };
        list.into_iter().map(one).collect()
    };
    let rows = transitions.into_iter().map(|row| read("transitions", row));
    let chain = MarkovChainParameters {
        transitions: rows.collect::<PyResult<_>>()?,
        loss: read("loss", loss)?,
    };
    chain.mean_loss().map_err(|error| AnalysisError::new_err(error.to_string()))
}

/// Counters of an ideal link as dict entries, and the delays.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as many as the model has")]
fn ideal_selective_repeat(
    py: Python<'_>,
    channel: &ChannelLaw,
    pdus: u32,
    spacing: u32,
    limit: Option<u32>,
    capacity: Option<u32>,
    amount: u64,
    gap: Option<u32>,
    seed: u64,
) -> PyResult<([u64; 5], Vec<u64>)> {
    let link = ideal_sr::IdealSr { channel: channel.0, pdus, spacing, limit, capacity };
    let streams = Streams { seed, replication: 0 };
    let counts = py.detach(|| match gap {
        Some(gap) => link.run_isolated(amount, gap, &streams, "ideal link"),
        None => link.run_saturated(amount, &streams, "ideal link"),
    });
    let counts = counts.map_err(refused)?;
    let numbers =
        [counts.frames, counts.delivered, counts.given_up, counts.transmissions, counts.arrivals];
    Ok((numbers, counts.delays))
}

/// Saturated stations of 802.11: throughput, collision probabilities (of all attempts, and of
/// attempts after backoff), transmission and drop probabilities, delay, fractions of time.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as many as the model has")]
fn dcf_saturation(
    stations: u32,
    standard: &str,
    short_preamble: bool,
    rates: [Option<u64>; 2],
    sizes: [u64; 2],
    rts: bool,
    windows: [Option<u32>; 2],
    limit: Option<u32>,
    freezes: bool,
) -> PyResult<([f64; 6], [f64; 3])> {
    let known = [Standard::B, Standard::A, Standard::G];
    let standard = known.into_iter().find(|known| known.word() == standard).ok_or_else(|| {
        let words = known.map(Standard::word).join(", ");
        AnalysisError::new_err(format!("standard: found {standard:?}; expected {words}"))
    })?;
    let rate = |name: &str, bps: Option<u64>, default: Rate| {
        let rate = bps.map_or(default, Rate::from_bps);
        if standard.rates().any(|known| known == rate) {
            return Ok(rate);
        }
        let words: Vec<_> = standard.rates().map(|known| known.to_string()).collect();
        let allowed = words.join(", ");
        Err(AnalysisError::new_err(format!("{name}: found {rate}; expected {allowed}")))
    };
    let data = rate("rate", rates[0], standard.rates().last().unwrap_or_default())?;
    let control = rate("control_rate", rates[1], standard.control_rate(data))?;
    let preamble = if short_preamble { Preamble::Short } else { Preamble::Long };
    let phy = Phy { standard, preamble };
    let timing = phy.timing();
    let windows = [windows[0].unwrap_or(timing.cw_min), windows[1].unwrap_or(timing.cw_max)];
    let counting = if freezes { Counting::Idle } else { Counting::Always };
    let model = Saturation::new(stations, windows, limit, counting);
    let found = model.and_then(|model| model.solve()).map_err(refused)?;
    let times = Times::of(phy, &timing, [data, control], sizes.map(Bytes::new), rts);
    let throughput = found.throughput(&times).map_err(refused)?;
    let delay = found.delay(&times).map_err(refused)?;
    let shares = found.shares(&times).map_err(refused)?;
    let results =
        [throughput, found.collision, found.contention, found.transmission, found.drop, delay];
    Ok((results, shares))
}

/// Slots between notifications on a slotted link: ERSN as printed, ERSN, ELN.
#[pyfunction]
fn notification_intervals(p: f64, limit: u32) -> PyResult<[f64; 3]> {
    let ersn = |form| loss_notification::ersn_interval(p, limit, form).map_err(refused);
    let eln = loss_notification::eln_interval(p, limit).map_err(refused)?;
    Ok([ersn(Form::Printed)?, ersn(Form::Exact)?, eln])
}

/// Delay of a notification in seconds, downlink and uplink, by method.
#[pyfunction]
fn notification_delays(
    attempts: [f64; 2],
    failures: [f64; 2],
    wire: f64,
) -> PyResult<Vec<(&'static str, f64, f64)>> {
    let over = |place: usize| {
        loss_notification::time_over_air(attempts[place], failures[place]).map_err(refused)
    };
    let delays = PathDelays { data: over(0)?, ack: over(1)?, wire };
    let schemes = [
        ("balakrishnan", Scheme::Balakrishnan),
        ("hack", Scheme::Header),
        ("lhp", Scheme::Fragment),
        ("ll-elsn", Scheme::LinkLayer),
    ];
    let row = |(name, scheme)| {
        let delay = |uplink| loss_notification::delay(scheme, &delays, uplink).map_err(refused);
        Ok((name, delay(false)?, delay(true)?))
    };
    schemes.into_iter().map(row).collect()
}

/// Maximum number of consecutive packets whose loss is attributed to noise.
#[pyfunction]
fn losses_in_a_row(p: f64, limit: u32, level: f64) -> PyResult<u32> {
    loss_notification::losses_in_a_row(p, limit, level).map_err(refused)
}

/// Converts the text of a quantity, as in scenarios, to SI units.
#[pyfunction]
fn quantity(kind: &str, text: &str) -> PyResult<f64> {
    let value = match kind {
        "probability" => text.parse().map(Probability::get).ok(),
        "duration" => text.parse().map(Duration::as_secs_f64).ok(),
        "rate" => text.parse().map(|rate: Rate| rate.as_bps() as f64).ok(),
        "size" => text.parse().map(|size: Bytes| size.get() as f64).ok(),
        "distance" => text.parse().map(Distance::as_metres).ok(),
        "ratio" => text.parse().map(|ratio: Decibels| ratio.as_thousandths() as f64 * 1e-3).ok(),
        _ => return Err(PyValueError::new_err(format!("found quantity {kind:?}"))),
    };
    value.ok_or_else(|| {
        let allowed = match kind {
            "probability" => "a probability such as \"2.5 %\" or 0.025, from 0 to 1",
            "duration" => "a duration such as \"50 ms\" (units ns, us, ms, s, min, h)",
            "rate" => {
                "a rate such as \"64 kbps\" (units bps, kbps, Mbps, Gbps, also as Mbit/s or Mb/s)"
            }
            "distance" => "a distance such as \"250 m\" (units mm, cm, m, km)",
            "ratio" => "a ratio of powers such as \"10 dB\"",
            _ => "a size such as \"250 B\" (units B, kB, MB, GB, KiB, MiB, GiB)",
        };
        PyValueError::new_err(format!("found {text:?}; expected {allowed}"))
    })
}

/// Adds the bindings to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("AnalysisError", module.py().get_type::<AnalysisError>())?;
    module.add_class::<ChannelLaw>()?;
    module.add_class::<ArqChain>()?;
    module.add_function(wrap_pyfunction!(tcp_window_chain, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_over_arq, module)?)?;
    module.add_function(wrap_pyfunction!(tcp_formulas, module)?)?;
    module.add_function(wrap_pyfunction!(arq_efficiency, module)?)?;
    module.add_function(wrap_pyfunction!(rlp, module)?)?;
    module.add_function(wrap_pyfunction!(independent_bits_loss, module)?)?;
    module.add_function(wrap_pyfunction!(exponential_bits_loss, module)?)?;
    module.add_function(wrap_pyfunction!(two_state_loss, module)?)?;
    module.add_function(wrap_pyfunction!(markov_chain_loss, module)?)?;
    module.add_function(wrap_pyfunction!(ideal_selective_repeat, module)?)?;
    module.add_function(wrap_pyfunction!(dcf_saturation, module)?)?;
    module.add_function(wrap_pyfunction!(notification_intervals, module)?)?;
    module.add_function(wrap_pyfunction!(notification_delays, module)?)?;
    module.add_function(wrap_pyfunction!(losses_in_a_row, module)?)?;
    module.add_function(wrap_pyfunction!(quantity, module)?)
}
