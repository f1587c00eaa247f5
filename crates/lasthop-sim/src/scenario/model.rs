//! The model of a scenario: plain data, fully resolved and checked.
//!
//! What stands here is the one source of names, units, defaults and limits: `table!`, `choice!`
//! and `union!` make from it the Rust types, the reader, the JSON Schema and the reference page.

use super::agents::Agents;
use super::services::LinkProtocol;
use super::sweep::Sweep;
use super::wlan::Wlan;
use crate::app::App;
use lasthop_base::schema::keys::{Limits, choice, table, table_field};
use lasthop_base::schema::quantity::{Hosts, LinkRate};
use lasthop_base::schema::shorthand::{OrShort, Shorthand};
use lasthop_base::units::{Bytes, Duration, Rate};
use lasthop_link::channel::Errors;
use lasthop_link::link::{Air, Protocol};
use lasthop_link::queue::{DelayKeys, Discipline, PropagationDelay, RateKeys, Transmitter};

pub use crate::transport::TransportKind as Transport;
pub use crate::transport::tcp::{SackRecovery, TcpKeys};
pub use lasthop_tcp::config::{Ersn, LossDetection, UndoKind};
pub use lasthop_tcp::{Profile, Variant};

const POSITIVE: Limits = Limits::POSITIVE;
/// The largest IP packet.
pub(super) const PACKET: Limits = Limits::PACKET;
/// Headers, frame or TCP/IP.
const HEADER: Limits = Limits::HEADER;

/// A radio frame, from 1 µs to 1 h.
const FRAME: Limits = Limits::range(1_000, Duration::from_secs(3_600).as_nanos());
/// Slots of a radio frame.
const SLOTS: Limits = Limits::range(1, 10_000);

/// A network, its traffic and how often to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What the scenario is called in results.
    pub name: String,
    /// What it is about.
    pub description: Option<String>,
    /// The links in file order, then those of the radios and the WLANs, one for each station; routes with equally
    /// many hops take the earliest.
    pub links: Vec<Link>,
    /// The radios in file order.
    pub radios: Vec<Radio>,
    /// The WLANs in file order.
    pub wlans: Vec<Wlan>,
    /// The flows in file order.
    pub flows: Vec<Flow>,
    /// Replications, seed and end.
    pub run: Run,
}

/// A point-to-point link between two hosts, each direction with its own queue and errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name: `NAME` of `[link.NAME]`, or `RADIO.STATION` or `WLAN.STATION`.
    pub name: String,
    /// The radio whose slots it shares: an index into [`Scenario::radios`].
    pub radio: Option<usize>,
    /// The WLAN that it is a part of: an index into [`Scenario::wlans`].
    pub wlan: Option<usize>,
    /// The two hosts; `forward` is from the first to the second.
    pub between: [String; 2],
    /// From the first host to the second.
    pub forward: Direction,
    /// From the second host to the first.
    pub reverse: Direction,
    /// The link-layer protocol or protocols, the same at both ends.
    pub protocol: LinkProtocol,
    /// What looks into the packets at its ends; those at one end in the order in which packets meet
    /// them on their way into the link.
    pub agents: Agents,
    /// Frame header added to each packet; zero with services, which have their own.
    pub header: Bytes,
    /// Largest packet that the link carries, frame header excluded; `None`: any.
    pub mtu: Option<Bytes>,
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Transmission rate, more than zero, of one that changes its long-run mean; [`Rate::UNLIMITED`]
    /// over a delay, without protocol only.
    pub rate: Rate,
    /// How the rate changes; `None`: it does not.
    pub rate_changes: Option<RateKeys>,
    /// Propagation delay, of one that changes its long-run mean.
    pub delay: Duration,
    /// How the delay changes; `None`: it does not.
    pub delay_changes: Option<DelayKeys>,
    /// What waits at its head.
    pub queue: Discipline,
    /// What destroys frames.
    pub errors: Errors,
}

impl Link {
    /// Can the header of a damaged frame be read, in either direction?
    pub fn leaves_headers(&self) -> bool {
        self.forward.errors.leaves_headers() || self.reverse.errors.leaves_headers()
    }
}

impl Direction {
    /// How long frames take, at the lowest rate and the longest delay.
    pub fn air(&self) -> Air {
        let rate = self.rate_changes.as_ref().map_or(self.rate, RateKeys::slowest);
        let [_, delay] = self.delays();
        Air { rate, delay }
    }

    /// The shortest and the longest propagation delay.
    pub fn delays(&self) -> [Duration; 2] {
        self.delay_changes.as_ref().map_or([self.delay; 2], DelayKeys::range)
    }

    /// How long frames are on their way, none yet.
    pub fn propagation(&self) -> PropagationDelay {
        let changing = self.delay_changes.as_ref().map(DelayKeys::propagation);
        changing.unwrap_or_else(|| self.delay.into())
    }

    /// An idle transmitter of its rate.
    pub fn transmitter(&self) -> Transmitter {
        let changing = self.rate_changes.as_ref().map(RateKeys::transmitter);
        changing.unwrap_or_else(|| Transmitter::new(self.rate))
    }

    /// The rate as a scenario file has it.
    pub(super) fn rate_keys(&self) -> RateKeys {
        self.rate_changes.clone().unwrap_or_else(|| RateKeys::from_short(LinkRate(self.rate)))
    }

    /// The delay as a scenario file has it.
    pub(super) fn delay_keys(&self) -> DelayKeys {
        self.delay_changes.clone().unwrap_or_else(|| DelayKeys::from_short(self.delay))
    }
}

table! {
    /// The top of a scenario.
    pub(super) struct ScenarioKeys {
        /// What the scenario is called in results.
        name: String;
        /// What it is about.
        description: Option<String>;
        /// Links by name, in this order. A scenario has at least one link, radio or WLAN.
        link: Option<Vec<Link>>;
        /// Radios by name, in this order.
        radio: Option<Vec<Radio>>;
        /// Wireless LANs of IEEE 802.11 by name, in this order.
        wlan: Option<Vec<Wlan>>;
        /// Flows by name, in this order.
        flow: Vec<Flow>;
        /// What takes several values in turn; every combination is run.
        sweep: Sweep = "{}";
        /// How often and how long to run.
        run: Run = "{}";
    }
}

table! {
    /// `[link.NAME]`.
    pub(super) struct LinkKeys {
        /// The two hosts that the link joins.
        between: [String; 2];
        /// Where rate, delay and mtu come from if they are not given.
        preset: Option<LinkPreset>;
        /// Transmission rate; required without preset. "unlimited": packets take no time and never
        /// queue, as on a path that only loses and delays them; needs protocol "raw" and a delay. A
        /// table makes it change with time.
        rate: Option<OrShort<RateKeys>>;
        /// Propagation delay, one way; required without preset. A table makes it change with time.
        delay: Option<OrShort<DelayKeys>>;
        /// The queue at the head of each direction: what a drop-tail queue holds, the packet in
        /// transmission included, a size counting packets with the frame header; or a table with its
        /// discipline.
        queue: OrShort<Discipline> = "50 packets";
        /// Frame header added to each packet; by default 0 B without link-layer protocol, 1 B where
        /// frames carry a number (RLP, xor-fec) and 2 B where they carry an acknowledgment too and
        /// in each PDU of rlc-am; not with services, which have their own.
        header: Option<Bytes>, HEADER;
        /// Largest packet that the link carries, frame header excluded; by default that of the
        /// preset, otherwise 1500 B. There is no fragmentation: flows with larger packets are
        /// rejected.
        mtu: Option<Bytes>, PACKET;
        /// The link-layer protocol, the same at both ends.
        protocol: LinkProtocol = "raw";
        /// What sits at one end of the link, and looks into the packets that cross it or limits how
        /// often the link sends them. A list puts several there: packets that enter the link meet
        /// those of that end in this order, packets that leave it in the opposite one.
        agent: Agents;
        /// What destroys frames, in each direction independently.
        errors: Errors = "none";
        /// What is different in the direction from the second host to the first.
        reverse: Option<Reverse>;
    }
}

/// A base and the stations that share the slots of its frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Radio {
    /// Its name: `NAME` of `[radio.NAME]`.
    pub name: String,
    /// Its keys.
    pub keys: RadioKeys,
}

table! {
    /// `[radio.NAME]`.
    pub struct RadioKeys {
        /// The host that all stations are joined with.
        base: String;
        /// The hosts that share the slots; each has a link to the base, called NAME.STATION, whose
        /// forward direction leads to the base.
        stations: Hosts;
        /// Duration of a frame, at the start of which its slots are given away.
        frame: Duration = "10 ms", FRAME;
        /// Slots of a frame from the stations to the base.
        uplink: u32 = "25", SLOTS;
        /// Slots of a frame from the base to the stations.
        downlink: u32 = "25", SLOTS;
        /// The largest link frame, header included, that one slot takes.
        slot: Bytes = "42 B", PACKET;
        /// Time from the end of a frame to the arrival of what was sent in it; a table makes it change
        /// with time.
        delay: OrShort<DelayKeys> = "0 s";
        /// The queue of each station in each direction: what a drop-tail queue holds, a size counting
        /// packets with the frame header; or a table with its discipline.
        queue: OrShort<Discipline> = "50 packets";
        /// Frame header of the link protocol, by default as of links.
        header: Option<Bytes>, HEADER;
        /// The link-layer protocol of each station, the same at both ends.
        protocol: Protocol = "raw";
        /// What sits at the base and looks into the packets that cross each station's link, or at
        /// each station and limits its link.
        agent: Agents;
        /// What destroys link frames, on each station's link and in each direction independently.
        errors: Errors = "none";
        /// What is different from the base to the stations; by default nothing is.
        downlink_errors: Option<Errors>;
    }
}

choice! {
    /// Wireless links whose rate, delay and largest packet are known by name.
    pub enum LinkPreset {
        /// Bundled GSM circuits (HSCSD): 43.2 kbps, 100 ms, packets up to 50 B.
        Cellular = "cellular",
        /// IEEE 802.11 of 1997, as a link between two: 2 Mbps, 3 ms, packets up to 1 kB.
        Wlan = "wlan",
    }
}

impl LinkPreset {
    /// Rate, propagation delay and largest packet. Sources and how sure they are:
    /// `docs/links/presets.md`.
    pub const fn values(self) -> (Rate, Duration, Bytes) {
        match self {
            LinkPreset::Cellular => {
                (Rate::from_bps(43_200), Duration::from_millis(100), Bytes::new(50))
            }
            LinkPreset::Wlan => {
                (Rate::from_bps(2_000_000), Duration::from_millis(3), Bytes::new(1_000))
            }
        }
    }
}

table! {
    /// `[link.NAME.reverse]`: what is different from the second host to the first.
    pub(super) struct Reverse {
        /// Transmission rate, or a table that makes it change with time.
        rate: Option<OrShort<RateKeys>>;
        /// Propagation delay, one way, or a table that makes it change with time.
        delay: Option<OrShort<DelayKeys>>;
        /// What the queue holds, or a table with its discipline.
        queue: Option<OrShort<Discipline>>;
        /// What destroys frames.
        errors: Option<Errors>;
    }
}
table_field!(Reverse);

/// Traffic from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name: `NAME` of `[flow.NAME]`.
    pub name: String,
    /// The host that sends the data: of a file, it opens the connection too; of a web flow, it is
    /// the server.
    pub from: String,
    /// The host that receives the data: of a web flow the browser, which opens the connections.
    pub to: String,
    /// When it starts, after the start of the run.
    pub start: Duration,
    /// The service that it asks for on links with services.
    pub service: Option<String>,
    /// The transport protocol.
    pub transport: Transport,
    /// The application.
    pub app: App,
}

table! {
    /// `[flow.NAME]`.
    pub(super) struct FlowKeys {
        /// The host that sends the data and opens the connection; of a web flow, the server.
        from: String;
        /// The host that receives the data; of a web flow, the browser, which opens the
        /// connections.
        to: String;
        /// When the flow starts, after the start of the run.
        start: Duration = "0 s";
        /// The service that its packets get, in both directions, on links with protocol kind
        /// "services"; without it, and on such a link that has no service of this name, the first.
        service: Option<String>;
        /// The transport protocol.
        transport: Transport;
        /// What sends.
        app: App;
    }
}

table! {
    /// How often and how long to run.
    pub struct Run {
        /// Independent replications, each with its own random numbers.
        replications: u32 = "30", Limits::range(1, 1_000_000);
        /// Master seed of all random numbers.
        seed: u64 = "1", Limits::range(0, i64::MAX as u64);
        /// Simulated time at which a run stops; without it, when all file transfers are complete.
        duration: Option<Duration>, POSITIVE;
        /// Simulated time at which a run is given up that has not ended by itself.
        max_time: Duration = "100000 s", POSITIVE;
    }
}
table_field!(Run);
