//! Metrics in the windows of a scenario: the run is stopped at the start and the end of each window,
//! and the sums over time are compared. The stops do not change the events of the run.

use super::link_names;
use crate::scenario::{Aggregates, Scenario, TimeWindow};
use crate::sim::probe::Probe;
use crate::sim::world::World;
use lasthop_base::packet::Extension;
use lasthop_base::schema::metrics::{Metric, MetricValue};
use lasthop_base::units::{Duration, Instant};

/// Returns the times at which the run of a scenario is stopped, in order.
pub(super) fn times(scenario: &Scenario) -> Vec<Instant> {
    let times = |window: &TimeWindow| [Some(window.from), window.to];
    let times = scenario.windows.iter().flat_map(times).flatten();
    let mut times: Vec<_> = times.filter(|&time| time > Duration::ZERO).collect();
    times.sort_unstable();
    times.dedup();
    times.into_iter().map(|time| Instant::ZERO + time).collect()
}

/// The values of all windowed metrics at the times of the stops, in the order of the report.
#[derive(Debug, Default)]
pub(super) struct Marks(Vec<(Instant, Vec<MetricValue>)>);

impl Marks {
    /// Stores the values of the metrics of a world now.
    pub fn put<P: Probe, X: Extension>(&mut self, world: &World<P, X>, scenario: &Scenario) {
        self.0.push((world.now(), values(world, scenario)));
    }

    fn at(&self, time: Duration) -> Option<&[MetricValue]> {
        let time = Instant::ZERO + time;
        self.0.iter().find(|(at, _)| *at == time).map(|(_, values)| values.as_slice())
    }
}

fn values<P: Probe, X: Extension>(world: &World<P, X>, scenario: &Scenario) -> Vec<MetricValue> {
    let mut values = Vec::new();
    world.metrics(&link_names(scenario), &mut |_, metric, value| {
        if metric.windowed {
            values.push(value);
        }
    });
    values
}

/// Reports the metrics in all windows of a finished world, as those of entities such as
/// `window.late.flow.transfer`. They are NaN in windows that the run did not reach the end of.
pub(super) fn report<P: Probe, X: Extension>(
    world: &World<P, X>,
    scenario: &Scenario,
    marks: &Marks,
    report: &mut dyn FnMut(&str, &'static Metric, f64),
) {
    if scenario.windows.is_empty() {
        return;
    }
    let mut metrics = Vec::new();
    world.metrics(&link_names(scenario), &mut |entity, metric, _| {
        if metric.windowed {
            metrics.push((entity.to_owned(), metric));
        }
    });
    let last = values(world, scenario);
    for TimeWindow { name, from, to } in &scenario.windows {
        let earlier = marks.at(*from);
        let later = to.map_or(Some(last.as_slice()), |to| marks.at(to));
        let mut aggregates = Aggregates::new(&scenario.flows);
        let mut each = |entity: &str, metric: &'static Metric, value: f64| {
            report(&format!("window.{name}.{entity}"), metric, value);
        };
        for (index, (entity, metric)) in metrics.iter().enumerate() {
            let value = match (earlier, later) {
                (Some(earlier), Some(later)) => later[index].since(&earlier[index], metric),
                (None, Some(later)) if *from == Duration::ZERO => later[index].value(),
                _ => f64::NAN,
            };
            aggregates.add(entity, metric, value);
            each(entity, metric, value);
        }
        aggregates.report(&mut each);
    }
}
