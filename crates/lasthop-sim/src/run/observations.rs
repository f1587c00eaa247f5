//! Finds the packets of a capture in the events of a replication: each packet once, with the time and
//! the place at which it is observed and its outcome.

use super::radiotap::OnAir;
use crate::agent::AgentEvent;
use crate::sim::ids::DirectionId;
use crate::sim::probe::{Event, FrameLabel};
use lasthop_base::packet::Packet;
use lasthop_base::units::Instant;
use lasthop_link::link::FrameKind;
use lasthop_wlan::dcf::{AirFate, AirFrame};
use std::collections::{HashMap, HashSet, VecDeque};

/// A packet observed at a time and a place.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    pub at: Instant,
    pub direction: DirectionId,
    /// Whether the packet is observed at the far end of the direction.
    pub is_arriving: bool,
    pub packet: Packet,
    pub comment: String,
    /// The 802.11 frame that carried the packet, or a control frame.
    pub on_air: Option<OnAir>,
}

impl Observation {
    /// An observation at the near end of the direction.
    fn entering(at: Instant, direction: DirectionId, packet: Packet, comment: String) -> Self {
        Observation { at, direction, is_arriving: false, packet, comment, on_air: None }
    }
}

/// State of one direction while its events are processed in order.
#[derive(Clone, Debug, Default)]
struct DirectionHistory {
    /// Number of packets sent, retransmissions excluded.
    left: u64,
    /// Dropped packets that are not yet listed: the number of packets sent before them, the time of
    /// the drop, and the packet.
    refused: VecDeque<(u64, Instant, Packet)>,
    /// For each service, one more than the highest sequence number sent.
    next: HashMap<u8, u64>,
    /// Services that have sent segments of a packet, but not the last one.
    inside: HashSet<u8>,
    /// The indices of the last RESET and RESET ACK.
    resets: [Option<u64>; 2],
    /// Packets that the agent at the near end is about to send.
    agents_due: u32,
    /// Queued packets, and whether they were sent by the agent.
    waiting: VecDeque<(Packet, bool)>,
}

/// Relation of a frame to the packet in it.
enum Role {
    /// The first transmission of a packet or of its first segment.
    New,
    /// A retransmission of the frame with this number, or a frame that carries one; of this service
    /// or layer.
    Copy(u64, u8),
    /// A further segment, or a retransmitted one.
    Piece,
}

impl DirectionHistory {
    /// Restarts the numbering of a service once per reset, regardless of the number of RESET
    /// frames.
    fn on_control(&mut self, label: FrameLabel) {
        let (place, index) = match label.kind {
            FrameKind::Reset { index } => (0, index),
            FrameKind::ResetAck { index } => (1, index),
            _ => return,
        };
        if self.resets[place].replace(index) != Some(index) {
            self.next.remove(&label.service);
            self.inside.remove(&label.service);
        }
    }

    /// Removes a packet from the queued ones when it or its first segment is sent. Returns `true`
    /// if it is the agent's own.
    fn leave(&mut self, packet: &Packet) -> bool {
        // A segment has a different length, and the queue may have marked the packet.
        let is_it = |&(mut waiting, _): &(Packet, bool)| {
            (waiting.bytes, waiting.tcp.ecn) = (packet.bytes, packet.tcp.ecn);
            waiting == *packet
        };
        let place = self.waiting.iter().position(is_it);
        place.and_then(|place| self.waiting.remove(place)).is_some_and(|(_, is_own)| is_own)
    }

    /// Lists the dropped packets whose turn has come, after a packet has been sent at `start`.
    fn show_refused(
        &mut self,
        direction: DirectionId,
        start: Instant,
        seen: &mut Vec<Observation>,
    ) {
        self.left += 1;
        while let Some(&(after, refused_at, packet)) = self.refused.front()
            && after <= self.left
        {
            self.refused.pop_front();
            let comment = refusal(refused_at);
            let at = start.max(refused_at);
            seen.push(Observation::entering(at, direction, packet, comment));
        }
    }

    fn role(&mut self, FrameLabel { kind, service, .. }: FrameLabel) -> Role {
        let next = self.next.entry(service).or_default();
        match kind {
            FrameKind::Data { sequence } | FrameKind::Block { sequence, .. }
                if sequence < *next =>
            {
                Role::Copy(sequence, service)
            }
            FrameKind::Data { sequence } | FrameKind::Block { sequence, .. } => {
                *next = sequence + 1;
                Role::New
            }
            FrameKind::Segment { sequence, is_last, .. } if sequence >= *next => {
                // If a packet is discarded before its last segment, a number is skipped.
                let is_next = sequence == *next;
                *next = sequence + 1;
                let is_begun = self.inside.remove(&service);
                if !is_last {
                    self.inside.insert(service);
                }
                if is_begun && is_next { Role::Piece } else { Role::New }
            }
            _ => Role::Piece,
        }
    }
}

/// Frames of the upper layers of a link, by their layer and number.
type LayerFrames = HashMap<(u8, u32), FrameLabel>;

impl DirectionHistory {
    /// Determines the relation of a frame of layer `label.service` to its packet through the layers
    /// above.
    fn role_in_layers(&mut self, label: FrameLabel, above: &LayerFrames) -> Role {
        let role = self.role(label);
        let carried = label.carries.zip(label.service.checked_sub(1));
        match carried.and_then(|(number, layer)| above.get(&(layer, number))) {
            Some(&upper) if matches!(role, Role::New) => self.role_in_layers(upper, above),
            _ => role,
        }
    }
}

/// Returns `true` if a frame, or a frame of an upper layer in it, contains a segment of a packet.
fn is_piece(label: FrameLabel, above: &LayerFrames) -> bool {
    let carried = label.carries.zip(label.service.checked_sub(1));
    let upper = carried.and_then(|(number, layer)| above.get(&(layer, number)));
    matches!(label.kind, FrameKind::Segment { .. })
        || upper.is_some_and(|&upper| is_piece(upper, above))
}

fn refusal(at: Instant) -> String {
    format!("dropped by the queue at {:.9} s", at.as_secs_f64())
}

/// Derives the observations from events in the order of their computation.
pub(super) fn observations(
    events: &[(Instant, Event)],
    on_wlan: &[bool],
    layers: &[Vec<String>],
    at_host: bool,
) -> Vec<Observation> {
    let mut passed = vec![LayerFrames::new(); on_wlan.len()];
    for &(_, event) in events {
        if let Event::LayerSent { direction, number, label, .. } = event {
            passed[direction.index()].insert((label.service, number), label);
        }
    }
    let histories = vec![DirectionHistory::default(); on_wlan.len()];
    let mut observer = Observer { on_wlan, layers, at_host, passed, histories, seen: Vec::new() };
    for &(at, event) in events {
        observer.on_event(at, event);
    }
    observer.finish()
}

/// State while the events of a replication are processed in order.
struct Observer<'a> {
    /// For each direction, whether its frames are those of a WLAN.
    on_wlan: &'a [bool],
    /// For each direction, the names of its layers.
    layers: &'a [Vec<String>],
    /// Whether only packets are observed, as at a host, and no frames.
    at_host: bool,
    /// For each direction, the frames that the layers above the lowest one send.
    passed: Vec<LayerFrames>,
    histories: Vec<DirectionHistory>,
    seen: Vec<Observation>,
}

impl Observer<'_> {
    fn history(&mut self, direction: DirectionId) -> &mut DirectionHistory {
        &mut self.histories[direction.index()]
    }

    fn on_event(&mut self, at: Instant, event: Event) {
        match event {
            Event::Queue { direction, packet, .. } => {
                let history = self.history(direction);
                // The event of the agent directly precedes the one of its packet.
                let is_own = history.agents_due > 0;
                history.agents_due -= u32::from(is_own);
                history.waiting.push_back((packet, is_own));
            }
            Event::Agent { direction, event: AgentEvent::LocalRetransmission { .. } } => {
                self.history(direction).agents_due += 1;
            }
            Event::Dropped { direction, packet, turn } => {
                self.on_dropped(at, direction, packet, turn);
            }
            // The frames of a WLAN have separate events.
            Event::FrameSent { direction, .. } if self.on_wlan[direction.index()] => {}
            Event::OnAir {
                direction,
                kind,
                fate,
                packet,
                reserves,
                tid,
                scoreboard,
                signal,
                ..
            } => {
                let frame = OnAir { kind, fate, reserves, tid, scoreboard, signal };
                self.on_air(at, direction, frame, packet);
            }
            Event::FrameSent {
                direction,
                label,
                packet: Some(packet),
                bytes,
                start,
                arrival,
                ..
            } => {
                let lost = arrival.is_none().then_some(bytes);
                self.on_frame(start, direction, self.lowest(direction, label), packet, lost);
            }
            Event::FrameSent { direction, label, packet: None, .. } => {
                let label = self.lowest(direction, label);
                self.history(direction).on_control(label);
            }
            Event::LayerSent { direction, label, .. } => self.history(direction).on_control(label),
            Event::Delivered { direction, packet, .. } if self.at_host => {
                let observation = Observation::entering(at, direction, packet, String::new());
                self.seen.push(Observation { is_arriving: true, ..observation });
            }
            _ => {}
        }
    }

    /// Returns the label of a frame with the number of the lowest layer of its link.
    fn lowest(&self, direction: DirectionId, label: FrameLabel) -> FrameLabel {
        let lowest = self.layers[direction.index()].len().saturating_sub(1) as u8;
        FrameLabel { service: label.service.max(lowest), ..label }
    }

    /// Lists a dropped packet at its `turn`, or after the packets that precede it in the queue.
    fn on_dropped(
        &mut self,
        at: Instant,
        direction: DirectionId,
        packet: Packet,
        turn: Option<Instant>,
    ) {
        let history = &mut self.histories[direction.index()];
        // The packet that has just arrived, unless the discipline drops others.
        let waiting = &mut history.waiting;
        let place = waiting.iter().rposition(|&(waiting, _)| waiting == packet);
        let place = place.unwrap_or(waiting.len());
        waiting.remove(place);
        match turn {
            Some(turn) => {
                self.seen.push(Observation::entering(turn, direction, packet, refusal(at)));
            }
            None => {
                let after = history.left + place as u64;
                let index = history.refused.partition_point(|&(known, ..)| known <= after);
                history.refused.insert(index, (after, at, packet));
            }
        }
    }

    /// Observes a frame of a WLAN.
    fn on_air(
        &mut self,
        at: Instant,
        direction: DirectionId,
        frame: OnAir,
        packet: Option<Packet>,
    ) {
        let OnAir { kind, fate, .. } = frame;
        let history = &mut self.histories[direction.index()];
        let mut notes = Vec::new();
        let is_new = matches!(
            kind,
            AirFrame::Data { is_retry: false, .. } | AirFrame::Mpdu { is_retry: false, .. }
        );
        if is_new && packet.is_some_and(|packet| history.leave(&packet)) {
            notes.push("retransmitted by the agent");
        }
        match fate {
            AirFate::Received => {}
            AirFate::Damaged => notes.push("damaged on the air"),
            AirFate::Collided => notes.push("collided"),
        }
        if is_new || !self.at_host {
            let place = if kind.is_response() { direction.opposite() } else { direction };
            let packet = packet.unwrap_or_default();
            let observation = Observation::entering(at, place, packet, notes.join(", "));
            let on_air = (!self.at_host).then_some(frame);
            self.seen.push(Observation { on_air, ..observation });
        }
        if is_new {
            history.show_refused(direction, at, &mut self.seen);
        }
    }

    /// Observes a frame of another link that carries a packet. `lost` is its length if it was lost.
    fn on_frame(
        &mut self,
        start: Instant,
        direction: DirectionId,
        label: FrameLabel,
        packet: Packet,
        lost: Option<u32>,
    ) {
        let history = &mut self.histories[direction.index()];
        let (names, above) = (&self.layers[direction.index()], &self.passed[direction.index()]);
        let role = history.role_in_layers(label, above);
        let mut notes = Vec::new();
        if matches!(role, Role::New) && history.leave(&packet) {
            notes.push("retransmitted by the agent".to_owned());
        }
        let is_cut = is_piece(label, above);
        match role {
            Role::Copy(number, part) => {
                let layer = names.get(usize::from(part)).map_or("link", String::as_str);
                notes.push(format!("copy of {layer} frame {number}"));
            }
            Role::New if is_cut => notes.push("segmented".to_owned()),
            Role::New | Role::Piece => {}
        }
        if let Some(bytes) = lost
            && !is_cut
        {
            notes.push(format!("lost on the air ({bytes} B)"));
        }
        let is_shown = match role {
            Role::New => true,
            Role::Copy(..) => !self.at_host,
            Role::Piece => false,
        };
        if is_shown {
            let comment = notes.join(", ");
            self.seen.push(Observation::entering(start, direction, packet, comment));
        }
        if matches!(role, Role::New) {
            history.show_refused(direction, start, &mut self.seen);
        }
    }

    /// Returns all observations; dropped packets that no sent packet followed are the last ones.
    fn finish(mut self) -> Vec<Observation> {
        for (direction, history) in self.histories.into_iter().enumerate() {
            let direction = DirectionId::new(direction);
            self.seen.extend(
                history.refused.into_iter().map(|(_, at, packet)| {
                    Observation::entering(at, direction, packet, refusal(at))
                }),
            );
        }
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of these segments, given as (number, whether it is the last one), begin a
    /// packet.
    fn first_pieces(history: &mut DirectionHistory, pieces: &[(u64, bool)]) -> Vec<bool> {
        let role = |&(sequence, is_last)| {
            let kind = FrameKind::Segment { sequence, is_last, poll: false };
            let label = FrameLabel { kind, ack: None, service: 0, carries: None };
            matches!(history.role(label), Role::New)
        };
        pieces.iter().map(role).collect()
    }

    #[test]
    fn packets_given_up_half_way_hide_no_others() {
        let mut history = DirectionHistory::default();
        // The second packet is discarded after two of its three segments, without its number 6 or
        // the number skipped instead. Segment 3 of the first packet is retransmitted in between.
        let pieces = [
            (2, false),
            (3, true),
            (4, false),
            (3, true),
            (5, false),
            (7, false),
            (8, true),
            (9, true),
        ];
        let expected = [true, false, true, false, false, true, false, true];
        assert_eq!(first_pieces(&mut history, &pieces), expected);
    }

    #[test]
    fn numbers_begin_again_once_a_reset() {
        let mut history = DirectionHistory::default();
        let control = |kind| FrameLabel { kind, ack: None, service: 0, carries: None };
        assert_eq!(first_pieces(&mut history, &[(0, true), (1, false)]), [true, true]);
        for kind in [FrameKind::Reset { index: 0 }, FrameKind::ResetAck { index: 0 }] {
            history.on_control(control(kind));
            assert_eq!(first_pieces(&mut history, &[(0, false), (1, true)]), [true, false]);
            // A repeated event belongs to the same reset.
            history.on_control(control(kind));
            assert_eq!(first_pieces(&mut history, &[(0, false), (1, true)]), [false, false]);
        }
    }
}
