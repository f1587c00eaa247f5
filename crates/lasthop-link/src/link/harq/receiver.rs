//! Receiving half of hybrid ARQ: collects units, decodes packets, sends feedback for each
//! transmission, and delivers in order.

use super::super::numbered::Numbered;
use super::super::{FrameKind, LinkCounters, LinkEvent};
use super::Feedback;
use lasthop_base::coding::{CodedUnits, UnitSet};
use lasthop_base::packet::Payload;
use std::collections::VecDeque;

/// Units received of one packet.
#[derive(Clone, Debug)]
struct Held<P> {
    units: UnitSet,
    /// The encoded units; after decoding, the packet.
    packet: Option<P>,
    is_decoded: bool,
}

impl<P> Default for Held<P> {
    fn default() -> Self {
        Held { units: UnitSet::default(), packet: None, is_decoded: false }
    }
}

/// Receiving half of one end.
#[derive(Clone, Debug)]
pub(super) struct Receiver<P> {
    window: u64,
    /// Next number to deliver.
    expected: u64,
    held: Numbered<Held<P>>,
    feedback: Feedback,
    is_in_order: bool,
    /// Feedback deferred until a later frame is received.
    deferred: Option<FrameKind>,
    /// Feedback and Skip acknowledgments to send.
    answers: VecDeque<FrameKind>,
    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    counters: LinkCounters,
}

impl<P> Receiver<P> {
    pub fn new(window: u32, feedback: Feedback, is_in_order: bool) -> Self {
        Receiver {
            window: u64::from(window),
            expected: 0,
            held: Numbered::new(),
            feedback,
            is_in_order,
            deferred: None,
            answers: VecDeque::new(),
            up: VecDeque::new(),
            events: VecDeque::new(),
            counters: LinkCounters::default(),
        }
    }

    pub fn expected(&self) -> u64 {
        self.expected
    }

    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    #[inline]
    pub fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    #[inline]
    pub fn poll_answer(&mut self) -> Option<FrameKind> {
        let kind = self.answers.pop_front()?;
        if let FrameKind::Feedback { sequence, needed: 1.., .. } = kind {
            self.counters.nacks += 1;
            self.events.push_back(LinkEvent::NackSent { sequence });
        } else {
            self.counters.acks += 1;
        }
        Some(kind)
    }

    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    /// Adds a packet that is delivered before all waiting ones.
    pub fn deliver_first(&mut self, packet: P) {
        self.up.push_front(packet);
    }

    /// Returns `true` if a packet waits for delivery.
    #[inline]
    pub fn has_up(&self) -> bool {
        !self.up.is_empty()
    }

    #[inline]
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    #[inline]
    pub fn drop_events(&mut self) {
        self.events.clear();
    }

    /// Processes a Skip: the sender has discarded all packets missing before `next`.
    pub fn on_skip(&mut self, next: u64) {
        // A correct sender does not exceed the window.
        if next <= self.expected + self.window {
            self.pass(next);
        }
        self.answers.push_back(FrameKind::SkipAck { next });
    }

    /// Delivers the decoded packets before `next` and skips the missing ones.
    fn pass(&mut self, next: u64) {
        while self.expected < next {
            let sequence = self.expected;
            let held = std::mem::take(&mut self.held[sequence]);
            self.expected += 1;
            if held.is_decoded {
                self.up.extend(held.packet);
            } else {
                self.counters.skipped += 1;
                self.events.push_back(LinkEvent::Abandoned { sequence });
            }
        }
        self.deliver();
    }

    /// Delivers the packets that are next in order.
    #[inline]
    fn deliver(&mut self) {
        loop {
            let sequence = self.expected;
            let held = &mut self.held[sequence];
            if !held.is_decoded {
                return;
            }
            if let Some(packet) = held.packet.take() {
                self.up.push_back(packet);
            }
            *held = Held::default();
            self.expected += 1;
        }
    }
}

impl<P: Payload> Receiver<P> {
    /// Processes a frame of whose units at least one was received: those in the mask `intact`.
    /// Packets more than `behind` before `sequence` are no longer expected. Replaces `content` by
    /// the first packet to deliver, if it is the packet of this frame.
    #[inline]
    pub fn on_block(
        &mut self,
        sequence: u64,
        units: CodedUnits,
        intact: u64,
        behind: u16,
        content: &mut Option<P>,
    ) {
        let edge = sequence.saturating_sub(u64::from(behind));
        if edge > self.expected {
            self.pass(edge);
        }
        if sequence >= self.expected + self.window {
            // A correct sender does not exceed the window.
            self.counters.discarded += 1;
            *content = None;
            return;
        }
        let intact = intact & units.all();
        self.held.reach(self.expected, sequence);
        let needed = self.gather(sequence, units, intact, content);
        let (first, received) = (units.first, intact.count_ones() as u8);
        let answer = FrameKind::Feedback { sequence, first, received, needed };
        if let Some(deferred) = self.deferred.take() {
            self.answers.push_back(deferred);
        }
        let has_last = intact >> (units.units.max(1) - 1) & 1 == 1;
        if self.feedback == Feedback::FrameEnd || needed == 0 || has_last {
            self.answers.push_back(answer);
        } else {
            self.deferred = Some(answer);
        }
    }

    /// Stores the received units, which `content` contains, and decodes the packet if possible. Returns
    /// the number of units still needed.
    #[inline]
    fn gather(
        &mut self,
        sequence: u64,
        units: CodedUnits,
        intact: u64,
        content: &mut Option<P>,
    ) -> u8 {
        let expected = self.expected;
        let held = &mut self.held[sequence];
        if sequence < expected || held.is_decoded {
            self.counters.duplicates += 1;
            *content = None;
            return 0;
        }
        let new = held.units.insert_run(units.first, intact);
        let count = held.units.len();
        let missing = u16::from(units.data).saturating_sub(count);
        if missing == 0 && held.packet.is_none() {
            P::decode_frame(content, &units, new, count);
        } else {
            if let Some(arrived) = content.take() {
                P::gather_units(&mut held.packet, arrived, &units, new);
            }
            if missing > 0 {
                return missing as u8;
            }
            let packet = held.packet.take();
            *content = packet.and_then(|packet| packet.decode_units(&units, count));
        }
        held.is_decoded = true;
        if !held.units.has_all_below(units.data) {
            self.counters.recovered += 1;
            self.events.push_back(LinkEvent::Recovered { sequence });
        }
        if self.is_in_order && sequence != expected {
            held.packet = content.take();
        } else if !self.up.is_empty() {
            self.up.extend(content.take());
        }
        if sequence == expected {
            self.deliver();
        }
        0
    }
}
