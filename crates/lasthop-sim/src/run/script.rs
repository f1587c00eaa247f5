//! Writes one host of a simulated TCP connection as a conformance script: the calls of its
//! application, and the segments that it sends and receives.
//!
//! Not modelled: parameters that scripts cannot set (see
//! [`Recorder::new`](lasthop_script::Recorder::new)); connection instances after the first one.

use super::plan::Plan;
use super::{RunError, build, finish};
use crate::scenario::Scenario;
use crate::sim::probe::{self, Event, HostAction, Room};
use crate::sim::senders::Sender;
use crate::transport::tcp::Tcp;
use crate::transport::{End, Observed, TransportMachine};
use lasthop_base::packet::{Watched, flags};
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::units::Instant;
use lasthop_script::{Recorder, Unscriptable};
use lasthop_tcp::Role;
use std::sync::atomic::AtomicBool;

/// Maximum number of segments and calls of a script.
const MOST_EVENTS: usize = 200_000;

/// The reason why no script can be written.
#[derive(Debug, thiserror::Error)]
pub enum HostScriptError {
    /// The replication cannot run, or is too long.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The scenario has no such host, or a script cannot describe it.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

/// Runs one replication, to its end or until another thread sets `interrupt`, and returns the
/// script of one end of the first connection of a flow. Without `flow`, the only flow over TCP is
/// recorded; without `host`, the end that opens the connection.
///
/// # Errors
///
/// The scenario has no such flow over TCP, or several if `flow` is absent; the connection has no end
/// at `host`; a script cannot set a parameter of the host; the replication has more than 200,000 events of hosts.
///
/// ```
/// use lasthop_script::{DEFAULT_TOLERANCE, play};
/// use lasthop_sim::run::host_script;
/// use lasthop_sim::scenario::Scenario;
/// use lasthop_tcp::Profile;
/// use std::path::Path;
/// use std::sync::atomic::AtomicBool;
///
/// # let text = r#"
/// # name = "first"
/// # [link.air]
/// # between = ["server", "client"]
/// # rate = "2 Mbps"
/// # delay = "20 ms"
/// # errors = { kind = "uniform", loss = "1 %" }
/// # [flow.f]
/// # from = "server"
/// # to = "client"
/// # transport = { kind = "tcp", variant = "cubic" }
/// # app = { kind = "file", size = "20 kB" }
/// # "#;
/// let scenario = Scenario::from_toml(text, Path::new("."))?.points()?.remove(0).scenario;
/// let script = host_script(&scenario, [1, 0], [None; 2], &AtomicBool::new(false))?;
/// // The socket of scripts sends the same segments.
/// assert_eq!(play(&script, Profile::Linux, DEFAULT_TOLERANCE).outcome, Ok(()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn host_script(
    scenario: &Scenario,
    [seed, replication]: [u64; 2],
    [flow, host]: [Option<&str>; 2],
    interrupt: &AtomicBool,
) -> Result<String, HostScriptError> {
    let index = selected(scenario, flow)?;
    let flow = &scenario.flows[index];
    let hosts = [&flow.from, &flow.to];
    if let Some(host) = host.filter(|host| !hosts.contains(&&(*host).to_owned())) {
        let allowed = format!("{} or {}", flow.from, flow.to);
        return Err(ScenarioError::new("host", host, allowed).into());
    }
    let room = Room::new(MOST_EVENTS, interrupt);
    let recorder = probe::Recorder::only(room, |event| matches!(event, Event::Host { .. }));
    let streams = Streams { seed, replication };
    let parts = build::build::<Watched>(scenario, &Plan::new(scenario), streams)?;
    let mut world = parts.build(recorder);
    finish(&mut world, scenario, interrupt)?;
    if let Some(at) = world.probe().full {
        let (most, at) = (MOST_EVENTS, at - Instant::ZERO);
        return Err(RunError::TooManyEvents { most, at }.into());
    }
    let senders = world.senders();
    let is_selected = |sender: &&Sender| {
        let is_end = match host {
            Some(host) => sender.is_source == (flow.from == host),
            None => sender.end == End::Opener,
        };
        sender.flow.index() == index && is_end
    };
    let absent = || ScenarioError::new("flow", &flow.name, "a flow whose packets are simulated");
    let &Sender { connection, end, .. } = senders.iter().find(is_selected).ok_or_else(absent)?;
    let transport = world.take_transports().swap_remove(connection.index());
    let TransportMachine::Tcp(tcp) = transport else { unreachable!("the flow is over TCP") };
    let actions = world.into_probe().events.into_iter().filter_map(|(at, event)| match event {
        Event::Host { connection: of, end: at_end, action } => {
            (of == connection && at_end == end).then_some((at, action))
        }
        _ => None,
    });
    let script = write(actions, end, &tcp).map_err(|error| {
        let path = format!("flow.{}.transport", flow.name);
        let found = format!("a value of {} that scripts cannot set", error.0);
        ScenarioError::new(path, found, "profile \"linux\" with the default of this key")
    })?;
    let about = format!(
        "// Scenario {:?}, flow {:?}, the end that {}; seed {seed}, replication {replication}.\n",
        scenario.name,
        flow.name,
        if end == End::Opener { "opens the connection" } else { "accepts the connection" },
    );
    Ok(about + &script)
}

/// Returns the index of a flow over TCP.
fn selected(scenario: &Scenario, flow: Option<&str>) -> Result<usize, ScenarioError> {
    let flows = scenario.flows.iter().enumerate();
    let over_tcp: Vec<_> = flows.filter(|(_, flow)| flow.transport.tcp().is_some()).collect();
    let names = || over_tcp.iter().map(|(_, flow)| flow.name.as_str()).collect::<Vec<_>>();
    match (flow, over_tcp.as_slice()) {
        (None, [(index, _)]) => Ok(*index),
        (_, []) => Err(ScenarioError::new("flow", "none over TCP", "a flow over TCP")),
        (None, _) => {
            let found = format!("{} flows over TCP", over_tcp.len());
            Err(ScenarioError::new("flow", found, format!("one of {}", names().join(", "))))
        }
        (Some(name), _) => {
            let found = over_tcp.iter().find(|(_, flow)| flow.name == name);
            let absent = || {
                let allowed = format!("a flow over TCP: {}", names().join(", "));
                ScenarioError::new("flow", name, allowed)
            };
            found.map(|(index, _)| *index).ok_or_else(absent)
        }
    }
}

/// Writes the actions of the host of `end` as a script, up to its second connection instance.
fn write(
    actions: impl Iterator<Item = (Instant, HostAction)>,
    end: End,
    tcp: &Tcp,
) -> Result<String, Unscriptable> {
    let role = if end == End::Opener { Role::Opener } else { Role::Acceptor };
    let mut recorder = Recorder::new(tcp.config(), role, tcp.clock(end))?;
    let (mut is_open, mut total) = (false, 0);
    // Number of bytes of the peer with its FIN, modulo 2^32.
    let mut with_fin = None;
    for (at, action) in actions {
        match action {
            HostAction::Opened { .. } if is_open => break,
            HostAction::Opened { clock } => {
                recorder = Recorder::new(tcp.config(), role, clock)?;
            }
            HostAction::Wrote(bytes) => recorder.written(at, bytes),
            HostAction::Closed => recorder.closed(at),
            HostAction::Sent(packet) => {
                is_open = true;
                recorder.sent(at, &packet.tcp);
            }
            HostAction::Received { packet, read } => {
                is_open = true;
                recorder.received(at, &packet.tcp);
                if packet.tcp.flags & flags::FIN != 0 {
                    with_fin = Some(packet.tcp.seq.wrapping_add(packet.tcp.payload));
                }
                let read = read - u64::from(with_fin == Some(read as u32));
                if read > total {
                    recorder.read(at, read - total);
                }
                total = read;
            }
        }
    }
    Ok(recorder.script())
}
