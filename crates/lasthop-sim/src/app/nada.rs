//! Media whose rate adapts to the path: NADA (RFC 8698). The [controller] has the
//! equations.
//!
//! ```text
//!   sender  -- packets at the reference rate -->  receiver
//!           <-- reports every 100 ms, after a constant delay --
//! ```
//!
//! A report contains the packets that have arrived when it is sent. The sender processes it before
//! its next packet, so that the rate changes between packets.
//!
//! *Not modelled*: packets of reports: these arrive after `feedback_delay` and are not lost;
//! frames of an encoder, which vary in size, and its reaction time; [more](controller).

pub mod controller;

use super::family::{SourceKeys, SourceSite};
use super::{Datagram, DatagramSource, MediaStatistics};
use controller::{NadaReceiver, NadaSender};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Ratio, Report, metrics};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::airtime;
use std::collections::VecDeque;

table! {
    /// Media with a rate that adapts to delays and losses by NADA (RFC 8698). Needs udp, udp-lite
    /// or quic.
    pub struct NadaKeys as "nada" {
        /// Minimum rate, packet headers included, which is also the first.
        min_rate: Rate = "150 kbps", Limits::RATE;
        /// Maximum rate, packet headers included.
        max_rate: Rate = "1.5 Mbps", Limits::RATE;
        /// Size of each packet, headers included.
        packet: Bytes = "1000 B", Limits::PACKET;
        /// Interval between reports of the receiver.
        feedback_interval: Duration = "100 ms", Limits::POSITIVE;
        /// Time after which a report reaches the sender.
        feedback_delay: Duration = "50 ms";
        /// Time after sending at which the receiver plays a packet. Later packets are useless.
        deadline: Duration = "400 ms", Limits::POSITIVE;
    }
}

metrics! {
    /// The rate of an adaptive source.
    pub struct NadaMetrics {
        /// Mean of the rate that the sender chooses.
        target_rate_bps: "Target rate", BitsPerSecond, Higher, Mean, Ratio;
        /// Standard deviation over time of the rate that the sender chooses.
        target_rate_sd_bps: "Deviation of the target rate", BitsPerSecond, Lower, Mean;
    }
}

/// The state machine.
pub type Machine = Box<NadaFlow>;

impl SourceKeys for NadaKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = NadaMetrics::METRICS;

    fn packet(&self) -> Bytes {
        self.packet
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        if self.min_rate <= self.max_rate {
            return Ok(());
        }
        Err(ScenarioError::new(
            format!("{path}.min_rate"),
            self.min_rate.to_string(),
            format!("at most max_rate, {}", self.max_rate),
        ))
    }

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        let NadaKeys { min_rate, max_rate, packet, feedback_interval, .. } = *self;
        let [min, max] = [min_rate, max_rate].map(|rate| rate.as_bps() as f64);
        Box::new(NadaFlow {
            packet,
            interval: feedback_interval,
            return_delay: self.feedback_delay,
            next_at: site.start,
            next_report: site.start + feedback_interval,
            sent: VecDeque::new(),
            first: 0,
            arrivals: VecDeque::new(),
            receiver: NadaReceiver::new((packet.get() * 8) as f64, site.start),
            sender: NadaSender::new(min, max),
            rates: Rates { since: site.start, ..Rates::default() },
            statistics: MediaStatistics::new(self.deadline),
        })
    }
}

/// Time integrals of the rate and of its square.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    since: Instant,
    seconds: f64,
    sum: f64,
    squares: f64,
}

impl Rates {
    fn add(&mut self, rate: f64, now: Instant) {
        let seconds = now.saturating_since(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.seconds += seconds;
        self.sum += rate * seconds;
        self.squares += rate * rate * seconds;
    }
}

/// A source with a rate that adapts, and its receiver.
#[derive(Clone, Debug)]
pub struct NadaFlow {
    packet: Bytes,
    interval: Duration,
    return_delay: Duration,
    next_at: Instant,
    /// Time of the next report at the receiver.
    next_report: Instant,
    /// Transmission times of the packets from `first` on, of which none has been processed.
    sent: VecDeque<Instant>,
    first: u64,
    /// Number and arrival time of the packets that the receiver has not processed, in the order in
    /// which they were reported.
    arrivals: VecDeque<(u64, Instant)>,
    receiver: NadaReceiver,
    sender: NadaSender,
    rates: Rates,
    statistics: MediaStatistics,
}

impl NadaFlow {
    /// Processes the reports that have reached the sender by `now`.
    fn process_reports(&mut self, now: Instant) {
        while self.next_report + self.return_delay <= now {
            let at = self.next_report;
            self.next_report = at + self.interval;
            self.deliver(at);
            let Some(report) = self.receiver.report(at) else { continue };
            self.rates.add(self.sender.rate(), at + self.return_delay);
            let [interval, back] = [self.interval, self.return_delay].map(Duration::as_secs_f64);
            self.sender.update(&report, interval, back);
        }
    }

    /// Passes the packets that have arrived by `now` to the receiver.
    fn deliver(&mut self, now: Instant) {
        // Arrivals ahead of time are in order; a late one delays those behind it by one report.
        while let Some(&(number, at)) = self.arrivals.front()
            && at <= now
        {
            self.arrivals.pop_front();
            let Some(index) = number.checked_sub(self.first) else { continue };
            let Some(&sent) = self.sent.get(index as usize) else { continue };
            self.receiver.receive(number, sent, at);
            self.sent.drain(..=index as usize);
            self.first = number + 1;
        }
    }
}

impl DatagramSource for NadaFlow {
    fn next_at(&self) -> Instant {
        self.next_at
    }

    fn send(&mut self, now: Instant) -> Datagram {
        self.process_reports(now);
        self.sent.push_back(now);
        let rate = Rate::from_bps(self.sender.rate() as u64);
        self.next_at = now + airtime(self.packet, rate);
        Datagram { number: self.statistics.send(now), size: self.packet }
    }

    fn receive(&mut self, _now: Instant, number: u64, at: Instant) {
        self.statistics.receive(number, at);
        self.arrivals.push_back((number, at));
    }

    fn delivered_bytes(&self, now: Instant) -> u64 {
        self.statistics.delivered(now) * self.packet.get()
    }

    fn metrics(&self, now: Instant, report: &mut Report<'_>) {
        self.statistics.metrics(now, report);
        let mut rates = self.rates;
        rates.add(self.sender.rate(), now);
        let mean = rates.sum / rates.seconds;
        let variance = (rates.squares / rates.seconds - mean * mean).max(0.0);
        let metrics = NadaMetrics {
            target_rate_bps: Ratio::with_value(mean, rates.sum, rates.seconds),
            target_rate_sd_bps: variance.sqrt(),
        };
        metrics.report(report);
    }
}
