//! Reduction by a timeout: data that has left the network, as indicated by SACK or duplicate ACKs,
//! does not raise ssthresh.

use crate::tcp_pipe::{OPENER, Pipe, ms};
use lasthop::packet::TcpHeader;
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::tcp::{Config, Overrides, Profile, Variant, presets};
use lasthop::units::{Bytes, Duration};
use std::path::Path;

const DELAY: Duration = Duration::from_millis(50);
/// First byte of a segment whose copies are all lost for 10 s, so that recovery ends with a
/// timeout.
const LOST: u32 = 1 + 100 * 1000;

fn config(variant: Variant, base: Variant) -> Config {
    let algorithm =
        presets::config(variant, Profile::Rfc, &Overrides::default()).congestion_control;
    let set = Overrides {
        segment: Some(Bytes::new(1000)),
        receive_window: Some(10_000.0),
        delayed_ack: Some(None),
        min_rto: Some(Duration::from_secs(1)),
        fin: Some(false),
        congestion_control: Some(algorithm),
        ..Overrides::default()
    };
    presets::config(base, Profile::Rfc, &set)
}

/// Returns the maximum window before the first timeout, and ssthresh after it.
fn first_timeout(config: &Config) -> (f64, f64) {
    let is_lost = |end: usize, _, header: &TcpHeader| {
        end == OPENER && header.payload > 0 && header.seq == LOST
    };
    let mut pipe = Pipe::with_losses(config, DELAY, is_lost);
    pipe.ends[OPENER].write(20_000_000);
    pipe.pump(OPENER);
    let mut largest = 0.0f64;
    while pipe.ends[OPENER].counters().timeouts == 0 {
        largest = largest.max(pipe.ends[OPENER].sender().congestion_window());
        assert!(
            pipe.step(ms(10_000)),
            "no timeout: {:?} {:?}",
            config.recovery,
            config.congestion_control
        );
    }
    (largest, pipe.ends[OPENER].sender().slow_start_threshold())
}

/// RFC 5681, section 3.1: ssthresh after a timeout is "no more than" half of the "amount of
/// outstanding data in the network". This amount never exceeds the size of the window, regardless
/// of the number of segments that recovery has sent.
#[test]
fn no_timeout_raises_the_threshold_above_the_window() {
    let mut failures = Vec::new();
    for &variant in Variant::ALL {
        // LT-TCP sends blocks and counts data in flight itself. LHP detects lost retransmissions without the timer.
        if matches!(variant, Variant::LtTcp | Variant::Lhp) {
            continue;
        }
        for base in [variant, Variant::Reno, Variant::NewReno, Variant::Sack] {
            let config = config(variant, base);
            // These algorithms set the window by a model of the path; Jersey's ssthresh is its
            // bandwidth estimate.
            if config.congestion_control.paces() || variant == Variant::Jersey {
                continue;
            }
            let (largest, threshold) = first_timeout(&config);
            if threshold > largest {
                failures.push(format!("{variant:?} over {base:?}: {threshold} after {largest}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// A queue of 50 packets at 4 Mbps, without other losses. A sender that computes ssthresh from all
/// data not acknowledged cumulatively leaves each timeout with an ssthresh above the queue, and
/// overflows it again: 89 timeouts and 2.0 Mbps (CUBIC), 113 and 3.0 Mbps (NewReno).
#[test]
fn a_queue_is_not_overflown_again_and_again() {
    for variant in ["cubic", "newreno", "veno", "hybla", "ncr"] {
        for window in ["4 MiB", "200 segments"] {
            let text = format!(
                r#"
                name = "cycle"
                [link.path]
                between = ["server", "client"]
                rate = "4 Mbps"
                delay = "20 ms"
                queue = "50 packets"
                [flow.f]
                from = "server"
                to = "client"
                app = {{ kind = "file", size = "1 GB" }}
                [flow.f.transport]
                kind = "tcp"
                variant = "{variant}"
                profile = "rfc"
                min_rto = "1 s"
                delayed_ack = "off"
                receive_window = "{window}"
                [run]
                duration = "200 s"
                "#
            );
            let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
            let scenario = document.points().unwrap().remove(0).scenario;
            let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
            let results = run::run(&[scenario], &options, &mut |_| true).unwrap();
            let value = |name: &str| {
                let index = results.metrics.iter().position(|metric| metric == name).unwrap();
                results.rows[0].values[index]
            };
            let (goodput, timeouts) = (value("flow.f.goodput_bps"), value("flow.f.timeouts"));
            assert!(goodput > 3.8e6, "{variant} {window}: {goodput}");
            assert!(timeouts <= 3.0, "{variant} {window}: {timeouts}");
        }
    }
}
