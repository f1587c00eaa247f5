//! The model of a scenario: plain data, fully resolved and checked.
//!
//! This module is the only source of names, units, defaults and limits. `table!`, `choice!` and `union!` derive
//! the Rust types, the reader, the JSON Schema and the reference page from it.

use super::agents::Agents;
use super::repetition::{COUNT, Repetition, SPACING};
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
use lasthop_wlan::phy::qos::Dscp;
use std::sync::Arc;

pub use crate::transport::TransportKind as Transport;
pub use crate::transport::tcp::{SackRecovery, TcpKeys};
pub use lasthop_tcp::config::{Ersn, LossDetection, UndoKind};
pub use lasthop_tcp::{Profile, Variant};

const POSITIVE: Limits = Limits::POSITIVE;
/// Sizes of IP packets.
pub(super) const PACKET: Limits = Limits::PACKET;
/// Sizes of headers of frames, or of TCP and IP.
const HEADER: Limits = Limits::HEADER;

/// Duration of a radio frame, from 1 µs to 1 h.
const FRAME: Limits = Limits::range(1_000, Duration::from_secs(3_600).as_nanos());
/// Slots per radio frame.
const SLOTS: Limits = Limits::range(1, 10_000);

/// A network, its traffic and its replications. Copies share links and flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name of the scenario in results.
    pub name: String,
    /// Description of the scenario.
    pub description: Option<String>,
    /// The links in file order, followed by those of the radios and the WLANs, one per station.
    /// Among routes with equal numbers of hops, the first link in this order is chosen.
    pub links: Arc<[Link]>,
    /// The radios in file order.
    pub radios: Vec<Radio>,
    /// The WLANs in file order.
    pub wlans: Vec<Wlan>,
    /// The flows in file order.
    pub flows: Arc<[Flow]>,
    /// The windows in file order.
    pub windows: Vec<TimeWindow>,
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
    /// The link-layer protocol or protocols, identical at both ends.
    pub protocol: LinkProtocol,
    /// Packet inspectors at its ends. Packets that enter the link pass through the agents of that
    /// end in this order.
    pub agents: Agents,
    /// Frame header added to each packet; zero with services, which have separate headers.
    pub header: Bytes,
    /// Maximum packet length on the link, excluding the frame header; `None`: unlimited.
    pub mtu: Option<Bytes>,
    /// Optional metrics of its directions.
    pub measure: Option<Measure>,
}

choice! {
    /// Optional metrics of the directions of a link.
    pub enum Measure {
        /// The time of packets from their arrival at the queue until they are first sent: its mean, its
        /// percentiles and its maximum.
        QueueingDelay = "queueing-delay",
    }
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction {
    /// Transmission rate, above 0; the long-run mean of a changing rate. [`Rate::UNLIMITED`]
    /// requires a delay and no protocol.
    pub rate: Rate,
    /// Changes of the rate; `None`: constant.
    pub rate_changes: Option<RateKeys>,
    /// Propagation delay; the long-run mean of a changing delay.
    pub delay: Duration,
    /// Changes of the delay; `None`: constant.
    pub delay_changes: Option<DelayKeys>,
    /// Queue discipline.
    pub queue: Discipline,
    /// Error process of the frames.
    pub errors: Errors,
}

impl Link {
    /// Returns `true` if the queueing delays of its directions are measured.
    pub fn measures_queueing_delay(&self) -> bool {
        self.measure == Some(Measure::QueueingDelay)
    }

    /// Returns `true` if packets with errors can have a readable header, in either direction.
    pub fn has_readable_headers(&self) -> bool {
        self.forward.errors.has_readable_headers() || self.reverse.errors.has_readable_headers()
    }
}

impl Direction {
    /// Returns the bounds of frame durations: the minimum rate and the maximum delay.
    pub fn air(&self) -> Air {
        let rate = self.rate_changes.as_ref().map_or(self.rate, RateKeys::slowest);
        let [_, delay] = self.delays();
        Air { rate, delay }
    }

    /// Returns the minimum and the maximum propagation delay.
    pub fn delays(&self) -> [Duration; 2] {
        self.delay_changes.as_ref().map_or([self.delay; 2], DelayKeys::range)
    }

    /// Returns the propagation delay process, without frames in transit.
    pub fn propagation(&self) -> PropagationDelay {
        let changing = self.delay_changes.as_ref().map(DelayKeys::propagation);
        changing.unwrap_or_else(|| self.delay.into())
    }

    /// Returns an idle transmitter with the rate of this direction.
    pub fn transmitter(&self) -> Transmitter {
        let changing = self.rate_changes.as_ref().map(RateKeys::transmitter);
        changing.unwrap_or_else(|| Transmitter::new(self.rate))
    }

    /// Returns the rate in the notation of a scenario file.
    pub(super) fn rate_keys(&self) -> RateKeys {
        self.rate_changes.clone().unwrap_or_else(|| RateKeys::from_short(LinkRate(self.rate)))
    }

    /// Returns the delay in the notation of a scenario file.
    pub(super) fn delay_keys(&self) -> DelayKeys {
        self.delay_changes.clone().unwrap_or_else(|| DelayKeys::from_short(self.delay))
    }
}

table! {
    /// Top level of a scenario.
    pub(super) struct ScenarioKeys {
        /// Name of the scenario in results.
        name: String;
        /// Description of the scenario.
        description: Option<String>;
        /// Scenario file that this one changes, relative to this one. Its keys apply unless they
        /// are given here; tables are merged, a table with another kind replaces it.
        extends: Option<String>;
        /// Links by name, in this order. A scenario has at least one link, radio or WLAN.
        link: Option<Vec<Link>>;
        /// Radios by name, in this order.
        radio: Option<Vec<Radio>>;
        /// Wireless LANs of IEEE 802.11 by name, in this order.
        wlan: Option<Vec<Wlan>>;
        /// Flows by name, in this order.
        flow: Vec<Flow>;
        /// Windows of time by name, in this order, for which metrics are reported in addition.
        window: Option<Vec<TimeWindow>>;
        /// Swept keys with their values; every combination is run.
        sweep: Sweep = "{}";
        /// Replications, seed and end of a run.
        run: Run = "{}";
    }
}

table! {
    /// `[link.NAME]`.
    pub(super) struct LinkKeys {
        /// The two hosts at the ends of the link.
        between: [String; 2];
        /// Source of rate, delay and mtu if they are not set.
        preset: Option<LinkPreset>;
        /// Transmission rate; required without preset. "unlimited": packets have no transmission
        /// time and never queue, as on a path that only loses and delays them; requires protocol
        /// "raw" and a delay. A table makes the rate change with time.
        rate: Option<OrShort<RateKeys>>;
        /// Propagation delay, one way; required without preset. A table makes the delay change with
        /// time.
        delay: Option<OrShort<DelayKeys>>;
        /// Queue of each direction: the capacity of a drop-tail queue, including the packet in
        /// transmission, where sizes include the frame header; or a table with a queue discipline.
        queue: OrShort<Discipline> = "50 packets";
        /// Frame header added to each packet. Default: 0 B without link-layer protocol, 1 B if
        /// frames carry a number (RLP, xor-fec), 2 B if they also carry an acknowledgment, and for
        /// each PDU of rlc-am; not with services, which have separate headers.
        header: Option<Bytes>, HEADER;
        /// Maximum packet length on the link, excluding the frame header; default: that of the
        /// preset, otherwise 1500 B. Packets are not fragmented: flows with larger packets are
        /// rejected.
        mtu: Option<Bytes>, PACKET;
        /// Link-layer protocol of both ends.
        protocol: LinkProtocol = "raw";
        /// Agent at one end of the link, which inspects the packets that cross the link or limits
        /// their retransmissions. A list attaches several agents: packets that enter the link at
        /// that end pass through them in this order, packets received from it in reverse order.
        agent: Agents;
        /// Error process of the frames, independent in each direction.
        errors: Errors = "none";
        /// Optional metrics of each direction; default: none.
        measure: Option<Measure>;
        /// Keys that differ in the direction from the second host to the first.
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
        /// The host to which all stations are linked.
        base: String;
        /// The hosts that share the slots. Each has a link to the base, named NAME.STATION, whose
        /// forward direction leads to the base.
        stations: Hosts;
        /// Number of stations of each name with `#`, which is replaced by 1, 2, …; `##` is the
        /// number with at least two digits.
        count: Option<u32>, COUNT;
        /// Duration of a frame; its slots are assigned at the start.
        frame: Duration = "10 ms", FRAME;
        /// Number of slots per frame from the stations to the base.
        uplink: u32 = "25", SLOTS;
        /// Number of slots per frame from the base to the stations.
        downlink: u32 = "25", SLOTS;
        /// Maximum length of a link frame in one slot, including its header.
        slot: Bytes = "42 B", PACKET;
        /// Delay from the end of a frame to the arrival of its contents; a table makes the delay
        /// change with time.
        delay: OrShort<DelayKeys> = "0 s";
        /// Queue of each station in each direction: the capacity of a drop-tail queue, where sizes
        /// include the frame header; or a table with a queue discipline.
        queue: OrShort<Discipline> = "50 packets";
        /// Frame header of the link protocol; default: as for links.
        header: Option<Bytes>, HEADER;
        /// Link-layer protocol of each station, at both ends.
        protocol: Protocol = "raw";
        /// Agent at the base, which inspects the packets that cross each station's link; or agent
        /// at each station, which limits the retransmissions of its link.
        agent: Agents;
        /// Error process of the link frames, independent for each station's link and direction.
        errors: Errors = "none";
        /// Error process from the base to the stations; default: as `errors`.
        downlink_errors: Option<Errors>;
        /// Optional metrics of each direction; default: none.
        measure: Option<Measure>;
    }
}

choice! {
    /// Presets of wireless links: rate, delay and maximum packet length.
    pub enum LinkPreset {
        /// Bundled GSM circuits (HSCSD): 43.2 kbps, 100 ms, packets up to 50 B.
        Cellular = "cellular",
        /// IEEE 802.11 of 1997 as a point-to-point link: 2 Mbps, 3 ms, packets up to 1 kB.
        Wlan = "wlan",
    }
}

impl LinkPreset {
    /// Returns rate, propagation delay and maximum packet length. Sources and their reliability:
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
    /// `[link.NAME.reverse]`: keys that differ from the second host to the first.
    pub(super) struct Reverse {
        /// Transmission rate, or a table that makes it change with time.
        rate: Option<OrShort<RateKeys>>;
        /// Propagation delay, one way, or a table that makes it change with time.
        delay: Option<OrShort<DelayKeys>>;
        /// Capacity of the queue, or a table with a queue discipline.
        queue: Option<OrShort<Discipline>>;
        /// Error process of the frames.
        errors: Option<Errors>;
    }
}
table_field!(Reverse);

/// Traffic from one host to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name: `NAME` of `[flow.NAME]`.
    pub name: String,
    /// The host that sends the data. It opens the connection of a file transfer; in a web flow, it
    /// is the server.
    pub from: String,
    /// The host that receives the data. In a web flow, it is the browser, which opens the
    /// connections.
    pub to: String,
    /// Start time, relative to the start of the run.
    pub start: Duration,
    /// Interval after `start` within which it starts at a random time; `None`: at `start`.
    pub start_spread: Option<Duration>,
    /// Time at which its application stops; `None`: never.
    pub stop: Option<Duration>,
    /// The service that it requests on links with services.
    pub service: Option<String>,
    /// DS code point of its packets, in both directions.
    pub dscp: Option<Dscp>,
    /// The transport protocol.
    pub transport: Transport,
    /// The application.
    pub app: App,
    /// The table that describes it and other flows; `None`: its own table.
    pub repetition: Option<Arc<Repetition>>,
}

table! {
    /// `[flow.NAME]`.
    pub(super) struct FlowKeys {
        /// The host that sends the data and opens the connection; in a web flow, the server.
        from: String;
        /// The host that receives the data; in a web flow, the browser, which opens the
        /// connections.
        to: String;
        /// Start time of the flow, relative to the start of the run.
        start: Duration = "0 s";
        /// Interval after `start` in which the flow starts, at a uniformly distributed time that
        /// is sampled for each replication and for each flow of a table with count. Default: the
        /// flow starts at `start`.
        start_spread: Option<Duration>, Limits::POSITIVE;
        /// Time at which the application stops, relative to the start of the run: it stops writing,
        /// data that was not sent is discarded, and data that was sent is repaired. Default: it
        /// does not stop.
        stop: Option<Duration>, Limits::POSITIVE;
        /// Service of its packets, in both directions, on links with protocol kind "services".
        /// Default, and on links without a service of this name: the first service.
        service: Option<String>;
        /// DS code point of its packets, in both directions, which determines their access category in
        /// WLANs with the key edca; default: DF.
        dscp: Option<Dscp>;
        /// The transport protocol.
        transport: Transport;
        /// Traffic source.
        app: App;
        /// Number of flows that the table describes, NAME1, NAME2, …; each has separate random
        /// numbers. In `from` and `to`, `#` is the number of the flow, `##` the number with at
        /// least two digits. The metrics of all of them are aggregated in `flows.NAME`. Default:
        /// one flow, NAME.
        count: Option<u32>, COUNT;
        /// Time between the starts of consecutive flows of the table; requires count.
        spacing: Option<Duration>, SPACING;
    }
}

/// A part of the time of a run, for which metrics are reported in addition.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeWindow {
    /// Its name: `NAME` of `[window.NAME]`.
    pub name: String,
    /// Its start, relative to the start of the run.
    pub from: Duration,
    /// Its end, relative to the start of the run; `None`: the end of the run.
    pub to: Option<Duration>,
}

table! {
    /// `[window.NAME]`.
    pub(super) struct WindowKeys {
        /// Start of the window, relative to the start of the run. Events at this time are before
        /// the window.
        from: Duration = "0 s";
        /// End of the window, relative to the start of the run; later than from, at most the
        /// duration of the run. Events at this time are in the window. Default: the end of the run.
        to: Option<Duration>, POSITIVE;
    }
}

table! {
    /// Replications, seed and end of a run.
    pub struct Run {
        /// Number of independent replications, each with separate random numbers.
        replications: u32 = "30", Limits::range(1, 1_000_000);
        /// Master seed of all random numbers.
        seed: u64 = "1", Limits::range(0, i64::MAX as u64);
        /// Simulated time at which a run stops; default: when all file transfers are complete.
        duration: Option<Duration>, POSITIVE;
        /// Simulated time at which a run without an end is aborted.
        max_time: Duration = "100000 s", POSITIVE;
    }
}
table_field!(Run);
