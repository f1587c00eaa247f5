//! Queues of the access point: FQ-CoDel for each station with airtime fairness against one FIFO.
//!
//! Published effects: T. Høiland-Jørgensen et al., "Ending the Anomaly: Achieving Low Latency and Airtime Fairness in
//! WiFi", USENIX ATC 2017, for two fast stations and a slow one with TCP downloads: with a FIFO, the slow station takes
//! most of the airtime and packets wait for hundreds of milliseconds; with FQ-CoDel and airtime fairness, airtime is
//! shared equally, latency under load falls by an order of magnitude, and the total throughput grows.

use crate::scenarios::{self, Metrics, scenario};

/// Two stations at 72.2 Mbps and one at 7.2 Mbps, each with a download and a packet of 100 B every 20 ms.
fn run(queues: &str) -> Metrics {
    let flows: String = ["fast", "other", "slow"]
        .map(|station| {
            format!(
                r#"
                [flow.{station}]
                from = "ap"
                to = "{station}"
                transport = {{ kind = "tcp", variant = "cubic", profile = "linux" }}
                app = {{ kind = "file", size = "1 GB" }}
                [flow.ping-{station}]
                from = "ap"
                to = "{station}"
                transport = {{ kind = "udp" }}
                app = {{ kind = "media", rate = "40 kbps", packet = "100 B", silence = "0 s" }}
                "#
            )
        })
        .concat();
    let text = format!(
        r#"
        name = "anomaly"
        [wlan.cell]
        access_point = "ap"
        stations = ["fast", "other", "slow"]
        standard = "802.11n"
        guard_interval = "400 ns"
        {queues}
        station = {{ slow = {{ mcs = 0 }} }}
        {flows}
        [run]
        duration = "20 s"
        "#
    );
    scenarios::metrics(&scenario(&text), 1, 5).remove(0)
}

/// A download and a packet every 20 ms to one station at 65 Mbps: FQ-CoDel sends the sparse flow first in the queue, but
/// not in the driver. Without packets in the driver, it waits for a PPDU of 5 ms and its turn; with AQL for up to 12 ms
/// more, which an A-MPDU takes in three PPDUs with retransmissions; without limits for the window of TCP.
#[test]
fn packets_in_the_driver_wait_behind_others() {
    let delay = |driver: &str| {
        let text = format!(
            r#"
            name = "driver"
            [wlan.cell]
            access_point = "ap"
            stations = ["laptop"]
            standard = "802.11n"
            queue = {{ kind = "fq-codel" }}
            scheduler = "airtime"
            {driver}
            [flow.down]
            from = "ap"
            to = "laptop"
            transport = {{ kind = "tcp", variant = "cubic", profile = "linux" }}
            app = {{ kind = "file", size = "1 GB" }}
            [flow.ping]
            from = "ap"
            to = "laptop"
            transport = {{ kind = "udp" }}
            app = {{ kind = "media", rate = "40 kbps", packet = "100 B", silence = "0 s" }}
            [run]
            duration = "10 s"
            "#
        );
        let measured = scenarios::metrics(&scenario(&text), 1, 5).remove(0);
        assert!(measured["flow.down.goodput_bps"] > 40e6, "{driver}");
        measured["flow.ping.delay_p50_s"]
    };
    let [pull, aql, all] =
        ["", "driver_queue = \"aql\"", "driver_queue = \"unlimited\""].map(delay);
    assert!(pull < 0.012, "{pull}");
    assert!(aql > pull + 0.003 && aql < pull + 0.015, "{pull} {aql}");
    assert!(all > 2.0 * aql, "{aql} {all}");
}

#[test]
fn fair_queueing_and_airtime_end_the_anomaly() {
    let fifo = run("queue = \"1000 packets\"");
    let fair = run("queue = { kind = \"fq-codel\" }\nscheduler = \"airtime\"");
    let share = |measured: &Metrics, station: &str| {
        let airtime = |station: &str| measured[&format!("link.cell.{station}.reverse.airtime")];
        airtime(station) / ["fast", "other", "slow"].map(airtime).iter().sum::<f64>()
    };
    assert!(share(&fifo, "slow") > 0.6, "{}", share(&fifo, "slow"));
    for station in ["fast", "other", "slow"] {
        let found = share(&fair, station);
        assert!((found - 1.0 / 3.0).abs() < 0.05, "{station}: {found}");
    }
    let delay =
        |measured: &Metrics, station: &str| measured[&format!("flow.ping-{station}.delay_p50_s")];
    for station in ["fast", "other"] {
        let [before, after] = [&fifo, &fair].map(|measured| delay(measured, station));
        assert!(before > 0.2 && after < before / 10.0, "{station}: {before} s, {after} s");
    }
    let total = |measured: &Metrics| {
        let goodput = |station| measured[&format!("flow.{station}.goodput_bps")];
        ["fast", "other", "slow"].map(goodput).iter().sum::<f64>()
    };
    assert!(total(&fair) > 1.5 * total(&fifo), "{} {}", total(&fair), total(&fifo));
}
