//! Handshake, loss detection and congestion control: traces of RFC 9002, and closed forms.

use super::{FAST, LINK, Metrics, events, file, losing, metrics, near, trace, value};
use std::collections::BTreeMap;

/// RFC 9002, section 6.2: without an RTT sample the probe timeout is 333 + 4 * 166.5 = 999 ms, and
/// doubles each time.
#[test]
fn a_lost_client_hello_is_sent_again_after_999_ms() {
    let clean = value(&trace(&file(FAST, "", "1 kB")), "handshake_s");
    near(clean, 0.040, 1e-4);
    for (frames, probes, after) in [("1", 2.0, 0.999), ("1, 2, 3", 4.0, 2.997)] {
        let trace = trace(&file(&losing(FAST, frames), "", "1 kB"));
        near(value(&trace, "handshake_s"), after + clean, 1e-9);
        assert_eq!(value(&trace, "probes"), probes);
    }
    // An initial RTT of 100 ms: 100 + 4 * 50.
    let own = trace(&file(&losing(FAST, "1"), ", initial_rtt = \"100 ms\"", "1 kB"));
    near(value(&own, "handshake_s"), 0.3 + clean, 1e-9);
}

#[test]
fn a_connection_without_a_path_ends_after_the_idle_timeout() {
    let lossy = format!("{FAST}\nerrors = {{ kind = \"uniform\", loss = \"100 %\" }}");
    let trace = trace(&file(&lossy, "", "30 kB"));
    let times: Vec<_> = events(&trace, "timeout").iter().map(|event| event.0).collect();
    assert_eq!(times, [999.0, 2997.0, 6993.0, 14985.0]);
    assert_eq!([value(&trace, "aborted"), value(&trace, "complete")], [1.0, 0.0]);
    assert_eq!(value(&trace, "error_code"), 0.0);
    near(value(&trace, "duration_s"), 30.0, 1e-9);
}

/// RFC 9002, section 6.1.1: a packet is lost if a packet sent three later is acknowledged. Frames 6
/// and 7 carry packets 2 and 3; the acknowledgments of 5 and 6 declare them lost, long before the
/// time threshold of 45 ms after their transmission at 40 ms.
#[test]
fn the_third_later_acknowledgment_declares_a_loss() {
    let trace = trace(&file(&losing(FAST, "6, 7"), "", "30 kB"));
    let lost = events(&trace, "packet_lost");
    assert_eq!(lost.iter().map(|event| event.1).collect::<Vec<_>>(), [2.0, 3.0]);
    let acked = |number: f64| {
        let ranges = trace.events.iter().filter(|event| {
            event.entity == "flow.f"
                && event.event == "ack_range"
                && (event.sequence..event.sequence + event.value).contains(&number)
                && event.time_ns > 80_000_000
        });
        ranges.map(|event| event.time_ns as f64 / 1e6).fold(f64::INFINITY, f64::min)
    };
    assert_eq!([lost[0].0, lost[1].0], [acked(5.0), acked(6.0)]);
    assert_eq!(value(&trace, "packets_spurious"), 0.0);
    assert_eq!(value(&trace, "retransmissions"), 2.0);
    assert_eq!(value(&trace, "spurious_retransmissions"), 0.0);
    assert_eq!(value(&trace, "window_reductions"), 1.0);
}

/// RFC 9002, section 6.1.2: packet 6 of 9 is followed by two packets only. It is lost 9/8 of the
/// RTT after its transmission: 40 + 45 ms.
#[test]
fn a_time_threshold_declares_the_loss_of_a_tail() {
    let trace = trace(&file(&losing(FAST, "10"), "", "12 kB"));
    let lost = events(&trace, "packet_lost");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].1, 6.0);
    near(lost[0].0, 40.0 + 45.0, 0.02);
    // A threshold of 2: meanwhile the acknowledgment of the last packet arrives, which the receiver
    // delays by 25 ms, and the latest RTT counts: 40 + 2 * 65 ms.
    let wide = ", packet_threshold = 1000, time_threshold = 2.0";
    let late = self::trace(&file(&losing(FAST, "10"), wide, "12 kB"));
    near(events(&late, "packet_lost")[0].0, 40.0 + 130.0, 0.02);
}

/// RFC 9002, section 6.2.1: after n samples of 40 ms the deviation is 20 (3/4)^(n - 1) ms, and the
/// probe timeout 40 + 4 * deviation + 25 ms after the last packet.
#[test]
fn the_loss_of_the_last_packet_is_probed() {
    let trace = trace(&file(&losing(FAST, "12, 13, 14"), "", "12 kB"));
    let sent = events(&trace, "packet_sent");
    let timeout = events(&trace, "timeout");
    assert_eq!(timeout.len(), 1);
    let last = sent.iter().rfind(|event| event.0 < timeout[0].0).expect("a packet").0;
    let expected = |samples: i32| 40.0 + 4.0 * 20.0 * 0.75f64.powi(samples - 1) + 25.0;
    let after = timeout[0].0 - last;
    let samples = (1..20).find(|&n| (after - expected(n)).abs() < 0.1);
    assert_eq!(samples, Some(6), "{after} ms");
    // The server probes as well: the acknowledgment of its packet 1 was lost with packet 9.
    assert_eq!([value(&trace, "probe_timeouts"), value(&trace, "complete")], [2.0, 1.0]);
}

/// RFC 9002, section 7.6: an outage of 2 s spans more than three probe timeouts, and the window
/// falls to two datagrams. An outage of 60 ms does not.
#[test]
fn persistent_congestion_leaves_two_datagrams() {
    let lowest = |down: &str| {
        let link = format!(
            "{LINK}\nerrors = {{ kind = \"on-off\", up = \"1 s\", down = \"{down}\" }}\n\
             [link.air.reverse]\nerrors = \"none\""
        );
        let trace = trace(&file(&link, "", "3 MB"));
        let own = trace.events.iter().filter(|one| one.entity == "flow.f" && one.event == "cwnd");
        own.map(|event| event.value).fold(f64::INFINITY, f64::min)
    };
    assert_eq!(lowest("2 s"), 2.0);
    assert!(lowest("60 ms") > 2.0);
}

/// RFC 9000, section 8.1: before the address of the client is validated, the server sends at most
/// three times the bytes received, and a full datagram more in this stack. Certificates beyond that
/// cost a round trip of 40 ms; resumption avoids them, and 0-RTT data precedes the handshake.
#[test]
fn large_certificates_cost_a_round_trip() {
    let run = |keys: &str| metrics(&file(LINK, keys, "10 kB"), 1, 1).remove(0);
    let handshake = |keys: &str| run(keys)["flow.f.handshake_s"];
    near(handshake(", certificate = \"3 kB\""), 0.042, 5e-4);
    near(handshake(", certificate = \"4.5 kB\""), 0.082, 1e-3);
    near(handshake(", certificate = \"7.5 kB\""), 0.083, 1e-3);
    near(handshake(", certificate = \"4.5 kB\", resumption = \"1-rtt\""), 0.041, 5e-4);
    for (kind, seconds) in [("none", 0.08), ("1-rtt", 0.08), ("0-rtt", 0.04)] {
        let keys = format!(", resumption = \"{kind}\"");
        let row = metrics(&file(FAST, &keys, "800 B"), 1, 1).remove(0);
        near(row["flow.f.duration_s"], seconds, 1e-3);
    }
}

/// RFC 9002, section 6.2.2.1: the server has sent all that it may before it hears from the client again, and the
/// three acknowledgments of the client are lost. The client, with nothing in flight, probes after 40 + 4 * 20 ms
/// (one sample of 40 ms; no `max_ack_delay` before the handshake is complete) and ends the deadlock. Two probe
/// timeouts without an answer last 120 and 240 ms.
#[test]
fn a_client_with_nothing_in_flight_probes() {
    for (frames, timeouts) in [("2, 3, 4", &[160.0][..]), ("2, 3, 4, 5", &[160.0, 400.0])] {
        let trace = trace(&file(&losing(FAST, frames), ", certificate = \"7.5 kB\"", "1 kB"));
        let found: Vec<_> = events(&trace, "timeout").iter().map(|event| event.0).collect();
        assert_eq!(found.len(), timeouts.len());
        let last = timeouts.iter().zip(&found).fold(0.0, |_, (&expected, &found)| {
            // The sample contains 2 us of transmission times, and thus the timeouts 6 and 18 us more.
            near(found, expected, 0.03);
            expected
        });
        near(value(&trace, "handshake_s"), (last + 40.0) / 1e3, 1e-4);
    }
}

/// A repair on the last hop takes 10 ms and overtakes nothing if packets are delivered in order.
/// Out of order, packets that are 10 ms late exceed both thresholds: the window collapses.
#[test]
fn late_packets_are_declared_lost_unless_the_thresholds_are_wide() {
    let hop = |in_order: bool, quic: &str| {
        let text = format!(
            r#"
            name = "late"
            [link.wire]
            between = ["a", "g"]
            rate = "100 Mbps"
            delay = "15 ms"
            queue = "2.5 MB"
            [link.air]
            between = ["g", "b"]
            rate = "20 Mbps"
            delay = "5 ms"
            queue = "2.5 MB"
            protocol = {{ kind = "harq", units = 1, in_order = {in_order}, mode = "pipelined", window = 2000, max_transmissions = "unlimited" }}
            errors = {{ kind = "uniform", loss = "1 %" }}
            [link.air.reverse]
            errors = "none"
            [flow.f]
            from = "a"
            to = "b"
            transport = {{ kind = "quic", stream_window = "1.25 MB" {quic} }}
            app = {{ kind = "file", size = "10 MB" }}
            [run]
            max_time = "1000 s"
            "#
        );
        metrics(&text, 1, 1).remove(0)
    };
    let [ordered, late] = [true, false].map(|in_order| hop(in_order, ""));
    let wide = hop(false, ", packet_threshold = 1000, time_threshold = 2.0");
    let seconds = |row: &Metrics| row["flow.f.duration_s"];
    assert_eq!(ordered["flow.f.packets_spurious"], 0.0);
    // Every loss is spurious: the link repairs all of them.
    assert!(late["flow.f.packets_spurious"] > 50.0);
    assert_eq!(late["flow.f.packets_spurious"], late["flow.f.packets_lost"]);
    assert_eq!(wide["flow.f.packets_lost"], 0.0);
    assert!(seconds(&late) > 3.0 * seconds(&ordered));
    near(seconds(&wide), seconds(&ordered), 0.02 * seconds(&ordered));
}

/// Mathis et al. 1997: MSS / RTT * sqrt(3 / (2 p)), as every packet counts in congestion avoidance.
/// 20 replications of some 100 losses each: the mean has a standard error of 1.5 %; the formula
/// neglects timeouts, the first slow start and the handshake. The band is 10 %: false-alarm rate
/// below 1e-6.
#[test]
fn throughput_follows_the_square_root_of_the_loss() {
    let link = format!(
        "{LINK}\nerrors = {{ kind = \"uniform\", loss = \"1 %\" }}\n\
        [link.air.reverse]\nerrors = \"none\""
    );
    let expected = 1444.0 * 8.0 / 0.0412 * (1.5f64 / 0.01).sqrt();
    for quic in [", variant = \"newreno\"", ", congestion_control = { kind = \"reno\" }"] {
        let rows = metrics(&file(&link, quic, "10 MB"), 20, 1);
        let mean = rows.iter().map(|row| row["flow.f.goodput_bps"]).sum::<f64>() / 20.0;
        near(mean, expected, 0.1 * expected);
    }
}

/// RFC 9002, section 7.1: a queue that marks packets reduces the window without a loss. Without ECN
/// the same queue drops packets.
#[test]
fn marks_reduce_the_window_without_losses() {
    let run = |ecn: bool| {
        let text = file(LINK, &format!(", ecn = {ecn}"), "5 MB").replace(
            "queue = \"125 kB\"",
            "queue = { kind = \"codel\", limit = \"1000 packets\", ecn = true }",
        );
        metrics(&text, 1, 1).remove(0)
    };
    let [marked, dropped] = [true, false].map(run);
    assert_eq!(marked["flow.f.packets_lost"], 0.0, "{marked:?}");
    assert!(marked["flow.f.window_reductions"] >= 2.0, "{marked:?}");
    assert!(dropped["flow.f.packets_lost"] > 0.0, "{dropped:?}");
}

/// An independent count of spurious losses: on a link that loses nothing but delivers out of order,
/// the bytes that arrive twice are those of the packets declared lost, all of them spuriously.
#[test]
fn spurious_losses_are_the_bytes_that_arrive_twice() {
    let text = file(
        "rate = \"20 Mbps\"\ndelay = \"20 ms\"\nqueue = \"2.5 MB\"\n\
         protocol = { kind = \"harq\", units = 1, in_order = false, mode = \"pipelined\", \
         window = 2000, max_transmissions = \"unlimited\" }\n\
         errors = { kind = \"uniform\", loss = \"2 %\" }\n[link.air.reverse]\nerrors = \"none\"",
        "",
        "1 MB",
    );
    let trace = trace(&text.replace("max_time = \"1000 s\"", "duration = \"60 s\""));
    assert_eq!(value(&trace, "probes"), 0.0, "probes carry data again");
    // Bytes of STREAM frames of each packet sent, and of all packets received.
    let (mut sent, mut received) = (BTreeMap::<u64, f64>::new(), 0.0);
    let mut current = [None; 2];
    for event in &trace.events {
        let end = usize::from(event.entity == "flow.f.receiver");
        if end == 0 && event.entity != "flow.f" {
            continue;
        }
        match event.event {
            "packet_sent" if end == 0 => current[0] = Some(event.sequence as u64),
            "packet_received" if end == 1 => current[1] = Some(event.sequence as u64),
            "packet_received" | "packet_sent" => current[end] = None,
            "stream_frame" => match (end, current[end]) {
                (0, Some(number)) => *sent.entry(number).or_default() += event.value,
                (1, Some(_)) => received += event.value,
                _ => {}
            },
            _ => {}
        }
    }
    let spurious = events(&trace, "spurious_loss");
    assert_eq!(spurious.len() as f64, value(&trace, "packets_spurious"));
    assert_eq!(value(&trace, "packets_spurious"), value(&trace, "packets_lost"));
    assert!(spurious.len() > 5);
    let again: f64 = spurious.iter().filter_map(|one| sent.get(&(one.1 as u64))).sum();
    assert_eq!(received - 1e6, again);
    // Each of these packets was retransmitted, all spuriously.
    assert_eq!(value(&trace, "retransmissions"), spurious.len() as f64);
    assert_eq!(value(&trace, "spurious_retransmissions"), spurious.len() as f64);
}

mod slow {
    use super::*;

    /// Padhye et al. 1998, equation 32 without a window limit, with b = 1, as every acknowledged packet
    /// grows the window, and the probe timeout instead of the retransmission timeout. 20 replications
    /// have a standard error of 1.2 %; the tolerance is 5 %.
    #[test]
    fn throughput_is_that_of_pftk() {
        let round_trip = 0.0401f64;
        let timeout = round_trip + 0.025 + 0.001;
        for (loss, size) in [(0.01f64, "20 MB"), (0.02, "10 MB"), (0.03, "8 MB")] {
            let window = 1.0 + (8.0 * (1.0 - loss) / (3.0 * loss) + 1.0).sqrt();
            let passed = 1.0 - loss;
            let few = 1.0 - passed.powi(3);
            let share = few * (1.0 + passed.powi(3) * (1.0 - passed.powf(window - 3.0)))
                / (1.0 - passed.powf(window));
            let share = share.min(1.0);
            let backoff = 1.0 + (0..6).map(|k| loss * (2.0 * loss).powi(k)).sum::<f64>();
            let packets = passed / loss + window + share / passed;
            let seconds = round_trip * (window / 2.0 + 1.0) + share * timeout * backoff / passed;
            let expected = 1444.0 * 8.0 * packets / seconds;
            let link = format!(
                "rate = \"200 Mbps\"\ndelay = \"20 ms\"\nqueue = \"2 MB\"\n\
                errors = {{ kind = \"uniform\", loss = {loss} }}\n\
                [link.air.reverse]\nerrors = \"none\""
            );
            let rows = metrics(&file(&link, ", variant = \"newreno\"", size), 20, 1);
            let mean = rows.iter().map(|row| row["flow.f.goodput_bps"]).sum::<f64>() / 20.0;
            near(mean, expected, 0.05 * expected);
        }
    }
}
