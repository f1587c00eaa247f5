//! Adaptive persistence: a limit of link-layer transmissions, derived from the losses of TCP and of the link.
//!
//! ```text
//!   TCP: sent, declared lost ---> p  ---+
//!                                       +--> wired loss --> alpha x --> target --> F(M) <= target
//!   link: finished, discarded --> p_w --+    1 - (1-p)/(1-p_w)                       |
//!                                                                        limit M <---+
//! ```
//!
//! The controller has no clock, input or output: it receives counts and returns a limit of transmissions.
//! Its state is the two running estimates. The inferred wired loss is exact if losses on the wired path and
//! on the link are independent. For F and its approximation, see [`ArqChain`].
//!
//! Source: F. Vacirca, A. De Vendictis, A. Baiocchi, "Investigating Interactions between ARQ
//! Mechanisms and TCP over Wireless Links", section 5.2. The paper names "classical moving
//! averages" without constants; the constants here are choices of this implementation, each a parameter.
//!
//! Limitations: the channel is known, as in the paper, and not estimated. The limit is not corrected by the
//! measured p_w, which only separates wired losses from link losses. Estimates reach the link without
//! delay.

use super::super::Batch;
use super::Inversion;
use lasthop_analysis::{AnalysisError, ArqChain, GilbertElliottLaw};

/// Constants of adaptive persistence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PersistenceParameters {
    /// Residual loss of the link, as a fraction of the wired loss.
    pub alpha: f64,
    /// Weight of the latest packet in both estimates, from 0 to 1.
    pub weight: f64,
    /// End-to-end loss before the first packet, from 0 to 1.
    pub initial_loss: f64,
    /// Loss of the link before the first packet, from 0 to 1.
    pub initial_link_loss: f64,
    /// Minimum and maximum of the inferred wired loss, from 0 to 1.
    pub wired_loss: [f64; 2],
    /// Maximum limit, at least 1; the minimum is 1.
    pub max_transmissions: u32,
    /// Method of converting a loss rate to a limit.
    pub inversion: Inversion,
    /// The channel; steps once per frame.
    pub channel: GilbertElliottLaw,
    /// Number of PDUs per packet.
    pub pdus: u32,
    /// Frames from one transmission of a PDU to the next.
    pub spacing: u32,
}

/// An exponentially weighted mean of loss indicators.
#[derive(Clone, Copy, Debug)]
struct LossEstimate {
    mean: f64,
    /// Losses in excess of the packets of their batch: a loss is declared some time after its
    /// packet.
    carried: u64,
}

impl LossEstimate {
    /// Adds a batch: m <- (1-w) m + w x for each packet, with x = lost / packets for all of them.
    /// The result is m (1-w)^n + x (1 - (1-w)^n).
    fn add(&mut self, batch: Batch, weight: f64) {
        if batch.packets == 0 {
            self.carried = self.carried.saturating_add(batch.lost);
            return;
        }
        let lost = batch.lost.saturating_add(self.carried);
        let counted = lost.min(batch.packets);
        self.carried = lost - counted;
        let share = counted as f64 / batch.packets as f64;
        let kept = (1.0 - weight).powf(batch.packets as f64);
        self.mean = (self.mean * kept + share * (1.0 - kept)).clamp(0.0, 1.0);
    }
}

/// Controller of the transmission limit.
#[derive(Clone, Debug)]
pub struct PersistenceController {
    parameters: PersistenceParameters,
    /// Packet loss under the limits 1, 2, ..., non-increasing.
    losses: Vec<f64>,
    end_to_end: LossEstimate,
    link: LossEstimate,
    limit: u32,
}

fn checked(name: &'static str, value: f64) -> Result<f64, AnalysisError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(value);
    }
    let allowed = "a number from 0 to 1".to_owned();
    Err(AnalysisError { argument: name, found: value.to_string(), allowed })
}

impl PersistenceController {
    /// Creates a controller whose limit follows from the initial estimates.
    ///
    /// # Errors
    /// If a fraction is not from 0 to 1, if the bounds of the wired loss are in the wrong order, or
    /// if the chain rejects the numbers of PDUs, frames or transmissions.
    pub fn new(parameters: PersistenceParameters) -> Result<Self, AnalysisError> {
        let [least, greatest] = parameters.wired_loss;
        for (name, value) in [
            ("alpha", parameters.alpha),
            ("weight", parameters.weight),
            ("initial_loss", parameters.initial_loss),
            ("initial_link_loss", parameters.initial_link_loss),
            ("wired_loss", least),
            ("wired_loss", greatest),
        ] {
            checked(name, value)?;
        }
        if least > greatest {
            return Err(AnalysisError {
                argument: "wired_loss",
                found: format!("{least} to {greatest}"),
                allowed: "a minimum of at most the maximum".to_owned(),
            });
        }
        if parameters.max_transmissions == 0 {
            return Err(AnalysisError {
                argument: "max_transmissions",
                found: "0".to_owned(),
                allowed: "a whole number, at least 1".to_owned(),
            });
        }
        let chain = ArqChain::new(parameters.channel, parameters.pdus, parameters.spacing)?;
        let losses = match parameters.inversion {
            Inversion::Exact => {
                let mut table = chain.residual_loss_table(parameters.max_transmissions)?;
                table.remove(0);
                table
            }
            Inversion::Eigenvalue => (1..=parameters.max_transmissions)
                .map(|limit| chain.approximate_residual_loss(limit))
                .collect::<Result<_, _>>()?,
        };
        let estimate = |mean| LossEstimate { mean, carried: 0 };
        let mut controller = PersistenceController {
            losses,
            end_to_end: estimate(parameters.initial_loss),
            link: estimate(parameters.initial_link_loss),
            limit: 1,
            parameters,
        };
        controller.limit = controller.limit_for(controller.target());
        Ok(controller)
    }

    /// Adds the counts of TCP and the link since the last call, and returns the new limit, in
    /// transmissions. `end_to_end`: first transmissions of segments, and segments declared lost.
    /// `link`: finished packets of the link, and discarded ones among them.
    pub fn update(&mut self, end_to_end: Batch, link: Batch) -> u32 {
        self.end_to_end.add(end_to_end, self.parameters.weight);
        self.link.add(link, self.parameters.weight);
        self.limit = self.limit_for(self.target());
        self.limit
    }

    /// Returns the current limit, in transmissions.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns the estimate of the end-to-end loss, p.
    pub fn end_to_end_loss(&self) -> f64 {
        self.end_to_end.mean
    }

    /// Returns the estimate of the loss of the link, p_w.
    pub fn link_loss(&self) -> f64 {
        self.link.mean
    }

    /// Returns the wired loss 1 - (1-p)/(1-p_w) within its bounds.
    pub fn wired_loss(&self) -> f64 {
        let [least, greatest] = self.parameters.wired_loss;
        let (p, link) = (self.end_to_end.mean, self.link.mean);
        // If the link loses every packet, the wired loss cannot be inferred.
        if link < 1.0 { ((p - link) / (1.0 - link)).clamp(least, greatest) } else { least }
    }

    /// Returns the target residual loss of the link.
    pub fn target(&self) -> f64 {
        self.parameters.alpha * self.wired_loss()
    }

    /// Returns the smallest limit with a loss of at most `target`, or the maximum limit.
    fn limit_for(&self, target: f64) -> u32 {
        let above = self.losses.partition_point(|&loss| loss > target) as u32;
        (above + 1).min(self.parameters.max_transmissions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;
    use proptest::prelude::*;

    fn paper(stay_bad: f64, inversion: Inversion) -> PersistenceParameters {
        PersistenceParameters {
            alpha: 0.1,
            weight: 1.0 / 256.0,
            initial_loss: 0.01,
            initial_link_loss: 0.0,
            wired_loss: [1e-5, 0.5],
            max_transmissions: 100,
            inversion,
            channel: GilbertElliottLaw::new(0.1, 1.0 - stay_bad, 0.01, 0.9).unwrap(),
            pdus: 25,
            spacing: 1,
        }
    }

    fn controller(parameters: PersistenceParameters) -> PersistenceController {
        PersistenceController::new(parameters).unwrap()
    }

    #[test]
    fn limits_are_those_of_the_table_of_the_reference() {
        // b; limits for targets 1e-2, 1e-3, 1e-4 by equation (4) and by the chain.
        let table = [
            (0.5, [6, 9, 12], [6, 9, 13]),
            (0.7, [10, 15, 20], [11, 17, 23]),
            (0.8, [13, 20, 27], [17, 27, 35]),
            (0.9, [21, 32, 43], [33, 45, 57]),
            (0.95, [29, 44, 58], [48, 63, 78]),
        ];
        for (b, eigenvalue, exact) in table {
            for (inversion, limits) in
                [(Inversion::Eigenvalue, eigenvalue), (Inversion::Exact, exact)]
            {
                let controller = controller(paper(b, inversion));
                let found = [1e-2, 1e-3, 1e-4].map(|target| controller.limit_for(target));
                assert_eq!(found, limits, "b = {b}, {inversion:?}");
            }
        }
    }

    #[test]
    fn limits_are_those_that_theory_searches_for() {
        for (b, spacing) in [(0.5, 1), (0.9, 1), (0.9, 3), (0.95, 2)] {
            let set = PersistenceParameters { spacing, ..paper(b, Inversion::Exact) };
            let chain = ArqChain::new(set.channel, 25, spacing).unwrap();
            let exact = controller(set);
            let eigenvalue =
                controller(PersistenceParameters { inversion: Inversion::Eigenvalue, ..set });
            for step in 1..60 {
                let target = 0.9 * 0.87_f64.powi(step);
                assert_eq!(exact.limit_for(target), chain.limit_for(target).unwrap());
                let searched = chain.limit_for_approximate(target).unwrap();
                assert_eq!(eigenvalue.limit_for(target), searched, "{target}");
            }
        }
    }

    #[test]
    fn before_anything_is_seen_the_limit_is_that_of_the_initial_loss() {
        assert_eq!(controller(paper(0.9, Inversion::Exact)).limit(), 45);
        assert_eq!(controller(paper(0.9, Inversion::Eigenvalue)).limit(), 32);
    }

    #[test]
    fn independent_losses_on_wire_and_link_are_told_apart() {
        for (wired, link) in [(0.01, 0.0), (0.01, 0.02), (0.1, 0.3), (0.4, 0.9), (1e-4, 0.05)] {
            let p = 1.0 - (1.0 - wired) * (1.0 - link);
            let set = PersistenceParameters {
                initial_loss: p,
                initial_link_loss: link,
                ..paper(0.9, Inversion::Exact)
            };
            let controller = controller(set);
            assert!((controller.wired_loss() - wired).abs() < 1e-12, "{wired} {link}");
            assert!((controller.target() - 0.1 * wired).abs() < 1e-13);
        }
    }

    #[test]
    fn the_wired_loss_and_the_limit_stay_within_their_bounds() {
        let with = |p, link| {
            let (initial_loss, initial_link_loss) = (p, link);
            let set = paper(0.9, Inversion::Exact);
            controller(PersistenceParameters { initial_loss, initial_link_loss, ..set })
        };
        // The link appears to lose more than the total; every packet is lost; and both.
        assert_eq!(with(0.0, 0.5).wired_loss(), 1e-5);
        assert_eq!(with(1.0, 0.0).wired_loss(), 0.5);
        assert_eq!(with(1.0, 1.0).wired_loss(), 1e-5);
        let set = PersistenceParameters { max_transmissions: 7, ..paper(0.9, Inversion::Exact) };
        assert_eq!(controller(set).limit(), 7);
        let set = PersistenceParameters { alpha: 0.0, ..paper(0.9, Inversion::Exact) };
        assert_eq!(controller(set).limit(), 100);
        let easy = GilbertElliottLaw::independent(0.0).unwrap();
        for inversion in [Inversion::Exact, Inversion::Eigenvalue] {
            let set = PersistenceParameters { channel: easy, ..paper(0.9, inversion) };
            assert_eq!(controller(set).limit(), 1);
        }
    }

    #[test]
    fn a_batch_is_the_recursion_with_its_mean_for_every_packet() {
        let mut batched = controller(paper(0.9, Inversion::Exact));
        batched.update(Batch { packets: 40, lost: 10 }, Batch { packets: 7, lost: 0 });
        let (mut p, mut link) = (0.01, 0.0);
        for _ in 0..40 {
            p += (0.25 - p) / 256.0;
        }
        for _ in 0..7 {
            link -= link / 256.0;
        }
        assert!((batched.end_to_end_loss() - p).abs() < 1e-14);
        assert_eq!(batched.link_loss(), link);
    }

    #[test]
    fn a_loss_that_is_declared_late_is_not_forgotten() {
        let (mut late, mut direct) = {
            let one = controller(paper(0.9, Inversion::Exact));
            (one.clone(), one)
        };
        let none = Batch::default();
        late.update(Batch { packets: 0, lost: 3 }, none);
        late.update(Batch { packets: 2, lost: 0 }, none);
        late.update(Batch { packets: 1, lost: 0 }, none);
        direct.update(Batch { packets: 2, lost: 2 }, none);
        direct.update(Batch { packets: 1, lost: 1 }, none);
        assert_eq!(late.end_to_end_loss(), direct.end_to_end_loss());
    }

    #[test]
    fn estimates_of_steady_losses_have_the_right_mean_and_spread() {
        // Batches of n = 100, W = 1 - (1-w)^n: variance p(1-p)/n W/(2-W), correlation (1-W)^k over
        // k batches. The mean over N batches has variance p(1-p)/(nN), except for its ends. Bounds
        // are 4.5 standard deviations: a false-positive rate of 7e-6 for each of the four means.
        // The variance is averaged over 40 000 batches, effectively N W/2 = 6500 independent ones.
        // Their squared deviations (skewed: kurtosis below 5) give a relative deviation below
        // 0.025; 4.5 of them are 0.11.
        let (wired, link, n, batches) = (0.01, 0.02, 100, 40_000);
        let mut stream = Streams { seed: 11, replication: 0 }.stream("persistence", "test");
        let mut one = controller(paper(0.9, Inversion::Exact));
        let (mut sums, mut squares) = ([0.0; 2], [0.0; 2]);
        let p = 1.0 - (1.0 - wired) * (1.0 - link);
        for batch in 0..batches + 50 {
            let mut lost = [0; 2];
            for _ in 0..n {
                let on_link = stream.bernoulli(link);
                let on_wire = stream.bernoulli(wired);
                lost[0] += u64::from(on_link || on_wire);
                lost[1] += u64::from(on_link);
            }
            let [all, on_link] = lost.map(|lost| Batch { packets: n, lost });
            one.update(all, on_link);
            if batch < 50 {
                continue;
            }
            for (index, (found, mean)) in
                [(one.end_to_end_loss(), p), (one.link_loss(), link)].into_iter().enumerate()
            {
                sums[index] += found - mean;
                squares[index] += (found - mean).powi(2);
            }
        }
        let total = 1.0 - (1.0 - 1.0 / 256.0_f64).powi(n as i32);
        for (index, mean) in [p, link].into_iter().enumerate() {
            let variance = mean * (1.0 - mean);
            let deviation = (variance / (n as f64 * batches as f64)).sqrt();
            let error = sums[index] / batches as f64;
            assert!(error.abs() < 4.5 * deviation, "{index}: {error}");
            let expected = variance / n as f64 * total / (2.0 - total);
            let ratio = squares[index] / batches as f64 / expected;
            assert!((ratio - 1.0).abs() < 0.11, "{index}: {ratio}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = paper(0.9, Inversion::Exact);
        for bad in [
            PersistenceParameters { alpha: f64::NAN, ..good },
            PersistenceParameters { weight: 1.5, ..good },
            PersistenceParameters { initial_loss: -0.1, ..good },
            PersistenceParameters { wired_loss: [0.5, 0.1], ..good },
            PersistenceParameters { max_transmissions: 0, ..good },
            PersistenceParameters { pdus: 0, ..good },
            PersistenceParameters { spacing: 0, ..good },
        ] {
            assert!(PersistenceController::new(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn it_never_leaves_its_range(
            (alpha, weight, initial) in (0.0..=1.0, 0.0..=1.0, (0.0..=1.0, 0.0..=1.0)),
            (leave_good, leave_bad) in (0.01..=1.0, 0.0..=1.0),
            (loss_good, loss_bad) in (0.0..=1.0, 0.0..=1.0),
            (pdus, spacing, most) in (1u32..30, 1u32..5, 1u32..120),
            is_exact: bool,
            batches in prop::collection::vec((0u64..300, 0u64..400, 0u64..300, 0u64..400), 1..40),
            huge: bool,
        ) {
            let set = PersistenceParameters {
                alpha,
                weight,
                initial_loss: initial.0,
                initial_link_loss: initial.1,
                wired_loss: [1e-5, 0.5],
                max_transmissions: most,
                inversion: if is_exact { Inversion::Exact } else { Inversion::Eigenvalue },
                channel: GilbertElliottLaw::new(leave_good, leave_bad, loss_good, loss_bad).unwrap(),
                pdus,
                spacing,
            };
            let mut one = controller(set);
            for (index, (n, k, m, j)) in batches.into_iter().enumerate() {
                let packets = if huge && index == 0 { u64::MAX } else { n };
                let limit = one.update(Batch { packets, lost: k }, Batch { packets: m, lost: j });
                prop_assert_eq!(limit, one.limit());
                prop_assert!((1..=most).contains(&limit));
                prop_assert!((0.0..=1.0).contains(&one.end_to_end_loss()));
                prop_assert!((0.0..=1.0).contains(&one.link_loss()));
                prop_assert!((1e-5..=0.5).contains(&one.wired_loss()));
            }
        }
    }
}
