//! Metrics counted by the simulator: those of flows, and those of links that no other module
//! counts. Also the list of all metrics of a simulation.

use crate::agent::AgentKind;
use crate::app::App;
use crate::transport::{Carries, TransportKind};
use lasthop_base::schema::metrics::{Metric, metrics};
use lasthop_link::link::{PacketMetrics, ReceiverMetrics, SenderMetrics};
use lasthop_link::queue::{DisciplineMetrics, QueueMetrics, QueueingMetrics};
use lasthop_wlan::dcf::{AggregationMetrics, CellMetrics, DelayMetrics, ModeMetrics, PairMetrics};

metrics! {
    /// Every flow.
    pub struct FlowMetrics {
        /// Bits delivered per second of the duration; of a file and of pages without headers.
        goodput_bps: "Goodput", BitsPerSecond, Higher, Sum, Ratio;
        /// Bytes delivered.
        delivered_bytes: "Delivered", Bytes, Higher, Sum;
        /// Time from the start of the flow to the end of the transfer, of the last page or of the run.
        duration_s: "Duration", Seconds, Lower, Mean;
    }
}

metrics! {
    /// Several transfers.
    pub struct SharingMetrics {
        /// Time until the flows share fairly.
        convergence_time_s: "Convergence time", Seconds, Lower, Mean;
    }
}

metrics! {
    /// The load of a direction of a link.
    pub struct LoadMetrics {
        /// Fraction of the capacity that was used.
        utilization: "Utilization", Fraction, Neither, Mean, Ratio;
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
        share: "Share", Fraction, Neither, Mean, Ratio;
    }
}

/// The metrics of each kind of entity, grouped by the component that reports them. The kind is the
/// first part of the entity name: `link` in `link.wireless.forward.retransmissions`.
pub fn groups() -> [(&'static str, Vec<&'static [Metric]>); 5] {
    let [streams, datagrams] = [Carries::Streams, Carries::Datagrams].map(TransportKind::metrics);
    let link = [
        QueueMetrics::METRICS,
        LoadMetrics::METRICS,
        ServiceMetrics::METRICS,
        HeaderMetrics::METRICS,
        QueueingMetrics::METRICS,
        DisciplineMetrics::METRICS,
        SenderMetrics::METRICS,
        PacketMetrics::METRICS,
        ReceiverMetrics::METRICS,
        PairMetrics::METRICS,
        DelayMetrics::METRICS,
        AggregationMetrics::METRICS,
        ModeMetrics::METRICS,
    ];
    [
        ("flow", [&[FlowMetrics::METRICS][..], &streams, App::METRICS, &datagrams].concat()),
        ("flows", vec![SharingMetrics::METRICS]),
        ("link", link.to_vec()),
        (
            "wlan",
            vec![
                CellMetrics::METRICS,
                DelayMetrics::METRICS,
                QueueingMetrics::METRICS,
                AggregationMetrics::METRICS,
                ModeMetrics::METRICS,
                DisciplineMetrics::METRICS,
            ],
        ),
        ("agent", AgentKind::METRICS.to_vec()),
    ]
}

/// Returns `true` if `metric` of `entity` is in the list.
pub(crate) fn is_listed(entity: &str, metric: &Metric) -> bool {
    // `window.NAME.flow.f` has the metrics of `flow.f` in a window.
    let entity = match entity.strip_prefix("window.").and_then(|rest| rest.split_once('.')) {
        Some((_, entity)) if metric.windowed => entity,
        _ => entity,
    };
    // `flows.NAME` has the aggregated metrics of the flows of a table.
    let kind = match entity.split_once('.') {
        Some(("flows", _)) => "flow",
        Some((kind, _)) => kind,
        None => entity,
    };
    let own = groups().into_iter().filter(|&(one, _)| one == kind);
    own.flat_map(|(_, groups)| groups).flatten().any(|one| one == metric)
}
