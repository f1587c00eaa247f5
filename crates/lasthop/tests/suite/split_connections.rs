//! Split connections in the simulator: the gain of a proxy before a satellite link, and invariants.

use crate::scenarios::{self, Metrics, read, scenario};

const PROXY: &str = r#"agent = { kind = "split-connection", at = "gateway" }"#;
/// Hybla over the link, which compensates for its RTT, from an initial window of ten segments.
const HYBLA: &str = r#"agent = { kind = "split-connection", at = "gateway", buffer = "1 MB", variant = "hybla", initial_window = "10 segments" }"#;
const SACK: &str = r#"kind = "tcp", variant = "sack", profile = "rfc", segment = "1460 B", receive_window = "1000 segments""#;
const FILE: &str = r#"{ kind = "file", size = "1 MB" }"#;

/// A terrestrial link of 20 ms and a satellite link of 250 ms that loses packets, both ways.
fn satellite(agent: &str, transport: &str, app: &str, [from, to]: [&str; 2], loss: &str) -> String {
    let end = if app.contains("web") { "duration = \"200 s\"" } else { "max_time = \"2000 s\"" };
    format!(
        r#"
        name = "satellite"
        [link.terrestrial]
        between = ["server", "gateway"]
        rate = "100 Mbps"
        delay = "20 ms"
        queue = "1000 packets"
        [link.satellite]
        between = ["gateway", "terminal"]
        rate = "4 Mbps"
        delay = "250 ms"
        queue = "300 packets"
        errors = {{ kind = "uniform", loss = "{loss}" }}
        {agent}
        [flow.f]
        from = "{from}"
        to = "{to}"
        transport = {{ {transport} }}
        app = {app}
        [run]
        {end}
        "#
    )
}

fn metrics(agent: &str, transport: &str, app: &str, ends: [&str; 2], loss: &str) -> Vec<Metrics> {
    scenarios::metrics(&scenario(&satellite(agent, transport, app, ends, loss)), 3, 1)
}

const DOWN: [&str; 2] = ["server", "terminal"];
const UP: [&str; 2] = ["terminal", "server"];

/// With 1 % loss in each direction and an RTT of 540 ms, SACK's window is about sqrt(3 / (2 * 2 *
/// 0.01)) = 8.7 segments (the square-root formula with delayed ACKs): 190 kbps of the 4 Mbps, 43 s
/// for 1 MB. A proxy alone reduces the relevant RTT by 40 ms. With a TCP that compensates for the
/// RTT (Hybla: 20 times the window), the limit is the link in the long run, 2 s, and slow start and
/// loss recovery in a transfer as short as this: at least twice as fast. Each transfer is complete
/// only when it has arrived.
#[test]
fn a_proxy_gains_over_a_satellite_link_with_loss() {
    for ends in [DOWN, UP] {
        let seconds = |agent: &str| {
            let rows = metrics(agent, SACK, FILE, ends, "1 %");
            for row in &rows {
                assert_eq!(row["flow.f.complete"], 1.0, "{agent}");
                if agent.is_empty() {
                    continue;
                }
                let of = |name: &str| row[&format!("agent.satellite.{name}")];
                // Data that has arrived and whose ACK is in transit counts as unconfirmed.
                let [left, most] = ["unconfirmed_bytes", "max_unconfirmed_bytes"].map(of);
                assert_eq!(of("split_connections"), 1.0);
                assert!(left <= most && most > 0.0 && most <= 1e6, "{left} {most}");
                // The half that sends over the lossy link repairs its losses.
                assert!(ends == UP || of("link_retransmissions") > 0.0);
                assert!(row["flow.f.duration_s"] > 1e6 * 8.0 / 4e6);
            }
            rows.iter().map(|row| row["flow.f.duration_s"]).sum::<f64>() / rows.len() as f64
        };
        let [end_to_end, split, hybla] = ["", PROXY, HYBLA].map(seconds);
        assert!(split < end_to_end, "{ends:?}: {split} s, {end_to_end} s");
        assert!(ends == UP || hybla < end_to_end / 2.0, "{hybla} s, {end_to_end} s");
    }
}

/// Without losses and with sufficient buffers, a proxy changes only the ACKs: the same bytes are
/// delivered, without duplicates.
#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    for (ends, variant) in [(DOWN, "sack"), (DOWN, "reno"), (UP, "cubic")] {
        let transport = format!(r#"kind = "tcp", variant = "{variant}", profile = "rfc""#);
        let row = metrics(PROXY, &transport, FILE, ends, "0 %").remove(0);
        assert_eq!(row["flow.f.complete"], 1.0);
        for name in ["link_retransmissions", "end_retransmissions", "link_timeouts", "end_timeouts"]
        {
            assert_eq!(row[&format!("agent.satellite.{name}")], 0.0, "{variant}: {name}");
        }
        assert_eq!(row["flow.f.retransmissions"], 0.0);
    }
}

/// Browsers with consecutive connections, through one proxy and through one at each end of the
/// link: as many replies.
#[test]
fn browsers_get_their_replies_through_one_proxy_and_two() {
    let web = r#"{ kind = "web" }"#;
    let both = r#"agent = [{ kind = "split-connection", at = "gateway", buffer = "1 MB", variant = "hybla" },
        { kind = "split-connection", at = "relay", buffer = "1 MB" }]"#;
    for profile in ["rfc", "linux"] {
        let transport = format!(r#"kind = "tcp", variant = "cubic", profile = "{profile}""#);
        let replies = |agent: &str| {
            let text = satellite(agent, &transport, web, ["user", "server"], "1 %");
            // The terminal's side has a further short link.
            let text = text.replace("\"terminal\"", "\"relay\"")
                + "[link.house]\nbetween = [\"relay\", \"user\"]\nrate = \"10 Mbps\"\ndelay = \"1 ms\"\n";
            let rows = scenarios::metrics(&scenario(&text), 3, 1);
            rows.iter().map(|row| row["flow.f.delivered_bytes"]).sum::<f64>()
        };
        let [none, one, two] = ["", PROXY, both].map(replies);
        assert!(none > 0.0 && one > 0.9 * none && two > 0.9 * none, "{none} {one} {two}");
    }
}

/// The run ends while most of the file waits at the proxy: the delivered data has crossed the link
/// of 4 Mbps.
#[test]
fn bytes_that_wait_at_the_proxy_are_not_delivered() {
    let text = satellite(HYBLA, SACK, r#"{ kind = "file", size = "50 MB" }"#, DOWN, "0 %");
    let text = text.replace("max_time = \"2000 s\"", "duration = \"1 s\"");
    let rows = scenarios::metrics(&scenario(&text), 1, 1);
    let delivered = rows[0]["flow.f.delivered_bytes"];
    assert!(delivered > 0.0 && delivered * 8.0 <= 4e6 * (1.0 - 0.27), "{delivered}");
    assert!(rows[0]["agent.satellite.unconfirmed_bytes"] > 5.0 * delivered);
}

#[test]
fn flows_that_cannot_be_split_are_refused() {
    for (agent, transport, error) in [
        (PROXY, r#"kind = "tcp", variant = "reno", profile = "ns-2""#, "link.satellite.agent.kind"),
        (
            PROXY,
            r#"kind = "tcp", variant = "lt-tcp", profile = "rfc""#,
            "link.satellite.agent.kind",
        ),
        (HYBLA, SACK, ""),
        (
            &HYBLA.replace("hybla", "sack"),
            r#"kind = "tcp", variant = "reno", profile = "rfc""#,
            "link.satellite.agent.variant",
        ),
        (&HYBLA.replace("1 MB", "1 kB"), SACK, "link.satellite.agent.buffer"),
        (&PROXY.replace(" }", ", profile = \"linux\" }"), SACK, "link.satellite.agent.profile"),
    ] {
        let found = read(&satellite(agent, transport, FILE, DOWN, "1 %"));
        match found {
            Ok(_) => assert_eq!(error, "", "{agent} {transport}"),
            Err(message) => assert!(!error.is_empty() && message.starts_with(error), "{message}"),
        }
    }
}

/// A connection that ends at the proxy's host is not split.
#[test]
fn a_connection_that_ends_at_the_proxy_is_its_own() {
    let ends = ["gateway", "terminal"];
    let [plain, split] = ["", PROXY].map(|agent| metrics(agent, SACK, FILE, ends, "1 %"));
    for (plain, split) in plain.iter().zip(&split) {
        assert_eq!(plain["flow.f.duration_s"], split["flow.f.duration_s"]);
        assert_eq!(split["agent.satellite.split_connections"], 0.0);
    }
}
