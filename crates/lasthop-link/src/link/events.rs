//! What endpoints tell of: events as they happen, and counters of them.

/// What cross-layer agents and probes listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A frame was sent again.
    Retransmitted {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// The retransmission timer of a frame fired.
    TimedOut {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// A missing frame was reported to the peer.
    NackSent {
        /// Sequence number of the missing frame.
        sequence: u64,
    },
    /// A frame was given up, by its sender or by its receiver.
    Abandoned {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// A lost frame was computed from parity.
    Recovered {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// Nothing arrives any more: the sender goes over to single transmissions.
    Disrupted {
        /// Sequence number of the frame of which nothing arrived.
        sequence: u64,
    },
    /// Something arrives again.
    Restored {
        /// Sequence number of the frame of which something arrived.
        sequence: u64,
    },
}

/// Always-on counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Data frames sent for the first time.
    pub data_frames: u64,
    /// Data frames sent again.
    pub retransmissions: u64,
    /// Stand-alone acknowledgments sent.
    pub acks: u64,
    /// Negative acknowledgments sent.
    pub nacks: u64,
    /// Expiries of a retransmission timer.
    pub timeouts: u64,
    /// Data frames received that had been received before.
    pub duplicates: u64,
    /// Data frames dropped on arrival because they were out of sequence or beyond the window.
    pub discarded: u64,
    /// Frames given up by their sender.
    pub abandoned: u64,
    /// Missing frames that the receiver no longer waits for.
    pub skipped: u64,
    /// Keep-alives sent.
    pub keepalives: u64,
    /// Parity frames sent.
    pub parities: u64,
    /// Frames computed from parity.
    pub recovered: u64,
    /// Status reports sent.
    pub statuses: u64,
    /// Requests for a status report sent.
    pub polls: u64,
    /// Packets that are finished at their sender: known to have arrived, or given up.
    pub packets: u64,
    /// Packets given up by their sender, among `packets`.
    pub packets_abandoned: u64,
}

impl LinkCounters {
    /// The sums of two endpoints' counters.
    pub fn plus(self, other: Self) -> Self {
        LinkCounters {
            data_frames: self.data_frames + other.data_frames,
            retransmissions: self.retransmissions + other.retransmissions,
            acks: self.acks + other.acks,
            nacks: self.nacks + other.nacks,
            timeouts: self.timeouts + other.timeouts,
            duplicates: self.duplicates + other.duplicates,
            discarded: self.discarded + other.discarded,
            abandoned: self.abandoned + other.abandoned,
            skipped: self.skipped + other.skipped,
            keepalives: self.keepalives + other.keepalives,
            parities: self.parities + other.parities,
            recovered: self.recovered + other.recovered,
            statuses: self.statuses + other.statuses,
            polls: self.polls + other.polls,
            packets: self.packets + other.packets,
            packets_abandoned: self.packets_abandoned + other.packets_abandoned,
        }
    }
}
