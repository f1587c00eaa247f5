//! Cost of one replication of the study's scenarios: processor time, events, ratios.
//!
//! `cargo bench --bench study`, or `cargo bench --bench study -- raw sr` for some cases;
//! `-- --csv` prints `case,milliseconds,events` for `benches/run.py`, which compares them with ns-2.
//! `-- --once raw` runs the first replication of one case without output, for
//! `benches/instructions.py`, which counts its instructions.
//! Each case runs a batch of replications on this thread; the batches of all cases alternate for
//! several rounds, and the median round counts.

use lasthop::app::{App, FileKeys, OnOffKeys, Replay, SourceSite, WebKeys};
use lasthop::channel::{Channel, Clean, Uniform};
use lasthop::link::{LinkEndpoint, LinkTiming, SelectiveRepeat, SelectiveRepeatParameters};
use lasthop::queue::{Limit, Queue, Transmitter};
use lasthop::rng::{DurationDistribution, Streams};
use lasthop::sim::builder::{Builder, RoundTrip};
use lasthop::sim::direction::DirectionParameters;
use lasthop::sim::ids::{DirectionId, Side};
use lasthop::sim::probe::Silent;
use lasthop::sim::world::End;
use lasthop::tcp::{Overrides, Profile, Variant, presets};
use lasthop::transport::{Tcp, Udp};
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use std::sync::atomic::AtomicBool;

/// Rounds of which the median counts.
const ROUNDS: usize = 5;

/// One scenario: server -- 10 Mbps, 1 ms -- access point -- 64 kbps, 50 ms -- client, Reno under
/// the ns-2 profile, each frame of the wireless link lost with 2.5 %.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    replications: u64,
    web: bool,
    selective_repeat: bool,
    congestion: Congestion,
}

#[derive(Clone, Copy, PartialEq)]
enum Congestion {
    None,
    Lazy,
    PerPacket,
}

const CASES: [Case; 8] = [
    Case::file("raw", 200, false, Congestion::None),
    Case::file("raw-congestion", 200, false, Congestion::Lazy),
    Case::file("raw-congestion-per-packet", 10, false, Congestion::PerPacket),
    Case::file("sr", 200, true, Congestion::None),
    Case::file("sr-congestion", 200, true, Congestion::Lazy),
    Case { web: true, ..Case::file("web", 100, false, Congestion::None) },
    Case { web: true, ..Case::file("web-congestion", 100, false, Congestion::Lazy) },
    Case { web: true, ..Case::file("web-sr", 100, true, Congestion::None) },
];

impl Case {
    const fn file(
        name: &'static str,
        replications: u64,
        selective_repeat: bool,
        congestion: Congestion,
    ) -> Self {
        Case { name, replications, web: false, selective_repeat, congestion }
    }
}

/// Runs one replication and returns its number of events.
fn replicate(case: &Case, loss: Probability, replication: u64) -> u64 {
    let streams = Streams { seed: 1, replication };
    let direction = |rate, delay, channel| DirectionParameters {
        transmitter: Transmitter::new(Rate::from_bps(rate)),
        propagation: Duration::from_millis(delay).into(),
        queue: Queue::drop_tail(Limit::Packets(50), Bytes::new(0)),
        header: Bytes::new(0),
        channel,
    };
    let wired = || direction(10_000_000, 1, Channel::Clean(Clean {}));
    let wireless =
        |name: &str| direction(64_000, 50, Channel::Uniform(Uniform::new(loss, &streams, name)));
    let mut builder = Builder::<()>::carrying(streams);
    builder.raw_link(wired(), wired());
    let (forward, reverse) = (wireless("wireless.forward"), wireless("wireless.reverse"));
    // Raw packets have the link header in them; endpoints add it themselves.
    let packet = if case.selective_repeat { 250 } else { 252 };
    if case.selective_repeat {
        let timing = LinkTiming::symmetric(
            Rate::from_bps(64_000),
            Duration::from_millis(50),
            Bytes::new(252),
            Bytes::new(2),
        );
        let end = || {
            let parameters = SelectiveRepeatParameters::for_link(&timing, 8);
            SelectiveRepeat::new(parameters).map(LinkEndpoint::SelectiveRepeat)
        };
        let (Ok(near), Ok(far)) = (end(), end()) else { unreachable!("defaults are valid") };
        builder.arq_link((forward, near), (reverse, far));
    } else {
        builder.raw_link(forward, reverse);
    }
    let set = Overrides { segment: Some(Bytes::new(packet)), ..Overrides::default() };
    let config = presets::config(Variant::Reno, Profile::Ns2, &set);
    let connect = |clock| Tcp::new(&config, clock).into();
    let path = RoundTrip {
        there: &[0, 1].map(|link| DirectionId::of(link, Side::Forward)),
        back: &[1, 0].map(|link| DirectionId::of(link, Side::Reverse)),
    };
    let app = if case.web {
        App::Web(WebKeys { connections: 4, count_includes_page: false })
    } else {
        App::File(FileKeys { size: Bytes::new(40_000 * packet) })
    };
    let component = "flow.transfer";
    let site = SourceSite { streams: &streams, component, start: Instant::ZERO };
    builder.flow("transfer", Instant::ZERO, &connect, path, app.build(&site));
    if case.congestion != Congestion::None {
        let app = App::OnOff(OnOffKeys {
            rate: Rate::from_bps(9_990_000),
            on: DurationDistribution::Exponential(Duration::from_secs(1)),
            off: DurationDistribution::Exponential(Duration::from_millis(1350)),
            packet: Bytes::new(250),
            replay: match case.congestion {
                Congestion::Lazy => Replay::Lazy,
                _ => Replay::PerPacket,
            },
        });
        let component = "flow.congestion";
        let site = SourceSite { streams: &streams, component, start: Instant::ZERO };
        let connect = |_| Udp::default().into();
        let path = RoundTrip { there: &path.there[..1], back: &[] };
        builder.flow("congestion", Instant::ZERO, &connect, path, app.build(&site));
    }
    let mut world = builder.build(Silent);
    let stop = Instant::ZERO + Duration::from_secs(if case.web { 2_000 } else { 100_000 });
    let end = world.run(stop, !case.web, &AtomicBool::new(false));
    assert_eq!(end, if case.web { End::Stopped } else { End::Complete }, "{}", case.name);
    world.events()
}

/// Processor time of this thread in seconds, where the system tells; else time on the wall.
fn processor_time(started: std::time::Instant) -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = schedstat.and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
    nanos.map_or_else(|| started.elapsed().as_secs_f64(), |nanos| nanos as f64 * 1e-9)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let csv = arguments.iter().any(|argument| argument == "--csv");
    let names: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let cases: Vec<Case> = CASES
        .into_iter()
        .filter(|case| names.is_empty() || names.iter().any(|name| *name == case.name))
        .collect();
    let loss = Probability::new(0.025).unwrap_or_default();
    if arguments.iter().any(|argument| argument == "--once") {
        cases.iter().for_each(|case| {
            std::hint::black_box(replicate(case, loss, 0));
        });
        return;
    }
    let started = std::time::Instant::now();
    let mut seconds = vec![Vec::with_capacity(ROUNDS); cases.len()];
    let mut events = vec![0; cases.len()];
    for _ in 0..ROUNDS {
        for (index, case) in cases.iter().enumerate() {
            let before = processor_time(started);
            let sum: u64 = (0..case.replications).map(|index| replicate(case, loss, index)).sum();
            seconds[index].push((processor_time(started) - before) / case.replications as f64);
            events[index] = sum / case.replications;
        }
    }
    let medians: Vec<f64> = seconds
        .into_iter()
        .map(|mut rounds: Vec<f64>| {
            rounds.sort_by(f64::total_cmp);
            rounds[ROUNDS / 2]
        })
        .collect();
    if !csv {
        println!(
            "{:<26} {:>9} {:>10} {:>9} {:>9} {:>9}",
            "one replication", "ms", "events", "ns/event", "events/s", "first = 1"
        );
    }
    for ((case, seconds), events) in cases.iter().zip(&medians).zip(events) {
        let rate = events as f64 / seconds;
        if csv {
            println!("{},{:.6},{events}", case.name, seconds * 1e3);
        } else {
            println!(
                "{:<26} {:>9.3} {events:>10} {:>9.2} {:>9} {:>9.2}",
                case.name,
                seconds * 1e3,
                1e9 / rate,
                format!("{:.0} M", rate * 1e-6),
                seconds / medians[0]
            );
        }
    }
}
