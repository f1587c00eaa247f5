//! Values of metrics, with the sums that they are computed from. The difference of the sums at two
//! times gives the value between these times.

use super::metrics::Metric;
use crate::delays::Delays;
use std::sync::Arc;

/// The value of a metric since the start of the run.
#[derive(Clone, Debug)]
pub enum MetricValue {
    /// A number. If the metric is windowed, it is a sum over time.
    Number(f64),
    /// A quotient of sums over time.
    Ratio(Ratio),
    /// A statistic of delays.
    Statistic(Statistic),
}

/// A quotient of two sums over time, such as bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    value: f64,
    part: f64,
    whole: f64,
}

impl Ratio {
    /// Creates the quotient of two sums since the start; NaN if `whole` is 0.
    pub fn new(part: f64, whole: f64) -> Self {
        Ratio { value: quotient(part, whole), part, whole }
    }

    /// Like [`Self::new`], with a quotient that is computed in another way.
    pub fn with_value(value: f64, part: f64, whole: f64) -> Self {
        Ratio { value, part, whole }
    }

    /// Returns the quotient since the start.
    pub fn value(&self) -> f64 {
        self.value
    }
}

fn quotient(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { f64::NAN }
}

/// A statistic of delays, such as a percentile.
#[derive(Clone, Debug)]
pub struct Statistic {
    value: f64,
    delays: Arc<Delays>,
    of: fn(&Delays) -> f64,
}

impl Statistic {
    /// Creates the statistic `of` of these delays, recorded since the start.
    pub fn new(delays: &Arc<Delays>, of: fn(&Delays) -> f64) -> Self {
        Statistic { value: of(delays), delays: Arc::clone(delays), of }
    }
}

impl MetricValue {
    /// Returns the value since the start of the run, in SI units; NaN if the metric does not apply.
    pub fn value(&self) -> f64 {
        match self {
            MetricValue::Number(value) => *value,
            MetricValue::Ratio(ratio) => ratio.value,
            MetricValue::Statistic(statistic) => statistic.value,
        }
    }

    /// Returns the value of `metric`, which must be windowed, since the time of `earlier`.
    pub fn since(&self, earlier: &MetricValue, metric: &Metric) -> f64 {
        debug_assert!(metric.windowed, "{metric} is a sum over time");
        let value = match (self, earlier) {
            (MetricValue::Number(later), MetricValue::Number(earlier)) => later - earlier,
            (MetricValue::Ratio(later), MetricValue::Ratio(earlier)) => {
                // A sum that was not defined then has begun since.
                let or_zero = |sum: f64| if sum.is_nan() { 0.0 } else { sum };
                let part = later.part - or_zero(earlier.part);
                let whole = later.whole - or_zero(earlier.whole);
                quotient(part, whole)
            }
            (MetricValue::Statistic(later), MetricValue::Statistic(earlier)) => {
                (later.of)(&later.delays.since(&earlier.delays))
            }
            _ => unreachable!("a metric has one form"),
        };
        // A packet in transit at the earlier time may count in one sum only, or as lost until it
        // arrives.
        let [min, max] = metric.bounds;
        value.clamp(min, max)
    }
}

impl From<&f64> for MetricValue {
    fn from(value: &f64) -> Self {
        MetricValue::Number(*value)
    }
}

impl From<&Ratio> for MetricValue {
    fn from(ratio: &Ratio) -> Self {
        MetricValue::Ratio(*ratio)
    }
}

impl From<&Statistic> for MetricValue {
    fn from(statistic: &Statistic) -> Self {
        MetricValue::Statistic(statistic.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::metrics::metrics;
    use crate::units::{Duration, Instant};

    metrics! {
        /// One metric of each form.
        struct Forms {
            /// A sum.
            packets: "Packets", Count, Neither, Sum;
            /// A number at one time.
            waiting: "Waiting", Count, Neither, Sum, Level;
            /// A mean over flows.
            window: "Window", Count, Neither, Mean;
            /// A quotient.
            loss: "Loss", Fraction, Lower, Mean, Ratio;
            /// A statistic.
            delay_s: "Delay", Seconds, Lower, Mean, Statistic;
        }
    }

    fn forms(packets: f64, loss: Ratio, millis: &[u64]) -> Vec<MetricValue> {
        let mut delays = Delays::with_digits(3);
        for &millis in millis {
            delays.record(Instant::ZERO, Instant::ZERO + Duration::from_millis(millis));
        }
        let delay_s = Statistic::new(&Arc::new(delays), Delays::mean);
        let mut found = Vec::new();
        Forms { packets, waiting: 1.0, window: 2.0, loss, delay_s }
            .report_for("flow.f", &mut |_, _, value| found.push(value));
        found
    }

    #[test]
    fn sums_quotients_and_statistics_are_windowed() {
        let windowed: Vec<_> = Forms::METRICS.iter().map(|metric| metric.windowed).collect();
        assert_eq!(windowed, [true, false, false, true, true]);
    }

    #[test]
    fn values_between_two_times_follow_from_the_sums() {
        let earlier = forms(3.0, Ratio::new(1.0, 4.0), &[10, 20]);
        let later = forms(8.0, Ratio::new(4.0, 10.0), &[10, 20, 50, 70]);
        let value = |index: usize| later[index].since(&earlier[index], &Forms::METRICS[index]);
        assert_eq!([value(0), value(3)], [5.0, 0.5]);
        assert!((value(4) - 0.06).abs() < 1e-12, "the mean of 50 and 70 ms: {}", value(4));
        assert_eq!(later[3].value(), 0.4);
    }

    #[test]
    fn quotients_are_within_the_bounds_of_their_metric() {
        let loss = &Forms::METRICS[3];
        let measured = |part: f64, whole: f64| MetricValue::from(&Ratio::new(part, whole));
        let undefined = measured(f64::NAN, f64::NAN);
        assert_eq!(measured(1.0, 4.0).since(&undefined, loss), 0.25);
        // A packet that counted as lost has arrived.
        assert_eq!(measured(1.0, 4.0).since(&measured(2.0, 3.0), loss), 0.0);
        assert!(measured(1.0, 4.0).since(&measured(1.0, 4.0), loss).is_nan());
    }
}
