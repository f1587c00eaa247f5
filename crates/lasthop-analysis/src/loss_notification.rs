//! Explicit loss notification: rate, delay and failure probability of notifications.
//!
//! A slotted link makes one attempt per slot. Each attempt fails with probability p; a frame is discarded
//! after l attempts. LL-ELSN sends an ERSN when the first attempt of a frame has failed, and an ELN when
//! the frame is discarded.
//!
//! - (1) mean time on the wireless link without a limit: T / (1 - P)
//! - (3) mean number of attempts of a delivered frame: E(l) = Σ i p^(i-1) (1 - p) / (1 - p^l)
//! - (2) slots between notifications, as printed:
//!   ERSN E(l) (1 - p^(l-1)) + (l - 1) p^(l-1) + 1/p;  ELN E(l) (1/p^l - 1) + l
//! - (4) load, as a fraction of the rate of the link: (L / P) / I, with notifications of L bits and frames
//!   of P bits
//!
//! The ERSN form is exact with E(l - 1) instead of E(l), as l - 1 attempts remain after the first failure:
//! I = (1 - p^(l-1)) / (1 - p) + 1/p. The ELN form is (1 - p^l) / ((1 - p) p^l).
//!
//! Source: J.-H. Yun, "Cross-layer explicit link status notification to improve TCP performance in wireless
//! networks", EURASIP JWCN 2009, 617818: equations (1) to (4), table 1, figure 3, section 4.2. Equation (5) is
//! Jain's index, which is part of the results.
//!
//! Limitations: notifications lost on the wired path and fragmented frames are not modelled.

use super::{AnalysisError, Result, count, not_negative, positive, probability};

/// Form of equation (2) for ERSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is printed.
    Printed,
    /// With the attempts that remain after the first failure.
    Exact,
}

/// Method of detecting losses on the wireless link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Balakrishnan's ELN: the base station compares sequence numbers.
    Balakrishnan,
    /// HACK, EWLN and TCP-ELN: the receiver reads the header of a packet with errors.
    Header,
    /// LHP: the receiver has received the first fragment.
    Fragment,
    /// LL-ELSN: the link layer sends notifications.
    LinkLayer,
}

/// Mean delays of table 1, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathDelays {
    /// A data packet on the wireless link, all attempts included.
    pub data: f64,
    /// An acknowledgment on the wireless link, all attempts included.
    pub ack: f64,
    /// One way on the wired path, from the base station to the other end.
    pub wire: f64,
}

/// Checks a failure probability, which must be below 1.
fn failure(argument: &'static str, p: f64) -> Result<f64> {
    let p = probability(argument, p)?;
    if p < 1.0 {
        return Ok(p);
    }
    Err(AnalysisError::new(argument, p, "a probability below 1"))
}

/// Checks a retry limit, in attempts.
fn limit(attempts: u32) -> Result<i32> {
    Ok(count("limit", attempts, 1..=1_000)? as i32)
}

/// Returns the mean time on the wireless link if an attempt takes `attempt` seconds and fails with
/// probability `fails`: equation (1).
///
/// # Errors
/// If the time is not positive or every attempt fails.
pub fn time_over_air(attempt: f64, fails: f64) -> Result<f64> {
    Ok(positive("attempt", attempt, "seconds")? / (1.0 - failure("fails", fails)?))
}

/// Returns the mean number of attempts of a frame that is delivered within `attempts`: equation
/// (3).
///
/// # Errors
/// If every attempt fails or `attempts` is 0.
pub fn attempts_of_success(p: f64, attempts: u32) -> Result<f64> {
    let (p, l) = (failure("p", p)?, limit(attempts)?);
    let sum: f64 = (1..=l).map(|i| f64::from(i) * p.powi(i - 1)).sum();
    Ok(sum * (1.0 - p) / (1.0 - p.powi(l)))
}

/// Returns the mean number of slots between ERSNs: equation (2); infinite if frames are never
/// retransmitted.
///
/// # Errors
/// As for [`attempts_of_success`].
pub fn ersn_interval(p: f64, attempts: u32, form: Form) -> Result<f64> {
    let (p, l) = (failure("p", p)?, limit(attempts)?);
    if l == 1 || p == 0.0 {
        return Ok(f64::INFINITY);
    }
    let left = p.powi(l - 1);
    Ok(match form {
        Form::Exact => (1.0 - left) / (1.0 - p) + 1.0 / p,
        Form::Printed => {
            let mean = attempts_of_success(p, attempts)?;
            mean * (1.0 - left) + f64::from(l - 1) * left + 1.0 / p
        }
    })
}

/// Returns the mean number of slots between ELNs: equation (2), which is exact; infinite if frames
/// are never discarded.
///
/// # Errors
/// As for [`attempts_of_success`].
pub fn eln_interval(p: f64, attempts: u32) -> Result<f64> {
    let (p, l) = (failure("p", p)?, limit(attempts)?);
    let lost = p.powi(l);
    Ok(if lost == 0.0 { f64::INFINITY } else { (1.0 - lost) / ((1.0 - p) * lost) })
}

/// Returns the rate of notifications as a fraction of the rate of the link, for notifications with
/// `ratio` times the length of a frame: equation (4).
///
/// # Errors
/// If the interval or the ratio is not positive.
pub fn load(interval: f64, ratio: f64) -> Result<f64> {
    let ratio = positive("ratio", ratio, "frames")?;
    if interval > 0.0 {
        Ok(ratio / interval)
    } else {
        Err(AnalysisError::new("interval", interval, "slots above 0"))
    }
}

/// Returns the delay in seconds from the loss of a packet on the wireless link to the notification
/// of its TCP sender: table 1. `uplink`: the sender is the wireless station.
///
/// # Errors
/// If a time is negative.
pub fn delay(scheme: Scheme, delays: &PathDelays, uplink: bool) -> Result<f64> {
    let data = not_negative("data", delays.data, "seconds")?;
    let ack = not_negative("ack", delays.ack, "seconds")?;
    let wire = not_negative("wire", delays.wire, "seconds")?;
    let wires = if uplink { 2.0 * wire } else { wire };
    Ok(match scheme {
        Scheme::Balakrishnan => data + ack + wires,
        Scheme::Header | Scheme::Fragment => ack + wires,
        Scheme::LinkLayer if uplink => 0.0,
        Scheme::LinkLayer => wire,
    })
}

/// Returns the probability that a loss is not detected. Header schemes fail if one of the
/// `header_bits` is wrong at a bit error rate of `ber`. LHP fails if the first fragment, lost with
/// probability `fragment_loss`, is lost in all `attempts`.
///
/// # Errors
/// If an argument is not a probability.
pub fn detection_failure(
    scheme: Scheme,
    ber: f64,
    header_bits: u32,
    fragment_loss: f64,
    attempts: u32,
) -> Result<f64> {
    let (ber, lost) = (probability("ber", ber)?, probability("fragment_loss", fragment_loss)?);
    let l = limit(attempts)?;
    Ok(match scheme {
        Scheme::Balakrishnan | Scheme::LinkLayer => 0.0,
        Scheme::Header => -(f64::from(header_bits) * (-ber).ln_1p()).exp_m1(),
        Scheme::Fragment => lost.powi(l),
    })
}

/// Returns the maximum number of consecutive packets whose loss is attributed to noise: the largest
/// N with p^(l N) of at least `level` (section 4.2).
///
/// # Errors
/// If an argument is not a probability, or the level is 0.
pub fn losses_in_a_row(p: f64, attempts: u32, level: f64) -> Result<u32> {
    let (p, l) = (failure("p", p)?, limit(attempts)?);
    let level = probability("level", level)?;
    if level == 0.0 {
        return Err(AnalysisError::new("level", level, "a probability above 0"));
    }
    if p == 0.0 || level == 1.0 {
        return Ok(0);
    }
    // The margin prevents rounding from reducing N if p^(l N) equals the level.
    Ok((level.ln() / (f64::from(l) * p.ln()) + 1e-9).floor() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    fn close(found: Result<f64>, expected: f64, digits: f64) {
        let found = found.expect("an answer");
        assert!((found - expected).abs() < 0.51 * digits, "{found}, expected {expected}");
    }

    /// Load in percent at L / P = 0.2, computed from the equations by hand; four digits.
    #[test]
    fn figure_3() {
        for (p, printed, exact, eln) in [
            (
                0.1,
                [1.805, 1.799, 1.800, 1.800],
                [1.818, 1.802, 1.800, 1.800],
                [2.00, 0.182, 0.018, 0.0018],
            ),
            (
                0.3,
                [4.450, 4.222, 4.191, 4.198],
                [4.615, 4.317, 4.234, 4.201],
                [6.00, 1.385, 0.388, 0.114],
            ),
            (
                0.5,
                [6.316, 5.437, 5.139, 4.990],
                [6.667, 5.714, 5.333, 5.039],
                [10.0, 3.333, 1.429, 0.667],
            ),
        ] {
            for (place, limit) in [2, 3, 4, 7].into_iter().enumerate() {
                let of = |form| load(ersn_interval(p, limit, form)?, 0.2).map(|load| 100.0 * load);
                close(of(Form::Printed), printed[place], 1e-3);
                close(of(Form::Exact), exact[place], 1e-3);
                let limit = place as u32 + 1;
                let eln_load = load(eln_interval(p, limit).expect("an interval"), 20.0);
                close(eln_load, eln[place], 1e-3);
            }
        }
    }

    #[test]
    fn equation_3_and_both_forms_of_the_eln_interval() {
        for (p, limit, mean) in
            [(0.1, 2, 1.0909), (0.3, 3, 1.3453), (0.5, 4, 1.7333), (0.5, 1, 1.0)]
        {
            close(attempts_of_success(p, limit), mean, 1e-4);
            let printed = mean * (1.0 / p.powi(limit as i32) - 1.0) + f64::from(limit);
            close(eln_interval(p, limit), printed, 0.01);
        }
        assert_eq!(ersn_interval(0.2, 1, Form::Exact), Ok(f64::INFINITY));
        assert_eq!(eln_interval(0.0, 3), Ok(f64::INFINITY));
    }

    /// A slotted link of a million slots: the mean distance of notifications is within 5 standard
    /// errors of the sample.
    #[test]
    fn the_exact_intervals_are_those_of_a_slotted_link() {
        for (p, l) in [(0.2, 2), (0.5, 2), (0.3, 4)] {
            let mut stream = Streams { seed: 3, replication: 0 }.stream("slotted link", "losses");
            let (mut attempt, mut last) = (0, [0u64; 2]);
            let mut gaps: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
            for slot in 1..=1_000_000u64 {
                attempt += 1;
                let lost = stream.bernoulli(p);
                for (kind, is_sent) in
                    [(0, lost && attempt == 1 && l > 1), (1, lost && attempt == l)]
                {
                    if is_sent {
                        gaps[kind].push((slot - last[kind]) as f64);
                        last[kind] = slot;
                    }
                }
                if !lost || attempt == l {
                    attempt = 0;
                }
            }
            let theory = [ersn_interval(p, l, Form::Exact), eln_interval(p, l)];
            for (gaps, theory) in gaps.iter().zip(theory) {
                let n = gaps.len() as f64;
                let mean = gaps.iter().sum::<f64>() / n;
                let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / (n - 1.0);
                let error = 5.0 * (variance / n).sqrt();
                assert!((mean - theory.expect("an interval")).abs() < error, "{p} {l}: {mean}");
            }
        }
    }

    /// 20 ms on the wire, attempts of 1.53 and 0.80 ms, 5 % of them lost.
    #[test]
    fn table_1() {
        let over = |attempt| time_over_air(attempt, 0.05).expect("a time");
        let delays = PathDelays { data: over(1.53e-3), ack: over(0.80e-3), wire: 20e-3 };
        for (scheme, down, up) in [
            (Scheme::Balakrishnan, 22.45, 42.45),
            (Scheme::Header, 20.84, 40.84),
            (Scheme::Fragment, 20.84, 40.84),
            (Scheme::LinkLayer, 20.0, 0.0),
        ] {
            close(delay(scheme, &delays, false).map(|s| 1e3 * s), down, 0.01);
            close(delay(scheme, &delays, true).map(|s| 1e3 * s), up, 0.01);
        }
        close(detection_failure(Scheme::Header, 1.18e-6, 544, 0.0, 1), 6.42e-4, 1e-6);
        close(detection_failure(Scheme::Fragment, 0.0, 0, 0.1, 3), 1e-3, 1e-9);
        close(detection_failure(Scheme::LinkLayer, 0.1, 544, 0.1, 1), 0.0, 1e-9);
    }

    #[test]
    fn noise_loses_two_in_a_row_at_most() {
        // 4 % and 0.8 %: section 4.2 chooses 2.
        assert_eq!(losses_in_a_row(0.2, 1, 0.01), Ok(2));
        assert_eq!(losses_in_a_row(0.2, 1, 0.04), Ok(2));
        assert_eq!(losses_in_a_row(0.2, 2, 0.01), Ok(1));
        assert!(losses_in_a_row(0.2, 1, 0.0).is_err());
    }
}
