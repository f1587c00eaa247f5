//! The model of a scenario: plain data, fully resolved and checked.
//!
//! What stands here is the one source of names, units, defaults and limits: `table!`, `choice!`
//! and `union!` make from it the Rust types, the reader, the JSON Schema and the reference page.

use super::agents::Agents;
use super::services::LinkProtocol;
use super::sweep::Sweep;
use super::wlan::Wlan;
use crate::app::App;
use lasthop_base::schema::keys::{Limits, choice, table, table_field, union};
use lasthop_base::schema::quantity::{DelayedAck, Hosts, LinkRate, Window};
use lasthop_base::schema::shorthand::{OrShort, Shorthand};
use lasthop_base::units::{Bytes, Duration, Rate};
use lasthop_link::channel::Errors;
use lasthop_link::link::{Air, Protocol};
use lasthop_link::queue::{DelayKeys, Discipline, PropagationDelay, RateKeys, Transmitter};
use lasthop_tcp::law::LawKind;

pub use lasthop_tcp::config::{Ersn, LossDetection, UndoKind};
pub use lasthop_tcp::{Profile, Variant};

const POSITIVE: Limits = Limits::POSITIVE;
/// The largest IP packet.
pub(super) const PACKET: Limits = Limits::PACKET;
/// Headers, frame or TCP/IP.
const HEADER: Limits = Limits::HEADER;

/// The tick of a host, up to 100 ms.
const TICK: Limits = Limits::range(0, 100_000_000);

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

union! {
    /// A transport protocol.
    pub enum Transport {
        /// TCP.
        Tcp(Tcp) = "tcp",
        /// UDP: what is lost stays lost.
        Udp = "udp",
        /// UDP-Lite (RFC 3828), whose checksum covers the headers: packets with a damaged payload are delivered,
        /// where the errors of a link leave their header readable.
        UdpLite = "udp-lite",
    }
}

table! {
    /// A TCP: its variant, its profile, and what differs from the profile (`None`: as the
    /// profile says).
    pub struct Tcp {
        /// A named TCP: how losses are recovered and how the window moves.
        variant: Variant;
        /// Conventions and defaults of every key below. A host with profile "linux" recovers losses by RACK-TLP, whatever
        /// its variant, which names the congestion control only: "newreno" and "sack" mean "reno". Variants that name
        /// another loss recovery ("tahoe", "lt-tcp" …) need profile "rfc" or "ns-2".
        profile: Profile = "linux";
        /// Payload of a full segment.
        segment: Option<Bytes>, PACKET;
        /// TCP and IP headers added to each segment.
        header: Option<Bytes>, HEADER;
        /// Size of a pure acknowledgment, headers included.
        ack_size: Option<Bytes>, PACKET;
        /// The receiver's buffer.
        receive_window: Option<Window>;
        /// Do the buffers of both hosts grow with the connection; with profile "linux" only, where they do unless
        /// `receive_window` is given.
        autotuning: Option<bool>;
        /// Do hosts hand several segments on at once; only where `autotuning` is on. Live links have hosts that do not.
        segmentation_offload: Option<bool>;
        /// Time between two ticks of the hosts, at which their timers fire; 0 s: timers are exact. With profile "linux"
        /// only, whose kernels tick every 4 ms (CONFIG_HZ=250) or 1 ms.
        timer_tick: Option<Duration>, TICK;
        /// Longest time an acknowledgment is held back.
        delayed_ack: Option<DelayedAck>;
        /// Which SACK recovery; with variants that use selective acknowledgments only.
        sack_recovery: Option<SackRecovery>;
        /// What tells that a segment is lost, where recovery goes by SACK blocks as RFC 6675 says.
        loss_detection: Option<LossDetection>;
        /// How the congestion window moves, in place of the law of the variant.
        law: Option<LawKind>;
        /// HyStart++ (RFC 9406): leave slow start when the round-trip time grows; off by default.
        hystart: Option<bool>;
        /// Keep segments apart in time instead of sending what a window allows at once; off by default,
        /// except with laws that say when segments leave.
        pacing: Option<bool>;
        /// Whether reductions that answered no loss are found out and taken back.
        undo: Option<UndoKind>;
        /// Selective acknowledgments (RFC 2018); with profile "linux" only, elsewhere the variant says.
        sack: Option<bool>;
        /// Explicit congestion notification (RFC 3168): queues that mark need not drop; off by default, not with
        /// profile "ns-2".
        ecn: Option<bool>;
        /// Reduce the window by less for a mark than for a loss (RFC 8511), with the laws "reno" and "cubic".
        abe: Option<bool>;
        /// Timestamps option (RFC 7323).
        timestamps: Option<bool>;
        /// Limited Transmit (RFC 3042).
        limited_transmit: Option<bool>;
        /// Keep a window that the application does not use, without letting it grow (RFC 7661); with profile "rfc" only,
        /// off by default.
        window_validation: Option<bool>;
        /// Bring the window back to the initial one after a pause longer than the retransmission timeout (RFC 5681,
        /// section 4.1); with profile "linux", where it is on by default, by halves for each timeout
        /// (`tcp_slow_start_after_idle`). Not with profile "ns-2".
        restart_after_idle: Option<bool>;
        /// Let the window grow by the bytes that an acknowledgment acknowledges (RFC 3465), in slow start by so many
        /// segments at most (the RFC's L); with profile "rfc" and law "reno" only, off by default.
        byte_counting: Option<u32>, Limits::range(1, 65_535);
        /// Whether SYN segments open the connection.
        handshake: Option<bool>;
        /// Whether FIN segments close the connection.
        fin: Option<bool>;
        /// Initial congestion window.
        initial_window: Option<Window>;
        /// Least retransmission timeout.
        min_rto: Option<Duration>;
        /// Greatest retransmission timeout, back-off included.
        max_rto: Option<Duration>, POSITIVE;
        /// Retransmission timeout before the first measurement.
        initial_rto: Option<Duration>, POSITIVE;
        /// Tick of the clock that measures round trips.
        clock_granularity: Option<Duration>, POSITIVE;
        /// Duplicate acknowledgments that mean a loss.
        dupack_threshold: Option<u32>, Limits::range(1, 255);
        /// Consecutive explicit losses (ELN) that noise can cause at most; more of them mean that the
        /// receiver is disconnected, and only every other one is answered. 0: no limit; with "esack" only.
        eln_filter: Option<u32>, Limits::range(0, 1_000_000);
        /// What a notice that a link has begun to send a segment again (ERSN) does; with "esack" only.
        ersn: Option<Ersn>;
        /// Whether the last segment of a transfer is filled up to a full one, as simulators do
        /// that count in packets.
        pad_segments: Option<bool>;
    }
}

choice! {
    /// SACK loss recovery.
    pub enum SackRecovery {
        /// As in the TCP agents of ns-2: "pipe" counted up and down.
        Ns2 = "ns-2",
        /// RFC 6675.
        Rfc6675 = "rfc6675",
        /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937).
        RackTlp = "rack-tlp",
        /// As "ns-2", and what agent "ll-elsn" tells of losses on a link (ESACK, Yun 2009).
        Esack = "esack",
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
