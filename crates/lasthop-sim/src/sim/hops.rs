//! Routes through the network, compiled to one record per hop.
//!
//! The records of a path are consecutive. A packet carries the index of the record of the direction
//! that it enters or crosses ([`Packet::hop`](lasthop_base::packet::Packet)). A single lookup
//! therefore returns everything that depends on its path: the next direction, the receiver, and the
//! service.

use super::ids::{ConnectionId, DirectionId, LineId, PathId, SeatId};
use crate::transport::End;

/// Action after a packet has crossed a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It is forwarded to the next record at its time of arrival.
    Forward,
    /// It is forwarded to the next record, whose direction is chained to this one, as soon as its
    /// arrival there is computed.
    Chain,
    /// It is at its destination.
    Arrive,
}

/// The receiver at the end of a path, by its [`Reaction`](crate::transport::Reaction).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// An end that may do anything.
    Acting { connection: ConnectionId, end: End },
    /// An acceptor that only answers.
    Answering { connection: ConnectionId },
    /// An acceptor that only answers, on a reverse path that only such acceptors use. Its answers
    /// can be computed together with the packets that it receives.
    Sink { connection: ConnectionId },
    /// An acceptor that sends nothing.
    Absorbing { connection: ConnectionId },
}

impl Listener {
    /// Returns the end of the connection that receives.
    pub fn end(self) -> (ConnectionId, End) {
        match self {
            Listener::Acting { connection, end } => (connection, end),
            Listener::Answering { connection }
            | Listener::Sink { connection }
            | Listener::Absorbing { connection } => (connection, End::Acceptor),
        }
    }

    /// Returns its connection.
    pub fn connection(self) -> ConnectionId {
        self.end().0
    }
}

/// Next step of a packet whose arrival over a computed direction has been computed, unless it is
/// forwarded to a chained direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is in transit until its arrival, which is an event.
    Wait,
    /// It is received by an acceptor that sends nothing; no machine reacts.
    Absorb { connection: ConnectionId },
    /// It is replaced by the answer of a [`Listener::Sink`], which enters the direction of the next record: the
    /// reverse path follows the forward one.
    Answer { connection: ConnectionId },
}

/// The receiver of packets that have crossed a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// An opener that may do anything, without agents before it.
    Opener { connection: ConnectionId },
    /// An acceptor that only answers, without agents before it.
    Answering { connection: ConnectionId },
    /// An agent, the next direction, or another end of a connection.
    Other,
}

/// The component that takes a packet that enters a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The queue of a FIFO.
    Fifo,
    /// The queue of a FIFO, if the arrival of packets of this path must be handled as an event.
    Hop,
    /// The end of a line.
    Line(LineId),
    /// The medium of a WLAN.
    Shared,
    /// The first of the agents attached to the start of the direction.
    Agent(SeatId),
}

/// One direction on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// Index of the record in the table.
    pub place: u32,
    pub direction: DirectionId,
    pub entry: Entry,
    /// The first agent that inspects packets that have crossed the direction.
    pub far_agent: Option<SeatId>,
    pub then: Then,
    /// The step that follows if the direction is computed.
    pub step: Step,
    /// The most frequent receivers, of which one comparison selects each.
    pub arrival: Arrival,
    /// Index of the service of the path's packets on this direction; 0 on a link with a single
    /// protocol.
    pub service: u8,
    /// The receiver at the end of the path.
    pub listener: Listener,
    /// The path.
    pub path: PathId,
}
