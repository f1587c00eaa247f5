//! Path MTU probing (RFC 4821, as in Linux: `tcp_mtu_probe`).
//!
//! ```text
//!   low   MTU that passes, at first that of the base segment; it limits segments
//!   high  MTU that may pass: that of the negotiated MSS, or of the path
//!
//!   high - low >= 8, a window of at least 11 segments, no loss or reordering, enough data,
//!   room for two segments
//!         --> one segment with an MTU of (low + high) / 2 instead of two
//!               | acknowledged                    | the first segment lost
//!               v                                 v
//!         low = its MTU; same cwnd in bytes   high = its MTU - 1; retransmit it in segments of the
//!                                             previous size; same cwnd
//!   any retransmission ends the probe without a result
//!
//!   timeouts for longer than R1: low = that of the base segment if there was no search;
//!       otherwise half of the segment, at most the base segment, at least the floor
//! ```
//!
//! *Not modelled*: another search after ten minutes.

use super::path::{HEADERS, LEAST_SEGMENT};
use super::{Endpoint, Host, MtuProbing, TIMESTAMPS_BYTES};
use crate::congestion_control::CongestionControl;
use crate::flight::Flight;
use lasthop_base::packet::TcpHeader;
use lasthop_base::units::Instant;

/// Minimum congestion window for a probe, segments.
const LEAST_WINDOW: f64 = 11.0;

/// State of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    how: MtuProbing,
    /// Packet size that passes, bytes.
    low: u32,
    /// Packet size that may pass, bytes.
    high: u32,
    /// Bytes of the headers and options of every segment.
    overhead: u32,
    /// MTU of the probe that is outstanding.
    probe: Option<u32>,
    /// Whether it is too late for a probe: only the first segment of a burst can be one.
    is_late: bool,
}

/// Decision of the search about the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is sent normally.
    Leave,
    /// It waits until a probe can be sent.
    Wait,
    /// It is a probe with this packet size, bytes.
    Probe(u32),
}

impl Search {
    pub fn new(how: MtuProbing, mss: u32, mtu: u32, has_timestamps: bool) -> Self {
        let overhead = HEADERS + if has_timestamps { TIMESTAMPS_BYTES } else { 0 };
        let high = (mss + HEADERS).min(mtu);
        Search { how, low: how.base + overhead, high, overhead, probe: None, is_late: false }
    }

    /// Payload bytes of segments that pass, on a path with an MTU of `mtu` bytes.
    pub fn bound(&mut self, mtu: u32) -> u64 {
        self.high = self.high.min(mtu);
        u64::from(self.low.saturating_sub(self.overhead)).max(1)
    }

    /// Reduces `low` because even packets of this size are lost.
    fn shrink(&mut self) {
        let half = self.low.saturating_sub(self.overhead) / 2;
        let least = self.how.floor.max(LEAST_SEGMENT);
        self.low = half.min(self.how.base).max(least) + self.overhead;
    }
}

impl Endpoint<Host> {
    /// Returns the decision of `search` about the next segment.
    fn step(&self, search: &Search) -> Step {
        let flight = &self.sender.flight;
        let Some((in_flight, reordering)) = self.sender.calm() else { return Step::Leave };
        let cwnd = flight.congestion_control.cwnd();
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
            || flight.peer.window < needed
        {
            return Step::Leave;
        }
        if flight.snd_max + needed > flight.snd_una + flight.peer.window {
            return Step::Wait;
        }
        match f64::from(in_flight) + 2.0 > cwnd {
            true if in_flight == 0 => Step::Leave,
            true => Step::Wait,
            // Records are not merged.
            false if !flight.is_undivided(bytes) => Step::Leave,
            false => Step::Probe(mtu),
        }
    }

    /// Starts with small segments and probes for larger ones, if configured.
    pub(super) fn begin_search(&mut self) {
        let probing = self.host.settings.mtu_probing.filter(|how| how.from_start);
        self.host.search = probing.map(|how| self.new_search(how));
    }

    fn new_search(&self, how: MtuProbing) -> Search {
        let path = &self.host.path;
        Search::new(how, path.clamp(), path.mtu(), self.sender.flight.config.timestamps)
    }

    /// Handles a suspected black hole: successive timeouts may be caused by segments that are too
    /// large, without a report of a router (`tcp_mtu_probing`).
    pub(super) fn suspect_black_hole(&mut self, how: MtuProbing) {
        match &mut self.host.search {
            Some(search) => search.shrink(),
            None => self.host.search = Some(self.new_search(how)),
        }
        self.sync_segment();
    }

    /// Like [`Endpoint::poll_header`], for a segment that may be a probe.
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
            (search.probe, flight.stream.mtu_probe) = (None, None);
        }
        if let Step::Probe(mtu) = step
            && header.payload == mtu - search.overhead
        {
            search.probe = Some(mtu);
            flight.stream.mtu_probe = Some((sent_to, flight.snd_max));
            // A probe counts as two segments.
            flight.congestion_control.set_cwnd(flight.congestion_control.cwnd() - 1.0);
            self.sender.refresh();
        }
        Some(bytes)
    }

    /// Checks, before an ACK for all data below `ack` is processed, whether it acknowledges the
    /// probe.
    pub(super) fn note_probe_passed(&mut self, ack: u64) {
        let Some(search) = &mut self.host.search else { return };
        let flight = &mut self.sender.flight;
        let Some((mtu, (_, end))) = search.probe.zip(flight.stream.mtu_probe) else { return };
        if ack < end {
            return;
        }
        flight.stream.mtu_probe = None;
        flight.shrink_window(flight.mss + u64::from(search.overhead), mtu.into());
        (search.low, search.probe) = (mtu, None);
        self.sync_segment();
    }

    /// Checks, after an ACK was processed, whether the probe was declared lost.
    pub(super) fn note_probe_lost(&mut self) {
        let Some(search) = &mut self.host.search else { return };
        if self.sender.flight.stream.mtu_probe.is_none()
            && let Some(mtu) = search.probe.take()
        {
            search.high = mtu - 1;
        }
    }
}

impl Flight {
    /// Sets the size of the next segment to `bytes`, sent individually. Returns the values for
    /// [`Self::end_probe`].
    fn begin_probe(&mut self, bytes: u64) -> (u64, bool) {
        let offload = std::mem::replace(&mut self.config.segmentation_offload, false);
        (std::mem::replace(&mut self.mss, bytes), offload)
    }

    fn end_probe(&mut self, usual: (u64, bool)) {
        (self.mss, self.config.segmentation_offload) = usual;
    }

    /// Adapts the congestion window to segments that have grown by `more / less`: its size in bytes
    /// is kept.
    fn shrink_window(&mut self, less: u64, more: u64) {
        let cwnd = (self.congestion_control.cwnd() * less as f64 / more as f64).floor().max(1.0);
        let ssthresh = (0.75 * cwnd).floor();
        if self.congestion_control.ssthresh() < ssthresh {
            self.congestion_control.slow_start_to(cwnd, ssthresh);
        } else {
            self.congestion_control.set_cwnd(cwnd);
        }
    }
}
