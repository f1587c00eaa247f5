//! What was on the air in one replication, and which packets went up.
//!
//! Frames of a link protocol have numbers of their own; frames of a link without one are numbered
//! in the order of their transmission, from 0. An endpoint hands packets up without their numbers.
//! They follow from what has arrived: a timer, and a frame that ends a wait, let go what is above
//! everything that went up before, in order; any other frame goes up itself, and a recovered one is
//! announced.

use crate::link::{FrameKind, LinkEvent};
use crate::sim::probe::{FrameLabel, SegmentLabel};
use crate::units::Instant;
use std::collections::{BTreeSet, VecDeque};

/// How far behind the newest number a frame is remembered that arrived and did not go up: beyond
/// every protocol's window.
const MEMORY: u64 = 1024;

/// A frame that was on the air.
#[derive(Clone, Debug, PartialEq)]
pub struct Transmission {
    /// The direction, and the service on a link of several: `link.NAME.forward`,
    /// `link.NAME.reverse.SERVICE`.
    pub entity: String,
    /// What it was: `data`, `ack`, `nack`, `keepalive` or `parity`; of rlc-am `segment`, `status`,
    /// `skip`, `skip-ack`, `reset` or `reset-ack`; of a WLAN `rts`, `cts` and `mac-ack` too.
    pub kind: &'static str,
    /// Its number: of `data` its own, of `ack` the next one expected, of `nack` the missing one, of
    /// `keepalive` the next new one, of `parity` the first of its block, of `status` the first that
    /// is missing or the next one expected, of `skip` the first that is still to be expected.
    pub sequence: u64,
    /// How many numbers it is about: of `parity` the frames of the block, otherwise 1.
    pub count: u64,
    /// Cumulative acknowledgment that it carried.
    pub ack: Option<u64>,
    /// Had its number been sent before?
    pub is_repeated: bool,
    /// The TCP segment in it, on a link without protocol.
    pub segment: Option<SegmentLabel>,
    /// Length on the air, link header included.
    pub bytes: u32,
    /// When its first bit left, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// When its last bit had left.
    pub end_ns: u64,
    /// When its last bit arrives; `None` if it was lost.
    pub arrival_ns: Option<u64>,
}

impl Transmission {
    /// A control frame of 802.11, which has no number and no delay.
    pub(super) fn control(
        entity: &str,
        (kind, bytes): (&'static str, u64),
        [start, end]: [Instant; 2],
        is_received: bool,
    ) -> Self {
        Transmission {
            entity: entity.to_owned(),
            kind,
            sequence: 0,
            count: 1,
            ack: None,
            is_repeated: false,
            segment: None,
            bytes: bytes as u32,
            start_ns: start.as_nanos(),
            end_ns: end.as_nanos(),
            arrival_ns: is_received.then_some(end.as_nanos()),
        }
    }
}

/// Follows one direction of a link, or one service in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Follower {
    /// One beyond the highest data number sent.
    next: u64,
    /// Numbers of a link without protocol that are on their way.
    in_flight: VecDeque<u64>,
    /// Data numbers that have arrived and not gone up.
    waiting: BTreeSet<u64>,
    /// One beyond the highest data number that has gone up.
    up: u64,
    /// The data frame that arrived last, until it goes up.
    arrived: Option<u64>,
    /// Numbers computed from parity that have not gone up.
    recovered: VecDeque<u64>,
}

impl Follower {
    /// A frame has been sent in the direction `entity`.
    pub fn on_sent(
        &mut self,
        entity: &str,
        label: Option<FrameLabel>,
        segment: Option<SegmentLabel>,
        bytes: u32,
        [start, end]: [Instant; 2],
        arrival: Option<Instant>,
    ) -> Transmission {
        let (kind, sequence, count) = match label.map(|label| label.kind) {
            None => ("data", self.next, 1),
            Some(FrameKind::Data { sequence }) => ("data", sequence, 1),
            Some(FrameKind::Ack) => ("ack", label.and_then(|label| label.ack).unwrap_or(0), 1),
            Some(FrameKind::Nack { sequence }) => ("nack", sequence, 1),
            Some(FrameKind::Keepalive { next }) => ("keepalive", next, 1),
            Some(FrameKind::Parity { first, count, .. }) => ("parity", first, count.into()),
            Some(FrameKind::Segment { sequence, .. }) => ("segment", sequence, 1),
            Some(FrameKind::Block { sequence, .. }) => ("block", sequence, 1),
            Some(FrameKind::Feedback { sequence, .. }) => ("feedback", sequence, 1),
            Some(FrameKind::Status { first, .. }) => ("status", first, 1),
            Some(FrameKind::Skip { next }) => ("skip", next, 1),
            Some(FrameKind::SkipAck { next }) => ("skip-ack", next, 1),
            Some(FrameKind::Reset { index }) => ("reset", index, 1),
            Some(FrameKind::ResetAck { index }) => ("reset-ack", index, 1),
        };
        if matches!(kind, "reset" | "reset-ack") {
            self.next = 0;
        }
        let is_numbered = matches!(kind, "data" | "segment" | "block");
        let is_repeated = is_numbered && sequence < self.next;
        if is_numbered {
            self.next = self.next.max(sequence + 1);
        }
        if label.is_none() && arrival.is_some() {
            self.in_flight.push_back(sequence);
        }
        Transmission {
            entity: entity.to_owned(),
            kind,
            sequence,
            count,
            ack: label.and_then(|label| label.ack),
            is_repeated,
            segment,
            bytes,
            start_ns: start.as_nanos(),
            end_ns: end.as_nanos(),
            arrival_ns: arrival.map(Instant::as_nanos),
        }
    }

    /// A frame of a link protocol has arrived.
    pub fn on_received(&mut self, label: FrameLabel) {
        self.arrived = match label.kind {
            FrameKind::Data { sequence } => {
                self.waiting.insert(sequence);
                Some(sequence)
            }
            // It goes up in order too, once it is decoded.
            FrameKind::Block { sequence, .. } => {
                if sequence >= self.up {
                    self.waiting.insert(sequence);
                }
                None
            }
            FrameKind::Segment { sequence, is_last, .. } => {
                // A packet goes up with the last of its segments, in order, whichever came last.
                if is_last && sequence >= self.up {
                    self.waiting.insert(sequence);
                }
                None
            }
            FrameKind::Skip { next } => {
                self.waiting = self.waiting.split_off(&next);
                None
            }
            FrameKind::Reset { .. } | FrameKind::ResetAck { .. } => {
                self.waiting.clear();
                self.up = 0;
                None
            }
            _ => None,
        };
        while self.waiting.first().is_some_and(|&number| number + MEMORY < self.up) {
            self.waiting.pop_first();
        }
    }

    /// The endpoint at the far end reports.
    pub fn on_event(&mut self, event: LinkEvent) {
        if let LinkEvent::Recovered { sequence } = event {
            self.recovered.push_back(sequence);
        }
    }

    /// A packet has gone up; its number, if known.
    pub fn on_delivered(&mut self, by_timer: bool) -> Option<u64> {
        if let Some(number) = self.in_flight.pop_front() {
            return Some(number);
        }
        let held = self.waiting.range(self.up..).next().copied();
        let arrived = self.arrived.filter(|_| !by_timer);
        let number = match (arrived, held) {
            (Some(arrived), Some(held)) if held < arrived && self.up <= arrived => held,
            (Some(arrived), _) => {
                self.arrived = None;
                arrived
            }
            (None, _) if !self.recovered.is_empty() => self.recovered.pop_front()?,
            (None, held) => held?,
        };
        self.waiting.remove(&number);
        self.up = self.up.max(number + 1);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(kind: FrameKind) -> FrameLabel {
        FrameLabel { kind, ack: None, service: 0 }
    }

    /// What goes up after each arrival of a data frame: so many packets.
    fn arrivals(follower: &mut Follower, arrivals: &[(u64, usize)]) -> Vec<u64> {
        let mut up = Vec::new();
        for &(sequence, packets) in arrivals {
            follower.on_received(label(FrameKind::Data { sequence }));
            up.extend((0..packets).map(|_| follower.on_delivered(false).expect("a number")));
        }
        up
    }

    #[test]
    fn copies_and_frames_out_of_turn_mislead_nobody() {
        // Go-back-N drops 2 and 3, which come again; 0 comes twice.
        let known = [(0, 1), (0, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)];
        assert_eq!(arrivals(&mut Follower::default(), &known), [0, 1, 2, 3]);
        // Out of sequence, and a frame that comes after it was given up.
        let known = [(0, 1), (3, 1), (1, 1), (2, 0), (4, 1), (6, 1), (5, 1)];
        assert_eq!(arrivals(&mut Follower::default(), &known), [0, 3, 1, 4, 6, 5]);
        // In sequence: 1 is given up as 9 arrives, and what waited goes up before it; so it does
        // when 9 itself has to wait for 8.
        let known = [(0, 1), (2, 0), (3, 0), (9, 2), (1, 0), (8, 2), (10, 1)];
        assert_eq!(arrivals(&mut Follower::default(), &known), [0, 2, 3, 8, 9, 10]);
    }

    #[test]
    fn timers_and_parity_let_packets_go() {
        let mut follower = Follower::default();
        assert_eq!(arrivals(&mut follower, &[(0, 1), (2, 0), (3, 0)]), [0]);
        let up = [(); 3].map(|()| follower.on_delivered(true));
        assert_eq!(up, [Some(2), Some(3), None]);
        // A copy that comes too late is not what a timer lets go later.
        assert_eq!(arrivals(&mut follower, &[(1, 0), (5, 0)]), [0; 0]);
        assert_eq!(follower.on_delivered(true), Some(5));

        let mut follower = Follower::default();
        assert_eq!(arrivals(&mut follower, &[(0, 1), (2, 1)]), [0, 2]);
        follower.on_received(label(FrameKind::Parity { first: 0, count: 3, lengths: 0 }));
        follower.on_event(LinkEvent::Recovered { sequence: 1 });
        assert_eq!(follower.on_delivered(false), Some(1));
        assert_eq!(arrivals(&mut follower, &[(3, 1)]), [3]);
    }

    #[test]
    fn what_never_goes_up_is_forgotten() {
        let mut follower = Follower::default();
        for number in 0..10 * MEMORY {
            // Each even number comes after it was given up.
            let known = [(2 * number + 1, 1), (2 * number, 0)];
            assert_eq!(arrivals(&mut follower, &known), [2 * number + 1]);
        }
        assert!(follower.waiting.len() as u64 <= MEMORY);
    }
}
