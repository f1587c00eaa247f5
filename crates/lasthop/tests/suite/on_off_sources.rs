//! An on-off source sends at exact times, for bursts of any length and any rate.

use crate::scenarios::scenario;
use lasthop::queue::{OnOff, OnOffParameters};
use lasthop::rng::{DurationDistribution, Streams};
use lasthop::run::{self, Options};
use lasthop::units::{Bytes, Duration, Instant, Rate};

/// Both replay methods use one source of packets: its times compared with integer arithmetic.
#[test]
fn packets_of_a_burst_drift_by_nothing() {
    let parameters = OnOffParameters {
        rate: Rate::from_bps(9_999_991),
        on: DurationDistribution::Constant(Duration::from_secs(100)),
        off: DurationDistribution::Constant(Duration::from_secs(1)),
        packet: Bytes::new(250),
    };
    let stream = Streams { seed: 1, replication: 0 }.stream("source", "on-off");
    let mut source = OnOff::new(parameters, Instant::ZERO, stream);
    // One interval, rounded down, and the off time come first.
    let start = 1_000_000_000 + 2000 * 1_000_000_000 / 9_999_991;
    for packet in 0..400_000u128 {
        let due = start + packet * 2000 * 1_000_000_000 / 9_999_991;
        assert_eq!(u128::from(source.next_at().as_nanos()), due);
        source.advance(1);
    }
}

/// Bursts whose packet number times the remainder of the interval does not fit 64 bits: the times
/// of packets, one by one and in steps, against arithmetic of 128 bits.
#[test]
fn long_bursts_at_high_rates_keep_their_interval() {
    // Bits per second, bytes of a packet, seconds.
    let bursts =
        [(970_000_000u64, 40u64, 10_000u64), (9_700_000_000, 250, 10_000), (1 << 62, 9, 100)];
    for (rate, packet, seconds) in bursts {
        let parameters = OnOffParameters {
            rate: Rate::from_bps(rate),
            on: DurationDistribution::Constant(Duration::from_secs(seconds)),
            off: DurationDistribution::Constant(Duration::from_secs(1)),
            packet: Bytes::new(packet),
        };
        let stream = Streams { seed: 1, replication: 0 }.stream("source", "on-off");
        let mut source = OnOff::new(parameters, Instant::ZERO, stream);
        let scaled = u128::from(packet) * 8 * 1_000_000_000;
        let start = 1_000_000_000 + scaled / u128::from(rate);
        let due = |number: u64| start + u128::from(number) * scaled / u128::from(rate);
        let (burst, mut number) = (source.left_in_burst(), 0);
        for step in [1, burst / 2, 1, burst / 4, 1, burst - burst / 2 - burst / 4 - 5] {
            assert_eq!(u128::from(source.next_at().as_nanos()), due(number), "{rate} {number}");
            assert_eq!(u128::from(source.at(step).as_nanos()), due(number + step), "{rate} {step}");
            source.advance(step);
            number += step;
        }
        let end = due(burst - 1);
        assert_eq!(source.left_in_burst(), 2);
        source.advance(2);
        assert_eq!(
            u128::from(source.next_at().as_nanos()),
            end + scaled / u128::from(rate) + 1_000_000_000
        );
    }
}

/// The rate of a constant-rate source equals the rate in the scenario, for any duration.
#[test]
fn a_fast_source_offers_its_rate_for_hours() {
    for (rate, packet) in [(970_000_000u64, 40), (9_700_000_000, 250)] {
        let text = format!(
            r#"
            name = "fast"
            [link.wired]
            between = ["server", "client"]
            rate = "40 Gbps"
            delay = "0 s"
            [flow.fast]
            from = "server"
            to = "client"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "{rate} bps", on = "20000 s", off = "0 s", packet = "{packet} B" }}
            [run]
            duration = "10000 s"
            "#
        );
        let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
        let results = run::run(&[scenario(&text)], &options, &mut |_| true)
            .unwrap_or_else(|error| panic!("{error}"));
        let metric = results.metrics.iter().position(|name| name == "flow.fast.goodput_bps");
        let goodput = results.rows[0].values[metric.expect("a metric of every flow")];
        // One interval at the start, and the packet that has not arrived.
        let edge = 3.0 * packet as f64 * 8.0 / 10_000.0;
        assert!((goodput - rate as f64).abs() <= edge, "{goodput} of {rate} bps");
    }
}
