//! Windows after idle periods, windows that are not used, and losses that do not reduce them.

use crate::tcp_pipe::{OPENER, Pipe, ms};
use crate::tcp_traces::{at_once, config, losing, since};
use lasthop_base::units::Bytes;
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};

/// Sends 40 segments, and 45 more in a second call at `then` ms. Returns the opener's window after
/// the first call, the number of segments that the second call sends immediately, and the window
/// then.
fn burst_after_pause(config: &Config, then: u64) -> (f64, usize, f64) {
    let mut pipe = losing(config, &[]);
    pipe.ends[OPENER].write(40_000);
    pipe.pump(OPENER);
    pipe.run(ms(then));
    let window = |pipe: &Pipe| pipe.ends[OPENER].sender().congestion_window();
    let before = window(&pipe);
    pipe.ends[OPENER].write(45_000);
    pipe.pump(OPENER);
    (before, since(&pipe, then).iter().filter(|(at, _)| *at == then).count(), window(&pipe))
}

/// RFC 5681, section 4.1: at most the initial window after an idle period longer than the RTO of 1
/// s. RFC 7661 keeps the window. The last ACK of the first call ends a round trip with a pipeACK of
/// 20 segments, the maximum, of a window of 49, and does not grow it.
#[test]
fn a_pause_may_bring_the_window_back() {
    let restarts = Overrides { restart_after_idle: Some(true), ..at_once() };
    let keeps = Overrides { window_validation: Some(true), ..at_once() };
    let burst = |set| burst_after_pause(&config(Variant::Reno, set), 3_000);
    assert_eq!(burst(at_once()), (50.0, 45, 50.0));
    assert_eq!(burst(restarts), (50.0, 10, 10.0));
    assert_eq!(burst(keeps), (49.0, 45, 49.0));
}

/// RFC 2861 as in Linux: the last segments of the first call are sent at 0.3 s, and the RTO is 0.3
/// s. The window is halved for each RTO of the idle period, down to the initial window; not with
/// `tcp_slow_start_after_idle = 0`, and not for BBR.
#[test]
fn a_pause_halves_the_window_of_a_linux_host() {
    let host = |variant, restart_after_idle| {
        let set = Overrides {
            segment: Some(Bytes::new(1000)),
            receive_window: Some(200.0),
            restart_after_idle,
            ..at_once()
        };
        presets::config(variant, Profile::Linux, &set)
    };
    for (then, leave) in [(500, 45), (700, 25), (1_000, 12), (1_300, 10), (3_000, 10)] {
        let burst = burst_after_pause(&host(Variant::Reno, None), then);
        let window = if leave == 45 { 50.0 } else { leave as f64 };
        assert_eq!(burst, (50.0, leave, window), "{then} ms");
    }
    assert_eq!(burst_after_pause(&host(Variant::Reno, Some(false)), 3_000), (50.0, 45, 50.0));
    assert!(!host(Variant::Bbr, None).restart_after_idle);
}

/// RFC 7661, section 4.4: one segment per round trip does not use a window of ten, which does not
/// grow; without validation, Reno's window grows.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for (validation, expected) in [(false, 40.0), (true, 10.0)] {
        let set = Overrides { window_validation: Some(validation), ..at_once() };
        let mut pipe = losing(&config(Variant::Reno, set), &[]);
        for round in 0..30 {
            pipe.ends[OPENER].write(1_000);
            pipe.pump(OPENER);
            pipe.run(ms(200 * (round + 1)));
        }
        assert_eq!(pipe.ends[OPENER].sender().congestion_window(), expected, "{validation}");
    }
}

/// RFC 7661, section 4.4.1: eight segments per round trip with a window of 50. Of the last eight
/// the fifth is lost, and four are outstanding when the loss is detected. The eight segments used
/// are halved instead of the outstanding four. When the loss is repaired, the retransmitted segment
/// is subtracted: the window is half of seven.
#[test]
fn a_loss_in_a_window_that_is_not_used_halves_what_was() {
    for (validation, expected) in [(false, 2.0), (true, 4.0)] {
        let set = Overrides { window_validation: Some(validation), ..at_once() };
        let mut pipe = losing(&config(Variant::Reno, set), &[(60_001, 1)]);
        pipe.ends[OPENER].write(40_000);
        pipe.pump(OPENER);
        for start in [3_000, 3_200, 3_400] {
            pipe.run(ms(start));
            pipe.ends[OPENER].write(8_000);
            pipe.pump(OPENER);
        }
        pipe.run(ms(3_490));
        assert!(pipe.ends[OPENER].sender().slow_start_threshold().is_infinite());
        pipe.run(ms(3_510));
        let halved = pipe.ends[OPENER].sender().slow_start_threshold();
        assert_eq!(halved, expected, "{validation}");
        pipe.run(ms(3_700));
        let sender = pipe.ends[OPENER].sender();
        let repaired = if validation { 3.5 } else { 2.0 };
        assert_eq!(sender.slow_start_threshold(), repaired, "{validation}");
        assert_eq!(sender.congestion_window(), repaired, "{validation}");
    }
}

/// Biaz and Vaidya 2005: the fifth segment is "out", so that its loss indicates congestion. The
/// 61st is "in": its loss is random and does not reduce the window. Slow start restores the window
/// after recovery, for any threshold.
#[test]
fn a_random_loss_leaves_the_window() {
    for variant in [Variant::Casablanca, Variant::Ifrane] {
        let mut pipe = losing(&config(variant, at_once()), &[(4_001, 1), (60_001, 1)]);
        pipe.ends[OPENER].write(120_000);
        pipe.pump(OPENER);
        let state = |pipe: &Pipe| {
            let sender = pipe.ends[OPENER].sender();
            (sender.congestion_window(), sender.slow_start_threshold())
        };
        let mut steps = vec![state(&pipe)];
        while steps.len() < 40 {
            pipe.run(ms(100 * steps.len() as u64 + 50));
            steps.push(state(&pipe));
        }
        let first = steps.iter().position(|(_, threshold)| threshold.is_finite()).unwrap();
        let (_, low) = steps[first];
        let second = steps.iter().rposition(|(_, threshold)| *threshold == low).unwrap() + 1;
        let (before, kept) = (steps[second - 1].0, steps[second].1);
        assert!(kept >= before && before > low + 2.0, "{variant:?}: {steps:?}");
        assert!(steps[second + 3].0 >= before, "{variant:?}: {steps:?}");
    }
}

/// Like [`a_random_loss_leaves_the_window`], with a second loss in the window of the 61st: each
/// hole is classified when a partial ACK shows it. The 63rd is "in" as well and does not reduce the
/// window; the 65th is "out" and halves it, once.
#[test]
fn each_hole_of_a_window_is_judged() {
    for variant in [Variant::Casablanca, Variant::Ifrane] {
        for (second, is_cut) in [(62_001, false), (64_001, true)] {
            let lost = [(4_001, 1), (60_001, 1), (second, 1)];
            let mut pipe = losing(&config(variant, at_once()), &lost);
            pipe.ends[OPENER].write(120_000);
            pipe.pump(OPENER);
            let (mut at, mut before) = (0, 0.0);
            while pipe.ends[OPENER].counters().explicit_losses == 0 {
                before = pipe.ends[OPENER].sender().congestion_window();
                at += 10;
                pipe.run(ms(at));
            }
            pipe.run(ms(at + 1_000));
            let counters = pipe.ends[OPENER].counters();
            let seen = (counters.window_cuts, counters.explicit_losses, counters.timeouts);
            let cuts = u64::from(is_cut);
            assert_eq!(seen, (1 + cuts, 2 - cuts, 0), "{variant:?} {second}");
            let threshold = pipe.ends[OPENER].sender().slow_start_threshold();
            let expected = if is_cut { before / 2.0 } else { before };
            assert!(
                (threshold - expected).abs() < 0.5,
                "{variant:?} {second}: {threshold} {expected}"
            );
        }
    }
}
