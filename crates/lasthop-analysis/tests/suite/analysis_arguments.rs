//! The analytic models with random and extreme arguments return meaningful results or errors.

use lasthop_analysis::arq_efficiency::{ArqLink, rlp_residual_loss};
use lasthop_analysis::ideal_sr::IdealSr;
use lasthop_analysis::tcp_chain::TcpChain;
use lasthop_analysis::tcp_formulas::{LossSpacing, TcpPath};
use lasthop_analysis::{
    AnalysisError, ArqChain, GilbertElliottLaw, Restart, TransitionForm, block_codes,
};
use lasthop_base::rng::Streams;
use proptest::prelude::*;

/// Probabilities, including 0, 1 and their neighbours, and values that are not probabilities.
fn any_probability() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..=1.0f64,
        2 => prop_oneof![Just(0.0), Just(1.0), Just(f64::MIN_POSITIVE), Just(1e-300), Just(1e-17),
                         Just(1.0 - f64::EPSILON), Just(0.5)],
        1 => any::<f64>(),
    ]
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 1e-6..1e6f64, 1 => any::<f64>(), 1 => Just(f64::INFINITY), 1 => Just(0.0)]
}

fn any_channel() -> impl Strategy<Value = Result<GilbertElliottLaw, AnalysisError>> {
    (any_probability(), any_probability(), any_probability(), any_probability())
        .prop_map(|(p, r, good, bad)| GilbertElliottLaw::new(p, r, good, bad))
}

fn is_probability(p: f64) -> bool {
    (0.0..=1.0).contains(&p)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn chains_of_any_channel_make_sense(
        channel in any_channel(), pdus in 0u32..40, spacing in prop_oneof![1u32..9, any::<u32>()],
        limit in 0u32..60, target in any_probability(), quantile in any_probability(),
    ) {
        let Ok(channel) = channel else { return Ok(()) };
        let Ok(chain) = ArqChain::new(channel, pdus, spacing) else { return Ok(()) };
        let losses: Vec<f64> = chain.residual_losses().take(40).collect();
        prop_assert!(losses.iter().all(|f| is_probability(*f)));
        // Non-increasing, except for rounding.
        prop_assert!(losses.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)));
        prop_assert!(is_probability(chain.dominant_eigenvalue()));
        for (a, b) in losses.iter().zip(chain.residual_losses_by(TransitionForm::Left)) {
            prop_assert!((a - b).abs() < 1e-12);
        }
        let mean = chain.mean_attempts();
        if let Ok(mean) = mean {
            prop_assert!(mean >= 1.0 - 1e-12, "{}", mean);
        }
        if let Ok(limited) = chain.mean_attempts_limited(limit) {
            prop_assert!(limited >= 1.0 && limited <= f64::from(limit));
            if let Ok(mean) = chain.mean_attempts() {
                prop_assert!(limited <= mean * (1.0 + 1e-9));
            }
        }
        if let Ok(mean) = chain.mean_attempts_of_delivered(limit) {
            prop_assert!(mean >= 1.0 && mean <= f64::from(limit));
        }
        for restart in [Restart::Stationary, Restart::After(1), Restart::After(spacing)] {
            if let Ok(cost) = chain.transmissions_per_delivered_pdu(limit, restart) {
                prop_assert!(cost >= 1.0 - 1e-9, "{:?} {}", restart, cost);
            }
        }
        let _ = chain.approximate_residual_loss(limit).map(|f| assert!(is_probability(f)));
        let _ = chain.limit_for_approximate(target);
        // Searches may be long if transitions are rare: only short ones are tested here.
        if losses[39] <= target && is_probability(target) && target > 0.0 {
            let limit = chain.limit_for(target).unwrap();
            prop_assert!(losses[limit as usize] <= target);
            prop_assert!(limit == 1 || losses[limit as usize - 1] > target);
        }
        if let Ok(n) = chain.attempts_quantile(quantile, Some(limit)) {
            prop_assert!(n >= 1 && n <= limit);
        }
    }

    #[test]
    fn statistics_of_any_channel_make_sense(
        channel in any_channel(), frames in 0u32..60, k in 0u32..60, longest in 0u32..50,
        distance in any::<u32>(),
    ) {
        let Ok(channel) = channel else { return Ok(()) };
        prop_assert!(is_probability(channel.loss_rate()));
        if let Ok(law) = channel.losses_among(frames) {
            prop_assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mean: f64 = law.iter().enumerate().map(|(n, p)| n as f64 * p).sum();
            prop_assert!((mean - f64::from(frames) * channel.loss_rate()).abs() < 1e-9);
        }
        for lost in [true, false] {
            if let Ok(lengths) = channel.run_lengths(lost, longest) {
                prop_assert!(lengths.iter().sum::<f64>() < 1.0 + 1e-9);
                prop_assert!(channel.mean_run(lost).unwrap() >= 1.0 - 1e-9);
            }
        }
        if let Ok(correlation) = channel.loss_correlation(distance) {
            prop_assert!((-1.0 - 1e-9..=1.0 + 1e-9).contains(&correlation));
        }
        if let Ok(block) = block_codes::mds(&channel, frames, k) {
            prop_assert!(is_probability(block.residual) && is_probability(block.failure));
            prop_assert!(block.residual <= channel.loss_rate() * (1.0 + 1e-9) + 1e-300);
        }
    }

    #[test]
    fn formulas_of_any_arguments_make_sense(
        loss in any_probability(), control in any_probability(), round_trip in any_number(),
        timeout in any_number(), ack in any::<u32>(), window in any_number(),
        frames in any::<u32>(),
    ) {
        let _ = rlp_residual_loss(loss, control, frames % 2000).map(|r| assert!(is_probability(r)));
        if let Ok(link) = ArqLink::new(loss, round_trip, timeout) {
            let all = [
                Ok(link.stop_and_wait()), link.go_back_n(frames), link.selective_repeat(frames),
            ];
            for efficiency in all.into_iter().flatten() {
                prop_assert!(is_probability(efficiency), "{}", efficiency);
            }
        }
        if let Ok(path) = TcpPath::new(loss, round_trip, timeout, ack % 4, window) {
            let most = window / round_trip * (1.0 + 1e-9);
            for rate in [
                path.mathis(LossSpacing::Regular),
                path.mathis(LossSpacing::Independent),
                path.padhye_simplified(),
                path.padhye(),
            ] {
                prop_assert!(rate >= 0.0, "{}", rate);
                prop_assert!(rate <= most, "{} > {}", rate, most);
            }
        }
    }

    #[test]
    fn windows_of_any_loss_make_sense(
        loss in any_probability(), window in prop_oneof![Just(None), (0u32..3000).prop_map(Some)],
        capacity in any_number(), round_trip in any_number(),
    ) {
        // A distribution of a hundred thousand windows takes a second; it is tested once, above.
        if loss < 1e-6 && window.is_none() {
            return Ok(());
        }
        let Ok(chain) = TcpChain::new(loss, window) else { return Ok(()) };
        prop_assert!((chain.stationary().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!(chain.stationary().iter().all(|p| is_probability(*p)));
        if let Ok(rate) = chain.throughput(capacity, round_trip) {
            prop_assert!(rate >= 0.0 && rate <= capacity * (1.0 + 1e-9));
        }
    }

    #[test]
    fn ideal_links_end_and_count_right(
        channel in any_channel(), pdus in 0u32..12, spacing in 0u32..6,
        limit in prop_oneof![Just(None), (0u32..6).prop_map(Some)],
        capacity in prop_oneof![Just(None), (0u32..20).prop_map(Some)],
    ) {
        let Ok(channel) = channel else { return Ok(()) };
        let link = IdealSr { channel, pdus, spacing, limit, capacity };
        let streams = Streams { seed: 1, replication: 0 };
        let is_endless = limit.is_none() && ArqChain::new(channel, 1, spacing.max(1)).is_ok_and(
            |chain| !chain.mean_attempts().is_ok_and(|mean| mean < 100.0));
        if is_endless {
            return Ok(());
        }
        if let Ok(counts) = link.run_isolated(20, 5, &streams, "any") {
            prop_assert_eq!(counts.delivered + counts.given_up, 20);
            prop_assert!(counts.arrivals >= counts.delivered * u64::from(pdus));
            prop_assert!(counts.transmissions >= counts.arrivals);
            prop_assert_eq!(counts.delays.iter().sum::<u64>(), counts.delivered);
            if let Some(limit) = limit {
                prop_assert!(counts.transmissions <= 20 * u64::from(pdus) * u64::from(limit));
            }
        }
        if let Ok(counts) = link.run_saturated(50, &streams, "any") {
            prop_assert_eq!(counts.frames, 50);
            prop_assert_eq!(counts.transmissions, 50 * u64::from(capacity.unwrap_or(0)));
        }
    }
}
