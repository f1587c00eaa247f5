//! Writes the packets of one replication to a pcapng file (draft-ietf-opsawg-pcapng), for Wireshark
//! and similar tools.
//!
//! Each direction of a link is an interface. Without a host, the capture shows the channel: all
//! frames with a packet, including link-layer retransmissions and lost frames, at the start of
//! their transmission. At a host, it shows the packets of this host's network layer: a sent packet
//! at the start of its first transmission, a received packet when the link delivers it.
//!
//! A packet that a queue drops is listed at the time at which it would have been sent, after those
//! that were queued. Therefore packets are listed in the order in which they were enqueued.
//!
//! On a WLAN the channel view shows all 802.11 frames, including control frames, with a radiotap
//! header.
//!
//! Not modelled: frames without a packet (link-layer acknowledgments, parity); packets of replayed
//! background traffic; on a link with segmentation, all frames of a packet except the first one.

use super::headers::Writer;
use super::observations::{Observation, observations};
use super::plan::Plan;
use super::radiotap;
use super::{RunError, build, finish};
use crate::agent::AgentEvent;
use crate::scenario::{Layers, Link, LinkProtocol, Scenario};
use crate::sim::ids::{DirectionId, Side};
use crate::sim::probe::{Event, Recorder, Room};
use crate::sim::world::End;
use lasthop_base::packet::Watched;
use lasthop_base::rng::Streams;
use lasthop_link::link::FrameKind;
use lasthop_wlan::dcf::AirFrame;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Nanoseconds, as the value of the option if_tsresol.
const NANOSECONDS: u8 = 9;
/// Values of the direction bits of the option epb_flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Selection of the packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Name of the only link to show; `None`: all links.
    pub link: Option<String>,
    /// Name of the host whose view is shown; `None`: the view of the channel.
    pub host: Option<String>,
    /// Maximum number of bytes kept of each packet; `None`: all.
    pub snap: Option<u32>,
}

/// Result of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Number of packets written.
    pub packets: u64,
    /// Whether the run was complete. If it was interrupted, the packets up to then are written.
    pub complete: bool,
}

/// The reason why a capture failed.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The replication cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The view selects an entity that the scenario does not contain.
    #[error("{what}: found {found:?}; expected {allowed}")]
    View {
        /// `link` or `host`.
        what: &'static str,
        /// The requested name.
        found: String,
        /// The available names.
        allowed: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl From<PcapError> for CaptureError {
    fn from(error: PcapError) -> Self {
        CaptureError::Write(match error {
            PcapError::IoError(error) => error,
            error => io::Error::other(error),
        })
    }
}

/// Returns `true` if the event is needed for a capture.
fn concerns_packets(event: &Event) -> bool {
    match event {
        Event::FrameSent { label, packet, .. } => {
            let is_reset =
                matches!(label.kind, FrameKind::Reset { .. } | FrameKind::ResetAck { .. });
            packet.is_some() || is_reset
        }
        Event::OnAir { .. }
        | Event::Dropped { .. }
        | Event::Delivered { .. }
        | Event::Queue { .. }
        | Event::LayerSent { .. }
        | Event::Agent { event: AgentEvent::LocalRetransmission { .. }, .. } => true,
        _ => false,
    }
}

/// Runs one replication, to its end or until another thread sets `interrupt`, and writes its
/// packets to the file `path`, which is created first.
pub fn capture(
    scenario: &Scenario,
    [seed, replication]: [u64; 2],
    view: &View,
    interrupt: &AtomicBool,
    path: &Path,
) -> Result<Captured, CaptureError> {
    let interfaces = interfaces(scenario, view)?;
    let out = BufWriter::new(File::create(path)?);
    let streams = Streams { seed, replication };
    let mut world = build::build::<Watched>(scenario, &Plan::new(scenario), streams)?
        .build(Recorder::only(Room::new(usize::MAX, interrupt), concerns_packets));
    let complete = finish(&mut world, scenario, interrupt)? != End::Interrupted;
    let end = world.now();
    let mut writer = Writer::new(scenario, world.senders(), world.take_transports());
    let events = world.into_probe().events;
    let on_wlan: Vec<bool> =
        scenario.links.iter().flat_map(|link| [link.wlan.is_some(); 2]).collect();
    let names = |link: &Link| link.protocol.layers().map(Layers::names).unwrap_or_default();
    let layers: Vec<_> =
        scenario.links.iter().flat_map(|link| [names(link), names(link)]).collect();
    let mut seen = observations(&events, &on_wlan, &layers, view.host.is_some());
    drop(events);
    let carries = |observation: &&Observation| observation.packet.bytes > 0;
    seen.iter().filter(carries).for_each(|observation| writer.meet(&observation.packet));
    // Computed directions report ahead of time, including events after the end of the run.
    seen.retain(|observation| observation.at <= end);
    seen.sort_by_key(|observation| observation.at);

    let mut file = open(out, scenario, view, &interfaces, &writer)?;
    let snap = view.snap.map_or(usize::MAX, |bytes| bytes as usize);
    let mut packets = 0;
    // Packets of the current A-MSDU; number of the current A-MPDU of each direction.
    let mut inside = Vec::new();
    let (mut ampdus, mut last_ampdu) = (vec![0u32; on_wlan.len()], 0);
    for Observation { at, direction, is_arriving, packet, comment, on_air } in seen {
        let Some(interface_id) = interfaces.iter().position(|&known| known == direction) else {
            continue;
        };
        let link = &scenario.links[direction.link()];
        let side = if is_arriving { direction.side().other() } else { direction.side() };
        let host = &link.between[side as usize];
        let mut options = Vec::new();
        match &view.host {
            Some(wanted) if wanted != host => continue,
            Some(_) => options.push(EnhancedPacketOption::Flags(if is_arriving {
                INBOUND
            } else {
                OUTBOUND
            })),
            None => {}
        }
        if !comment.is_empty() {
            options.push(EnhancedPacketOption::Comment(comment.into()));
        }
        // Packets dropped by the queue of a WLAN are never on the channel.
        if link.wlan.is_some() && on_air.is_none() && view.host.is_none() {
            continue;
        }
        let bytes = match (on_air, link.wlan) {
            (Some(on_air), Some(wlan)) => {
                let hosts = [&link.between[0], &link.between[1]].map(|host| writer.address(host));
                let (way, station) = (direction.side() as u32, link.between[0].as_str());
                if on_air.carries() {
                    inside.push(writer.write(&packet, usize::MAX).data);
                }
                if let AirFrame::Mpdu { place, subframe, subframes, .. } = on_air.kind {
                    if place == 0 && subframe == 0 {
                        last_ampdu += 1;
                        ampdus[direction.index()] = last_ampdu;
                    }
                    if subframe + 1 < subframes {
                        continue;
                    }
                }
                let about = (&scenario.wlans[wlan], station);
                let reference = ampdus[direction.index()];
                let bytes = radiotap::write(&on_air, about, hosts, way, &inside, reference, snap);
                inside.clear();
                bytes
            }
            _ => writer.write(&packet, snap),
        };
        file.write_pcapng_block(EnhancedPacketBlock {
            interface_id: interface_id as u32,
            timestamp: Duration::from_nanos(at.as_nanos()),
            original_len: bytes.length,
            data: bytes.data.into(),
            options,
        })?;
        packets += 1;
    }
    file.get_mut().flush()?;
    Ok(Captured { packets, complete })
}

/// Returns the directions that the view shows.
fn interfaces(scenario: &Scenario, view: &View) -> Result<Vec<DirectionId>, CaptureError> {
    let wanted = |what, found: &String, all: Vec<&str>| {
        if all.contains(&found.as_str()) {
            return Ok(());
        }
        let allowed = all.join(", ");
        Err(CaptureError::View { what, found: found.clone(), allowed })
    };
    let links = |shown: &dyn Fn(&Link) -> bool| {
        let links = scenario.links.iter().enumerate().filter(|(_, link)| shown(link));
        links.collect::<Vec<_>>()
    };
    if let Some(name) = &view.link {
        wanted("link", name, scenario.links.iter().map(|link| link.name.as_str()).collect())?;
    }
    let named = |link: &Link| view.link.as_ref().is_none_or(|name| *name == link.name);
    if let Some(host) = &view.host {
        let mut hosts: Vec<&str> = Vec::new();
        for (_, link) in links(&named) {
            let new = link.between.iter().map(String::as_str).filter(|host| !hosts.contains(host));
            let new: Vec<_> = new.collect();
            hosts.extend(new);
        }
        wanted("host", host, hosts)?;
    }
    let seen = |link: &Link| {
        named(link) && view.host.as_ref().is_none_or(|host| link.between.contains(host))
    };
    let directions = |index| Side::BOTH.map(|side| DirectionId::of(index, side));
    Ok(links(&seen).into_iter().flat_map(|(index, _)| directions(index)).collect())
}

/// Opens the file and writes the blocks before the packets.
fn open<W: Write>(
    out: W,
    scenario: &Scenario,
    view: &View,
    interfaces: &[DirectionId],
    writer: &Writer<'_>,
) -> Result<PcapNgWriter<W>, CaptureError> {
    let place = match &view.host {
        Some(host) => format!("as seen by host {host}"),
        None => "as transmitted".to_owned(),
    };
    let about = format!("Simulated packets of scenario {:?}, {place}.", scenario.name);
    let section = SectionHeaderBlock {
        options: vec![
            SectionHeaderOption::UserApplication(
                concat!("Lasthop ", env!("CARGO_PKG_VERSION")).into(),
            ),
            SectionHeaderOption::Comment(about.into()),
        ],
        ..SectionHeaderBlock::default()
    };
    let mut file = PcapNgWriter::with_section_header(out, section)?;
    for &interface in interfaces {
        let link = &scenario.links[interface.link()];
        let [a, b] = &link.between;
        let (side, from, to, direction) = match interface.side() {
            Side::Forward => ("forward", a, b, &link.forward),
            Side::Reverse => ("reverse", b, a, &link.reverse),
        };
        let protocol = match &link.protocol {
            _ if link.wlan.is_some() => "dcf".to_owned(),
            LinkProtocol::Stack(layers) => layers.names().join(" over "),
            one => one.kind().to_owned(),
        };
        let about = format!(
            "{from} to {to}: {}, {}, {protocol}, errors {}",
            direction.rate,
            direction.delay,
            direction.errors.kind()
        );
        file.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: match link.wlan {
                Some(_) if view.host.is_none() => DataLink::IEEE802_11_RADIOTAP,
                _ => DataLink::RAW,
            },
            snaplen: view.snap.unwrap_or(0),
            options: vec![
                InterfaceDescriptionOption::IfName(format!("{}.{side}", link.name).into()),
                InterfaceDescriptionOption::IfDescription(about.into()),
                InterfaceDescriptionOption::IfSpeed(direction.rate.as_bps()),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        })?;
    }
    let record = |(host, address): (&str, [u8; 4])| {
        let (ip_addr, names) = (address.to_vec().into(), vec![host.to_owned().into()]);
        Record::Ipv4(Ipv4Record { ip_addr, names })
    };
    let mut records: Vec<_> = writer.hosts().map(record).collect();
    records.push(Record::End);
    file.write_pcapng_block(NameResolutionBlock { records, options: Vec::new() })?;
    Ok(file)
}
