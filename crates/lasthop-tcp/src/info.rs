//! Snapshot of the state of a connection for observers: the values of Linux's `tcp_info`, in plain
//! units.

use super::congestion_control::CongestionControl;
use super::endpoint::{Admission, Connection, Endpoint};
use super::timers::Timer;
use lasthop_base::units::{Duration, Instant};

/// State of loss recovery at the sender (Linux's `TCP_CA_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryState {
    /// Normal state: no loss, reordering or mark.
    #[default]
    Open,
    /// Duplicate ACKs or SACK blocks, too few to indicate a loss.
    Disorder,
    /// The window is reduced because of a mark; no segment was lost.
    CongestionWindowReduced,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout, until the data outstanding at the timeout is acknowledged.
    Loss,
}

/// The next timer of a connection, excluding the delayed ACK timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingTimer {
    /// No timer is running.
    #[default]
    None,
    /// The retransmission timer.
    Retransmission,
    /// The reordering timer: segments are declared lost when it expires (RFC 8985, section 6.3).
    Reordering,
    /// The tail loss probe (RFC 8985, section 7).
    TailProbe,
    /// The probe of a closed window.
    Persist,
    /// The end of TIME-WAIT or FIN-WAIT-2, or a keep-alive.
    KeepAlive,
}

/// State of outstanding data according to loss detection, in segments of SMSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Segments reported by SACK.
    pub sacked: u64,
    /// Segments declared lost, retransmitted or not.
    pub lost: u64,
    /// Segments retransmitted, and neither acknowledged nor SACKed since.
    pub retransmitted: u64,
}

/// A snapshot of one endpoint of a connection: one field per value of `tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Phase of loss recovery.
    pub recovery: RecoveryState,
    /// Congestion window in segments.
    pub congestion_window: f64,
    /// Slow-start threshold in segments; infinite before the first reduction.
    pub slow_start_threshold: f64,
    /// Number of duplicates that indicate a loss (DupThresh).
    pub reordering: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u64,
    /// State of these segments according to loss detection.
    pub outstanding: Outstanding,
    /// Segments estimated to be in the network (RFC 6675: pipe).
    pub pipe: u64,
    /// Retransmission timeout, without backoff.
    pub rto: Duration,
    /// Number of consecutive retransmission timeouts.
    pub back_off: u32,
    /// Smoothed RTT; zero before the first sample.
    pub rtt: Duration,
    /// Mean deviation of the RTT.
    pub rtt_variation: Duration,
    /// Window advertised by the peer, in bytes.
    pub peer_window: u64,
    /// Window advertised by this endpoint, in bytes.
    pub receive_window: u64,
    /// Payload bytes of a full segment.
    pub segment: u64,
    /// The next timer to expire, and its deadline.
    pub pending: (PendingTimer, Option<Instant>),
    /// Deadline of the delayed ACK, if any.
    pub delayed_ack: Option<Instant>,
    /// Number of unanswered probes of a closed window.
    pub probes: u32,
    /// Segments delivered; 0 if not counted, like the next three fields.
    pub delivered: u64,
    /// Segments delivered by ACKs that echo a mark.
    pub delivered_marked: u64,
    /// Segments that the receiver has reported as duplicates.
    pub duplicates_reported: u64,
    /// Number of times that reordering was detected.
    pub reorderings: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
    /// Minimum RTT, if measured with segment records.
    pub min_rtt: Option<Duration>,
    /// Pacing rate in bytes per second, as in Linux; `None` before the first RTT sample.
    pub pacing_rate: Option<f64>,
    /// Upper limit of the pacing rate set by the application, in bytes per second.
    pub pacing_limit: Option<f64>,
    /// Latest delivery rate in bytes per second, and whether it was application-limited; `None`
    /// without segment records.
    pub delivery_rate: Option<(f64, bool)>,
}

impl Connection {
    /// Returns a snapshot of the connection.
    pub fn info(&self) -> TcpInfo {
        self.data_info()
    }
}

impl<A: Admission> Endpoint<A> {
    /// Returns a snapshot of sender and receiver.
    pub(crate) fn data_info(&self) -> TcpInfo {
        let flight = &self.sender.flight;
        let (recovery, outstanding) = self.sender.outstanding();
        let whole = self.sender.whole_segments();
        let unacked = whole.map_or_else(|| flight.outstanding_segments(), |(unacked, _)| unacked);
        let counts = whole.map(|(_, counts)| counts).unwrap_or_default();
        let running = |timer| {
            let deadline = flight.timers.deadline(timer);
            (deadline != Instant::NEVER).then_some(deadline)
        };
        let timers = [
            (PendingTimer::Retransmission, Timer::Retransmission),
            (PendingTimer::Reordering, Timer::Reordering),
            (PendingTimer::TailProbe, Timer::TailProbe),
        ];
        let timers = timers.map(|(kind, timer)| (kind, running(timer)));
        let first = timers.into_iter().filter(|(_, deadline)| deadline.is_some());
        let pending = first.min_by_key(|&(_, deadline)| deadline).unwrap_or_default();
        TcpInfo {
            recovery,
            congestion_window: flight.congestion_control.cwnd(),
            slow_start_threshold: flight.congestion_control.ssthresh(),
            reordering: self.sender.reordering(),
            unacked,
            outstanding,
            pipe: (unacked + outstanding.retransmitted)
                .saturating_sub(outstanding.sacked + outstanding.lost),
            rto: flight.rtt.rto_without_back_off(),
            back_off: flight.rtt.back_offs(),
            rtt: flight.rtt.srtt(),
            rtt_variation: flight.rtt.variation(),
            peer_window: flight.peer.window,
            receive_window: self.advertised_window.into(),
            segment: flight.mss,
            pending,
            delayed_ack: running(Timer::DelayedAck),
            probes: 0,
            delivered: counts.delivered,
            delivered_marked: counts.marked,
            duplicates_reported: counts.duplicates,
            reorderings: counts.reorderings,
            out_of_order: self.receiver.out_of_order_count,
            min_rtt: flight.min_rtt(),
            pacing_rate: flight.reported_pacing_rate(),
            pacing_limit: flight.pacing_limit(),
            delivery_rate: flight.delivery_rate(),
        }
    }
}
