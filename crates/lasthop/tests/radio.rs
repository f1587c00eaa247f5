//! The framed radio: its timing by hand, the ideal link on it against the chain of the analysis,
//! and fair shares.

use lasthop::analysis::{ArqChain, GilbertElliottLaw};
use lasthop::run::{self, Options, Trace};
use lasthop::scenario::Scenario;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The scenario of a file's text.
fn scenario(text: &str) -> Scenario {
    let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
    document.points().expect("points").remove(0).scenario
}

/// All metrics of replication 0.
fn metrics(text: &str) -> HashMap<String, f64> {
    let options = Options { replications: 1, first_replication: 0, seed: 11, jobs: 1 };
    let mut results = run::run(&[scenario(text)], &options, &mut |_| true).expect("a run");
    let values = results.rows.remove(0).values;
    results.metrics.into_iter().zip(values).collect()
}

fn trace(text: &str) -> Trace {
    run::trace(&scenario(text), 11, 0, &AtomicBool::new(false)).expect("a trace")
}

/// A radio called cell with one station m and the keys of `radio`; a flow of 1000 B packets, one
/// every `gap`, for `duration` seconds.
fn one_station(radio: &str, gap_ms: u64, duration: u64) -> String {
    let rate = 8_000_000 / gap_ms;
    assert_eq!(rate * gap_ms, 8_000_000, "a whole rate");
    format!(
        r#"
        name = "one station"
        [radio.cell]
        base = "b"
        stations = ["m"]
        {radio}
        [flow.up]
        from = "m"
        to = "b"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "{rate} bps", on = "1000000000 s", off = "0 s", packet = "1000 B" }}
        [run]
        duration = "{duration} s"
        "#
    )
}

/// Errors of the paper: 10 ms, stay_good 0.9, losses of 0.01 and 0.9.
fn errors(stay_bad: f64) -> String {
    format!(
        r#"errors = {{ kind = "slotted-gilbert-elliott", stay_good = 0.9, stay_bad = {stay_bad}, loss_good = 0.01, loss_bad = 0.9 }}"#
    )
}

#[test]
fn isolated_packets_follow_the_chain() {
    // A packet every 3.2 s, 320 frames: the channel has forgotten (0.85^320 < 1e-22) and the packet
    // is finished (F(M) at most as long as M d < 320). Packets are independent: binomial, 4.5
    // standard errors, false alarm below 7e-6 a point. Of transmissions the variance is estimated
    // from above by M^2 / 4 a packet, all its segments at once: wide, but it cannot fail by chance.
    let packets = 20_000u64;
    for (stay_bad, limit, pdus, delay) in [
        (0.9, 1, 25, 0u64),
        (0.9, 2, 25, 0),
        (0.9, 5, 25, 0),
        (0.9, 10, 25, 0),
        (0.9, 20, 25, 0),
        (0.5, 2, 25, 0),
        (0.5, 5, 25, 0),
        (0.95, 10, 25, 0),
        (0.9, 3, 25, 10),
        (0.9, 5, 25, 20),
        (0.9, 10, 25, 20),
        (0.9, 3, 1, 0),
        (0.9, 10, 1, 0),
        (0.8, 4, 5, 40),
    ] {
        let radio = format!(
            r#"
            delay = "{delay} ms"
            slot = "1002 B"
            protocol = {{ kind = "ideal-sr", max_transmissions = {limit}, payload = "{} B" }}
            {}
            "#,
            1000 / pdus,
            errors(stay_bad)
        );
        let found = metrics(&one_station(&radio, 3_200, (16 * packets - 1) / 5));
        let law = GilbertElliottLaw::new(0.1, 1.0 - stay_bad, 0.01, 0.9).expect("a channel");
        let spacing = 1 + (delay / 10) as u32;
        let case = format!("b = {stay_bad}, M = {limit}, n = {pdus}, d = {spacing}");

        let chain = ArqChain::new(law, pdus, spacing).expect("a chain");
        let exact = chain.residual_losses().nth(limit).expect("a loss");
        let n = found["flow.up.packets_sent"];
        // The first goes out after a gap.
        assert_eq!(n, packets as f64 - 1.0, "{case}");
        let error = (exact * (1.0 - exact) / n).sqrt();
        let loss = found["flow.up.loss"];
        assert!((loss - exact).abs() < 4.5 * error, "{case}: {loss}, expected {exact} ± {error}");
        let abandoned = found["link.cell.m.forward.packets_abandoned"];
        assert_eq!(abandoned, (loss * n).round(), "{case}");
        assert_eq!(found["link.cell.m.forward.packets"], n, "{case}");

        // All segments of a packet are equally old when it is given up: N of a single one.
        let single = ArqChain::new(law, 1, spacing).expect("a chain");
        let exact: f64 = single.residual_losses().take(limit).sum();
        let first = found["link.cell.m.forward.data_frames"];
        assert_eq!(first, n * f64::from(pdus), "{case}");
        let mean = 1.0 + found["link.cell.m.forward.retransmissions"] / first;
        let error = limit as f64 / 2.0 / n.sqrt();
        assert!((mean - exact).abs() < 4.5 * error, "{case}: {mean}, expected {exact} ± {error}");
    }
}
