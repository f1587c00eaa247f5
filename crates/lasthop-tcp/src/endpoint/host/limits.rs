//! Bounds that an application sets for one connection.

use super::{Endpoint, Host};
use lasthop_base::units::Duration;

/// What an application of Linux may bound by options of a socket; `None` leaves what the host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Least RTO (`TCP_RTO_MIN_US`), and greatest (`TCP_RTO_MAX_MS`).
    pub least_rto: Option<Duration>,
    /// See above.
    pub greatest_rto: Option<Duration>,
    /// How long an ACK is delayed at most (`TCP_DELACK_MAX_US`).
    pub ack_delay: Option<Duration>,
    /// Bytes a second at which data leave at most (`SO_MAX_PACING_RATE`): segments are paced.
    pub pacing_rate: Option<u64>,
}

impl Endpoint<Host> {
    /// Other bounds count from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.host.settings.limits = limits;
        self.apply_limits();
    }

    /// What is set counts for the connection, if there is one.
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
