//! Queue disciplines on shared media: stations and access points of WLANs, and services of a link.

use crate::changing_rates::assert_same;
use crate::scenarios::{self, Metrics, read, scenario};
use lasthop::run;
use std::sync::atomic::AtomicBool;

fn metrics(text: &str) -> Vec<Metrics> {
    scenarios::metrics(&scenario(text), 3, 5)
}

/// RED that never drops is drop-tail.
const RED: &str = r#"{ kind = "red", limit = "20 packets", min = "30 packets" }"#;

/// Two stations behind an access point: one downloads a file; the other one is flooded and uploads
/// a file.
fn wlan(queue: &str) -> String {
    format!(
        r#"
        name = "cell"
        [wlan.cell]
        access_point = "ap"
        stations = ["m", "n"]
        queue = {queue}
        errors = {{ kind = "uniform", loss = "5 %" }}
        [flow.down]
        from = "ap"
        to = "m"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "1 MB" }}
        [flow.up]
        from = "n"
        to = "ap"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "1 MB" }}
        [flow.flood]
        from = "ap"
        to = "n"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "4 Mbps", on = "exp 300 ms", off = "exp 700 ms", packet = "700 B" }}
        [run]
        max_time = "1000 s"
        "#
    )
}

/// A file and a flood in separate services.
fn services(queue: &str, own: &str) -> String {
    format!(
        r#"
        name = "services"
        [link.line]
        between = ["a", "b"]
        rate = "2 Mbps"
        delay = "10 ms"
        queue = {queue}
        errors = {{ kind = "uniform", loss = "2 %" }}
        [link.line.protocol]
        kind = "services"
        service.bulk = {{ protocol = "selective-repeat", weight = 2 }}
        service.rest = {{ protocol = "raw"{own} }}
        [flow.file]
        from = "a"
        to = "b"
        service = "bulk"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }}
        app = {{ kind = "file", size = "700 kB" }}
        [flow.flood]
        from = "a"
        to = "b"
        service = "rest"
        transport = {{ kind = "udp" }}
        app = {{ kind = "on-off", rate = "1.9 Mbps", on = "exp 300 ms", off = "exp 300 ms", packet = "700 B" }}
        [run]
        max_time = "1000 s"
        "#
    )
}

#[test]
fn red_that_never_acts_is_drop_tail() {
    for (plain, red) in [
        (wlan("\"20 packets\""), wlan(RED)),
        (services("\"20 packets\"", ""), services(RED, "")),
        (
            services("\"20 packets\"", ", queue = \"5 kB\""),
            services(RED, r#", queue = { kind = "red", limit = "5 kB", min = "9 kB" }"#),
        ),
    ] {
        let (plain, red) = (metrics(&plain), metrics(&red));
        let drops = |row: &Metrics| {
            row.iter()
                .filter(|(name, _)| name.ends_with(".queue_drops"))
                .map(|(_, n)| n)
                .sum::<f64>()
        };
        assert!(plain.iter().all(|row| drops(row) > 0.0), "the limit is reached");
        assert_same(&plain, &red, &[]);
    }
}

/// The drops in a trace agree with the counters, including drops of queued packets.
#[test]
fn every_drop_is_told() {
    const CODEL: &str = r#"{ kind = "codel", limit = "30 packets" }"#;
    const FQ_CODEL: &str = r#"{ kind = "fq-codel", limit = "30 packets" }"#;
    for (text, entity, early) in [
        (wlan(CODEL), "link.cell.n.reverse", "wlan.cell"),
        (wlan(FQ_CODEL), "link.cell.n.reverse", "wlan.cell"),
        (services(CODEL, ""), "link.line.forward", "link.line.forward.rest"),
        (services(FQ_CODEL, ""), "link.line.forward", "link.line.forward.rest"),
    ] {
        let trace = run::trace(&scenario(&text), 1, 0, &AtomicBool::new(false)).expect("a trace");
        let metrics: Metrics = trace.metrics.into_iter().collect();
        let drops = |event: &&run::TraceEvent| event.event == "drop" && event.entity == entity;
        let drops = trace.events.iter().filter(drops).count();
        assert_eq!(drops as f64, metrics[&format!("{entity}.queue_drops")], "{entity}");
        assert!(metrics[&format!("{early}.queue_early_drops")] > 0.0, "{early}");
        if early.starts_with("link.") {
            // The counters of the link are the sums over its services.
            let of = |entity: &str, cause: &str| metrics[&format!("{entity}.queue_{cause}drops")];
            let all = of(entity, "early_") + of(entity, "tail_");
            assert_eq!(all, of(entity, ""), "{entity}");
        }
        let without = scenarios::metrics(&scenario(&text), 1, 1).remove(0);
        assert_same(&[metrics], &[without], &[]);
    }
}

/// During a flood to another station, a low-rate stream waits for the frames of the flooded queue,
/// or for its turn.
#[test]
fn a_queue_for_each_flow_lets_a_thin_stream_pass() {
    let text = |queue: &str| {
        format!(
            r#"
            name = "cell"
            [wlan.cell]
            access_point = "ap"
            stations = ["m", "n"]
            queue = {queue}
            [flow.call]
            from = "ap"
            to = "m"
            transport = {{ kind = "udp" }}
            app = {{ kind = "media", rate = "64 kbps", packet = "160 B" }}
            [flow.flood]
            from = "ap"
            to = "n"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "9 Mbps", on = "1 h", off = "0 s", packet = "1500 B" }}
            [run]
            duration = "10 s"
            "#
        )
    };
    let of = |queue: &str| metrics(&text(queue)).remove(0);
    let (tail, fair) =
        (of("\"100 packets\""), of(r#"{ kind = "fq-codel", limit = "100 packets" }"#));
    // A frame of the flood takes about 2 ms, so that a full queue is 200 ms long.
    assert!(tail["flow.call.delay_mean_s"] > 0.1, "{}", tail["flow.call.delay_mean_s"]);
    assert!(fair["flow.call.delay_mean_s"] < 0.01, "{}", fair["flow.call.delay_mean_s"]);
    assert_eq!(fair["flow.call.residual_loss"], 0.0);
}

/// A sender that reacts to marks keeps the queue of the access point at the threshold.
#[test]
fn an_access_point_marks() {
    let text = r#"
        name = "marked"
        [wlan.cell]
        access_point = "ap"
        stations = ["m"]
        queue = { kind = "step", limit = "100 packets", threshold = "10 packets" }
        [flow.down]
        from = "ap"
        to = "m"
        transport = { kind = "tcp", variant = "dctcp", profile = "rfc", segment = "1000 B" }
        app = { kind = "file", size = "3 MB" }
        "#;
    let row = metrics(text).remove(0);
    assert!(row["wlan.cell.queue_marks"] > 0.0);
    assert_eq!(row["link.cell.m.reverse.queue_drops"], 0.0);
    assert_eq!(row["flow.down.complete"], 1.0);
}

#[test]
fn impossible_disciplines_are_refused_where_they_stand() {
    let red = r#"{ kind = "red", min = "15 packets", max = "5 packets" }"#;
    for (text, key) in [
        (wlan(red), "wlan.cell.queue"),
        (services("\"9 packets\"", &format!(", queue = {red}")), "service.rest.queue"),
    ] {
        let error = read(&text).unwrap_err();
        assert!(error.contains(key) && error.contains("; expected "), "{key}: {error}");
    }
}
