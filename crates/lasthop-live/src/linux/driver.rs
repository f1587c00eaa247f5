//! Turns the links of a scenario by the wall clock: packets come from TUN devices and go back to them.
//!
//! Every deadline is handled at its own time, however late the process wakes; only arrivals take the
//! time of the wall. So the links do what they would do in a simulation of the same arrivals, and being
//! late shows in the hosts alone, as delay: the driver tells how much.

use super::hosts::Port;
use super::{Context, Fault, Watch};
use crate::capture::{Capture, Way};
use crate::network::Network;
use crate::recording::Recorder;
use hdrhistogram::Histogram;
use lasthop_base::units::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

/// Packets that are read from a device before the others have their turn.
const BATCH: usize = 64;

/// The longest time asleep.
const NAP: std::time::Duration = std::time::Duration::from_millis(100);

/// Lateness above this counts as this much: 100 s in nanoseconds.
const LONGEST_LATENESS: u64 = 100_000_000_000;

/// The largest packet of IP.
const LARGEST: usize = 65_536;

/// Files of a run that are being written.
#[derive(Default)]
pub struct Files {
    /// Arrivals and what came of them.
    pub recorder: Option<Recorder<BufWriter<File>>>,
    /// The packets at the ends of the links.
    pub capture: Option<Capture<BufWriter<File>>>,
}

/// A file could not be written any more.
pub type Lost = (&'static str, std::io::Error);

/// The links, their devices and the clock.
pub struct Driver {
    network: Network,
    ports: Vec<Port>,
    /// For each link the ports of its two ends.
    places: Vec<[usize; 2]>,
    poll: OwnedFd,
    origin: std::time::Instant,
    files: Files,
    /// Files that were given up, and why.
    lost: Vec<Lost>,
    /// How late deliveries were, in nanoseconds.
    lateness: Histogram<u64>,
    /// Packets that came in, went out, and that the kernel did not take.
    arrivals: u64,
    deliveries: u64,
    untaken: u64,
    /// Processor time at the start.
    processor: std::time::Duration,
    buffer: Box<[u8]>,
    events: Vec<epoll::Event>,
}

/// Tokens of what is not a device begin here.
const OTHERS: u64 = 1 << 32;

impl Driver {
    /// Time begins now.
    pub fn new(network: Network, ports: Vec<Port>, files: Files) -> Result<Self, Fault> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let mut places = vec![[usize::MAX; 2]; network.len()];
        for (index, port) in ports.iter().enumerate() {
            places[port.link][port.side as usize] = index;
            let token = epoll::EventData::new_u64(index as u64);
            epoll::add(&poll, &port.device, token, epoll::EventFlags::IN).context("epoll")?;
        }
        // Sleep ends when it should, not up to 50 µs later.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Driver {
            network,
            ports,
            places,
            poll,
            origin: std::time::Instant::now(),
            files,
            lost: Vec::new(),
            lateness: Histogram::new_with_bounds(1, LONGEST_LATENESS, 3)
                .map_err(|error| Fault::new(error.to_string()))?,
            arrivals: 0,
            deliveries: 0,
            untaken: 0,
            processor: processor_time(),
            buffer: vec![0; LARGEST].into_boxed_slice(),
            events: Vec::with_capacity(64),
        })
    }

    /// Wakes for this file too; [`Self::turn`] then says `token`.
    pub fn watch(&self, file: impl AsFd, token: u32) -> Result<(), Fault> {
        let data = epoll::EventData::new_u64(OTHERS + u64::from(token));
        epoll::add(&self.poll, file, data, epoll::EventFlags::IN).context("epoll")
    }

    /// Wakes no more for it.
    pub fn forget(&self, file: impl AsFd) {
        let _ = epoll::delete(&self.poll, file);
    }

    /// The time since the start.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// Does what is due, sleeps until something happens, and reads what has come. Returns the tokens of
    /// watched files that are ready.
    pub fn turn(&mut self) -> Result<Vec<u32>, Fault> {
        let now = self.now();
        self.network.advance(now);
        self.deliver();
        let due = self.network.next_timeout().saturating_since(self.now());
        self.sleep(std::time::Duration::from_nanos(due.as_nanos()).min(NAP))?;
        self.events.clear();
        let mut events = std::mem::take(&mut self.events);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.poll, spare, Some(&Timespec::default())) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
        let mut ready = Vec::new();
        for event in &events {
            match event.data.u64() {
                token if token >= OTHERS => ready.push((token - OTHERS) as u32),
                port => self.read(port as usize),
            }
        }
        self.events = events;
        Ok(ready)
    }

    /// Sleeps for `nap`, or until something is to be read. `epoll_wait` would round the time up to a whole
    /// millisecond, and its form that does not (`epoll_pwait2`) needs Linux 5.11.
    fn sleep(&self, nap: std::time::Duration) -> Result<(), Fault> {
        if nap.is_zero() {
            return Ok(());
        }
        let nap = Timespec { tv_sec: 0, tv_nsec: nap.as_nanos() as _ };
        match poll(&mut [PollFd::new(&self.poll, PollFlags::IN)], Some(&nap)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("poll"),
        }
    }

    /// Takes what a host has sent.
    fn read(&mut self, port: usize) {
        for _ in 0..BATCH {
            let Port { link, side, ref device } = self.ports[port];
            let Ok(length) = rustix::io::read(device, &mut self.buffer[..]) else { return };
            let packet = self.buffer[..length].to_vec();
            let now = self.now();
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
            self.deliver();
        }
    }

    /// Gives the hosts what has crossed the links.
    fn deliver(&mut self) {
        while let Some(delivery) = self.network.poll_delivery() {
            let port = self.places[delivery.link][delivery.side as usize];
            if rustix::io::write(&self.ports[port].device, &delivery.packet).is_err() {
                self.untaken += 1;
            }
            self.deliveries += 1;
            let late = self.now().saturating_since(delivery.at);
            self.lateness.saturating_record(late.as_nanos());
            if let Some(recorder) = &mut self.files.recorder
                && let Err(error) = recorder.delivery(&delivery)
            {
                self.files.recorder = None;
                self.lost.push(("--record", error));
            }
            if let Some(capture) = &mut self.files.capture {
                let place = (delivery.link, delivery.side);
                let written = capture.packet(delivery.at, place, Way::Inbound, &delivery.packet);
                if let Err(error) = written {
                    self.files.capture = None;
                    self.lost.push(("--pcap", error));
                }
            }
        }
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

    /// What the links have done so far.
    pub fn watching(&self) -> Watch<'_> {
        Watch {
            network: &self.network,
            lateness: &self.lateness,
            arrivals: self.arrivals,
            deliveries: self.deliveries,
            untaken: self.untaken,
            processor: processor_time().saturating_sub(self.processor),
        }
    }

    /// Ends the run: handles what is due, and closes the files. What is still under way stays there.
    pub fn finish(&mut self) {
        let now = self.now();
        self.network.advance(now);
        self.deliver();
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

    /// Files that could not be written any more.
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }
}

/// Processor time of this process, the kernel's for it included.
fn processor_time() -> std::time::Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A line for whoever reads the state of the run.
pub fn say(status: &mut impl Write, value: &serde_json::Value) {
    // Nobody may listen any more; the programs go on all the same.
    let _ = status.write_all(format!("{value}\n").as_bytes()).and_then(|()| status.flush());
}
