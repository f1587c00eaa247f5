//! Chains of disrupted links with hybrid ARQ: the link tables of the project's notes for four hops.

use crate::scenarios::{self, scenario};

/// A saturated source of packets of 1500 B over four hops of 10 Mbps and 10 ms. Each hop is up and
/// down alternately for 90 to 110 ms by an independent process, with additional losses; 200 s, as
/// in the notes, since the queues of later hops fill slowly.
fn chain(protocol: &str, loss: f64) -> String {
    let hops: String = (1..=4)
        .map(|hop| {
            let next = hop + 1;
            format!(
                r#"
                [link.hop{hop}]
                between = ["n{hop}", "n{next}"]
                rate = "10 Mbps"
                delay = "10 ms"
                header = "0 B"
                queue = "200 packets"
                protocol = {protocol}
                errors = {{ kind = "product", first = {{ kind = "uniform", loss = {loss} }}, second = {{ kind = "on-off", up = "uniform 90 ms to 110 ms", down = "uniform 90 ms to 110 ms" }} }}
                [link.hop{hop}.reverse]
                errors = {{ kind = "none" }}
                "#
            )
        })
        .collect();
    format!(
        r#"
        name = "chain"
        {hops}
        [flow.data]
        from = "n1"
        to = "n5"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "10 Mbps", on = "1000 s", off = "0 s", packet = "1500 B" }}
        [run]
        duration = "200 s"
        "#
    )
}

/// Mean of samples and its standard error.
fn mean(samples: &[f64]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let square = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>();
    (mean, (square / (count - 1.0) / count).sqrt())
}

mod slow {
    use super::*;

    /// Section 3.8 of the notes, four hops, with timers that expire when a response can no longer
    /// arrive: delivered payload in Mbps, and the fraction of packets entering the first link that the
    /// links discard. The notes have 3 runs, this test 10: 5 standard errors of the difference (9
    /// degrees of freedom, false-positive rate below 1e-3 per figure) and half of the last printed
    /// digit.
    #[test]
    fn four_hops_have_the_figures_of_the_notes() {
        let enhanced = r#"{ kind = "harq", timeout = "20.01 ms" }"#;
        let baseline = r#"{ kind = "harq", units = 1, mode = "pipelined", timeout = "20.01 ms", max_transmissions = 8 }"#;
        let mut misses = Vec::new();
        for (protocol, loss, goodput, lost) in [
            (enhanced, 0.0, 3.18, 0.072),
            (enhanced, 0.2, 2.02, 0.109),
            (enhanced, 0.5, 1.01, 0.183),
            (baseline, 0.0, 4.92, 0.0),
            (baseline, 0.2, 3.87, 0.022),
            (baseline, 0.5, 1.86, 0.319),
        ] {
            let rows = scenarios::metrics(&scenario(&chain(protocol, loss)), 10, 1);
            let samples = |of: &dyn Fn(&scenarios::Metrics) -> f64| {
                mean(&rows.iter().map(of).collect::<Vec<_>>())
            };
            let given_up = |row: &scenarios::Metrics| {
                (1..=4).map(|hop| row[&format!("link.hop{hop}.forward.abandoned")]).sum::<f64>()
            };
            let (rate, rate_error) = samples(&|row| row["flow.data.delivered_bytes"] * 8.0 / 200e6);
            let (share, share_error) =
                samples(&|row| given_up(row) / row["link.hop1.forward.data_frames"]);
            let found = format!(
                "{protocol}, {loss}: {rate:.3} ± {rate_error:.3} Mbps, {share:.4} ± {share_error:.4}"
            );
            let allowed =
                |error: f64, digit: f64| 5.0 * (1.0 + 10.0 / 3.0f64).sqrt() * error + digit / 2.0;
            let is_close = (rate - goodput).abs() <= allowed(rate_error, 0.01)
                && (share - lost).abs() <= allowed(share_error, 0.001);
            println!("{found} ({goodput}, {lost}) {is_close}");
            misses.extend((!is_close).then_some(found));
        }
        assert!(misses.is_empty(), "{misses:#?}");
    }
}
