//! Links, networks, agents and applications that carry QUIC.

use super::{LINK, Metrics, file, metrics};

/// Every protocol of a link delivers the file, byte by byte.
#[test]
fn all_link_protocols_carry_quic() {
    for protocol in [
        "raw",
        "stop-and-wait",
        "go-back-n",
        "selective-repeat",
        "xor-fec",
        "rlc-am",
        "harq",
        "ideal-sr",
    ] {
        let link = format!(
            "rate = \"5 Mbps\"\ndelay = \"5 ms\"\nqueue = \"2 MB\"\nprotocol = \"{protocol}\"\n\
             errors = {{ kind = \"uniform\", loss = \"5 %\" }}"
        );
        for row in metrics(&file(&link, "", "500 kB"), 3, 1) {
            assert_eq!(row["flow.f.complete"], 1.0, "{protocol}");
            assert_eq!(row["flow.f.delivered_bytes"], 5e5, "{protocol}");
            let is_in_order = !["raw", "xor-fec", "harq"].contains(&protocol);
            assert!(!is_in_order || row["flow.f.packets_lost"] == 0.0, "{protocol} {row:?}");
        }
    }
}

/// Each request uses a new connection; counters continue, and a finished connection is not aborted.
#[test]
fn pages_over_quic() {
    let text = format!(
        r#"
        name = "pages"
        [link.air]
        between = ["server", "browser"]
        {LINK}
        errors = {{ kind = "uniform", loss = "1 %" }}
        [flow.f]
        from = "server"
        to = "browser"
        transport = {{ kind = "quic" }}
        app = {{ kind = "web" }}
        [run]
        duration = "60 s"
        "#
    );
    let row = metrics(&text, 1, 1).remove(0);
    let of = |name: &str| row[&format!("flow.f.{name}")];
    assert!(of("pages") > 50.0, "{row:?}");
    assert!(of("packets_lost") > 10.0 && of("quic_datagrams_sent") > 2_000.0, "{row:?}");
    // A lost ClientHello costs 1 s.
    assert!((0.04..0.3).contains(&of("handshake_s")), "{row:?}");
    assert_eq!(of("aborted"), 0.0);
}

/// An outage that is longer than the idle timeout aborts the connections of a browser, which then
/// requests the same objects over new connections.
#[test]
fn a_browser_continues_after_an_outage() {
    let text = r#"
        name = "outages"
        [link.air]
        between = ["server", "browser"]
        rate = "5 Mbps"
        delay = "10 ms"
        queue = "100 kB"
        errors = { kind = "on-off", up = "5 s", down = "4 s" }
        [flow.f]
        from = "server"
        to = "browser"
        transport = { kind = "quic", idle_timeout = "1 s" }
        app = { kind = "web" }
        [run]
        duration = "90 s"
        "#;
    let row = metrics(text, 1, 1).remove(0);
    let of = |name: &str| row[&format!("flow.f.{name}")];
    assert_eq!([of("aborted"), of("error_code")], [1.0, 0.0], "{row:?}");
    // The last page is complete in the last five seconds with the link up: 81 to 86 s.
    assert!(of("duration_s") > 81.0, "{row:?}");
}

/// Runs a scenario with the flow `f` over QUIC from `a` to `b` and these tables.
fn over(tables: &str, flow: &str) -> Vec<Metrics> {
    let text = format!(
        r#"
        name = "links"
        {tables}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "quic" }}
        {flow}
        "#
    );
    metrics(&text, 3, 1)
}

/// A radio, a WLAN with errors, stacked layers and services deliver the file, byte by byte. Links
/// that repair all losses in order lose no packet.
#[test]
fn radios_wlans_stacks_and_services_carry_quic() {
    let file = "app = { kind = \"file\", size = \"200 kB\" }";
    let networks = [
        (
            "radio",
            r#"[radio.cell]
            base = "b"
            stations = ["a"]
            queue = "1000 packets"
            protocol = { kind = "ideal-sr" }
            errors = { kind = "slotted-gilbert-elliott", stay_good = 0.9, stay_bad = 0.9, loss_good = 0.01, loss_bad = 0.9 }"#,
            file,
        ),
        (
            "wlan",
            r#"[wlan.cell]
            access_point = "a"
            stations = ["b", "c"]
            standard = "802.11b"
            errors = { kind = "bit", ber = 1e-5 }"#,
            file,
        ),
        (
            "stack",
            r#"[link.air]
            between = ["a", "b"]
            rate = "2 Mbps"
            delay = "20 ms"
            queue = "500 kB"
            errors = { kind = "uniform", loss = "10 %" }
            protocol = [{ kind = "selective-repeat" }, { kind = "xor-fec", block = 8, in_order = true }]"#,
            file,
        ),
        (
            "services",
            r#"[link.air]
            between = ["a", "b"]
            rate = "2 Mbps"
            delay = "20 ms"
            errors = { kind = "uniform", loss = "5 %" }
            [link.air.protocol]
            kind = "services"
            [link.air.protocol.service.bulk]
            weight = 1
            protocol = { kind = "selective-repeat" }
            queue = "500 kB""#,
            "service = \"bulk\"\napp = { kind = \"file\", size = \"200 kB\" }",
        ),
    ];
    for (name, tables, flow) in networks {
        for row in over(tables, flow) {
            assert_eq!(row["flow.f.complete"], 1.0, "{name}");
            assert_eq!(row["flow.f.delivered_bytes"], 2e5, "{name}");
            assert!(row["flow.f.packets_lost"] == 0.0 || name == "wlan", "{name}: {row:?}");
        }
    }
}

/// Agents do not read QUIC: with Snoop, and with a split connection for a flow of TCP, all values of
/// the flow over QUIC are equal.
#[test]
fn agents_leave_quic_unchanged() {
    let network = |agent: &str| {
        let tables = format!(
            r#"[link.wire]
            between = ["a", "g"]
            rate = "10 Mbps"
            delay = "10 ms"
            [link.air]
            between = ["g", "b"]
            rate = "5 Mbps"
            delay = "5 ms"
            queue = "100 kB"
            errors = {{ kind = "uniform", loss = "2 %" }}
            {agent}
            [link.other]
            between = ["g", "c"]
            rate = "5 Mbps"
            delay = "5 ms"
            [flow.tcp]
            from = "a"
            to = "b"
            start = "100 s"
            transport = {{ kind = "tcp", variant = "cubic" }}
            app = {{ kind = "file", size = "300 kB" }}"#
        );
        let rows = over(&tables, "app = { kind = \"file\", size = \"300 kB\" }");
        let own = |row: Metrics| {
            let flow = row.into_iter().filter(|(name, _)| name.starts_with("flow.f."));
            flow.map(|(name, value)| (name, value.to_bits())).collect::<Vec<_>>()
        };
        rows.into_iter().map(own).collect::<Vec<_>>()
    };
    let plain = network("");
    for kind in ["snoop", "split-connection"] {
        assert_eq!(
            network(&format!("agent = {{ kind = \"{kind}\", at = \"g\" }}")),
            plain,
            "{kind}"
        );
    }
}
