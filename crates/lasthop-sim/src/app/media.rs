//! Quality of a media stream at its receiver: speech, or audio and video, over datagrams.
//!
//! The source is [`OnOff`]: talk spurts at a constant rate, with silences between them. Talk and
//! silence are exponential with means of 1 s and 1.35 s (S. Nanda, D. J. Goodman, U. Timor, IEEE
//! Transactions on Vehicular Technology 40(3), 1991). Packets are neither retransmitted nor
//! reordered. The metrics are the fraction of lost packets and the delay of the others (G.
//! Xylomenos, G. C. Polyzos, IPDPS 2003): residual loss, and mean plus twice the standard deviation
//! of the one-way delay.
//!
//! A window contains the packets whose outcome is open. They are removed in transmission order, so
//! that loss bursts are counted in that order regardless of the order in which a link delivers:
//!
//! ```text
//!     settled, only counted | window: sent, and arrived at …           | not sent yet
//!     ----------------------+------------------------------------------+------------> number
//!                           front: removed once GRACE has passed since it was sent and it
//!                             has arrived, or was overtaken by HORIZON, or LONGEST has passed
//! ```
//!
//! A computed link reports an arrival ahead of time; it counts from its arrival time onwards.
//!
//! *Not modelled*: adaptive playback and its buffer, codecs and concealment, layered or
//! variable-rate video, feedback (RTCP), loss hidden by error correction of the application.

use super::family::{SourceKeys, SourceSite};
use super::{Datagram, DatagramSource};
use lasthop_base::delays::Delays;
use lasthop_base::rng::DurationDistribution;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Ratio, Report, Statistic, metrics};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::airtime;
use lasthop_link::queue::{OnOff, OnOffParameters};
use std::collections::VecDeque;
use std::sync::Arc;

table! {
    /// Speech, or audio and video: packets at a constant rate during talk spurts. The receiver
    /// reports loss, delay and missed playback deadlines. Needs udp, udp-lite or quic.
    pub struct MediaKeys as "media" {
        /// Rate during talk spurts, packet headers included.
        rate: Rate, Limits::RATE;
        /// Size of each packet, headers included.
        packet: Bytes, Limits::PACKET;
        /// Duration of a talk spurt.
        talk: DurationDistribution = "exp 1 s", Limits::POSITIVE;
        /// Duration of a silence; 0 s makes the rate constant.
        silence: DurationDistribution = "exp 1.35 s";
        /// Time after sending at which the receiver plays a packet. Later packets are useless.
        deadline: Duration = "400 ms", Limits::POSITIVE;
    }
}

/// The state machine.
pub type Machine = MediaFlow;

impl SourceKeys for MediaKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = MediaMetrics::METRICS;

    fn packet(&self) -> Bytes {
        self.packet
    }

    fn interval(&self) -> Option<Duration> {
        Some(airtime(self.packet, self.rate))
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        // At a constant rate, because talk spurts may follow each other without silence.
        let packets = grace(self.deadline).as_secs_f64() * self.rate.as_bps() as f64
            / (self.packet.get() * 8) as f64;
        if packets < MOST_OPEN as f64 {
            return Ok(());
        }
        Err(ScenarioError::new(
            format!("{path}.packet"),
            format!("{packets:.0} packets of {} in {}", self.packet, grace(self.deadline)),
            format!(
                "fewer than {MOST_OPEN} packets in the deadline or {GRACE}, whichever is longer: \
                 their receiver remembers all of these; larger packets or a lower rate"
            ),
        ))
    }

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        let MediaKeys { rate, packet, talk: on, silence: off, deadline } = *self;
        let stream = site.streams.stream(site.component, "talk and silence");
        let source = OnOff::new(OnOffParameters { rate, on, off, packet }, site.start, stream);
        MediaFlow { source, statistics: Box::new(MediaStatistics::new(deadline)) }
    }
}

/// A media source and the statistics of its receiver.
#[derive(Clone, Debug)]
pub struct MediaFlow {
    source: OnOff,
    statistics: Box<MediaStatistics>,
}

impl DatagramSource for MediaFlow {
    #[inline]
    fn next_at(&self) -> Instant {
        self.source.next_at()
    }

    #[inline]
    fn send(&mut self, now: Instant) -> Datagram {
        self.source.advance(1);
        Datagram { number: self.statistics.send(now), size: self.source.packet() }
    }

    #[inline]
    fn receive(&mut self, _now: Instant, number: u64, at: Instant) {
        self.statistics.receive(number, at);
    }

    fn delivered_bytes(&self, now: Instant) -> u64 {
        self.statistics.delivered(now) * self.source.packet().get()
    }

    fn metrics(&self, now: Instant, report: &mut Report<'_>) {
        self.statistics.metrics(now, report);
    }
}

/// Minimum age of a packet to be counted in the fractions at the end of a run (or the playback
/// deadline, if longer). Younger packets may still arrive.
pub const GRACE: Duration = Duration::from_secs(2);

/// A packet is lost if one that was sent this number of packets later has arrived. On one link a
/// packet is overtaken by at most 255 others, which one-byte sequence numbers can distinguish; the
/// value suffices for four such links in succession.
pub const HORIZON: u64 = 1024;

/// A packet is lost if it has not arrived when this number of later packets have been sent.
/// Therefore the receiver stores at most this number of packets: 256 MiB.
pub const MOST_OPEN: usize = 1 << 24;

/// A packet is lost if it has not arrived after this time. Also the maximum delay in percentiles.
pub const LONGEST: Duration = Duration::from_secs(1000);

/// If no packets have arrived for this time at the end of a run, the path is considered dead and
/// the packets sent since are lost. Otherwise a packet that no later packet has overtaken is in
/// transit.
pub const OUTAGE: Duration = Duration::from_secs(60);

/// Delay in nanoseconds from which delays count as [`LONGEST`] in percentiles.
const TOP: u64 = LONGEST.as_nanos().next_power_of_two();

/// Age at which the outcome of a packet is counted.
fn grace(deadline: Duration) -> Duration {
    deadline.max(GRACE)
}

/// A packet whose outcome is open.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// [`Instant::NEVER`] if it has not arrived.
    arrival: Instant,
}

/// Statistics of the receiver of one stream. The memory needed does not grow with the duration of a
/// run.
#[derive(Clone, Debug)]
pub struct MediaStatistics {
    deadline: Duration,
    grace: Duration,
    window: VecDeque<Sent>,
    /// Number of the packet at the front of the window, which is the number of settled packets.
    front: u64,
    /// The highest number that has arrived.
    highest: Option<u64>,
    tally: Tally,
}

/// Statistics of the packets removed from the window.
#[derive(Clone, Debug)]
struct Tally {
    delivered: u64,
    in_time: u64,
    lost: u64,
    bursts: u64,
    /// Length of the current burst.
    burst: u64,
    longest_burst: u64,
    last_arrival: Option<Instant>,
    /// Mean of the delays, and sum of squared deviations from it, in nanoseconds (Welford).
    mean: f64,
    squares: f64,
    delays: Delays,
}

/// The packets sent by some time, and the statistics of their outcomes.
struct Outcomes {
    tally: Tally,
    /// Packets old enough for their outcome to count.
    counted: u64,
    /// Counted packets whose outcome is open.
    under_way: u64,
}

/// Statistics of a receiver up to some time. Undefined values are NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaReport {
    /// Packets sent.
    pub sent: u64,
    /// Packets that have arrived.
    pub delivered: u64,
    /// Lost packets as a fraction of those whose outcome is known.
    pub residual_loss: f64,
    /// Packets that did not arrive by the playback deadline, as a fraction of those sent.
    pub deadline_miss: f64,
    /// Mean one-way delay of the packets that have arrived, in seconds.
    pub delay_mean: f64,
    /// Standard deviation (n - 1) of the one-way delay, in seconds.
    pub delay_sd: f64,
    /// Percentiles 50, 95 and 99 of the one-way delay of the packets that have arrived, in seconds,
    /// to 3 significant digits (rounded up).
    pub delay_percentiles: [f64; 3],
    /// Mean number of consecutive lost packets.
    pub burst_mean: f64,
    /// Maximum number of consecutive lost packets.
    pub burst_max: u64,
}

impl MediaStatistics {
    /// Creates empty statistics with a playback deadline of `deadline` after sending.
    pub fn new(deadline: Duration) -> Self {
        MediaStatistics {
            deadline,
            grace: grace(deadline),
            window: VecDeque::new(),
            front: 0,
            highest: None,
            tally: Tally::new(),
        }
    }

    /// Records a packet that is sent. Returns its number; the first is 0.
    pub fn send(&mut self, now: Instant) -> u64 {
        self.settle(now);
        self.window.push_back(Sent { at: now, arrival: Instant::NEVER });
        self.sent() - 1
    }

    /// Records that packet `number` arrives at `at`, which may be in the future. Packets must not
    /// arrive twice.
    pub fn receive(&mut self, number: u64, at: Instant) {
        // Packets before the window already count as lost: see `HORIZON` and `LONGEST`.
        let Some(index) = number.checked_sub(self.front) else { return };
        let Some(sent) = self.window.get_mut(index as usize) else {
            debug_assert!(false, "packet {number} comes before it is sent");
            return;
        };
        debug_assert!(sent.arrival == Instant::NEVER, "packet {number} comes twice");
        sent.arrival = sent.arrival.min(at);
        self.highest = self.highest.max(Some(number));
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.front + self.window.len() as u64
    }

    /// Removes the packets at the front whose outcome is known from the window.
    fn settle(&mut self, now: Instant) {
        while let Some(&Sent { at, arrival }) = self.window.front()
            && at + self.grace <= now
        {
            if arrival <= now {
                self.tally.deliver(at, arrival, arrival <= at + self.deadline);
            } else if self.window.len() >= MOST_OPEN
                || arrival == Instant::NEVER
                    && (self.highest >= Some(self.front + HORIZON) || at + LONGEST <= now)
            {
                self.tally.lose();
            } else {
                return;
            }
            self.window.pop_front();
            self.front += 1;
        }
    }

    /// Number of packets that have arrived by `now`.
    pub fn delivered(&self, now: Instant) -> u64 {
        let come = self.window.iter().filter(|sent| sent.arrival <= now).count();
        self.tally.delivered + come as u64
    }

    /// Returns the outcomes of the packets at `now`.
    fn outcomes(&self, now: Instant) -> Outcomes {
        let mut tally = self.tally.clone();
        let has_come = |sent: &Sent| sent.arrival <= now;
        let overtaken = self.window.iter().rposition(has_come).unwrap_or(0);
        let come = self.window.iter().filter(|sent| has_come(sent)).map(|sent| sent.arrival);
        let last = come.max().max(tally.last_arrival);
        let is_dead = last.is_none_or(|last| last + OUTAGE <= now);
        let (mut counted, mut under_way) = (self.front, 0);
        for (index, sent) in self.window.iter().enumerate() {
            let counts = sent.at + self.grace <= now;
            counted += u64::from(counts);
            if has_come(sent) {
                let in_time = sent.arrival <= sent.at + self.deadline;
                tally.deliver(sent.at, sent.arrival, counts && in_time);
            } else if counts && (index < overtaken || is_dead) {
                tally.lose();
            } else {
                under_way += u64::from(counts);
            }
        }
        Outcomes { tally, counted, under_way }
    }

    /// Returns the statistics at `now`, the end of the run.
    pub fn report(&self, now: Instant) -> MediaReport {
        self.outcomes(now).report(self.sent())
    }

    /// Reports the statistics at `now` as metrics.
    pub(super) fn metrics(&self, now: Instant, report: &mut Report<'_>) {
        self.outcomes(now).metrics(self.sent(), report);
    }
}

impl Outcomes {
    /// Returns the statistics if `sent` packets were sent.
    fn report(&self, sent: u64) -> MediaReport {
        let Outcomes { tally, counted, under_way } = self;
        let (counted, under_way) = (*counted, *under_way);
        let delivered = tally.delivered as f64;
        MediaReport {
            sent,
            delivered: tally.delivered,
            residual_loss: share(tally.lost, counted - under_way),
            deadline_miss: share(counted - tally.in_time, counted),
            delay_mean: if tally.delivered == 0 { f64::NAN } else { seconds(tally.mean) },
            delay_sd: if tally.delivered < 2 {
                f64::NAN
            } else {
                seconds((tally.squares / (delivered - 1.0)).sqrt())
            },
            delay_percentiles: [p50, p95, p99].map(|percentile| percentile(&tally.delays)),
            burst_mean: share(tally.lost, tally.bursts),
            burst_max: tally.longest_burst,
        }
    }

    /// Reports the statistics as metrics.
    fn metrics(self, sent: u64, report: &mut Report<'_>) {
        let MediaReport {
            delivered,
            residual_loss,
            deadline_miss,
            delay_mean,
            delay_sd,
            burst_mean,
            burst_max,
            ..
        } = self.report(sent);
        let Outcomes { tally, counted, under_way } = self;
        let [lost, missed, known, counted] =
            [tally.lost, counted - tally.in_time, counted - under_way, counted]
                .map(|packets| packets as f64);
        let delays = Arc::new(tally.delays);
        let metrics = MediaMetrics {
            packets_sent: sent as f64,
            packets_delivered: delivered as f64,
            residual_loss: Ratio::with_value(residual_loss, lost, known),
            deadline_miss: Ratio::with_value(deadline_miss, missed, counted),
            delay_mean_s: Ratio::with_value(delay_mean, delays.sum(), delivered as f64),
            delay_sd_s: delay_sd,
            delay_mean_plus_2sd_s: delay_mean + 2.0 * delay_sd,
            delay_p50_s: Statistic::new(&delays, p50),
            delay_p95_s: Statistic::new(&delays, p95),
            delay_p99_s: Statistic::new(&delays, p99),
            loss_burst_mean: burst_mean,
            loss_burst_max: burst_max as f64,
        };
        metrics.report(report);
    }
}

metrics! {
    /// A media flow, as observed by its receiver.
    pub struct MediaMetrics {
        /// Packets sent.
        packets_sent: "Packets sent", Count, Neither, Sum;
        /// Packets that arrived.
        packets_delivered: "Packets delivered", Count, Higher, Sum;
        /// Packets that never arrive, as a fraction of those whose outcome is known.
        residual_loss: "Residual loss", Fraction, Lower, Mean, Ratio;
        /// Packets that did not arrive by the playback deadline, as a fraction of those sent.
        deadline_miss: "Deadline miss", Fraction, Lower, Mean, Ratio;
        /// Mean one-way delay of the packets that arrived.
        delay_mean_s: "Mean delay", Seconds, Lower, Mean, Ratio;
        /// Standard deviation of the one-way delay.
        delay_sd_s: "Deviation of delay", Seconds, Lower, Mean;
        /// Mean one-way delay plus two standard deviations.
        delay_mean_plus_2sd_s: "Delay, mean + 2 deviations", Seconds, Lower, Mean;
        /// Median of the one-way delay.
        delay_p50_s: "Delay, 50th percentile", Seconds, Lower, Mean, Statistic;
        /// One-way delay that 95 % of the packets do not exceed.
        delay_p95_s: "Delay, 95th percentile", Seconds, Lower, Mean, Statistic;
        /// One-way delay that 99 % of the packets do not exceed.
        delay_p99_s: "Delay, 99th percentile", Seconds, Lower, Mean, Statistic;
        /// Mean number of consecutive packets lost.
        loss_burst_mean: "Mean loss burst", Count, Lower, Mean;
        /// Maximum number of consecutive packets lost.
        loss_burst_max: "Largest loss burst", Count, Lower, Max;
    }
}

/// Returns a percentile in seconds, at most the maximum; NaN without packets.
fn percentile(delays: &Delays, quantile: f64) -> f64 {
    let class = delays.class_at(quantile).min(delays.max());
    class.map_or(f64::NAN, |class| seconds(class.as_nanos() as f64))
}

fn p50(delays: &Delays) -> f64 {
    percentile(delays, 0.5)
}

fn p95(delays: &Delays) -> f64 {
    percentile(delays, 0.95)
}

fn p99(delays: &Delays) -> f64 {
    percentile(delays, 0.99)
}

fn seconds(nanos: f64) -> f64 {
    nanos * 1e-9
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { f64::NAN } else { part as f64 / whole as f64 }
}

impl Tally {
    fn new() -> Self {
        Tally {
            delivered: 0,
            in_time: 0,
            lost: 0,
            bursts: 0,
            burst: 0,
            longest_burst: 0,
            last_arrival: None,
            mean: 0.0,
            squares: 0.0,
            delays: Delays::with_digits(3),
        }
    }

    fn deliver(&mut self, sent: Instant, arrival: Instant, in_time: bool) {
        let delay = arrival.saturating_since(sent);
        self.delivered += 1;
        self.in_time += u64::from(in_time);
        self.burst = 0;
        self.last_arrival = self.last_arrival.max(Some(arrival));
        let nanos = delay.as_nanos() as f64;
        let deviation = nanos - self.mean;
        self.mean += deviation / self.delivered as f64;
        self.squares += deviation * (nanos - self.mean);
        self.delays.record_as(delay, if delay.as_nanos() < TOP { delay } else { LONGEST });
    }

    fn lose(&mut self) {
        self.lost += 1;
        self.bursts += u64::from(self.burst == 0);
        self.burst += 1;
        self.longest_burst = self.longest_burst.max(self.burst);
    }
}
