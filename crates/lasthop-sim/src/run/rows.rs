//! The rows of a trace: derived from the events of a replication, in the order of time.

use super::air::Transmission;
use super::trace::TraceEvent;
use crate::agent::{AgentEvent, Notice};
use crate::scenario::Scenario;
use crate::sim::ids::DirectionId;
use crate::sim::probe::Event;
use crate::transport::{STATE_NAMES, TransportEvent};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::congestion_control::CongestionPhase;
use lasthop_wlan::dcf::{AirFate, AirFrame};
use lasthop_wlan::frames;
use std::collections::HashMap;

/// Returns the name and the length of an 802.11 control frame, and whether it is sent in the
/// opposite direction of its exchange.
fn control(kind: AirFrame) -> Option<((&'static str, u64), bool)> {
    match kind {
        AirFrame::Data { .. } | AirFrame::Aggregate { .. } | AirFrame::Mpdu { .. } => None,
        AirFrame::Rts => Some((("rts", frames::RTS), false)),
        AirFrame::CfEnd => Some((("cf-end", frames::CF_END), false)),
        AirFrame::Cts => Some((("cts", frames::CTS), true)),
        AirFrame::Ack => Some((("mac-ack", frames::ACK), true)),
        AirFrame::BlockAck { is_long } => Some((("block-ack", frames::block_ack(is_long)), true)),
        AirFrame::BlockAckRequest { .. } => {
            Some((("block-ack-request", frames::BLOCK_ACK_REQUEST), false))
        }
    }
}

/// Number of quantities of a state that have a row at each report; the others have a row when they
/// change.
const ALWAYS: usize = 2;

/// State of a sender.
#[derive(Clone, Copy)]
struct State {
    values: [f64; STATE_NAMES.len()],
    phase: Option<CongestionPhase>,
}

impl State {
    /// State without known values.
    const NONE: Self = State { values: [f64::NAN; STATE_NAMES.len()], phase: None };
}

/// The rows so far, and the state from which further rows are derived.
pub(super) struct Rows<'a> {
    scenario: &'a Scenario,
    /// Names of both ends of each connection.
    ends: Vec<[String; 2]>,
    directions: Vec<String>,
    /// Names by direction, and service or layer; the only protocol of a link counts as one service.
    carriers: Vec<Vec<String>>,
    /// Reception times of the frames of upper layers, by direction, layer and number.
    received: HashMap<(usize, u8, u32), Instant>,
    /// Number of packets in each queue.
    waiting: Vec<u64>,
    /// For each carrier, one more than the highest packet number sent.
    next: Vec<Vec<u64>>,
    /// Whether the latest data frame of a WLAN is a retransmission, by direction. Access categories have separate
    /// sequence numbers.
    is_retry: Vec<bool>,
    /// Latest state of both ends of each connection.
    states: Vec<[State; 2]>,
    /// Events sorted by time.
    pub events: Vec<TraceEvent>,
    /// All frames, sorted by the end of their transmission.
    pub transmissions: Vec<Transmission>,
}

impl<'a> Rows<'a> {
    /// Prepares the rows of the events `recorded`. `ends`: names of both ends of each connection.
    pub fn new(
        scenario: &'a Scenario,
        ends: Vec<[String; 2]>,
        recorded: &[(Instant, Event)],
    ) -> Self {
        let links = scenario.links.iter();
        let sides = links.clone().flat_map(|link| {
            ["forward", "reverse"].map(|side| format!("link.{}.{side}", link.name))
        });
        let directions: Vec<String> = sides.collect();
        let carriers: Vec<Vec<String>> = links
            .zip(directions.chunks(2))
            .flat_map(|(link, sides)| {
                sides.iter().map(|side| {
                    let names = link.protocol.part_names();
                    match names.as_slice() {
                        [] => vec![side.clone()],
                        names => names.iter().map(|name| format!("{side}.{name}")).collect(),
                    }
                })
            })
            .collect();
        let received = recorded.iter().filter_map(|&(at, event)| match event {
            Event::LayerReceived { direction, layer, number } => {
                Some(((direction.index(), layer, number), at))
            }
            _ => None,
        });
        Rows {
            scenario,
            states: vec![[State::NONE; 2]; ends.len()],
            ends,
            received: received.collect(),
            waiting: vec![0; directions.len()],
            is_retry: vec![false; directions.len()],
            next: carriers.iter().map(|names| vec![0; names.len()]).collect(),
            directions,
            carriers,
            events: Vec::with_capacity(recorded.len()),
            transmissions: Vec::new(),
        }
    }

    fn push(
        &mut self,
        at: Instant,
        entity: String,
        event: &'static str,
        [sequence, value]: [f64; 2],
    ) {
        let time_ns = at.as_nanos();
        self.events.push(TraceEvent { time_ns, entity, event, sequence, value });
    }

    fn direction(&self, index: DirectionId) -> String {
        self.directions[index.index()].clone()
    }

    fn carrier(&self, index: DirectionId, service: u8) -> String {
        self.carriers[index.index()][usize::from(service)].clone()
    }

    /// Adds a row with the new number of packets in a queue, if it has changed.
    fn note_queue(&mut self, at: Instant, index: DirectionId, packets: u64) {
        if std::mem::replace(&mut self.waiting[index.index()], packets) != packets {
            self.push(at, self.direction(index), "queue", [f64::NAN, packets as f64]);
        }
    }

    /// Adds the rows of an event.
    pub fn add(&mut self, at: Instant, event: Event) {
        let none = [f64::NAN; 2];
        match event {
            Event::Transport { connection, end, event } => {
                let entity = self.ends[connection.index()][end.index()].clone();
                match event {
                    TransportEvent::Single { name, number, value } => {
                        let number = number.map_or(f64::NAN, |number| number as f64);
                        self.push(at, entity, name, [number, value.unwrap_or(f64::NAN)]);
                    }
                    TransportEvent::State { values, phase } => {
                        let new = State { values, phase };
                        let place = &mut self.states[connection.index()][end.index()];
                        let old = std::mem::replace(place, new);
                        self.add_state(at, &entity, &old, &new);
                    }
                }
            }
            Event::Queue { direction, packets, .. } | Event::QueueServed { direction, packets } => {
                self.note_queue(at, direction, packets);
            }
            Event::Dropped { direction, .. } => {
                self.push(at, self.direction(direction), "drop", none);
            }
            Event::FrameSent { .. } | Event::LayerSent { .. } => self.add_frame(at, event),
            Event::LayerReceived { .. } | Event::Host { .. } => {}
            Event::OnAir { direction, kind, fate, end, reserves, .. } => {
                if fate == AirFate::Collided {
                    self.push(at, self.direction(direction), "collided", none);
                } else if reserves > Duration::ZERO {
                    let values = [end.as_secs_f64(), reserves.as_secs_f64()];
                    self.push(at, self.direction(direction), "nav", values);
                }
                if let AirFrame::Data { is_retry, .. } | AirFrame::Mpdu { is_retry, .. } = kind {
                    self.is_retry[direction.index()] = is_retry;
                }
                if let Some((kind, is_answer)) = control(kind) {
                    let index = if is_answer { direction.opposite() } else { direction };
                    let (entity, is_received) = (self.direction(index), fate == AirFate::Received);
                    let sent = Transmission::control(&entity, kind, [at, end], is_received);
                    self.transmissions.push(sent);
                }
            }
            Event::Backoff { direction, slots, window } => {
                let values = [slots.into(), window.into()];
                self.push(at, self.direction(direction), "backoff", values);
            }
            Event::Delivered { direction, service, number, .. } => {
                let sequence = number.map_or(f64::NAN, |number| number as f64);
                let entity = self.carrier(direction, service);
                self.push(at, entity, "delivered", [sequence, f64::NAN]);
            }
            Event::Link { direction, service, event } => {
                let (event, sequence) = event.named();
                let entity = self.carrier(direction, service);
                self.push(at, entity, event, [sequence as f64, f64::NAN]);
            }
            Event::Agent { direction, event } => {
                let entity = format!("agent.{}", self.scenario.links[direction.link()].name);
                let (event, sequence) = named_agent_event(event);
                self.push(at, entity, event, [sequence.into(), f64::NAN]);
            }
        }
    }

    /// Adds the rows of the state of a sender.
    fn add_state(&mut self, at: Instant, entity: &str, old: &State, new: &State) {
        for (place, (name, value)) in STATE_NAMES.into_iter().zip(new.values).enumerate() {
            let is_new = !value.is_nan() && value != old.values[place];
            if place < ALWAYS || is_new {
                self.push(at, entity.to_owned(), name, [f64::NAN, value]);
            }
        }
        if let Some(phase) = new.phase.filter(|_| new.phase != old.phase) {
            self.push(at, entity.to_owned(), phase.event(), [f64::NAN; 2]);
        }
    }

    /// Adds the rows of a frame that a link or one of its layers has sent.
    fn add_frame(&mut self, at: Instant, event: Event) {
        let (direction, label, segment, bytes, times, arrival) = match event {
            Event::FrameSent { direction, label, segment, bytes, start, arrival, .. } => {
                (direction, label, segment, bytes, [start, at], arrival)
            }
            Event::LayerSent { direction, number, label, bytes } => {
                let arrival = self.received.get(&(direction.index(), label.service, number));
                (direction, label, None, bytes, [at, at], arrival.copied())
            }
            _ => return,
        };
        let link = &self.scenario.links[direction.link()];
        let is_lowest = matches!(event, Event::FrameSent { .. });
        let lowest = match link.protocol.layers() {
            Some(layers) if is_lowest => layers.protocols().len() - 1,
            _ => 0,
        };
        let place = usize::from(label.service).max(lowest);
        let entity = self.carriers[direction.index()][place].clone();
        let next = &mut self.next[direction.index()][place];
        let mut sent = Transmission::frame(&entity, label, segment, bytes, times, arrival, next);
        if link.wlan.is_some() {
            sent.is_repeated = self.is_retry[direction.index()];
        }
        let name = if arrival.is_some() { "frame_sent" } else { "frame_lost" };
        self.push(at, entity, name, [sent.packet_number(), bytes.into()]);
        self.transmissions.push(sent);
        // The transmission is complete; radios and WLANs have no separate transmitter per
        // direction.
        let is_shared = link.radio.is_some() || link.wlan.is_some();
        let waiting = self.waiting[direction.index()];
        if is_lowest && times[0] < at && waiting > 0 && !is_shared {
            self.note_queue(at, direction, waiting - 1);
        }
    }
}

/// Returns the name of an event of an agent, and the number that it concerns.
fn named_agent_event(event: AgentEvent) -> (&'static str, u32) {
    match event {
        AgentEvent::LocalRetransmission { sequence } => ("local_retransmission", sequence),
        AgentEvent::LocalTimeout { sequence } => ("local_timeout", sequence),
        AgentEvent::SuppressedAck { ack } => ("suppressed_ack", ack),
        AgentEvent::Notified { notice: Notice::Loss, sequence } => ("eln", sequence),
        AgentEvent::Notified { notice: Notice::RetransmissionStarted, sequence } => {
            ("ersn", sequence)
        }
        AgentEvent::MarkedAck { ack } => ("marked_ack", ack),
    }
}
