//! Services that share a link: shares, isolation, and the gain of each application. Seeds are
//! fixed; statistical checks allow 5 sigma.

use lasthop::run::{self, Options, Results};
use lasthop::scenario::Scenario;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const SR: &str = r#"{ kind = "selective-repeat", window = 128 }"#;
const GBN: &str = r#"{ kind = "go-back-n", window = 127, reject = true }"#;
const RAW: &str = r#"{ kind = "raw" }"#;
const OOS: &str = r#"{ kind = "oos-rlp", retransmissions = 1 }"#;

fn run(text: &str, replications: u64) -> Results {
    let scenarios: Vec<_> = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .into_iter()
        .map(|point| point.scenario)
        .collect();
    let options = Options { replications, first_replication: 0, seed: 5, jobs: 2 };
    run::run(&scenarios, &options, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the values of a metric, by replication.
fn values(results: &Results, metric: &str) -> Vec<f64> {
    let place = results.metrics.iter().position(|name| name == metric);
    let place = place.unwrap_or_else(|| panic!("no {metric} in {:?}", results.metrics));
    results.rows.iter().map(|row| row.values[place]).collect()
}

fn mean(results: &Results, metric: &str) -> f64 {
    let values = values(results, metric);
    values.iter().sum::<f64>() / values.len() as f64
}

/// `[link.air]` of 64 kbps and 5 ms from s to c, with this protocol.
fn air(protocol: &str, loss: f64) -> String {
    format!(
        r#"
        name = "services"
        [link.air]
        between = ["s", "c"]
        rate = "64 kbps"
        delay = "5 ms"
        protocol = {protocol}
        errors = {{ kind = "uniform", loss = {loss} }}
        "#
    )
}

/// Continuous datagrams from s to c.
fn datagrams(name: &str, service: &str, rate: &str, bytes: u32) -> String {
    format!(
        r#"
        [flow.{name}]
        from = "s"
        to = "c"
        {service}
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "{rate}", on = "10000 s", off = "0 s", packet = "{bytes} B" }}
        "#
    )
}

fn run_for(seconds: u32) -> String {
    format!("[run]\nduration = \"{seconds} s\"\n")
}

const SECONDS: u32 = 400;

/// Weights, protocols and packets of three saturated services.
const SATURATED: [(&str, u32, &str, u32); 3] =
    [("one", 1, RAW, 250), ("two", 2, GBN, 400), ("three", 3, SR, 100)];

/// Closed form: while two services both have frames, their bits differ by at most one longest frame
/// of each, relative to their weights. The frame in transmission at the end of the run counts
/// partially, which adds at most one frame.
#[test]
fn saturated_services_get_their_weights_whatever_is_lost() {
    let services: String = SATURATED
        .iter()
        .map(|(name, weight, protocol, _)| {
            format!("{name} = {{ weight = {weight}, protocol = {protocol} }},")
        })
        .collect();
    let protocol = format!("{{ kind = \"services\", service = {{ {services} }} }}");
    for loss in [0.0, 0.05, 0.2] {
        let flows = SATURATED.iter().map(|(name, _, _, bytes)| {
            datagrams(name, &format!("service = \"{name}\""), "640 kbps", *bytes)
        });
        let text = air(&protocol, loss) + &flows.collect::<String>() + &run_for(SECONDS);
        let results = run(&text, 4);
        let longest = |index: usize| f64::from(SATURATED[index].3 + 3) * 8.0;
        let mut again = 0.0;
        for row in 0..4 {
            let value = |name: &str, metric: &str| {
                values(&results, &format!("link.air.forward.{name}.{metric}"))[row]
            };
            let work: Vec<f64> = SATURATED
                .iter()
                .map(|(name, weight, ..)| {
                    let bits = value(name, "utilization") * 64_000.0 * f64::from(SECONDS);
                    bits / f64::from(*weight)
                })
                .collect();
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                let weighted = |index: usize| longest(index) / f64::from(SATURATED[index].1);
                let bound = weighted(a) + weighted(b) + weighted(a).max(weighted(b));
                let apart = (work[a] - work[b]).abs();
                assert!(apart <= bound, "loss {loss}: {a} and {b} {apart} bits apart, {bound}");
            }
            again += value("two", "retransmissions") + value("three", "retransmissions");
            let all = values(&results, "link.air.forward.utilization")[row];
            assert!(all > 0.9999, "loss {loss}: {all} of the link is used");
        }
        assert_eq!(again > 0.0, loss > 0.0, "the price of recovery");
        // A sixth of the link in frames of 251 bytes with independent losses: retransmissions of
        // other services do not affect service one.
        let frames = 64_000.0 * f64::from(SECONDS) / 6.0 / (251.0 * 8.0);
        let expected = frames * (1.0 - loss);
        let sigma = (frames * loss * (1.0 - loss)).sqrt();
        for delivered in values(&results, "flow.one.packets_delivered") {
            let off = (delivered - expected).abs();
            assert!(off <= 5.0 * sigma + 4.0, "loss {loss}: {delivered}, expected {expected}");
        }
    }
}

/// Without other traffic, a service has the whole link, regardless of its weight: without an
/// identifier, its results are bit-identical to those of a link with its protocol.
#[test]
fn a_single_active_service_has_the_whole_link() {
    let transfer = |service: &str| {
        format!(
            r#"
            [flow.transfer]
            from = "s"
            to = "c"
            {service}
            transport = {{ kind = "tcp", variant = "sack", profile = "rfc" }}
            app = {{ kind = "file", size = "300 kB" }}
            "#
        )
    };
    for protocol in [SR, GBN] {
        let alone = run(&(air(protocol, 0.05) + &transfer("")), 3);
        let services = format!(
            r#"{{ kind = "services", identifier = "0 B", service = {{
                   other = {{ weight = 999 }}, own = {{ protocol = {protocol} }} }} }}"#
        );
        let shared = run(&(air(&services, 0.05) + &transfer(r#"service = "own""#)), 3);
        for metric in alone.metrics.iter() {
            let [alone, shared] = [&alone, &shared].map(|results| values(results, metric));
            let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(alone), bits(shared), "{protocol}: {metric}");
        }
        let entity = "link.air.forward.own";
        assert_eq!(values(&shared, &format!("{entity}.share")), [1.0; 3]);
        let (own, all) = (format!("{entity}.data_frames"), "link.air.forward.data_frames");
        assert_eq!(values(&shared, &own), values(&shared, all));
    }
}

/// Measured shares follow the load: a link with insufficient rate is divided 3 to 1 if the load is
/// 3 to 1.
#[test]
fn measured_shares_are_those_of_the_load() {
    let protocol = r#"{ kind = "services", shares = "measured", interval = "2 s",
                        service = { much = {}, little = { weight = 9 } } }"#;
    let text = air(protocol, 0.0)
        + &datagrams("much", "", "120 kbps", 250)
        + &datagrams("little", r#"service = "little""#, "40 kbps", 250)
        + &run_for(400);
    let results = run(&text, 1);
    let share = mean(&results, "link.air.forward.much.share");
    // The first interval, 0.5 % of the run, is divided 1 to 9. Later weights are whole thousandths,
    // and a packet more or less per interval changes them slightly.
    assert!((share - 0.75).abs() < 0.006, "{share}");
}

/// Two services that both offer nearly the rate of the link receive half of it each, also around
/// the first measurement, when weights of 1 become parts of 1000.
#[test]
fn the_first_measurement_shuts_nobody_out() {
    let protocol = r#"{ kind = "services", shares = "measured", interval = "2 s",
                        service = { one = {}, two = {} } }"#;
    let text = air(protocol, 0.0)
        + &datagrams("one", "", "60 kbps", 250)
        + &datagrams("two", r#"service = "two""#, "60 kbps", 250)
        + &run_for(10);
    let share = mean(&run(&text, 1), "link.air.forward.one.share");
    // About 300 frames: one more or less is 0.3 %; rounding to thousandths is less.
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

/// The residual loss of the radio link protocol with one copy is p (1 - (1 - p)^2). This also holds
/// if its frames alternate with those of a saturated service and several copies are in flight.
#[test]
fn copies_have_time_for_the_turns_of_others() {
    let text = r#"
        name = "turns"
        [link.air]
        between = ["s", "c"]
        preset = "cellular"
        errors = { kind = "uniform", loss = "5 %" }
        [link.air.protocol]
        kind = "services"
        [link.air.protocol.service.voice]
        protocol = { kind = "oos-rlp", retransmissions = 1 }
        [link.air.protocol.service.bulk]
        weight = 3
        [flow.voice]
        from = "s"
        to = "c"
        service = "voice"
        transport = { kind = "udp" }
        app = { kind = "media", rate = "8 kbps", packet = "50 B", silence = "0 s" }
        [flow.bulk]
        from = "s"
        to = "c"
        service = "bulk"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "60 kbps", on = "10000 s", off = "0 s", packet = "50 B" }
        [run]
        duration = "2000 s"
    "#;
    let residual = mean(&run(text, 4), "flow.voice.residual_loss");
    // 160 000 packets: 5 standard errors, false-positive rate below 1e-6.
    let (p, packets) = (0.05f64, 160_000.0);
    let expected = p * (1.0 - (1.0 - p) * (1.0 - p));
    let error = (expected * (1.0 - expected) / packets).sqrt();
    assert!((residual - expected).abs() < 5.0 * error, "{residual}, not {expected}");
}

/// Continuous speech of 9.6 kbps, 60 bytes every 50 ms: 3/20 of the link of [`air`].
fn speech() -> String {
    r#"
    [flow.call]
    from = "s"
    to = "c"
    service = "voice"
    transport = { kind = "udp" }
    app = { kind = "media", rate = "9.6 kbps", packet = "60 B", silence = "0 s" }
    "#
    .to_owned()
}

/// An endless file, in packets of 250 bytes.
fn file(service: &str) -> String {
    format!(
        r#"
        [flow.{service}]
        from = "s"
        to = "c"
        service = "{service}"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "210 B", initial_window = "10 segments" }}
        app = {{ kind = "file", size = "1 GB" }}
        "#
    )
}

/// Returns the delay of each delivered datagram, by number, in seconds.
fn delays(text: &str) -> BTreeMap<u64, f64> {
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    let scenario = &document.points().expect("points")[0].scenario;
    let trace = run::trace(scenario, 5, 0, &AtomicBool::new(false)).expect("a run");
    let received = trace.events.iter().filter(|event| event.event == "datagram_received");
    received.map(|event| (event.sequence as u64, event.value)).collect()
}

/// Two services for files, and one for speech, which loses every tie.
fn beside_files(speech: &str) -> String {
    format!(
        r#"{{ kind = "services", service = {{ one = {{ protocol = {SR}, queue = "9 packets" }},
             two = {{ protocol = {GBN} }}, voice = {{ protocol = {speech} }} }} }}"#
    )
}

/// Air time in seconds of 250 bytes, a header of 2 and an identifier.
const FILE_FRAME: f64 = 253.0 * 8.0 / 64_000.0;

/// With recovery, lost packets arrive later by a delay that depends on the lost frames: the mean
/// delay satisfies the bound.
#[test]
fn speech_that_is_repeated_once_waits_no_longer_in_the_mean() {
    let mean = |others: &str| {
        let text = air(&beside_files(OOS), 0.1) + &speech() + others + &run_for(1000);
        let delays = delays(&text);
        assert!(delays.len() > 19_000, "{} of 20 000 arrive", delays.len());
        delays.values().sum::<f64>() / delays.len() as f64
    };
    let alone = mean("");
    let (one, two) = (mean(&file("one")), mean(&(file("one") + &file("two"))));
    println!("mean delay {alone} s alone, {one} s with one file, {two} s with two");
    assert!(alone < one && one < two, "{alone}, {one}, {two}");
    assert!(one - alone <= FILE_FRAME && two - alone <= 2.0 * FILE_FRAME, "{alone}, {one}, {two}");
}

/// Speech is isolated: the delay of a packet exceeds that without other services by at most one
/// longest frame of each, regardless of their load and retransmissions.
#[test]
fn speech_waits_for_one_frame_of_each_other_service() {
    let protocol = beside_files(RAW);
    let frame = FILE_FRAME;
    for loss in [0.0, 0.1] {
        let alone = delays(&(air(&protocol, loss) + &speech() + &run_for(200)));
        // 60 bytes and an identifier, and the propagation delay.
        assert!(alone.values().all(|delay| (delay - 61.0 * 8.0 / 64_000.0 - 0.005).abs() < 1e-6));
        for others in [vec!["one"], vec!["one", "two"]] {
            let files: String = others.iter().map(|service| file(service)).collect();
            let mixed = delays(&(air(&protocol, loss) + &speech() + &files + &run_for(200)));
            let most = mixed
                .iter()
                // Alone, packets never wait.
                .map(|(number, delay)| delay - alone.get(number).unwrap_or(&0.012_625))
                .fold(0.0f64, f64::max);
            println!("loss {loss}, {others:?}: {most} s later, a frame is {frame} s");
            assert!(most <= frame * others.len() as f64 + 1e-9, "{loss}, {others:?}: {most}");
            assert!(most > 0.9 * frame, "the link is full: {most}");
        }
    }
}

/// Mean and standard error.
fn statistics(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

mod slow {
    use super::*;

    /// The gain of selective repeat for a file, and for a call, is equal alone and together. The call
    /// uses part of the link; the file alone has a link with the remaining rate.
    #[test]
    fn each_application_gains_what_it_gains_alone() {
        let sr = r#"{ kind = "selective-repeat", window = 16 }"#;
        let air = |file: &str, call: &str| {
            let protocol = format!(
                r#"{{ kind = "services", service = {{ one = {{ protocol = {file} }},
                     voice = {{ protocol = {call} }} }} }}"#
            );
            air(&protocol, 0.05).replace("5 ms", "50 ms")
        };
        let end = run_for(1000);
        for call in [RAW, sr] {
            // Goodput of the file over raw and over selective repeat.
            let [raw, best] = [RAW, sr].map(|protocol| {
                let mixed = run(&(air(protocol, call) + &speech() + &file("one") + &end), 10);
                let used = mean(&mixed, "link.air.forward.voice.utilization");
                let left = format!("{} bps", (64_000.0 * (1.0 - used)) as u64);
                let link = air(protocol, call).replace("64 kbps", &left);
                let alone = run(&(link + &file("one") + &end), 10);
                [alone, mixed].map(|results| values(&results, "flow.one.goodput_bps"))
            });
            let gain = |place: usize| {
                let pairs = raw[place].iter().zip(&best[place]);
                statistics(&pairs.map(|(raw, best)| best / raw).collect::<Vec<_>>())
            };
            let ((alone, alone_error), (mixed, mixed_error)) = (gain(0), gain(1));
            let error = alone_error.hypot(mixed_error);
            println!("file: gain {alone} alone, {mixed} with a call over {call}, error {error}");
            assert!(alone > 1.8 && error < 0.02 * alone, "{alone} +- {error}");
            assert!((alone - mixed).abs() < 5.0 * error, "{alone} and {mixed} +- {error}");
        }
        // Fraction of the call's packets lost with raw that arrive in time with selective repeat. The
        // deadline is too early for the default timer if a NACK or a copy is lost, too.
        let hasty = r#"{ kind = "selective-repeat", window = 16, timeout = "250 ms" }"#;
        let missed = |call: &str, file: &str| {
            let results = run(&(air(sr, call) + &speech() + file + &end), 10);
            mean(&results, "flow.call.deadline_miss")
        };
        for file in ["", &file("one")] {
            let saved = 1.0 - missed(hasty, file) / missed(RAW, file);
            println!("call: {saved} of the losses are repaired in time");
            assert!(saved > 0.9, "{saved}");
        }
    }
}
