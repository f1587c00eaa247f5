//! Adaptive persistence in whole runs, and the number of losses declared by TCP, on which it is
//! based.

use crate::tcp_pipe::{OPENER, Pipe, ms};
use lasthop::analysis::{ArqChain, GilbertElliottLaw};
use lasthop::packet::TcpHeader;
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::tcp::{Overrides, Profile, Variant, presets};
use lasthop::units::{Bytes, Duration};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const VARIANTS: [Variant; 3] = [Variant::Reno, Variant::NewReno, Variant::Sack];

/// Returns the numbers of first transmissions and of declared losses of a transfer of 100 segments.
/// The data segments that begin at these bytes are lost, each the given number of times.
fn declared(variant: Variant, profile: Profile, lost: &[(u32, u32)]) -> (u64, u64) {
    let set = Overrides { segment: Some(Bytes::new(1000)), ..Overrides::default() };
    let config = presets::config(variant, profile, &set);
    let mut lost = lost.to_vec();
    let is_lost = move |end, _, header: &TcpHeader| {
        let fate = lost.iter_mut().find(|(seq, left)| {
            end == OPENER && header.payload > 0 && header.seq == *seq && *left > 0
        });
        fate.is_some_and(|(_, left)| {
            *left -= 1;
            true
        })
    };
    let mut pipe = Pipe::with_losses(&config, Duration::from_millis(50), is_lost);
    pipe.ends[OPENER].write(100_000);
    pipe.pump(OPENER);
    pipe.run(ms(1_000_000));
    assert!(pipe.ends[OPENER].is_all_acked());
    let counters = pipe.ends[OPENER].counters();
    (counters.segments_sent - counters.retransmissions, counters.losses_declared)
}

#[test]
fn each_lost_segment_is_declared_lost_once() {
    for variant in VARIANTS {
        for profile in [Profile::Rfc, Profile::Ns2] {
            let count = |lost: &[(u32, u32)]| {
                let (sent, declared) = declared(variant, profile, lost);
                assert!((100..=101).contains(&sent), "{variant:?} {profile:?}: {sent} with a SYN");
                declared
            };
            assert_eq!(count(&[]), 0, "{variant:?} {profile:?}");
            // In the middle of a window, duplicate ACKs indicate the loss. At the end, only the
            // timer detects it.
            assert_eq!(count(&[(30_001, 1)]), 1, "{variant:?} {profile:?}");
            assert_eq!(count(&[(99_001, 1)]), 1, "{variant:?} {profile:?}");
            // Its retransmissions are lost, too; they do not count as first transmissions.
            assert_eq!(count(&[(30_001, 3)]), 1, "{variant:?} {profile:?}");
            assert_eq!(count(&[(99_001, 4)]), 1, "{variant:?} {profile:?}");
            // In different windows.
            assert_eq!(count(&[(20_001, 1), (80_001, 1)]), 2, "{variant:?} {profile:?}");
            // In one window: recoveries that repair several losses count each of them.
            if variant != Variant::Reno {
                let found = count(&[(30_001, 1), (32_001, 1), (35_001, 1)]);
                assert_eq!(found, 3, "{variant:?} {profile:?}");
            }
        }
    }
}

/// Returns a station behind a stop-and-wait link that loses the fraction `air` of its frames and no
/// acknowledgments. The wired path loses `wire` and has a delay of 50 ms each way. The station
/// sends or receives data.
fn station(air: f64, wire: f64, weight: f64, is_upload: bool, agent: &str) -> String {
    let (from, to) = if is_upload { ("station", "server") } else { ("server", "station") };
    // Only the direction with data has losses.
    let on_data = |loss: f64| format!("{{ kind = \"uniform\", loss = {loss} }}");
    let none = || "{ kind = \"none\" }".to_owned();
    let sides = |loss| if is_upload { (on_data(loss), none()) } else { (none(), on_data(loss)) };
    let (air_up, air_down) = sides(air);
    let (wire_up, wire_down) = sides(wire);
    format!(
        r#"
        name = "station"
        [link.air]
        between = ["station", "base"]
        rate = "10 Mbps"
        delay = "100 us"
        queue = "1000 packets"
        errors = {air_up}
        reverse = {{ errors = {air_down} }}
        protocol = {{ kind = "stop-and-wait" }}
        [link.air.agent]
        kind = "adaptive-persistence"
        at = "station"
        weight = {weight}
        stay_good = 0.5
        stay_bad = 0.5
        loss_good = {air}
        loss_bad = {air}
        {agent}
        [link.wired]
        between = ["base", "server"]
        rate = "unlimited"
        delay = "50 ms"
        errors = {wire_up}
        reverse = {{ errors = {wire_down} }}
        [flow.file]
        from = "{from}"
        to = "{to}"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "30 MB" }}
        "#
    )
}

fn metrics(text: &str, replications: u64) -> Vec<HashMap<String, f64>> {
    let points = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let points: Vec<_> = points.into_iter().map(|point| point.scenario).collect();
    let options = Options { replications, first_replication: 0, seed: 1, jobs: 1 };
    let results = run::run(&points, &options, &mut |_| true).unwrap();
    let row = |row: &run::Row| results.metrics.iter().cloned().zip(row.values.clone()).collect();
    results.rows.iter().map(row).collect()
}

#[test]
fn the_limit_settles_where_the_wired_loss_says() {
    // Frames fail with probability 0.3, so that F(n) = 0.3^n, and the wired path loses 2 %: the
    // target is 0.002, the limit 6 = ceil(5.16). With weight 1/4096 the estimate of p = 0.02 has
    // the standard deviation sqrt(p (1 - p) / 8191) = 0.00155. Within 4.5 of them (false-positive
    // rate below 1e-5 per run) it is from 0.013 to 0.027, and the limit 5 or 6. At 5 the link
    // itself loses 0.0024.
    let (p, deviation) = (0.02, (0.02 * 0.98 / 8191.0_f64).sqrt());
    for (is_upload, direction) in [(true, "outgoing"), (false, "incoming")] {
        let agent = format!("direction = \"{direction}\"");
        let text = station(0.3, p, 1.0 / 4096.0, is_upload, &agent);
        for row in metrics(&text, 4) {
            let [limit, mean, p_found, link_found] =
                ["limit_last", "limit_mean", "p_estimate", "p_w_estimate"]
                    .map(|name| row[&format!("agent.air.{name}")]);
            assert!((5.0..=6.0).contains(&limit), "{direction}: {limit}");
            assert!((5.0..=6.5).contains(&mean), "{direction}: {mean}");
            // The residual loss of the link is 0.0007 to 0.0024; the estimate may differ by 4.5
            // times sqrt(0.0024 / 8191) = 0.00054.
            assert!((0.0..=0.0024 + 4.5 * 0.00054).contains(&link_found), "{link_found}");
            let wired = (p_found - link_found) / (1.0 - link_found);
            assert!((wired - p).abs() < 4.5 * deviation, "{direction}: {wired}");
        }
    }
}

#[test]
fn the_two_inversions_differ_as_theory_says() {
    // Constant estimates (weight 0): the limit is always that of the initial loss.
    let channel = "stay_good = 0.9\nstay_bad = 0.9\nloss_good = 0.01\nloss_bad = 0.9";
    for (inversion, limit) in [("eigenvalue", 32.0), ("exact", 45.0)] {
        let agent = format!("inversion = \"{inversion}\"\npdus = 25");
        let text = station(0.3, 0.01, 0.0, true, &agent);
        let given = "stay_good = 0.5\n        stay_bad = 0.5\n        loss_good = 0.3\n        \
                     loss_bad = 0.3";
        assert!(text.contains(given));
        let text = text.replace(given, channel).replace("30 MB", "300 kB");
        let row = metrics(&text, 1).remove(0);
        assert_eq!(row["agent.air.limit_last"], limit);
        assert_eq!(row["agent.air.limit_mean"], limit);
        assert_eq!(row["agent.air.p_estimate"], 0.01);
    }
}

#[test]
fn a_limit_of_one_is_a_link_that_never_repeats() {
    // max_transmissions bounds the limit, and the endpoint applies it: no frame is retransmitted.
    let text = station(0.05, 0.0, 1.0 / 256.0, true, "max_transmissions = 1");
    let row = metrics(&text.replace("30 MB", "1 MB"), 1).remove(0);
    assert_eq!(row["agent.air.limit_mean"], 1.0);
    assert_eq!(row["link.air.forward.retransmissions"], 0.0);
    assert!(row["link.air.forward.abandoned"] > 0.0);
}

#[test]
fn an_agent_does_not_keep_a_run_busy() {
    // After the file, no packets arrive, and the clock can advance to the end immediately: a timer
    // of 1 ns would otherwise expire 10^12 times.
    let text = station(0.05, 0.01, 1.0 / 256.0, true, "update_time = \"1 ns\"");
    let text = text.replace("30 MB", "100 kB") + "[run]\nduration = \"1000 s\"\n";
    let trace = |text: &str| {
        let scenario = Scenario::from_toml(text, Path::new(".")).unwrap().points().unwrap();
        run::trace(&scenario[0].scenario, 1, 0, &AtomicBool::new(false)).unwrap().metrics
    };
    let row: HashMap<_, _> = trace(&text).into_iter().collect();
    assert!(row["agent.air.limit_last"] >= 1.0);
}

/// A station of a framed radio behind a wired path that loses 1 %: the paper's case, with packets
/// of 25 PDUs, all of which fit into a frame.
fn radio(inversion: &str, replications: u64) -> Vec<HashMap<String, f64>> {
    let text = format!(
        r#"
        name = "radio"
        [radio.cell]
        base = "base"
        stations = ["mobile"]
        queue = "1000 packets"
        protocol = {{ kind = "ideal-sr" }}
        downlink_errors = {{ kind = "none" }}
        agent = {{ kind = "adaptive-persistence", inversion = "{inversion}", weight = {WEIGHT} }}
        [radio.cell.errors]
        kind = "slotted-gilbert-elliott"
        stay_good = 0.9
        stay_bad = 0.9
        loss_good = 0.01
        loss_bad = 0.9
        [link.wired]
        between = ["base", "server"]
        rate = "unlimited"
        delay = "200 ms"
        errors = {{ kind = "uniform", loss = "1 %" }}
        reverse = {{ errors = {{ kind = "none" }} }}
        [flow.file]
        from = "mobile"
        to = "server"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "960 B", header = "40 B" }}
        app = {{ kind = "file", size = "30 MB" }}
        "#
    );
    metrics(&text, replications)
}

const WEIGHT: f64 = 1.0 / 4096.0;

mod slow {
    use super::*;

    #[test]
    fn on_a_radio_the_limit_settles_where_either_inversion_has_it() {
        // The standard deviation of the estimated wired loss is about that of a moving average of
        // independent losses, sqrt(p (1 - p) w / (2 - w)) = 0.0011: within 4.5 of them (false-positive
        // rate 7e-6 per run).
        let p: f64 = 0.01;
        let deviation = (p * (1.0 - p) * WEIGHT / (2.0 - WEIGHT)).sqrt();
        let law = GilbertElliottLaw::new(0.1, 0.1, 0.01, 0.9).unwrap();
        let chain = ArqChain::new(law, 25, 1).unwrap();
        for (inversion, settled) in [("eigenvalue", 32), ("exact", 45)] {
            let limit = |wired: f64| {
                let found = match inversion {
                    "exact" => chain.limit_for(0.1 * wired),
                    _ => chain.limit_for_approximate(0.1 * wired),
                };
                f64::from(found.unwrap())
            };
            assert_eq!(limit(p), f64::from(settled));
            let allowed = limit(p + 4.5 * deviation)..=limit(p - 4.5 * deviation);
            for row in radio(inversion, 4) {
                let name = |metric: &str| format!("agent.cell.mobile.{metric}");
                let [found, mean] = ["limit_last", "limit_mean"].map(|metric| row[&name(metric)]);
                assert!(allowed.contains(&found), "{inversion}: {found} not in {allowed:?}");
                assert!(allowed.contains(&mean), "{inversion}: {mean} not in {allowed:?}");
            }
        }
    }
}
