//! Wireless LANs of IEEE 802.11: reading, writing, and conversion to one link per station.

use super::agents::Agents;
use super::model::{Direction, Link, Measure};
use super::repetition::{COUNT, expand_stations};
use super::services::LinkProtocol;
use super::wifi::{RateControl, WlanStandard, fill_in};
use crate::agent::AgentKind;
use lasthop_base::schema::keys::{Key, Limits, NAME_ALLOWED, Node, Read, Table, is_name, table};
use lasthop_base::schema::named::Named;
use lasthop_base::schema::quantity::{Hosts, Mean};
use lasthop_base::schema::shorthand::OrShort;
use lasthop_base::units::{Bytes, Decibels, Distance, Duration, Rate};
use lasthop_link::channel::Errors;
use lasthop_link::link::Protocol;
use lasthop_link::queue::Discipline;
use lasthop_wlan::dcf::{
    Capture, DriverQueue, MissedBlockAck, Position, Preamble, Propagation, Scheduler, Timing,
};
use lasthop_wlan::frames;
use lasthop_wlan::phy::{Band, Coding, ErrorCurve, Form, GuardInterval, PacketExtension, Width};
use lasthop_wlan::snr::{FadingKeys, SnrKeys};
use serde_json::{Map, Value};

/// Numbers of attempts per frame.
const ATTEMPTS: Limits = Limits::range(1, 255);
/// Contention windows, in slots.
const WINDOW: Limits = Limits::range(0, 65_535);
/// Slots and spaces, from 1 ns to 10 ms.
const SPACE: Limits = Limits::range(1, 10_000_000);
/// Numbers of slots of an AIFS.
const AIFSN: Limits = Limits::range(2, 15);
/// Durations of a TXOP: up to the 16 bits of its field in units of 32 us.
const TXOP: Limits = Limits::range(0, 2_097_120_000);
/// Times of packets in the MAC, from 1 us to 100 s.
const LIFETIME: Limits = Limits::range(1_000, 100_000_000_000);

/// Ranges of frames, from 1 m to 100 km.
const RANGE: Limits = Limits::range(1_000, 100_000_000);
/// Coordinates, up to 1000 km.
const PLACE: Limits = Limits::range(0, 1_000_000_000);
/// Ratios of powers, in thousandths of a decibel.
const RATIO: Limits = Limits::range(0, 100_000);

/// Maximum packet length in a data frame: an MSDU of 2304 bytes (802.11-2012, 8.2.3) minus the LLC
/// and SNAP header.
const LARGEST_PACKET: Bytes = Bytes::new(2304 - frames::LLC);

/// An access point and its stations.
#[derive(Clone, Debug, PartialEq)]
pub struct Wlan {
    /// Its name: `NAME` of `[wlan.NAME]`.
    pub name: String,
    /// Its keys.
    pub keys: WlanKeys,
}

/// Keys that differ at one station.
#[derive(Clone, Debug, PartialEq)]
pub struct WlanStation {
    /// Its host.
    pub name: String,
    /// Its keys.
    pub keys: WlanStationKeys,
}

table! {
    /// `[wlan.NAME]`.
    pub struct WlanKeys {
        /// The host to which all stations are linked; it has one queue for all of them.
        access_point: String;
        /// The other hosts. Each has a link to the access point, named NAME.STATION, whose forward
        /// direction leads to the access point.
        stations: Hosts;
        /// Number of stations of each name with `#`, which is replaced by 1, 2, …; `##` is the
        /// number with at least two digits.
        count: Option<u32>, COUNT;
        /// Physical layer: rates, preamble, slot, interframe spaces and contention windows. With 802.11n,
        /// 802.11ac and 802.11ax, see edca for access categories.
        standard: WlanStandard = "802.11b";
        /// Rate of data frames, one of the rates of the standard; default: its highest rate. Not with
        /// 802.11n, ac and ax, whose rate follows from the next four keys.
        rate: Option<Rate>, Limits::RATE;
        /// MCS of each spatial stream; default: the highest of the standard. This and the following
        /// seventeen keys require 802.11n, ac or ax.
        mcs: Option<u32>, Limits::range(0, 11);
        /// Width of the channel; default: 20 MHz.
        width: Option<Width>;
        /// Guard interval between symbols; default: 800 ns.
        guard_interval: Option<GuardInterval>;
        /// Number of spatial streams; default: 1.
        spatial_streams: Option<u32>, Limits::range(1, 2);
        /// Frequency band; default: 5 GHz.
        band: Option<Band>;
        /// Error-correcting code, which determines the number of symbols; default: BCC.
        coding: Option<Coding>;
        /// Nominal packet padding of 802.11ax; default: 0 us.
        packet_extension: Option<PacketExtension>;
        /// Durations of PPDUs as in the standard or as in ns-3; default: standard.
        durations: Option<Form>;
        /// Maximum length of an A-MPDU; `"0 B"`: none, each PPDU has one MPDU. Default: 65,535 B with
        /// 802.11n, 1,048,575 B with 802.11ac, 6,500,631 B with 802.11ax.
        max_ampdu: Option<Bytes>, Limits::range(0, 6_500_631);
        /// Maximum number of MPDUs in an A-MPDU; default: block_ack_window.
        max_ampdu_mpdus: Option<u32>, Limits::range(1, 256);
        /// Maximum length of an A-MSDU, several packets in one MPDU; default: 0 B, none. In A-MPDUs of
        /// 802.11n, it is at most 4065 B.
        max_amsdu: Option<Bytes>, Limits::range(0, 11_398);
        /// Window of the block-ack agreement in MPDUs; default: 64, and 256 with 802.11ax.
        block_ack_window: Option<u32>, Limits::range(1, 256);
        /// Action of a sender that receives no BlockAck; default: retransmit.
        missed_block_ack: Option<MissedBlockAck>;
        /// Maximum number of transmissions of an MPDU; default: 10 (without A-MPDUs short_retry_limit).
        mpdu_retry_limit: Option<u32>, ATTEMPTS;
        /// Maximum time of a packet in the MAC after it has left the queue; default: 500 ms.
        lifetime: Option<Duration>, LIFETIME;
        /// Maximum time of an MPDU in the reorder buffer of its receiver; default: 100 ms.
        reorder_timeout: Option<Duration>, LIFETIME;
        /// Order in which the access point serves its stations; default: fifo, one queue for all. Otherwise
        /// it has a queue for each station.
        scheduler: Option<Scheduler>;
        /// Packets that the driver of the access point takes from the queues of the stations in advance, with
        /// scheduler round-robin or airtime; default: pull, none.
        driver_queue: Option<DriverQueue>;
        /// Signal-to-noise ratio at both ends of each link, which determines the errors of MPDUs instead of
        /// the key errors; control frames are then received without errors.
        snr: Option<OrShort<SnrKeys>>;
        /// Fading of the signal, relative to the snr, independent for each station's link.
        fading: Option<FadingKeys>;
        /// Model of the errors at an SNR; default: nist.
        error_curve: Option<ErrorCurve>;
        /// Choice of the mode of each PPDU, or of the rate of each frame; default: fixed.
        rate_control: Option<RateControl>;
        /// Whether each host has a queue and a backoff for each access category, with 802.11n, ac and ax;
        /// default: false, all frames are best effort.
        edca: Option<bool>;
        /// Keys of an access category: background, best-effort, video or voice; requires edca.
        category: Option<Vec<WlanCategory>>;
        /// Rate of MAC acknowledgments, BlockAcks, RTS and CTS; default: the highest basic rate (1 and
        /// 2 Mbps for 802.11b; otherwise 6, 12 and 24 Mbps) up to the rate of the data.
        control_rate: Option<Rate>, Limits::RATE;
        /// The preamble of 802.11b.
        preamble: Preamble = "long";
        /// Name of the shared medium. Stations of all WLANs with the same name share it; default:
        /// each WLAN has a separate medium.
        channel: Option<String>;
        /// Position of the access point, towards the east. If all hosts of the channel have a
        /// position, stations sense only those in range; without positions, all stations are in
        /// range of each other.
        x: Option<Distance>, PLACE;
        /// Position of the access point, towards the north; default with x: 0 m.
        y: Option<Distance>, PLACE;
        /// Maximum distance at which frames are received and acknowledged. This and the following
        /// six keys require positions.
        transmission_range: Distance = "250 m", RANGE;
        /// Maximum distance at which frames keep the medium busy, at least transmission_range.
        carrier_sense_range: Distance = "550 m", RANGE;
        /// Maximum distance at which frames interfere, at least transmission_range; default:
        /// carrier_sense_range.
        interference_range: Option<Distance>, RANGE;
        /// Minimum ratio of the power of a received frame to the sum of the interference.
        capture_threshold: Decibels = "10 dB", RATIO;
        /// Frame that a receiver attempts to read when several reach it.
        capture: Capture = "first";
        /// Path loss exponent beyond the crossover distance.
        path_loss_exponent: Mean = "4";
        /// Crossover distance, up to which the path loss exponent is 2.
        crossover: Distance = "86 m", PLACE;
        /// Overhead of a data frame: MAC header, LLC and SNAP, frame check sequence; default: 36 B, and
        /// 38 B with 802.11n, ac and ax.
        header: Option<Bytes>, Limits::HEADER;
        /// Queue of the access point and of each station: the capacity of a drop-tail queue,
        /// including the packets being sent, where sizes include the header; or a table with a queue
        /// discipline. Default: 50 packets, and 500 packets with 802.11n, ac and ax.
        queue: Option<OrShort<Discipline>>;
        /// Maximum number of attempts for a frame up to rts_threshold, and for an RTS; 1: no
        /// retransmission.
        short_retry_limit: u32 = "7", ATTEMPTS;
        /// Maximum number of attempts for a longer frame.
        long_retry_limit: u32 = "4", ATTEMPTS;
        /// Data frames longer than this, including the header, are preceded by an RTS; default:
        /// none.
        rts_threshold: Option<Bytes>, Limits::range(0, 65_535);
        /// Contention window of a first attempt in slots, CWmin; default: that of the standard.
        cw_min: Option<u32>, WINDOW;
        /// Maximum contention window in slots, CWmax; default: 1023.
        cw_max: Option<u32>, WINDOW;
        /// Duration of a slot; default: that of the standard.
        slot: Option<Duration>, SPACE;
        /// Short interframe space; default: that of the standard.
        sifs: Option<Duration>, SPACE;
        /// Time from the end of a frame after which its sender no longer expects a response to
        /// begin, at least SIFS; default: SIFS, a slot and the physical layer's delay in detecting
        /// a frame.
        response_timeout: Option<Duration>, SPACE;
        /// Delay from a failed attempt to the backoff of the next attempt of the frame.
        retry_delay: Duration = "0 s";
        /// Agent at the access point, which inspects the packets that cross each station's link, or
        /// agent at a station.
        agent: Agents;
        /// Error process of the frames, independent for each station's link and direction.
        errors: Errors = "none";
        /// Error process from the access point to the stations; default: as `errors`.
        downlink_errors: Option<Errors>;
        /// Whether one error process applies to both directions of a station's link.
        shared_errors: bool = "false";
        /// Whether errors also affect MAC acknowledgments, RTS and CTS.
        control_errors: bool = "true";
        /// Optional metrics of each direction; default: none.
        measure: Option<Measure>;
        /// Keys that differ at a station, by its host.
        station: Option<Vec<WlanStation>>;
    }
}

table! {
    /// `[wlan.NAME.station.HOST]`.
    pub struct WlanStationKeys {
        /// Rate of data frames to and from the station.
        rate: Option<Rate>, Limits::RATE;
        /// MCS of data frames to and from the station, with 802.11n, ac and ax.
        mcs: Option<u32>, Limits::range(0, 11);
        /// Signal-to-noise ratio of its link.
        snr: Option<OrShort<SnrKeys>>;
        /// Fading of the signal of its link.
        fading: Option<FadingKeys>;
        /// Error process of the frames on its link.
        errors: Option<Errors>;
        /// Error process from the access point to the station.
        downlink_errors: Option<Errors>;
        /// Position of the station, towards the east.
        x: Option<Distance>, PLACE;
        /// Position of the station, towards the north; default with x: 0 m.
        y: Option<Distance>, PLACE;
        /// Time at which the station moves out of range: frames to it fail, its own packets wait.
        leaves: Option<Duration>;
        /// Time at which the station returns; default: never.
        returns: Option<Duration>;
    }
}

table! {
    /// `[wlan.NAME.category.CATEGORY]`.
    pub struct WlanCategoryKeys {
        /// Number of slots of its AIFS; default: background 7, best effort 3, others 2.
        aifsn: Option<u32>, AIFSN;
        /// Contention window of a first attempt in slots; default: by cw_min of the WLAN: video half, voice a
        /// quarter of it.
        cw_min: Option<u32>, WINDOW;
        /// Maximum contention window in slots; default: cw_max of the WLAN, video its cw_min, voice half of
        /// its cw_min.
        cw_max: Option<u32>, WINDOW;
        /// Maximum duration of a TXOP, several PPDUs with SIFS in between; 0 s: one PPDU. Default: video
        /// 4096 us, voice 2080 us, others 0 s.
        txop_limit: Option<Duration>, TXOP;
    }
}

/// Keys of an access category.
#[derive(Clone, Debug, PartialEq)]
pub struct WlanCategory {
    /// Its name.
    pub name: String,
    /// Its keys.
    pub keys: WlanCategoryKeys,
}

impl Named for WlanCategory {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Table for WlanCategory {
    const KEYS: &'static [Key] = WlanCategoryKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let keys = WlanCategoryKeys::read(node)?;
        Ok(WlanCategory { name: node.name().to_owned(), keys })
    }

    fn write(&self) -> Map<String, Value> {
        self.keys.write()
    }
}

impl WlanKeys {
    /// Returns the overhead of a data frame.
    pub fn header(&self) -> Bytes {
        self.header.unwrap_or_default()
    }

    /// Returns the queue of the access point and of each station, which the reader has set.
    pub fn queue(&self) -> &Discipline {
        let Some(OrShort(queue)) = &self.queue else { unreachable!("the reader has set it") };
        queue
    }
}

impl Named for WlanStation {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Table for WlanStation {
    const KEYS: &'static [Key] = WlanStationKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let mut keys = WlanStationKeys::read(node)?;
        for (name, errors) in
            [("errors", &mut keys.errors), ("downlink_errors", &mut keys.downlink_errors)]
        {
            if let Some(errors) = errors {
                errors.resolve(&node.child_path(name), None)?;
            }
        }
        match (keys.leaves, keys.returns) {
            (None, Some(returns)) => {
                let found = format!("\"{returns}\" without the key leaves");
                Err(node.key_error("returns", found, "only with the key leaves"))
            }
            (Some(leaves), Some(returns)) if returns <= leaves => {
                let allowed = format!("a time after the key leaves, \"{leaves}\"");
                Err(node.key_error("returns", format!("\"{returns}\""), allowed))
            }
            _ => Ok(WlanStation { name: node.name().to_owned(), keys }),
        }
    }

    fn write(&self) -> Map<String, Value> {
        self.keys.write()
    }
}

impl Named for Wlan {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Table for Wlan {
    const KEYS: &'static [Key] = WlanKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let mut keys = WlanKeys::read(node)?;
        if !is_name(&keys.access_point) {
            let found = format!("{:?}", keys.access_point);
            return Err(node.key_error("access_point", found, NAME_ALLOWED));
        }
        let count = keys.count.take();
        expand_stations(node, &mut keys.stations, count)?;
        if keys.stations.0.contains(&keys.access_point) {
            let found = format!("{:?}, which is the access point", keys.access_point);
            return Err(node.key_error("stations", found, "hosts other than the access point"));
        }
        Wlan::check_standard(&keys, node)?;
        fill_in(&mut keys);
        keys.queue().check(&node.child_path("queue"))?;
        keys.errors.resolve(&node.child_path("errors"), None)?;
        if let Some(errors) = &mut keys.downlink_errors {
            errors.resolve(&node.child_path("downlink_errors"), None)?;
        }
        keys.downlink_errors.take_if(|errors| *errors == keys.errors);
        let wlan = Wlan { name: node.name().to_owned(), keys };
        wlan.check(node)?;
        Ok(wlan)
    }

    fn write(&self) -> Map<String, Value> {
        self.keys.write()
    }
}

impl Wlan {
    /// Returns the position of the access point, or of a station; `None` if all stations are in
    /// range of each other.
    pub fn position(&self, station: Option<&str>) -> Option<Position> {
        let (x, y) = match station {
            None => (self.keys.x, self.keys.y),
            Some(station) => self.own(station).map_or((None, None), |own| (own.x, own.y)),
        };
        Some(Position { x: x?, y: y.unwrap_or_default() })
    }

    /// Returns the ranges of frames.
    pub fn propagation(&self) -> Propagation {
        let keys = &self.keys;
        Propagation {
            transmission: keys.transmission_range,
            carrier_sense: keys.carrier_sense_range,
            interference: keys.interference_range.unwrap_or(keys.carrier_sense_range),
            capture_threshold: Some(keys.capture_threshold),
            capture: keys.capture,
            exponent: keys.path_loss_exponent.0,
            crossover: keys.crossover,
        }
    }

    /// Returns `true` if the agent is attached to a station, and so to its link only.
    pub(super) fn is_at_station(&self, agent: &AgentKind) -> bool {
        agent.at().is_some_and(|at| self.keys.stations.0.iter().any(|station| station == at))
    }

    /// Returns durations and contention windows, with the values of the keys.
    pub fn timing(&self) -> Timing {
        let keys = &self.keys;
        let standard = self.standard_timing();
        let slot = keys.slot.unwrap_or(standard.slot);
        let sifs = keys.sifs.unwrap_or(standard.sifs);
        let known = standard.slot + standard.sifs;
        let rx_start = standard.response_timeout.as_nanos() - known.as_nanos();
        let response_timeout = sifs + slot + Duration::from_nanos(rx_start);
        Timing {
            slot,
            sifs,
            cw_min: keys.cw_min.unwrap_or(standard.cw_min),
            cw_max: keys.cw_max.unwrap_or(standard.cw_max),
            response_timeout: keys.response_timeout.unwrap_or(response_timeout),
            ..standard
        }
    }

    /// Returns the name of the medium that its stations share.
    pub fn channel(&self) -> &str {
        self.keys.channel.as_deref().unwrap_or(&self.name)
    }

    pub(super) fn own(&self, station: &str) -> Option<&WlanStationKeys> {
        let mut own = self.keys.station.iter().flatten();
        own.find(|one| one.name == station).map(|one| &one.keys)
    }

    /// Returns the rate of data frames, in general or of a station.
    pub fn rate(&self, station: Option<&str>) -> Rate {
        if let Some(mode) = self.mode(station) {
            return mode.rate();
        }
        let own = station.and_then(|station| self.own(station)?.rate);
        let highest = self.phy().standard.rates().last().unwrap_or_default();
        own.or(self.keys.rate).unwrap_or(highest)
    }

    /// Returns the rate of control frames for data at `rate`.
    pub fn control_rate(&self, rate: Rate) -> Rate {
        let known = self.keys.control_rate.map(|control| control.min(rate));
        known.unwrap_or(self.phy().standard.control_rate(rate))
    }

    /// Returns the period during which a station is out of range.
    pub fn away(&self, station: &str) -> Option<[Duration; 2]> {
        let keys = self.own(station)?;
        let never = Duration::from_nanos(u64::MAX / 2);
        Some([keys.leaves?, keys.returns.unwrap_or(never)])
    }

    /// Returns the links of the stations of WLAN number `index`.
    pub(super) fn links(&self, index: usize) -> impl Iterator<Item = Link> {
        let keys = &self.keys;
        keys.stations.0.iter().map(move |station| {
            let own = self.own(station);
            let up = own.and_then(|own| own.errors.as_ref()).unwrap_or(&keys.errors);
            let down = match own {
                Some(WlanStationKeys { downlink_errors: Some(down), .. }) => down,
                Some(WlanStationKeys { errors: Some(errors), .. }) => errors,
                _ => keys.downlink_errors.as_ref().unwrap_or(&keys.errors),
            };
            let direction = |errors: &Errors| Direction {
                rate: self.rate(Some(station)),
                rate_changes: None,
                delay: Duration::ZERO,
                delay_changes: None,
                queue: keys.queue().clone(),
                errors: self.errors_at_snr(station).unwrap_or_else(|| errors.clone()),
            };
            let mut agents = keys.agent.clone();
            // Agents at other stations are attached to their links.
            agents.0.retain(|agent| {
                !self.is_at_station(agent) || agent.at().is_some_and(|at| at == station)
            });
            for agent in agents.0.iter_mut().filter(|agent| !self.is_at_station(agent)) {
                // The reader has checked this.
                let placed = agent.place_on_radio(&keys.access_point, station);
                debug_assert!(placed.is_ok(), "an agent that goes with its WLAN");
            }
            Link {
                name: format!("{}.{station}", self.name),
                radio: None,
                wlan: Some(index),
                between: [station.clone(), keys.access_point.clone()],
                forward: direction(up),
                reverse: direction(down),
                protocol: LinkProtocol::One(Protocol::Raw(lasthop_link::link::raw::RawKeys {})),
                agents,
                header: keys.header(),
                mtu: Some(LARGEST_PACKET),
                measure: keys.measure,
            }
        })
    }
}
