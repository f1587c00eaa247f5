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
use super::plan::Plan;
use super::radiotap::{self, OnAir};
use super::{RunError, build, finish};
use crate::agent::AgentEvent;
use crate::scenario::{Layers, Link, LinkProtocol, Scenario};
use crate::sim::ids::{DirectionId, Side};
use crate::sim::probe::{Event, FrameLabel, Recorder, Room};
use crate::sim::world::End;
use lasthop_base::packet::{Packet, Watched};
use lasthop_base::rng::Streams;
use lasthop_base::units::Instant;
use lasthop_link::link::FrameKind;
use lasthop_wlan::dcf::{AirFate, AirFrame};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, PcapError};
use std::collections::{HashMap, HashSet, VecDeque};
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

/// A packet observed at a time and a place.
#[derive(Clone, Debug)]
struct Observation {
    at: Instant,
    direction: DirectionId,
    /// Whether the packet is observed at the far end of the direction.
    is_arriving: bool,
    packet: Packet,
    comment: String,
    /// The 802.11 frame that carried the packet, or a control frame.
    on_air: Option<OnAir>,
}

impl Observation {
    /// An observation at the near end of the direction.
    fn entering(at: Instant, direction: DirectionId, packet: Packet, comment: String) -> Self {
        Observation { at, direction, is_arriving: false, packet, comment, on_air: None }
    }
}

/// State of one direction while its events are processed in order.
#[derive(Clone, Debug, Default)]
struct DirectionHistory {
    /// Number of packets sent, retransmissions excluded.
    left: u64,
    /// Dropped packets that are not yet listed: the number of packets sent before them, the time of
    /// the drop, and the packet.
    refused: VecDeque<(u64, Instant, Packet)>,
    /// For each service, one more than the highest sequence number sent.
    next: HashMap<u8, u64>,
    /// Services that have sent segments of a packet, but not the last one.
    inside: HashSet<u8>,
    /// The indices of the last RESET and RESET ACK.
    resets: [Option<u64>; 2],
    /// Packets that the agent at the near end is about to send.
    agents_due: u32,
    /// Queued packets, and whether they were sent by the agent.
    waiting: VecDeque<(Packet, bool)>,
}

/// Relation of a frame to the packet in it.
enum Role {
    /// The first transmission of a packet or of its first segment.
    New,
    /// A retransmission of the frame with this number, or a frame that carries one; of this service
    /// or layer.
    Copy(u64, u8),
    /// A further segment, or a retransmitted one.
    Piece,
}

impl DirectionHistory {
    /// Restarts the numbering of a service once per reset, regardless of the number of RESET
    /// frames.
    fn on_control(&mut self, label: FrameLabel) {
        let (place, index) = match label.kind {
            FrameKind::Reset { index } => (0, index),
            FrameKind::ResetAck { index } => (1, index),
            _ => return,
        };
        if self.resets[place].replace(index) != Some(index) {
            self.next.remove(&label.service);
            self.inside.remove(&label.service);
        }
    }

    /// Removes a packet from the queued ones when it or its first segment is sent. Returns `true`
    /// if it is the agent's own.
    fn leave(&mut self, packet: &Packet) -> bool {
        // A segment has a different length, and the queue may have marked the packet.
        let is_it = |&(mut waiting, _): &(Packet, bool)| {
            (waiting.bytes, waiting.tcp.ecn) = (packet.bytes, packet.tcp.ecn);
            waiting == *packet
        };
        let place = self.waiting.iter().position(is_it);
        place.and_then(|place| self.waiting.remove(place)).is_some_and(|(_, is_own)| is_own)
    }

    /// Lists the dropped packets whose turn has come, after a packet has been sent at `start`.
    fn show_refused(
        &mut self,
        direction: DirectionId,
        start: Instant,
        seen: &mut Vec<Observation>,
    ) {
        self.left += 1;
        while let Some(&(after, refused_at, packet)) = self.refused.front()
            && after <= self.left
        {
            self.refused.pop_front();
            let comment = refusal(refused_at);
            let at = start.max(refused_at);
            seen.push(Observation::entering(at, direction, packet, comment));
        }
    }

    fn role(&mut self, FrameLabel { kind, service, .. }: FrameLabel) -> Role {
        let next = self.next.entry(service).or_default();
        match kind {
            FrameKind::Data { sequence } | FrameKind::Block { sequence, .. }
                if sequence < *next =>
            {
                Role::Copy(sequence, service)
            }
            FrameKind::Data { sequence } | FrameKind::Block { sequence, .. } => {
                *next = sequence + 1;
                Role::New
            }
            FrameKind::Segment { sequence, is_last, .. } if sequence >= *next => {
                // If a packet is discarded before its last segment, a number is skipped.
                let is_next = sequence == *next;
                *next = sequence + 1;
                let is_begun = self.inside.remove(&service);
                if !is_last {
                    self.inside.insert(service);
                }
                if is_begun && is_next { Role::Piece } else { Role::New }
            }
            _ => Role::Piece,
        }
    }
}

/// Frames of the upper layers of a link, by their layer and number.
type LayerFrames = HashMap<(u8, u32), FrameLabel>;

impl DirectionHistory {
    /// Determines the relation of a frame of layer `label.service` to its packet through the layers
    /// above.
    fn role_in_layers(&mut self, label: FrameLabel, above: &LayerFrames) -> Role {
        let role = self.role(label);
        let carried = label.carries.zip(label.service.checked_sub(1));
        match carried.and_then(|(number, layer)| above.get(&(layer, number))) {
            Some(&upper) if matches!(role, Role::New) => self.role_in_layers(upper, above),
            _ => role,
        }
    }
}

/// Returns `true` if a frame, or a frame of an upper layer in it, contains a segment of a packet.
fn is_piece(label: FrameLabel, above: &LayerFrames) -> bool {
    let carried = label.carries.zip(label.service.checked_sub(1));
    let upper = carried.and_then(|(number, layer)| above.get(&(layer, number)));
    matches!(label.kind, FrameKind::Segment { .. })
        || upper.is_some_and(|&upper| is_piece(upper, above))
}

fn refusal(at: Instant) -> String {
    format!("dropped by the queue at {:.9} s", at.as_secs_f64())
}

/// Derives the observations from events in the order of their computation.
fn observations(
    events: &[(Instant, Event)],
    on_wlan: &[bool],
    layers: &[Vec<String>],
    at_host: bool,
) -> Vec<Observation> {
    let mut seen = Vec::new();
    let mut histories = vec![DirectionHistory::default(); on_wlan.len()];
    let mut passed = vec![LayerFrames::new(); on_wlan.len()];
    for &(_, event) in events {
        if let Event::LayerSent { direction, number, label, .. } = event {
            passed[direction.index()].insert((label.service, number), label);
        }
    }
    for &(at, event) in events {
        match event {
            Event::Queue { direction, packet, .. } => {
                let history = &mut histories[direction.index()];
                // The event of the agent directly precedes the one of its packet.
                let is_own = history.agents_due > 0;
                history.agents_due -= u32::from(is_own);
                history.waiting.push_back((packet, is_own));
            }
            Event::Agent { direction, event: AgentEvent::LocalRetransmission { .. } } => {
                histories[direction.index()].agents_due += 1;
            }
            Event::Dropped { direction, packet, turn } => {
                let history = &mut histories[direction.index()];
                // The packet that has just arrived, unless the discipline drops others.
                let waiting = &mut history.waiting;
                let place = waiting.iter().rposition(|&(waiting, _)| waiting == packet);
                let place = place.unwrap_or(waiting.len());
                waiting.remove(place);
                match turn {
                    Some(turn) => {
                        seen.push(Observation::entering(turn, direction, packet, refusal(at)));
                    }
                    None => {
                        let after = history.left + place as u64;
                        let index = history.refused.partition_point(|&(known, ..)| known <= after);
                        history.refused.insert(index, (after, at, packet));
                    }
                }
            }
            // The frames of a WLAN have separate events.
            Event::FrameSent { direction, .. } if on_wlan[direction.index()] => {}
            Event::OnAir {
                direction, kind, fate, packet, reserves, scoreboard, signal, ..
            } => {
                let history = &mut histories[direction.index()];
                let mut notes = Vec::new();
                let is_new = matches!(
                    kind,
                    AirFrame::Data { is_retry: false, .. } | AirFrame::Mpdu { is_retry: false, .. }
                );
                if let Some(packet) = packet
                    && is_new
                    && history.leave(&packet)
                {
                    notes.push("retransmitted by the agent");
                }
                match fate {
                    AirFate::Received => {}
                    AirFate::Damaged => notes.push("damaged on the air"),
                    AirFate::Collided => notes.push("collided"),
                }
                if is_new || !at_host {
                    let direction =
                        if kind.is_response() { direction.opposite() } else { direction };
                    let (packet, comment) = (packet.unwrap_or_default(), notes.join(", "));
                    let on_air =
                        (!at_host).then_some(OnAir { kind, fate, reserves, scoreboard, signal });
                    let is_arriving = false;
                    seen.push(Observation { at, direction, is_arriving, packet, comment, on_air });
                }
                if is_new {
                    histories[direction.index()].show_refused(direction, at, &mut seen);
                }
            }
            Event::FrameSent {
                direction,
                label,
                packet: Some(packet),
                bytes,
                start,
                arrival,
                ..
            } => {
                let history = &mut histories[direction.index()];
                let (names, above) = (&layers[direction.index()], &passed[direction.index()]);
                let lowest = names.len().saturating_sub(1) as u8;
                let label = FrameLabel { service: label.service.max(lowest), ..label };
                let role = history.role_in_layers(label, above);
                let mut notes = Vec::new();
                if matches!(role, Role::New) && history.leave(&packet) {
                    notes.push("retransmitted by the agent".to_owned());
                }
                let is_cut = is_piece(label, above);
                match role {
                    Role::Copy(number, part) => {
                        let layer = names.get(usize::from(part)).map_or("link", String::as_str);
                        notes.push(format!("copy of {layer} frame {number}"));
                    }
                    Role::New if is_cut => notes.push("segmented".to_owned()),
                    Role::New | Role::Piece => {}
                }
                if arrival.is_none() && !is_cut {
                    notes.push(format!("lost on the air ({bytes} B)"));
                }
                let is_shown = match role {
                    Role::New => true,
                    Role::Copy(..) => !at_host,
                    Role::Piece => false,
                };
                if is_shown {
                    let comment = notes.join(", ");
                    seen.push(Observation::entering(start, direction, packet, comment));
                }
                if matches!(role, Role::New) {
                    history.show_refused(direction, start, &mut seen);
                }
            }
            Event::FrameSent { direction, label, packet: None, .. } => {
                let lowest = layers[direction.index()].len().saturating_sub(1) as u8;
                let label = FrameLabel { service: label.service.max(lowest), ..label };
                histories[direction.index()].on_control(label);
            }
            Event::LayerSent { direction, label, .. } => {
                histories[direction.index()].on_control(label);
            }
            Event::Delivered { direction, packet, .. } if at_host => {
                let (is_arriving, comment, on_air) = (true, String::new(), None);
                seen.push(Observation { at, direction, is_arriving, packet, comment, on_air });
            }
            _ => {}
        }
    }
    for (direction, history) in histories.into_iter().enumerate() {
        seen.extend(history.refused.into_iter().map(|(_, at, packet)| Observation {
            at,
            direction: DirectionId::new(direction),
            is_arriving: false,
            packet,
            comment: refusal(at),
            on_air: None,
        }));
    }
    seen
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of these segments, given as (number, whether it is the last one), begin a
    /// packet.
    fn first_pieces(history: &mut DirectionHistory, pieces: &[(u64, bool)]) -> Vec<bool> {
        let role = |&(sequence, is_last)| {
            let kind = FrameKind::Segment { sequence, is_last, poll: false };
            let label = FrameLabel { kind, ack: None, service: 0, carries: None };
            matches!(history.role(label), Role::New)
        };
        pieces.iter().map(role).collect()
    }

    #[test]
    fn packets_given_up_half_way_hide_no_others() {
        let mut history = DirectionHistory::default();
        // The second packet is discarded after two of its three segments, without its number 6 or
        // the number skipped instead. Segment 3 of the first packet is retransmitted in between.
        let pieces = [
            (2, false),
            (3, true),
            (4, false),
            (3, true),
            (5, false),
            (7, false),
            (8, true),
            (9, true),
        ];
        let expected = [true, false, true, false, false, true, false, true];
        assert_eq!(first_pieces(&mut history, &pieces), expected);
    }

    #[test]
    fn numbers_begin_again_once_a_reset() {
        let mut history = DirectionHistory::default();
        let control = |kind| FrameLabel { kind, ack: None, service: 0, carries: None };
        assert_eq!(first_pieces(&mut history, &[(0, true), (1, false)]), [true, true]);
        for kind in [FrameKind::Reset { index: 0 }, FrameKind::ResetAck { index: 0 }] {
            history.on_control(control(kind));
            assert_eq!(first_pieces(&mut history, &[(0, false), (1, true)]), [true, false]);
            // A repeated event belongs to the same reset.
            history.on_control(control(kind));
            assert_eq!(first_pieces(&mut history, &[(0, false), (1, true)]), [false, false]);
        }
    }
}
