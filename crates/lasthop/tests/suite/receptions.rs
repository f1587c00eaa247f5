//! Packets received with errors and a readable header: their receivers, and unchanged results for
//! all others.

use crate::scenarios::{Metrics, metrics, read, scenario};
use lasthop::run;
use std::sync::atomic::AtomicBool;

/// Speech and a file over a wireless link with these errors.
fn cell(errors: &str, transport: &str, protocol: &str) -> String {
    format!(
        r#"
        name = "cell"
        [link.wireless]
        between = ["base", "mobile"]
        rate = "256 kbps"
        delay = "20 ms"
        protocol = "{protocol}"
        errors = {{ {errors} }}
        [flow.speech]
        from = "base"
        to = "mobile"
        transport = {{ kind = "{transport}" }}
        app = {{ kind = "media", rate = "64 kbps", packet = "250 B", silence = "0 s" }}
        [flow.file]
        from = "base"
        to = "mobile"
        transport = {{ kind = "tcp", variant = "sack", profile = "rfc", segment = "250 B" }}
        app = {{ kind = "file", size = "300 kB" }}
        [run]
        duration = "60 s"
        "#
    )
}

/// Returns the sum of a metric over all replications.
fn sum(rows: &[Metrics], name: &str) -> f64 {
    rows.iter().map(|row| row[name]).sum()
}

/// Checks that all common metrics, except those of `left_out`, have identical bits.
fn assert_same(one: &[Metrics], other: &[Metrics], left_out: &str) {
    for (one, other) in one.iter().zip(other) {
        for (name, value) in one.iter().filter(|(name, _)| !name.starts_with(left_out)) {
            assert_eq!(value.to_bits(), other[name].to_bits(), "{name}");
        }
    }
}

const BITS: &str = r#"kind = "bit", ber = 1e-4"#;
const BITS_WITH_HEADERS: &str = r#"kind = "bit", ber = 1e-4, header = "40 B""#;

#[test]
fn nothing_changes_where_nobody_reads_headers() {
    // If an endpoint drives the link instead of a computation, the lost frames and all results are
    // identical. ARQ retransmits frames with errors like lost frames.
    for protocol in ["raw", "selective-repeat", "rlc-am"] {
        for (plain, headed) in [
            (BITS, BITS_WITH_HEADERS),
            (
                r#"kind = "uniform", loss = "5 %""#,
                r#"kind = "uniform", loss = "5 %", readable_headers = "50 %""#,
            ),
        ] {
            let [plain, headed] = [plain, headed]
                .map(|errors| metrics(&scenario(&cell(errors, "udp", protocol)), 2, 3));
            assert!(sum(&plain, "link.wireless.forward.frames_lost") > 0.0);
            assert_same(&plain, &headed, "none");
            assert!(sum(&headed, "link.wireless.forward.headers_readable") > 0.0);
        }
    }
}

#[test]
fn udp_lite_delivers_what_is_damaged_behind_the_header() {
    let seed = 3;
    let rows = ["udp", "udp-lite"]
        .map(|kind| metrics(&scenario(&cell(BITS_WITH_HEADERS, kind, "raw")), 4, seed));
    let [plain, lite] = &rows;
    // TCP ignores such packets.
    assert_same(plain, lite, "flow.speech");
    let [sent, damaged] =
        ["flow.speech.packets_sent", "flow.speech.packets_damaged"].map(|name| sum(lite, name));
    let gained =
        sum(lite, "flow.speech.packets_delivered") - sum(plain, "flow.speech.packets_delivered");
    assert_eq!(gained, damaged);
    // Independent bit errors, 2000 bits of which 320 must be correct: 4.5 standard deviations,
    // false-positive rate below 1e-5. At most a few packets are in transit at the end.
    let survival = |bits: f64| (1.0f64 - 1e-4).powf(bits);
    let p = survival(320.0) - survival(2000.0);
    assert!(
        (damaged - sent * p).abs() < 4.5 * (sent * p * (1.0 - p)).sqrt() + 4.0,
        "{damaged} of {sent}"
    );
    let residual = sum(lite, "flow.speech.residual_loss") / 4.0;
    let lost = 1.0 - survival(320.0);
    assert!(
        (residual - lost).abs() < 4.5 * (lost * (1.0 - lost) / sent).sqrt() + 1e-3,
        "{residual}"
    );
}

#[test]
fn observation_changes_nothing() {
    let scenario = scenario(&cell(BITS_WITH_HEADERS, "udp-lite", "raw"));
    let plain = metrics(&scenario, 1, 3).remove(0);
    let traced = run::trace(&scenario, 3, 0, &AtomicBool::new(false)).expect("a trace");
    for (name, value) in traced.metrics {
        assert_eq!(value.to_bits(), plain[&name].to_bits(), "{name}");
    }
}

/// Frame by frame: of ten datagrams the third is lost and the fifth damaged.
#[test]
fn listed_frames_leave_their_header() {
    let text = cell(r#"kind = "listed", lose = [3, 5], readable_headers = [5]"#, "udp-lite", "raw");
    let (before, file) = text.split_once("[flow.file]").expect("a file");
    let (_, run) = file.split_once("[run]").expect("a run");
    let text = format!("{before}[run]{run}").replace("60 s", "320 ms");
    let row = metrics(&scenario(&text), 1, 1).remove(0);
    // One packet every 31.25 ms, the first after that time; 7.8125 ms transmission time, 20 ms
    // delay: ten are sent, the last of which is in transit.
    assert_eq!(row["flow.speech.packets_sent"], 10.0);
    assert_eq!(row["flow.speech.packets_delivered"], 8.0);
    assert_eq!(row["flow.speech.packets_damaged"], 1.0);
    assert_eq!(row["link.wireless.forward.headers_readable"], 1.0);
    assert_eq!(row["link.wireless.forward.frames_lost"], 2.0);
}

/// A forwarding host drops packets with errors.
#[test]
fn a_damaged_packet_goes_no_further_than_its_link() {
    let text = cell(BITS_WITH_HEADERS, "udp-lite", "raw").replace("\"mobile\"", "\"router\"");
    let text = text.replace("to = \"router\"", "to = \"far\"")
        + "[link.wired]\nbetween = [\"router\", \"far\"]\nrate = \"10 Mbps\"\ndelay = \"1 ms\"\n";
    let row = metrics(&scenario(&text), 1, 3).remove(0);
    assert!(row["link.wireless.forward.headers_readable"] > 0.0);
    assert_eq!(row["flow.speech.packets_damaged"], 0.0);
}

const RADIO: &str = r#"
        name = "radio"
        [radio.cell]
        base = "base"
        stations = ["one", "two"]
        slot = "100 B"
        errors = { kind = "uniform", loss = "20 %", readable_headers = "50 %" }
        [flow.one]
        from = "base"
        to = "one"
        transport = { kind = "udp-lite" }
        app = { kind = "on-off", rate = "80 kbps", packet = "100 B", on = "10 s", off = "0 s" }
        [flow.two]
        from = "base"
        to = "two"
        transport = { kind = "udp" }
        app = { kind = "on-off", rate = "80 kbps", packet = "100 B", on = "10 s", off = "0 s" }
        [run]
        duration = "100 s"
    "#;

/// Slots filled in advance count if they have begun at the end of the run.
#[test]
fn observation_changes_nothing_on_a_radio() {
    let text =
        RADIO.replace("100 s", "1005 ms").replace("80 kbps", "2 Mbps").replace("50 %", "100 %");
    let scenario = scenario(&text);
    let plain = metrics(&scenario, 1, 3).remove(0);
    let traced = run::trace(&scenario, 3, 0, &AtomicBool::new(false)).expect("a trace");
    for (name, value) in traced.metrics {
        assert_eq!(value.to_bits(), plain[&name].to_bits(), "{name}");
    }
    assert!(plain["flow.one.packets_damaged"] > 10.0);
    let entity = "link.cell.one.reverse";
    let [readable, lost] =
        ["headers_readable", "frames_lost"].map(|name| plain[&format!("{entity}.{name}")]);
    assert_eq!(readable, lost);
}

/// On a radio, the slots of a station carry whole packets.
#[test]
fn stations_of_a_radio_get_damaged_packets_too() {
    let row = metrics(&scenario(RADIO), 1, 3).remove(0);
    // 10 000 packets: 5 standard deviations, false-positive rate below 1e-6; some are in transit.
    for (flow, loss) in [("one", 0.1), ("two", 0.2)] {
        let [sent, delivered] =
            ["sent", "delivered"].map(|what| row[&format!("flow.{flow}.packets_{what}")]);
        let deviation = (sent * loss * (1.0 - loss)).sqrt();
        assert!(
            (sent - delivered - sent * loss).abs() < 5.0 * deviation + 5.0,
            "{flow}: {delivered}"
        );
    }
    assert_eq!(row["flow.one.packets_damaged"], row["link.cell.one.reverse.headers_readable"]);
    assert!(!row.contains_key("flow.two.packets_damaged"));
}

#[test]
fn what_cannot_be_is_refused() {
    let headed = cell(BITS_WITH_HEADERS, "udp-lite", "raw");
    let unlimited = headed.replace("256 kbps", "unlimited");
    let error = read(&unlimited).expect_err("a computed link cannot leave headers");
    assert!(error.contains("link.wireless.rate"), "{error}");
    let zero = headed.replace("40 B", "0 B");
    assert!(read(&zero).expect_err("no header").contains("errors.header"));
    let listed = cell(r#"kind = "listed", lose = [3], readable_headers = [5]"#, "udp", "raw");
    assert!(read(&listed).expect_err("5 is not lost").contains("errors.readable_headers"));
}
