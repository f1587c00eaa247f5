//! Delivery of packets to the ends of their connections.

use super::hops::Listener;
use super::ids::ConnectionId;
use super::probe::Probe;
use super::world::World;
use crate::transport::{CarriesStreams, End as ConnectionEnd, Moment, Transport};
use lasthop_base::packet::{Descriptor, Extension};

impl<P: Probe, X: Extension> World<P, X> {
    /// Delivers a packet at its destination.
    #[inline(always)]
    pub(super) fn deliver(&mut self, listener: Listener, packet: &mut Descriptor<X>) {
        match listener {
            Listener::Acting { connection, end: ConnectionEnd::Opener } => {
                self.deliver_to::<true>(connection, packet);
            }
            Listener::Acting { connection, end: ConnectionEnd::Acceptor } => {
                self.deliver_to::<false>(connection, packet);
            }
            Listener::Answering { connection } | Listener::Sink { connection } => {
                self.deliver_to_acceptor(connection, packet);
            }
            Listener::Absorbing { connection } => self.absorb(connection, self.now, packet),
        }
    }

    /// Delivers a packet to an acceptor whose only reaction is to answer.
    #[inline(never)]
    pub(super) fn deliver_to_acceptor(
        &mut self,
        connection: ConnectionId,
        packet: &mut Descriptor<X>,
    ) {
        if P::ACTIVE {
            return self.deliver_to::<false>(connection, packet);
        }
        if self.connections[connection.index()].answer(self.now, packet) {
            self.send(packet);
        }
    }

    /// Delivers a packet to one end of its connection. It is compiled separately for opener and
    /// acceptor.
    #[inline(never)]
    pub(super) fn deliver_to<const OPENER: bool>(
        &mut self,
        connection: ConnectionId,
        packet: &Descriptor<X>,
    ) {
        let end = if OPENER { ConnectionEnd::Opener } else { ConnectionEnd::Acceptor };
        let mut known = &mut self.connections[connection.index()];
        if packet.incarnation != known.instance {
            return self.deliver_copy(connection, end, packet);
        }
        if P::ACTIVE {
            self.record_transport(self.now, connection, end, Moment::Received(&packet.full()));
            known = &mut self.connections[connection.index()];
        }
        known.transport.receive(self.now, end, packet);
        if P::ACTIVE {
            self.record_received(connection, end, packet);
            known = &mut self.connections[connection.index()];
        }
        if OPENER && let Some(sharing) = &mut self.sharing {
            sharing.on_ack(self.now, connection, known.transport.acknowledged(end));
        }
        if self.pump_in_place(connection, end) {
            self.on_progress(connection, end);
        }
    }

    /// Like [`Self::deliver_to`], for a packet that is marked as a copy or is stale.
    #[cold]
    #[inline(never)]
    fn deliver_copy(
        &mut self,
        connection: ConnectionId,
        end: ConnectionEnd,
        packet: &Descriptor<X>,
    ) {
        if packet.plain_incarnation() != self.connections[connection.index()].instance {
            return;
        }
        if P::ACTIVE {
            self.record_transport(self.now, connection, end, Moment::Received(&packet.full()));
        }
        let known = &mut self.connections[connection.index()];
        known.transport.receive_copy(self.now, end, packet);
        if P::ACTIVE {
            self.record_received(connection, end, packet);
        }
        let known = &mut self.connections[connection.index()];
        if end == ConnectionEnd::Opener
            && let Some(sharing) = &mut self.sharing
        {
            sharing.on_ack(self.now, connection, known.transport.acknowledged(end));
        }
        self.pump(connection, end);
        self.on_progress(connection, end);
    }
}
