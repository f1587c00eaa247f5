//! Repetition: one flow table that describes several flows, and numbered stations.
//!
//! The members of the flow table `NAME` are the flows `NAME1`, `NAME2`, …. Their random streams are
//! derived from these names, so that a table with `count` and the same flows written one by one give
//! the same bytes. In host names, a run of `#` is the number, padded with zeros to the length of the
//! run.

use super::model::Flow;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, NAME_ALLOWED, Node, Read};
use lasthop_base::schema::metrics::{Aggregation, Metric};
use lasthop_base::schema::quantity::Hosts;
use lasthop_base::units::Duration;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of flows of a table, or of stations of a numbered name.
pub(super) const COUNT: Limits = Limits::range(1, 10_000);
/// Time between the starts of flows.
pub(super) const SPACING: Limits = Limits::range(0, Duration::from_secs(100_000).as_nanos());

/// A flow table with the key `count`.
#[derive(Clone, Debug, PartialEq)]
pub struct Repetition {
    /// Its name: `NAME` of `[flow.NAME]`.
    pub name: String,
    /// Number of flows.
    pub count: u32,
    /// Time between the starts of consecutive flows; `None`: all start at the same time.
    pub spacing: Option<Duration>,
    /// The keys `from` and `to` as written, with `#` for the number.
    pub hosts: [String; 2],
    /// Start time of the first flow.
    pub start: Duration,
}

impl Repetition {
    /// Returns the repetition of the flow table at `node`, if it has the key `count`.
    pub(super) fn read(
        node: &Node<'_>,
        count: Option<u32>,
        spacing: Option<Duration>,
        hosts: [String; 2],
        start: Duration,
    ) -> Read<Option<Arc<Repetition>>> {
        if let Some(count) = count {
            let name = node.name().to_owned();
            return Ok(Some(Arc::new(Repetition { name, count, spacing, hosts, start })));
        }
        if let Some(spacing) = spacing {
            let found = format!("\"{spacing}\" without the key count");
            return Err(node.key_error("spacing", found, "only with the key count"));
        }
        for (key, host) in ["from", "to"].iter().zip(&hosts) {
            if host.contains('#') {
                let found = format!("{host:?} without the key count");
                return Err(node.key_error(key, found, "a name without #, or the key count"));
            }
        }
        Ok(None)
    }
}

impl Flow {
    /// Returns the name of its table in a scenario file.
    pub(super) fn table(&self) -> &str {
        self.repetition.as_ref().map_or(&self.name, |repetition| &repetition.name)
    }

    /// Replaces a table that describes several flows by these flows.
    pub(super) fn expand(self) -> Vec<Flow> {
        let Some(repetition) = self.repetition.clone() else { return vec![self] };
        let spacing = repetition.spacing.unwrap_or_default();
        let member = |number: u32| Flow {
            name: format!("{}{number}", repetition.name),
            from: numbered(&self.from, number),
            to: numbered(&self.to, number),
            start: self.start + spacing * u64::from(number - 1),
            ..self.clone()
        };
        (1..=repetition.count).map(member).collect()
    }
}

/// Returns the tables of flows: the inverse of [`Flow::expand`].
pub(super) fn tables(flows: Vec<Flow>) -> Vec<Flow> {
    let mut tables: Vec<Flow> = Vec::with_capacity(flows.len());
    let mut last: Option<Arc<Repetition>> = None;
    for flow in flows {
        let Some(repetition) = flow.repetition.clone() else {
            tables.push(flow);
            continue;
        };
        if last.as_ref().is_some_and(|last| last.name == repetition.name) {
            continue;
        }
        let [from, to] = repetition.hosts.clone();
        let (name, start) = (repetition.name.clone(), repetition.start);
        tables.push(Flow { name, from, to, start, ..flow });
        last = Some(repetition);
    }
    tables
}

/// Checks that no two flows have the same name.
pub(super) fn check_names(path: &str, flows: &[Flow]) -> Read<()> {
    let mut known: HashMap<&str, &str> = HashMap::with_capacity(flows.len());
    for flow in flows {
        if let Some(other) = known.insert(&flow.name, flow.table()) {
            let found = format!("the flow {:?}, which {other:?} contains too", flow.name);
            let path = format!("{path}.{}", flow.table());
            return Err(ScenarioError::new(path, found, "a name that no other flow has"));
        }
    }
    Ok(())
}

/// Replaces numbered names such as `node#` of the key `stations` by `count` names.
pub(super) fn expand_stations(
    node: &Node<'_>,
    stations: &mut Hosts,
    count: Option<u32>,
) -> Read<()> {
    let is_numbered = |name: &String| name.contains('#');
    let Some(count) = count else {
        let Some(name) = stations.0.iter().find(|name| is_numbered(name)) else { return Ok(()) };
        let allowed = format!("{NAME_ALLOWED}; or # in it with the key count");
        return Err(node.key_error("stations", format!("{name:?}"), allowed));
    };
    if !stations.0.iter().any(is_numbered) {
        let allowed = "no such key, unless a name in stations contains # for its number";
        return Err(node.key_error("count", count.to_string(), allowed));
    }
    let mut names: Vec<String> = Vec::new();
    for name in std::mem::take(&mut stations.0) {
        match is_numbered(&name) {
            true => names.extend((1..=count).map(|number| numbered(&name, number))),
            false => names.push(name),
        }
    }
    let mut known = std::collections::HashSet::with_capacity(names.len());
    if let Some(twice) = names.iter().find(|name| !known.insert(name.as_str())) {
        return Err(node.key_error("stations", format!("{twice:?} twice"), "different names"));
    }
    stations.0 = names;
    Ok(())
}

/// Replaces the runs of `#` in a name by a number.
fn numbered(name: &str, number: u32) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut rest = name;
    while let Some(at) = rest.find('#') {
        let width = rest[at..].bytes().take_while(|byte| *byte == b'#').count();
        text.push_str(&rest[..at]);
        text.push_str(&format!("{number:0width$}"));
        rest = &rest[at + width..];
    }
    text + rest
}

/// Aggregates the metrics of the flows of each table with `count`, as their declarations specify.
pub(crate) struct Aggregates {
    /// Names of the aggregated entities, such as `flows.transfer`.
    names: Vec<String>,
    /// Index of the aggregated entity by flow entity, such as `flow.transfer1`.
    table_of: HashMap<String, usize>,
    sums: Vec<Vec<(&'static Metric, f64, u32)>>,
}

impl Aggregates {
    /// Returns the aggregates of these flows, without values.
    pub(crate) fn new(flows: &[Flow]) -> Aggregates {
        let (mut names, mut table_of) = (Vec::<String>::new(), HashMap::new());
        for flow in flows {
            let Some(repetition) = &flow.repetition else { continue };
            let name = format!("flows.{}", repetition.name);
            if names.last() != Some(&name) {
                names.push(name);
            }
            table_of.insert(format!("flow.{}", flow.name), names.len() - 1);
        }
        let sums = vec![Vec::new(); names.len()];
        Aggregates { names, table_of, sums }
    }

    /// Adds the metric of an entity, if it belongs to a table with `count`.
    pub(crate) fn add(&mut self, entity: &str, metric: &'static Metric, value: f64) {
        let Some(&table) = self.table_of.get(entity) else { return };
        let sums = &mut self.sums[table];
        let index = sums.iter().position(|(known, ..)| known.name == metric.name);
        let index = index.unwrap_or_else(|| {
            sums.push((metric, f64::NAN, 0));
            sums.len() - 1
        });
        // A metric that does not apply to one flow is aggregated over the others.
        let (_, sum, number) = &mut sums[index];
        if value.is_nan() {
            return;
        }
        *sum = match (metric.aggregation, *number) {
            (_, 0) => value,
            (Aggregation::Max, _) => sum.max(value),
            (Aggregation::Sum | Aggregation::Mean, _) => *sum + value,
        };
        *number += 1;
    }

    /// Reports the aggregated metrics.
    pub(crate) fn report(&self, report: &mut dyn FnMut(&str, &'static Metric, f64)) {
        for (name, sums) in self.names.iter().zip(&self.sums) {
            for &(metric, sum, number) in sums {
                let is_mean = metric.aggregation == Aggregation::Mean && number > 0;
                report(name, metric, if is_mean { sum / f64::from(number) } else { sum });
            }
        }
    }
}
