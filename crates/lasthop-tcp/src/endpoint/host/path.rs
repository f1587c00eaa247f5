//! What the path says: how large a segment may be, and that the peer cannot be reached (RFC 1191, RFC 5461, RFC 6069).
//!
//! ```text
//!   segment = min(MSS of the peer, ours, MTU of the path - headers), at least 48 - options
//!             at most half of the largest window that the peer has advertised, all of it up to 536 (Linux)
//!
//!   message about                SYN-SENT, SYN-RECEIVED     later
//!   a segment too large          --                         smaller ones; what was too large goes again
//!   network or host              the connection ends        told if the connection times out; a back-off is taken back
//!   port or protocol             the connection ends        told if the connection times out
//! ```
//!
//! A message about data that are not outstanding is none (RFC 5927, section 4.1).

use super::{Endpoint, Host, SocketError, State, TIMESTAMPS_BYTES};
use lasthop_base::units::Instant;

/// A router or the peer's host says that a segment of ours did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// It has more bytes than a packet may have on the path, headers included.
    TooLarge(u32),
    /// What it was meant for is not there.
    Nobody(SocketError),
}

/// The least MTU that Linux believes (`net.ipv4.route.min_pmtu`), and the least MSS (`tcp_min_snd_mss`).
const LEAST_MTU: u32 = 552;
pub(super) const LEAST_SEGMENT: u32 = 48;
/// Up to this window a segment may fill it: the MSS of who names none.
const SMALL_WINDOW: u64 = 536;
/// Bytes of the headers of IPv4 and TCP, and of the least packet (RFC 791).
pub(super) const HEADERS: u32 = 40;
const LEAST_PACKET: u32 = 68;
const TCP_HEADER: u32 = 20;

/// What bounds a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// The smaller MSS of the two SYN.
    clamp: u32,
    /// Bytes of the largest packet on the path.
    mtu: u32,
    /// The largest window that the peer has advertised.
    largest_window: u64,
}

impl Path {
    pub fn new(clamp: u32, mtu: u32) -> Self {
        Path { clamp, mtu, largest_window: 0 }
    }

    /// The smaller MSS of the two SYN.
    pub fn clamp(&self) -> u32 {
        self.clamp
    }

    /// Bytes of the largest packet on the path, headers included.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The largest window that the peer has advertised.
    pub fn largest_window(&self) -> u64 {
        self.largest_window
    }

    /// Payload bytes of a full segment with so many of options.
    fn segment(&self, options: u32, is_linux: bool) -> u32 {
        let mss = self.clamp.min(self.mtu.saturating_sub(HEADERS));
        if !is_linux {
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
    /// Bytes of the largest packet on the path, headers included.
    pub fn path_mtu(&self) -> u32 {
        self.host.path.mtu
    }

    /// The peer has advertised a window: it may be the largest so far.
    pub(super) fn note_window(&mut self) {
        let window = self.sender.flight.peer_window;
        if window > self.host.path.largest_window {
            self.host.path.largest_window = window;
            self.sync_segment();
        }
    }

    /// The size of full segments follows what bounds it. Says whether it has changed.
    pub(super) fn sync_segment(&mut self) -> bool {
        let is_linux = self.is_linux;
        let options = if self.config.timestamps { TIMESTAMPS_BYTES } else { 0 };
        let mtu = self.host.path.mtu;
        let passes = self.host.search.as_mut().map_or(u64::MAX, |search| search.bound(mtu));
        let segment = u64::from(self.host.path.segment(options, is_linux)).min(passes);
        let is_new = segment != self.sender.flight.mss;
        if is_new {
            self.sender.set_segment(segment);
        }
        is_new
    }

    /// A message about the segment that begins with `seq`, a number as on the wire.
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
                if is_disruption && self.is_linux && seq == flight.snd_una {
                    self.sender.take_back_off_back(now);
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
            // Half of the window; all of a small one.
            (1000, 1500, 1000, 0, 500),
            (1000, 1500, 537, 0, 268),
            (1000, 1500, 536, 0, 536),
            (1000, 1500, 257, 0, 257),
            (1000, 1500, 10, 0, 48),
            (1000, 1500, 10, 12, 36),
            (10, 1500, 65_535, 0, 48),
        ] {
            let path = Path { clamp, mtu, largest_window: window };
            assert_eq!(path.segment(options, true), expected, "{path:?}");
        }
        assert_eq!(Path { clamp: 10, mtu: 1500, largest_window: 5 }.segment(0, false), 10);
    }
}
