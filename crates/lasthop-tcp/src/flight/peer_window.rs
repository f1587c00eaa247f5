//! The window that the peer advertises, and the rules by which a segment updates it.

use crate::policy::SendPolicy;

/// The peer's receive window, and the segment that updated it last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerWindow {
    /// Size in bytes (SND.WND).
    pub window: u64,
    /// Sequence number of the segment that updated it last (SND.WL1).
    pub seq: u64,
    /// Acknowledgment number of that segment (SND.WL2).
    ack: u64,
}

impl PeerWindow {
    pub fn new(window: u64) -> Self {
        PeerWindow { window, seq: 0, ack: 0 }
    }

    /// Processes the window of `bytes` advertised by segment `seq`, which acknowledges `ack`. `una`:
    /// SND.UNA. Returns `true` if an ACK with this window may be a duplicate (RFC 5681, section 2,
    /// (e)).
    #[inline]
    pub fn update(&mut self, rule: SendPolicy, una: u64, seq: u64, ack: u64, bytes: u64) -> bool {
        if rule.updates_window_upwards {
            return !self.update_as_linux(una, seq, ack, bytes);
        }
        // Old segments do not update the window: RFC 9293, section 3.10.7.4.
        let is_same = self.window == bytes;
        if ack >= una && (self.seq, self.ack) <= (seq, ack) {
            *self = PeerWindow { window: bytes, seq, ack };
        }
        is_same
    }

    /// A segment with the sequence number of the latest update that acknowledges no new data updates
    /// the window only to a larger value or 0. Returns `true` if the window was updated, even to the
    /// same value: such an ACK is not a duplicate.
    fn update_as_linux(&mut self, una: u64, seq: u64, ack: u64, bytes: u64) -> bool {
        let is_larger = bytes > self.window || bytes == 0;
        let is_update = ack > una || ack == una && (seq > self.seq || seq == self.seq && is_larger);
        if is_update {
            *self = PeerWindow { window: bytes, seq, ack };
        }
        is_update
    }
}
