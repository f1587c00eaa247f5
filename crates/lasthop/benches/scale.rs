//! Cost of building and running as networks grow: processor time per flow, hop and station.
//!
//! `cargo bench --bench scale`. Building: the plan of a point, one world and the names of its
//! metrics. Running: one replication of a fixed simulated time, or of files of fixed size. The last columns are
//! per flow, hop or station, relative to the first row of the kind: the cost of building and of running, the
//! frames that the links send, and the cost of running per frame. A chain that loses or delays more than one
//! link sends more frames per hop.
//! `-- NAME ... COUNT ...` runs only the cases whose names contain one of these, with these numbers of
//! elements instead of the usual ones; `-- --once NAME COUNT` runs one
//! replication of one case, to count its instructions, and prints the number of frames sent and the maximum
//! resident size of the process in kilobytes (Linux; otherwise 0).

use lasthop::run::{Options, metric_names, run};
use lasthop::scenario::Scenario;
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::path::Path;
use std::slice;

/// Number of rounds, of which the best counts.
const ROUNDS: usize = 3;

/// A network, the number of its elements, and the number of repetitions of its construction.
struct Case {
    name: &'static str,
    count: usize,
    text: String,
}

fn link(text: &mut String, name: &str, between: [&str; 2], more: &str) {
    link_of(text, name, between, 100, more);
}

fn link_of(text: &mut String, name: &str, [a, b]: [&str; 2], mbps: usize, more: &str) {
    let _ = write!(
        text,
        "[link.{name}]\nbetween = [\"{a}\", \"{b}\"]\nrate = \"{mbps} Mbps\"\ndelay = \"1 ms\"\n{more}\n"
    );
}

/// A flow from "a" to "c".
fn flow(text: &mut String, name: usize, transport: &str, app: &str) {
    let _ = write!(
        text,
        "[flow.f{name}]\nfrom = \"a\"\nto = \"c\"\ntransport = {{ {transport} }}\napp = {{ {app} }}\n"
    );
}

fn file(text: &mut String, name: &str, between: [&str; 2], size: &str) {
    let [a, b] = between;
    let _ = write!(
        text,
        "[flow.{name}]\nfrom = \"{a}\"\nto = \"{b}\"\n\
         transport = {{ kind = \"tcp\", variant = \"reno\", profile = \"ns-2\", segment = \"250 B\" }}\n\
         app = {{ kind = \"file\", size = \"{size}\" }}\n"
    );
}

/// `count` files over one path of two links with 10 Mbps and 5 packets of queue per file, so that the
/// share of losses does not depend on the number of files.
fn flows(count: usize) -> Case {
    let mut text = "name = \"flows\"\n".to_owned();
    let queue = format!("queue = \"{} packets\"\n", 5 * count);
    link_of(&mut text, "near", ["a", "b"], 10 * count, &queue);
    link_of(&mut text, "far", ["b", "c"], 10 * count, &queue);
    (0..count).for_each(|flow| file(&mut text, &format!("f{flow}"), ["a", "c"], "250 kB"));
    Case { name: "file flows on one path", count, text }
}

/// One file over `count` consecutive links.
fn hops(count: usize, name: &'static str, more: &str) -> Case {
    let mut text = "name = \"hops\"\n".to_owned();
    for hop in 0..count {
        let [a, b] = [hop, hop + 1].map(|host| format!("h{host}"));
        link(&mut text, &format!("l{hop}"), [&a, &b], more);
    }
    file(&mut text, "f", ["h0", &format!("h{count}")], "250 kB");
    Case { name, count, text }
}

/// `count` files with selective acknowledgments and timestamps over one path of two links that
/// loses segments.
fn sacks(count: usize) -> Case {
    let mut text = "name = \"sacks\"\n".to_owned();
    link(&mut text, "near", ["a", "b"], "");
    link(&mut text, "far", ["b", "c"], "errors = { kind = \"uniform\", loss = \"1 %\" }");
    let transport = "kind = \"tcp\", variant = \"sack\", profile = \"rfc\", timestamps = true, segment = \"250 B\"";
    let app = "kind = \"file\", size = \"250 kB\"";
    (0..count).for_each(|name| flow(&mut text, name, transport, app));
    Case { name: "SACK flows on one path", count, text }
}

/// `count` flows of datagrams over one path of two links with 100 kbps per flow.
fn datagrams(count: usize) -> Case {
    let mut text = "name = \"datagrams\"\nrun = { duration = \"20 s\" }\n".to_owned();
    link_of(&mut text, "near", ["a", "b"], count.div_ceil(10), "");
    link_of(&mut text, "far", ["b", "c"], count.div_ceil(10), "");
    let app = "kind = \"on-off\", rate = \"64 kbps\", packet = \"250 B\", on = \"exp 1 s\", off = \"exp 1 s\"";
    (0..count).for_each(|name| flow(&mut text, name, "kind = \"udp\"", app));
    Case { name: "UDP flows on one path", count, text }
}

/// `count` browsers over one path of two links with 1 Mbps per browser.
fn browsers(count: usize) -> Case {
    let mut text = "name = \"browsers\"\nrun = { duration = \"20 s\" }\n".to_owned();
    link_of(&mut text, "near", ["a", "b"], count, "");
    link_of(&mut text, "far", ["b", "c"], count, "");
    let transport = "kind = \"tcp\", variant = \"reno\", profile = \"rfc\"";
    (0..count).for_each(|name| flow(&mut text, name, transport, "kind = \"web\""));
    Case { name: "browsers on one path", count, text }
}

/// `count` stations of a WLAN with occasional packets.
fn wlan(count: usize) -> Case {
    let mut text = "name = \"wlan\"\nrun = { duration = \"60 s\" }\n".to_owned();
    let _ = write!(
        text,
        "[wlan.cell]\naccess_point = \"c\"\nstations = [{}]\nstandard = \"802.11b\"\nrate = \"11 Mbps\"\n",
        stations(count)
    );
    for station in 0..count {
        let _ = write!(
            text,
            "[flow.f{station}]\nfrom = \"s{station}\"\nto = \"c\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"on-off\", rate = \"1 kbps\", packet = \"250 B\", on = \"exp 1 s\", off = \"exp 1 s\" }}\n"
        );
    }
    Case { name: "WLAN stations", count, text }
}

/// Returns the names of `count` stations.
fn stations(count: usize) -> String {
    let hosts: Vec<_> = (0..count).map(|station| format!("\"s{station}\"")).collect();
    hosts.join(", ")
}

/// `count` links with a common host, and a file over each, from a server whose link has 10 Mbps and
/// 10 packets of queue per file.
fn star(count: usize) -> Case {
    let mut text = "name = \"star\"\n".to_owned();
    let queue = format!("queue = \"{} packets\"\n", 10 * count);
    link_of(&mut text, "wired", ["server", "ap"], 10 * count, &queue);
    for station in 0..count {
        let host = format!("s{station}");
        link(&mut text, &host, ["ap", &host], "protocol = { kind = \"selective-repeat\" }");
        file(&mut text, &format!("f{station}"), ["server", &host], "25 kB");
    }
    Case { name: "selective-repeat stations", count, text }
}

/// `count` stations of a radio, each with a call.
fn radio(count: usize) -> Case {
    let mut text = "name = \"radio\"\nrun = { duration = \"20 s\" }\n".to_owned();
    let _ = write!(
        text,
        "[radio.cell]\nbase = \"ap\"\nstations = [{}]\nframe = \"10 ms\"\nuplink = {count}\n\
         downlink = {count}\nslot = \"60 B\"\nprotocol = {{ kind = \"karn-rlp\" }}\n",
        stations(count)
    );
    for station in 0..count {
        let _ = write!(
            text,
            "[flow.f{station}]\nfrom = \"s{station}\"\nto = \"ap\"\ntransport = {{ kind = \"udp\" }}\n\
             app = {{ kind = \"media\", rate = \"5.6 kbps\", packet = \"14 B\" }}\n"
        );
    }
    Case { name: "radio stations", count, text }
}

/// A file of twenty windows of `count` segments over a path with losses.
fn window(count: usize) -> Case {
    // A packet of 1,500 bytes takes 24 us.
    let text = format!(
        "name = \"window\"\n[link.path]\nbetween = [\"a\", \"c\"]\nrate = \"500 Mbps\"\n\
         delay = \"{} us\"\nqueue = \"{count} packets\"\nerrors = {{ kind = \"uniform\", loss = \"0.5 %\" }}\n\
         [flow.f]\nfrom = \"a\"\nto = \"c\"\napp = {{ kind = \"file\", size = \"{} kB\" }}\n\
         transport = {{ kind = \"tcp\", variant = \"bbr\", receive_window = \"1 GiB\" }}\n",
        12 * count,
        29 * count,
    );
    Case { name: "segments of a window", count, text }
}

fn processor_time() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn process_time() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Returns the minimum of several rounds, in seconds.
fn least(clock: fn() -> f64, mut work: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let before = clock();
        work();
        clock() - before
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// Constructor of a case from a count, and the counts.
type Group = (fn(usize) -> Case, [usize; 3]);

const GROUPS: [Group; 13] = [
    (flows, [10, 100, 1000]),
    (sacks, [3, 30, 300]),
    (datagrams, [10, 1000, 10_000]),
    (browsers, [10, 100, 1000]),
    (|count| hops(count, "raw hops", ""), [1, 10, 100]),
    (|count| hops(count, "selective-repeat hops", RECOVERING), [1, 64, 1000]),
    (|count| hops(count, "harq hops", CODING), [1, 64, 1000]),
    (|count| hops(count, "xor-fec hops", PARITY), [1, 64, 1000]),
    (|count| hops(count, "rlc hops", CUTTING), [1, 10, 100]),
    (star, [10, 100, 1000]),
    (radio, [5, 50, 500]),
    (wlan, [5, 50, 500]),
    (window, [100, 1000, 10_000]),
];

const RECOVERING: &str = "protocol = { kind = \"selective-repeat\" }";
const CODING: &str = "protocol = { kind = \"harq\" }";
const PARITY: &str = "protocol = { kind = \"xor-fec\" }";
const CUTTING: &str = "protocol = { kind = \"rlc-am\" }";

/// Parses the scenario of a case.
fn read(Case { name, count, text }: &Case) -> Scenario {
    let document = Scenario::from_toml(text, Path::new("."));
    let points = document.and_then(|document| document.points());
    points.unwrap_or_else(|error| panic!("{name} {count}: {error}\n{text}")).remove(0).scenario
}

/// Runs one replication; returns the number of frames that its links have sent.
fn replicate(scenario: &Scenario) -> f64 {
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let results = run(slice::from_ref(scenario), &options, &mut |_| true);
    let Ok(results) = results else { panic!("the scenario runs") };
    assert!(results.complete, "all of it is wanted");
    let named = results.metrics.iter().zip(&results.rows[0].values);
    named.filter(|(name, _)| name.ends_with(".frames_sent")).map(|(_, frames)| frames).sum()
}

/// Returns the maximum resident size of this process in kilobytes, which only Linux reports.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

/// Returns the case selected by `--once`.
fn once(arguments: &[String]) -> Option<Case> {
    let [option, name, count, ..] = arguments else { return None };
    let count = count.parse().ok().filter(|_| option == "--once")?;
    GROUPS.into_iter().map(|(case, _)| case(count)).find(|case| case.name == name)
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(case) = once(&arguments) {
        println!("{} {}", replicate(&read(&case)), most_memory());
        return;
    }
    let given: Vec<usize> = arguments.iter().filter_map(|part| part.parse().ok()).collect();
    let wanted: Vec<_> = arguments
        .iter()
        .filter(|part| !part.starts_with('-') && part.parse::<usize>().is_err())
        .collect();
    println!(
        "{:<28} {:>6} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8}",
        "", "count", "read ms", "build ms", "run ms", "build", "run", "frames", "a frame"
    );
    for (case, counts) in GROUPS {
        let name = case(1).name;
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(*part)) {
            continue;
        }
        let mut first = None;
        let counts = if given.is_empty() { &counts[..] } else { &given };
        for case in counts.iter().map(|&count| case(count)) {
            let scenario = read(&case);
            let reading = least(processor_time, || drop(read(&case)));
            let building = least(processor_time, || drop(metric_names(&scenario)));
            let mut frames = 0.0;
            let running = least(process_time, || frames = replicate(&scenario));
            let Case { name, count, .. } = case;
            let each = [building, running, frames].map(|cost| cost / count as f64);
            let known = *first.get_or_insert(each);
            let [build, run, more] = [0, 1, 2].map(|column| each[column] / known[column]);
            println!(
                "{name:<28} {count:>6} {:>10.3} {:>10.3} {:>10.1} {build:>8.2} {run:>8.2} {more:>8.2} {:>8.2}",
                reading * 1e3,
                building * 1e3,
                running * 1e3,
                run / more
            );
        }
    }
}
