//! Pages over HTTP/1.1, HTTP/2 and HTTP/3: closed forms without losses, and orderings with losses.
#![cfg(feature = "quic")]

use lasthop_sim::run::{self, Options};
use lasthop_sim::scenario::Scenario;
use std::collections::BTreeMap;
use std::path::Path;

type Metrics = BTreeMap<String, f64>;

fn page(link: &str, transport: &str, app: &str) -> String {
    format!(
        r#"
        name = "page"
        [link.air]
        between = ["server", "browser"]
        {link}
        [flow.f]
        from = "server"
        to = "browser"
        transport = {{ kind = {transport} }}
        app = {{ kind = "page" {app} }}
        "#
    )
}

fn points(text: &str) -> Result<Vec<Scenario>, String> {
    let document = Scenario::from_toml(text, Path::new("."));
    let points = document.and_then(|document| document.points());
    let points = points.map_err(|error| error.to_string())?;
    Ok(points.into_iter().map(|point| point.scenario).collect())
}

/// Returns the metrics of the flow in `replications` replications.
fn metrics(text: &str, replications: u64) -> Vec<Metrics> {
    let points = points(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let options = Options { replications, first_replication: 0, seed: 1, jobs: 2 };
    let results = run::run(&points, &options, &mut |_| true).expect("a run");
    let name = |name: &String| name.replace("flow.f.", "");
    let row =
        |row: &run::Row| results.metrics.iter().map(name).zip(row.values.iter().copied()).collect();
    results.rows.iter().map(row).collect()
}

fn mean(rows: &[Metrics], name: &str) -> f64 {
    rows.iter().map(|row| row[name]).sum::<f64>() / rows.len() as f64
}

/// Transmission times are negligible: the RTT is 40 ms.
const FAST: &str = "rate = \"10 Gbps\"\ndelay = \"20 ms\"\nqueue = \"1 MB\"";
const LINK: &str = "rate = \"20 Mbps\"\ndelay = \"20 ms\"\nqueue = \"250 kB\"";
const TCP: &str = "\"tcp\", variant = \"cubic\"";
const QUIC: &str = "\"quic\"";
const SMALL: &str = ", size = \"4 kB\", sizes = \"constant\"";

/// Without losses and with negligible transmission times, the load time is a number of round trips:
/// the handshake of TCP or QUIC, TLS over TCP, and for each level a request and 50 ms at the server.
#[test]
fn load_times_are_round_trips() {
    let cases = [
        // TCP, TLS, request; without TLS; two and three levels.
        (TCP, ", http = \"2\", objects = 4, depth = 1", 3.0, 1.0),
        (TCP, ", http = \"2\", objects = 4, depth = 1, certificate = \"0 B\"", 2.0, 1.0),
        (TCP, ", http = \"2\", objects = 20, depth = 2", 4.0, 2.0),
        (TCP, ", http = \"2\", objects = 20", 5.0, 3.0),
        // Six connections: one round for 6 objects, two for 12. After the document, five further
        // connections are opened; the sixth object is complete after a whole handshake.
        (TCP, ", http = \"1.1\", objects = 6, depth = 1", 3.0, 1.0),
        (TCP, ", http = \"1.1\", objects = 12, depth = 1", 4.0, 2.0),
        (TCP, ", http = \"1.1\", objects = 7, depth = 2", 6.0, 2.0),
        (TCP, ", http = \"1.1\", objects = 7, depth = 2, connections = 1", 9.0, 7.0),
        (QUIC, ", objects = 4, depth = 1", 2.0, 1.0),
        (QUIC, ", objects = 20", 4.0, 3.0),
        ("\"quic\", resumption = \"0-rtt\"", ", objects = 20", 3.0, 3.0),
    ];
    for (transport, app, round_trips, waits) in cases {
        for pages in [1.0, 3.0] {
            let app = format!("{SMALL}{app}, pages = {pages}");
            let row = metrics(&page(FAST, transport, &app), 1).remove(0);
            let expected = round_trips * 0.04 + waits * 0.05;
            let found = row["page_load_s"];
            assert!((found - expected).abs() < 5e-4, "{transport}{app}: {found}, not {expected}");
            assert_eq!([row["pages_loaded"], row["pages_failed"]], [pages, 0.0]);
            assert_eq!(row["head_of_line_s"], 0.0, "{transport}{app}");
            assert!((row["duration_s"] - pages * found).abs() < 1e-6, "{row:?}");
            // The document is the first object.
            let levels = waits.clamp(1.0, 3.0);
            assert!(row["first_object_s"] <= found - (levels - 1.0) * 0.05, "{row:?}");
        }
    }
}

/// All versions load the same bytes, and a large page takes at least their transmission time. Slow
/// start, headers and round trips add less than a third.
#[test]
fn versions_load_equal_bytes() {
    // With HTTP/1.1 each connection exchanges 12 objects, which cost a round trip and 50 ms each.
    let versions = [(TCP, ", http = \"1.1\"", 12.0 * 0.09), (TCP, "", 0.0), (QUIC, "", 0.0)];
    let rows = versions.map(|(transport, http, _)| {
        let link = LINK.replace("250 kB", "5 MB");
        metrics(&page(&link, transport, &format!(", depth = 1{http}")), 3)
    });
    for (other, (.., waits)) in rows.iter().zip(versions) {
        for (row, first) in other.iter().zip(&rows[0]) {
            assert_eq!(row["delivered_bytes"], first["delivered_bytes"]);
            let least = row["delivered_bytes"] * 8.0 / 20e6;
            assert!(row["page_load_s"] > least, "{row:?}");
            assert!(row["page_load_s"] < 1.34 * least + 0.17 + waits, "{row:?}");
            assert_eq!(row["head_of_line_s"], 0.0);
        }
    }
    // The sizes of 71 objects are random, with a mean of 2652 kB.
    assert_ne!(rows[0][0]["delivered_bytes"], rows[0][1]["delivered_bytes"]);
    let constant = page(LINK, QUIC, ", sizes = \"constant\"");
    let bytes = metrics(&constant, 1)[0]["delivered_bytes"];
    assert!((bytes - 2_652_000.0).abs() <= 71.0, "{bytes}");
}

/// A lost packet delays the data of its stream only. With HTTP/2 all later data of the connection
/// waits for it.
#[test]
fn streams_wait_less_than_a_connection() {
    let lossy = format!("{LINK}\nerrors = {{ kind = \"uniform\", loss = \"2 %\" }}");
    let run = |transport: &str| metrics(&page(&lossy, transport, ""), 20);
    let [two, three] = [TCP, QUIC].map(run);
    let [two, three] = [two, three].map(|rows| mean(&rows, "head_of_line_s"));
    assert!(0.0 < three && three < two, "{three} s, and {two} s with HTTP/2");
}

/// The style sheets share the connection with the document and the fonts only if responses have
/// priorities; otherwise with all 71 objects.
#[test]
fn urgent_streams_are_first() {
    let first = |priorities: bool| {
        let app = format!(", depth = 1, sizes = \"constant\", priorities = {priorities}");
        mean(&metrics(&page(LINK, QUIC, &app), 1), "first_object_s")
    };
    assert!(first(true) < 0.8 * first(false));
}

/// An outage longer than the idle timeout ends a page over QUIC. The next one is loaded.
#[test]
fn a_page_fails_with_its_connection() {
    let link = format!("{LINK}\nerrors = {{ kind = \"on-off\", up = \"2 s\", down = \"3 s\" }}");
    let quic = "\"quic\", idle_timeout = \"1 s\"";
    let row = metrics(&page(&link, quic, ", pages = 5"), 1).remove(0);
    assert!(row["pages_failed"] >= 1.0 && row["pages_loaded"] >= 1.0, "{row:?}");
    assert_eq!(row["pages_failed"] + row["pages_loaded"], 5.0);
}

/// HTTP/3 needs QUIC, the others TCP with data in both directions.
#[test]
fn versions_need_their_transport() {
    let cases = [
        (TCP, ", http = \"3\"", "flow.f.app.http: found \"3\" over tcp"),
        (QUIC, ", http = \"1.1\"", "flow.f.app.http: found \"1.1\" over quic"),
        ("\"udp\"", "", "flow.f.app.kind"),
        ("\"tcp\", variant = \"sack\", profile = \"ns-2\"", "", "flow.f.app.kind"),
    ];
    for (transport, app, expected) in cases {
        let error = points(&page(LINK, transport, app)).expect_err("an error");
        assert!(error.contains(expected), "{error}");
    }
}
