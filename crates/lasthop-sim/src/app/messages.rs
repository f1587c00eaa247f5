//! Messages over one stream: several files with gaps between them, or data at a rate, with pauses.
//!
//! ```text
//!            rate, interval: a time after the start of the previous message
//!            gap: a time after the previous message was acknowledged
//!   WAITING ----------------------------------------------------------------> Write --> WAITING
//!      |  ^
//!  on  |  | off         no message is written in the off time; the first on time begins with the flow
//!      v  |
//!   PAUSED
//! ```
//!
//! A message is written although earlier ones are unacknowledged, except with a gap. The time of a
//! message ends when all data written so far is acknowledged.
//!
//! *Not modelled*: random sizes, replies of the peer, several streams.

use super::family::{SourceSite, StreamKeys};
use super::{Action, StreamApplication, Write};
use crate::transport::{End, TransportFeatures};
use lasthop_base::rng::{DurationDistribution, Stream};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::airtime;
use std::collections::VecDeque;

table! {
    /// Messages of one size, such as files with gaps between them or data at a rate, with pauses;
    /// needs tcp or quic.
    pub struct MessagesKeys as "messages" {
        /// Size of a message.
        size: Bytes, Limits::FILE;
        /// Rate at which data is written: a message in each interval of its size over the rate.
        /// Exactly one of rate, interval and gap is required.
        rate: Option<Rate>, Limits::RATE;
        /// Time between the starts of successive messages.
        interval: Option<DurationDistribution>, Limits::POSITIVE;
        /// Time from the acknowledgment of a message to the start of the next one.
        gap: Option<DurationDistribution>;
        /// Duration of the times in which messages are written; the first begins with the flow.
        /// Default: there are no pauses.
        on: Option<DurationDistribution>, Limits::POSITIVE;
        /// Duration of the pauses between them.
        off: Option<DurationDistribution>, Limits::POSITIVE;
    }
}

metrics! {
    /// Messages of a flow.
    pub struct MessagesMetrics {
        /// Messages written.
        messages: "Messages", Count, Higher, Sum;
        /// Mean time from the start of a message until all data written so far is acknowledged.
        message_time_mean_s: "Mean message time", Seconds, Lower, Mean;
        /// 95th percentile of this time.
        message_time_p95_s: "Message time, 95th percentile", Seconds, Lower, Mean;
    }
}

/// Times at which messages are written.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// From the start of the previous message.
    Interval(DurationDistribution),
    /// From its acknowledgment.
    Gap(DurationDistribution),
}

/// The state machine.
pub type Machine = Messages;

impl MessagesKeys {
    fn pace(&self) -> Option<Pace> {
        match (self.rate, self.interval, self.gap) {
            (Some(rate), None, None) => {
                Some(Pace::Interval(DurationDistribution::Constant(airtime(self.size, rate))))
            }
            (None, Some(interval), None) => Some(Pace::Interval(interval)),
            (None, None, Some(gap)) => Some(Pace::Gap(gap)),
            _ => None,
        }
    }
}

impl StreamKeys for MessagesKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = MessagesMetrics::METRICS;

    fn check_transport(&self, path: &str, _has: TransportFeatures) -> Result<(), ScenarioError> {
        if self.pace().is_none() {
            let given = [
                ("rate", self.rate.is_some()),
                ("interval", self.interval.is_some()),
                ("gap", self.gap.is_some()),
            ];
            let given: Vec<_> = given.iter().filter(|(_, is_given)| *is_given).collect();
            let found = match given.as_slice() {
                [] => "none of rate, interval, gap".to_owned(),
                given => given.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" and "),
            };
            return Err(ScenarioError::new(path, found, "exactly one of rate, interval, gap"));
        }
        let (key, other) = match (self.on, self.off) {
            (Some(_), None) => ("off", "on"),
            (None, Some(_)) => ("on", "off"),
            _ => return Ok(()),
        };
        let (path, found) = (format!("{path}.{key}"), format!("none, with {other}"));
        Err(ScenarioError::new(path, found, "both on and off, or neither"))
    }

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        // Scenarios without a pace are rejected.
        let pace = self.pace().unwrap_or(Pace::Gap(DurationDistribution::Constant(Duration::ZERO)));
        let stream = |purpose| site.streams.stream(site.component, purpose);
        Messages {
            size: self.size.get(),
            pace,
            periods: self.on.zip(self.off),
            times: stream("message times"),
            period_times: stream("pauses"),
            next: Instant::NEVER,
            period_end: Instant::NEVER,
            outstanding: VecDeque::new(),
            delivered: Vec::new(),
            has_failed: false,
            writes: 0,
            written: 0,
        }
    }
}

/// An application that writes messages.
#[derive(Clone, Debug)]
pub struct Messages {
    size: u64,
    pace: Pace,
    /// Durations of on and off times.
    periods: Option<(DurationDistribution, DurationDistribution)>,
    times: Stream,
    period_times: Stream,
    /// Start of the next message.
    next: Instant,
    /// End of the on time.
    period_end: Instant,
    /// Starts of the messages that are not acknowledged.
    outstanding: VecDeque<Instant>,
    /// Times of the acknowledged messages.
    delivered: Vec<Duration>,
    has_failed: bool,
    /// Number of messages to be written now.
    writes: u32,
    /// Bytes written.
    written: u64,
}

impl Messages {
    /// Returns `at`, or the end of the pauses in which it lies.
    fn outside_pauses(&mut self, mut at: Instant) -> Instant {
        let Some((on, off)) = self.periods else { return at };
        while at >= self.period_end {
            let resumed = self.period_end + off.sample(&mut self.period_times);
            self.period_end = resumed + on.sample(&mut self.period_times);
            at = at.max(resumed);
        }
        at
    }

    fn write(&mut self, now: Instant) {
        self.outstanding.push_back(now);
        self.writes += 1;
        self.next = match self.pace {
            Pace::Interval(interval) => {
                let next = now + interval.sample(&mut self.times);
                self.outside_pauses(next)
            }
            Pace::Gap(_) => Instant::NEVER,
        };
    }
}

impl StreamApplication for Messages {
    fn is_transfer(&self) -> bool {
        true
    }

    fn clock(&self, _stream: u32, _writer: End) -> String {
        "boot time".to_owned()
    }

    fn start(&mut self, now: Instant) {
        if let Some((on, _)) = self.periods {
            self.period_end = now + on.sample(&mut self.period_times);
        }
        self.write(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.writes = self.writes.checked_sub(1)?;
        let (stream, end, bytes) = (0, End::Opener, self.size);
        self.written += bytes;
        Some(Action::Write(Write { stream, end, bytes, opens: false, closes: false }))
    }

    fn on_delivered(&mut self, now: Instant, _stream: u32, _writer: End) {
        self.delivered.extend(self.outstanding.drain(..).map(|start| now - start));
        if let Pace::Gap(gap) = self.pace {
            let next = now + gap.sample(&mut self.times);
            self.next = self.outside_pauses(next);
        }
    }

    fn on_failure(&mut self, _now: Instant, _stream: u32) {
        (self.next, self.has_failed) = (Instant::NEVER, true);
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timeout(&self) -> Instant {
        self.next
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next <= now && !self.has_failed {
            self.write(now);
        }
    }

    fn delivered_bytes(&self, acknowledged: u64) -> u64 {
        acknowledged.min(self.written)
    }

    fn measured_until(&self, now: Instant) -> Option<Instant> {
        Some(now)
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let mut times: Vec<f64> = self.delivered.iter().map(|time| time.as_secs_f64()).collect();
        times.sort_unstable_by(f64::total_cmp);
        let count = times.len();
        // The smallest time that at least 95 % of the messages do not exceed.
        let place = (0.95 * count as f64).ceil() as usize;
        let metrics = MessagesMetrics {
            messages: (self.written / self.size) as f64,
            message_time_mean_s: times.iter().sum::<f64>() / count as f64,
            message_time_p95_s: place.checked_sub(1).map_or(f64::NAN, |place| times[place]),
        };
        metrics.report(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::rng::Streams;

    fn messages(keys: &MessagesKeys) -> Messages {
        let streams = Streams { seed: 1, replication: 0 };
        keys.build(&SourceSite { streams: &streams, component: "flow.f", start: Instant::ZERO })
    }

    fn keys() -> MessagesKeys {
        let size = Bytes::new(1250);
        MessagesKeys { size, rate: None, interval: None, gap: None, on: None, off: None }
    }

    fn seconds(time: f64) -> Instant {
        Instant::from_nanos((time * 1e9).round() as u64)
    }

    /// Returns the times of the messages before `until`, each acknowledged after `delay`.
    fn starts(application: &mut Messages, until: Instant, delay: Duration) -> Vec<f64> {
        let (mut now, mut found) = (Instant::ZERO, Vec::new());
        let mut acks = VecDeque::new();
        application.start(now);
        while now < until {
            while let Some(action) = application.poll_action() {
                assert!(matches!(action, Action::Write(Write { bytes: 1250, .. })));
                found.push(now.as_secs_f64());
                acks.push_back(now + delay);
            }
            let ack = acks.front().copied().unwrap_or(Instant::NEVER);
            now = ack.min(application.next_timeout());
            if ack == now {
                acks.pop_front();
                if acks.is_empty() {
                    application.on_delivered(now, 0, End::Opener);
                }
            }
            application.handle_timeout(now);
        }
        found
    }

    #[test]
    fn a_rate_writes_at_its_interval_except_in_pauses() {
        let constant = |seconds| Some(DurationDistribution::Constant(Duration::from_secs(seconds)));
        // 1250 B at 10 kbps: a message a second.
        let rate = Some(Rate::from_bps(10_000));
        let paced = MessagesKeys { rate, on: constant(3), off: constant(4), ..keys() };
        let found = starts(&mut messages(&paced), seconds(11.5), Duration::from_millis(10));
        // On from 0 to 3 s, from 7 to 10 s, …
        assert_eq!(found, [0.0, 1.0, 2.0, 7.0, 8.0, 9.0]);
    }

    #[test]
    fn a_gap_begins_at_the_acknowledgment() {
        let gap = Some(DurationDistribution::Constant(Duration::from_millis(500)));
        let mut files = messages(&MessagesKeys { gap, ..keys() });
        let found = starts(&mut files, seconds(2.0), Duration::from_millis(100));
        let found: Vec<_> = found.iter().map(|start| (1e3 * start).round()).collect();
        assert_eq!(found, [0.0, 600.0, 1_200.0, 1_800.0]);
        let mut reported = Vec::new();
        files.metrics(&mut |metric, value| reported.push((metric.name, value.value())));
        assert_eq!(reported[0], ("messages", 4.0));
        assert!(reported[1..].iter().all(|(_, time)| (time - 0.1).abs() < 1e-9), "{reported:?}");
    }

    #[test]
    fn times_of_messages_written_together_end_together() {
        let interval = Some(DurationDistribution::Constant(Duration::from_secs(1)));
        let mut files = messages(&MessagesKeys { interval, ..keys() });
        files.start(Instant::ZERO);
        files.handle_timeout(seconds(1.0));
        files.on_delivered(seconds(3.0), 0, End::Opener);
        assert_eq!(files.delivered, [3, 2].map(Duration::from_secs));
    }

    #[test]
    fn exactly_one_pace_and_both_periods_or_none() {
        let features = TransportFeatures::default();
        let error = |keys: &MessagesKeys| {
            keys.check_transport("flow.f.app", features).expect_err("an error").to_string()
        };
        let gap = Some(DurationDistribution::Constant(Duration::ZERO));
        let rate = Some(Rate::from_bps(1000));
        assert_eq!(
            error(&keys()),
            "flow.f.app: found none of rate, interval, gap; expected exactly one of rate, interval, gap"
        );
        assert!(error(&MessagesKeys { gap, rate, ..keys() }).contains("found rate and gap"));
        let half = MessagesKeys { gap, on: gap, ..keys() };
        assert!(error(&half).starts_with("flow.f.app.off: found none, with on"));
    }
}
