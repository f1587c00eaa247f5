//! Whose packets take which hop: what an observer needs to give a packet its addresses.

use super::hops::Listener;
use super::ids::{ConnectionId, FlowId};
use super::probe::Probe;
use super::traffic::App;
use super::world::World;
use lasthop_base::packet::Extension;
use lasthop_tcp::Config;

/// Whose packets take a hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Flow index.
    pub flow: FlowId,
    /// The end of the connection that sends them; `None` of datagrams, which the flow's source
    /// sends.
    pub tcp: Option<TcpSender>,
}

/// The end of a connection that sends the packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpSender {
    /// Connection index.
    pub connection: ConnectionId,
    /// Did it open the connection?
    pub is_opener: bool,
    /// Does it sit at the host that the flow comes from?
    pub is_source: bool,
    /// The connection's parameters.
    pub config: Config,
}

impl<P: Probe, X: Extension> World<P, X> {
    /// For each [`hop`](lasthop_base::packet::Packet::hop), whose packets take it.
    pub fn senders(&self) -> Vec<Sender> {
        let of = |listener: &Listener| {
            let (connection, is_opener) = match *listener {
                Listener::Datagrams { flow } => return Sender { flow, tcp: None },
                // Who listens is the other end.
                Listener::Tcp { connection, opener } => (connection, !opener),
                Listener::Acceptor { connection } | Listener::Sink { connection } => {
                    (connection, true)
                }
            };
            let pair = &self.connections[connection.index()];
            let source_opens = match &self.flows[pair.flow.index()].app {
                // A browser opens, but for connections that carry replies only.
                App::Web(browser) => browser
                    .connections
                    .iter()
                    .any(|&[requests, replies]| connection == replies && replies != requests),
                App::File { .. } | App::Datagrams(_) | App::Background { .. } => true,
            };
            let is_source = is_opener == source_opens;
            let tcp = TcpSender { connection, is_opener, is_source, config: pair.config };
            Sender { flow: pair.flow, tcp: Some(tcp) }
        };
        self.hops.iter().map(|hop| of(&hop.listener)).collect()
    }
}
