use super::super::testing::{Path, SEGMENT, any_config, law};
use super::*;

const MS: u64 = 1_000_000;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * MS)
}

/// A law that knows a path of 1 MB/s and 40 ms, 40 segments, in this phase.
fn knows_path(phase: Phase) -> Bbr3 {
    let mut bbr = Bbr3::new(&any_config(), 80.0);
    bbr.max_bw = [1e6, 1e6];
    (bbr.min_rtt, bbr.min_rtt_at) = (Some(Duration::from_millis(40)), at(0));
    (bbr.probe_rtt, bbr.probe_rtt_at) = (bbr.min_rtt, at(0));
    bbr.full.is_reached = true;
    bbr.cycle_at = at(0);
    bbr.wait = Duration::from_secs(2);
    bbr.enter(phase);
    bbr
}

/// An ACK of a segment that left with `in_flight` segments and since when `lost` were lost. It is the `number`-th round trip.
fn ack(number: u64, now: Instant, in_flight: u64, lost: u64) -> Delivery {
    let total = number * 1_000_000;
    Delivery {
        now,
        acked: SEGMENT,
        delivered: SEGMENT,
        total,
        in_flight: in_flight * SEGMENT - SEGMENT,
        rtt: Some(Duration::from_millis(40)),
        snd_una: total,
        snd_max: total + in_flight * SEGMENT,
        rate: Some(RateSample {
            delivered: 40 * SEGMENT,
            interval: Duration::from_millis(40),
            prior_delivered: total - 1_000_000,
            prior_lost: 0,
            in_flight_then: in_flight * SEGMENT,
            is_app_limited: false,
        }),
        is_marked: false,
        passage: None,
        lost: lost * SEGMENT,
    }
}

/// STARTUP finds the rate of the bottleneck, DRAIN empties its queue, and PROBE_BW keeps it busy with hardly any.
#[test]
fn the_model_becomes_that_of_the_path() {
    let mut bbr = law::<Bbr3Keys>(10.0);
    let mut path = Path::new();
    path.run(&mut bbr, 0.05);
    assert_eq!(bbr.phase, Phase::Startup);
    path.run(&mut bbr, 1.0);
    assert!(bbr.phase.is_probe_bw() && bbr.full.is_reached, "{:?}", bbr.phase);
    assert!((bbr.highest() / 1e6 - 1.0).abs() < 0.02, "{}", bbr.highest());
    assert_eq!(bbr.min_rtt, Some(Duration::from_millis(40)));
    let before = path.snd_una;
    path.run(&mut bbr, 3.5);
    let rate = (path.snd_una - before) as f64 / 3.5;
    assert!(rate > 0.95e6, "{rate}");
    assert!(bbr.inflight_hi.is_infinite(), "nothing was lost");
}

/// Five seconds after the least round trip half a product is left in flight for 200 ms, once.
#[test]
fn probe_rtt_comes_every_five_seconds() {
    let mut bbr = law::<Bbr3Keys>(10.0);
    let mut path = Path::new();
    path.run(&mut bbr, 2.0);
    // Shorter than any sample to come.
    (bbr.probe_rtt, bbr.probe_rtt_at) = (Some(Duration::from_millis(30)), path.now);
    path.run(&mut bbr, 4.9);
    assert!(!matches!(bbr.phase, Phase::ProbeRtt { .. }));
    let mut longest = 0;
    for _ in 0..100 {
        path.run(&mut bbr, 0.01);
        longest += u32::from(matches!(bbr.phase, Phase::ProbeRtt { .. }));
    }
    assert!((20..=32).contains(&longest), "200 ms and a round trip or two: {longest} times 10 ms");
    assert_eq!(bbr.phase, Phase::Cruise);
    assert!(bbr.probe_rtt >= Some(Duration::from_millis(40)));
}

/// The draft's gains, section 2.4 and 2.5.
#[test]
fn gains() {
    for (phase, gains) in [
        (Phase::Startup, (2.77, 2.0)),
        (Phase::Drain, (0.5, 2.0)),
        (Phase::Down, (0.9, 2.0)),
        (Phase::Cruise, (1.0, 2.0)),
        (Phase::Refill, (1.0, 2.0)),
        (Phase::Up, (1.25, 2.25)),
        (Phase::ProbeRtt { until: None, round_over: false }, (1.0, 0.5)),
    ] {
        assert_eq!(phase.gains(), gains);
    }
}

/// The cycle by hand: time, segments in flight, and the phase after the ACK. Bandwidth does not grow in UP.
#[test]
fn phases_follow_each_other() {
    let mut bbr = knows_path(Phase::Down);
    let mut number = 0;
    for (millis, in_flight, phase) in [
        (40, 60, Phase::Down), // More than 40 and 3 segments.
        (80, 43, Phase::Cruise),
        (1_900, 41, Phase::Cruise),
        (2_041, 41, Phase::Refill), // Two seconds.
        (2_081, 41, Phase::Up),     // A round trip.
        (2_121, 50, Phase::Up),
        (2_161, 50, Phase::Up),
        (2_201, 50, Phase::Down), // Three round trips without growth.
    ] {
        number += 1;
        bbr.on_delivery(&ack(number, at(millis), in_flight, 0));
        assert_eq!(bbr.phase, phase, "{millis} ms");
    }
}

/// Section 5.3.3: as many round trips as Reno needs to grow to the product, here 20 segments.
#[test]
fn a_probe_comes_no_later_than_reno_grows() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.max_bw = [0.5e6, 0.5e6];
    bbr.model();
    bbr.rounds = 19;
    let mut quiet = ack(1, at(100), 20, 0);
    quiet.rate.as_mut().unwrap().delivered = 20 * SEGMENT;
    bbr.on_delivery(&quiet);
    assert_eq!(bbr.phase, Phase::Refill);
}

/// By hand at 100 segments in flight: two lost segments are allowed, three make inflight_hi what was in flight, and the
/// probe ends. A second ACK of the same round trip tells nothing new.
#[test]
fn two_percent_of_losses_end_a_probe() {
    for (lost, phase, inflight_hi) in [(2, Phase::Up, f64::INFINITY), (3, Phase::Down, 100.0)] {
        let mut bbr = knows_path(Phase::Up);
        bbr.has_samples = true;
        bbr.acks = Acks::Feedback;
        bbr.on_delivery(&ack(1, at(40), 100, lost));
        assert_eq!((bbr.phase, bbr.inflight_hi), (phase, inflight_hi), "{lost}");
    }
    // At least 0.7 of the target, 40 segments.
    let mut bbr = knows_path(Phase::Up);
    bbr.has_samples = true;
    bbr.on_delivery(&ack(1, at(40), 20, 5));
    assert!((bbr.inflight_hi - 28.0).abs() < 1e-9, "{}", bbr.inflight_hi);
    assert!(!bbr.has_samples);
}

/// Outside of probes a round trip with losses bounds rate and flight for the time being by what it delivered, at least
/// by 0.7 of what they were; REFILL forgets that.
#[test]
fn losses_bound_the_short_term() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.on_delivery(&ack(1, at(40), 60, 0));
    assert!(bbr.bw_lo.is_infinite());
    let mut slow = ack(2, at(80), 60, 3);
    slow.rate.as_mut().unwrap().delivered = 20 * SEGMENT;
    bbr.bw_latest = 0.5e6;
    bbr.inflight_latest = 20 * SEGMENT;
    let cwnd = bbr.cwnd;
    bbr.on_delivery(&slow);
    assert!((bbr.bw_lo - 0.7e6).abs() < 1.0, "{}", bbr.bw_lo);
    assert!((bbr.inflight_lo - 0.7 * cwnd).abs() < 1e-9, "{} {cwnd}", bbr.inflight_lo);
    assert!(bbr.cwnd <= bbr.inflight_lo);
    bbr.on_delivery(&ack(3, at(2_100), 30, 3));
    assert_eq!(bbr.phase, Phase::Refill);
    assert!(bbr.bw_lo.is_infinite() && bbr.inflight_lo.is_infinite());
}

/// CRUISE leaves 15 %, and inflight_hi grows by 1, 2, 4 segments in round trips that use it.
#[test]
fn inflight_hi_bounds_and_grows() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.inflight_hi = 60.0;
    bbr.on_delivery(&ack(1, at(40), 40, 0));
    assert_eq!(bbr.cwnd, 51.0);
    bbr.enter(Phase::Up);
    bbr.cwnd = 60.0;
    (bbr.acks, bbr.probe.rounds) = (Acks::Feedback, 0);
    bbr.raise_slope();
    for (total, growth) in (2..).zip([1.0, 2.0, 4.0]) {
        let (before, per) = (bbr.inflight_hi, bbr.probe.per);
        assert!((per - bbr.cwnd / growth).abs() < 1e-9, "{per}");
        // A window of ACKs while everything is in flight.
        for _ in 0..bbr.cwnd.floor() as u64 {
            let mut delivery = ack(total, at(50), bbr.cwnd.floor() as u64, 0);
            // Not the end of a round trip.
            delivery.rate.as_mut().unwrap().prior_delivered = 0;
            delivery.rate.as_mut().unwrap().in_flight_then = 0;
            bbr.next_round = u64::MAX;
            bbr.is_round_over = false;
            bbr.cwnd = bbr.inflight_hi;
            bbr.probe_upward(&delivery);
        }
        assert!((bbr.inflight_hi - before - growth).abs() <= 1.0, "{growth}: {}", bbr.inflight_hi);
        bbr.raise_slope();
    }
}

/// STARTUP ends at six losses in a round trip of recovery that are more than 2 %.
#[test]
fn losses_end_startup() {
    for (lost, in_recovery, ends) in [(6, true, true), (5, true, false), (6, false, false)] {
        let mut bbr = knows_path(Phase::Startup);
        bbr.full = Plateau::default();
        bbr.recovery = in_recovery.then_some(Recovery { end: u64::MAX, conserves: false });
        bbr.on_delivery(&ack(1, at(40), 100, lost));
        assert_eq!(bbr.phase == Phase::Drain, ends, "{lost} {in_recovery}");
        assert_eq!(bbr.inflight_hi.is_finite(), ends);
    }
}
