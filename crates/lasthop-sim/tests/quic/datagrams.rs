//! DATAGRAM frames: loss, delay and sizes.

use super::{LINK, metrics, near};
use lasthop_sim::scenario::Scenario;
use std::path::Path;

/// A media flow with a packet each 20 ms.
fn media(link: &str, transport: &str, keys: &str) -> String {
    format!(
        r#"
        name = "media"
        [link.air]
        between = ["a", "b"]
        {link}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = {transport} }}
        app = {{ kind = "media", packet = "200 B", silence = "0 s" {keys} }}
        [run]
        duration = "100 s"
        "#
    )
}

/// DATAGRAM frames (RFC 9221) are not retransmitted: their loss is that of UDP and of the link, and
/// their delay without losses that of UDP and of the additional headers.
#[test]
fn datagrams_are_lost_and_delayed_like_those_of_udp() {
    let rate = ", rate = \"80 kbps\"";
    let slow = "rate = \"1 Mbps\"\ndelay = \"20 ms\"\nqueue = \"100 kB\"";
    let run = |link: &str, transport: &str| metrics(&media(link, transport, rate), 3, 1);
    let lossy = format!("{slow}\nerrors = {{ kind = \"uniform\", loss = \"5 %\" }}");
    for row in run(&lossy, "\"quic\"") {
        // 5000 packets: a standard error of 0.3 %. The test allows four.
        near(row["flow.f.residual_loss"], 0.05, 0.0125);
        assert!(row["flow.f.packets_lost"] > 100.0, "{row:?}");
    }
    let [quic, udp] = ["\"quic\"", "\"udp\""].map(|transport| run(slow, transport).remove(0));
    assert_eq!([quic["flow.f.residual_loss"], udp["flow.f.residual_loss"]], [0.0, 0.0]);
    assert_eq!(quic["flow.f.packets_sent"], udp["flow.f.packets_sent"]);
    // Flags, connection ID, packet number, tag, frame type and length: 27 to 31 B at 1 Mbps.
    let more = quic["flow.f.delay_p50_s"] - udp["flow.f.delay_p50_s"];
    assert!((27.0 * 8e-6..=31.0 * 8e-6 + 5e-6).contains(&more), "{more}");
    // The first packets wait for the handshake of one RTT.
    assert!(quic["flow.f.delay_mean_s"] > quic["flow.f.delay_p50_s"]);
    assert!(!udp.contains_key("flow.f.handshake_s") && quic["flow.f.handshake_s"] > 0.04);
}

/// A link slower than the source: UDP loses packets in the queue, QUIC delays them at the sender
/// and drops the oldest beyond its buffer.
#[test]
fn a_closed_window_delays_datagrams() {
    let slow = "rate = \"64 kbps\"\ndelay = \"20 ms\"\nqueue = \"2 kB\"";
    let run =
        |transport: &str| metrics(&media(slow, transport, ", rate = \"128 kbps\""), 1, 1).remove(0);
    let [quic, udp] = ["\"quic\", datagram_buffer = \"100 kB\"", "\"udp\""].map(run);
    assert!(udp["flow.f.delay_p95_s"] < 0.4, "{udp:?}");
    // 100 kB at 64 kbps take more than 10 s.
    assert!((5.0..20.0).contains(&quic["flow.f.delay_p95_s"]), "{quic:?}");
    for row in [&quic, &udp] {
        assert!(row["flow.f.residual_loss"] > 0.3, "{row:?}");
    }
}

/// Packets must have room for number and time, and fit into a DATAGRAM frame.
#[test]
fn sizes_of_datagrams_are_checked() {
    let message = |packet: &str| {
        let text = media(LINK, "\"quic\"", ", rate = \"80 kbps\"").replace("200 B", packet);
        let document = Scenario::from_toml(&text, Path::new("."));
        document.and_then(|document| document.points()).map_err(|error| error.to_string())
    };
    for (packet, is_valid) in [("43 B", false), ("44 B", true), ("1462 B", true), ("1463 B", false)]
    {
        let result = message(packet).map(|_| ());
        assert_eq!(result.is_ok(), is_valid, "{packet}: {result:?}");
        let text = result.err().unwrap_or_default();
        assert!(is_valid || text.contains("app.packet: found"), "{text}");
    }
    // The largest one arrives.
    let text = media(LINK, "\"quic\"", ", rate = \"80 kbps\"").replace("200 B", "1462 B");
    assert_eq!(metrics(&text, 1, 1)[0]["flow.f.residual_loss"], 0.0);
}
