//! Runs a scenario whose wireless link has a protocol defined in this crate, and prints all metrics.

mod one_bit;

use lasthop::link::Own;
use lasthop::run::{Options, run};
use lasthop::scenario::{LinkProtocol, Scenario};
use lasthop::units::Duration;
use one_bit::OneBit;
use std::path::Path;
use std::sync::Arc;

const SCENARIO: &str = r#"
name = "one bit"

[link.air]
between = ["base", "client"]
rate = "1 Mbps"
delay = "2 ms"
queue = "100 packets"
errors = { kind = "uniform", loss = "10 %" }

[flow.transfer]
from = "base"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "200 kB" }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let document = Scenario::from_toml(SCENARIO, Path::new("."))?;
    let mut scenario = document.points()?.remove(0).scenario;
    let protocol = OneBit { timeout: Duration::from_millis(30) };
    // Copies of a scenario share their links until one of them changes.
    Arc::make_mut(&mut scenario.links)[0].protocol = LinkProtocol::Own(Own::new(protocol));
    let options = Options { replications: 3, first_replication: 0, seed: 1, jobs: 1 };
    let results = run(&[scenario], &options, &mut |_| true)?;
    for (index, name) in results.metrics.iter().enumerate() {
        let sum: f64 = results.rows.iter().map(|row| row.values[index]).sum();
        println!("{name} {}", sum / results.rows.len() as f64);
    }
    Ok(())
}
