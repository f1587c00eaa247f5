//! What a medium tells: who its stations are, what has come over it, outcomes, counters, events.

use lasthop_base::packet::LinkFate;
use lasthop_base::schema::metrics::metrics;
use lasthop_base::units::{Duration, Instant};

/// A station of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StationId(pub(super) u16);

/// A transmitter and a receiver of a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairId(pub(super) u32);

impl StationId {
    /// Its index, in the order in which stations were added.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl PairId {
    /// Its index, in the order in which pairs were added.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet that has come over the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// Transmitter and receiver.
    pub pair: PairId,
    /// The number of its frame.
    pub sequence: u64,
    /// The packet.
    pub packet: P,
    /// Only its header is as it was sent: the receiver's MAC has not acknowledged it.
    pub is_damaged: bool,
}

/// Always-on counters of a transmitter and a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounters {
    /// Packets refused because the queue was full.
    pub drops: u64,
    /// Attempts: an RTS, or data without one.
    pub attempts: u64,
    /// Attempts that were not the first of their frame.
    pub retries: u64,
    /// Attempts in which others transmitted too.
    pub collisions: u64,
    /// Attempts that noise destroyed, on the way there or back, or that met nobody.
    pub errors: u64,
    /// Data frames on the air, and those of them that arrived undamaged.
    pub data_sent: u64,
    /// See `data_sent`.
    pub data_received: u64,
    /// Data frames that noise damaged and whose header could be read.
    pub headers_readable: u64,
    /// Bits of data frames on the air, preambles not counted.
    pub bits_sent: u64,
    /// Frames acknowledged.
    pub acknowledged: u64,
    /// Frames given up at a retry limit.
    pub abandoned: u64,
    /// Frames that the receiver had already.
    pub duplicates: u64,
    /// Time that the medium was busy with successful exchanges of this pair.
    pub success_time: Duration,
    /// Time that it was busy with attempts that noise destroyed.
    pub error_time: Duration,
}

metrics! {
    /// What the MAC knows of a direction of a WLAN.
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
        airtime: "Airtime", Fraction, Neither, Sum;
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
        collision_probability: "Collision probability", Fraction, Lower, Mean;
        /// Times at which several stations transmitted simultaneously.
        collisions: "Collisions", Count, Lower, Sum;
        /// Fraction of the run that the medium was busy with acknowledged exchanges.
        airtime_success: "Airtime success", Fraction, Higher, Mean;
        /// Fraction of the run that the medium was busy with collisions.
        airtime_collision: "Airtime collision", Fraction, Lower, Mean;
        /// Fraction of the run that the medium was busy with attempts that failed without a collision.
        airtime_error: "Airtime error", Fraction, Lower, Mean;
        /// Fraction of the run that the medium was idle.
        airtime_idle: "Airtime idle", Fraction, Neither, Mean;
    }
}

/// Always-on counters of a medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediumCounters {
    /// Times that several stations transmitted at once.
    pub collisions: u64,
    /// Time that the medium was busy with exchanges that ended with an acknowledgment.
    pub success_time: Duration,
    /// Time that it was busy with collisions.
    pub collision_time: Duration,
    /// Time that it was busy with what noise destroyed.
    pub error_time: Duration,
}

/// What an observer is told, if the medium reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumEvent<P> {
    /// A frame was on the air.
    Frame {
        /// Transmitter and receiver.
        pair: PairId,
        /// What it was.
        kind: AirFrame,
        /// When its preamble began.
        start: Instant,
        /// When it ended.
        end: Instant,
        /// What became of it.
        fate: AirFate,
        /// What it carried; `None` of control frames.
        packet: Option<P>,
        /// Its length, MAC header and FCS included.
        bytes: u32,
        /// How long it reserves the medium for what follows it: its duration field, the NAV of all
        /// who read it.
        reserves: Duration,
    },
    /// The queue of a station has dropped a packet that waited in it.
    Dropped {
        /// The way of the packet.
        pair: PairId,
        /// The packet.
        packet: P,
    },
    /// A station has drawn a back-off.
    Backoff {
        /// Which.
        station: StationId,
        /// The way of the frame that it is about to send, if it has one.
        pair: Option<PairId>,
        /// When its slots begin to count.
        from: Instant,
        /// How many there are.
        slots: u32,
        /// From how many they were drawn: 0 to this.
        window: u32,
    },
}

/// What a transmitter tells an agent of a packet, if the medium keeps outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<P> {
    /// Transmitter and receiver.
    pub pair: PairId,
    /// What became of it.
    pub fate: LinkFate,
    /// The packet.
    pub packet: P,
}

/// A frame on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirFrame {
    /// A packet.
    Data {
        /// Its number among the frames of its transmitter, unwrapped: the wire carries it modulo 4096.
        sequence: u64,
        /// Has it been sent before?
        is_retry: bool,
    },
    /// A request to send.
    Rts,
    /// A clear to send, against the pair's direction.
    Cts,
    /// An acknowledgment, against the pair's direction.
    Ack,
}

/// What became of a frame on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirFate {
    /// It came undamaged.
    Received,
    /// Noise damaged it, or nobody was there.
    Damaged,
    /// It collided.
    Collided,
}
