//! Prints the cost of an MPDU of saturated senders with A-MPDUs, and the time of 50 stations in 60 s.
//!
//! `cargo run --release -p lasthop --example wifi_speed`. Processor time; the median of several runs counts.
//! `-- --once NAME` runs a case once, for callgrind, and prints the number of its MPDUs. Sources, queues and
//! delivery are included.

use lasthop::run::{Options, run};
use lasthop::scenario::Scenario;
use std::error::Error;
use std::path::Path;

/// Runs of which the median counts.
const RUNS: usize = 5;

/// Name, keys of the WLAN, number of stations, load of each in Mbps, and simulated seconds. One sender is
/// offered 1 % more than it can send, so that nearly all packets that the sources make are sent.
const CASES: [(&str, &str, usize, f64, u64); 5] = [
    ("802.11n", "standard = \"802.11n\"\nmcs = 7", 1, 60.5, 60),
    (
        "802.11n, loss",
        "standard = \"802.11n\"\nmcs = 7\nerrors = { kind = \"uniform\", loss = 0.1 }",
        1,
        54.5,
        60,
    ),
    (
        "802.11ax",
        "standard = \"802.11ax\"\nmcs = 11\nwidth = \"80 MHz\"\nmax_ampdu = \"6500631 B\"\nblock_ack_window = 256",
        1,
        565.0,
        10,
    ),
    ("802.11n, 10 senders", "standard = \"802.11n\"\nmcs = 7", 10, 6.0, 60),
    ("50 stations", "standard = \"802.11ax\"\nmcs = 11", 50, 2.4, 60),
];

/// Processor time of this process in seconds.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the scenario of a case: stations that send packets of 1500 B to their access point.
fn scenario(
    keys: &str,
    stations: usize,
    load: f64,
    seconds: u64,
) -> Result<Scenario, Box<dyn Error>> {
    let names: Vec<_> = (0..stations).map(|number| format!("s{number}")).collect();
    let flow = |name: &String| {
        format!(
            r#"
            [flow.{name}]
            from = "{name}"
            to = "ap"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "{load} Mbps", on = "1000000 s", off = "0 s", packet = "1500 B" }}
            "#
        )
    };
    let flows: String = names.iter().map(flow).collect();
    let text = format!(
        r#"
        name = "saturated"
        [wlan.cell]
        access_point = "ap"
        stations = {names:?}
        {keys}
        {flows}
        [run]
        duration = "{seconds} s"
        "#
    );
    Ok(Scenario::from_toml(&text, Path::new("."))?.points()?.remove(0).scenario)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let once = matches!(&arguments[..], [flag, _] if flag == "--once");
    for (name, keys, stations, load, seconds) in CASES {
        if once && arguments[1] != name {
            continue;
        }
        let scenario = scenario(keys, stations, load, seconds)?;
        let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
        let (mut mpdus, mut goodput, mut times) = (0.0, 0.0, Vec::new());
        for _ in 0..if once { 1 } else { RUNS } {
            // Valgrind does not support the clock.
            let before = if once { 0.0 } else { processor_time() };
            let results = run(std::slice::from_ref(&scenario), &options, &mut |_| true)?;
            times.push(if once { 0.0 } else { processor_time() - before });
            let sum = |suffix: &str| -> f64 {
                let named = results.metrics.iter().zip(&results.rows[0].values);
                named.filter(|(name, _)| name.ends_with(suffix)).map(|(_, value)| value).sum()
            };
            (mpdus, goodput) = (sum(".forward.frames_sent"), sum(".goodput_bps"));
        }
        if once {
            println!("{mpdus}");
            return Ok(());
        }
        times.sort_by(f64::total_cmp);
        let time = times[RUNS / 2];
        println!(
            "{name}: {seconds} s in {time:.3} s, {mpdus} MPDUs at {:.1} Mbps, {:.0} ns per MPDU",
            goodput * 1e-6,
            time / mpdus * 1e9
        );
    }
    Ok(())
}
