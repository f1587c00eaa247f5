//! The alternating-bit protocol: one frame at a time, retransmitted until it is acknowledged. Sequence numbers
//! are unbounded here; a wire format would contain their lowest bit only.
//!
//! Source: Bartlett, Scantlebury and Wilkinson, Commun. ACM 12(5), 1969.
//!
//! ```text
//!             enqueue             sent                 its acknowledgment
//!   (none) -----------> to send ---------> waiting ------------------------> (none)
//!                          ^                  | timer
//!                          +------------------+
//! ```
//!
//! The receiver delivers the expected number and acknowledges every frame. The timer runs
//! from the start of the transmission.
//!
//! Limitations: no limit of retransmissions, no negative acknowledgments, no byte format.

use lasthop::link::{Endpoint, Frame, FrameKind, LinkCounters, LinkEvent};
use lasthop::packet::Payload;
use lasthop::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;

/// Parameters of the alternating-bit protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternatingBitParameters {
    /// Retransmission timeout from the start of a frame's transmission; above the round trip.
    pub timeout: Duration,
    /// Link header of a data frame.
    pub header: Bytes,
    /// Length of an acknowledgment.
    pub control: Bytes,
}

/// One end of a link with alternating bits.
#[derive(Clone, Debug)]
pub struct AlternatingBit<P> {
    parameters: AlternatingBitParameters,
    /// The unacknowledged packet and its number.
    packet: Option<P>,
    sequence: u64,
    must_send: bool,
    was_sent: bool,
    deadline: Instant,
    /// Next number to deliver.
    expected: u64,
    ack_pending: bool,
    up: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    counters: LinkCounters,
}

impl<P> AlternatingBit<P> {
    /// An idle endpoint.
    pub fn new(parameters: AlternatingBitParameters) -> Self {
        AlternatingBit {
            parameters,
            packet: None,
            sequence: 0,
            must_send: false,
            was_sent: false,
            deadline: Instant::NEVER,
            expected: 0,
            ack_pending: false,
            up: VecDeque::new(),
            events: VecDeque::new(),
            counters: LinkCounters::default(),
        }
    }
}

impl<P: Payload + Clone> Endpoint<P> for AlternatingBit<P> {
    type Control = FrameKind;

    fn wants_packet(&self) -> bool {
        self.packet.is_none()
    }

    fn enqueue(&mut self, _now: Instant, packet: P) {
        self.packet = Some(packet);
        self.must_send = true;
        self.was_sent = false;
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        let ack = Some(self.expected);
        if !self.must_send {
            if !self.ack_pending {
                return None;
            }
            self.ack_pending = false;
            self.counters.acks += 1;
            let bytes = self.parameters.control.get() as u32;
            return Some(Frame { kind: FrameKind::Ack, ack, payload: None, bytes, service: 0 });
        }
        let packet = self.packet.clone()?;
        let sequence = self.sequence;
        if self.was_sent {
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence });
        } else {
            self.counters.data_frames += 1;
        }
        self.must_send = false;
        self.was_sent = true;
        self.ack_pending = false; // it rides on this frame
        self.deadline = now + self.parameters.timeout;
        let bytes = self.parameters.header.get() as u32 + packet.wire_bytes();
        Some(Frame {
            kind: FrameKind::Data { sequence },
            ack,
            payload: Some(packet),
            bytes,
            service: 0,
        })
    }

    fn has_frame(&self) -> bool {
        self.must_send || self.ack_pending
    }

    fn receive(&mut self, _now: Instant, frame: Frame<P>) {
        if frame.ack == Some(self.sequence + 1) && self.was_sent {
            self.packet = None;
            self.sequence += 1;
            self.must_send = false;
            self.was_sent = false;
            self.deadline = Instant::NEVER;
        }
        if let (FrameKind::Data { sequence }, Some(packet)) = (frame.kind, frame.payload) {
            self.ack_pending = true;
            if sequence == self.expected {
                self.expected += 1;
                self.up.push_back(packet);
            } else {
                self.counters.duplicates += 1;
            }
        }
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.up.pop_front()
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    fn next_timeout(&self) -> Instant {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.deadline <= now {
            self.deadline = Instant::NEVER;
            self.must_send = true;
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence: self.sequence });
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}
