//! Time series of one replication.

use super::air::Transmission;
use super::plan::Plan;
use super::rows::Rows;
use super::{RunError, build, finish, report, run_to};
use crate::scenario::Scenario;
use crate::sim::probe::{Recorder, Room};
use crate::sim::world::{End, World};
use lasthop_base::packet::Watched;
use lasthop_base::rng::Streams;
use lasthop_base::units::Instant;
use std::sync::atomic::AtomicBool;

/// An event of a replication.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// Time in nanoseconds since the start of the run.
    pub time_ns: u64,
    /// The entity concerned: `flow.NAME` (its data sender), `flow.NAME.receiver`,
    /// `flow.NAME.connection K opener`, `link.NAME.forward`, `link.NAME.forward.SERVICE`,
    /// `link.NAME.forward.LAYER` …
    pub entity: String,
    /// The type of event:
    ///
    /// - of transports: `segment_sent`, `segment_received`, `ack_received`, `sack_block` (of the
    ///   segment just received), `cwnd`, `ssthresh`, `timeout`, `spurious_retransmission`,
    ///   `spurious_timeout` (of the segment sent or the timer expired at that time, if known by the
    ///   end of the run), `datagram_sent`, `datagram_received`
    /// - of senders, when they change: `pacing_rate_bps` (if the sender paces), `max_bw_bps`,
    ///   `min_rtt_s`, `bw_shortterm_bps`, `inflight_shortterm`, `inflight_longterm`, `extra_acked`
    ///   (of BBR), and the beginning of a phase, `phase_NAME`
    ///   ([`CongestionPhase`](lasthop_tcp::congestion_control::CongestionPhase))
    /// - of QUIC: `initial_sent`, `handshake_sent`, `early_sent` (a 0-RTT packet) and `packet_sent`
    ///   (a 1-RTT packet), the same with `received`, `ack_range`, `stream_id` (unless 0) and
    ///   `stream_frame` (of the packet just sent or received), `packet_lost`, `spurious_loss` (the
    ///   lost packet has arrived), `timeout`, `cwnd`, `ssthresh`; when they change, `min_rtt_s`,
    ///   `smoothed_rtt_s`, `latest_rtt_s`, `in_flight_bytes`
    /// - of queues: `queue`, `drop`
    /// - of links: `frame_sent`, `frame_lost` (at the end of the transmission; of an upper layer,
    ///   when the layer below accepted the frame), `delivered` (over this direction),
    ///   `retransmitted`, `timed_out`, `nack_sent`, `abandoned`, `recovered`, `disrupted`,
    ///   `restored` (by the endpoint that transmits in this direction)
    /// - of WLANs: `collided`, `nav` (of a frame whose transmission starts now: `sequence` is its
    ///   end, `value` the time that it reserves after that), `backoff` (slots as `sequence`, the
    ///   window as `value`)
    /// - of agents, `agent.NAME`: `local_retransmission`, `local_timeout`, `suppressed_ack`, `eln`,
    ///   `ersn`, `marked_ack`
    pub event: &'static str,
    /// First byte of a segment or of a SACK block, acknowledgment number, number of a datagram or
    /// of a data frame; of QUIC the packet number, the first number of an ACK range, or the offset
    /// in a stream; NaN if not applicable.
    pub sequence: f64,
    /// Payload bytes, bytes of a SACK block, of a QUIC packet or of a STREAM frame, number of packets
    /// of an ACK range, bytes of a datagram sent, delay in seconds of a
    /// datagram received, window in segments, queue length in packets from now on, or bytes of a
    /// frame; NaN if not applicable. The queue length includes the packet in transmission.
    /// Departures of background traffic are included with the next packet.
    pub value: f64,
}

/// All events recorded in one replication.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Events sorted by time.
    pub events: Vec<TraceEvent>,
    /// All frames, including control frames, sorted by the end of their transmission.
    pub transmissions: Vec<Transmission>,
    /// Metrics of the replication, by name.
    pub metrics: Vec<(String, f64)>,
    /// Whether the run was complete. If it was interrupted, events and metrics up to then are
    /// included.
    pub complete: bool,
}

/// Maximum number of events of a trace. With the columns derived from them they need about 2 GB.
pub const MOST_EVENTS: usize = 5_000_000;

/// Number of events kept by the first run. If there are more, they are counted, and unless there
/// are too many the replication is run again. Therefore a rejection requires little memory.
const MOST_KEPT_AT_FIRST: usize = 250_000;

/// Runs one replication with observation, to its end or until another thread sets `interrupt`. A
/// replication with more than `MOST_EVENTS` events is rejected.
///
/// ```
/// use lasthop_sim::run::trace;
/// use lasthop_sim::scenario::Scenario;
/// use std::path::Path;
/// use std::sync::atomic::AtomicBool;
///
/// # let text = r#"
/// # name = "first"
/// # [link.air]
/// # between = ["server", "client"]
/// # rate = "2 Mbps"
/// # delay = "20 ms"
/// # errors = { kind = "uniform", loss = "1 %" }
/// # [flow.f]
/// # from = "server"
/// # to = "client"
/// # transport = { kind = "tcp", variant = "newreno" }
/// # app = { kind = "file", size = "20 kB" }
/// # "#;
/// let scenario = Scenario::from_toml(text, Path::new("."))?.points()?.remove(0).scenario;
/// let trace = trace(&scenario, 1, 0, &AtomicBool::new(false))?;
/// assert!(trace.complete);
/// let sent = trace.events.iter().filter(|event| event.event == "segment_sent").count();
/// assert!(sent >= 14, "20 kB need 14 segments of 1448 B");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn trace(
    scenario: &Scenario,
    seed: u64,
    replication: u64,
    interrupt: &AtomicBool,
) -> Result<Trace, RunError> {
    let streams = Streams { seed, replication };
    trace_up_to([MOST_KEPT_AT_FIRST, MOST_EVENTS], scenario, streams, interrupt)
}

/// Runs a world with observation, to its end or until `stop`. Returns the world and the reason of
/// the end.
fn observe<'a>(
    scenario: &Scenario,
    streams: Streams,
    recorder: Recorder<'a>,
    stop: Option<Instant>,
    interrupt: &AtomicBool,
) -> Result<(World<Recorder<'a>, Watched>, End), RunError> {
    let parts = build::build::<Watched>(scenario, &Plan::new(scenario), streams)?;
    let mut world = parts.build(recorder);
    let end = match stop {
        Some(stop) => run_to(stop, &mut world, scenario, interrupt)?,
        None => finish(&mut world, scenario, interrupt)?,
    };
    Ok((world, end))
}

/// Like [`trace`], with the given limits on the events kept by the first run and on all events.
fn trace_up_to(
    [most_at_first, most]: [usize; 2],
    scenario: &Scenario,
    streams: Streams,
    interrupt: &AtomicBool,
) -> Result<Trace, RunError> {
    let recorder = Recorder::keeping(most_at_first, Room::new(most, interrupt));
    let (mut world, end) = observe(scenario, streams, recorder, None, interrupt)?;
    let complete = end != End::Interrupted;
    let counted = world.probe();
    if let Some(at) = counted.full {
        return Err(RunError::TooManyEvents { most, at: at - Instant::ZERO });
    }
    // The second run of an interrupted replication repeats the first one up to the interruption.
    let go_on = AtomicBool::new(false);
    if counted.only_counts {
        let recorder = Recorder::new(Room::new(most, &go_on));
        let stop = (!complete).then_some(world.now());
        (world, _) = observe(scenario, streams, recorder, stop, &go_on)?;
    }
    let mut metrics = Vec::new();
    report(&world, scenario, &mut |entity, metric, value| {
        metrics.push((format!("{entity}.{metric}"), value));
    });
    let ends = world.connection_names();
    let mut recorded = world.into_probe().events;
    // Computed links report ahead of time; the sort preserves the order of computation of
    // simultaneous events.
    recorded.sort_by_key(|&(at, _)| at);
    let mut rows = Rows::new(scenario, ends, &recorded);
    recorded.into_iter().for_each(|(at, event)| rows.add(at, event));
    let Rows { events, transmissions, .. } = rows;
    Ok(Trace { events, transmissions, metrics, complete })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const LONG: &str = r#"
        name = "t"
        [link.l]
        between = ["a", "b"]
        rate = "1 Mbps"
        delay = "5 ms"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "tcp", variant = "sack", profile = "rfc" }
        app = { kind = "file", size = "5 MB" }
    "#;

    #[test]
    fn a_run_of_more_events_than_are_kept_is_refused() {
        let document = Scenario::from_toml(LONG, Path::new(".")).expect("a scenario");
        let scenario = &document.points().expect("points")[0].scenario;
        let streams = Streams { seed: 1, replication: 0 };
        let traced = |most| trace_up_to(most, scenario, streams, &AtomicBool::new(false));
        // Whether all events are kept immediately or counted first.
        let refused = [1000, 100].map(|kept| traced([kept, 1000]).expect_err("too many events"));
        for refused in refused {
            assert!(matches!(refused, RunError::TooManyEvents { most: 1000, .. }));
            let text = refused.to_string();
            // 1,000 events are about 100 segments of 12 ms: in seconds, to the millisecond.
            assert!(text.starts_with("more than 1000 events by 1."), "{text}");
            assert!(
                text.contains(" s, all of which are kept in memory: expected a shorter run"),
                "{text}"
            );
        }
        let [at_once, counted] =
            [10_000_000, 100].map(|kept| traced([kept, 10_000_000]).expect("room"));
        assert!(at_once.complete && at_once.events.len() > 1000);
        // Compared as text, because some values are NaN.
        assert!(format!("{at_once:?}") == format!("{counted:?}"), "the same again");
    }

    #[test]
    fn what_an_interrupted_run_saw_is_kept_though_it_was_only_counted() {
        let document = Scenario::from_toml(LONG, Path::new(".")).expect("a scenario");
        let scenario = &document.points().expect("points")[0].scenario;
        let streams = Streams { seed: 1, replication: 0 };
        // The interrupt flag is set before the start, so that the run ends at its first check.
        let most = usize::MAX;
        let [at_once, counted] = [most, 10].map(|kept| {
            let interrupt = AtomicBool::new(true);
            trace_up_to([kept, most], scenario, streams, &interrupt).expect("a part of it")
        });
        assert!(!at_once.complete && !counted.complete);
        assert!(at_once.events.len() > 100, "{}", at_once.events.len());
        // Events after the last acknowledgment may be computed ahead of time and differ.
        let is_answer = |event: &&TraceEvent| event.event == "ack_received";
        let last = at_once.events.iter().rfind(is_answer).expect("some").time_ns;
        let until = |trace: Trace| {
            let before = trace.events.into_iter().filter(|event| event.time_ns < last);
            format!("{:?}", before.collect::<Vec<_>>())
        };
        let [at_once, counted] = [at_once, counted].map(until);
        assert!(at_once == counted, "the same again");
    }
}
