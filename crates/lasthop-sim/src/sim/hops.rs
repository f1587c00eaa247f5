//! Ways through the network, compiled to one record a hop.
//!
//! A path is a row of consecutive records. A packet carries the index of the record of the
//! direction that it is about to enter or is crossing ([`Packet::hop`](lasthop_base::packet::Packet)), so
//! that everything that depends on its path is one lookup: where it goes next, who waits for it,
//! which service it takes.

use super::ids::{ConnectionId, DirectionId, LineId, PathId, SeatId};
use crate::transport::End;

/// What becomes of a packet that has crossed a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// It goes on to the next record, at its time.
    Forward,
    /// It goes on to the next record, whose direction is chained to this one: as soon as its
    /// arrival there is computed.
    Chain,
    /// It is at its end.
    Arrive,
}

/// Who waits for packets at the end of a path, by its [`Reaction`](crate::transport::Reaction).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// An end that may do anything.
    Acting { connection: ConnectionId, end: End },
    /// An acceptor that only answers.
    Answering { connection: ConnectionId },
    /// An acceptor that only answers, on a way back that only such acceptors use: its answers can be computed together with
    /// the packets that it receives.
    Sink { connection: ConnectionId },
    /// An acceptor that sends nothing.
    Absorbing { connection: ConnectionId },
}

impl Listener {
    /// The end that listens.
    pub fn end(self) -> (ConnectionId, End) {
        match self {
            Listener::Acting { connection, end } => (connection, end),
            Listener::Answering { connection }
            | Listener::Sink { connection }
            | Listener::Absorbing { connection } => (connection, End::Acceptor),
        }
    }

    /// Its connection.
    pub fn connection(self) -> ConnectionId {
        self.end().0
    }
}

/// Who takes a packet that enters a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The queue of a FIFO.
    Fifo,
    /// The same, where a packet of this path is to be handled in its time when it has crossed.
    Hop,
    /// The end of a line.
    Line(LineId),
    /// The air of a WLAN.
    Shared,
    /// The first of the agents that sit there.
    Agent(SeatId),
}

/// One direction on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hop {
    /// Where the record stands in the table.
    pub place: u32,
    pub direction: DirectionId,
    pub entry: Entry,
    /// The first agent that a packet meets which has crossed the direction.
    pub far_agent: Option<SeatId>,
    pub then: Then,
    /// The service that the path's packets take on this direction; 0 where there is only one
    /// protocol.
    pub service: u8,
    /// Who waits at the end of the path.
    pub listener: Listener,
    /// The path.
    pub path: PathId,
}
