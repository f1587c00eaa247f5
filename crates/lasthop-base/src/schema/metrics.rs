//! Declarations of metrics: name, unit, bounds, preferred direction, label, description and
//! aggregation over flows. [`metrics!`] declares a struct of values and the [`Metric`] of each
//! field; undeclared values cannot be reported. Tables, figures, intervals and pages use the
//! exported list.

use serde_json::{Value, json};

pub use super::values::{MetricValue, Ratio, Statistic};

/// Unit of the values of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of packets, frames, events and the like, or a mean of such numbers.
    Count,
    /// A part of a whole, from 0 to 1; shown in percent.
    Fraction,
    /// Bits per second.
    BitsPerSecond,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// The symbol by which tables and figures choose prefixes; `%` of a fraction, empty of a count.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Count => "",
            Unit::Fraction => "%",
            Unit::BitsPerSecond => "bps",
            Unit::Bytes => "bytes",
            Unit::Seconds => "s",
        }
    }

    /// Minimum and maximum of the values.
    pub const fn bounds(self) -> [f64; 2] {
        match self {
            Unit::Fraction => [0.0, 1.0],
            Unit::Count | Unit::BitsPerSecond | Unit::Bytes | Unit::Seconds => [0.0, f64::INFINITY],
        }
    }
}

/// Which values of a metric are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preferred {
    /// Large values.
    Higher,
    /// Small values.
    Lower,
    /// Neither: the metric describes the traffic.
    Neither,
}

/// Aggregation of the values of several flows, links or agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// Their maximum.
    Max,
}

/// Declaration of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in results, with the unit, if any, as its last part.
    pub name: &'static str,
    /// Former name, which selections accept until the next minor version.
    pub was: Option<&'static str>,
    /// Its name in tables and figures, without unit.
    pub label: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Minimum and maximum of its values.
    pub bounds: [f64; 2],
    /// Which values are preferred.
    pub preferred: Preferred,
    /// Aggregation over several flows.
    pub aggregation: Aggregation,
    /// Whether it is also reported for the windows of a run: the value between two times follows
    /// from sums at both.
    pub windowed: bool,
    /// Description; the doc comment of its declaration.
    pub about: &'static str,
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Metric {
    /// Returns the metric as JSON, for entities of kind `entity`: the unit as its symbol, `null`
    /// for a missing bound.
    pub fn to_json(&self, entity: &str) -> Value {
        let [min, max] = self.bounds.map(|bound| bound.is_finite().then_some(bound));
        let mut json = json!({
            "entity": entity,
            "name": self.name,
            "label": self.label,
            "unit": self.unit.symbol(),
            "min": min,
            "max": max,
            "preferred": match self.preferred {
                Preferred::Higher => "higher",
                Preferred::Lower => "lower",
                Preferred::Neither => "neither",
            },
            "aggregation": match self.aggregation {
                Aggregation::Sum => "sum",
                Aggregation::Mean => "mean",
                Aggregation::Max => "max",
            },
            "windowed": self.windowed,
            "about": self.about.split_whitespace().collect::<Vec<_>>().join(" "),
        });
        if let Some(was) = self.was {
            json["was"] = was.into();
        }
        json
    }
}

/// Receives the metrics of one entity with their values in SI units; NaN if a metric does not
/// apply.
pub type Report<'a> = dyn FnMut(&'static Metric, MetricValue) + 'a;

/// Receives the metrics of all entities, such as `flow.transfer`, with their values.
pub type ReportFor<'a> = dyn FnMut(&str, &'static Metric, MetricValue) + 'a;

/// Declares metrics in the component that counts them: a struct whose fields are the values. Per
/// field: `/// meaning`, `#[was = "former name"]`, `name: "Label", Unit, Preferred, Aggregation;`.
///
/// A fifth word is the form of the value, which determines its value in a window:
/// - none: `f64`. Counts and bytes that flows add up are sums over time; others have no windows.
/// - `Ratio`: a quotient of sums over time.
/// - `Statistic`: a statistic of delays.
/// - `Level`: `f64`, a count or bytes at one time; has no windows.
#[macro_export]
macro_rules! metrics {
    (@type) => { f64 };
    (@type Level) => { f64 };
    (@type $form:ident) => { $crate::schema::values::$form };
    (@windowed $unit:ident $aggregation:ident Level) => { false };
    (@windowed $unit:ident $aggregation:ident $form:ident) => { true };
    (@windowed Count Sum) => { true };
    (@windowed Bytes Sum) => { true };
    (@windowed $unit:ident $aggregation:ident) => { false };
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $(#[was = $was:literal])? $metric:ident: $label:literal, $unit:ident, $preferred:ident, $aggregation:ident $(, $form:ident)?;)+
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($(#[doc = $doc])+ pub $metric: $crate::metrics!(@type $($form)?),)+
        }

        impl $name {
            /// The metrics, in the order in which they are reported.
            pub const METRICS: &'static [$crate::schema::metrics::Metric] = &[$(
                $crate::schema::metrics::Metric {
                    name: stringify!($metric),
                    was: $crate::table!(@option $($was)?),
                    label: $label,
                    unit: $crate::schema::metrics::Unit::$unit,
                    bounds: $crate::schema::metrics::Unit::$unit.bounds(),
                    preferred: $crate::schema::metrics::Preferred::$preferred,
                    aggregation: $crate::schema::metrics::Aggregation::$aggregation,
                    windowed: $crate::metrics!(@windowed $unit $aggregation $($form)?),
                    about: concat!($($doc),+),
                },
            )+];

            /// Reports all values.
            pub fn report(&self, report: &mut $crate::schema::metrics::Report<'_>) {
                let values = [$($crate::schema::values::MetricValue::from(&self.$metric)),+];
                for (metric, value) in Self::METRICS.iter().zip(values) {
                    report(metric, value);
                }
            }

            /// Reports all values for `entity`.
            pub fn report_for(
                &self,
                entity: &str,
                report: &mut $crate::schema::metrics::ReportFor<'_>,
            ) {
                self.report(&mut |metric, value| report(entity, metric, value));
            }
        }
    };
}

pub use crate::metrics;
