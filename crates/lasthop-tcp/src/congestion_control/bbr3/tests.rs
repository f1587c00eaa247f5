use super::super::testing::{Path, SEGMENT, algorithm, any_config};
use super::model::in_flight_at_loss;
use super::*;
use crate::congestion_control::RateSample;

const MS: u64 = 1_000_000;
const SIZE: f64 = SEGMENT as f64;

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * MS)
}

/// Creates the algorithm in `phase`, with the model of a path of 1 MB/s and 40 ms (40 segments).
fn knows_path(phase: Phase) -> Bbr3 {
    let mut bbr = Bbr3::new(&Config { sack: true, ..any_config() }, 80.0);
    bbr.max_bw = [1e-3, 1e-3];
    (bbr.min_rtt.rtt, bbr.min_rtt.at) = (Some(Duration::from_millis(40)), at(0));
    (bbr.min_rtt.probe, bbr.min_rtt.probe_at) = (bbr.min_rtt.rtt, at(0));
    bbr.full_bw_reached = true;
    bbr.cycle = Cycle { at: at(0), wait: Duration::from_secs(2), rounds: 0 };
    bbr.enter(phase);
    bbr
}

/// Creates the ACK, in round trip `number`, of a segment sent with `in_flight` segments. `lost`
/// segments have been lost since.
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
            in_flight_at_send: in_flight * SEGMENT,
            is_app_limited: false,
        }),
        is_marked: false,
        passage: None,
        lost: lost * SEGMENT,
    }
}

/// Creates the segment at index `place`, the `lost`-th loss among `in_flight` segments.
fn loss(place: u64, lost: u64, in_flight: u64) -> LostSegment {
    LostSegment {
        start: place * SEGMENT,
        end: (place + 1) * SEGMENT,
        lost: lost * SEGMENT,
        prior_lost: 0,
        in_flight_at_send: in_flight * SEGMENT,
        is_app_limited: false,
    }
}

/// STARTUP finds the bottleneck rate, DRAIN empties the queue, and PROBE_BW keeps the link busy
/// with a short queue.
#[test]
fn the_model_becomes_that_of_the_path() {
    let mut bbr = algorithm::<Bbr3Keys>(10.0);
    let mut path = Path::new();
    path.run(&mut bbr, 0.05);
    assert_eq!(bbr.phase, Phase::Startup);
    path.run(&mut bbr, 1.0);
    assert!(bbr.phase.is_probe_bw() && bbr.full_bw_reached, "{:?}", bbr.phase);
    assert!((bbr.highest() / 1e-3 - 1.0).abs() < 0.02, "{}", bbr.highest());
    assert_eq!(bbr.min_rtt.rtt, Some(Duration::from_millis(40)));
    let before = path.snd_una;
    path.run(&mut bbr, 3.5);
    let rate = (path.snd_una - before) as f64 / 3.5;
    assert!(rate > 0.95e6, "{rate}");
    assert!(bbr.bounds.inflight_longterm.is_infinite(), "nothing was lost");
}

/// 5 s after the minimum RTT sample, in-flight data falls to half the bandwidth-delay product for
/// 200 ms, once.
#[test]
fn probe_rtt_comes_every_five_seconds() {
    let mut bbr = algorithm::<Bbr3Keys>(10.0);
    let mut path = Path::new();
    path.run(&mut bbr, 2.0);
    // Less than any later sample.
    (bbr.min_rtt.probe, bbr.min_rtt.probe_at) = (Some(Duration::from_millis(30)), path.now);
    path.run(&mut bbr, 4.9);
    assert!(!bbr.phase.is_probe_rtt());
    let mut longest = 0;
    for _ in 0..100 {
        path.run(&mut bbr, 0.01);
        longest += u32::from(bbr.phase.is_probe_rtt());
        assert_eq!(bbr.is_self_limited(), bbr.phase.is_probe_rtt());
    }
    assert!((20..=32).contains(&longest), "200 ms and a round trip or two: {longest} times 10 ms");
    assert_eq!(bbr.phase, Phase::Cruise);
    assert!(bbr.min_rtt.probe >= Some(Duration::from_millis(40)));
}

/// Section 5.6.1.
#[test]
fn gains() {
    for (phase, gains) in [
        (Phase::Startup, (2.77, 2.0)),
        (Phase::Drain { began: 0 }, (0.5, 2.0)),
        (Phase::Down, (0.9, 2.0)),
        (Phase::Cruise, (1.0, 2.0)),
        (Phase::Refill, (1.0, 2.0)),
        (Phase::Up, (1.25, 2.25)),
        (Phase::ProbeRtt { until: None, round_over: false }, (1.0, 0.5)),
    ] {
        assert_eq!(phase.gains(), gains);
    }
}

/// One cycle: time, segments in flight, and the phase after the ACK. Bandwidth does not grow in UP.
#[test]
fn phases_follow_each_other() {
    let mut bbr = knows_path(Phase::Down);
    let mut number = 0;
    for (millis, in_flight, phase) in [
        (40, 60, Phase::Down), // More than 40 are in flight after the ACK.
        (80, 41, Phase::Cruise),
        (1_900, 41, Phase::Cruise),
        (2_041, 41, Phase::Refill), // After 2 s.
        (2_081, 41, Phase::Up),     // After one round trip.
        (2_121, 50, Phase::Up),
        (2_161, 50, Phase::Up),
        (2_201, 50, Phase::Down), // Three round trips without growth.
    ] {
        number += 1;
        bbr.on_delivery(&ack(number, at(millis), in_flight, 0));
        assert_eq!(bbr.phase, phase, "{millis} ms");
    }
}

/// Section 5.3.2: DRAIN ends when at most the bandwidth-delay product is in flight, or after three
/// round trips.
#[test]
fn drain_ends_after_three_round_trips() {
    for (in_flight, rounds) in [(41, 1), (42, 4)] {
        let mut bbr = knows_path(Phase::Drain { began: 0 });
        let over = (1..).find(|&number| {
            bbr.on_delivery(&ack(number, at(40 * number), in_flight, 0));
            bbr.phase != Phase::Drain { began: 0 }
        });
        assert_eq!(over, Some(rounds), "{in_flight}");
    }
}

/// Section 5.3.3.8: the probe follows after as many round trips as Reno needs to grow to the
/// bandwidth-delay product, here 20 segments.
#[test]
fn a_probe_comes_no_later_than_reno_grows() {
    for (rounds, phase) in [(18, Phase::Cruise), (19, Phase::Refill)] {
        let mut bbr = knows_path(Phase::Cruise);
        bbr.max_bw = [0.5e-3, 0.5e-3];
        bbr.derive();
        bbr.cycle.rounds = rounds;
        let mut quiet = ack(1, at(100), 20, 0);
        quiet.rate.as_mut().unwrap().delivered = 20 * SEGMENT;
        bbr.on_delivery(&quiet);
        assert_eq!(bbr.phase, phase);
    }
}

/// Section 5.5.9 at one segment per millisecond: time in units of 0.5 ms, segments that an ACK
/// delivers, and the maximum of the samples.
#[test]
fn acks_that_come_in_bunches() {
    let mut excess = Excess::new();
    for (halves, delivered, most) in [
        (20, 1.0, 1.0),
        (22, 1.0, 1.0),    // As expected: the interval restarts.
        (40, 10.0, 10.0),  // Ten in one burst, 9 ms after the last ACK.
        (41, 2.0, 11.5),   // Half a segment was expected since.
        (44, 1.0, 11.5),   // 13, of which 2 were expected.
        (100, 30.0, 20.0), // At most the window.
    ] {
        excess.add(Instant::from_nanos(halves * MS / 2), 1e-3, delivered * SIZE, 20.0 * SIZE);
        assert!((excess.most() - most * SIZE).abs() < 1e-6, "{halves}: {}", excess.most());
    }
    // The sample is used for 10 round trips; it expires after 11.
    for round in 1..=11 {
        excess.begin_round(false);
        excess.add(at(1_000 * round), 1e-3, SIZE, 20.0 * SIZE);
        assert_eq!(excess.most() > SIZE, round <= 10, "{round}");
    }
    // In STARTUP it expires after two.
    excess.add(at(12_000), 1e-3, 5.0 * SIZE, 20.0 * SIZE);
    for round in 1..=2 {
        excess.begin_round(true);
        excess.add(at(12_000 + 1_000 * round), 1e-3, SIZE, 20.0 * SIZE);
        assert_eq!(excess.most() > SIZE, round <= 1, "{round}");
    }
}

/// Sections 5.5.8 and 5.6.4.2 with a bandwidth-delay product of 40 segments. The window is twice
/// the product plus the ACK aggregation, and at least three bursts. A burst is 1 ms at the pacing
/// rate, at least 2 segments and at most 64 KiB.
#[test]
fn the_window_has_room_for_bunches_and_bursts() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.excess.add(at(0), 1e-3, 10.0 * SIZE, 80.0 * SIZE);
    bbr.excess.add(at(0), 1e-3, 1.5 * SIZE, 80.0 * SIZE);
    bbr.cwnd = 200.0 * SIZE;
    bbr.on_delivery(&ack(1, at(40), 60, 0));
    assert_eq!(bbr.cwnd(), 91.5);
    for (bytes_a_second, floor) in [(1e6, 6.0 * SIZE), (1e7, 3e4), (1e9, 3.0 * 65_536.0)] {
        bbr.set_rate(bytes_a_second);
        assert_eq!(bbr.pacing.floor, floor, "{bytes_a_second}");
    }
    assert_eq!(bbr.with_budget(0.0), 3.0 * 65_536.0);
    bbr.enter(Phase::Up);
    assert_eq!(bbr.with_budget(0.0), 3.0 * 65_536.0 + 2.0 * SIZE);
}

/// With 100 segments in flight, two losses are allowed; the third ends the probe. It sets
/// inflight_longterm to the volume at which losses exceeded 2 %: 99 + (0.02 x 99 - 2) / 0.98
/// segments. Further losses of the probe have no effect.
#[test]
fn two_percent_of_losses_end_a_probe() {
    let mut bbr = knows_path(Phase::Up);
    bbr.probe.has_samples = true;
    bbr.on_lost(&loss(1, 1, 100));
    bbr.on_lost(&loss(2, 2, 100));
    assert_eq!((bbr.phase, bbr.bounds.inflight_longterm), (Phase::Up, f64::INFINITY));
    bbr.on_lost(&loss(3, 3, 100));
    let expected = in_flight_at_loss(&loss(3, 3, 100));
    assert!((expected - 98_979.591_836).abs() < 1e-3, "{expected}");
    assert_eq!((bbr.phase, bbr.bounds.inflight_longterm), (Phase::Down, expected));
    assert!(bbr.probe.was_too_high);
    bbr.on_lost(&loss(4, 4, 50));
    assert_eq!(bbr.bounds.inflight_longterm, expected);
    // At least 0.7 of the target of 40 segments.
    let mut bbr = knows_path(Phase::Up);
    bbr.probe.has_samples = true;
    bbr.on_lost(&loss(1, 1, 20));
    assert!(
        (bbr.bounds.inflight_longterm - 28.0 * SIZE).abs() < 1e-6,
        "{}",
        bbr.bounds.inflight_longterm
    );
}

/// Section 5.3.3.6: the UP phase after a lossy one ends at the volume where that phase lost too
/// much. If no losses follow, REFILL begins one round trip later, and the next UP phase continues.
#[test]
fn a_probe_after_a_lossy_one_is_careful() {
    let mut bbr = knows_path(Phase::Up);
    (bbr.probe.was_too_high, bbr.bounds.inflight_longterm) = (true, 50.0 * SIZE);
    bbr.acks = Acks::Feedback;
    for (number, in_flight, phase, was_precautionary) in [
        (1, 50, Phase::Up, false), // 49 segments are in flight after the ACK.
        (2, 51, Phase::Down, true),
        (3, 51, Phase::Refill, false),
        (4, 51, Phase::Up, false),
        (5, 60, Phase::Up, false),
    ] {
        let mut delivery = ack(number, at(40 * number), in_flight, 0);
        // The acknowledged segment was sent before the probe.
        delivery.rate.as_mut().unwrap().in_flight_at_send = 40 * SEGMENT;
        bbr.on_delivery(&delivery);
        assert_eq!(
            (bbr.phase, bbr.probe.was_precautionary),
            (phase, was_precautionary),
            "{number}"
        );
    }
    // Losses of the precautionary probe prevent an immediate REFILL.
    let mut bbr = knows_path(Phase::Down);
    (bbr.acks, bbr.probe.was_precautionary, bbr.probe.has_samples) = (Acks::Stopping, true, true);
    bbr.on_lost(&loss(1, 3, 100));
    bbr.on_delivery(&ack(1, at(40), 60, 3));
    assert_eq!((bbr.phase, bbr.probe.was_too_high), (Phase::Down, true));
}

/// Outside probes, a round trip with losses or a mark sets the short-term bounds of rate and
/// volume: the data delivered, at least 0.7 of the previous values. REFILL clears the bounds.
#[test]
fn losses_bound_the_short_term() {
    for is_mark in [false, true] {
        let mut bbr = knows_path(Phase::Cruise);
        bbr.on_delivery(&ack(1, at(40), 60, 0));
        assert!(bbr.bounds.bw_shortterm.is_infinite());
        if is_mark {
            bbr.on_congestion(at(40), Congestion::Ecn, 60.0);
        } else {
            bbr.on_lost(&loss(1, 1, 60));
        }
        // A round trip that begins with the loss and delivers half as much as the previous one.
        (bbr.losses.bw_latest, bbr.losses.inflight_latest) = (0.0, 0.0);
        let mut slow = ack(2, at(80), 60, 3);
        slow.rate.as_mut().unwrap().delivered = 20 * SEGMENT;
        let cwnd = bbr.cwnd;
        bbr.on_delivery(&slow);
        assert!((bbr.bounds.bw_shortterm - 0.7e-3).abs() < 1e-9, "{}", bbr.bounds.bw_shortterm);
        assert!(
            (bbr.bounds.inflight_shortterm - 0.7 * cwnd).abs() < 1e-6,
            "{}",
            bbr.bounds.inflight_shortterm
        );
        assert!(bbr.cwnd <= bbr.bounds.inflight_shortterm);
        bbr.on_delivery(&ack(3, at(2_100), 30, 3));
        assert_eq!(bbr.phase, Phase::Refill);
        assert!(
            bbr.bounds.bw_shortterm.is_infinite() && bbr.bounds.inflight_shortterm.is_infinite()
        );
    }
}

/// CRUISE leaves 15 % of inflight_longterm unused. In UP it grows by 1, 2 and 4 segments in round
/// trips that it limits.
#[test]
fn inflight_longterm_bounds_and_grows() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.bounds.inflight_longterm = 60.0 * SIZE;
    bbr.on_delivery(&ack(1, at(40), 40, 0));
    assert_eq!(bbr.cwnd(), 51.0);
    bbr.enter(Phase::Up);
    bbr.cwnd = 60.0 * SIZE;
    bbr.raise_slope();
    bbr.round.is_over = false;
    for growth in [1.0, 2.0, 4.0] {
        let (before, per) = (bbr.bounds.inflight_longterm, bbr.probe.per);
        assert!((per - bbr.cwnd / growth).abs() < 1e-6, "{per}");
        // A window of ACKs while a full window is in flight.
        for _ in 0..bbr.cwnd().floor() as u64 {
            bbr.cwnd = bbr.bounds.inflight_longterm;
            bbr.probe_upward(&ack(2, at(50), bbr.cwnd().floor() as u64, 0));
        }
        let grown = (bbr.bounds.inflight_longterm - before) / SIZE;
        assert!((grown - growth).abs() <= 1.0, "{growth}: {grown}");
        bbr.raise_slope();
    }
}

/// STARTUP ends after a round trip of recovery with losses in six ranges that exceed 2 %.
#[test]
fn losses_end_startup() {
    for (places, in_recovery, ends) in [(6, true, true), (5, true, false), (6, false, false)] {
        let mut bbr = knows_path(Phase::Startup);
        bbr.full_bw_reached = false;
        bbr.recovery = in_recovery.then_some(u64::MAX);
        for place in 1..=places {
            // Adjacent segments form one range.
            bbr.on_lost(&loss(3 * place, 2 * place - 1, 100));
            bbr.on_lost(&loss(3 * place + 1, 2 * place, 100));
        }
        bbr.on_delivery(&ack(1, at(40), 100, 2 * places));
        assert_eq!(bbr.phase != Phase::Startup, ends, "{places} {in_recovery}");
        assert_eq!(bbr.bounds.inflight_longterm.is_finite(), ends);
    }
}

/// Section 5.6.4.4: in recovery the model determines the window, a timeout reduces it to one
/// segment, and the end of either restores it.
#[test]
fn recoveries_give_the_window_back() {
    let mut bbr = knows_path(Phase::Cruise);
    bbr.on_delivery(&ack(1, at(40), 60, 0));
    let cwnd = bbr.cwnd;
    bbr.on_congestion(at(40), Congestion::Loss, 60.0);
    assert_eq!(bbr.cwnd, cwnd);
    bbr.on_timeout(at(300), Some(60.0));
    assert_eq!(bbr.cwnd(), 1.0);
    let mut first = ack(1, at(340), 60, 0);
    (first.snd_una, first.rate) = (0, None);
    bbr.on_delivery(&first);
    assert_eq!(bbr.cwnd(), 4.0, "the least");
    bbr.on_delivery(&ack(3, at(380), 60, 0));
    assert!(bbr.cwnd >= cwnd && bbr.recovery.is_none());
}

/// Section 5.5.11.2: after spurious losses, the bounds and the phase that the losses ended are
/// restored.
#[test]
fn a_spurious_recovery_is_undone() {
    let mut bbr = knows_path(Phase::Up);
    bbr.probe.has_samples = true;
    bbr.bounds.inflight_longterm = 120.0 * SIZE;
    for place in 1..=3 {
        bbr.on_lost(&loss(place, place, 100));
    }
    assert_eq!(bbr.phase, Phase::Down);
    (bbr.bounds.bw_shortterm, bbr.cwnd) = (0.5e-3, 10.0 * SIZE);
    bbr.on_spurious();
    assert_eq!(
        (bbr.phase, bbr.cwnd(), bbr.bounds.inflight_longterm),
        (Phase::Refill, 80.0, 120.0 * SIZE)
    );
    assert!(bbr.bounds.bw_shortterm.is_infinite());

    let mut bbr = knows_path(Phase::Startup);
    bbr.full_bw_reached = false;
    bbr.recovery = Some(u64::MAX);
    for place in 1..=6 {
        bbr.on_lost(&loss(2 * place, place, 100));
    }
    bbr.on_delivery(&ack(1, at(40), 100, 6));
    assert_eq!(bbr.phase, Phase::Drain { began: 1 });
    bbr.on_spurious();
    assert_eq!((bbr.phase, bbr.full_bw_reached), (Phase::Startup, false));
    assert!(bbr.bounds.inflight_longterm.is_infinite());
}
