//! A source that only shares a queue is replayed lazily by that queue, with identical drops and delays, bit for
//! bit, as with one event per packet.
//!
//! Whole runs: every metric of random scenarios, `replay = "lazy"` against `"per-packet"`. The queue
//! alone: every admission and air time against a model without runs and blocks.

use crate::scenarios::scenario;
use lasthop::app::Replay;
use lasthop::channel::{Airtime, Channel, Clean, TwoState, TwoStateParameters, Uniform};
use lasthop::queue::{
    ComputedFifo, Fate, Limit, OnOff, OnOffParameters, QueueCounters, Transmitter,
};
use lasthop::rng::{DurationDistribution, ParetoShape, Streams};
use lasthop::run::{self, Options};
use lasthop::scenario::{App, Scenario};
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

/// The scenario with lazy replay, and with an event for each packet.
fn both_ways(text: &str) -> [Scenario; 2] {
    let lazy = scenario(text);
    let mut packets = lazy.clone();
    for flow in Arc::make_mut(&mut packets.flows) {
        if let App::OnOff(source) = &mut flow.app {
            assert_eq!(source.replay, Replay::Lazy, "the default");
            source.replay = Replay::PerPacket;
        }
    }
    [lazy, packets]
}

/// Runs `scenario` both ways and compares every metric.
fn compare(text: &str, seed: u64) -> Result<Vec<(String, f64)>, TestCaseError> {
    let options = Options { replications: 1, first_replication: 0, seed, jobs: 1 };
    let results = both_ways(text).map(|scenario| {
        run::run(&[scenario], &options, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
    });
    let [lazy, packets] = results;
    prop_assert_eq!(&lazy.metrics, &packets.metrics);
    let rows = lazy.rows[0].values.iter().zip(&packets.rows[0].values);
    let mut metrics = Vec::new();
    for (name, (lazy, packets)) in lazy.metrics.iter().zip(rows) {
        prop_assert_eq!(
            lazy.to_bits(),
            packets.to_bits(),
            "{}: lazy {}, per packet {}, seed {}, scenario\n{}",
            name,
            lazy,
            packets,
            seed,
            text
        );
        metrics.push((name.clone(), *lazy));
    }
    Ok(metrics)
}

/// Link rates whose packet times are usually not whole nanoseconds.
fn rates() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(10_000_000),
        Just(2_000_000),
        Just(9_999_991),
        Just(3_333_333),
        1_000_000u64..20_000_000,
    ]
}

/// Load while on, as a fraction of the link's rate.
fn loads() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.999),
        Just(1.0),
        Just(0.9999),
        Just(1.0001),
        0.05f64..0.95,
        0.95f64..1.05,
        1.05f64..3.0,
    ]
}

#[derive(Clone, Debug)]
struct Source {
    load: f64,
    packet: u64,
    on_ms: u64,
    off_ms: u64,
    start_us: u64,
    times: Times,
}

/// Distribution of the on and off times.
#[derive(Clone, Copy, Debug)]
enum Times {
    Constant,
    Exponential,
    /// Pareto distributions with shape 2, and with a lower shape, whose means converge slowly.
    Pareto,
    Heavy,
}

impl Times {
    /// Returns a time with this mean in the notation of scenarios.
    fn word(self, millis: u64) -> String {
        match self {
            // The mean of a Pareto distribution is positive.
            Times::Pareto if millis > 0 => format!("pareto {millis} ms shape 2"),
            Times::Heavy if millis > 0 => format!("pareto {millis} ms shape 1.2"),
            Times::Exponential => format!("exp {millis} ms"),
            Times::Constant | Times::Pareto | Times::Heavy => format!("{millis} ms"),
        }
    }

    fn law(self, mean: Duration) -> DurationDistribution {
        let pareto =
            |shape| DurationDistribution::Pareto(mean, ParetoShape::new(shape).expect("above 1"));
        match self {
            Times::Pareto if mean > Duration::ZERO => pareto(2.0),
            Times::Heavy if mean > Duration::ZERO => pareto(1.2),
            Times::Exponential => DurationDistribution::Exponential(mean),
            Times::Constant | Times::Pareto | Times::Heavy => DurationDistribution::Constant(mean),
        }
    }
}

fn sources() -> impl Strategy<Value = Source> {
    let packet = prop_oneof![Just(250u64), 40u64..1500];
    (
        loads(),
        packet,
        1u64..1500,
        0u64..1500,
        prop_oneof![Just(0u64), 0u64..3_000_000],
        prop_oneof![
            Just(Times::Constant),
            Just(Times::Exponential),
            Just(Times::Pareto),
            Just(Times::Heavy),
        ],
    )
        .prop_map(|(load, packet, on_ms, off_ms, start_us, times)| Source {
            load,
            packet,
            on_ms,
            off_ms,
            start_us,
            times,
        })
}

fn source_text(name: &str, from: &str, to: &str, link: u64, source: &Source) -> String {
    let [on, off] = [source.on_ms, source.off_ms].map(|millis| source.times.word(millis));
    format!(
        r#"
        [flow.{name}]
        from = "{from}"
        to = "{to}"
        start = "{} us"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "{} bps", on = "{on}", off = "{off}", packet = "{} B" }}
        "#,
        source.start_us,
        ((link as f64 * source.load) as u64).max(1),
        source.packet,
    )
}

pub fn scenarios() -> impl Strategy<Value = String> {
    let queue = prop_oneof![
        3 => (1u64..60).prop_map(|packets| format!("{packets} packets")),
        1 => (2000u64..40_000).prop_map(|bytes| format!("{bytes} B")),
    ];
    let errors = prop_oneof![
        3 => Just("{ kind = \"none\" }".to_owned()),
        1 => (0.0f64..0.2).prop_map(|p| format!("{{ kind = \"uniform\", loss = {p} }}")),
        1 => Just("{ kind = \"two-state\", good = \"300 ms\", bad = \"50 ms\", good_ber = 1e-6, bad_ber = 1e-3 }".to_owned()),
        1 => Just("{ kind = \"gilbert-elliott\", mean_loss = 0.05, mean_burst = 3 }".to_owned()),
    ];
    let delay = prop_oneof![Just("1 ms"), Just("50 ms"), Just("0 s")];
    let wireless = prop_oneof![Just("64 kbps"), Just("1 Mbps"), Just("30 Mbps")];
    let protocol =
        prop_oneof![3 => Just("{ kind = \"raw\" }"), 1 => Just("{ kind = \"selective-repeat\" }")];
    let tcp = prop_oneof![
        Just(r#"variant = "reno", profile = "ns-2", segment = "252 B""#),
        Just(r#"variant = "sack", profile = "rfc", segment = "1000 B""#),
        Just(r#"variant = "newreno", profile = "rfc", segment = "333 B""#),
    ];
    let app = prop_oneof![3 => Just("{ kind = \"file\", size = \"150 kB\" }"), 1 => Just("{ kind = \"web\" }")];
    let links = (rates(), queue, errors, delay, 0u64..30);
    let traffic = (sources(), prop::option::of(sources()), prop::option::of(sources()));
    (links, wireless, protocol, tcp, app, traffic, 0u64..2_000_000).prop_map(
        |((rate, queue, errors, delay, header), wireless, protocol, tcp, app, traffic, start)| {
            let (first, second, back) = traffic;
            let mut text = format!(
                r#"
                name = "random"
                [link.wired]
                between = ["server", "ap"]
                rate = "{rate} bps"
                delay = "{delay}"
                queue = "{queue}"
                header = "{header} B"
                errors = {errors}
                [link.wireless]
                between = ["ap", "client"]
                rate = "{wireless}"
                delay = "50 ms"
                protocol = {protocol}
                errors = {{ kind = "uniform", loss = "2 %" }}
                [flow.transfer]
                from = "server"
                to = "client"
                start = "{start} us"
                transport = {{ kind = "tcp", {tcp} }}
                app = {app}
                [run]
                max_time = "30 s"
                "#
            );
            text += &source_text("first", "server", "ap", rate, &first);
            if let Some(second) = second {
                text += &source_text("second", "server", "ap", rate, &second);
            }
            if let Some(back) = back {
                // In the direction of the ACKs.
                text += &source_text("back", "ap", "server", rate, &back);
            }
            if app.contains("web") {
                text = text.replace("max_time", "duration");
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(config(if cfg!(debug_assertions) { 20 } else { 100 }))]

    #[test]
    fn a_lazy_source_changes_no_metric_of_any_run(text in scenarios(), seed in 0u64..1000) {
        let metrics = compare(&text, seed)?;
        prop_assert!(metrics.iter().any(|(name, _)| name == "flow.first.packets_sent"));
    }
}

/// Returns a transfer with `count` sources of 100 kbps that are on for a tenth of the time.
fn many_sources(count: usize) -> String {
    let mut text = r#"
        name = "many sources"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "1 ms"
        [link.wireless]
        between = ["ap", "client"]
        rate = "64 kbps"
        delay = "50 ms"
        [flow.transfer]
        from = "server"
        to = "client"
        transport = { kind = "tcp", variant = "reno", profile = "rfc" }
        app = { kind = "file", size = "1 MB" }
        [run]
        duration = "20 s"
        "#
    .to_owned();
    let load = 0.01;
    for index in 0..count {
        let source = Source {
            load,
            packet: 250,
            on_ms: 1000,
            off_ms: 9000,
            start_us: index as u64 % 7,
            times: Times::Exponential,
        };
        text += &source_text(&format!("source{index}"), "server", "ap", 10_000_000, &source);
    }
    text
}

#[test]
fn any_number_of_sources_is_the_same_both_ways() {
    for count in [2, 4, 5, 50, 1000] {
        compare(&many_sources(count), 1).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The scenarios of the first study, once each, with a check that congestion affects them.
#[test]
fn the_studys_congestion_is_the_same_both_ways() {
    for (name, wired_rate, delay, source_rate) in
        [("LAN", "10 Mbps", "1 ms", "9.99 Mbps"), ("WAN", "2 Mbps", "50 ms", "1.99 Mbps")]
    {
        for (variant, protocol) in [
            ("reno", "{ kind = \"raw\" }"),
            ("sack", "{ kind = \"selective-repeat\", window = 8 }"),
        ] {
            let text = format!(
                r#"
                name = "{name}"
                [link.wired]
                between = ["server", "ap"]
                rate = "{wired_rate}"
                delay = "{delay}"
                [link.wireless]
                between = ["ap", "client"]
                rate = "64 kbps"
                delay = "50 ms"
                protocol = {protocol}
                errors = {{ kind = "uniform", loss = "2.5 %" }}
                [flow.transfer]
                from = "server"
                to = "client"
                transport = {{ kind = "tcp", variant = "{variant}", profile = "ns-2", segment = "250 B" }}
                app = {{ kind = "file", size = "600 kB" }}
                [flow.congestion]
                from = "server"
                to = "ap"
                transport = {{ kind = "udp" }}
                app = {{ kind = "on-off", rate = "{source_rate}", on = "exp 1 s", off = "exp 1.35 s", packet = "250 B" }}
                "#
            );
            let metrics = compare(&text, 1).unwrap_or_else(|error| panic!("{error}"));
            let value = |wanted: &str| {
                metrics.iter().find(|(name, _)| name == wanted).map(|(_, value)| *value).unwrap()
            };
            assert_eq!(value("flow.transfer.complete"), 1.0);
            assert!(value("flow.congestion.packets_sent") > 5_000.0);
            assert!(value("link.wired.forward.queue_drops") > 0.0, "{name} {variant}");
        }
    }
}

/// A drop-tail queue that stores every departure, in integers of 1 / rate nanoseconds.
struct Naive {
    rate: u128,
    limit: Limit,
    channel: Channel,
    header: u32,
    /// Exact end of the newest transmission, times rate.
    free_at: u128,
    /// (departure, bits) of packets in the queue.
    held: VecDeque<(u64, u64)>,
    sources: Vec<(OnOff, QueueCounters)>,
    counters: QueueCounters,
}

impl Naive {
    fn admit(&mut self, now: u64, bytes: u32, counters: &mut QueueCounters) -> Fate {
        while self.held.front().is_some_and(|&(departure, _)| departure <= now) {
            self.held.pop_front();
        }
        let bits = u64::from(bytes + self.header) * 8;
        let has_room = match self.limit {
            Limit::Packets(limit) => (self.held.len() as u64) < limit,
            Limit::Bytes(limit) => {
                // An idle transmitter takes any packet.
                let held: u64 = self.held.iter().map(|&(_, bits)| bits).sum();
                self.held.is_empty() || held + bits <= limit.bits()
            }
        };
        if !has_room {
            counters.drops += 1;
            return Fate::Dropped;
        }
        let free_ns = (self.free_at / self.rate) as u64;
        let start = if free_ns >= now { self.free_at } else { u128::from(now) * self.rate };
        self.free_at = start + u128::from(bits) * 1_000_000_000;
        let end = (self.free_at / self.rate) as u64;
        self.held.push_back((end, bits));
        let airtime = Airtime {
            start: Instant::from_nanos((start / self.rate) as u64),
            end: Instant::from_nanos(end),
            bits,
        };
        let is_lost = self.channel.is_lost(airtime);
        counters.frames_sent += 1;
        counters.bits_sent += bits;
        counters.frames_lost += u64::from(is_lost);
        if is_lost { Fate::Lost { end: airtime.end } } else { Fate::Sent { end: airtime.end } }
    }

    fn catch_up(&mut self, now: Instant) {
        while let Some(index) = (0..self.sources.len())
            .filter(|&index| self.sources[index].0.next_at() <= now)
            .min_by_key(|&index| (self.sources[index].0.next_at(), index))
        {
            let (source, counters) = &mut self.sources[index];
            let (at, bytes) = (source.next_at().as_nanos(), source.packet().get() as u32);
            source.advance(1);
            let mut counted = *counters;
            self.admit(at, bytes, &mut counted);
            self.sources[index].1 = counted;
        }
    }

    fn offer(&mut self, now: Instant, bytes: u32) -> Fate {
        self.catch_up(now);
        let mut counted = self.counters;
        let fate = self.admit(now.as_nanos(), bytes, &mut counted);
        self.counters = counted;
        fate
    }

    fn length(&self, now: Instant) -> u64 {
        self.held.iter().filter(|&&(departure, _)| departure > now.as_nanos()).count() as u64
    }
}

#[derive(Clone, Debug)]
struct QueueCase {
    rate: u64,
    limit: Limit,
    header: u64,
    errors: u8,
    sources: Vec<Source>,
    /// Foreground packets: the interval before each, in nanoseconds, and its size.
    offers: Vec<(u64, u32)>,
    seed: u64,
}

fn queue_cases() -> impl Strategy<Value = QueueCase> {
    let limit = prop_oneof![
        3 => (1u64..60).prop_map(Limit::Packets),
        1 => (1500u64..30_000).prop_map(|bytes| Limit::Bytes(Bytes::new(bytes))),
    ];
    let gap =
        prop_oneof![Just(0u64), 1u64..100_000, 100_000u64..5_000_000, 5_000_000u64..3_000_000_000,];
    // 64-byte packets back to back, large packets, packets of the background's size.
    let offer = (gap, prop_oneof![Just(250u32), Just(40), 40u32..1500]);
    (
        rates(),
        limit,
        prop_oneof![Just(0u64), 1u64..30],
        prop_oneof![3 => Just(0u8), 1 => Just(1), 1 => Just(2)],
        prop::collection::vec(sources(), 1..4),
        prop::collection::vec((offer, prop_oneof![Just(1usize), 1usize..60]), 1..40),
        any::<u64>(),
    )
        .prop_map(|(rate, limit, header, errors, mut sources, offers, seed)| {
            // Usually one source: only a single source is replayed in blocks.
            if seed % 3 > 0 {
                sources.truncate(1);
            }
            // Bursts fill the queue, so that background packets arrive at a full queue, or one with
            // room for a single packet.
            let offers = offers
                .into_iter()
                .flat_map(|((gap, bytes), count)| {
                    (0..count).map(move |index| (if index == 0 { gap } else { 0 }, bytes))
                })
                .collect();
            QueueCase { rate, limit, header, errors, sources, offers, seed }
        })
}

fn channel(errors: u8, streams: &Streams) -> Channel {
    match errors {
        0 => Channel::Clean(Clean {}),
        1 => Channel::Uniform(Uniform::new(Probability::new(0.1).unwrap(), streams, "link")),
        _ => {
            let states = TwoStateParameters {
                good: Duration::from_millis(100),
                bad: Duration::from_millis(20),
                good_ber: Probability::new(1e-6).unwrap(),
                bad_ber: Probability::new(1e-3).unwrap(),
            };
            Channel::TwoState(TwoState::new(states, streams, "link").unwrap())
        }
    }
}

proptest! {
    #![proptest_config(config(if cfg!(debug_assertions) { 150 } else { 1000 }))]

    #[test]
    fn the_queue_admits_what_a_naive_queue_admits(case in queue_cases()) {
        let streams = Streams { seed: case.seed, replication: 0 };
        let rate = Rate::from_bps(case.rate);
        let header = Bytes::new(case.header);
        let mut queue = ComputedFifo::new(Transmitter::new(rate), case.limit, header, channel(case.errors, &streams));
        let mut naive = Naive {
            rate: case.rate.into(),
            limit: case.limit,
            channel: channel(case.errors, &streams),
            header: case.header as u32,
            free_at: 0,
            held: VecDeque::new(),
            sources: Vec::new(),
            counters: QueueCounters::default(),
        };
        for (index, source) in case.sources.iter().enumerate() {
            let parameters = OnOffParameters {
                rate: Rate::from_bps(((case.rate as f64 * source.load) as u64).max(1)),
                on: source.times.law(Duration::from_millis(source.on_ms)),
                off: source.times.law(Duration::from_millis(source.off_ms)),
                packet: Bytes::new(source.packet),
            };
            let start = Instant::from_nanos(source.start_us * 1000);
            let stream = streams.stream(&format!("source {index}"), "on-off");
            let source = OnOff::new(parameters, start, stream);
            prop_assert_eq!(queue.add_background(source.clone()), index);
            naive.sources.push((source, QueueCounters::default()));
        }
        let mut now = Instant::ZERO;
        for &(gap, bytes) in &case.offers {
            now += Duration::from_nanos(gap);
            prop_assert_eq!(queue.offer(now, bytes), naive.offer(now, bytes), "at {}", now.as_nanos());
            prop_assert_eq!(queue.length(now), naive.length(now), "at {}", now.as_nanos());
        }
        now += Duration::from_secs(1);
        queue.catch_up(now);
        naive.catch_up(now);
        let mut total = naive.counters;
        for (index, (_, counters)) in naive.sources.iter().enumerate() {
            prop_assert_eq!(queue.background_counters(index), *counters);
            total = total + *counters;
        }
        prop_assert_eq!(queue.total_counters(), total);
    }
}
