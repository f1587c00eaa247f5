//! Metrics that the simulator counts: those of flows, and those of links that no other module counts; and the list of
//! all metrics of a simulation.

use crate::agent::AgentKind;
use crate::app::App;
use lasthop_base::schema::metrics::{Metric, metrics};
use lasthop_link::link::{PacketMetrics, ReceiverMetrics, SenderMetrics};
use lasthop_link::queue::{DisciplineMetrics, QueueMetrics};
use lasthop_wlan::dcf::{CellMetrics, PairMetrics};

metrics! {
    /// Every flow.
    pub struct FlowMetrics {
        /// Bits delivered per second of the duration; of a file and of pages without headers.
        goodput_bps: "Goodput", BitsPerSecond, Higher, Sum;
        /// Bytes delivered.
        delivered_bytes: "Delivered", Bytes, Higher, Sum;
        /// Time from the start of the flow to the end of the transfer, of the last page or of the run.
        duration_s: "Duration", Seconds, Lower, Mean;
    }
}

metrics! {
    /// The TCP connections of a flow, both ends.
    pub struct TcpMetrics {
        /// Segments sent, retransmissions, SYN and FIN included.
        segments_sent: "Segments sent", Count, Neither, Sum;
        /// Segments retransmitted.
        retransmissions: "Retransmissions", Count, Lower, Sum;
        /// Expiries of the retransmission timer.
        timeouts: "Timeouts", Count, Lower, Sum;
        /// Timeouts of the ends that opened a connection.
        opener_timeouts: "Opener timeouts", Count, Lower, Sum;
        /// Timeouts of the ends that accepted a connection.
        acceptor_timeouts: "Acceptor timeouts", Count, Lower, Sum;
        /// Timeouts whose segment had arrived.
        spurious_timeouts: "Spurious timeouts", Count, Lower, Sum;
        /// Retransmissions whose segment had arrived.
        spurious_retransmissions: "Spurious retransmissions", Count, Lower, Sum;
        /// Fast retransmits: recoveries entered by duplicate or selective ACKs.
        fast_retransmits: "Fast retransmits", Count, Lower, Sum;
        /// Reductions of cwnd.
        window_cuts: "Window cuts", Count, Lower, Sum;
        /// Segments received more than once.
        duplicates_received: "Duplicates received", Count, Lower, Sum;
        /// Tail loss probes sent (RFC 8985).
        tail_probes: "Tail probes", Count, Neither, Sum;
        /// Reductions of cwnd that were undone as spurious.
        reductions_taken_back: "Undone reductions", Count, Neither, Sum;
    }
}

metrics! {
    /// TCP that receives notifications from a link.
    pub struct NoticeMetrics {
        /// Losses of outstanding segments of which a link notified the sender (ELN).
        explicit_losses: "Explicit losses", Count, Neither, Sum;
        /// Timeouts without effect, as a link was retransmitting the segment (ERSN).
        timeouts_held: "Timeouts held", Count, Neither, Sum;
    }
}

metrics! {
    /// Transports that deliver damaged packets.
    pub struct DamageMetrics {
        /// Packets delivered with errors.
        packets_damaged: "Packets damaged", Count, Lower, Sum;
    }
}

metrics! {
    /// Several file transfers over TCP.
    pub struct SharingMetrics {
        /// Time until the flows share fairly.
        convergence_time_s: "Convergence time", Seconds, Lower, Mean;
    }
}

metrics! {
    /// The load of a direction of a link.
    pub struct LoadMetrics {
        /// Fraction of the capacity that was used.
        utilization: "Utilization", Fraction, Neither, Mean;
    }
}

metrics! {
    /// Frames with errors whose headers can be read.
    pub struct HeaderMetrics {
        /// Frames received with errors and a readable header.
        headers_readable: "Headers readable", Count, Neither, Sum;
    }
}

metrics! {
    /// A service of a link.
    pub struct ServiceMetrics {
        /// Bits sent by the service, as a fraction of those of the direction.
        share: "Share", Fraction, Neither, Mean;
    }
}

/// The metrics of each kind of entity, `link` of `link.wireless.forward.retransmissions`, by what reports them.
pub fn groups() -> [(&'static str, Vec<&'static [Metric]>); 5] {
    let flow = [FlowMetrics::METRICS, TcpMetrics::METRICS, NoticeMetrics::METRICS];
    let link = [
        QueueMetrics::METRICS,
        LoadMetrics::METRICS,
        ServiceMetrics::METRICS,
        HeaderMetrics::METRICS,
        DisciplineMetrics::METRICS,
        SenderMetrics::METRICS,
        PacketMetrics::METRICS,
        ReceiverMetrics::METRICS,
        PairMetrics::METRICS,
    ];
    [
        ("flow", [&flow[..], App::METRICS, &[DamageMetrics::METRICS]].concat()),
        ("flows", vec![SharingMetrics::METRICS]),
        ("link", link.to_vec()),
        ("wlan", vec![CellMetrics::METRICS, DisciplineMetrics::METRICS]),
        ("agent", AgentKind::METRICS.to_vec()),
    ]
}

/// Whether `metric` of `entity` is in the list.
pub(crate) fn is_listed(entity: &str, metric: &Metric) -> bool {
    let kind = entity.split('.').next();
    let own = groups().into_iter().filter(|&(one, _)| Some(one) == kind);
    own.flat_map(|(_, groups)| groups).flatten().any(|one| one == metric)
}
