//! Parts of a scenario that are unsupported with real packets, detected before the run starts.

use lasthop_link::link::LinkEndpoint;
use lasthop_sim::scenario::{Link, LinkProtocol, Scenario};

/// Maximum number of hosts of a live scenario: each has a route to every other one.
pub const MOST_HOSTS: usize = 256;

/// Minimum MTU of an IPv4 link in bytes (RFC 791).
pub const LEAST_MTU: u32 = 68;

/// Error of a scenario that is unsupported in live runs: the key and the problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Refused {
    /// The key of the scenario, or the option.
    pub key: String,
    /// Value found and values allowed.
    pub problem: String,
}

impl Refused {
    /// Creates an error from its parts.
    pub fn new(key: impl Into<String>, found: &str, allowed: &str) -> Self {
        Refused { key: key.into(), problem: format!("found {found}; expected {allowed}") }
    }
}

/// Checks that a scenario is supported in live runs.
///
/// # Errors
/// The key of the first unsupported part.
pub fn check(scenario: &Scenario) -> Result<(), Refused> {
    if let Some(radio) = scenario.radios.first() {
        return Err(Refused::new(
            format!("radio.{}", radio.name),
            "a framed radio",
            "point-to-point links and WLANs: framed radios are simulated only",
        ));
    }
    for link in scenario.links.iter() {
        for agent in &link.agents.0 {
            if link.wlan.is_some() {
                return Err(Refused::new(
                    format!("link.{}.agent", link.name),
                    &format!("{:?} on a link of a WLAN", agent.kind()),
                    "no agents on links of WLANs: they are simulated only",
                ));
            }
            if agent.controlled_senders().is_some() {
                let needs = "needs the counters of simulated TCP senders";
                return Err(self::agent(link, agent.kind(), needs));
            }
            if agent.splits() {
                return Err(self::agent(link, agent.kind(), "terminates connections at its host"));
            }
        }
    }
    let hosts = scenario.hosts();
    if hosts.len() > MOST_HOSTS {
        let found = format!("{} hosts", hosts.len());
        return Err(Refused::new("link", &found, &format!("up to {MOST_HOSTS} hosts")));
    }
    Ok(())
}

/// Error for an agent that requires a feature unavailable on live links.
pub(super) fn agent(link: &Link, kind: &str, does: &str) -> Refused {
    Refused::new(
        format!("link.{}.agent", link.name),
        &format!("{kind:?}, which {does}"),
        "an agent that only inspects packets, such as \"snoop\"",
    )
}

/// Rejects an endpoint of `link` whose frames have no byte form.
pub(super) fn check_bytes(link: &Link, endpoint: &LinkEndpoint<Vec<u8>>) -> Result<(), Refused> {
    let refuse = |path: String, kind: &str| {
        Err(Refused::new(
            path,
            &format!("{kind:?}, whose frames have no byte form"),
            "a protocol with a byte form, such as \"selective-repeat\"",
        ))
    };
    let protocol = format!("link.{}.protocol", link.name);
    match (&link.protocol, endpoint) {
        (LinkProtocol::Services(set), LinkEndpoint::Services(machines)) => {
            let mut services = set.services.iter().enumerate();
            let ideal = services.find(|&(index, _)| !machines.endpoint(index).has_byte_form());
            ideal.map_or(Ok(()), |(_, service)| {
                let path = format!("{protocol}.service.{}.protocol", service.name);
                refuse(path, service.protocol.kind())
            })
        }
        (LinkProtocol::Stack(layers), LinkEndpoint::Stack(machines)) => {
            let mut layers = layers.protocols().iter().enumerate();
            let without = layers.find(|&(index, _)| !machines.endpoint(index).has_byte_form());
            without.map_or(Ok(()), |(index, layer)| {
                refuse(format!("{protocol}[{index}]"), layer.kind())
            })
        }
        (LinkProtocol::One(one), endpoint) if !endpoint.has_byte_form() => {
            refuse(protocol, one.kind())
        }
        _ => Ok(()),
    }
}

/// Returns the maximum packet length of a link: `asked`, or the `mtu` of the link.
pub(super) fn mtu(link: &Link, asked: Option<u32>) -> Result<u32, Refused> {
    let most = link.mtu.map_or(65_535, |most| most.get().min(65_535) as u32);
    let mtu = asked.unwrap_or(most);
    if mtu > most {
        let found = format!("{mtu} B");
        let allowed = format!("up to link.{}.mtu, {most} B", link.name);
        return Err(Refused::new("--mtu", &found, &allowed));
    }
    if mtu < LEAST_MTU {
        let key = match asked {
            Some(_) => "--mtu".to_owned(),
            None => format!("link.{}.mtu", link.name),
        };
        let allowed = format!("at least {LEAST_MTU} B, the minimum MTU of IPv4");
        return Err(Refused::new(key, &format!("{mtu} B"), &allowed));
    }
    Ok(mtu)
}
