//! Compares saturated links with closed forms. Seeds are fixed.

use crate::common::*;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant, Probability, Rate};
use lasthop_link::channel::{Airtime, Channel, Uniform};
use lasthop_link::link::{
    Endpoint, Release, Renack, RlpParameters, SelectiveRepeatParameters, TimerMode,
};

/// The link of the study: 64 kbps, 50 ms, 250 B packets in 252 B frames of 31.5 ms.
const RATE: Rate = Rate::from_bps(64_000);
const DELAY: Duration = Duration::from_millis(50);
const FRAME: Duration = Duration::from_nanos(31_500_000);
/// RTT_L = 2 * 50 + 31.5 + 0.25 ms.
const ROUND_TRIP: Duration = Duration::from_nanos(131_750_000);
const FRAMES: u64 = 100_000;

/// Packets delivered per frame time on a saturated forward link with a loss-free reverse link.
fn efficiency(protocol: Protocol, loss: f64, frames: u64) -> f64 {
    let p = Probability::new(loss).expect("a probability");
    let streams = Streams { seed: 5, replication: 0 };
    let mut channel = Channel::Uniform(Uniform::new(p, &streams, "link.forward"));
    let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 2016 };
    let fate: Fate = Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO));
    let offers = [tokens(frames, 250), tokens(0, 250)];
    let mut link = Link::new(protocol.ends(), (RATE, DELAY), offers, [fate, clean()]);
    link.run(Instant::ZERO + FRAME * frames);
    link.delivered[1].len() as f64 / frames as f64
}

#[test]
fn selective_repeat_reaches_the_loss_bound() {
    // Goodput <= R B / (B + h) (1 - p), which is an efficiency of 1 - p. The fraction of surviving
    // frames has the standard error sqrt(p (1 - p) / n), at most 0.1 %. 5 standard errors: false
    // positives below 3e-7 per point.
    for timer in [TimerMode::PerFrame, TimerMode::BaseOnly] {
        for p in [0.0, 0.015, 0.025, 0.054, 0.098] {
            let parameters = SelectiveRepeatParameters {
                timer,
                renack: Renack::AfterRoundTrip(ROUND_TRIP + FRAME),
                nack_guard: ROUND_TRIP,
                ..selective_repeat(128, ROUND_TRIP * 8)
            };
            let efficiency = efficiency(Protocol::SelectiveRepeat(parameters), p, FRAMES);
            let (bound, error) = (1.0 - p, (p * (1.0 - p) / FRAMES as f64).sqrt());
            assert!(efficiency <= bound + 5.0 * error, "{timer:?} {p}: {efficiency} > {bound}");
            assert!(
                efficiency >= 0.99 * bound - 5.0 * error,
                "{timer:?} {p}: {efficiency} < {bound}"
            );
        }
    }
}

#[test]
fn go_back_n_follows_its_efficiency() {
    // A loss costs T_o, from the start of the lost frame to the start of its retransmission. T_o is
    // a multiple of T_f, so that the transmitter is idle when the timer expires. Let n' = n / (1 -
    // p + p T_o / T_f) be the number of frames that count. The relative standard error of η is the
    // fraction of time lost, multiplied by sqrt((1 - p) / (n' p)). It is at most 0.4 % (the last
    // point): 2 % are 5 standard errors, and false positives are below 1e-6 per point.
    for (multiple, p) in [(5, 0.01), (16, 0.01), (8, 0.054), (5, 0.098), (16, 0.098)] {
        let protocol = Protocol::GoBackN(go_back_n(64, FRAME * multiple));
        let efficiency = efficiency(protocol, p, 6 * FRAMES);
        let exact = (1.0 - p) / (1.0 - p + p * multiple as f64);
        assert!(
            (efficiency / exact - 1.0).abs() < 0.02,
            "T_o = {multiple} T_f, p = {p}: {efficiency}, expected {exact}"
        );
    }
}

/// Independent frame losses in one direction.
fn uniform(p: f64, seed: u64, name: &str) -> Fate {
    let p = Probability::new(p).expect("a probability");
    let mut channel = Channel::Uniform(Uniform::new(p, &Streams { seed, replication: 0 }, name));
    let airtime = Airtime { start: Instant::ZERO, end: Instant::ZERO, bits: 2016 };
    Box::new(move |_| (channel.is_lost(airtime), Duration::ZERO))
}

mod slow {
    use super::*;

    #[test]
    fn radio_links_leave_their_residual_loss() {
        // r = p (1 - (1 - p_c)(1 - p))^n: a frame is lost, and in each of n attempts its NACK or its
        // retransmission. Frames are independent, so that the number of losses is binomial: 5 standard
        // deviations, false positives below 6e-7 per point. The link is saturated. The deadlines must
        // take queued retransmissions into account; otherwise adjacent losses would be abandoned too
        // early and r would be higher.
        let frames = 400_000u64;
        for n in [0, 1, 3] {
            for (p, p_c) in [(0.02, 0.02), (0.1, 0.1), (0.1, 0.0), (0.3, 0.3), (0.3, 0.0)] {
                let mut survivors = Vec::new();
                for release in [Release::InSequence, Release::Immediate] {
                    let parameters = RlpParameters {
                        release,
                        keepalive: Some(ROUND_TRIP),
                        keepalives: Some(20),
                        ..karn_rlp(n, ROUND_TRIP + FRAME, FRAME)
                    };
                    let seed = 31 + u64::from(n);
                    let fates = [uniform(p, seed, "forward"), uniform(p_c, seed, "back")];
                    let offers = [tokens(frames, 251), tokens(0, 250)];
                    let ends = Protocol::Rlp(parameters).ends();
                    let mut link = Link::new(ends, (RATE, DELAY), offers, fates);
                    link.run(Instant::NEVER);
                    let counters = link.ends[1].counters();
                    let delivered = link.delivered[1].len() as u64;
                    assert_eq!(delivered + counters.skipped, frames);
                    assert_eq!(counters.duplicates, 0, "a copy that was not needed");
                    let exact = p * (1.0 - (1.0 - p_c) * (1.0 - p)).powi(n as i32);
                    let lost = counters.skipped as f64;
                    let deviation = (frames as f64 * exact * (1.0 - exact)).sqrt();
                    assert!(
                        (lost - frames as f64 * exact).abs() < 5.0 * deviation,
                        "n = {n}, p = {p}, p_c = {p_c}: {lost} lost, expected {} with deviation \
                         {deviation}",
                        frames as f64 * exact
                    );
                    let mut numbers: Vec<_> =
                        link.delivered[1].iter().map(|token| token.number).collect();
                    numbers.sort_unstable();
                    survivors.push(numbers);
                }
                assert!(survivors[0] == survivors[1], "both modes lose the same packets");
            }
        }
    }
}
