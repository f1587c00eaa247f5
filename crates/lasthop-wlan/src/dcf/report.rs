//! Output of a medium: identifiers, deliveries, outcomes, counters and events.

use super::medium::Use;
use super::session::Histograms;
use crate::block_ack::BlockAck;
use crate::phy::Signal;
use lasthop_base::packet::DeliveryReport;
use lasthop_base::schema::metrics::metrics;
use lasthop_base::units::{Duration, Instant};

/// A station of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StationId(pub(super) u16);

/// A transmitter and a receiver of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairId(pub(super) u32);

impl StationId {
    /// Returns the index of the station, in the order of addition.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl PairId {
    /// Returns the index of the pair, in the order of addition.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet delivered over the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Transmitter and receiver.
    pub pair: PairId,
    /// Sequence number of its frame.
    pub sequence: u64,
    /// The packet.
    pub packet: P,
    /// Whether only the header is correct; the receiver's MAC has not acknowledged such a packet.
    pub is_damaged: bool,
}

/// Counters of a transmitter and a receiver, which are always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounters {
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Attempts: an RTS, or data without an RTS.
    pub attempts: u64,
    /// Attempts other than the first of their frame.
    pub retries: u64,
    /// Attempts during which other stations transmitted.
    pub collisions: u64,
    /// Attempts that failed by noise, in either direction, or because the receiver was out of
    /// range.
    pub errors: u64,
    /// Data frames sent.
    pub data_sent: u64,
    /// Data frames received without errors.
    pub data_received: u64,
    /// Data frames received with errors and a readable header.
    pub headers_readable: u64,
    /// Bits of data frames sent, excluding preambles.
    pub bits_sent: u64,
    /// Frames acknowledged.
    pub acknowledged: u64,
    /// Frames discarded after a retry limit.
    pub abandoned: u64,
    /// MPDUs, or packets without a number, discarded at the end of their lifetime.
    pub expired: u64,
    /// PPDUs with data sent, in directions with a block-ack agreement.
    pub ppdus: u64,
    /// BlockAck requests sent.
    pub block_ack_requests: u64,
    /// MPDUs that waited in the reorder buffer for lower numbers.
    pub reorder_held: u64,
    /// Backoffs that ended in the same slot as that of a higher access category of the host.
    pub internal_collisions: u64,
    /// Frames received more than once.
    pub duplicates: u64,
    /// Time during which the medium was busy with successful exchanges of this pair.
    pub success_time: Duration,
    /// Time during which the medium was busy with attempts that noise destroyed.
    pub error_time: Duration,
}

impl PairCounters {
    /// Returns the sum of the counters of two pairs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        PairCounters {
            drops: self.drops + other.drops,
            attempts: self.attempts + other.attempts,
            retries: self.retries + other.retries,
            collisions: self.collisions + other.collisions,
            errors: self.errors + other.errors,
            data_sent: self.data_sent + other.data_sent,
            data_received: self.data_received + other.data_received,
            headers_readable: self.headers_readable + other.headers_readable,
            bits_sent: self.bits_sent + other.bits_sent,
            acknowledged: self.acknowledged + other.acknowledged,
            abandoned: self.abandoned + other.abandoned,
            expired: self.expired + other.expired,
            ppdus: self.ppdus + other.ppdus,
            block_ack_requests: self.block_ack_requests + other.block_ack_requests,
            reorder_held: self.reorder_held + other.reorder_held,
            internal_collisions: self.internal_collisions + other.internal_collisions,
            duplicates: self.duplicates + other.duplicates,
            success_time: self.success_time + other.success_time,
            error_time: self.error_time + other.error_time,
        }
    }
}

metrics! {
    /// Metrics of the MAC in one direction of a WLAN.
    pub struct PairMetrics {
        /// Transmission attempts: an RTS, or data without one.
        attempts: "Attempts", Count, Neither, Sum;
        /// Attempts after the first of a frame.
        retries: "Retries", Count, Lower, Sum;
        /// Attempts during which another station transmitted.
        collisions: "Collisions", Count, Lower, Sum;
        /// Attempts that failed without a collision.
        errors: "Errors", Count, Lower, Sum;
        /// Frames acknowledged.
        acknowledged: "Acknowledged", Count, Higher, Sum;
        /// Frames discarded after the retry limit.
        abandoned: "Abandoned", Count, Lower, Sum;
        /// Frames received more than once.
        duplicates: "Duplicates", Count, Lower, Sum;
        /// Fraction of the run that the medium was busy with exchanges of this direction.
        airtime: "Airtime", Fraction, Neither, Sum, Ratio;
    }
}

metrics! {
    /// A-MPDUs and block acknowledgment of 802.11n, ac and ax.
    pub struct AggregationMetrics {
        /// PPDUs with data sent.
        ppdus: "PPDUs", Count, Neither, Sum;
        /// Mean number of MPDUs in a PPDU.
        mpdus_per_ppdu: "MPDUs per PPDU", Count, Higher, Mean, Ratio;
        /// BlockAck requests sent.
        block_ack_requests: "BlockAck requests", Count, Lower, Sum;
        /// MPDUs that waited in a reorder buffer for MPDUs sent before them.
        reorder_held: "Reorder held", Count, Lower, Sum;
        /// MPDUs and packets discarded at the end of their lifetime.
        expired: "Expired", Count, Lower, Sum;
        /// Backoffs that ended in the slot of a higher access category of the host.
        internal_collisions: "Internal collisions", Count, Lower, Sum;
    }
}

metrics! {
    /// Modes and lengths of the PPDUs of 802.11n, ac and ax.
    pub struct ModeMetrics {
        /// Mean data rate of the MPDUs sent.
        phy_rate_bps: "PHY rate", BitsPerSecond, Higher, Mean, Ratio;
        /// Median number of MPDUs in a PPDU.
        mpdus_per_ppdu_median: "MPDUs per PPDU, median", Count, Neither, Mean;
        /// Number of MPDUs that nine of ten PPDUs do not exceed.
        mpdus_per_ppdu_p90: "MPDUs per PPDU, 90th percentile", Count, Neither, Mean;
        /// Fraction of the MPDUs that were sent with two spatial streams.
        two_streams: "Two streams", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 0.
        mcs_0: "MCS 0", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 1.
        mcs_1: "MCS 1", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 2.
        mcs_2: "MCS 2", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 3.
        mcs_3: "MCS 3", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 4.
        mcs_4: "MCS 4", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 5.
        mcs_5: "MCS 5", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 6.
        mcs_6: "MCS 6", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 7.
        mcs_7: "MCS 7", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 8.
        mcs_8: "MCS 8", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 9.
        mcs_9: "MCS 9", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 10.
        mcs_10: "MCS 10", Fraction, Neither, Mean, Ratio;
        /// Fraction of the MPDUs that were sent with MCS 11.
        mcs_11: "MCS 11", Fraction, Neither, Mean, Ratio;
    }
}

impl From<&Histograms> for ModeMetrics {
    fn from(histograms: &Histograms) -> Self {
        let mcs = |number: u8| histograms.share(|mode| mode.mcs() == number);
        ModeMetrics {
            phy_rate_bps: histograms.mean_rate(),
            mpdus_per_ppdu_median: histograms.length_at(0.5),
            mpdus_per_ppdu_p90: histograms.length_at(0.9),
            two_streams: histograms.share(|mode| mode.streams() == 2),
            mcs_0: mcs(0),
            mcs_1: mcs(1),
            mcs_2: mcs(2),
            mcs_3: mcs(3),
            mcs_4: mcs(4),
            mcs_5: mcs(5),
            mcs_6: mcs(6),
            mcs_7: mcs(7),
            mcs_8: mcs(8),
            mcs_9: mcs(9),
            mcs_10: mcs(10),
            mcs_11: mcs(11),
        }
    }
}

metrics! {
    /// A wireless LAN.
    pub struct CellMetrics {
        /// Transmission attempts: an RTS, or data without one.
        attempts: "Attempts", Count, Neither, Sum;
        /// Attempts after the first of a frame.
        retries: "Retries", Count, Lower, Sum;
        /// Frames discarded after the retry limit.
        abandoned: "Abandoned", Count, Lower, Sum;
        /// Fraction of the attempts that collided.
        collision_probability: "Collision probability", Fraction, Lower, Mean, Ratio;
        /// Times at which several stations transmitted simultaneously.
        collisions: "Collisions", Count, Lower, Sum;
        /// Fraction of the run that the medium was busy with acknowledged exchanges.
        airtime_success: "Airtime success", Fraction, Higher, Mean, Ratio;
        /// Fraction of the run that the medium was busy with collisions.
        airtime_collision: "Airtime collision", Fraction, Lower, Mean, Ratio;
        /// Fraction of the run that the medium was busy with attempts that failed without a collision.
        airtime_error: "Airtime error", Fraction, Lower, Mean, Ratio;
        /// Fraction of the run that the medium was idle.
        airtime_idle: "Airtime idle", Fraction, Neither, Mean, Ratio;
    }
}

/// Counters of a medium, which are always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediumCounters {
    /// Number of times that several stations transmitted simultaneously.
    pub collisions: u64,
    /// Time during which the medium was busy with exchanges that ended with an acknowledgment.
    pub success_time: Duration,
    /// Time during which the medium was busy with collisions.
    pub collision_time: Duration,
    /// Time during which the medium was busy with attempts that noise destroyed.
    pub error_time: Duration,
}

impl MediumCounters {
    /// Returns the time of one use of the medium.
    pub(super) fn time_mut(&mut self, used: Use) -> &mut Duration {
        match used {
            Use::Success => &mut self.success_time,
            Use::Collision => &mut self.collision_time,
            Use::Error => &mut self.error_time,
        }
    }
}

/// Event for an observer, if events are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumEvent<P> {
    /// A frame was transmitted.
    Frame {
        /// Transmitter and receiver.
        pair: PairId,
        /// Type of the frame.
        kind: AirFrame,
        /// Start of the preamble.
        start: Instant,
        /// End of the frame.
        end: Instant,
        /// Outcome of the transmission.
        fate: AirFate,
        /// Its packet; `None` for control frames.
        packet: Option<P>,
        /// Its length, including MAC header and FCS.
        bytes: u32,
        /// Duration field: the time that the frame reserves for subsequent frames, and the NAV of
        /// all stations that read it.
        reserves: Duration,
        /// Traffic identifier of its data or of the data that it acknowledges; 0 without access categories.
        tid: u8,
        /// Content of a BlockAck.
        scoreboard: Option<BlockAck>,
        /// Mode or rate of the data of its exchange.
        signal: Option<Signal>,
    },
    /// The queue of a station has dropped a waiting packet.
    Dropped {
        /// Transmitter and receiver of the packet.
        pair: PairId,
        /// The packet.
        packet: P,
    },
    /// A station has sampled a backoff.
    Backoff {
        /// The station.
        station: StationId,
        /// The pair of its next frame, if any.
        pair: Option<PairId>,
        /// Time from which the slots count.
        from: Instant,
        /// Number of slots.
        slots: u32,
        /// Contention window: slots are sampled from 0 to this number.
        window: u32,
    },
}

/// Outcome of a packet, reported to an agent at the transmitter if outcomes are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<P> {
    /// Transmitter and receiver.
    pub pair: PairId,
    /// Delivery report.
    pub fate: DeliveryReport,
    /// The packet.
    pub packet: P,
}

/// Type of a transmitted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirFrame {
    /// A data frame.
    Data {
        /// Sequence number among the frames of its transmitter, not reduced modulo 4096 as on the
        /// wire.
        sequence: u64,
        /// Whether the frame is a retransmission.
        is_retry: bool,
    },
    /// A request to send.
    Rts,
    /// A clear to send, against the pair's direction.
    Cts,
    /// An acknowledgment, against the pair's direction.
    Ack,
    /// An A-MPDU. The observer sees its MPDUs instead.
    Aggregate {
        /// Number of MPDUs.
        mpdus: u16,
    },
    /// A packet in an MPDU of a direction with a block-ack agreement, as the observer sees it.
    Mpdu {
        /// Sequence number in this direction, not reduced modulo 4096.
        sequence: u64,
        /// Whether the MPDU is a retransmission.
        is_retry: bool,
        /// Place in the PPDU, from 0.
        place: u16,
        /// Number of MPDUs in the PPDU.
        mpdus: u16,
        /// Place of the packet in the A-MSDU, from 0.
        subframe: u16,
        /// Number of packets in the A-MSDU; 1: no A-MSDU.
        subframes: u16,
    },
    /// A BlockAck request.
    BlockAckRequest {
        /// Lowest sequence number that the sender has not finished.
        start: u64,
    },
    /// The end of a TXOP before its limit, to all stations.
    CfEnd,
    /// A compressed BlockAck, against the pair's direction.
    BlockAck {
        /// Whether its bitmap has 256 instead of 64 bits.
        is_long: bool,
    },
}

/// Outcome of a transmitted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirFate {
    /// Received without errors.
    Received,
    /// Received with errors, or the receiver was out of range.
    Damaged,
    /// Lost in a collision.
    Collided,
}
