//! The sender of the packets on each hop, from which an observer determines the addresses of a
//! packet.

use super::ids::{ConnectionId, FlowId};
use super::probe::Probe;
use super::world::World;
use crate::transport::{End, TransportMachine};
use lasthop_base::packet::Extension;

/// The sender of the packets on a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Flow index.
    pub flow: FlowId,
    /// Connection index.
    pub connection: ConnectionId,
    /// The end of the connection.
    pub end: End,
    /// Whether this end is at the flow's source host.
    pub is_source: bool,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// Returns the transports of the connections of a flow.
    pub fn transports_of(&self, flow: FlowId) -> impl Iterator<Item = &TransportMachine> {
        let own = self.connections.iter().filter(move |known| known.flow == flow);
        own.map(|known| &known.transport)
    }

    /// Returns the sender of the packets on each [`hop`](lasthop_base::packet::Packet::hop).
    pub fn senders(&self) -> Vec<Sender> {
        let senders = self.hops.iter().map(|hop| {
            let (connection, listener) = hop.listener.end();
            let end = listener.other();
            let known = &self.connections[connection.index()];
            let is_source = (end == End::Opener) == known.is_opened_by_source;
            Sender { flow: known.flow, connection, end, is_source }
        });
        senders.collect()
    }
}
