//! Prints the cost of an 802.11 frame: saturated stations on the state machine alone, and a download over TCP
//! in the simulator.
//!
//! `cargo run --release -p lasthop --example dcf_speed`. Processor time; the median of several
//! runs counts.

use lasthop::channel::{Channel, Clean};
use lasthop::medium::dcf::{MacParameters, Medium, Phy, Preamble, Standard};
use lasthop::packet::Packet;
use lasthop::queue::{Limit, Queue};
use lasthop::rng::Streams;
use lasthop::run::{Options, run};
use lasthop::scenario::Scenario;
use lasthop::units::{Bytes, Duration, Instant, Rate};
use std::error::Error;
use std::path::Path;

/// Runs of which the median counts.
const RUNS: usize = 5;

/// Frames that saturated stations send per run.
const FRAMES: u64 = 1_000_000;

/// Processor time of this process in seconds.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn median(mut once: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<_> = (0..RUNS).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// Returns the frames per second of processor time with `stations` saturated senders and one
/// receiver.
fn saturated(stations: usize) -> f64 {
    let phy = Phy { standard: Standard::B, preamble: Preamble::Long };
    let timing = phy.timing();
    let parameters = MacParameters {
        header: Bytes::new(36),
        rts_threshold: Bytes::new(65_535),
        short_retry_limit: 7,
        long_retry_limit: 4,
        cw_min: timing.cw_min,
        cw_max: timing.cw_max,
        retry_delay: Duration::ZERO,
        rate: Rate::from_bps(11_000_000),
    };
    let streams = Streams { seed: 1, replication: 0 };
    let rates = [11_000_000, 2_000_000].map(Rate::from_bps);
    let seconds = median(|| {
        let mut medium: Medium<Packet> = Medium::new(phy, timing, true);
        let station = |medium: &mut Medium<Packet>, index: usize| {
            let backoff = streams.stream(&format!("station {index}"), "back-off");
            let queue = Queue::drop_tail(Limit::Packets(50), parameters.header);
            medium.add_station(parameters, queue, backoff)
        };
        let access_point = station(&mut medium, stations);
        let packet = Packet { bytes: 1000, ..Packet::default() };
        for index in 0..stations {
            let ends = [station(&mut medium, index), access_point];
            let pair = medium.add_pair(ends, rates, Channel::Clean(Clean {}));
            // Enough for frames that are discarded, too.
            for _ in 0..40 {
                medium.enqueue(Instant::ZERO, pair, packet);
            }
        }
        let before = processor_time();
        let mut delivered = 0;
        while delivered < FRAMES {
            let now = medium.next_timeout();
            medium.handle_timeout(now);
            while let Some(delivery) = medium.poll_deliver() {
                delivered += 1;
                medium.enqueue(now, delivery.pair, packet);
                if delivered % 64 == 0 {
                    medium.enqueue(now, delivery.pair, packet);
                }
            }
        }
        processor_time() - before
    });
    FRAMES as f64 / seconds
}

/// Milliseconds of processor time for 200 s of one download.
fn download() -> Result<f64, Box<dyn Error>> {
    let text = r#"
        name = "download"
        [link.wire]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "10 ms"
        [wlan.cell]
        access_point = "ap"
        stations = ["client"]
        rate = "11 Mbps"
        control_rate = "11 Mbps"
        header = "28 B"
        short_retry_limit = 7
        [flow.download]
        from = "server"
        to = "client"
        transport = { kind = "tcp", variant = "sack", profile = "ns-2", segment = "1000 B" }
        app = { kind = "file", size = "1 GB" }
        [run]
        duration = "200 s"
    "#;
    let document = Scenario::from_toml(text, Path::new("."))?;
    let scenario = document.points()?.remove(0).scenario;
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let mut goodput = f64::NAN;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let before = processor_time();
        let results = run(std::slice::from_ref(&scenario), &options, &mut |_| true)?;
        times.push(processor_time() - before);
        let place = results.metrics.iter().position(|name| name == "flow.download.goodput_bps");
        goodput = results.rows[0].values[place.unwrap_or(0)];
    }
    times.sort_by(f64::total_cmp);
    println!("a download of 200 s at {:.2} Mbps", goodput * 1e-6);
    Ok(times[RUNS / 2] * 1e3)
}

fn main() -> Result<(), Box<dyn Error>> {
    for stations in [2, 10, 50, 200] {
        println!("{stations} saturated stations: {:.2} M frames/s", saturated(stations) * 1e-6);
    }
    println!("takes {:.1} ms", download()?);
    Ok(())
}
