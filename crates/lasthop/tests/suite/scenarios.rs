//! Scenarios as text, and the metrics of their runs.

use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use std::collections::HashMap;
use std::path::Path;

/// All metrics of one replication, by their names.
pub type Metrics = HashMap<String, f64>;

/// Returns the first point of a valid scenario.
pub fn scenario(text: &str) -> Scenario {
    read(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns the first point of a scenario, or its error.
pub fn read(text: &str) -> Result<Scenario, String> {
    Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .map(|mut points| points.remove(0).scenario)
        .map_err(|error| error.to_string())
}

/// Returns the metrics of the first replications of a scenario with this master seed, on one
/// thread.
pub fn metrics(scenario: &Scenario, replications: u64, seed: u64) -> Vec<Metrics> {
    let options = Options { replications, first_replication: 0, seed, jobs: 1 };
    let results = run::run(std::slice::from_ref(scenario), &options, &mut |_| true)
        .unwrap_or_else(|error| panic!("{error}"));
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}
