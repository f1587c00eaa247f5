//! The streaming statistics of a media receiver against an oracle that stores every packet.

use lasthop::app::{GRACE, HORIZON, LONGEST, MOST_OPEN, MediaReport, MediaStatistics, OUTAGE};
use lasthop::units::{Duration, Instant};
use proptest::prelude::*;

/// A packet: transmission time, and delay if it arrives.
type Fate = (Instant, Option<Duration>);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Computes transmission times from the gaps between them.
fn fates(gaps: &[(u64, Option<u64>)]) -> Vec<Fate> {
    let mut clock = Instant::ZERO;
    let fate = |&(gap, delay): &(u64, Option<u64>)| {
        clock += Duration::from_nanos(gap);
        (clock, delay.map(Duration::from_nanos))
    };
    gaps.iter().map(fate).collect()
}

/// Reports events as the simulator does: all in advance on computed links, at their time on driven
/// links.
fn stream(fates: &[Fate], deadline: Duration, is_ahead: bool, end: Instant) -> MediaReport {
    let mut statistics = MediaStatistics::new(deadline);
    // (time of the report, event, number): transmissions precede arrivals at the same time.
    let mut calls = Vec::new();
    for (number, &(sent, delay)) in fates.iter().enumerate() {
        calls.push((sent, 0, number));
        if let Some(delay) = delay {
            calls.push((if is_ahead { sent } else { sent + delay }, 1, number));
        }
    }
    calls.sort();
    for (at, what, number) in calls {
        if at > end {
            break;
        }
        let (sent, delay) = fates[number];
        match what {
            0 => assert_eq!(statistics.send(at), number as u64),
            _ => statistics.receive(number as u64, sent + delay.unwrap()),
        }
    }
    statistics.report(end)
}

/// The definitions of `docs/applications.md`.
fn oracle(fates: &[Fate], deadline: Duration, end: Instant) -> MediaReport {
    let fates: Vec<_> = fates.iter().filter(|fate| fate.0 <= end).collect();
    let arrival = |fate: &Fate| fate.1.map(|delay| fate.0 + delay).filter(|&at| at <= end);
    let come: Vec<_> = fates.iter().filter_map(|fate| arrival(fate)).collect();
    let dead = come.iter().max().is_none_or(|&last| last + OUTAGE <= end);
    let highest = fates.iter().rposition(|fate| arrival(fate).is_some());
    let counted = fates.iter().filter(|fate| fate.0 + deadline.max(GRACE) <= end).count();
    // A packet on a link at the end of the run is not lost, unless a later packet has arrived.
    let is_lost = |index: usize| arrival(fates[index]).is_none() && (Some(index) < highest || dead);
    let lost: Vec<bool> = (0..counted).map(is_lost).collect();
    let under_way =
        (0..counted).filter(|&index| !lost[index] && arrival(fates[index]).is_none()).count();
    let losses = lost.iter().filter(|&&lost| lost).count();
    let runs: Vec<usize> =
        lost.split(|&lost| !lost).map(<[bool]>::len).filter(|&length| length > 0).collect();
    let in_time = fates[..counted]
        .iter()
        .filter(|fate| arrival(fate).is_some_and(|at| at <= fate.0 + deadline))
        .count();
    let mut delays: Vec<f64> = fates
        .iter()
        .filter_map(|fate| Some((arrival(fate)? - fate.0).as_nanos() as f64 * 1e-9))
        .collect();
    delays.sort_by(f64::total_cmp);
    let n = delays.len() as f64;
    let mean = delays.iter().sum::<f64>() / n;
    let squares: f64 = delays.iter().map(|delay| (delay - mean).powi(2)).sum();
    let percentile = |q: f64| match delays.len() {
        0 => f64::NAN,
        _ => delays[((q * n).ceil() as usize).max(1) - 1],
    };
    let share = |part: usize, whole: usize| {
        if whole == 0 { f64::NAN } else { part as f64 / whole as f64 }
    };
    MediaReport {
        sent: fates.len() as u64,
        delivered: delays.len() as u64,
        residual_loss: share(losses, counted - under_way),
        deadline_miss: share(counted - in_time, counted),
        delay_mean: mean,
        delay_sd: if n < 2.0 { f64::NAN } else { (squares / (n - 1.0)).sqrt() },
        delay_percentiles: [0.5, 0.95, 0.99].map(percentile),
        burst_mean: share(losses, runs.len()),
        burst_max: runs.iter().copied().max().unwrap_or(0) as u64,
    }
}

fn close(found: f64, wanted: f64, tolerance: f64) -> bool {
    found.is_nan() && wanted.is_nan() || (found - wanted).abs() <= tolerance
}

fn check(found: &MediaReport, wanted: &MediaReport) -> Result<(), TestCaseError> {
    prop_assert_eq!((found.sent, found.delivered), (wanted.sent, wanted.delivered));
    prop_assert_eq!(found.burst_max, wanted.burst_max);
    for (found, wanted) in [
        (found.residual_loss, wanted.residual_loss),
        (found.deadline_miss, wanted.deadline_miss),
        (found.burst_mean, wanted.burst_mean),
    ] {
        prop_assert!(close(found, wanted, 0.0), "{} {}", found, wanted);
    }
    prop_assert!(close(found.delay_mean, wanted.delay_mean, 1e-12 * wanted.delay_mean));
    // The square root magnifies rounding errors.
    let tolerance = 1e-7 * wanted.delay_mean;
    prop_assert!(close(found.delay_sd, wanted.delay_sd, tolerance), "{found:?} {wanted:?}");
    for (found, wanted) in found.delay_percentiles.into_iter().zip(wanted.delay_percentiles) {
        // 3 significant digits or a microsecond, never below.
        let above = 0.001 * wanted + 1e-6;
        prop_assert!(close(found, wanted + above / 2.0, above / 2.0 + 1e-15), "{found} {wanted}");
    }
    Ok(())
}

/// A gap before a packet and its delay, in nanoseconds: usually regular, sometimes a silence.
fn packet() -> impl Strategy<Value = (u64, Option<u64>)> {
    let gap = prop_oneof![9 => 1_000_000u64..30_000_000, 1 => 0u64..3_000_000_000];
    (
        gap,
        prop_oneof![3 => prop_oneof![0u64..300_000_000, 0u64..5_000_000_000].prop_map(Some), 1 => Just(None)],
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any order within the horizon, and any end of the run.
    #[test]
    fn streaming_and_storing_agree(
        packets in prop::collection::vec(packet(), 1..600),
        end_share in 0.0f64..1.3,
        deadline in 1u64..4000,
    ) {
        let fates = fates(&packets);
        let span = fates.last().map_or(0, |fate| fate.0.as_nanos());
        let end = Instant::from_nanos((end_share * span as f64) as u64);
        let deadline = millis(deadline);
        let ahead = stream(&fates, deadline, true, end);
        let driven = stream(&fates, deadline, false, end);
        let wanted = oracle(&fates, deadline, end);
        check(&driven, &wanted)?;
        check(&ahead, &driven)?;
    }
}

/// A stream of one packet every 10 ms with a delay of 1 ms, except for the packets of `lost`.
fn regular(packets: u64, lost: impl Fn(u64) -> bool) -> MediaStatistics {
    let mut statistics = MediaStatistics::new(millis(400));
    for number in 0..packets {
        let now = Instant::ZERO + millis(10 * number);
        assert_eq!(statistics.send(now), number);
        if !lost(number) {
            statistics.receive(number, now + millis(1));
        }
    }
    statistics
}

#[test]
fn what_is_overtaken_by_the_horizon_stays_lost() {
    // Packet 0 does not arrive: it counts as lost when packet HORIZON has arrived and another one
    // is sent, and a later arrival has no effect. Until then it may arrive.
    for (packets, is_lost) in [(HORIZON + 1, false), (HORIZON + 2, true)] {
        let mut statistics = regular(packets, |number| number == 0);
        let end = Instant::ZERO + millis(10 * packets);
        assert_eq!(statistics.report(end).burst_max, 1);
        statistics.receive(0, end);
        let report = statistics.report(end);
        assert_eq!(report.delivered, packets - u64::from(is_lost));
        assert_eq!(report.burst_max, u64::from(is_lost));
        assert_eq!(report.residual_loss > 0.0, is_lost);
    }
}

#[test]
fn the_end_of_a_run_is_not_a_loss() {
    // 1000 packets, one every 10 ms; packets sent within the first 8 s count: 801 of them.
    let end = Instant::ZERO + Duration::from_secs(10);
    // The packets of the last 500 ms are in transit, as in a stalled window: no loss, but late.
    let report = regular(1000, |number| number >= 950).report(end);
    assert_eq!((report.residual_loss, report.deadline_miss), (0.0, 0.0));
    // The last 5 s: no loss, as no later packet has arrived; 301 of the counted packets miss their
    // deadline.
    let report = regular(1000, |number| number >= 500).report(end);
    assert_eq!(report.residual_loss, 0.0);
    assert_eq!(report.deadline_miss, 301.0 / 801.0);
    // A later packet has arrived: lost.
    let report = regular(1000, |number| (500..999).contains(&number)).report(end);
    assert_eq!(report.residual_loss, 301.0 / 801.0);
    assert_eq!((report.burst_mean, report.burst_max), (301.0, 301));
    // No packet arrived at all, or none in the last minute: the path is dead.
    assert_eq!(regular(1000, |_| true).report(end).residual_loss, 1.0);
    let report = regular(8000, |number| number >= 1000).report(Instant::ZERO + millis(80_000));
    assert_eq!(report.residual_loss, 6801.0 / 7801.0);
    // A packet that arrives after the end does not count as received.
    let report = regular(1000, |_| false).report(Instant::ZERO + millis(9990));
    assert_eq!((report.sent, report.delivered), (1000, 999));
    assert_eq!((report.residual_loss, report.deadline_miss), (0.0, 0.0));
}

#[test]
fn nothing_sent_or_received_gives_no_number() {
    let report = MediaStatistics::new(millis(400)).report(Instant::ZERO + millis(5000));
    assert_eq!((report.sent, report.delivered, report.burst_max), (0, 0, 0));
    for value in [report.residual_loss, report.deadline_miss, report.delay_mean, report.delay_sd] {
        assert!(value.is_nan(), "{report:?}");
    }
    assert!(report.delay_percentiles.iter().all(|value| value.is_nan()));
}

#[test]
fn delays_of_any_size_are_told() {
    // Nanoseconds and hours in one stream: percentiles are limited by the maximum representable
    // delay.
    let delays = [Duration::from_nanos(3), millis(1), Duration::from_secs(7200)];
    let mut statistics = MediaStatistics::new(millis(1));
    for delay in delays {
        let number = statistics.send(Instant::ZERO);
        statistics.receive(number, Instant::ZERO + delay);
    }
    let report = statistics.report(Instant::ZERO + Duration::from_secs(8000));
    let [p50, _, p99] = report.delay_percentiles;
    assert!((p50 / 1e-3 - 1.0).abs() < 1.1e-3, "{p50}");
    assert!((p99 / LONGEST.as_secs_f64() - 1.0).abs() < 1.1e-3, "{p99}");
    assert!((report.delay_mean - 7_200.001_000_003 / 3.0).abs() < 1e-9);
    assert_eq!(report.deadline_miss, 1.0 / 3.0);
}

#[test]
fn memory_does_not_grow_on_a_path_that_delivers_nothing() {
    let gap = Duration::from_nanos(200);
    let mut statistics = MediaStatistics::new(millis(1));
    let mut clock = Instant::ZERO;
    statistics.send(clock);
    statistics.receive(0, clock);
    for _ in 1..=MOST_OPEN {
        clock += gap;
        statistics.send(clock);
    }
    // Fewer packets than the limit wait behind the first, which was delivered.
    assert_eq!(statistics.report(clock).residual_loss, 0.0);
    clock += gap;
    statistics.send(clock);
    assert_eq!(statistics.report(clock).residual_loss, 0.5, "one delivered, one lost");
}
