//! Limits that an application sets for one connection.

use super::{Endpoint, Host};
use lasthop_base::units::Duration;

/// Limits set by socket options of Linux; `None`: default of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Minimum RTO (`TCP_RTO_MIN_US`).
    pub least_rto: Option<Duration>,
    /// Maximum RTO (`TCP_RTO_MAX_MS`).
    pub greatest_rto: Option<Duration>,
    /// Maximum delay of an ACK (`TCP_DELACK_MAX_US`).
    pub ack_delay: Option<Duration>,
    /// Maximum rate of transmission, bytes per second (`SO_MAX_PACING_RATE`): segments are paced.
    pub pacing_rate: Option<u64>,
}

impl Endpoint<Host> {
    /// Changes the limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.host.settings.limits = limits;
        self.apply_limits();
    }

    /// Applies the limits to the connection, if it is open.
    pub(super) fn apply_limits(&mut self) {
        let Limits { least_rto, greatest_rto, ack_delay, pacing_rate } = self.host.settings.limits;
        if let Some(greatest) = greatest_rto {
            self.host.settings.longest_rto = greatest;
        }
        if !self.is_open() {
            return;
        }
        self.sender.flight.rtt.set_bounds(least_rto, greatest_rto);
        self.receiver.bound_delay(ack_delay);
        if let Some(rate) = pacing_rate {
            self.sender.flight.limit_pacing(rate as f64);
        }
    }
}
