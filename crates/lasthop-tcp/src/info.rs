//! The state of a connection for who only looks: what Linux's `tcp_info` tells, in plain units.

use super::congestion_control::CongestionControl;
use super::endpoint::{Admission, Connection, Endpoint};
use super::timers::Timer;
use lasthop_base::units::{Duration, Instant};

/// What the sender is doing about losses (Linux's `TCP_CA_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecoveryState {
    /// Nothing is wrong.
    #[default]
    Open,
    /// Duplicate ACKs or SACK blocks, too few to mean a loss.
    Disorder,
    /// The window is reduced for a mark, nothing was lost.
    CongestionWindowReduced,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout, until what was outstanding then is acknowledged.
    Loss,
}

/// The timer that a connection waits for beside the delayed ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingTimer {
    /// None runs.
    #[default]
    None,
    /// The retransmission timer.
    Retransmission,
    /// The time at which overtaken segments count as lost (RFC 8985, section 6.3).
    Reordering,
    /// The tail loss probe (RFC 8985, section 7).
    TailProbe,
    /// The probe of a closed window.
    Persist,
    /// The end of TIME-WAIT or FIN-WAIT-2, or a keep-alive.
    KeepAlive,
}

/// What is outstanding, by the eyes of loss detection, in segments of SMSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Reported by SACK.
    pub sacked: u64,
    /// Held lost, retransmitted or not.
    pub lost: u64,
    /// Retransmitted, and neither acknowledged nor reported since.
    pub retransmitted: u64,
}

/// A snapshot of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// Phase of loss recovery.
    pub recovery: RecoveryState,
    /// Congestion window, segments.
    pub congestion_window: f64,
    /// Slow-start threshold, segments; infinite before the first reduction.
    pub slow_start_threshold: f64,
    /// Duplicates that mean a loss.
    pub reordering: u32,
    /// Sent and not acknowledged, segments.
    pub unacked: u64,
    /// What of it loss detection knows.
    pub outstanding: Outstanding,
    /// Segments that are believed to be in the network (RFC 6675: pipe).
    pub pipe: u64,
    /// Retransmission timeout, without back-off.
    pub rto: Duration,
    /// Expiries of the timer in a row.
    pub back_off: u32,
    /// Smoothed round-trip time; zero before the first sample.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// The window that the peer advertises, bytes.
    pub peer_window: u64,
    /// The window that this end advertises, bytes.
    pub receive_window: u64,
    /// Payload bytes of a full segment.
    pub segment: u64,
    /// Which timer runs, and its deadline.
    pub pending: (PendingTimer, Option<Instant>),
    /// Deadline of a delayed ACK, if one waits.
    pub delayed_ack: Option<Instant>,
    /// Probes of a closed window that nobody has answered.
    pub probes: u32,
    /// Segments delivered so far; 0 where nobody counts them, as the next.
    pub delivered: u64,
    /// Segments delivered by acknowledgments that echo a mark.
    pub delivered_marked: u64,
    /// Segments that the receiver has reported as duplicates.
    pub duplicates_reported: u64,
    /// How often the network was seen to change the order of segments.
    pub reorderings: u64,
    /// Segments that arrived above a hole.
    pub out_of_order: u64,
    /// Least round-trip time, if one was measured by records.
    pub min_rtt: Option<Duration>,
    /// Bytes a second at which data leave if they are paced, as Linux has it; nothing before the first sample of the round
    /// trip.
    pub pacing_rate: Option<f64>,
    /// The most that an application allows of it.
    pub pacing_limit: Option<f64>,
    /// Bytes a second that were delivered last, and whether the application limited that; if records tell.
    pub delivery_rate: Option<(f64, bool)>,
}

impl Connection {
    /// A snapshot for who looks on.
    pub fn info(&self) -> TcpInfo {
        self.data_info()
    }
}

impl<A: Admission> Endpoint<A> {
    /// A snapshot of sender and receiver.
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
            congestion_window: flight.law.cwnd(),
            slow_start_threshold: flight.law.ssthresh(),
            reordering: self.sender.reordering(),
            unacked,
            outstanding,
            pipe: (unacked + outstanding.retransmitted)
                .saturating_sub(outstanding.sacked + outstanding.lost),
            rto: flight.rtt.rto_without_back_off(),
            back_off: flight.rtt.back_offs(),
            rtt: flight.rtt.srtt(),
            rtt_variation: flight.rtt.variation(),
            peer_window: flight.peer_window,
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
            pacing_rate: flight.told_pacing_rate(),
            pacing_limit: flight.pacing_limit(),
            delivery_rate: flight.delivery_rate(),
        }
    }
}
