//! Media streams: the metrics of their receivers compared with hand-computed values.

use lasthop::app::{App, MediaKeys, SourceSite};
use lasthop::channel::{Channel, Uniform};
use lasthop::link::{LinkEndpoint, Raw};
use lasthop::queue::{Limit, OnOff, OnOffParameters, Queue, Transmitter};
use lasthop::rng::{DurationDistribution, Streams};
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::sim::builder::{Builder, RoundTrip};
use lasthop::sim::direction::DirectionParameters;
use lasthop::sim::ids::{DirectionId, Side};
use lasthop::sim::probe::Silent;
use lasthop::sim::world::End;
use lasthop::transport::Udp;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

type Metrics = BTreeMap<String, f64>;

/// Returns the metrics of each replication of a scenario.
fn replications(text: &str, seed: u64, count: u64) -> Vec<Metrics> {
    let scenario = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .remove(0)
        .scenario;
    let options = Options { replications: count, first_replication: 0, seed, jobs: 1 };
    let results = run::run(&[scenario], &options, &mut |_| true).unwrap();
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}

/// Returns a media stream from `server` over a wired link and `hops` wireless links of 43.2 kbps
/// and 100 ms.
fn cellular(hops: usize, protocol: &str, loss: f64, app: &str, duration: &str) -> String {
    let links: String = (0..hops)
        .map(|hop| {
            let from = if hop == 0 { "ap".to_owned() } else { format!("relay{hop}") };
            format!(
                r#"
                [link.wireless{hop}]
                between = ["{from}", "relay{next}"]
                rate = "43.2 kbps"
                delay = "100 ms"
                protocol = {protocol}
                errors = {{ kind = "uniform", loss = {loss} }}
                "#,
                next = hop + 1
            )
        })
        .collect();
    format!(
        r#"
        name = "media"
        [link.wired]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "1 ms"
        {links}
        [flow.speech]
        from = "server"
        to = "relay{hops}"
        transport = {{ kind = "udp" }}
        app = {{ kind = "media", rate = "14.4 kbps", packet = "50 B"{app} }}
        [run]
        duration = "{duration}"
        "#
    )
}

const RAW: &str = r#"{ kind = "raw" }"#;
const CONSTANT: &str = r#", talk = "1 s", silence = "0 s""#;

/// Returns the transmission times of a packet on the wired and the wireless links plus the
/// propagation delays.
fn transit(hops: usize) -> f64 {
    400.0 / 10e6 + 0.001 + hops as f64 * (400.0 / 43.2e3 + 0.1)
}

/// Checks that `share` of `n` independent trials with probability `p` is within 5 standard errors:
/// false-positive rate below 1e-6.
fn assert_binomial(share: f64, n: f64, p: f64) {
    let error = (p * (1.0 - p) / n).sqrt();
    assert!((share - p).abs() < 5.0 * error, "{share}, not {p} within 5 * {error}");
}

fn speech<'a>(metrics: &'a Metrics) -> impl Fn(&str) -> f64 + 'a {
    |metric| metrics[&format!("flow.speech.{metric}")]
}

#[test]
fn over_raw_links_losses_are_those_of_the_channel_and_delay_is_constant() {
    for (hops, loss) in [(1, 0.01), (1, 0.1), (2, 0.01), (2, 0.1)] {
        for app in [CONSTANT, ""] {
            let text = cellular(hops, RAW, loss, app, "2000 s");
            let p = 1.0 - (1.0 - loss).powi(hops as i32);
            for metrics in replications(&text, 11, 2) {
                let metric = speech(&metrics);
                let n = metric("packets_sent");
                assert!(n > if app == CONSTANT { 71_900.0 } else { 25_000.0 });
                assert_binomial(metric("residual_loss"), n, p);
                // The interval between packets exceeds their transmission time: no queueing.
                assert!((metric("delay_mean_s") - transit(hops)).abs() < 4e-9);
                assert!(metric("delay_sd_s") < 1e-9);
                let twice = metric("delay_mean_s") + 2.0 * metric("delay_sd_s");
                assert_eq!(metric("delay_mean_plus_2sd_s"), twice);
                for percentile in ["delay_p50_s", "delay_p95_s", "delay_p99_s"] {
                    assert!((metric(percentile) - transit(hops)).abs() < 4e-9);
                }
                // All received packets are in time.
                assert_eq!(metric("deadline_miss"), metric("residual_loss"));
                // Loss bursts are geometric with mean 1 / (1 - p) and variance p / (1 - p)^2.
                let bursts = n * p * (1.0 - p);
                let (mean, error) = (1.0 / (1.0 - p), (p / bursts).sqrt() / (1.0 - p));
                assert!((metric("loss_burst_mean") - mean).abs() < 5.0 * error);
                // Maximum of all bursts: longer than this with probability bursts * p^length.
                let longest = 1.0 + (1e-6 / bursts).ln() / p.ln();
                assert!((2.0..longest).contains(&metric("loss_burst_max")));
            }
        }
    }
}

#[test]
fn a_deadline_below_the_delay_is_missed_by_all() {
    for (deadline, missed) in [("110 ms", 1.0), ("111 ms", 0.0)] {
        let app = format!(r#"{CONSTANT}, deadline = "{deadline}""#);
        let metrics = &replications(&cellular(1, RAW, 0.0, &app, "60 s"), 1, 1)[0];
        assert_eq!(speech(metrics)("deadline_miss"), missed, "{deadline}");
    }
}

#[test]
fn over_persistent_links_nothing_is_lost() {
    for protocol in ["selective-repeat", "go-back-n"] {
        for hops in [1, 2] {
            let protocol = format!(r#"{{ kind = "{protocol}", window = 32 }}"#);
            let text = cellular(hops, &protocol, 0.05, "", "1000 s");
            let text = text.replace("delay = \"100 ms\"", "delay = \"100 ms\"\nqueue = \"1 MB\"");
            for metrics in replications(&text, 5, 2) {
                let metric = speech(&metrics);
                assert_eq!(metric("residual_loss"), 0.0, "{protocol}");
                assert_eq!(metric("loss_burst_max"), 0.0);
                assert!(metric("loss_burst_mean").is_nan());
                assert!(metric("delay_mean_s") > transit(hops) + 0.01);
                assert!(metric("deadline_miss") > 0.0);
            }
        }
    }
}

/// Runs a stream over two consecutive links, each computed or driven by a protocol without
/// recovery.
fn two_links(driven: [bool; 2], stop: Instant) -> Metrics {
    let streams = Streams { seed: 3, replication: 1 };
    let mut builder = Builder::new(streams);
    for (link, driven) in driven.into_iter().enumerate() {
        let [forward, reverse] = ["forward", "reverse"].map(|side| DirectionParameters {
            transmitter: Transmitter::new(Rate::from_bps(if link == 0 { 120_000 } else { 43_200 })),
            propagation: Duration::from_millis(700).into(),
            queue: Queue::drop_tail(Limit::Packets(3), Bytes::new(0)),
            header: Bytes::new(0),
            channel: Channel::Uniform(Uniform::new(
                Probability::new(0.1).unwrap(),
                &streams,
                &format!("link {link} {side}"),
            )),
        });
        if driven {
            let end = || LinkEndpoint::Raw(Raw::new());
            builder.arq_link((forward, end()), (reverse, end()));
        } else {
            builder.raw_link(forward, reverse);
        }
    }
    // During talk spurts the second link is overloaded: packets wait, and some are dropped.
    let speech = App::Media(MediaKeys {
        rate: Rate::from_bps(50_000),
        packet: Bytes::new(50),
        talk: DurationDistribution::Exponential(Duration::from_secs(1)),
        silence: DurationDistribution::Exponential(Duration::from_millis(600)),
        deadline: Duration::from_millis(1420),
    });
    let component = "flow.speech";
    let site = SourceSite { streams: &streams, component, start: Instant::ZERO };
    let path = [0, 1].map(|link| DirectionId::of(link, Side::Forward));
    let path = RoundTrip { there: &path, back: &[] };
    builder.flow("speech", Instant::ZERO, &|_| Udp::default().into(), path, speech.build(&site));
    let mut world = builder.build(Silent);
    assert_eq!(world.run(stop, false, &AtomicBool::new(false)), End::Stopped);
    let mut metrics = Metrics::new();
    world.metrics(&["a".to_owned(), "b".to_owned()], &mut |entity, metric, value| {
        metrics.insert(format!("{entity}.{metric}"), value.value());
    });
    metrics.retain(|name, _| name.starts_with("flow."));
    metrics
}

#[test]
fn computed_and_driven_links_tell_the_same() {
    // All kinds of ends: packets waiting, in transmission, and computed to arrive after the end.
    for stop in (0..100).map(|step| Instant::from_nanos(40_000_000_000 + 73_123_457 * step)) {
        let computed = two_links([false, false], stop);
        assert!(computed["flow.speech.loss_burst_max"] > 1.0);
        assert!(computed["flow.speech.delay_sd_s"] > 0.005);
        assert!(computed["flow.speech.deadline_miss"] > computed["flow.speech.residual_loss"]);
        for driven in [[true, true], [true, false], [false, true]] {
            assert_eq!(two_links(driven, stop), computed, "{driven:?} {stop:?}");
        }
    }
}

#[test]
fn what_is_under_way_at_the_end_is_neither_delivered_nor_lost() {
    // Packet k is sent at (k + 1) * 27.7 ms and takes 110.3 ms: within 5 s, 180 are sent and 176
    // arrive.
    let metrics = &replications(&cellular(1, RAW, 0.0, CONSTANT, "5 s"), 1, 1)[0];
    let metric = speech(metrics);
    assert_eq!((metric("packets_sent"), metric("packets_delivered")), (180.0, 176.0));
    assert_eq!((metric("residual_loss"), metric("deadline_miss")), (0.0, 0.0));
    assert_eq!(metric("goodput_bps"), 176.0 * 400.0 / 5.0);
}

/// Packets of a spurt: mean and variance. On times are exponential with mean `1 / a` intervals;
/// n = max(1, round(on)) is at least k > 1 with probability exp(-a (k - 1/2)).
fn spurt(a: f64) -> (f64, f64) {
    let at_least = |k: u32| if k == 1 { 1.0 } else { (-a * (f64::from(k) - 0.5)).exp() };
    let mean: f64 = (1..10_000).map(at_least).sum();
    let square: f64 = (1..10_000).map(|k| (2.0 * f64::from(k) - 1.0) * at_least(k)).sum();
    (mean, square - mean * mean)
}

#[test]
fn talk_spurts_and_silences_have_their_lengths() {
    let second = Duration::from_secs(1);
    let parameters = OnOffParameters {
        rate: Rate::from_bps(14_400),
        on: DurationDistribution::Exponential(second),
        off: DurationDistribution::Exponential(Duration::from_millis(1350)),
        packet: Bytes::new(50),
    };
    let stream = Streams { seed: 2, replication: 0 }.stream("speech", "talk and silence");
    let mut source = OnOff::new(parameters, Instant::ZERO, stream);
    let interval = 400.0 / 14_400.0;
    let (mean, variance) = spurt(interval);
    let count = 40_000;
    let (mut packets, mut talk, mut silence) = (0.0, 0.0, 0.0);
    let mut ended = 0.0;
    for _ in 0..count {
        let length = source.left_in_burst();
        silence += source.next_at().as_secs_f64() - ended - interval;
        ended = source.at(length - 1).as_secs_f64();
        talk += ended - source.next_at().as_secs_f64() + interval;
        packets += length as f64;
        source.advance(length);
    }
    // 5 standard errors each: false-positive rate below 1e-6.
    let n = f64::from(count);
    assert!((packets / n - mean).abs() < 5.0 * (variance / n).sqrt(), "{} {mean}", packets / n);
    assert!((silence / n - 1.35).abs() < 5.0 * 1.35 / n.sqrt(), "{}", silence / n);
    // The fraction of talk, 1 / 2.35: by the delta method on independent spurts and silences.
    let (on, off, duty) = (mean * interval, 1.35, talk / (talk + silence));
    let error = ((off * off * variance * interval * interval + on * on * off * off) / n).sqrt()
        / ((on + off) * (on + off));
    assert!((duty - on / (on + off)).abs() < 5.0 * error, "{duty}");
    assert!((duty - 1.0 / 2.35).abs() < 5.0 * error + 1e-4, "{duty}");
}

#[test]
fn a_run_has_as_many_packets_as_renewals_give() {
    // Cycles of n packets that last n intervals and a silence form a renewal reward process, whose
    // count is normal in a long run. 20 runs at 5 standard errors: false-positive rate below 2e-5.
    let interval = 400.0 / 14_400.0;
    let (mean, variance) = spurt(interval);
    let cycle = mean * interval + 1.35;
    let (duration, rate) = (2000.0, mean / cycle);
    let spread = (1.0 - rate * interval).powi(2) * variance + (rate * 1.35_f64).powi(2);
    let error = (duration / cycle * spread).sqrt();
    for metrics in replications(&cellular(1, RAW, 0.0, "", "2000 s"), 4, 20) {
        let sent = speech(&metrics)("packets_sent");
        assert!((sent - duration * rate).abs() < 5.0 * error, "{sent} {} {error}", duration * rate);
    }
}

#[test]
fn a_trace_shows_every_datagram() {
    let text = cellular(1, r#"{ kind = "selective-repeat" }"#, 0.05, "", "60 s");
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    let scenario = document.points().unwrap().remove(0).scenario;
    let trace = run::trace(&scenario, 1, 0, &AtomicBool::new(false)).unwrap();
    let metrics: Metrics = trace.metrics.iter().cloned().collect();
    let metric = speech(&metrics);
    let events = |entity: &str, event: &str| -> Vec<&run::TraceEvent> {
        let these = |known: &&run::TraceEvent| known.entity == entity && known.event == event;
        trace.events.iter().filter(these).collect()
    };
    let sent = events("flow.speech", "datagram_sent");
    assert_eq!(sent.len() as f64, metric("packets_sent"));
    assert!(sent.iter().enumerate().all(|(k, event)| event.sequence == k as f64));
    assert!(sent.iter().all(|event| event.value == 50.0));
    let received = events("flow.speech.receiver", "datagram_received");
    assert_eq!(received.len() as f64, metric("packets_delivered"));
    for event in &received {
        let sent = sent[event.sequence as usize].time_ns;
        assert!((event.value - (event.time_ns - sent) as f64 * 1e-9).abs() < 1e-12);
    }
    let mean = received.iter().map(|event| event.value).sum::<f64>() / received.len() as f64;
    assert!((mean - metric("delay_mean_s")).abs() < 1e-9);
}
