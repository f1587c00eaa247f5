//! A warm replication allocates no memory per packet, and its memory does not grow with simulated
//! time: a run ten times as long makes the same number of allocations and uses the same memory,
//! except for a few buffers that grow later.

#![allow(unsafe_code, reason = "a counting allocator can be written no other way")]

use lasthop::run::{self, Options};
use lasthop::scenario::Scenario;
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicI64 = AtomicI64::new(0);
static MOST_HELD: AtomicI64 = AtomicI64::new(0);

fn count(grown: i64) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    let held = HELD.fetch_add(grown, Relaxed) + grown;
    MOST_HELD.fetch_max(held, Relaxed);
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as i64, Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations of a run, its maximum memory in bytes above the initial
/// memory, and the metric `sent`.
fn cost(text: &str, sent: &str) -> (u64, i64, f64) {
    let scenario = Scenario::from_toml(text, Path::new("."))
        .and_then(|document| document.points())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .remove(0)
        .scenario;
    let options = Options { replications: 1, first_replication: 0, seed: 3, jobs: 1 };
    let (before, held) = (ALLOCATIONS.load(Relaxed), HELD.load(Relaxed));
    MOST_HELD.store(held, Relaxed);
    let results = run::run(&[scenario], &options, &mut |_| true).unwrap();
    let (after, most) = (ALLOCATIONS.load(Relaxed), MOST_HELD.load(Relaxed));
    let sent = results.metrics.iter().position(|name| name == sent);
    (after - before, most - held, results.rows[0].values[sent.unwrap()])
}

/// Buffers double when they grow: a longer run may reallocate a few more.
const HANDFUL: u64 = 24;
const HANDFUL_BYTES: i64 = 64 * 1024;

/// Returns an error if a run ten times as long allocates more or uses more memory.
fn grows(name: &str, text: impl Fn(u64) -> String, sent: &str) -> Option<String> {
    cost(&text(1), sent); // The first run of all warms the process itself.
    let (short, short_bytes, short_packets) = cost(&text(1), sent);
    let (long, long_bytes, long_packets) = cost(&text(10), sent);
    assert!(long_packets > 5.0 * short_packets, "{name}: {short_packets}, {long_packets}");
    println!("{name}: {short} and {long} allocations, {short_bytes} and {long_bytes} bytes");
    (long > short + HANDFUL || long_bytes > short_bytes + HANDFUL_BYTES).then(|| {
        format!(
            "{name}: {short} and {long} allocations, {short_bytes} and {long_bytes} bytes at \
             most, {short_packets} and {long_packets} packets"
        )
    })
}

const UNIFORM: &str = r#"{ kind = "uniform", loss = "2.5 %" }"#;
const TWO_STATE: &str =
    r#"{ kind = "two-state", good = "10 s", bad = "500 ms", good_ber = 1e-6, bad_ber = 1e-2 }"#;
const RAW: &str = r#"{ kind = "raw" }"#;
const SR: &str = r#"{ kind = "selective-repeat", window = 8 }"#;
const GBN: &str = r#"{ kind = "go-back-n", window = 8 }"#;
const KARN: &str = r#"{ kind = "karn-rlp" }"#;
const OOS: &str = r#"{ kind = "oos-rlp", retransmissions = 1 }"#;
const FEC: &str = r#"{ kind = "xor-fec", block = 8 }"#;
const WAIT: &str = r#"{ kind = "stop-and-wait", retries = 3 }"#;
const SERVICES: &str = r#"{ kind = "services", shares = "measured", service = {
        all = { protocol = { kind = "selective-repeat" } }, rest = {} } }"#;
const RLC: &str = r#"{ kind = "rlc-am", window = 256, max_transmissions = 3 }"#;
const HARQ: &str = r#"{ kind = "harq" }"#;
const SNOOP: &str = r#"{ kind = "raw" }
                agent = { kind = "snoop", at = "ap" }"#;
const SNOOP_NS2: &str = r#"{ kind = "selective-repeat", window = 8 }
                agent = { kind = "snoop", at = "ap", quirks = "ns-2" }"#;
const STACK: &str = r#"{ kind = "stop-and-wait" }
                agent = [{ kind = "snoop", at = "ap" },
                    { kind = "adaptive-persistence", at = "client", direction = "incoming",
                      stay_good = 0.9, stay_bad = 0.5, loss_good = 0.01, loss_bad = 0.5 }]"#;
const NS2: &str = r#"profile = "ns-2", segment = "250 B""#;
const RFC: &str = r#"profile = "rfc", segment = "536 B", timestamps = true"#;
const PACED: &str = r#"profile = "rfc", hystart = true, pacing = true"#;
const LAZY: Option<&str> = Some("lazy");
const PER_PACKET: Option<&str> = Some("per-packet");
const RED: &str =
    r#"{ kind = "red", limit = "50 packets", min = "5 packets", max = "15 packets" }"#;
const CODEL: &str = r#"{ kind = "codel", limit = "50 packets" }"#;
const PIE: &str = r#"{ kind = "pie", limit = "50 packets" }"#;
const DUALPI2: &str = r#"{ kind = "dualpi2", limit = "50 packets" }"#;
const FQ_CODEL: &str = r#"{ kind = "fq-codel", limit = "50 packets" }"#;

/// See [`CASES`].
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    bool,
    Option<&'static str>,
    &'static str,
);

/// Name, link protocol, error process, variant and other keys of TCP, whether the application is
/// `web`, replay of the congesting flow if any, queue.
const CASES: &[Case] = &[
    ("raw", RAW, UNIFORM, "reno", NS2, false, None, "50 packets"),
    ("rfc", RAW, TWO_STATE, "newreno", RFC, false, None, "50 packets"),
    ("sack", RAW, UNIFORM, "sack", RFC, false, None, "50 packets"),
    ("selective repeat", SR, TWO_STATE, "sack", NS2, false, None, "50 packets"),
    ("go-back-n", GBN, UNIFORM, "reno", NS2, false, None, "50 packets"),
    ("karn rlp", KARN, UNIFORM, "reno", NS2, false, None, "50 packets"),
    ("services", SERVICES, TWO_STATE, "sack", NS2, false, None, "50 packets"),
    ("web over rlp", OOS, TWO_STATE, "sack", RFC, true, None, "50 packets"),
    ("XOR FEC", FEC, UNIFORM, "sack", NS2, false, None, "50 packets"),
    ("stop-and-wait", WAIT, UNIFORM, "sack", NS2, false, None, "50 packets"),
    ("RLC AM", RLC, UNIFORM, "sack", NS2, false, None, "50 packets"),
    ("HARQ", HARQ, TWO_STATE, "sack", NS2, false, None, "50 packets"),
    ("congestion", RAW, UNIFORM, "sack", NS2, false, LAZY, "50 packets"),
    ("congestion, bytes", RAW, UNIFORM, "reno", NS2, false, LAZY, "12500 B"),
    ("congestion, packets", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, "50 packets"),
    ("congestion, RED", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, RED),
    ("congestion, CoDel", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, CODEL),
    ("congestion, PIE", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, PIE),
    ("congestion, DualPI2", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, DUALPI2),
    ("congestion, FQ-CoDel", RAW, UNIFORM, "sack", NS2, false, PER_PACKET, FQ_CODEL),
    ("CUBIC", RAW, UNIFORM, "cubic", PACED, false, None, "50 packets"),
    ("CUBIC, web", RAW, UNIFORM, "cubic", PACED, true, None, "50 packets"),
    ("snoop", SNOOP, UNIFORM, "reno", NS2, false, LAZY, "50 packets"),
    ("snoop, web", SNOOP, UNIFORM, "sack", RFC, true, None, "50 packets"),
    ("snoop over sr", SNOOP_NS2, UNIFORM, "reno", NS2, false, None, "50 packets"),
    ("two agents", STACK, UNIFORM, "reno", NS2, false, None, "50 packets"),
    ("web", RAW, UNIFORM, "reno", NS2, true, None, "50 packets"),
    ("web over sr", SR, UNIFORM, "sack", RFC, true, LAZY, "50 packets"),
];

/// TCP over two links.
fn over_links(failures: &mut Vec<String>) {
    for (name, protocol, errors, variant, profile, is_web, congestion, queue) in
        CASES.iter().copied()
    {
        let text = |tenth: u64| {
            let (app, end) = if is_web {
                ("{ kind = \"web\" }".to_owned(), format!("duration = \"{} s\"", 200 * tenth))
            } else {
                let app = format!("{{ kind = \"file\", size = \"{tenth} MB\" }}");
                (app, "max_time = \"100000 s\"".to_owned())
            };
            let congestion = congestion.map_or(String::new(), |replay| {
                format!(
                    r#"
                    [flow.congestion]
                    from = "server"
                    to = "ap"
                    transport = {{ kind = "udp" }}
                    app = {{ kind = "on-off", rate = "1.99 Mbps", on = "exp 1 s", off = "exp 1.35 s", packet = "250 B", replay = "{replay}" }}
                    "#
                )
            });
            let queue = if queue.starts_with('{') { queue.into() } else { format!("\"{queue}\"") };
            format!(
                r#"
                name = "{name}"
                [link.wired]
                between = ["server", "ap"]
                rate = "2 Mbps"
                delay = "1 ms"
                queue = {queue}
                [link.wireless]
                between = ["ap", "client"]
                rate = "500 kbps"
                delay = "50 ms"
                protocol = {protocol}
                errors = {errors}
                [flow.transfer]
                from = "server"
                to = "client"
                transport = {{ kind = "tcp", variant = "{variant}", {profile} }}
                app = {app}
                {congestion}
                [run]
                {end}
                "#
            )
        };
        if queue.starts_with('{') {
            let (_, _, drops) = cost(&text(1), "link.wired.forward.queue_early_drops");
            assert!(drops > 0.0, "{name}: nothing was dropped early");
        }
        failures.extend(grows(name, text, "flow.transfer.segments_sent"));
    }
}

/// Media over one link.
fn of_media(failures: &mut Vec<String>) {
    for (name, protocol) in
        [("media", RAW), ("media over sr", SR), ("media over gbn", GBN), ("media over RLC", RLC)]
    {
        let text = |tenth: u64| {
            format!(
                r#"
                name = "{name}"
                [link.wireless]
                between = ["ap", "client"]
                rate = "500 kbps"
                delay = "50 ms"
                protocol = {protocol}
                errors = {UNIFORM}
                [flow.speech]
                from = "ap"
                to = "client"
                transport = {{ kind = "udp" }}
                app = {{ kind = "media", rate = "100 kbps", packet = "50 B" }}
                [run]
                duration = "{} s"
                "#,
                200 * tenth
            )
        };
        failures.extend(grows(name, text, "flow.speech.packets_sent"));
    }
}

/// On-off traffic over a radio.
fn over_radios(failures: &mut Vec<String>) {
    for (name, limit, stations) in
        [("radio", "\"unlimited\"", 1), ("radio, limited", "2", 1), ("radio, shared", "5", 4)]
    {
        let text = |tenth: u64| {
            let flows: String = (0..stations)
                .map(|m| {
                    format!(
                        r#"
                        [flow.up{m}]
                        from = "m{m}"
                        to = "base"
                        transport = {{ kind = "udp" }}
                        app = {{ kind = "on-off", rate = "1 Mbps", on = "exp 1 s", off = "exp 1 s", packet = "1000 B" }}
                        "#
                    )
                })
                .collect();
            let names: Vec<_> = (0..stations).map(|m| format!("\"m{m}\"")).collect();
            format!(
                r#"
                name = "{name}"
                [radio.cell]
                base = "base"
                stations = [{}]
                protocol = {{ kind = "ideal-sr", max_transmissions = {limit} }}
                errors = {{ kind = "slotted-gilbert-elliott", stay_good = 0.9, stay_bad = 0.8, loss_good = 0.01, loss_bad = 0.9 }}
                {flows}
                [run]
                duration = "{} s"
                "#,
                names.join(", "),
                100 * tenth
            )
        };
        failures.extend(grows(name, text, "link.cell.m0.forward.frames_sent"));
    }
}

/// TCP over a WLAN.
fn over_wlans(failures: &mut Vec<String>) {
    for (name, agent, variant, limit) in [
        ("wlan", "", "sack", 7),
        ("wlan, snoop", r#"agent = { kind = "snoop", at = "ap" }"#, "newreno", 2),
        ("wlan, notices", r#"agent = { kind = "ll-elsn", at = "ap" }"#, "esack", 2),
        (
            "wlan, marks",
            r#"agent = { kind = "balakrishnan-eln", at = "ap" }"#,
            "balakrishnan-eln",
            1,
        ),
    ] {
        let text = |tenth: u64| {
            format!(
                r#"
                name = "{name}"
                [wlan.cell]
                access_point = "ap"
                stations = ["client", "other"]
                short_retry_limit = {limit}
                errors = {{ kind = "bit", ber = 1e-5 }}
                {agent}
                [flow.transfer]
                from = "ap"
                to = "client"
                transport = {{ kind = "tcp", variant = "{variant}", {NS2} }}
                app = {{ kind = "file", size = "1 GB" }}
                [flow.noise]
                from = "other"
                to = "ap"
                transport = {{ kind = "udp" }}
                app = {{ kind = "on-off", rate = "1 Mbps", on = "pareto 100 ms shape 1.5", off = "exp 1 s", packet = "1000 B" }}
                [run]
                duration = "{} s"
                "#,
                20 * tenth
            )
        };
        failures.extend(grows(name, text, "link.cell.client.reverse.frames_sent"));
    }
}

/// Saturated A-MPDUs, and TCP, over WLANs of 802.11n, ac and ax: block-ack windows, reorder buffers, queues of
/// stations, access categories, rate control.
fn over_aggregates(failures: &mut Vec<String>) {
    for (name, seconds, keys) in [
        ("A-MPDU", 20, "standard = \"802.11n\""),
        (
            "A-MPDU, ax",
            4,
            "standard = \"802.11ax\"\nwidth = \"80 MHz\"\nblock_ack_window = 256\nmax_ampdu = \"6500631 B\"",
        ),
        (
            "airtime",
            20,
            "standard = \"802.11n\"\nscheduler = \"airtime\"\nqueue = { kind = \"fq-codel\" }\ndriver_queue = \"aql\"",
        ),
        ("A-MSDU", 20, "standard = \"802.11n\"\nmax_amsdu = \"7935 B\"\nmax_ampdu = \"0 B\""),
        ("A-MPDU of A-MSDUs", 20, "standard = \"802.11n\"\nmax_amsdu = \"7935 B\""),
        ("EDCA", 20, "standard = \"802.11n\"\nedca = true"),
        ("reserved TXOPs", 20, "standard = \"802.11n\"\nedca = true\ndurations = \"ns-3\""),
        (
            "EDCA in space",
            20,
            "standard = \"802.11n\"\nedca = true\nx = \"0 m\"\nstation = { client = { x = \"9 m\" }, other = { x = \"9 m\" } }",
        ),
        ("Minstrel-HT", 20, "standard = \"802.11ac\"\nrate_control = \"minstrel-ht\""),
    ] {
        let text = |tenth: u64| {
            format!(
                r#"
                name = "{name}"
                [wlan.cell]
                access_point = "ap"
                stations = ["client", "other"]
                errors = {{ kind = "uniform", loss = 0.1 }}
                {keys}
                [flow.transfer]
                from = "ap"
                to = "client"
                transport = {{ kind = "tcp", variant = "cubic" }}
                app = {{ kind = "file", size = "100 GB" }}
                [flow.noise]
                from = "other"
                to = "ap"
                dscp = "AF41"
                transport = {{ kind = "udp" }}
                app = {{ kind = "on-off", rate = "100 Mbps", on = "1000 s", off = "0 s", packet = "1500 B" }}
                [run]
                duration = "{} s"
                "#,
                seconds * tenth
            )
        };
        failures.extend(grows(name, text, "link.cell.other.forward.frames_sent"));
    }
}

/// A single test, so that no other test allocates concurrently.
#[test]
fn a_run_ten_times_as_long_allocates_no_more() {
    let mut failures = Vec::new();
    over_links(&mut failures);
    of_media(&mut failures);
    over_radios(&mut failures);
    over_wlans(&mut failures);
    over_aggregates(&mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
