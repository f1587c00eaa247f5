//! Time series of one replication.

use super::{RunError, build, finish, link_names};
use crate::agent::AgentEvent;
use crate::link::LinkEvent;
use crate::rng::Streams;
use crate::scenario::Scenario;
use crate::sim::probe::{Event, Recorder};
use crate::sim::world::End;
use std::sync::atomic::AtomicBool;

/// Something that happened in a replication.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// When, in nanoseconds since the start of the run.
    pub time_ns: u64,
    /// To whom: `flow.NAME` (its data sender), `flow.NAME.receiver`, `flow.NAME.connection K
    /// opener`, `link.NAME.forward` …
    pub entity: String,
    /// What: `segment_sent`, `segment_received`, `ack_received`, `cwnd`, `ssthresh`, `timeout`,
    /// `datagram_sent`, `datagram_received`, `queue`, `drop`, `frame_sent`, `frame_lost`, `retransmitted`, `timed_out`, `nack_sent`,
    /// `abandoned`, `recovered`.
    pub event: &'static str,
    /// First byte of a segment, acknowledgment number, number of a datagram or of a frame; NaN if
    /// there is none.
    pub sequence: f64,
    /// Payload bytes, bytes of a datagram sent, delay of one received in seconds, window in
    /// segments, or packets in a queue; NaN if there is none.
    pub value: f64,
}

/// Everything that a probe saw of one replication.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// By time.
    pub events: Vec<TraceEvent>,
    /// Metrics of the replication, by name.
    pub metrics: Vec<(String, f64)>,
    /// False if the run was interrupted: events and metrics are those up to then.
    pub complete: bool,
}

/// Runs one replication under observation, to its end or until another thread sets `interrupt`.
pub fn trace(
    scenario: &Scenario,
    seed: u64,
    replication: u64,
    interrupt: &AtomicBool,
) -> Result<Trace, RunError> {
    let streams = Streams { seed, replication };
    let mut world = build::build(scenario, streams)?.build(Recorder::default());
    let complete = finish(&mut world, scenario, interrupt) != End::Interrupted;
    let mut metrics = Vec::new();
    world.metrics(&link_names(scenario), &mut |entity, metric, value| {
        metrics.push((format!("{entity}.{metric}"), value));
    });
    let ends = world.connection_names();
    let mut recorded = world.into_probe().events;
    // Computed links tell ahead of time; equal times keep the order of computation.
    recorded.sort_by_key(|&(at, _)| at);
    let directions: Vec<String> = scenario
        .links
        .iter()
        .flat_map(|link| ["forward", "reverse"].map(|side| format!("link.{}.{side}", link.name)))
        .collect();
    let flows: Vec<[String; 2]> = scenario
        .flows
        .iter()
        .map(|flow| ["", ".receiver"].map(|side| format!("flow.{}{side}", flow.name)))
        .collect();
    let mut events = Vec::with_capacity(recorded.len());
    for (at, event) in recorded {
        let mut push = |entity: &String, event, sequence, value| {
            events.push(TraceEvent {
                time_ns: at.as_nanos(),
                entity: entity.clone(),
                event,
                sequence,
                value,
            });
        };
        let end = |connection: u32, opener: bool| &ends[connection as usize][usize::from(!opener)];
        let direction = |index: u32| &directions[index as usize];
        match event {
            Event::SegmentSent { connection, opener, sequence, payload } => {
                push(end(connection, opener), "segment_sent", sequence as f64, payload.into());
            }
            Event::SegmentReceived { connection, opener, sequence, ack, payload } => {
                let entity = end(connection, opener);
                if payload > 0 {
                    push(entity, "segment_received", sequence as f64, payload.into());
                } else {
                    push(entity, "ack_received", ack as f64, f64::NAN);
                }
            }
            Event::Window { connection, opener, cwnd, ssthresh } => {
                let entity = end(connection, opener);
                push(entity, "cwnd", f64::NAN, cwnd);
                push(entity, "ssthresh", f64::NAN, ssthresh);
            }
            Event::Timeout { connection, opener } => {
                push(end(connection, opener), "timeout", f64::NAN, f64::NAN);
            }
            Event::DatagramSent { flow, number, bytes } => {
                push(&flows[flow as usize][0], "datagram_sent", number as f64, bytes.into());
            }
            Event::DatagramReceived { flow, number, delay } => {
                let entity = &flows[flow as usize][1];
                push(entity, "datagram_received", number as f64, delay.as_secs_f64());
            }
            Event::Queue { direction: index, packets } => {
                push(direction(index), "queue", f64::NAN, packets as f64);
            }
            Event::Dropped { direction: index } => {
                push(direction(index), "drop", f64::NAN, f64::NAN);
            }
            Event::FrameSent { direction: index, lost } => {
                let event = if lost { "frame_lost" } else { "frame_sent" };
                push(direction(index), event, f64::NAN, f64::NAN);
            }
            Event::Link { direction: index, event } => {
                let (event, sequence) = match event {
                    LinkEvent::Retransmitted { sequence } => ("retransmitted", sequence),
                    LinkEvent::TimedOut { sequence } => ("timed_out", sequence),
                    LinkEvent::NackSent { sequence } => ("nack_sent", sequence),
                    LinkEvent::Abandoned { sequence } => ("abandoned", sequence),
                    LinkEvent::Recovered { sequence } => ("recovered", sequence),
                };
                push(direction(index), event, sequence as f64, f64::NAN);
            }
            Event::Agent { direction: index, event } => {
                let entity = format!("agent.{}", scenario.links[index as usize / 2].name);
                let (event, sequence) = match event {
                    AgentEvent::LocalRetransmission { sequence } => {
                        ("local_retransmission", sequence)
                    }
                    AgentEvent::LocalTimeout { sequence } => ("local_timeout", sequence),
                    AgentEvent::SuppressedAck { ack } => ("suppressed_ack", ack),
                };
                push(&entity, event, sequence.into(), f64::NAN);
            }
        }
    }
    Ok(Trace { events, metrics, complete })
}
