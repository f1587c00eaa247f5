//! The analytic models against other derivations of the same numbers: sums over paths, Monte Carlo,
//! identities. Random arguments are in `analysis_arguments.rs`.

use lasthop_analysis::arq_efficiency::{ArqLink, rlp_residual_loss};
use lasthop_analysis::ideal_sr::{IdealSr, IdealSrCounts};
use lasthop_analysis::tcp_chain::{TcpChain, TcpOverArq};
use lasthop_analysis::{
    AnalysisError, ArqChain, GilbertElliottLaw, Restart, TransitionForm, block_codes,
};
use lasthop_base::rng::Streams;
use lasthop_base::units::{Duration, Instant, Probability};
use lasthop_link::channel::{
    Airtime, ErrorProcess, SlottedGilbertElliott, SlottedGilbertElliottParameters,
};

fn law(p: f64, r: f64, good: f64, bad: f64) -> GilbertElliottLaw {
    GilbertElliottLaw::new(p, r, good, bad).unwrap()
}

/// F(n) without the chain: given the number of bad frames among n, the PDUs are independent.
fn by_paths(channel: &GilbertElliottLaw, pdus: i32, longest: usize) -> Vec<f64> {
    let [p, r] = channel.leave();
    let [loss_good, loss_bad] = channel.loss();
    // Probability of j bad frames so far, by the state of the next frame.
    let mut paths = vec![channel.stationary()];
    let mut found = vec![1.0];
    for n in 1..=longest {
        let mut next = vec![[0.0; 2]; n + 1];
        for (j, [good, bad]) in paths.iter().enumerate() {
            next[j][0] += good * (1.0 - p);
            next[j][1] += good * p;
            next[j + 1][0] += bad * r;
            next[j + 1][1] += bad * (1.0 - r);
        }
        paths = next;
        found.push(
            paths
                .iter()
                .enumerate()
                .map(|(j, [good, bad])| {
                    let missing = loss_good.powi((n - j) as i32) * loss_bad.powi(j as i32);
                    let some = if missing < 1.0 {
                        -(f64::from(pdus) * (-missing).ln_1p()).exp_m1()
                    } else {
                        1.0
                    };
                    (good + bad) * some
                })
                .sum(),
        );
    }
    found
}

const CHANNELS: [(f64, f64, f64, f64); 9] = [
    (0.1, 0.1, 0.01, 0.9),
    (0.1, 0.5, 0.01, 0.9),
    (0.1, 0.01, 0.0, 1.0),
    (0.9, 0.7, 0.3, 0.6),
    (1.0, 1.0, 0.2, 0.8),
    (1e-6, 1e-4, 1e-9, 0.999),
    (0.5, 0.5, 0.25, 0.25),
    (0.0, 0.3, 0.4, 1.0),
    (0.3, 0.0, 1.0, 0.4),
];

#[test]
fn both_right_forms_and_the_sum_over_paths_agree() {
    let mut compared = 0;
    for (p, r, good, bad) in CHANNELS {
        let channel = law(p, r, good, bad);
        for (pdus, spacing) in [(1, 1), (2, 3), (25, 1), (25, 4), (200, 1)] {
            let chain = ArqChain::new(channel, pdus, spacing).unwrap();
            let paths = by_paths(&channel.spaced(spacing).unwrap(), pdus as i32, 120);
            let left = chain.residual_losses_by(TransitionForm::Left);
            for (n, ((entered, left), path)) in
                chain.residual_losses().zip(left).zip(paths).enumerate()
            {
                assert!((entered - left).abs() < 1e-12, "{n}: {entered} {left}");
                // The sum over paths rounds at every step of a long product.
                assert!((entered - path).abs() < 1e-12, "{n}: {entered} {path}");
                assert!((entered - path).abs() <= 1e-9 * path, "{n}: {entered} {path}");
                compared += 1;
            }
        }
    }
    assert!(compared > 5000);
}

#[test]
fn the_misprinted_form_disagrees() {
    let chain = ArqChain::new(law(0.1, 0.1, 0.01, 0.9), 25, 1).unwrap();
    let printed: Vec<f64> = chain.residual_losses_by(TransitionForm::AsPrinted).take(301).collect();
    assert!(printed[1] - chain.residual_loss(1).unwrap() > 0.03);
    // Eigenvalue of [[g p_G, (1-g) p_B], [(1-b) p_B, b p_B]].
    assert!((printed[300] / printed[299] - 0.819_987_8).abs() < 1e-7);
}

#[test]
fn the_mean_is_the_sum_of_the_residual_losses() {
    for (p, r, good, bad) in CHANNELS {
        let channel = law(p, r, good, bad);
        for (pdus, spacing) in [(1, 1), (25, 1), (25, 5), (100, 2)] {
            let chain = ArqChain::new(channel, pdus, spacing).unwrap();
            if chain.dominant_eigenvalue() > 0.9999 {
                continue;
            }
            let mean = chain.mean_attempts().unwrap();
            let sum: f64 = chain.residual_losses().take_while(|f| *f > 1e-18).sum();
            assert!((sum / mean - 1.0).abs() < 1e-10, "{p} {r} {pdus}: {sum} {mean}");
            let limited = chain.mean_attempts_limited(7).unwrap();
            let first: f64 = chain.residual_losses().take(7).sum();
            assert_eq!(limited, first);
        }
    }
}

#[test]
fn with_independent_errors_giving_up_costs_nothing() {
    for loss in [0.05, 0.3, 0.9] {
        let chain = ArqChain::new(GilbertElliottLaw::independent(loss).unwrap(), 1, 1).unwrap();
        for limit in [1, 2, 5, 20] {
            for restart in [Restart::Stationary, Restart::After(1), Restart::After(30)] {
                let ratio = chain.energy_ratio(limit, restart).unwrap();
                assert!((ratio - 1.0).abs() < 1e-12, "{loss} {limit} {restart:?}: {ratio}");
            }
        }
        assert!((chain.mean_attempts().unwrap() * (1.0 - loss) - 1.0).abs() < 1e-12);
        assert!((chain.dominant_eigenvalue() - loss).abs() < 1e-12);
    }
}

/// A chain so large that most entries become negligible and are omitted.
#[test]
fn long_chains_forget_what_hardly_ever_happens() {
    let channel = law(0.1, 0.1, 0.01, 0.9);
    let chain = ArqChain::new(channel, 300, 1).unwrap();
    let paths = by_paths(&channel, 300, 400);
    for (n, (residual, path)) in chain.residual_losses().zip(&paths).enumerate() {
        assert!((residual - path).abs() <= 1e-9 * path, "{n}: {residual} {path}");
    }
    // A late restart equals one in the stationary channel, even if entries have been omitted.
    let late = chain.transmissions_per_delivered_pdu(300, Restart::After(1000)).unwrap();
    let stationary = chain.transmissions_per_delivered_pdu(300, Restart::Stationary).unwrap();
    assert!((late / stationary - 1.0).abs() < 1e-12, "{late} {stationary}");
}

#[test]
fn the_law_of_attempts_sums_to_what_arrives() {
    let chain = ArqChain::new(law(0.1, 0.1, 0.01, 0.9), 25, 3).unwrap();
    let law = chain.attempts_law(12).unwrap();
    let sum: f64 = law.iter().sum();
    assert!((sum + chain.residual_loss(12).unwrap() - 1.0).abs() < 1e-12);
    let mean: f64 = law.iter().enumerate().map(|(n, p)| (n + 1) as f64 * p).sum::<f64>() / sum;
    assert!((mean - chain.mean_attempts_of_delivered(12).unwrap()).abs() < 1e-12);
    assert_eq!([chain.frames(1), chain.frames(2), chain.frames(12)], [1, 4, 34]);
    // Half of the SDUs delivered within 12 transmissions.
    let half = chain.attempts_quantile(0.5, Some(12)).unwrap();
    let within = |n: u32| law[..n as usize].iter().sum::<f64>() / sum;
    assert!(within(half) >= 0.5 && within(half - 1) < 0.5);
}

#[test]
fn what_cannot_be_is_refused_with_argument_found_and_allowed() {
    let channel = law(0.1, 0.1, 0.01, 0.9);
    let chain = ArqChain::new(channel, 25, 1).unwrap();
    // The bad state is absorbing and loses every frame.
    let stuck = ArqChain::new(law(0.1, 0.0, 0.0, 1.0), 25, 1).unwrap();
    let hopeless = ArqChain::new(law(0.5, 0.5, 1.0, 1.0), 2, 1).unwrap();
    let clean = ArqChain::new(law(0.5, 0.5, 0.0, 0.0), 2, 1).unwrap();
    let tcp = TcpOverArq {
        channel,
        pdus: 25,
        spacing: 1,
        limit: None,
        frame: 0.01,
        capacity: 100.0,
        wired_loss: 0.01,
        wired_round_trip: 0.4,
    };
    let ideal = IdealSr { channel, pdus: 25, spacing: 1, limit: None, capacity: None };
    let streams = Streams { seed: 1, replication: 0 };
    let cases: Vec<(&str, Option<AnalysisError>)> = vec![
        ("good_to_bad", GilbertElliottLaw::new(-0.1, 0.1, 0.0, 1.0).err()),
        ("bad_to_good", GilbertElliottLaw::new(0.1, 1.1, 0.0, 1.0).err()),
        ("loss_in_good", GilbertElliottLaw::new(0.1, 0.1, f64::INFINITY, 1.0).err()),
        ("loss_in_bad", GilbertElliottLaw::new(0.1, 0.1, 0.0, -f64::NAN).err()),
        ("good_to_bad", GilbertElliottLaw::new(0.0, 0.0, 0.0, 1.0).err()),
        ("loss", GilbertElliottLaw::independent(2.0).err()),
        ("pdus", ArqChain::new(channel, 0, 1).err()),
        ("pdus", ArqChain::new(channel, 1025, 1).err()),
        ("spacing", ArqChain::new(channel, 25, 0).err()),
        ("limit", chain.residual_loss(0).err()),
        ("limit", chain.residual_loss(100_001).err()),
        ("limit", chain.mean_attempts_limited(0).err()),
        ("limit", chain.approximate_residual_loss(0).err()),
        ("target", chain.limit_for(0.0).err()),
        ("target", chain.limit_for(f64::NAN).err()),
        ("target", chain.limit_for_approximate(1.5).err()),
        ("target", stuck.limit_for(0.01).err()),
        ("target", stuck.limit_for_approximate(0.01).err()),
        ("target", hopeless.limit_for(0.5).err()),
        ("channel", stuck.mean_attempts().err()),
        ("channel", hopeless.transmissions_per_pdu(None).err()),
        ("limit", hopeless.mean_attempts_of_delivered(5).err()),
        ("limit", hopeless.attempts_quantile(0.5, Some(5)).err()),
        ("quantile", chain.attempts_quantile(1.0, None).err()),
        ("quantile", stuck.attempts_quantile(0.5, None).err()),
        ("longest", chain.attempts_law(0).err()),
        ("channel", clean.energy_ratio(3, Restart::Stationary).err()),
        ("restart", chain.energy_ratio(3, Restart::After(0)).err()),
        ("limit", hopeless.transmissions_per_delivered_pdu(3, Restart::Stationary).err()),
        ("limit", hopeless.transmissions_per_delivered_pdu(3, Restart::After(1)).err()),
        ("loss", TcpChain::new(-1.0, None).err()),
        ("loss", TcpChain::new(0.0, None).err()),
        ("max_window", TcpChain::new(0.1, Some(0)).err()),
        ("capacity", TcpChain::new(0.1, None).unwrap().throughput(0.0, 1.0).err()),
        ("round_trip", TcpChain::new(0.1, None).unwrap().throughput(1.0, f64::NAN).err()),
        ("window", TcpChain::new(0.1, Some(8)).unwrap().transitions(9).err()),
        ("frame", TcpOverArq { frame: 0.0, ..tcp }.solve().err()),
        ("capacity", TcpOverArq { capacity: f64::INFINITY, ..tcp }.solve().err()),
        ("wired_loss", TcpOverArq { wired_loss: 1.5, ..tcp }.solve().err()),
        ("wired_round_trip", TcpOverArq { wired_round_trip: -1.0, ..tcp }.solve().err()),
        ("loss", ArqLink::new(1.0, 5.0, 5.0).err()),
        ("round_trip", ArqLink::new(0.1, 0.5, 5.0).err()),
        ("recovery", ArqLink::new(0.1, 5.0, 4.0).err()),
        ("window", ArqLink::new(0.1, 5.0, 5.0).unwrap().go_back_n(0).err()),
        ("window", ArqLink::new(0.1, 5.0, 5.0).unwrap().selective_repeat(0).err()),
        ("control_loss", rlp_residual_loss(0.1, 7.0, 1).err()),
        ("rounds", rlp_residual_loss(0.1, 0.1, 1001).err()),
        ("n", block_codes::mds(&channel, 0, 1).err()),
        ("k", block_codes::mds(&channel, 8, 9).err()),
        ("k", block_codes::xor(&channel, 0).err()),
        ("target", block_codes::parity_for(&channel, 8, 1e-9, 3).err()),
        ("most", block_codes::parity_for(&channel, 9_999, 0.1, 3).err()),
        ("capacity", ideal.run_saturated(10, &streams, "link").err()),
        ("gap", ideal.run_isolated(10, 0, &streams, "link").err()),
        ("limit", IdealSr { limit: Some(0), ..ideal }.run_isolated(1, 1, &streams, "l").err()),
        (
            "channel",
            IdealSr { channel: law(0.1, 0.0, 0.0, 1.0), ..ideal }
                .run_isolated(1, 1, &streams, "l")
                .err(),
        ),
    ];
    for (argument, error) in cases {
        let error = error.unwrap_or_else(|| panic!("{argument}: not refused"));
        assert_eq!(error.argument, argument, "{error}");
        let message = error.to_string();
        assert!(message.contains(": found ") && message.contains("; expected "), "{message}");
    }
}

// ---- Monte Carlo ----

struct Point {
    channel: GilbertElliottLaw,
    pdus: u32,
    spacing: u32,
    limit: u32,
}

/// 48 points: four channels, two sizes, two spacings, three limits.
fn points() -> Vec<Point> {
    let channels = [
        law(0.1, 0.1, 0.01, 0.9),
        law(0.1, 0.5, 0.01, 0.9),
        law(0.05, 0.2, 0.1, 0.7),
        law(0.6, 0.7, 0.05, 0.5),
    ];
    let mut points = Vec::new();
    for channel in channels {
        for pdus in [1, 25] {
            for spacing in [1, 4] {
                for limit in [1, 3, 8] {
                    points.push(Point { channel, pdus, spacing, limit });
                }
            }
        }
    }
    points
}

/// Standardized differences between a simulated ideal link and the chain: SDU loss, mean number of
/// transmissions per PDU, mean delay of delivered SDUs.
fn deviations(point: &Point, index: u64) -> [f64; 3] {
    let Point { channel, pdus, spacing, limit } = *point;
    let link = IdealSr { channel, pdus, spacing, limit: Some(limit), capacity: Some(pdus) };
    let streams = Streams { seed: 2006, replication: index };
    let memory = channel.memory().abs();
    // The correlation with the state before the gap is below 1e-9 after the gap.
    let gap = if memory > 0.0 { (1e-9f64.ln() / memory.ln()).ceil() as u32 } else { 1 };
    let sdus = 40_000;
    let counts: IdealSrCounts = link.run_isolated(sdus, gap.max(1), &streams, "oracle").unwrap();
    assert_eq!(counts.delivered + counts.given_up, sdus);
    let chain = ArqChain::new(channel, pdus, spacing).unwrap();
    let n = sdus as f64;
    let loss = chain.residual_loss(limit).unwrap();
    let lost = (counts.given_up as f64 - n * loss) / (n * loss * (1.0 - loss)).sqrt();

    let mean = counts.transmissions as f64 / n;
    let variance = counts.squared_transmissions / n - mean * mean;
    let exact = chain.transmissions_per_pdu(Some(limit)).unwrap() * f64::from(pdus);
    let error = (variance / n).sqrt();
    // With one transmission, the number of transmissions is not random.
    let sent = if limit == 1 { mean - exact } else { (mean - exact) / error };

    let delivered = counts.delivered as f64;
    let moment = |power: i32| {
        let cells = counts.delays.iter().enumerate();
        cells.map(|(n, count)| (n as f64).powi(power) * *count as f64).sum::<f64>() / delivered
    };
    let exact = chain.mean_attempts_of_delivered(limit).unwrap();
    let exact = 1.0 + (exact - 1.0) * f64::from(spacing);
    let error = ((moment(2) - moment(1).powi(2)) / delivered).sqrt();
    let delay = if limit == 1 { moment(1) - exact } else { (moment(1) - exact) / error };
    [lost, sent, delay]
}

/// At least 40 of the 48 points have every difference within 3 standard deviations, and no
/// difference exceeds 5. Of 112 random differences (48 losses, 32 means of transmissions, 32 of
/// delays), a correct pair yields 0.3 beyond 3 on average: more than 8 bad points are practically
/// impossible, and the false-positive rate of the test is that of 112 checks at 5 sigma, 6e-5. A
/// bound of 3 sigma for all 112 would fail for one seed in four. With this seed it fails for two of
/// them; ten times as many SDUs under twelve other seeds show no bias.
#[test]
fn the_ideal_link_is_within_three_sigma_of_the_chain() {
    let mut random = 0;
    let mut within = 0;
    for (index, point) in points().iter().enumerate() {
        let found = deviations(point, index as u64);
        let Point { channel, pdus, spacing, limit } = point;
        let what = format!("{:?}, {pdus} PDUs, spacing {spacing}, limit {limit}", channel.leave());
        let mut largest = 0.0f64;
        for (z, kind) in found.into_iter().zip(["loss", "transmissions", "delay"]) {
            if *limit == 1 && kind != "loss" {
                assert!(z.abs() < 1e-9, "{what}: {kind} off by {z}");
                continue;
            }
            random += 1;
            largest = largest.max(z.abs());
            assert!(z.abs() < 5.0, "{what}: {kind} off by {z:.2} sigma");
        }
        within += u32::from(largest < 3.0);
    }
    assert_eq!(random, 112);
    assert!(within >= 40, "only {within} points within 3 sigma");
}

/// Every entry of F of one channel, from the delays of SDUs without a limit. 5 sigma each.
#[test]
fn the_ideal_link_without_a_limit_has_the_law_of_the_chain() {
    let channel = law(0.1, 0.1, 0.01, 0.9);
    let link = IdealSr { channel, pdus: 25, spacing: 1, limit: None, capacity: None };
    let streams = Streams { seed: 2006, replication: 1000 };
    let sdus = 100_000u64;
    let counts = link.run_isolated(sdus, 100, &streams, "oracle").unwrap();
    assert_eq!((counts.delivered, counts.arrivals), (sdus, 25 * sdus));
    let chain = ArqChain::new(channel, 25, 1).unwrap();
    let mut later = sdus;
    for (n, residual) in chain.residual_losses().enumerate().skip(1).take(40) {
        later -= counts.delays[n];
        let error = (sdus as f64 * residual * (1.0 - residual)).sqrt();
        let z = (later as f64 - sdus as f64 * residual) / error;
        assert!(z.abs() < 5.0, "F({n}): {later}, {z} sigma");
    }
}

/// A saturated link uses every slot: its throughput is the fraction of good slots, not 1 / N. 5
/// sigma: the variance of the fraction is that of the states, correlated by memory^k, and of the
/// PDUs within a frame.
#[test]
fn a_saturated_link_carries_more_than_the_isolated_sdus_say() {
    let channel = law(0.1, 0.1, 0.01, 0.9);
    let (capacity, frames) = (25, 200_000);
    let link = IdealSr { channel, pdus: 25, spacing: 1, limit: None, capacity: Some(capacity) };
    let streams = Streams { seed: 2006, replication: 2000 };
    let counts = link.run_saturated(frames, &streams, "oracle").unwrap();
    assert_eq!(counts.transmissions, frames * u64::from(capacity));
    let share = counts.arrivals as f64 / counts.transmissions as f64;
    let exact = 1.0 - channel.loss_rate();
    assert!((exact - 0.545).abs() < 1e-12);
    let memory = channel.memory();
    let states = 0.25 * 0.89f64.powi(2) * (1.0 + memory) / (1.0 - memory);
    let within = (0.5 * 0.99 * 0.01 + 0.5 * 0.1 * 0.9) / f64::from(capacity);
    let error = ((states + within) / frames as f64).sqrt();
    assert!((share - exact).abs() < 5.0 * error, "{share}, expected {exact} ± {error}");
    let chain = ArqChain::new(channel, 25, 1).unwrap();
    let isolated = 1.0 / chain.transmissions_per_pdu(None).unwrap();
    assert!((share / isolated - 1.84).abs() < 0.05, "{}", share / isolated);
}

/// Go-back-N and stop-and-wait, frame by frame.
#[test]
fn efficiencies_are_those_of_ideal_machines() {
    let mut stream = Streams { seed: 5, replication: 0 }.stream("efficiency", "loss");
    for (loss, window, round_trip, recovery) in
        [(0.1, 1, 7, 10), (0.1, 3, 7, 7), (0.3, 4, 10, 15), (0.05, 20, 8, 9), (0.02, 5, 6, 30)]
    {
        let link = ArqLink::new(loss, f64::from(round_trip), f64::from(recovery)).unwrap();
        // Between restarts, n frames are received, then one is lost.
        let (mut delivered, mut time, mut losses) = (0u64, 0u64, 0u64);
        while losses < 200_000 {
            let mut n = 0u64;
            while !stream.bernoulli(loss) {
                n += 1;
            }
            // The frame with number n starts when frame n - window is acknowledged, or immediately.
            let (window, round_trip) = (u64::from(window as u32), u64::from(round_trip as u32));
            let mut starts = Vec::with_capacity(n as usize + 1);
            for i in 0..=n {
                let after = if i > 0 { starts[i as usize - 1] + 1 } else { 0 };
                let acknowledged =
                    if i >= window { starts[(i - window) as usize] + round_trip } else { 0 };
                starts.push(after.max(acknowledged));
            }
            time += starts[n as usize] + recovery as u64;
            delivered += n;
            losses += 1;
        }
        let simulated = delivered as f64 / time as f64;
        let exact = link.go_back_n(window as u32).unwrap();
        // The count of frames between 200 000 losses has a relative error of at most 0.23 %, and the
        // time is correlated with it: 1.2 % is more than 5 sigma.
        assert!((simulated / exact - 1.0).abs() < 0.012, "{loss} {window}: {simulated} {exact}");
        if window == 1 {
            assert!((exact - link.stop_and_wait()).abs() < 1e-12);
        }
    }
    // Without losses, a window that is too small limits the efficiency; a sufficient one does not.
    let clean = ArqLink::new(0.0, 8.0, 9.0).unwrap();
    assert!((clean.go_back_n(2).unwrap() - 0.25).abs() < 1e-15);
    assert!((clean.selective_repeat(2).unwrap() - 0.25).abs() < 1e-15);
    assert!((clean.go_back_n(8).unwrap() - 1.0).abs() < 1e-15);
    assert!((clean.stop_and_wait() - 0.125).abs() < 1e-15);
}

/// Block codes in bursts, against the channel that the simulator uses. 5 sigma over blocks far apart.
#[test]
fn block_codes_in_bursts_follow_simulated_losses() {
    let mut stream = Streams { seed: 5, replication: 1 }.stream("blocks", "loss");
    for (n, k) in [(9, 8), (13, 12), (20, 14)] {
        let channel = law(0.05, 0.3, 0.02, 0.8);
        let block = block_codes::mds(&channel, n, k).unwrap();
        let blocks = 200_000u32;
        let (mut failed, mut lost, mut squares) = (0u32, 0.0, 0.0);
        for _ in 0..blocks {
            let mut state = usize::from(stream.bernoulli(channel.stationary()[1]));
            let (mut data, mut all) = (0u32, 0u32);
            for frame in 0..n {
                let is_lost = stream.bernoulli(channel.loss()[state]);
                all += u32::from(is_lost);
                data += u32::from(is_lost && frame < k);
                if stream.bernoulli(channel.leave()[state]) {
                    state = 1 - state;
                }
            }
            if all > n - k {
                failed += 1;
                let share = f64::from(data) / f64::from(k);
                lost += share;
                squares += share * share;
            }
        }
        let count = f64::from(blocks);
        let error = (count * block.failure * (1.0 - block.failure)).sqrt();
        let z = (f64::from(failed) - count * block.failure) / error;
        assert!(z.abs() < 5.0, "{n}, {k}: {failed} failed, {z} sigma");
        let mean = lost / count;
        let error = ((squares / count - mean * mean) / count).sqrt();
        let z = (mean - block.residual) / error;
        assert!(z.abs() < 5.0, "{n}, {k}: residual {mean}, {z} sigma");
    }
    // In bursts, the same code recovers less than with independent losses of the same rate.
    let bursts = law(0.05, 0.3, 0.02, 0.8);
    let scattered = GilbertElliottLaw::independent(bursts.loss_rate()).unwrap();
    let residual = |channel| block_codes::xor(channel, 8).unwrap().residual;
    assert!(residual(&bursts) > 1.2 * residual(&scattered));
    // Minimum number of parity frames for a target: one fewer misses it.
    let parity = block_codes::parity_for(&bursts, 12, 0.01, 40).unwrap();
    let with = |parity| block_codes::mds(&bursts, 12 + parity, 12).unwrap().residual;
    assert!(with(parity) <= 0.01 && with(parity - 1) > 0.01, "{parity}");
}

// ---- TCP ----

/// Computes the stationary distribution by brute force: many steps from window 1.
#[test]
fn the_window_law_is_stationary() {
    for (loss, window) in
        [(0.1, Some(8)), (0.01, None), (0.5, None), (0.999, Some(30)), (0.3, Some(2))]
    {
        let chain = TcpChain::new(loss, window).unwrap();
        let size = chain.stationary().len();
        let mut v = vec![0.0; size];
        v[0] = 1.0;
        for _ in 0..2000 {
            let mut next = vec![0.0; size];
            for (from, mass) in v.iter().enumerate() {
                for (to, share) in chain.transitions(from as u32 + 1).unwrap() {
                    next[to as usize - 1] += mass * share;
                }
            }
            v = next;
        }
        for (index, (a, b)) in v.iter().zip(chain.stationary()).enumerate() {
            assert!((a - b).abs() < 1e-11, "{loss}, window {}: {a} {b}", index + 1);
        }
    }
}

#[test]
fn small_losses_make_the_chain_a_square_root_law() {
    // Mean window times √loss tends to a constant near 1.31, the constant of independent losses
    // (Ott, Kemperman and Mathis 1996; here windows are whole and halved downwards).
    let scaled = |loss: f64| TcpChain::new(loss, None).unwrap().mean_window() * loss.sqrt();
    assert!((scaled(1e-6) / scaled(1e-8) - 1.0).abs() < 0.002);
    assert!((scaled(1e-8) - 1.31).abs() < 0.02, "{}", scaled(1e-8));
    // Without losses, the window stays at its maximum.
    let clean = TcpChain::new(0.0, Some(40)).unwrap();
    assert!((clean.mean_window() - 40.0).abs() < 1e-9);
    // All packets are lost.
    assert!((TcpChain::new(1.0, None).unwrap().mean_window() - 1.0).abs() < 1e-12);
}

#[test]
fn a_slotted_channel_has_the_law_of_its_chain() {
    // 1 000 000 slots; 5 standard errors, increased by the memory c of the states, (1 + c) / (1 -
    // c): false-positive rate below 1e-6 each.
    let n = 1_000_000;
    for (stay_good, stay_bad) in [(0.9, 0.9), (0.9, 0.5), (0.5, 0.5), (0.2, 0.0)] {
        let law = law(1.0 - stay_good, 1.0 - stay_bad, 0.01, 0.9);
        let [stay_good, stay_bad, loss_good, loss_bad] =
            [stay_good, stay_bad, 0.01, 0.9].map(|p| Probability::new(p).unwrap());
        let slot = Duration::from_millis(10);
        let parameters =
            SlottedGilbertElliottParameters { slot, stay_good, stay_bad, loss_good, loss_bad };
        let streams = Streams { seed: 7, replication: 0 };
        let mut process = SlottedGilbertElliott::new(parameters, &streams, "slotted").unwrap();
        // The frame lies within the slot.
        let at = |number: u64| {
            let start = Instant::from_nanos(number * slot.as_nanos() + 7);
            Airtime { start, end: start + Duration::from_nanos(400_000), bits: 336 }
        };
        let frames: Vec<(bool, bool)> =
            (0..n).map(|slot| (process.is_lost(at(slot)), process.is_bad())).collect();
        let c = law.memory();
        let inflation = (1.0 + c.abs()) / (1.0 - c.abs());
        let hold = |found: usize, p: f64| {
            let error = (p * (1.0 - p) / n as f64 * inflation).sqrt();
            let rate = found as f64 / n as f64;
            assert!((rate - p).abs() <= 5.0 * error, "{rate}, expected {p}");
        };
        hold(frames.iter().filter(|frame| frame.1).count(), law.stationary()[1]);
        hold(frames.iter().filter(|frame| frame.0).count(), law.loss_rate());
        for spacing in [1, 2, 5] {
            let [_, bad] = law.stationary();
            let spaced = law.spaced(spacing).expect("a spacing");
            let both = bad * (1.0 - spaced.leave()[1]);
            let pairs = frames.iter().zip(&frames[spacing as usize..]);
            hold(pairs.filter(|(a, b)| a.1 && b.1).count(), both);
        }
    }
}
