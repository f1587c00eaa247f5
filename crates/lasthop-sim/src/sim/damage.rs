//! Damaged packets whose header could be read: who sees them.
//!
//! A link without protocol and a WLAN hand them up as what they are. The agents at its far end see them, from the link upwards,
//! as far as each lets them pass; then the transport, if the packet is at its end. A host that forwards packets drops
//! damaged ones: the next link would carry a payload that is known to be wrong.

use super::hops::{Hop, Listener, Then};
use super::probe::Probe;
use super::world::World;
use crate::agent::{Agent, Verdict};
use crate::transport::Transport;
use lasthop_base::packet::{Descriptor, Extension};

impl<P: Probe, X: Extension> World<P, X> {
    /// What came over the line or the air at hand damaged goes up.
    #[cold]
    pub(super) fn hand_up_damaged(&mut self) {
        while let Some(packet) = self.damaged.pop_front() {
            self.forward_damaged(&packet);
        }
    }

    /// A packet has crossed the direction of its hop, and only its header is as it was sent.
    fn forward_damaged(&mut self, packet: &Descriptor<X>) {
        let Hop { direction, then, listener, path, .. } = self.hops[packet.hop as usize];
        let mut next = self.directions[direction.index()].far_agent;
        while let Some(seat) = next {
            let known = &mut self.agents[seat.index()];
            next = known.above;
            let connection = known.connections[path.index()].map(|connection| connection as usize);
            if connection.is_none() && !known.agent.watches_all() {
                continue;
            }
            let verdict = known.agent.up_damaged(self.now, connection, packet);
            self.settle(seat);
            if verdict == Verdict::Suppress {
                return;
            }
        }
        if then != Then::Arrive {
            return;
        }
        match listener {
            Listener::Acting { connection, end } => {
                let known = &mut self.connections[connection.index()];
                if packet.plain_incarnation() == known.instance {
                    known.transport.receive_damaged(self.now, end, packet);
                    self.pump(connection, end);
                    self.on_progress(connection, end);
                }
            }
            // They do nothing but answer packets that arrive intact.
            Listener::Answering { .. } | Listener::Sink { .. } => {}
            Listener::Absorbing { connection } => self.absorb_damaged(connection, packet),
        }
    }
}
