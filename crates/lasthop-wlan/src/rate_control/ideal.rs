//! Ideal rate control: the fastest mode whose bit error rate is at most 1e-6 at the SNR of the last PPDU that was
//! received, as if its response reported the SNR.
//!
//! Source: ns-3.44, `IdealWifiManager`, whose default of `BerThreshold` is 1e-6. Before the first response, it is
//! the slowest mode.

use crate::phy::{ErrorCurve, Mode};

/// Maximum bit error rate of a mode.
pub const MAX_BER: f64 = 1e-6;

/// State of the rate control of one direction.
#[derive(Clone, Debug)]
pub struct Ideal {
    /// Minimum SNR of each mode in dB, and its rate in bits per second.
    modes: Vec<(f64, u64)>,
    chosen: usize,
}

impl Ideal {
    /// Creates the rate control for at least one of `modes`.
    pub fn new(modes: &[Mode], curve: ErrorCurve) -> Self {
        let of = |&mode: &Mode| (curve.snr_at(mode, 1, MAX_BER), mode.rate().as_bps());
        let modes: Vec<_> = modes.iter().map(of).collect();
        let slowest = (0..modes.len()).min_by_key(|&mode| modes[mode].1).unwrap_or_default();
        Ideal { modes, chosen: slowest }
    }

    /// Returns the index of the mode of the next PPDU.
    pub fn best(&self) -> usize {
        self.chosen
    }

    /// Records the SNR of a PPDU that was received, in dB.
    pub fn on_snr(&mut self, snr: f64) {
        let all = 0..self.modes.len();
        let good = all.clone().filter(|&mode| self.modes[mode].0 <= snr);
        let fastest = good.max_by_key(|&mode| self.modes[mode].1);
        let slowest = || all.min_by_key(|&mode| self.modes[mode].1).unwrap_or_default();
        self.chosen = fastest.unwrap_or_else(slowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Format, GuardInterval, Width};

    /// NIST's thresholds of 1500 B and a loss of 10 %, a bit error rate of 9e-6, are 13.51 dB (MCS 3), 16.61 (4)
    /// and 21.36 dB (5); those of 1e-6 are up to 1 dB higher.
    #[test]
    fn the_choice_follows_the_snr() {
        let mode = |mcs| Mode::new(Format::Ht, mcs, 1, Width::Mhz20, GuardInterval::Ns800);
        let modes: Vec<_> = (0..8).map(|mcs| mode(mcs).expect("defined")).collect();
        let mut machine = Ideal::new(&modes, ErrorCurve::Nist);
        assert_eq!(machine.best(), 0);
        for (snr, mcs) in [(20.0, 4), (14.6, 3), (-5.0, 0), (40.0, 7)] {
            machine.on_snr(snr);
            assert_eq!(machine.best(), mcs, "{snr} dB");
        }
    }
}
