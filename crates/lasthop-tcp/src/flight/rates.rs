//! Rates: the limit set by an application, and the rates reported by Linux.

use super::Flight;
use super::kept::Kept;
use crate::congestion_control::CongestionControl;
use crate::pacer::Pacer;
use lasthop_base::units::Duration;

impl Flight {
    /// Limits transmission to `rate` bytes per second, and paces it.
    pub(crate) fn limit_pacing(&mut self, rate: f64) {
        self.output.start_pacing().limit(rate);
        self.gate.has_fast_path = false;
    }

    /// Returns the pacing rate as reported by Linux, bytes per second. For an algorithm that does
    /// not pace, it is twice the window per RTT below half of the threshold, and 1.2 times the
    /// window above (`tcp_update_pacing_rate`).
    pub(crate) fn reported_pacing_rate(&self) -> Option<f64> {
        let srtt = Some(self.rtt.srtt()).filter(|srtt| *srtt > Duration::ZERO)?;
        let window = self.congestion_control.cwnd().floor().max(self.outstanding_segments() as f64);
        let gain = if window < self.congestion_control.ssthresh() / 2.0 { 2.0 } else { 1.2 };
        let rate = match self.config.congestion_control.paces() {
            true => self.congestion_control.pacing_rate(srtt),
            false => gain * window * self.mss as f64 / srtt.as_secs_f64(),
        };
        Some(self.pacing_limit().map_or(rate, |limit| rate.min(limit)))
    }

    /// Latest delivery rate, bytes per second, and whether the application limited it.
    pub(crate) fn delivery_rate(&self) -> Option<(f64, bool)> {
        match &self.kept {
            Kept::Records(records) => records.last_delivery_rate(),
            _ => None,
        }
    }

    /// Pacing limit set by an application, bytes per second, if any.
    pub(crate) fn pacing_limit(&self) -> Option<f64> {
        self.output.pacer.as_ref().map(Pacer::most).filter(|rate| rate.is_finite())
    }
}
