//! Information about the path: the maximum size of a segment, and reports that the peer is
//! unreachable (RFC 1191, RFC 5461, RFC 6069).
//!
//! ```text
//!   segment = min(MSS of the peer, ours, path MTU - headers), at least 48 - options
//!             at most half of the maximum advertised window, or all of it up to 536 (Linux)
//!
//!   message about         SYN-SENT, SYN-RECEIVED   later
//!   a segment too large   --                       smaller segments; retransmit those too large
//!   network or host       the connection ends      reported on timeout; undo a backoff
//!   port or protocol      the connection ends      reported on timeout
//! ```
//!
//! A message about data that is not outstanding is ignored (RFC 5927, section 4.1).

use super::{Endpoint, Host, SocketError, State, TIMESTAMPS_BYTES};
use crate::policy::{RttPolicy, SendPolicy};
use lasthop_base::units::Instant;

/// Report of a router or the peer's host that a segment was not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The segment exceeds the MTU of the path, which is given in bytes, including headers.
    TooLarge(u32),
    /// The destination is unreachable.
    Nobody(SocketError),
}

/// Minimum MTU accepted by Linux (`net.ipv4.route.min_pmtu`).
const LEAST_MTU: u32 = 552;
/// Minimum MSS accepted by Linux (`tcp_min_snd_mss`).
pub(super) const LEAST_SEGMENT: u32 = 48;
/// Maximum window that a single segment may fill: the default MSS.
const SMALL_WINDOW: u64 = 536;
/// Bytes of the IPv4 and TCP headers.
pub(super) const HEADERS: u32 = 40;
/// Minimum packet size (RFC 791), bytes.
const LEAST_PACKET: u32 = 68;
const TCP_HEADER: u32 = 20;

/// Limits of the segment size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Smaller MSS of both SYNs.
    clamp: u32,
    /// Path MTU, bytes.
    mtu: u32,
    /// Maximum window that the peer has advertised.
    largest_window: u64,
}

impl Path {
    pub fn new(clamp: u32, mtu: u32) -> Self {
        Path { clamp, mtu, largest_window: 0 }
    }

    /// Smaller MSS of both SYNs.
    pub fn clamp(&self) -> u32 {
        self.clamp
    }

    /// Path MTU, bytes, including headers.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Maximum window that the peer has advertised.
    pub fn largest_window(&self) -> u64 {
        self.largest_window
    }

    /// Payload bytes of a full segment with `options` bytes of options.
    fn segment(&self, options: u32, policy: SendPolicy) -> u32 {
        let mss = self.clamp.min(self.mtu.saturating_sub(HEADERS));
        if !policy.halves_window {
            return mss.saturating_sub(options).max(1);
        }
        let mss = mss.max(LEAST_SEGMENT) - options;
        let bound = match self.largest_window {
            window if window > SMALL_WINDOW => window / 2,
            window => window,
        };
        if bound > 0 && u64::from(mss) > bound {
            return (bound as u32).max(LEAST_PACKET - TCP_HEADER - options);
        }
        mss
    }
}

impl Endpoint<Host> {
    /// Path MTU, bytes, including headers.
    pub fn path_mtu(&self) -> u32 {
        self.host.path.mtu
    }

    /// Records a window advertised by the peer, which may be the maximum so far.
    pub(super) fn note_window(&mut self) {
        let window = self.sender.flight.peer.window;
        if window > self.host.path.largest_window {
            self.host.path.largest_window = window;
            self.sync_segment();
        }
    }

    /// Updates the size of full segments to the current limits. Returns `true` if it has changed.
    pub(super) fn sync_segment(&mut self) -> bool {
        let options = if self.sender.flight.config.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let mtu = self.host.path.mtu;
        let passes = self.host.search.as_mut().map_or(u64::MAX, |search| search.bound(mtu));
        let segment = u64::from(self.host.path.segment(options, self.policies.send)).min(passes);
        let is_new = segment != self.sender.flight.mss;
        if is_new {
            self.sender.set_segment(segment);
        }
        is_new
    }

    /// Handles a report about the segment that starts at `seq`, a sequence number as on the wire.
    pub fn on_unreachable(&mut self, now: Instant, seq: u32, what: Unreachable) {
        if matches!(self.host.state, State::SynSent | State::SynReceived) {
            if let (Unreachable::Nobody(error), true) =
                (what, seq == self.host.settings.initial_sequence)
            {
                self.end(Some(error));
            }
            return;
        }
        if !self.is_open() {
            return;
        }
        let seq = self.sender.unwrap(seq.wrapping_sub(self.host.settings.initial_sequence));
        let flight = &self.sender.flight;
        if !(flight.snd_una..=flight.snd_max).contains(&seq) {
            return;
        }
        match what {
            Unreachable::TooLarge(mtu) if mtu < self.host.path.mtu => {
                self.host.path.mtu = mtu.max(LEAST_MTU);
                if self.sync_segment() {
                    self.sender.resend_too_large();
                }
            }
            Unreachable::TooLarge(_) => {}
            Unreachable::Nobody(error) => {
                let is_disruption =
                    matches!(error, SocketError::NetworkUnreachable | SocketError::HostUnreachable);
                if is_disruption && self.policies.rtt == RttPolicy::Linux && seq == flight.snd_una {
                    self.sender.undo_backoff(now);
                    self.host.progress.retransmission_back_off =
                        self.host.progress.retransmission_back_off.saturating_sub(1);
                }
                match self.host.app.hears_of_errors {
                    true => self.host.error = Some(error),
                    false => self.host.reason = Some(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bounds_a_segment() {
        for (clamp, mtu, window, options, expected) in [
            (1460, 1500, 0, 0, 1460),
            (1460, 1500, 65_535, 12, 1448),
            (1460, 700, 65_535, 0, 660),
            // Half of the window, or all of a small one.
            (1000, 1500, 1000, 0, 500),
            (1000, 1500, 537, 0, 268),
            (1000, 1500, 536, 0, 536),
            (1000, 1500, 257, 0, 257),
            (1000, 1500, 10, 0, 48),
            (1000, 1500, 10, 12, 36),
            (10, 1500, 65_535, 0, 48),
        ] {
            let path = Path { clamp, mtu, largest_window: window };
            assert_eq!(path.segment(options, SendPolicy::LINUX), expected, "{path:?}");
        }
        assert_eq!(
            Path { clamp: 10, mtu: 1500, largest_window: 5 }.segment(0, SendPolicy::RFC9293),
            10
        );
    }
}
