//! Counts of the datagrams of a flow: sent, got through, arrived.

use lasthop_base::schema::metrics::{Report, metrics};
use lasthop_base::units::Instant;
use lasthop_link::queue::Newest;

/// What became of datagrams of which only the number matters.
#[derive(Clone, Debug)]
pub struct Tally {
    sent: u64,
    survived: u64,
    /// The newest arrivals that were told ahead of the clock.
    arrivals: Newest<Instant>,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    /// Nothing sent yet.
    pub fn new() -> Self {
        Tally { sent: 0, survived: 0, arrivals: Newest::default() }
    }

    /// The next packet is sent. Returns its number; the first is 0.
    #[inline]
    pub fn send(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    /// A packet got through; it comes at `at`, which may lie ahead of the clock.
    #[inline]
    pub fn receive(&mut self, now: Instant, at: Instant) {
        self.survived += 1;
        if at > now {
            self.arrivals.put(now, at);
        }
    }

    /// It will not be asked for what it counted before `horizon`.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.arrivals.set_horizon(horizon);
    }

    /// The counts at `now`.
    pub fn counts(&self, now: Instant) -> DatagramCounts {
        let under_way = self.arrivals.iter().filter(|&&at| at > now).count() as u64;
        DatagramCounts { sent: self.sent, survived: self.survived, under_way }
    }
}

/// What became of the datagrams of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Sent.
    pub sent: u64,
    /// Known to get through.
    pub survived: u64,
    /// Those of them that have not arrived yet.
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
        loss: "Loss", Fraction, Lower, Mean;
    }
}

impl DatagramCounts {
    /// Packets that have arrived.
    pub fn arrived(&self) -> u64 {
        self.survived - self.under_way
    }

    /// Reports them as metrics.
    pub fn metrics(&self, report: &mut Report<'_>) {
        let DatagramCounts { sent, survived, .. } = *self;
        let lost = sent.saturating_sub(survived);
        let metrics = DatagramMetrics {
            packets_sent: sent as f64,
            packets_delivered: self.arrived() as f64,
            loss: if sent == 0 { f64::NAN } else { lost as f64 / sent as f64 },
        };
        metrics.report(report);
    }
}
