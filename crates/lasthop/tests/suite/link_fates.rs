//! Delivery reports of senders to agents: computed by hand, with arbitrary loss, and in whole runs.

use crate::common::*;
use crate::scenarios::{read, scenario};
use lasthop::link::{Abilities, AtLimit, Endpoint, HarqParameters, LinkCounters, RlcParameters};
use lasthop::packet::DeliveryReport;
use lasthop::run::{self, Trace};
use lasthop::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

const AIR: (Rate, Duration) = (Rate::from_bps(200_000), Duration::from_millis(20));

/// Protocols whose senders receive delivery reports: some repair all losses, some discard packets.
fn reporting(window: u32, timeout: Duration, limit: u32) -> Vec<Protocol> {
    let mut all = every_reliable_protocol(window, timeout);
    all.push(Protocol::StopAndWait(stop_and_wait(Some(limit - 1), timeout)));
    all.push(Protocol::IdealSr(ideal_sr(Some(limit))));
    all.push(Protocol::Harq(HarqParameters { max_transmissions: Some(limit), ..harq(4, timeout) }));
    for at_limit in [AtLimit::Discard, AtLimit::Reset] {
        all.push(Protocol::Rlc(RlcParameters {
            max_transmissions: Some(limit),
            at_limit,
            ..rlc(80, AIR.0, AIR.1)
        }));
    }
    all
}

fn pattern() -> impl Strategy<Value = Pattern> {
    (0.0..1.0f64, 0u64..80).prop_flat_map(|(loss, jitter)| {
        prop::collection::vec((prop::bool::weighted(loss), 0..=jitter), 0..60)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each packet has one outcome, acknowledged or discarded, preceded by at most one report of a
    /// retransmission. Acknowledged packets are delivered at the other end, and the counters agree.
    #[test]
    fn each_packet_has_one_fate(
        window in 1u32..9,
        timeout in 60u64..400,
        limit in 1u32..4,
        gaps in prop::collection::vec(prop_oneof![3 => Just(0u64), 1 => 0u64..300], 0..30),
        patterns in [pattern(), pattern()],
    ) {
        for protocol in reporting(window, Duration::from_millis(timeout), limit) {
            let offers = [offers(&gaps), Default::default()];
            let sent: Vec<_> = offers[0].iter().map(|&(_, token)| token.number).collect();
            let mut link = Link::new(protocol.ends(), AIR, offers, patterns.each_ref().map(fate));
            for end in &mut link.ends {
                end.delivery_reports().expect("a protocol with reports").enable();
            }
            link.run(Instant::from_nanos(3_600_000_000_000));
            let mut reports: HashMap<u64, Vec<DeliveryReport>> = HashMap::new();
            for &(fate, token) in &link.fates[0] {
                reports.entry(token.number).or_default().push(fate);
            }
            let mut abandoned = 0;
            for number in &sent {
                let fates = reports.remove(number).unwrap_or_default();
                let (last, before) = fates.split_last().expect("each packet is finished");
                prop_assert!(*last != DeliveryReport::Retrying, "{protocol:?}: {number} {fates:?}");
                prop_assert!(
                    before.is_empty() || before == [DeliveryReport::Retrying],
                    "{protocol:?}: {number} {fates:?}"
                );
                let is_up = link.delivered[1].iter().any(|token| token.number == *number);
                prop_assert!(is_up || *last == DeliveryReport::Abandoned, "{protocol:?}: {number}");
                abandoned += u64::from(*last == DeliveryReport::Abandoned);
            }
            prop_assert!(reports.is_empty(), "{protocol:?}: {reports:?}");
            let LinkCounters { packets_abandoned, .. } = link.ends[0].counters();
            prop_assert_eq!(abandoned, packets_abandoned, "{:?}", protocol);
            prop_assert!(link.fates[1].is_empty(), "it sent nothing");
        }
    }
}

/// Returns a file of ten segments over a link whose forward direction loses these frames, with
/// LL-ELSN at its sending end.
fn notified(protocol: &str, lose: &str, more: &str) -> String {
    format!(
        r#"
        name = "notified"
        [link.wire]
        between = ["s", "b"]
        rate = "10 Mbps"
        delay = "5 ms"
        [link.air]
        between = ["b", "m"]
        rate = "1 Mbps"
        delay = "1 ms"
        protocol = {protocol}
        errors = {{ kind = "listed", lose = {lose} }}
        reverse = {{ errors = "none" }}
        agent = {{ kind = "ll-elsn", at = "b" }}
        {more}
        [flow.f]
        from = "s"
        to = "m"
        transport = {{ kind = "tcp", variant = "esack", profile = "ns-2", segment = "960 B", initial_window = "3 segments", handshake = false }}
        app = {{ kind = "file", size = "9600 B" }}
        "#
    )
}

fn trace(text: &str) -> Trace {
    run::trace(&scenario(text), 1, 0, &AtomicBool::new(false)).expect("a trace")
}

/// Returns time in microseconds, kind of the notification, and first byte of the reported segment.
fn notices(trace: &Trace) -> Vec<(u64, &str, f64)> {
    let reports = trace.events.iter().filter(|event| event.entity.starts_with("agent."));
    reports.map(|event| (event.time_ns / 1_000, event.event, event.sequence)).collect()
}

#[test]
fn ll_elsn_over_stop_and_wait_by_hand() {
    let protocol = r#"{ kind = "stop-and-wait", timeout = "15 ms", retries = 1 }"#;
    // Frames 2 and 3 of the forward direction are both attempts of the second segment.
    let trace = trace(&notified(protocol, "[2, 3]", ""));
    let reports = notices(&trace);
    assert_eq!(reports.len(), 2, "{reports:?}");
    let [(retry, ersn, first), (loss, eln, second)] = reports[..] else { unreachable!() };
    assert_eq!((ersn, eln), ("ersn", "eln"));
    assert_eq!((first, second), (second, first));
    // The copy is sent at the timeout, and discarded a timeout later.
    assert_eq!(loss - retry, 15_000);
    let metrics: HashMap<_, _> = trace.metrics.iter().cloned().collect();
    assert_eq!((metrics["agent.air.ersn_sent"], metrics["agent.air.eln_sent"]), (1.0, 1.0));
    assert_eq!(metrics["flow.f.explicit_losses"], 1.0);
    assert_eq!(metrics["flow.f.timeouts"], 0.0);
    assert_eq!(metrics["flow.f.window_reductions"], 0.0);
    assert_eq!(metrics["flow.f.complete"], 1.0);
}

#[test]
fn a_link_that_repairs_all_tells_of_retransmissions_alone() {
    for protocol in ["selective-repeat", "go-back-n", "ideal-sr", "rlc-am", "harq"] {
        let trace = trace(&notified(&format!("{protocol:?}"), "[2]", ""));
        let metrics: HashMap<_, _> = trace.metrics.iter().cloned().collect();
        assert!(metrics["agent.air.ersn_sent"] >= 1.0, "{protocol}");
        assert_eq!(metrics["agent.air.eln_sent"], 0.0, "{protocol}");
        assert_eq!(metrics["flow.f.complete"], 1.0, "{protocol}");
    }
}

#[test]
fn senders_that_learn_nothing_are_refused() {
    for protocol in ["raw", "karn-rlp", "oos-rlp", "xor-fec"] {
        let error = read(&notified(&format!("{protocol:?}"), "[2]", "")).unwrap_err();
        assert!(error.contains("link.air.agent.kind"), "{error}");
        assert!(
            error.contains("a link whose sender is notified of the outcome of its packets"),
            "{error}"
        );
    }
}
