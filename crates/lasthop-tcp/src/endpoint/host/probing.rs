//! Probes of the path for the largest packet that it takes (RFC 4821, as Linux does it: `tcp_mtu_probe`).
//!
//! ```text
//!   low   MTU that passes: that of the base segment at first; it bounds segments
//!   high  MTU that may pass: that of the agreed segment, or of the path
//!
//!   high - low >= 8, a window of 11 segments or more, nothing lost or reordered, enough data, room for two segments
//!         --> one segment with an MTU of (low + high) / 2, in the place of two
//!               | acknowledged                                   | the first that is lost
//!               v                                                v
//!         low = its MTU; the window keeps its bytes        high = its MTU - 1; it goes again in segments of before,
//!                                                          and the window stays
//!   where anything goes again, the probe told nothing
//!
//!   timeouts for longer than R1 --> nothing passes: low = that of the base segment where there was no search before,
//!                                   otherwise half of the segment, the base segment or the floor
//! ```
//!
//! *Not modelled*: a search anew after ten minutes.

use super::path::{HEADERS, LEAST_SEGMENT};
use super::{Endpoint, Host, MtuProbing, TIMESTAMPS_BYTES};
use crate::congestion_control::CongestionControl;
use crate::flight::Flight;
use lasthop_base::packet::TcpHeader;
use lasthop_base::units::Instant;

/// The least window, segments.
const LEAST_WINDOW: f64 = 11.0;

/// The search for the largest packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    how: MtuProbing,
    /// Bytes of packets that pass, and that may pass.
    low: u32,
    high: u32,
    /// Bytes of the headers and options of every segment.
    overhead: u32,
    /// MTU of the probe that is outstanding.
    probe: Option<u32>,
    /// The first segment that may leave at once is a probe, none of those after it.
    is_late: bool,
}

/// What the search makes of the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Leave,
    /// It waits until a probe may leave.
    Wait,
    /// It is a probe with a packet of so many bytes.
    Probe(u32),
}

impl Search {
    pub fn new(how: MtuProbing, mss: u32, mtu: u32, has_timestamps: bool) -> Self {
        let overhead = HEADERS + if has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        let high = (mss + HEADERS).min(mtu);
        Search { how, low: how.base + overhead, high, overhead, probe: None, is_late: false }
    }

    /// Payload bytes of segments that pass, on a path that takes packets of `mtu` bytes at most.
    pub fn bound(&mut self, mtu: u32) -> u64 {
        self.high = self.high.min(mtu);
        u64::from(self.low.saturating_sub(self.overhead)).max(1)
    }

    /// Not even what passed for certain passes any longer.
    fn shrink(&mut self) {
        let half = self.low.saturating_sub(self.overhead) / 2;
        let least = self.how.floor.max(LEAST_SEGMENT);
        self.low = half.min(self.how.base).max(least) + self.overhead;
    }
}

impl Endpoint<Host> {
    /// What `search` makes of the next segment.
    fn step(&self, search: &Search) -> Step {
        let flight = &self.sender.flight;
        let Some((in_flight, reordering)) = self.sender.calm() else { return Step::Leave };
        let cwnd = flight.law.cwnd();
        if search.is_late
            || search.probe.is_some()
            || cwnd < LEAST_WINDOW
            || self.receiver.has_blocks()
        {
            return Step::Leave;
        }
        let mtu = (search.low + search.high) / 2;
        let bytes = u64::from(mtu - search.overhead);
        let needed = bytes + u64::from(reordering + 1) * flight.mss;
        if search.high < search.low + search.how.threshold.max(1)
            || flight.write_end - flight.snd_max < needed
            || flight.peer_window < needed
        {
            return Step::Leave;
        }
        if flight.snd_max + needed > flight.snd_una + flight.peer_window {
            return Step::Wait;
        }
        match f64::from(in_flight) + 2.0 > cwnd {
            true if in_flight == 0 => Step::Leave,
            true => Step::Wait,
            // Records stay apart.
            false if !flight.is_undivided(bytes) => Step::Leave,
            false => Step::Probe(mtu),
        }
    }

    /// Segments begin small, and the path is probed for larger ones.
    pub(super) fn begin_search(&mut self) {
        let probing = self.host.settings.mtu_probing.filter(|how| how.from_start);
        self.host.search = probing.map(|how| self.new_search(how));
    }

    fn new_search(&self, how: MtuProbing) -> Search {
        let path = &self.host.path;
        Search::new(how, path.clamp(), path.mtu(), self.config.timestamps)
    }

    /// Timeouts follow each other: segments may be too large without a router's word (`tcp_mtu_probing`).
    pub(super) fn suspect_black_hole(&mut self, how: MtuProbing) {
        match &mut self.host.search {
            Some(search) => search.shrink(),
            None => self.host.search = Some(self.new_search(how)),
        }
        self.sync_segment();
    }

    /// The next segment of the data, which may be a probe, as [`Endpoint::poll_header`] has it.
    pub(super) fn poll_or_probe(&mut self, now: Instant, header: &mut TcpHeader) -> Option<u32> {
        let Some(search) = self.host.search else { return self.poll_header(now, header) };
        let sent_to = self.sender.flight.snd_max;
        let step = self.step(&search);
        let bytes = match step {
            Step::Leave => self.poll_header(now, header),
            Step::Wait => {
                self.sender.flight.hold_new();
                let bytes = self.poll_header(now, header);
                self.sender.refresh();
                bytes
            }
            Step::Probe(mtu) => {
                let usual = self.sender.flight.begin_probe((mtu - search.overhead).into());
                self.sender.refresh();
                let bytes = self.poll_header(now, header);
                self.sender.flight.end_probe(usual);
                self.sender.refresh();
                bytes
            }
        };
        let search = self.host.search.as_mut()?;
        search.is_late = bytes.is_some() && (search.is_late || header.payload > 0);
        let bytes = bytes?;
        let flight = &mut self.sender.flight;
        if header.payload > 0 && flight.snd_max == sent_to {
            (search.probe, flight.mtu_probe) = (None, None);
        }
        if let Step::Probe(mtu) = step
            && header.payload == mtu - search.overhead
        {
            search.probe = Some(mtu);
            flight.mtu_probe = Some((sent_to, flight.snd_max));
            // It counts as two.
            flight.law.set_cwnd(flight.law.cwnd() - 1.0);
            self.sender.refresh();
        }
        Some(bytes)
    }

    /// An ACK of everything below `ack` is about to be taken in: it may be that of the probe.
    pub(super) fn note_probe_passed(&mut self, ack: u64) {
        let Some(search) = &mut self.host.search else { return };
        let flight = &mut self.sender.flight;
        let Some((mtu, (_, end))) = search.probe.zip(flight.mtu_probe) else { return };
        if ack < end {
            return;
        }
        flight.mtu_probe = None;
        flight.shrink_window(flight.mss + u64::from(search.overhead), mtu.into());
        (search.low, search.probe) = (mtu, None);
        self.sync_segment();
    }

    /// An ACK was taken in, by which the probe may have been found lost.
    pub(super) fn note_probe_lost(&mut self) {
        let Some(search) = &mut self.host.search else { return };
        if self.sender.flight.mtu_probe.is_none()
            && let Some(mtu) = search.probe.take()
        {
            search.high = mtu - 1;
        }
    }
}

impl Flight {
    /// The next segment has `bytes` and leaves by itself. Returns what [`Self::end_probe`] brings back.
    fn begin_probe(&mut self, bytes: u64) -> (u64, bool) {
        let offload = std::mem::replace(&mut self.config.offload, false);
        (std::mem::replace(&mut self.mss, bytes), offload)
    }

    fn end_probe(&mut self, usual: (u64, bool)) {
        (self.mss, self.config.offload) = usual;
    }

    /// Segments grow by `more / less`: the window keeps its bytes.
    fn shrink_window(&mut self, less: u64, more: u64) {
        let cwnd = (self.law.cwnd() * less as f64 / more as f64).floor().max(1.0);
        let ssthresh = (0.75 * cwnd).floor();
        if self.law.ssthresh() < ssthresh {
            self.law.slow_start_to(cwnd, ssthresh);
        } else {
            self.law.set_cwnd(cwnd);
        }
    }
}
