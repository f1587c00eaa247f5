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

/// A single test, so that no other test allocates concurrently.
#[test]
fn a_run_ten_times_as_long_allocates_no_more() {
    let uniform = r#"{ kind = "uniform", loss = "2.5 %" }"#;
    let two_state =
        r#"{ kind = "two-state", good = "10 s", bad = "500 ms", good_ber = 1e-6, bad_ber = 1e-2 }"#;
    let raw = r#"{ kind = "raw" }"#;
    let sr = r#"{ kind = "selective-repeat", window = 8 }"#;
    let gbn = r#"{ kind = "go-back-n", window = 8 }"#;
    let karn = r#"{ kind = "karn-rlp" }"#;
    let oos = r#"{ kind = "oos-rlp", retransmissions = 1 }"#;
    let fec = r#"{ kind = "xor-fec", block = 8 }"#;
    let wait = r#"{ kind = "stop-and-wait", retries = 3 }"#;
    let services = r#"{ kind = "services", shares = "measured", service = {
        all = { protocol = { kind = "selective-repeat" } }, rest = {} } }"#;
    let rlc = r#"{ kind = "rlc-am", window = 256, max_transmissions = 3 }"#;
    let harq = r#"{ kind = "harq" }"#;
    let snoop = r#"{ kind = "raw" }
                agent = { kind = "snoop", at = "ap" }"#;
    let snoop_ns2 = r#"{ kind = "selective-repeat", window = 8 }
                agent = { kind = "snoop", at = "ap", quirks = "ns-2" }"#;
    let stack = r#"{ kind = "stop-and-wait" }
                agent = [{ kind = "snoop", at = "ap" },
                    { kind = "adaptive-persistence", at = "client", direction = "incoming",
                      stay_good = 0.9, stay_bad = 0.5, loss_good = 0.01, loss_bad = 0.5 }]"#;
    let ns2 = r#"profile = "ns-2", segment = "250 B""#;
    let rfc = r#"profile = "rfc", segment = "536 B", timestamps = true"#;
    let paced = r#"profile = "rfc", hystart = true, pacing = true"#;
    let lazy = Some("lazy");
    let per_packet = Some("per-packet");
    let red = r#"{ kind = "red", limit = "50 packets", min = "5 packets", max = "15 packets" }"#;
    let codel = r#"{ kind = "codel", limit = "50 packets" }"#;
    let pie = r#"{ kind = "pie", limit = "50 packets" }"#;
    let dualpi2 = r#"{ kind = "dualpi2", limit = "50 packets" }"#;
    let fq_codel = r#"{ kind = "fq-codel", limit = "50 packets" }"#;
    let cases = [
        ("raw", raw, uniform, "reno", ns2, false, None, "50 packets"),
        ("rfc", raw, two_state, "newreno", rfc, false, None, "50 packets"),
        ("sack", raw, uniform, "sack", rfc, false, None, "50 packets"),
        ("selective repeat", sr, two_state, "sack", ns2, false, None, "50 packets"),
        ("go-back-n", gbn, uniform, "reno", ns2, false, None, "50 packets"),
        ("karn rlp", karn, uniform, "reno", ns2, false, None, "50 packets"),
        ("services", services, two_state, "sack", ns2, false, None, "50 packets"),
        ("web over rlp", oos, two_state, "sack", rfc, true, None, "50 packets"),
        ("XOR FEC", fec, uniform, "sack", ns2, false, None, "50 packets"),
        ("stop-and-wait", wait, uniform, "sack", ns2, false, None, "50 packets"),
        ("RLC AM", rlc, uniform, "sack", ns2, false, None, "50 packets"),
        ("HARQ", harq, two_state, "sack", ns2, false, None, "50 packets"),
        ("congestion", raw, uniform, "sack", ns2, false, lazy, "50 packets"),
        ("congestion, bytes", raw, uniform, "reno", ns2, false, lazy, "12500 B"),
        ("congestion, packets", raw, uniform, "sack", ns2, false, per_packet, "50 packets"),
        ("congestion, RED", raw, uniform, "sack", ns2, false, per_packet, red),
        ("congestion, CoDel", raw, uniform, "sack", ns2, false, per_packet, codel),
        ("congestion, PIE", raw, uniform, "sack", ns2, false, per_packet, pie),
        ("congestion, DualPI2", raw, uniform, "sack", ns2, false, per_packet, dualpi2),
        ("congestion, FQ-CoDel", raw, uniform, "sack", ns2, false, per_packet, fq_codel),
        ("CUBIC", raw, uniform, "cubic", paced, false, None, "50 packets"),
        ("CUBIC, web", raw, uniform, "cubic", paced, true, None, "50 packets"),
        ("snoop", snoop, uniform, "reno", ns2, false, lazy, "50 packets"),
        ("snoop, web", snoop, uniform, "sack", rfc, true, None, "50 packets"),
        ("snoop over sr", snoop_ns2, uniform, "reno", ns2, false, None, "50 packets"),
        ("two agents", stack, uniform, "reno", ns2, false, None, "50 packets"),
        ("web", raw, uniform, "reno", ns2, true, None, "50 packets"),
        ("web over sr", sr, uniform, "sack", rfc, true, lazy, "50 packets"),
    ];
    let mut failures = Vec::new();
    for (name, protocol, errors, variant, profile, is_web, congestion, queue) in cases {
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
    for (name, protocol) in
        [("media", raw), ("media over sr", sr), ("media over gbn", gbn), ("media over RLC", rlc)]
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
                errors = {uniform}
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
                transport = {{ kind = "tcp", variant = "{variant}", {ns2} }}
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
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
