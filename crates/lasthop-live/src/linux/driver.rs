//! Driver of the links of a scenario by the wall clock. Packets arrive from TUN devices and are delivered to
//! them.
//!
//! Deadlines are handled at their own times, even if the process wakes late; only arrivals have the time of
//! the wall clock. The links therefore behave as in a simulation of the same arrivals. Lateness of the driver
//! appears as delay at the hosts only, and is reported.
//!
//! The driver sleeps until a packet can be delivered: deadlines that cannot deliver one, such as the end
//! of a transmission or the arrival of an acknowledgment, are handled then. Sleeping and reading of the
//! ready files are one system call.

use super::port::Port;
use super::{Context, Fault, Watch, sys};
use crate::capture::{Capture, Way};
use crate::change::Change;
use crate::link::Link;
use crate::names::{self, Names};
use crate::network::{Network, is_discovery};
use crate::offload::{Joint, MOST_PACKETS, Malformed, PREAMBLE, Segments, suits};
use crate::outbox::Delivery;
use crate::recording::{Header, Recorder};
use hdrhistogram::Histogram;
use lasthop_base::units::Instant;
use lasthop_sim::scenario::Scenario;
use lasthop_sim::sim::ids::Side;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Maximum number of packets read from a device before the other devices are read.
const BATCH: usize = 64;

/// Maximum duration of a sleep.
const NAP: std::time::Duration = std::time::Duration::from_millis(100);

/// Maximum recorded lateness, 100 s, in nanoseconds.
const LONGEST_LATENESS: u64 = 100_000_000_000;

/// Maximum length of an IP packet with its preamble, in bytes.
const LARGEST: usize = PREAMBLE + 65_575;

/// Output files of a run.
#[derive(Default)]
pub struct Files {
    /// Recording of arrivals, deliveries and frames.
    pub recorder: Option<Recorder<BufWriter<File>>>,
    /// Capture of the packets at the ends of the links.
    pub capture: Option<Capture<BufWriter<File>>>,
}

/// An output file that could no longer be written, and the error.
pub type Lost = (&'static str, std::io::Error);

/// State of the driver: links, devices and the clock.
pub struct Driver {
    network: Network,
    ports: Vec<Port>,
    names: Names,
    /// For each link, the ports of its two ends.
    places: Vec<[usize; 2]>,
    poll: OwnedFd,
    origin: std::time::Instant,
    files: Files,
    /// Files that could no longer be written, and the errors.
    lost: Vec<Lost>,
    /// Lateness of deliveries, in nanoseconds.
    lateness: Histogram<u64>,
    /// Packets received from hosts, delivered to hosts, and rejected by the kernel.
    arrivals: u64,
    deliveries: u64,
    rejected_by_kernel: u64,
    /// Processor time at the start of the last program.
    processor: std::time::Duration,
    /// Time before a delivery in which the driver polls instead of sleeping.
    spin: std::time::Duration,
    buffer: Box<[u8]>,
    /// Packets to write with the next call, and what they have in common.
    held: Vec<Delivery>,
    joint: Joint,
    /// Whether a delivered packet can have a wrong checksum: a host has sent one, or an agent can
    /// change packets.
    verifies: bool,
    events: Vec<epoll::Event>,
    /// Whether a device was readable in the last step: more packets may follow immediately.
    is_burst: bool,
}

/// First token of files that are not devices.
const OTHERS: u64 = 1 << 32;

impl Driver {
    /// Creates a driver whose clock starts now.
    pub fn new(
        network: Network,
        ports: Vec<Port>,
        names: Names,
        files: Files,
        spin: std::time::Duration,
    ) -> Result<Self, Fault> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let mut places = vec![[usize::MAX; 2]; network.len()];
        for (index, port) in ports.iter().enumerate() {
            places[port.link][port.side as usize] = index;
            let token = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, &port.device, token, epoll::EventFlags::IN).context("epoll")?;
        }
        // Sleep ends at the requested time instead of up to 50 µs later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let has_agents =
            |link: &Link| Side::BOTH.iter().any(|&side| !link.end(side).agents().is_empty());
        let verifies = network.links().iter().any(has_agents);
        Ok(Driver {
            network,
            ports,
            names,
            places,
            poll,
            origin: std::time::Instant::now(),
            files,
            lost: Vec::new(),
            lateness: Histogram::new_with_bounds(1, LONGEST_LATENESS, 3)
                .map_err(|error| Fault::new(error.to_string()))?,
            arrivals: 0,
            deliveries: 0,
            rejected_by_kernel: 0,
            processor: processor_time(),
            spin,
            buffer: vec![0; LARGEST].into_boxed_slice(),
            held: Vec::with_capacity(MOST_PACKETS),
            joint: Joint::default(),
            verifies,
            events: Vec::with_capacity(64),
            is_burst: false,
        })
    }

    /// Watches a file: [`Self::turn`] returns `token` when it is readable.
    pub fn watch(&self, file: impl AsFd, token: u32) -> Result<(), Fault> {
        let data = epoll::EventData::new_u64(OTHERS + u64::from(token));
        epoll::add(&self.poll, file, data, epoll::EventFlags::IN).context("epoll")
    }

    /// Stops watching a file.
    pub fn forget(&self, file: impl AsFd) {
        let _ = epoll::delete(&self.poll, file);
    }

    /// Counts the processor time from now on: creating hosts and starting programs is not included.
    pub fn count_processor_time(&mut self) {
        self.processor = processor_time();
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// Handles due deadlines, sleeps until the next event, and reads arrivals. Returns the tokens
    /// of watched files that are ready.
    pub fn turn(&mut self) -> Result<Vec<u32>, Fault> {
        self.catch_up();
        let due = self.network.next_delivery().saturating_since(self.now());
        let due = std::time::Duration::from_nanos(due.as_nanos());
        let nap = due.saturating_sub(self.spin).min(NAP);
        let mut events = std::mem::take(&mut self.events);
        match sys::wait(&self.poll, &mut events, nap) {
            Ok(()) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
        let mut ready = Vec::new();
        let most = if self.is_burst { BATCH } else { 1 };
        self.is_burst = false;
        for event in events.drain(..) {
            match event.data.u64() {
                token if token >= OTHERS => ready.push((token - OTHERS) as u32),
                port => {
                    self.is_burst = true;
                    self.read(port as usize, most);
                }
            }
        }
        self.events = events;
        Ok(ready)
    }

    /// Handles due deadlines, so that the state of the links is that of the present time.
    pub fn catch_up(&mut self) {
        let now = self.now();
        self.network.advance(now);
        self.deliver();
    }

    /// Reads up to `most` times what a host has sent.
    fn read(&mut self, port: usize, most: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..most {
            let Ok(mut bytes) = self.ports[port].read(&mut buffer) else { break };
            if let Some(headers) = &mut self.ports[port].headers {
                let Some(packet) = headers.take(bytes) else {
                    let _ = self.opposite(port).transmit(None, &bytes[PREAMBLE..]);
                    continue;
                };
                bytes = &mut bytes[packet];
            }
            match Segments::read(bytes) {
                Ok(packets) => {
                    if self.ports[port].has_preamble {
                        self.verifies |= !packets.has_right_checksums();
                    }
                    self.accept(port, packets);
                }
                // The link rejects it if it is too long.
                Err(Malformed) => self.accept(port, std::iter::once(bytes[PREAMBLE..].to_vec())),
            }
        }
        self.buffer = buffer;
    }

    /// Returns the port at the other end of the same link.
    fn opposite(&self, port: usize) -> &Port {
        let Port { link, side, .. } = self.ports[port];
        &self.ports[self.places[link][side.other() as usize]]
    }

    /// Passes packets that a host has sent to the link.
    fn accept(&mut self, port: usize, packets: impl Iterator<Item = Vec<u8>>) {
        let Port { link, side, ref headers, .. } = self.ports[port];
        let has_names = headers.is_none();
        let now = self.now();
        for packet in packets {
            // Its frames would use random numbers that belong to the programs' packets.
            if is_discovery(&packet) {
                continue;
            }
            if has_names && names::is_for_server(&packet) {
                if let Some(reply) = self.names.reply(&packet) {
                    let _ = self.ports[port].write(&reply);
                }
                continue;
            }
            if let Some(recorder) = &mut self.files.recorder
                && let Err(error) = recorder.arrival(now, link, side, &packet)
            {
                self.files.recorder = None;
                self.lost.push(("--record", error));
            }
            if let Some(capture) = &mut self.files.capture
                && let Err(error) = capture.packet(now, (link, side), Way::Outbound, &packet)
            {
                self.files.capture = None;
                self.lost.push(("--pcap", error));
            }
            self.arrivals += 1;
            self.network.input(now, link, side, packet);
        }
        self.deliver();
    }

    /// Delivers packets to the hosts.
    fn deliver(&mut self) {
        while let Some(delivery) = self.network.poll_delivery() {
            if !self.joins(&delivery) {
                self.write();
                self.joint.start(&delivery.packet, self.verifies);
            }
            self.held.push(delivery);
        }
        self.write();
        if let Some(recorder) = &mut self.files.recorder {
            for frame in self.network.drain_frames() {
                if let Err(error) = recorder.frame(&frame) {
                    self.lost.push(("--record", error));
                }
            }
            if self.lost.iter().any(|(option, _)| *option == "--record") {
                self.files.recorder = None;
            }
        }
    }

    /// Returns `true` if a packet is written together with those held so far, to the same host.
    fn joins(&mut self, delivery: &Delivery) -> bool {
        let (Some(first), Some(last)) = (self.held.first(), self.held.last()) else { return false };
        let port = self.places[delivery.link][delivery.side as usize];
        (delivery.link, delivery.side) == (first.link, first.side)
            && self.ports[port].has_preamble
            && self.joint.add(
                &first.packet,
                &delivery.packet,
                delivery.at.saturating_since(last.at),
            )
    }

    /// Writes the packets held so far to their host. If the kernel rejects several packets together, each
    /// is written separately. The recording contains rejected packets, too, as the link has delivered them.
    fn write(&mut self) {
        let Some(first) = self.held.first() else { return };
        let index = self.places[first.link][first.side as usize];
        let port = &self.ports[index];
        let is_written = match &self.opposite(index).headers {
            None => port.write_together(&self.joint, &self.held).is_ok(),
            Some(headers) => headers
                .find(&first.packet)
                .is_some_and(|header| port.transmit(Some(header), &first.packet).is_ok()),
        };
        let is_alone = self.held.len() == 1;
        let now = self.now();
        for delivery in self.held.drain(..) {
            if let Some(recorder) = &mut self.files.recorder
                && let Err(error) = recorder.delivery(&delivery)
            {
                self.files.recorder = None;
                self.lost.push(("--record", error));
            }
            if !is_written && (is_alone || port.write(&delivery.packet).is_err()) {
                self.rejected_by_kernel += 1;
                continue;
            }
            self.deliveries += 1;
            let late = now.saturating_since(delivery.at);
            self.lateness.saturating_record(late.as_nanos());
            if let Some(capture) = &mut self.files.capture {
                let place = (delivery.link, delivery.side);
                let written = capture.packet(delivery.at, place, Way::Inbound, &delivery.packet);
                if let Err(error) = written {
                    self.files.capture = None;
                    self.lost.push(("--pcap", error));
                }
            }
        }
    }

    /// Changes the links now. Returns the time and, if the change concerns one link, its name.
    ///
    /// # Errors
    /// A message, if the change is invalid; nothing is changed.
    pub fn change(
        &mut self,
        text: &str,
        base: &Path,
        scenario: &mut Scenario,
        header: &Header,
    ) -> Result<(lasthop_base::units::Instant, Option<String>), String> {
        let change = Change::read(text, base, scenario).map_err(|error| error.to_string())?;
        let now = self.now();
        let before = scenario.links.clone();
        self.network
            .change(now, &change, scenario, header.streams)
            .map_err(|error| error.to_string())?;
        self.deliver();
        if let Some(recorder) = &mut self.files.recorder
            && let Err(error) = recorder.change(now, text)
        {
            self.files.recorder = None;
            self.lost.push(("--record", error));
        }
        let link = match change {
            Change::Pause(link, _) => link,
            Change::Scenario(_) => {
                let mut changed =
                    (0..before.len()).filter(|&link| before[link] != scenario.links[link]);
                changed.next().filter(|_| changed.next().is_none())
            }
        };
        Ok((now, link.map(|link| scenario.links[link].name.clone())))
    }

    /// Returns the names of the links whose devices have segmentation offload although their rate in `scenario`
    /// is too low for it.
    pub fn slow_links_with_offload<'a>(
        &self,
        scenario: &'a Scenario,
    ) -> impl Iterator<Item = &'a str> {
        let slow = self.ports.iter().map(|port| (port.has_preamble, &scenario.links[port.link]));
        slow.filter(|(has_offload, link)| *has_offload && !suits(link))
            .map(|(_, link)| link.name.as_str())
    }

    /// Returns the number of frames that network interfaces have dropped because the driver was too slow to read
    /// them, since the last call.
    pub fn overflows(&self) -> u64 {
        let interfaces = self.ports.iter().filter(|port| port.headers.is_some());
        interfaces.map(|port| sys::packet_drops(&port.device)).sum()
    }

    /// Returns the links, for reports of an interval.
    pub fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Returns the state of the links.
    pub fn watching(&self) -> Watch<'_> {
        Watch {
            network: &self.network,
            lateness: &self.lateness,
            arrivals: self.arrivals,
            deliveries: self.deliveries,
            rejected_by_kernel: self.rejected_by_kernel,
            processor: processor_time().saturating_sub(self.processor),
        }
    }

    /// Ends the run: handles due deadlines and closes the files. Packets in transit are discarded.
    pub fn finish(&mut self) {
        // Packets that programs sent just before their end.
        for port in 0..self.ports.len() {
            self.read(port, BATCH);
        }
        self.catch_up();
        let now = self.network.now();
        if let Some(mut recorder) = self.files.recorder.take()
            && let Err(error) = recorder.end(now)
        {
            self.lost.push(("--record", error));
        }
        if let Some(mut capture) = self.files.capture.take()
            && let Err(error) = capture.flush()
        {
            self.lost.push(("--pcap", error));
        }
    }

    /// Returns the files that could no longer be written.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }
}

/// Returns the processor time of this process, including kernel time.
fn processor_time() -> std::time::Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Writes a line to the reader of the run's state.
pub fn say(status: &mut impl Write, value: &serde_json::Value) {
    // The reader may have closed the pipe; the programs continue nevertheless.
    let _ = status.write_all(format!("{value}\n").as_bytes()).and_then(|()| status.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::replay;
    use lasthop_base::rng::Streams;
    use lasthop_sim::sim::ids::Side;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::os::unix::net::UnixDatagram;
    use std::time::Duration;

    const LINK: &str = r#"
        name = "live"
        [link.air]
        between = ["a", "b"]
        rate = "unlimited"
        delay = "1 ms"
        [flow.f]
        from = "a"
        to = "b"
        transport = { kind = "udp" }
        app = { kind = "media", rate = "8 kbps", packet = "100 B" }
        [run]
        duration = "1 s"
    "#;

    /// Data of each packet, in bytes.
    const DATA: usize = 1_000;

    /// Datagrams of UDP with one header, as a device passes them on.
    fn datagrams(count: usize) -> Vec<u8> {
        let mut packet = vec![1, 5, 0, 0];
        for number in [DATA as u16, 20, 6] {
            packet.extend(number.to_ne_bytes());
        }
        let udp = 8 + (count * DATA) as u16;
        let ip = etherparse::Ipv4Header::new(
            udp,
            64,
            etherparse::IpNumber::UDP,
            [10, 71, 0, 1],
            [10, 71, 0, 2],
        );
        ip.expect("a length that fits").write(&mut packet).expect("a header");
        packet.extend([0x9c, 0x40, 0, 9]);
        packet.extend(udp.to_be_bytes());
        packet.extend([0, 0]);
        packet.resize(PREAMBLE + 28 + count * DATA, 7);
        packet
    }

    /// Runs a link whose host `b` has a socket as its device, and passes `count` datagrams to it. Returns the
    /// numbers of delivered and rejected packets, those in the capture, and the recording's file.
    fn run(name: &str, device: UnixDatagram, count: usize) -> ([u64; 2], usize, Vec<u8>) {
        let base = Path::new(".");
        let mut points =
            Scenario::from_toml(LINK, base).and_then(|one| one.points()).expect("valid");
        let scenario = points.remove(0).scenario;
        let streams = Streams { seed: 1, replication: 0 };
        let mut network = Network::new(&scenario, streams, None).expect("a network");
        network.keep_frames();
        let header = Header { scenario, base: ".".to_owned(), streams, mtu: None };
        let path = |kind: &str| {
            std::env::temp_dir().join(format!("lasthop-{name}-{}.{kind}", std::process::id()))
        };
        let create = |kind: &str| BufWriter::new(File::create(path(kind)).expect("a file"));
        let files = Files {
            recorder: Some(Recorder::new(create("rec"), &header).expect("a recording")),
            capture: Some(
                Capture::new(create("pcapng"), &header.scenario, Duration::ZERO)
                    .expect("a capture"),
            ),
        };
        let (own, host) = UnixDatagram::pair().expect("sockets");
        let ports = [(Side::Forward, own), (Side::Reverse, device)].map(|(side, device)| {
            device.set_nonblocking(true).expect("a socket");
            Port::tun(0, side, device.into(), true)
        });
        let mut driver =
            Driver::new(network, ports.into(), Names::default(), files, Duration::ZERO)
                .expect("a driver");
        host.send(&datagrams(count)).expect("room for a packet");
        let since = std::time::Instant::now();
        while driver.deliveries + driver.rejected_by_kernel < count as u64 {
            driver.turn().expect("a turn");
            assert!(since.elapsed() < Duration::from_secs(20), "packets are delivered");
        }
        driver.finish();
        assert!(driver.lost().is_empty());
        assert_eq!(driver.lateness.len(), driver.deliveries);
        let counts = [driver.deliveries, driver.rejected_by_kernel];
        let capture = File::open(path("pcapng")).expect("a capture");
        let mut reader = PcapNgReader::new(capture).expect("a capture");
        let mut captured = 0;
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.expect("a block") {
                captured += usize::from(packet.interface_id == 1);
            }
        }
        let recording = std::fs::read(path("rec")).expect("a recording");
        for kind in ["rec", "pcapng"] {
            std::fs::remove_file(path(kind)).expect("a file");
        }
        (counts, captured, recording)
    }

    /// All packets that the link has delivered are in the recording.
    fn assert_replays(recording: &[u8], count: u64) {
        let replayed = replay(recording).expect("a recording");
        assert!(replayed.is_complete && replayed.difference.is_none());
        assert_eq!((replayed.arrivals, replayed.same), (count, 2 * count));
    }

    #[test]
    fn packets_that_cannot_be_written_together_are_written_separately() {
        let (own, host) = UnixDatagram::pair().expect("sockets");
        // Room for two packets, but not for all of them in one.
        rustix::net::sockopt::set_socket_send_buffer_size(&own, 2_048).expect("a socket");
        let ([delivered, rejected], captured, recording) = run("separate", own, 6);
        assert!(delivered > 0 && rejected > 0, "{delivered} {rejected}");
        assert_eq!(delivered + rejected, 6);
        host.set_nonblocking(true).expect("a socket");
        let mut received = 0;
        let mut buffer = [0; 2_000];
        while let Ok(length) = host.recv(&mut buffer) {
            assert_eq!(length, PREAMBLE + 28 + DATA);
            received += 1;
        }
        assert_eq!((received, captured as u64), (delivered, delivered));
        assert_replays(&recording, 6);
    }

    #[test]
    fn rejected_packets_are_not_counted_as_delivered_to_the_host() {
        for count in [1, 3] {
            let (own, host) = UnixDatagram::pair().expect("sockets");
            drop(host);
            let (counts, captured, recording) = run("rejected", own, count);
            assert_eq!((counts, captured), ([0, count as u64], 0));
            assert_replays(&recording, count as u64);
        }
    }

    #[test]
    fn packets_are_written_together() {
        let (own, host) = UnixDatagram::pair().expect("sockets");
        let (counts, captured, recording) = run("together", own, 3);
        assert_eq!((counts, captured), ([3, 0], 3));
        let mut buffer = [0; 5_000];
        assert_eq!(host.recv(&mut buffer).expect("a packet"), PREAMBLE + 28 + 3 * DATA);
        assert_replays(&recording, 3);
    }
}
