//! The list of all metrics, which are declared by the components that count them: see
//! [`lasthop_base::schema::metrics`].

pub use lasthop_base::schema::metrics::{Aggregation, Metric, Preferred, Unit};

/// Returns all metrics, each with the kind of its entity: `link` for
/// `link.wireless.forward.retransmissions`. A metric of several components is listed once.
pub fn all() -> Vec<(&'static str, &'static Metric)> {
    let mut all: Vec<(&str, &Metric)> = Vec::new();
    for (entity, groups) in groups() {
        for metric in groups.into_iter().flatten() {
            if !all.iter().any(|&(kind, one)| kind == entity && one.name == metric.name) {
                all.push((entity, metric));
            }
        }
    }
    all
}

/// Returns the metrics of each kind of entity, by the reporting component.
fn groups() -> impl Iterator<Item = (&'static str, Vec<&'static [Metric]>)> {
    lasthop_sim::sim::metrics::groups().into_iter().map(|(entity, mut groups)| {
        if entity == "link" {
            groups.push(lasthop_live::LiveMetrics::METRICS);
        }
        (entity, groups)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_list_is_the_golden_one() {
        let list =
            all().into_iter().map(|(entity, metric)| metric.to_json(entity).to_string() + "\n");
        let list: String = list.collect();
        let golden = include_str!("../tests/suite/data/metrics.jsonl");
        assert!(list == golden, "metrics have changed; tests/suite/data/metrics.jsonl:\n{list}");
        for line in golden.lines() {
            let metric: Value = serde_json::from_str(line).expect("JSON");
            assert!(metric["about"].as_str().is_some_and(|about| about.ends_with('.')), "{line}");
        }
    }

    #[test]
    fn a_metric_that_several_components_report_is_declared_alike() {
        for (entity, own) in groups() {
            for metric in own.into_iter().flatten() {
                let listed = all()
                    .into_iter()
                    .find(|&(kind, one)| (kind, one.name) == (entity, metric.name));
                assert_eq!(listed, Some((entity, metric)));
            }
        }
    }

    #[test]
    fn names_end_with_their_unit() {
        for (entity, metric) in all() {
            let end = metric.name.rsplit('_').next().unwrap_or_default();
            let symbol = metric.unit.symbol();
            let units = ["bps", "bytes", "s"];
            assert_eq!(units.contains(&end), units.contains(&symbol), "{entity}.{}", metric.name);
            assert!(!units.contains(&symbol) || end == symbol, "{entity}.{}", metric.name);
        }
    }
}
