//! The alternating-bit protocol with its own kind of frames, whose sequence numbers are single bits.
//!
//! Source: Bartlett, Scantlebury and Wilkinson, Commun. ACM 12(5), 1969.
//!
//! ```text
//!             enqueue             sent            acknowledgment of its bit
//!   (none) -----------> to send ---------> waiting ------------------------> (none), next bit
//!                          ^                  | timer
//!                          +------------------+
//! ```
//!
//! The receiver delivers a frame whose bit it expects, and acknowledges every data frame. The timer starts with the
//! transmission.
//!
//! Not modelled: piggybacked acknowledgments, a limit on retransmissions, a byte format.

use lasthop::link::{
    Abilities, CarriesFrames, Control, Endpoint, Frame, FrameKind, LinkCounters, LinkError,
    LinkEvent, OwnProtocol, Site,
};
use lasthop::packet::Payload;
use lasthop::units::{Bytes, Duration, Instant};
use std::collections::VecDeque;
use std::fmt::Debug;

/// Length of the header of both kinds of frame.
const HEADER: u32 = 1;

/// Content of a frame except its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// Data frame, with the bit of its packet.
    Data(bool),
    /// Acknowledgment, with the bit of the received packet.
    Ack(bool),
}

/// Description of a frame for the medium and for observers.
impl Control for Bit {
    fn kind(self) -> FrameKind {
        let (bit, has_packet) = match self {
            Bit::Data(bit) => (bit, true),
            Bit::Ack(bit) => (bit, false),
        };
        FrameKind::Other { number: bit.into(), has_packet, fields: [0; 2] }
    }

    fn from_kind(kind: FrameKind) -> Option<Self> {
        match kind {
            FrameKind::Other { number, has_packet: true, .. } => Some(Bit::Data(number == 1)),
            FrameKind::Other { number, has_packet: false, .. } => Some(Bit::Ack(number == 1)),
            _ => None,
        }
    }
}

/// Parameters of the protocol.
#[derive(Clone, Copy, Debug)]
pub struct OneBit {
    /// Retransmission timeout from the start of a transmission; longer than the RTT.
    pub timeout: Duration,
}

impl OwnProtocol for OneBit {
    type Endpoint<P: CarriesFrames + Debug + Send + Sync + 'static> = OneBitEndpoint<P>;

    fn name(&self) -> &'static str {
        "one-bit"
    }

    fn header(&self) -> Bytes {
        Bytes::new(HEADER.into())
    }

    fn build<P: CarriesFrames + Debug + Send + Sync + 'static>(
        &self,
        _site: &Site,
    ) -> Result<OneBitEndpoint<P>, LinkError> {
        Ok(OneBitEndpoint {
            timeout: self.timeout,
            packet: None,
            bit: false,
            has_sent: false,
            is_due: false,
            deadline: Instant::NEVER,
            expected: false,
            answer: None,
            delivered: VecDeque::new(),
            events: VecDeque::new(),
            counters: LinkCounters::default(),
        })
    }
}

/// One end of a link.
#[derive(Clone, Debug)]
pub struct OneBitEndpoint<P> {
    timeout: Duration,
    /// The unacknowledged packet, if any, and its bit.
    packet: Option<P>,
    bit: bool,
    has_sent: bool,
    /// Whether the packet is due to be sent.
    is_due: bool,
    deadline: Instant,
    /// The bit of the next packet to deliver.
    expected: bool,
    /// The bit to acknowledge.
    answer: Option<bool>,
    delivered: VecDeque<P>,
    events: VecDeque<LinkEvent>,
    counters: LinkCounters,
}

impl<P: Payload + Clone> Endpoint<P> for OneBitEndpoint<P> {
    type Control = Bit;

    fn wants_packet(&self) -> bool {
        self.packet.is_none() && self.answer.is_none()
    }

    fn enqueue(&mut self, _now: Instant, packet: P) {
        self.packet = Some(packet);
        (self.is_due, self.has_sent) = (true, false);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P, Bit>> {
        if let Some(bit) = self.answer.take() {
            self.counters.acks += 1;
            return Some(Frame { bytes: HEADER, ..Frame::control(Bit::Ack(bit)) });
        }
        let packet = self.packet.clone().filter(|_| self.is_due)?;
        if self.has_sent {
            self.counters.retransmissions += 1;
            self.events.push_back(LinkEvent::Retransmitted { sequence: self.bit.into() });
        } else {
            self.counters.data_frames += 1;
        }
        (self.is_due, self.has_sent) = (false, true);
        self.deadline = now + self.timeout;
        let bytes = HEADER + packet.wire_bytes();
        Some(Frame { payload: Some(packet), bytes, ..Frame::control(Bit::Data(self.bit)) })
    }

    fn has_frame(&self) -> bool {
        self.answer.is_some() || self.is_due
    }

    fn receive(&mut self, _now: Instant, frame: Frame<P, Bit>) {
        match frame.kind {
            Bit::Ack(bit) => {
                if self.has_sent && bit == self.bit {
                    self.packet = None;
                    self.bit = !bit;
                    (self.is_due, self.has_sent) = (false, false);
                    self.deadline = Instant::NEVER;
                }
            }
            Bit::Data(bit) => {
                self.answer = Some(bit);
                if bit == self.expected {
                    self.expected = !bit;
                    self.delivered.extend(frame.payload);
                } else {
                    self.counters.duplicates += 1;
                }
            }
        }
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.delivered.pop_front()
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
            self.is_due = true;
            self.counters.timeouts += 1;
            self.events.push_back(LinkEvent::TimedOut { sequence: self.bit.into() });
        }
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

impl<P: Payload + Clone> Abilities<P> for OneBitEndpoint<P> {}
