//! Comparison of congestion control algorithms with ns-2's Linux TCP (`tools/ns2/laws.py`), ACK by
//! ACK.
//!
//! Each file contains the ACKs that a sender of ns-2 received, and its window after each. The
//! sender runs a congestion control module of Linux 2.6. Our algorithm processes the same ACKs. At
//! each loss it is set to ns-2's window, and its threshold must equal ns-2's. When recovery ends it
//! is set to ns-2's window again; in the congestion avoidance that follows, its window must stay
//! close to ns-2's, which is a whole number.
//!
//! Not compared:
//! - slow start, in which these modules differ from their current versions (Vegas, Hybla with its
//!   initial threshold);
//! - the threshold of Westwood, whose module reduces the window at the end of recovery;
//! - Illinois: ns-2 calls its module more than once for the threshold of a loss. 200 segments are
//!   reduced first to 121, our value, then to 75; 90 to 16. Its state after a loss differs from
//!   ours.

use super::family::AlgorithmKeys;
use super::sample::{AckSample, Delivery};
use super::testing::{SEGMENT, algorithm, ms};
use super::{Congestion, CongestionControl};
use lasthop_base::units::Duration;
use std::path::Path;

/// An ACK, and the state of ns-2's sender after it.
struct Row {
    now: f64,
    acked: u64,
    rtt: f64,
    highest: u64,
    cwnd: f64,
    ssthresh: f64,
}

fn rows(module: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tools/ns2/reference/laws")
        .join(format!("{module}.csv"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut now = 0.0;
    text.lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<f64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
            now += cells[0] / 1e3;
            Row {
                now,
                acked: cells[1] as u64,
                rtt: cells[2] / 1e3,
                highest: cells[3] as u64,
                cwnd: cells[4],
                ssthresh: cells[5],
            }
        })
        .collect()
}

/// Differences between our algorithm and ns-2's.
struct Found {
    /// Number of ACKs compared.
    compared: usize,
    /// Maximum difference of the windows beyond [`SLACK`], as a fraction of ns-2's window.
    worst: f64,
    /// Thresholds at the losses: ours, ns-2's.
    thresholds: Vec<(f64, f64)>,
}

/// Permitted difference of the windows in segments: ns-2's is rounded down, and the ends of round
/// trips may differ by one ACK.
const SLACK: f64 = 2.0;

fn replay<K: AlgorithmKeys>(module: &str) -> Found {
    let rows = rows(module);
    let mut algorithm = algorithm::<K>(2.0);
    let (mut una, mut recover) = (0u64, None);
    let mut found = Found { compared: 0, worst: 0.0, thresholds: Vec::new() };
    let mut prior = (2.0, rows[0].ssthresh);
    for row in &rows {
        una += row.acked;
        // ns-2 numbers packets from 0.
        let snd_max = (row.highest + 1).max(una) * SEGMENT;
        let outstanding = snd_max - una * SEGMENT;
        let rtt = (row.rtt > 0.0).then(|| Duration::from_nanos((row.rtt * 1e6) as u64));
        algorithm.on_delivery(&Delivery {
            now: ms(row.now),
            acked: row.acked * SEGMENT,
            delivered: SEGMENT,
            total: una * SEGMENT,
            in_flight: outstanding,
            rtt,
            snd_una: una * SEGMENT,
            snd_max,
            rate: None,
            is_marked: false,
            passage: None,
            lost: 0,
        });
        let is_open = recover.is_none_or(|recover| una > recover);
        if is_open && recover.take().is_some() {
            // ns-2's sender leaves recovery with this window.
            algorithm.set_cwnd(row.cwnd);
        } else if recover.is_none() && row.acked == 0 && (row.cwnd, row.ssthresh) != prior {
            recover = Some(row.highest + 1);
            algorithm.set_cwnd(prior.0);
            algorithm.on_congestion(ms(row.now), Congestion::Loss, prior.0);
            found.thresholds.push((algorithm.ssthresh(), row.ssthresh));
        } else if recover.is_none() && row.acked > 0 {
            algorithm.on_ack(&AckSample {
                now: ms(row.now),
                acked: row.acked * SEGMENT,
                delivered_segments: row.acked as u32,
                is_window_limited: true,
                prior_in_flight: outstanding + row.acked * SEGMENT,
                snd_una: una * SEGMENT,
                snd_max,
                rtt,
                srtt: rtt.unwrap_or(Duration::ZERO),
            });
            if found.thresholds.is_empty() {
                // Slow start.
                prior = (row.cwnd, row.ssthresh);
                algorithm.set_cwnd(row.cwnd);
                continue;
            }
            found.compared += 1;
            let beyond = ((algorithm.cwnd() - row.cwnd).abs() - SLACK).max(0.0) / row.cwnd;
            found.worst = found.worst.max(beyond);
        }
        prior = (row.cwnd, row.ssthresh);
    }
    found
}

#[test]
fn windows_stay_with_those_of_linux_modules_in_ns2() {
    use super::{bic, htcp, hybla, vegas, veno, westwood};
    // The permitted relative difference of the windows. BIC's allows for Linux's correction for
    // delayed ACKs, which initially counts one ACK per segment as 31/16.
    for (module, found, share, has_thresholds) in [
        ("bic", replay::<bic::BicKeys>("bic"), 0.04, true),
        ("htcp", replay::<htcp::HtcpKeys>("htcp"), 0.01, true),
        ("hybla", replay::<hybla::HyblaKeys>("hybla"), 0.01, true),
        ("vegas", replay::<vegas::VegasKeys>("vegas"), 0.01, true),
        ("veno", replay::<veno::VenoKeys>("veno"), 0.01, true),
        ("westwood", replay::<westwood::WestwoodPlusKeys>("westwood"), 0.01, false),
    ] {
        let Found { compared, worst, thresholds } = found;
        println!("{module}: {compared} compared, worst {worst:.4}, thresholds {thresholds:?}");
        assert!(compared > 2_000, "{module}: {compared}");
        assert!(worst <= share, "{module}: {worst}");
        assert_eq!(thresholds.len(), 2, "{module}");
        for (ours, theirs) in thresholds {
            assert!(!has_thresholds || (ours - theirs).abs() < 1.0, "{module}: {ours} {theirs}");
        }
    }
}
