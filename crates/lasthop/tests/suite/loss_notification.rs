//! Explicit loss notification: hand-computed traces of ESACK, and agents of a WLAN in whole runs.

use lasthop::packet::{TcpHeader, flags};
use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use lasthop::tcp::{Connection, Overrides, Profile, Role, Variant, presets};
use lasthop::units::{Duration, Instant};
use std::collections::HashMap;
use std::path::Path;

/// The sender of a transfer with segments numbered from 0, and its transmissions.
struct Sender {
    end: Connection,
    now: Instant,
}

const MSS: u32 = 1000;

fn first_byte(segment: u32) -> u32 {
    1 + segment * MSS
}

impl Sender {
    /// Creates a sender that may have `window` outstanding segments.
    fn new(variant: Variant, window: f64, filter: Option<u32>) -> Self {
        let set = Overrides {
            handshake: Some(false),
            initial_window: Some(window),
            receive_window: Some(1000.0),
            eln_filter: Some(filter),
            ..Overrides::default()
        };
        let config = presets::config(variant, Profile::Ns2, &set);
        let mut end = Connection::new(&config, Role::Opener, Duration::ZERO);
        end.write(1_000_000);
        Sender { end, now: Instant::ZERO }
    }

    /// Returns the segments sent now.
    fn sent(&mut self) -> Vec<u32> {
        let mut header = TcpHeader::default();
        let mut sent = Vec::new();
        while self.end.poll_transmit(self.now, &mut header).is_some() {
            sent.push((header.seq - 1) / MSS);
        }
        sent
    }

    fn receive(&mut self, header: TcpHeader) -> Vec<u32> {
        self.now += Duration::from_millis(1);
        self.end.receive(self.now, &header);
        self.sent()
    }

    /// Processes an ACK that requests segment `next` and reports ranges of segments, both ends
    /// included.
    fn ack(&mut self, next: u32, sacked: &[(u32, u32)]) -> Vec<u32> {
        let mut header =
            TcpHeader { ack: first_byte(next), flags: flags::ACK, ..TcpHeader::default() };
        let blocks: Vec<_> =
            sacked.iter().map(|&(from, to)| (first_byte(from), first_byte(to + 1))).collect();
        header.set_sack_blocks(&blocks);
        self.receive(header)
    }

    fn notice(&mut self, segment: u32, bit: u8) -> Vec<u32> {
        let flags = flags::ACK | bit;
        self.receive(TcpHeader { ack: first_byte(segment), flags, ..TcpHeader::default() })
    }

    fn eln(&mut self, segment: u32) -> Vec<u32> {
        self.notice(segment, flags::ELN)
    }

    fn cuts(&self) -> u64 {
        self.end.counters().window_cuts
    }
}

/// Segment 0 is lost on the link, and its sender is notified before the first duplicate ACK.
#[test]
fn a_notified_loss_is_sent_again_and_cuts_nothing() {
    let mut sender = Sender::new(Variant::Esack, 6.0, Some(2));
    assert_eq!(sender.sent(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(sender.eln(0), [0]);
    // Each arrival allows one more segment to be sent: the ACK clock continues.
    assert_eq!(sender.ack(0, &[(1, 1)]), [6]);
    assert_eq!(sender.ack(0, &[(1, 2)]), [7]);
    assert_eq!(sender.ack(0, &[(1, 3)]), [8]);
    assert_eq!(sender.ack(0, &[(1, 4)]), [9]);
    assert_eq!(sender.ack(0, &[(1, 5)]), [10]);
    assert_eq!(sender.ack(6, &[]), [11, 12], "slow start continues");
    assert_eq!((sender.cuts(), sender.end.counters().retransmissions), (0, 1));
    assert_eq!(sender.end.counters().explicit_losses, 1);
    assert_eq!(sender.end.sender().congestion_window(), 7.0);
}

/// In addition, segment 2 is lost to congestion: one reduction, at the third duplicate that
/// indicates it, and segment 0 is not sent a third time.
#[test]
fn congestion_is_seen_behind_a_notified_loss() {
    let mut sender = Sender::new(Variant::Esack, 6.0, Some(2));
    sender.sent();
    assert_eq!(sender.eln(0), [0]);
    assert_eq!(sender.ack(0, &[(1, 1)]), [6]);
    sender.ack(0, &[(3, 3), (1, 1)]);
    sender.ack(0, &[(3, 4), (1, 1)]);
    assert_eq!(sender.cuts(), 0);
    assert_eq!(sender.ack(0, &[(3, 5), (1, 1)]), [2]);
    assert_eq!(sender.cuts(), 1);
    sender.ack(2, &[(3, 5)]);
    sender.ack(2, &[(3, 6)]);
    sender.ack(8, &[]);
    assert_eq!((sender.cuts(), sender.end.counters().retransmissions), (1, 2));
}

/// Three segments of a window are lost to congestion, as in figure 4: one reduction, whereas a
/// packet list has three.
#[test]
fn three_losses_of_a_window_are_one_cut() {
    let mut sender = Sender::new(Variant::Esack, 6.0, Some(2));
    sender.sent();
    sender.ack(0, &[(1, 1)]);
    sender.ack(0, &[(3, 3), (1, 1)]);
    assert_eq!(sender.cuts(), 0);
    assert_eq!(sender.ack(0, &[(5, 5), (3, 3), (1, 1)]), [0]);
    let mut again = vec![];
    for newest in 6..10 {
        again.extend(sender.ack(0, &[(5, newest), (3, 3), (1, 1)]));
    }
    assert!(again.starts_with(&[2, 4]), "{again:?}");
    assert_eq!(sender.cuts(), 1);
}

/// A lost and notified retransmission is retransmitted again; acknowledged segments are not.
#[test]
fn each_notified_loss_is_answered_once() {
    let mut sender = Sender::new(Variant::Esack, 4.0, None);
    sender.sent();
    assert_eq!(sender.eln(1), [1]);
    assert_eq!(sender.eln(1), [1]);
    // One segment in the network, and a window of 5.
    assert_eq!(sender.ack(1, &[(2, 3)]).len(), 4);
    assert_eq!(sender.eln(2), [0; 0], "it has arrived");
    assert_eq!(sender.eln(0), [0; 0], "it is acknowledged");
    assert_eq!(sender.eln(90), [0; 0], "it was never sent");
    assert_eq!(sender.cuts(), 0);
}

/// Above N consecutive losses, only every second one triggers a retransmission. New data
/// acknowledged ends the filter, and omitted segments are retransmitted.
#[test]
fn losses_in_a_row_are_filtered() {
    let mut sender = Sender::new(Variant::Esack, 8.0, Some(2));
    sender.sent();
    let answers: Vec<_> = (0..8).map(|segment| sender.eln(segment).len()).collect();
    assert_eq!(answers, [1, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(sender.ack(1, &[])[..3], [2, 4, 6]);
    assert_eq!(sender.eln(2), [2], "a new row begins");
    assert_eq!(sender.cuts(), 0);
    let mut sender = Sender::new(Variant::Esack, 8.0, None);
    sender.sent();
    assert!((0..8).all(|segment| sender.eln(segment) == [segment]));
}

/// The timer of a segment that a link retransmits does not expire; that of another segment does.
#[test]
fn a_started_retransmission_holds_the_timer() {
    for (segment, timeouts) in [(0, 0), (1, 1)] {
        let mut sender = Sender::new(Variant::Esack, 2.0, Some(2));
        sender.sent();
        sender.now = sender.end.next_timeout();
        sender.now = Instant::from_nanos(sender.now.as_nanos() - 10_000_000);
        assert_eq!(sender.notice(segment, flags::ERSN), [0; 0]);
        sender.now = sender.end.next_timeout();
        sender.end.handle_timeout(sender.now);
        let counters = sender.end.counters();
        assert_eq!((counters.timeouts, counters.timeouts_held), (timeouts, 1 - timeouts));
        assert!(sender.end.next_timeout() > sender.now);
    }
}

/// Senders without support for notifications do not treat them as ACKs.
#[test]
fn other_senders_ignore_notices() {
    for &variant in Variant::ALL {
        let mut sender = Sender::new(variant, 4.0, None);
        if sender.end.config().knows_notices() {
            continue;
        }
        sender.sent();
        let una = sender.end.acked_bytes();
        assert_eq!(sender.eln(2), [0; 0], "{variant:?}");
        assert_eq!(sender.notice(3, flags::ERSN), [0; 0], "{variant:?}");
        assert_eq!(sender.end.acked_bytes(), una, "{variant:?}");
    }
}

fn metrics(text: &str) -> HashMap<String, f64> {
    let document = Scenario::from_toml(text, Path::new(".")).unwrap_or_else(|e| panic!("{e}"));
    let points: Vec<_> = document.points().unwrap().into_iter().map(|one| one.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 3, jobs: 1 };
    let mut results = run::run(&points, &options, &mut |_| true).expect("a run");
    let values = results.rows.remove(0).values;
    results.metrics.into_iter().zip(values).collect()
}

/// Results are identical in every bit, for losses by congestion or on a link without notifications.
#[test]
fn without_notices_esack_is_sack() {
    let mut losses = 0.0;
    for (profile, errors, queue) in [
        ("ns-2", "none", 10),
        ("ns-2", "none", 50),
        ("ns-2", "{ kind = \"uniform\", loss = \"2 %\" }", 50),
        ("ns-2", "{ kind = \"uniform\", loss = \"12 %\" }", 20),
        ("rfc", "{ kind = \"uniform\", loss = \"3 %\" }", 15),
    ] {
        let run = |variant: &str| {
            let errors = if errors == "none" { "\"none\"" } else { errors };
            metrics(&format!(
                r#"
                name = "bottleneck"
                [link.l]
                between = ["a", "b"]
                rate = "2 Mbps"
                delay = "30 ms"
                queue = "{queue} packets"
                errors = {errors}
                [flow.f]
                from = "a"
                to = "b"
                transport = {{ kind = "tcp", profile = "{profile}", receive_window = "500 segments", {variant} }}
                app = {{ kind = "file", size = "4 MB" }}
                "#
            ))
        };
        let sack = run("variant = \"sack\", sack_recovery = \"ns-2\"");
        let esack = run("variant = \"esack\"");
        losses += sack["flow.f.retransmissions"];
        for (name, value) in &sack {
            assert!(value.to_bits() == esack[name].to_bits(), "{name}: {value} {}", esack[name]);
        }
        assert_eq!(esack["flow.f.explicit_losses"], 0.0);
    }
    assert!(losses > 300.0, "{losses}");
}

/// A long transfer over an 802.11b cell in ns-2's arithmetic that discards frames after one
/// attempt: full-sized frames are lost with `percent` probability, shorter ones with a lower one.
/// `is_up`: from the station.
fn transfer(
    variant: &str,
    agent: &str,
    percent: f64,
    is_up: bool,
    limit: u32,
) -> HashMap<String, f64> {
    let ber = 1.0 - (1.0 - percent / 100.0_f64).powf(1.0 / (8.0 * 1068.0));
    let (from, to) = if is_up { ("client", "server") } else { ("server", "client") };
    let errors = if percent > 0.0 {
        format!("{{ kind = \"bit\", ber = {ber} }}")
    } else {
        "\"none\"".to_owned()
    };
    metrics(&format!(
        r#"
        name = "cell"
        [wlan.cell]
        access_point = "ap"
        stations = ["client"]
        header = "28 B"
        rate = "11 Mbps"
        control_rate = "11 Mbps"
        short_retry_limit = {limit}
        errors = {errors}
        {agent}
        [link.wire]
        between = ["server", "ap"]
        rate = "10 Mbps"
        delay = "10 ms"
        [flow.f]
        from = "{from}"
        to = "{to}"
        transport = {{ kind = "tcp", profile = "ns-2", segment = "1000 B", header = "40 B", receive_window = "1000 segments", min_rto = "200 ms", {variant} }}
        app = {{ kind = "file", size = "1 GB" }}
        [run]
        duration = "60 s"
        "#
    ))
}

const RENO: &str = "variant = \"reno\"";
const ESACK: &str = "variant = \"esack\"";
const AT_AP: &str = "agent = { kind = \"ll-elsn\", at = \"ap\" }";
const AT_CLIENT: &str = "agent = { kind = \"ll-elsn\", at = \"client\" }";

/// Each discarded frame causes an ELN and no reduction; the throughput is limited by the wired path
/// and the wireless link.
#[test]
fn notified_losses_do_not_slow_a_transfer() {
    for is_up in [false, true] {
        let agent = if is_up { AT_CLIENT } else { AT_AP };
        let side = if is_up { "forward" } else { "reverse" };
        let reno = transfer(RENO, "", 5.0, is_up, 1);
        let notified = transfer(ESACK, agent, 5.0, is_up, 1);
        let [slow, fast] = [&reno, &notified].map(|run| run["flow.f.goodput_bps"]);
        assert!(fast > 3.0 * slow && fast > 2.5e6, "up {is_up}: {fast} {slow}");
        let lost = notified[&format!("link.cell.client.{side}.abandoned")];
        assert_eq!(notified["agent.cell.client.eln_sent"], lost);
        assert_eq!(notified["agent.cell.client.ersn_sent"], 0.0, "no segment is retransmitted");
        // Some notifications are in transit at the end of the run, or false: the acknowledgment of
        // the MAC was lost.
        let known = notified["flow.f.explicit_losses"];
        assert!(known > 0.9 * lost && known <= lost, "{known} {lost}");
        assert!(notified["flow.f.timeouts"] <= 3.0, "{}", notified["flow.f.timeouts"]);
    }
}

#[test]
fn retransmissions_of_the_link_are_notified_once() {
    let notified = transfer(ESACK, AT_AP, 9.0, false, 4);
    let first_failures = notified["agent.cell.client.ersn_sent"];
    let retries = notified["link.cell.client.reverse.retries"];
    assert!(first_failures > 0.8 * retries && first_failures < retries, "{first_failures}");
    let abandoned = notified["link.cell.client.reverse.abandoned"];
    assert_eq!(notified["agent.cell.client.eln_sent"], abandoned);
}

/// Notifications that the sender ignores change only the load of the wired path, which has spare
/// capacity: equal goodput.
#[test]
fn notices_to_a_deaf_sender_change_little() {
    let [alone, notified] = ["", AT_AP].map(|agent| transfer(RENO, agent, 1.0, false, 1));
    let name = "flow.f.goodput_bps";
    assert!((alone[name] / notified[name] - 1.0).abs() < 0.1, "{} {}", alone[name], notified[name]);
}

#[test]
fn snoop_and_balakrishnan_work_over_a_wlan() {
    let plain = transfer("variant = \"newreno\"", "", 3.0, false, 1);
    let agent = "agent = { kind = \"snoop\", at = \"ap\" }";
    let snoop = transfer("variant = \"newreno\"", agent, 3.0, false, 1);
    assert!(snoop["agent.cell.client.local_retransmissions"] > 100.0);
    assert!(snoop["flow.f.goodput_bps"] > 1.5 * plain["flow.f.goodput_bps"]);
    for is_up in [false, true] {
        let agent = "agent = { kind = \"balakrishnan-eln\", at = \"ap\" }";
        let unaware = transfer(RENO, agent, 3.0, is_up, 1);
        let marks = unaware["agent.cell.client.marked_acks"];
        assert!(marks > 100.0, "up {is_up}: {marks}");
        let marked = transfer("variant = \"balakrishnan-eln\"", agent, 3.0, is_up, 1);
        let [slow, fast] = [&unaware, &marked].map(|run| run["flow.f.goodput_bps"]);
        assert!(fast > 1.2 * slow, "up {is_up}: {fast} {slow}");
    }
}

/// LL-ELSN inspects no packets, so that its place among the agents of a link does not matter.
#[test]
fn the_place_of_ll_elsn_among_agents_does_not_matter() {
    let agents = ["ll-elsn", "snoop"].map(|kind| format!("{{ kind = \"{kind}\", at = \"ap\" }}"));
    let [first, last] = [[0, 1], [1, 0]].map(|order| {
        let agents = order.map(|place: usize| agents[place].as_str()).join(", ");
        let run = transfer("variant = \"newreno\"", &format!("agent = [{agents}]"), 3.0, false, 1);
        // Agents are numbered in the order of the list.
        let metrics = run.into_iter().map(|(name, value)| {
            let name = name.replace("client.1.", "client.").replace("client.2.", "client.");
            (name, value)
        });
        let mut metrics: Vec<_> = metrics.collect();
        metrics.retain(|(_, value)| !value.is_nan());
        metrics.sort_by(|left, right| left.0.cmp(&right.0));
        metrics
    });
    assert_eq!(first, last);
    for counter in ["local_retransmissions", "eln_sent"] {
        let found = first.iter().find(|(name, _)| name.ends_with(counter));
        assert!(found.is_some_and(|&(_, count)| count > 100.0), "{counter}: {found:?}");
    }
}

#[test]
fn an_agent_that_needs_reports_is_refused_elsewhere() {
    let text = r#"
        name = "t"
        [link.air]
        between = ["ap", "client"]
        rate = "1 Mbps"
        delay = "5 ms"
        agent = { kind = "ll-elsn", at = "ap" }
        [flow.f]
        from = "ap"
        to = "client"
        transport = { kind = "tcp", variant = "esack", profile = "rfc" }
        app = { kind = "file", size = "20 kB" }
    "#;
    let error = Scenario::from_toml(text, Path::new(".")).unwrap_err().to_string();
    assert!(error.starts_with("link.air.agent.kind: found \"ll-elsn\""), "{error}");
    let text = text.replace("ll-elsn", "snoop").replace("\"esack\"", "\"sack\", eln_filter = 3");
    let error = Scenario::from_toml(&text, Path::new(".")).unwrap_err().to_string();
    assert!(error.starts_with("flow.f.transport.eln_filter"), "{error}");
}
