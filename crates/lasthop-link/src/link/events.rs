//! Events and counters of link endpoints.

use lasthop_base::schema::metrics::metrics;

/// Event of a link endpoint, for cross-layer agents and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A frame was retransmitted.
    Retransmitted {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// The retransmission timer of a frame expired.
    TimedOut {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// A negative acknowledgment for a missing frame was sent.
    NackSent {
        /// Sequence number of the missing frame.
        sequence: u64,
    },
    /// A frame was discarded by its sender or receiver, for example after the retry limit.
    Abandoned {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// A lost frame was recovered from redundancy.
    Recovered {
        /// Sequence number of the frame.
        sequence: u64,
    },
    /// The sender detected a disruption: frames are lost entirely, and only one frame at a time is
    /// sent.
    Disrupted {
        /// Sequence number of the last of these frames.
        sequence: u64,
    },
    /// A frame was received again at least in part; the disruption is over.
    Restored {
        /// Sequence number of this frame.
        sequence: u64,
    },
}

/// Always-on counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Data frames sent for the first time.
    pub data_frames: u64,
    /// Data frames retransmitted.
    pub retransmissions: u64,
    /// Stand-alone acknowledgments sent.
    pub acks: u64,
    /// Negative acknowledgments sent.
    pub nacks: u64,
    /// Expiries of a retransmission timer.
    pub timeouts: u64,
    /// Data frames received more than once.
    pub duplicates: u64,
    /// Data frames dropped by the receiver: out of sequence or beyond the window.
    pub discarded: u64,
    /// Frames discarded by their sender.
    pub abandoned: u64,
    /// Missing frames for which the receiver no longer waits.
    pub skipped: u64,
    /// Keep-alives sent.
    pub keepalives: u64,
    /// Parity frames sent.
    pub parities: u64,
    /// Frames recovered from redundancy.
    pub recovered: u64,
    /// Status reports sent.
    pub statuses: u64,
    /// Requests for a status report sent.
    pub polls: u64,
    /// Packets acknowledged or discarded by their sender.
    pub packets: u64,
    /// Packets discarded by their sender, included in `packets`.
    pub packets_abandoned: u64,
}

metrics! {
    /// Counters of the sending half of a link endpoint.
    pub struct SenderMetrics {
        /// Data frames sent for the first time.
        data_frames: "Data frames", Count, Neither, Sum;
        /// Data frames retransmitted.
        retransmissions: "Retransmissions", Count, Lower, Sum;
        /// Separate ACKs sent.
        acks: "ACKs", Count, Neither, Sum;
        /// Negative ACKs sent.
        nacks: "NACKs", Count, Neither, Sum;
        /// Expiries of the retransmission timer.
        timeouts: "Timeouts", Count, Lower, Sum;
        /// Frames discarded after the retry limit.
        abandoned: "Abandoned", Count, Lower, Sum;
        /// Keep-alive frames sent.
        keepalives: "Keepalives", Count, Neither, Sum;
        /// Parity frames sent.
        parities: "Parities", Count, Neither, Sum;
    }
}

metrics! {
    /// Counters of a link endpoint that segments packets.
    pub struct PacketMetrics {
        /// Packets acknowledged or discarded.
        packets: "Packets", Count, Neither, Sum;
        /// Packets discarded after the retry limit.
        packets_abandoned: "Packets abandoned", Count, Lower, Sum;
        /// Requests for a status report sent.
        polls: "Polls", Count, Neither, Sum;
        /// Status reports sent.
        statuses: "Statuses", Count, Neither, Sum;
    }
}

metrics! {
    /// Counters of the receiving half of a link endpoint.
    pub struct ReceiverMetrics {
        /// Frames received more than once.
        duplicates: "Duplicates", Count, Lower, Sum;
        /// Data frames dropped by the receiver: out of sequence or beyond the window.
        discarded: "Discarded", Count, Lower, Sum;
        /// Frames recovered from redundancy.
        recovered: "Recovered", Count, Neither, Sum;
        /// Missing frames for which the receiver no longer waits.
        skipped: "Skipped", Count, Lower, Sum;
    }
}

impl From<&LinkCounters> for SenderMetrics {
    fn from(link: &LinkCounters) -> Self {
        SenderMetrics {
            data_frames: link.data_frames as f64,
            retransmissions: link.retransmissions as f64,
            acks: link.acks as f64,
            nacks: link.nacks as f64,
            timeouts: link.timeouts as f64,
            abandoned: link.abandoned as f64,
            keepalives: link.keepalives as f64,
            parities: link.parities as f64,
        }
    }
}

impl From<&LinkCounters> for PacketMetrics {
    fn from(link: &LinkCounters) -> Self {
        PacketMetrics {
            packets: link.packets as f64,
            packets_abandoned: link.packets_abandoned as f64,
            polls: link.polls as f64,
            statuses: link.statuses as f64,
        }
    }
}

impl From<&LinkCounters> for ReceiverMetrics {
    fn from(link: &LinkCounters) -> Self {
        ReceiverMetrics {
            duplicates: link.duplicates as f64,
            discarded: link.discarded as f64,
            recovered: link.recovered as f64,
            skipped: link.skipped as f64,
        }
    }
}

impl LinkCounters {
    /// Returns the sums of the counters of two endpoints.
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
