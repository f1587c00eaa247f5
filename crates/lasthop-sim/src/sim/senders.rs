//! Whose packets take which hop: what an observer needs to give a packet its addresses.

use super::ids::{ConnectionId, FlowId};
use super::probe::Probe;
use super::world::World;
use crate::transport::End;
use lasthop_base::packet::Extension;

/// Whose packets take a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Flow index.
    pub flow: FlowId,
    /// Connection index.
    pub connection: ConnectionId,
    /// The end of the connection.
    pub end: End,
    /// Whether it is at the host that the flow comes from.
    pub is_source: bool,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// For each [`hop`](lasthop_base::packet::Packet::hop), whose packets take it.
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
