//! The protocols of a link: model, reading, writing, and common operations.

use super::layers::Layers;
use super::model::{Flow, Scenario};
use super::routes::Routes;
use lasthop_base::schema::error::{ScenarioError, suggestion};
use lasthop_base::schema::keys::{
    Field, Key, Limits, Node, Read, Shape, Table, Variant, choice, table,
};
use lasthop_base::schema::named::Named;
use lasthop_base::schema::shorthand::OrShort;
use lasthop_base::units::{Bytes, Duration};
use lasthop_link::channel::listed::FrameNumbers;
use lasthop_link::link::{CLASSES, MAX_SERVICES, Own, Protocol};
use lasthop_link::queue::Discipline;
use serde_json::{Map, Value};

/// Treatment of lost frames on a link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkProtocol {
    /// A single protocol for all packets.
    One(Protocol),
    /// Each service has its own protocol.
    Services(Services),
    /// Each layer has its own protocol.
    Stack(Layers),
    /// A protocol of another crate, which no scenario file can name.
    Own(Own),
}

/// A link shared by services.
#[derive(Clone, Debug, PartialEq)]
pub struct Services {
    /// The services in file order.
    pub services: Vec<Service>,
    /// Interval of share measurements; `None`: the weights are fixed.
    pub measure: Option<Duration>,
    /// Size of the service identifier in every frame.
    pub identifier: Bytes,
}

/// One service of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name: `NAME` of `[link.LINK.protocol.service.NAME]`.
    pub name: String,
    /// Its share, as a part of the sum of all weights.
    pub weight: u32,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its queue; `None`: the `queue` of the link.
    pub queue: Option<OrShort<Discipline>>,
    /// Frame header added to each packet, excluding the identifier.
    pub header: Bytes,
    /// Traffic classes of its packets on a live link.
    pub classes: Option<TrafficClasses>,
}

/// Distinct DSCPs. Written as a list in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficClasses(
    /// In ascending order.
    pub Vec<u64>,
);

impl Field for TrafficClasses {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Integers;
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        FrameNumbers::read(node, limits).map(|numbers| TrafficClasses(numbers.0))
    }
    fn write(&self) -> Value {
        self.0.as_slice().into()
    }
}

table! {
    /// Keys of `protocol = { kind = "services" }`.
    struct ServicesKeys {
        /// Services by name, at most 16; the first is the default of flows.
        service: Vec<Service>;
        /// Source of the shares.
        shares: Shares = "weights";
        /// Interval of share measurements, default 1 s; with shares "measured" only.
        interval: Option<Duration>, Limits::POSITIVE;
        /// Size of the service identifier in every frame, including control frames.
        identifier: Bytes = "1 B", Limits::HEADER;
    }
}

table! {
    /// `[link.LINK.protocol.service.NAME]`.
    struct ServiceKeys {
        /// Share of the bit rate, as a part of the sum of all weights; unused shares are available
        /// to other services.
        weight: u32 = "1", Limits::range(1, 1000);
        /// Its link-layer protocol.
        protocol: Protocol = "raw";
        /// Queue in each direction: the capacity of a drop-tail queue, including the service's
        /// packet in transmission; or a table with a queue discipline. Default: the key queue of
        /// the link.
        queue: Option<OrShort<Discipline>>;
        /// Frame header added to each packet, excluding the identifier; default: as for a link with
        /// this protocol only.
        header: Option<Bytes>, Limits::HEADER;
        /// Traffic classes (DSCPs of RFC 2474) of its packets from real programs (`lasthop live`).
        /// Packets of other classes belong to the first service.
        classes: Option<TrafficClasses>, Limits::range(0, 63);
    }
}

choice! {
    /// Source of the shares of services.
    pub enum Shares {
        /// Fixed weights.
        Weights = "weights",
        /// Measured traffic: at the end of every interval, each service receives its fraction of
        /// the bytes offered to all services, at least 1 %. The weights apply until the end of the
        /// first interval.
        Measured = "measured",
    }
}

/// Default interval of share measurements.
const INTERVAL: Duration = Duration::from_secs(1);

const KIND: &str = "services";

/// The kinds of [`Protocol`], which exclude services: services cannot be nested.
const SINGLE: &[Variant] = match Protocol::SHAPE {
    Shape::Union(variants) => variants,
    _ => panic!("a union"),
};

/// The kinds of [`Protocol`], and services.
const VARIANTS: [Variant; SINGLE.len() + 1] = {
    let about = "Several services share the link, each with its own protocol; a service pays with \
                 its own share for what it repeats, adds or acknowledges.";
    let services = Variant { kind: KIND, about, keys: ServicesKeys::KEYS };
    let mut all = [services; SINGLE.len() + 1];
    let mut index = 0;
    while index < SINGLE.len() {
        all[index] = SINGLE[index];
        index += 1;
    }
    all
};

impl LinkProtocol {
    /// Returns the names of the services, in order; empty if all packets have the same protocol.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        let services = match self {
            LinkProtocol::One(_) | LinkProtocol::Stack(_) | LinkProtocol::Own(_) => [].as_slice(),
            LinkProtocol::Services(set) => &set.services,
        };
        services.iter().map(|service| service.name.as_str())
    }

    /// Returns the names of the services, or of the layers, the uppermost first; empty with a
    /// single protocol.
    pub fn part_names(&self) -> Vec<String> {
        match self {
            LinkProtocol::Stack(layers) => layers.names(),
            _ => self.service_names().map(str::to_owned).collect(),
        }
    }

    /// Returns the stacked layers, if any.
    pub fn layers(&self) -> Option<&Layers> {
        match self {
            LinkProtocol::Stack(layers) => Some(layers),
            _ => None,
        }
    }

    /// Returns the name of the protocol: its kind, `services`, or `stack`.
    pub fn kind(&self) -> &'static str {
        match self {
            LinkProtocol::One(protocol) => protocol.kind(),
            LinkProtocol::Services(_) => KIND,
            LinkProtocol::Stack(_) => "stack",
            LinkProtocol::Own(own) => own.name(),
        }
    }

    /// Returns the index of the service of each traffic class on a live link.
    pub fn classes(&self) -> Vec<u8> {
        let mut services = vec![0; CLASSES];
        if let LinkProtocol::Services(set) = self {
            for (index, service) in set.services.iter().enumerate() {
                for &class in service.classes.iter().flat_map(|classes| &classes.0) {
                    services[class as usize] = index as u8;
                }
            }
        }
        services
    }

    /// Returns the index of the service of a flow: the requested one, or the first.
    pub fn service_of(&self, flow: &Flow) -> usize {
        let wanted = |name: &str| flow.service.as_deref() == Some(name);
        self.service_names().position(wanted).unwrap_or(0)
    }
}

impl Field for LinkProtocol {
    const SHAPE: Shape = Shape::Unions(&VARIANTS);
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        if let Some(items) = node.value.as_array() {
            return Layers::read(node, items, limits).map(LinkProtocol::Stack);
        }
        let variant = node.variant(&VARIANTS)?;
        if variant.kind != KIND {
            return Protocol::read(node, limits).map(LinkProtocol::One);
        }
        Services::read(node).map(LinkProtocol::Services)
    }
    fn write(&self) -> Value {
        match self {
            LinkProtocol::One(protocol) => protocol.write(),
            LinkProtocol::Stack(layers) => layers.write(),
            LinkProtocol::Own(own) => {
                Map::from_iter([("kind".to_owned(), own.name().into())]).into()
            }
            LinkProtocol::Services(services) => {
                let mut map = Map::from_iter([("kind".to_owned(), KIND.into())]);
                map.extend(services.write());
                map.into()
            }
        }
    }
}

impl Table for Services {
    const KEYS: &'static [Key] = ServicesKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let ServicesKeys { service: services, shares, interval, identifier } =
            ServicesKeys::read(node)?;
        let measure = match (shares, interval) {
            (Shares::Weights, None) => None,
            (Shares::Weights, Some(interval)) => {
                let allowed = "no value, or shares \"measured\"";
                return Err(node.key_error("interval", interval.to_string(), allowed));
            }
            (Shares::Measured, interval) => Some(interval.unwrap_or(INTERVAL)),
        };
        Ok(Services { services, measure, identifier })
    }

    fn write(&self) -> Map<String, Value> {
        let Services { services, measure, identifier } = self.clone();
        let shares = if measure.is_some() { Shares::Measured } else { Shares::Weights };
        ServicesKeys { service: services, shares, interval: measure, identifier }.write()
    }
}

impl Named for Service {
    fn name(&self) -> &str {
        &self.name
    }

    fn check_all(services: &[Self], node: &Node<'_>) -> Read<()> {
        if services.len() > MAX_SERVICES {
            let found = format!("{} services", services.len());
            return Err(node.error(found, format!("at most {MAX_SERVICES}")));
        }
        for (index, service) in services.iter().enumerate() {
            let own = service.classes.iter().flat_map(|classes| &classes.0);
            let before = services[..index].iter().filter_map(|other| other.classes.as_ref());
            let taken: Vec<u64> = before.flat_map(|classes| classes.0.clone()).collect();
            if let Some(class) = own.into_iter().find(|class| taken.contains(class)) {
                let path = format!("{}.classes", node.child_path(&service.name));
                let found = format!("{class}, which a service before it has too");
                return Err(ScenarioError::new(path, found, "classes that no other service has"));
            }
        }
        Ok(())
    }
}

impl Table for Service {
    const KEYS: &'static [Key] = ServiceKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let ServiceKeys { weight, protocol, queue, header, classes } = ServiceKeys::read(node)?;
        let header = header.unwrap_or(protocol.default_header());
        if let Some(queue) = &queue {
            queue.0.check(&node.child_path("queue"))?;
        }
        Ok(Service { name: node.name().to_owned(), weight, protocol, queue, header, classes })
    }

    fn write(&self) -> Map<String, Value> {
        let Service { name: _, weight, protocol, queue, header, classes } = self.clone();
        ServiceKeys { weight, protocol, queue, header: Some(header), classes }.write()
    }
}

impl Scenario {
    /// Checks that the service that a flow requests exists on a link of its route.
    pub(super) fn check_service(
        &self,
        routes: &Routes<'_>,
        flow: &Flow,
    ) -> Result<(), ScenarioError> {
        let Some(wanted) = &flow.service else { return Ok(()) };
        let mut route = routes.route(&flow.from, &flow.to);
        route.extend(routes.route(&flow.to, &flow.from));
        let mut known: Vec<&str> = Vec::new();
        for name in route.iter().flat_map(|&(link, _)| self.links[link].protocol.service_names()) {
            if !known.contains(&name) {
                known.push(name);
            }
        }
        if known.contains(&wanted.as_str()) {
            return Ok(());
        }
        let near = suggestion(wanted, known.iter().copied());
        let allowed = if known.is_empty() {
            "no service: no link on its route has the protocol kind \"services\"".to_owned()
        } else {
            format!("a service of a link on its route: {}", known.join(", "))
        };
        let path = format!("flow.{}.service", flow.table());
        Err(ScenarioError::new(path, format!("{wanted:?}{near}"), allowed))
    }
}
