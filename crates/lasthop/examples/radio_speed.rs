//! Prints the cost of a segment on a framed radio in the simulator: saturated uplinks, ideal
//! selective repeat, 25 slots per frame, with and without losses.
//!
//! `cargo run --release -p lasthop --example radio_speed`. Processor time of one thread, including sources,
//! queues and delivery; the median of several runs counts.

use lasthop::run::{Options, run};
use lasthop::scenario::Scenario;
use std::error::Error;
use std::path::Path;
use std::time::Instant as Clock;

/// Runs of which the median counts.
const RUNS: usize = 5;

/// Simulated seconds: 200 000 frames of 10 ms.
const SECONDS: u32 = 2_000;

fn scenario(stations: usize, errors: &str) -> Result<Scenario, Box<dyn Error>> {
    let names: Vec<_> = (0..stations).map(|index| format!("\"m{index}\"")).collect();
    let flows: String = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            format!(
                "[flow.f{index}]\nfrom = {name}\nto = \"base\"\ntransport = {{ kind = \"udp\" }}\n\
                 app = {{ kind = \"on-off\", rate = \"{} kbps\", packet = \"1000 B\", \
                 on = \"1000000 s\", off = \"0 s\" }}\n",
                1_000 / stations
            )
        })
        .collect();
    let text = format!(
        "name = \"speed\"\n[radio.cell]\nbase = \"base\"\nstations = [{}]\n\
         protocol = {{ kind = \"ideal-sr\" }}\nerrors = {errors}\n{flows}[run]\n\
         duration = \"{SECONDS} s\"\n",
        names.join(", ")
    );
    let document = Scenario::from_toml(&text, Path::new("."))?;
    Ok(document.points()?.remove(0).scenario)
}

/// Returns the processor time of this process in seconds if available, otherwise wall-clock time.
fn processor_time(clock: Clock) -> f64 {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // After the name of the program, which is in brackets: user and system time are the 12th
        // and 13th, in hundredths of a second.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    };
    ticks().map_or_else(|| clock.elapsed().as_secs_f64(), |ticks| ticks * 0.01)
}

fn main() -> Result<(), Box<dyn Error>> {
    let bad = "{ kind = \"slotted-gilbert-elliott\", stay_good = 0.9, stay_bad = 0.9, \
               loss_good = 0.01, loss_bad = 0.9 }";
    let clock = Clock::now();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    println!(
        "{:<10} {:<9} {:>10} {:>12} {:>12}",
        "stations", "losses", "ns/segment", "segments/s", "ns/frame"
    );
    for (stations, losses, errors) in [
        (1, "none", "{ kind = \"none\" }"),
        (1, "45 %", bad),
        (8, "none", "{ kind = \"none\" }"),
        (8, "45 %", bad),
    ] {
        let points = [scenario(stations, errors)?];
        let mut costs = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let before = processor_time(clock);
            let results = run(&points, &options, &mut |_| true)?;
            let seconds = processor_time(clock) - before;
            let values = results.metrics.iter().zip(&results.rows[0].values);
            let sent = values.filter(|(name, _)| name.ends_with("forward.frames_sent"));
            costs.push(seconds * 1e9 / sent.map(|(_, value)| value).sum::<f64>());
        }
        costs.sort_by(f64::total_cmp);
        let nanos = costs[RUNS / 2];
        println!(
            "{stations:<10} {losses:<9} {nanos:>10.1} {:>10.1} M {:>12.0}",
            1e3 / nanos,
            25.0 * nanos
        );
    }
    Ok(())
}
