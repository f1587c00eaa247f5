//! Reception of damaged packets with readable headers.
//!
//! A link without a protocol and a WLAN deliver such packets and mark them as damaged. The agents
//! at the far end receive them, starting at the link, until one of them suppresses the packet. The
//! transport receives them if the packet is at its destination. A host that forwards packets drops
//! damaged ones, because the next link would carry a payload that is known to be wrong.

use super::hops::{Hop, Listener, Then};
use super::probe::Probe;
use super::world::World;
use crate::agent::{Agent, Verdict};
use crate::transport::Transport;
use lasthop_base::packet::{Descriptor, Extension};

impl<P: Probe, X: Extension> World<P, X> {
    /// Forwards the packets that the current line or medium has received with errors.
    #[cold]
    pub(super) fn hand_up_damaged(&mut self) {
        while let Some(packet) = self.damaged.pop_front() {
            self.forward_damaged(&packet);
        }
    }

    /// Forwards a packet that has crossed the direction of its hop; only its header is intact.
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
            // These ends only answer packets that arrive intact.
            Listener::Answering { .. } | Listener::Sink { .. } => {}
            Listener::Absorbing { connection } => self.absorb_damaged(connection, packet),
        }
    }
}
