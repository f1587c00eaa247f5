//! The worked examples of `docs/extending.md` compile, run, and apply to the current crates.

#[path = "../examples/my_link.rs"]
#[allow(dead_code)]
mod my_link;

use lasthop::units::Probability;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_alternating_bit_protocol_has_its_efficiency() {
    // The number of failed attempts per packet is geometric with variance q / (1 - q)^2; each
    // attempt takes 200 ms of a mean of at least 131.75. Over 20 000 packets, one standard error is
    // below 0.6 % of the mean. 5 standard errors: false-positive rate below 1e-6 per point.
    for loss in [0.0, 0.01, 0.05, 0.1] {
        let loss = Probability::new(loss).expect("a literal in [0, 1]");
        let (measured, expected) = my_link::efficiency(loss, 20_000);
        assert!((measured / expected - 1.0).abs() < 0.03, "{loss}: {measured} {expected}");
    }
}

fn collect(root: &Path, directory: &Path, files: &mut HashMap<PathBuf, String>) {
    for entry in fs::read_dir(root.join(directory)).expect("a directory of a crate") {
        let name = directory.join(entry.expect("an entry").file_name());
        if root.join(&name).is_dir() {
            collect(root, &name, files);
        } else {
            let text = fs::read_to_string(root.join(&name)).expect("a text file");
            files.insert(name, text);
        }
    }
}

const PROGRAM: &str = r#"
use lasthop::{run::{Options, run}, scenario::Scenario};
fn main() {
    let text = include_str!("../../../../extended.toml");
    let document = Scenario::from_toml(text, std::path::Path::new(".")).expect("a scenario");
    let points: Vec<_> = document.points().expect("points").into_iter().map(|p| p.scenario).collect();
    let options = Options { replications: 3, first_replication: 0, seed: 1, jobs: 1 };
    let results = run(&points, &options, &mut |_| true).expect("a run");
    for (index, name) in results.metrics.iter().enumerate() {
        let sum: f64 = results.rows.iter().map(|row| row.values[index]).sum();
        println!("{name} {}", sum / results.rows.len() as f64);
    }
}
"#;

/// The examples that are a new file and one line elsewhere.
const PATCHES: [&str; 8] = [
    "alternating_bit",
    "every_nth",
    "drop_head",
    "scalable",
    "window_clamp",
    "lockstep",
    "request_response",
    "poisson",
];

/// The example of a metric, which is declared and filled in by the file that counts it.
const METRIC_PATCH: &str = "drop_fraction";

/// Returns the files that a patch creates, and the numbers of lines that it adds to and removes
/// from each other file.
fn changes(patch: &str) -> (Vec<String>, HashMap<String, [u32; 2]>) {
    let (mut new, mut changed) = (Vec::new(), HashMap::<String, [u32; 2]>::new());
    let (mut file, mut is_new) = (String::new(), false);
    for line in patch.lines() {
        if line.starts_with("--- ") {
            is_new = line == "--- /dev/null";
        } else if let Some(name) = line.strip_prefix("+++ b/") {
            file = name.to_owned();
            if is_new {
                new.push(file.clone());
            }
        } else if let Some(side) = line.chars().next().and_then(|mark| "+-".find(mark))
            && !is_new
        {
            changed.entry(file.clone()).or_default()[side] += 1;
        }
    }
    (new, changed)
}

/// Runs Cargo in the copy of the crates, with a separate target directory.
fn cargo(copy: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.env("CARGO_TARGET_DIR", "target").current_dir(copy);
    // Without debug information, which the test does not need, the build is shorter.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
    cargo
}

/// Runs a program of the copy, and returns its standard output.
fn printed(copy: &Path, program: &[&str]) -> String {
    let output = cargo(copy)
        .args(["run", "--quiet", "--offline"])
        .args(program)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the value of a metric that a program has printed.
fn metric(out: &str, name: &str) -> f64 {
    let line = out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {out}"))
}

/// Builds a crate outside the workspace, whose link protocol has frames of its own kind, and runs its simulation.
fn a_protocol_of_another_crate_runs(copy: &Path) {
    let folder = "docs/examples/own_protocol";
    // The versions of the workspace: there is no network.
    fs::copy(copy.join("Cargo.lock"), copy.join(folder).join("Cargo.lock")).expect("a lock file");
    let out = printed(copy, &["--manifest-path", &format!("{folder}/Cargo.toml")]);
    let forward = |name: &str| metric(&out, &format!("link.air.forward.{name}"));
    assert_eq!(metric(&out, "flow.transfer.delivered_bytes"), 200_000.0);
    // The link repairs every loss, so that TCP has nothing to retransmit.
    assert_eq!(metric(&out, "flow.transfer.retransmissions"), 0.0);
    // A transmission fails with q = 1 - (1 - p)^2, frame or ACK. The failures of a packet have the mean q / (1 - q) and the
    // variance q / (1 - q)^2: 5 standard deviations of three replications, false-positive rate below 1e-6.
    let q = 1.0 - 0.9 * 0.9;
    let sent = forward("data_frames");
    let deviation = (q / ((1.0 - q) * (1.0 - q)) / (3.0 * sent)).sqrt();
    let found = forward("retransmissions") / sent;
    assert!((found - q / (1.0 - q)).abs() < 5.0 * deviation, "{found} {deviation}");
}

/// Copies the crates, follows the page step by step, builds the copy and runs a scenario with both
/// examples.
fn the_recipes_apply_build_and_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = HashMap::new();
    for directory in ["crates", "docs/examples"] {
        collect(&root, Path::new(directory), &mut files);
    }
    for name in ["Cargo.toml", "Cargo.lock"] {
        let text = fs::read_to_string(root.join(name)).expect("a manifest");
        // The copy is a workspace without the Python module.
        files.insert(name.into(), text.replace("    \"crates/lasthop-py\",\n", ""));
    }
    files.retain(|name, _| !name.starts_with("crates/lasthop-py"));
    let page = |files: &HashMap<PathBuf, String>, name: &str| files[Path::new(name)].clone();
    let new = [
        ("extended.toml", page(&files, "docs/examples/extended.toml")),
        ("crates/lasthop/src/bin/extended.rs", PROGRAM.to_owned()),
    ];
    files.extend(new.map(|(name, text)| (name.into(), text)));

    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extending");
    // Files deleted from the crates must not remain in the copy. Unchanged files keep their time,
    // so that the next build is short.
    let mut old = HashMap::new();
    if copy.join("crates").is_dir() {
        collect(&copy, Path::new("crates"), &mut old);
    }
    for name in old.keys().filter(|name| !files.contains_key(*name)) {
        fs::remove_file(copy.join(name)).expect("an old file");
    }
    for (name, text) in &files {
        let path = copy.join(name);
        if fs::read_to_string(&path).is_ok_and(|old| old == *text) {
            continue;
        }
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    for name in PATCHES.into_iter().chain([METRIC_PATCH]) {
        let patch = format!("docs/examples/{name}.patch");
        let (new, changed) = changes(&page(&files, &patch));
        let changed: Vec<_> = changed.into_values().collect();
        if name == METRIC_PATCH {
            // A description, a declaration and a value.
            assert_eq!((new.len(), changed.as_slice()), (0, [[3, 0]].as_slice()), "{patch}");
        } else {
            assert_eq!(new.len(), 1, "{patch}");
            assert_eq!(changed, [[1, 0]], "{patch}: one line more");
        }
        // The copy is inside a work tree, which git must not use.
        let done = Command::new("git")
            .args(["apply", &patch])
            .env("GIT_CEILING_DIRECTORIES", env!("CARGO_TARGET_TMPDIR"))
            .current_dir(&copy)
            .status()
            .expect("git runs");
        assert!(done.success(), "{patch} does not apply");
    }
    let out = printed(&copy, &["-p", "lasthop", "--bin", "extended"]);
    let metric = |name: &str| metric(&out, name);
    assert_eq!(metric("flow.transfer.complete"), 1.0);
    assert_eq!(metric("flow.transfer.delivered_bytes"), 200_000.0);
    assert!(metric("flow.transfer.fast_retransmits") >= 1.0, "{out}");
    assert!(metric("link.wireless.forward.retransmissions") >= 1.0, "{out}");
    assert_eq!(metric("link.wireless.forward.nacks"), 0.0);
    assert!(metric("agent.wireless.2.clamped") >= 1.0, "{out}");
    assert!(metric("link.wireless.forward.queue_drops") >= 1.0, "{out}");
    // The means of three replications: that of the ratios is near the ratio of the means.
    let [dropped, sent, fraction] = ["queue_drops", "frames_sent", "drop_fraction"]
        .map(|name| metric(&format!("link.wireless.forward.{name}")));
    assert!((fraction / (dropped / (dropped + sent)) - 1.0).abs() < 0.2, "{out}");
    // The counts of three replications are those of a Poisson process: 5 standard deviations,
    // false-positive rate below 1e-6.
    let expected = metric("flow.background.duration_s") / 0.1;
    let sent = metric("flow.background.packets_sent");
    assert!((sent - expected).abs() < 5.0 * (expected / 3.0).sqrt(), "{out}");
    let delivered = metric("flow.background.packets_delivered");
    assert!(1.0 <= delivered && delivered <= sent, "{out}");
    assert!((metric("flow.background.delivered_bytes") - 40.0 * delivered).abs() < 1e-6, "{out}");
    // Every 100th data frame on the wired link is lost.
    let sent = metric("link.wired.forward.frames_sent");
    assert!((metric("link.wired.forward.frames_lost") - sent / 100.0).abs() < 1.0, "{out}");
    // Twenty responses of 2 kB, each of which takes at least 250 ms on the last link; between them the client thinks for
    // 100 ms. Over full-duplex connections, over pairs of one-way connections, and over a transport of real bytes.
    for flow in ["dialogue", "ns-2", "bytes"] {
        let metric = |name: &str| metric(&format!("flow.{flow}.{name}"));
        assert_eq!((metric("responses"), metric("delivered_bytes")), (20.0, 40_000.0), "{flow}");
        let response_time = metric("response_time_mean_s");
        assert!(response_time > 0.25, "{flow}: {response_time}");
        let expected = 20.0 * response_time + 19.0 * 0.1;
        assert!((metric("duration_s") - expected).abs() < 1e-6, "{flow}: {out}");
    }
    // A request in one packet and a response in four, and whatever was lost again.
    let [sent, again] =
        ["data_sent", "data_retransmitted"].map(|name| metric(&format!("flow.bytes.{name}")));
    assert!(again > 0.0 && sent == 100.0 + again, "{out}");
    assert_eq!(metric("flow.bytes.bytes_wrong"), 0.0, "{out}");
    a_protocol_of_another_crate_runs(&copy);
}

mod slow {
    #[test]
    fn the_recipes_apply_build_and_run() {
        super::the_recipes_apply_build_and_run();
    }
}
