//! Counters of the datagrams of a flow: sent, survived, arrived.

use lasthop_base::schema::metrics::{Ratio, Report, metrics};
use lasthop_base::units::Instant;
use lasthop_link::queue::Newest;

/// Counts datagrams that are only distinguished by their number.
#[derive(Clone, Debug)]
pub struct Tally {
    sent: u64,
    survived: u64,
    /// The newest arrivals that were reported ahead of time.
    arrivals: Newest<Instant>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Creates counters of 0.
    pub fn new() -> Self {
        Tally { sent: 0, survived: 0, arrivals: Newest::default() }
    }

    /// Counts a packet that is sent. Returns its number; the first is 0.
    #[inline]
    pub fn send(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    /// Counts a packet that survives and arrives at `at`, which may be later than `now`.
    #[inline]
    pub fn receive(&mut self, now: Instant, at: Instant) {
        self.survived += 1;
        if at > now {
            self.arrivals.put(now, at);
        }
    }

    /// Sets the horizon: counts are not read for times before it.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.arrivals.set_horizon(horizon);
    }

    /// The counts at `now`.
    pub fn counts(&self, now: Instant) -> DatagramCounts {
        let under_way = self.arrivals.iter().filter(|&&at| at > now).count() as u64;
        DatagramCounts { sent: self.sent, survived: self.survived, under_way }
    }
}

/// Outcomes of the datagrams of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Packets sent.
    pub sent: u64,
    /// Packets known to survive.
    pub survived: u64,
    /// Surviving packets that have not arrived yet.
    pub under_way: u64,
}

metrics! {
    /// Packets of a flow of datagrams.
    pub struct DatagramMetrics {
        /// Packets sent.
        packets_sent: "Packets sent", Count, Neither, Sum;
        /// Packets that arrived.
        packets_delivered: "Packets delivered", Count, Higher, Sum;
        /// Packets that never arrive, as a fraction of those sent.
        loss: "Loss", Fraction, Lower, Mean, Ratio;
    }
}

impl DatagramCounts {
    /// Packets that have arrived.
    pub fn arrived(&self) -> u64 {
        self.survived - self.under_way
    }

    /// Reports the counts as metrics.
    pub fn metrics(&self, report: &mut Report<'_>) {
        let DatagramCounts { sent, survived, .. } = *self;
        let lost = sent.saturating_sub(survived);
        let metrics = DatagramMetrics {
            packets_sent: sent as f64,
            packets_delivered: self.arrived() as f64,
            loss: Ratio::new(lost as f64, sent as f64),
        };
        metrics.report(report);
    }
}
