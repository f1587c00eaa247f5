//! Equal scenarios and equal seeds yield identical bits: with any number of threads, from TOML and
//! from JSON, in debug and in release builds, for any order of links and flows in the file, and across
//! versions (the golden file).
//!
//! After an intended change of behaviour, write the golden file again and examine the differences:
//! `make golden golden-diff`; see `tests/golden/README.md`.

use crate::golden_cells::{CELLS, cell, cells};
use lasthop::run::{self, Options, Results};
use lasthop::scenario::Scenario;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn scenarios(text: &str) -> Vec<Scenario> {
    let document = Scenario::from_toml(text, Path::new("."));
    let points = document.and_then(|document| document.points());
    let points = points.unwrap_or_else(|error| panic!("{error}\n{text}"));
    points.into_iter().map(|point| point.scenario).collect()
}

fn run(scenarios: &[Scenario], replications: u64, jobs: usize) -> Results {
    let options = Options { replications, first_replication: 0, seed: 7, jobs };
    run::run(scenarios, &options, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the bits of every value of every row.
fn bits(results: &Results) -> Vec<(u32, u64, Vec<u64>)> {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect();
    results.rows.iter().map(|row| (row.point, row.replication, bits(&row.values))).collect()
}

/// All cells as one run.
fn all() -> Vec<Scenario> {
    cells().flat_map(|(_, text)| scenarios(&text)).collect()
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/metrics.csv")
}

#[test]
fn the_golden_file_holds_in_every_build() {
    let mut text = String::from("scenario,replication,metric,bits,value\n");
    for (name, cell) in cells() {
        let results = run(&scenarios(&cell), 2, 2);
        assert!(results.complete);
        for row in &results.rows {
            for (metric, value) in results.metrics.iter().zip(&row.values) {
                let (replication, bits) = (row.replication, value.to_bits());
                writeln!(text, "{name},{replication},{metric},{bits:016x},{value}").unwrap();
            }
        }
    }
    let path = golden_path();
    if std::env::var_os("LASTHOP_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let key = |line: &str| line.rsplitn(3, ',').last().unwrap_or("").to_owned();
    let (ours, theirs): (Vec<_>, Vec<_>) = (text.lines().collect(), golden.lines().collect());
    let differ: Vec<String> = ours
        .iter()
        .zip(&theirs)
        .filter(|(ours, theirs)| ours != theirs)
        .map(|(ours, theirs)| format!("golden {theirs}\nnow    {ours}"))
        .take(10)
        .collect();
    assert!(differ.is_empty(), "see the top of this file\n{}", differ.join("\n"));
    assert_eq!(ours.len(), theirs.len(), "last {:?}", ours.last().map(|line| key(line)));
}

#[test]
fn threads_change_no_bit_nor_the_order_of_rows() {
    let scenarios = all();
    let one = run(&scenarios, 3, 1);
    for jobs in [2, 5] {
        let several = run(&scenarios, 3, jobs);
        assert_eq!(one.metrics, several.metrics);
        assert_eq!(bits(&one), bits(&several), "{jobs} threads");
    }
    let order: Vec<_> = one.rows.iter().map(|row| (row.point, row.replication)).collect();
    assert!(order.is_sorted() && order.len() == 3 * cells().count());
}

#[test]
fn a_replication_does_not_depend_on_those_before_it() {
    let scenarios = scenarios(&cell(&CELLS[1]));
    let all = run(&scenarios, 4, 2);
    let options = Options { replications: 1, first_replication: 3, seed: 7, jobs: 1 };
    let last = run::run(&scenarios, &options, &mut |_| true).unwrap();
    assert_eq!(bits(&last)[0], bits(&all)[3]);
    assert_ne!(bits(&all)[0].2, bits(&all)[3].2, "replications differ");
    let other = run::run(&scenarios, &Options { seed: 8, ..options }, &mut |_| true).unwrap();
    assert_ne!(bits(&other)[0].2, bits(&last)[0].2, "seeds differ");
}

#[test]
fn toml_and_json_say_the_same() {
    for known in &CELLS {
        let document = Scenario::from_toml(&cell(known), Path::new(".")).unwrap();
        let json = Scenario::from_json(document.to_json().clone(), Path::new(".")).unwrap();
        let [toml, json] = [document, json].map(|document| {
            let points = document.points().unwrap();
            points.into_iter().map(|point| point.scenario).collect::<Vec<_>>()
        });
        assert_eq!(toml, json);
    }
    let known = &CELLS[2];
    let document = Scenario::from_toml(&cell(known), Path::new(".")).unwrap();
    let json = Scenario::from_json(document.to_json().clone(), Path::new(".")).unwrap();
    let json: Vec<_> = json.points().unwrap().into_iter().map(|point| point.scenario).collect();
    assert_eq!(bits(&run(&scenarios(&cell(known)), 1, 1)), bits(&run(&json, 1, 1)));
}

/// Links, flows, and distinct start times: simultaneous events are processed in file order.
fn pieces() -> (Vec<&'static str>, Vec<String>) {
    let links = vec![
        r#"
        [link.left]
        between = ["server", "ap"]
        rate = "9.9 Mbps"
        delay = "1 ms"
        "#,
        r#"
        [link.middle]
        between = ["ap", "relay"]
        rate = "640 kbps"
        delay = "7 ms"
        errors = { kind = "uniform", loss = "1 %" }
        "#,
        r#"
        [link.right]
        between = ["relay", "client"]
        rate = "500 kbps"
        delay = "50 ms"
        protocol = { kind = "selective-repeat" }
        errors = { kind = "two-state", good = "2 s", bad = "100 ms", good_ber = 1e-6, bad_ber = 1e-2 }
        "#,
    ];
    let tcp = |name: &str, start: &str, kind: &str, app: &str| {
        format!(
            r#"
            [flow.{name}]
            from = "server"
            to = "client"
            start = "{start}"
            transport = {{ kind = "tcp", {kind} }}
            app = {app}
            "#
        )
    };
    let udp = |name: &str, to: &str, start: &str| {
        format!(
            r#"
            [flow.{name}]
            from = "server"
            to = "{to}"
            start = "{start}"
            transport = {{ kind = "udp" }}
            app = {{ kind = "on-off", rate = "123457 bps", on = "exp 0.31 s", off = "exp 0.7 s", packet = "251 B" }}
            "#
        )
    };
    let flows = vec![
        tcp(
            "one",
            "0 s",
            r#"variant = "reno", profile = "ns-2", segment = "253 B""#,
            r#"{ kind = "file", size = "700 kB" }"#,
        ),
        tcp(
            "two",
            "1.234567 ms",
            r#"variant = "sack", profile = "rfc", segment = "509 B""#,
            r#"{ kind = "file", size = "700 kB" }"#,
        ),
        tcp(
            "three",
            "77.1237 ms",
            r#"variant = "newreno", profile = "ns-2", segment = "247 B""#,
            r#"{ kind = "web", connections = 2 }"#,
        ),
        udp("four", "ap", "3.7 ms"),
        udp("five", "client", "9.1 ms"),
    ];
    (links, flows)
}

#[test]
fn the_order_of_links_and_flows_in_the_file_changes_nothing() {
    let (links, flows) = pieces();
    let metrics = |links: &[usize], flow_order: &[usize]| -> BTreeMap<String, u64> {
        let (known_links, known_flows) = pieces();
        let mut text = String::from("name = \"order\"\n");
        links.iter().for_each(|&index| text += known_links[index]);
        flow_order.iter().for_each(|&index| text += &known_flows[index]);
        text += "[run]\nduration = \"60 s\"\n";
        let results = run(&scenarios(&text), 1, 1);
        let values = results.rows[0].values.iter().map(|value| value.to_bits());
        results.metrics.iter().cloned().zip(values).collect()
    };
    assert_eq!((links.len(), flows.len()), (3, 5));
    let usual = metrics(&[0, 1, 2], &[0, 1, 2, 3, 4]);
    assert!(usual.len() > 40);
    for (links, flows) in [
        ([2, 1, 0], [0, 1, 2, 3, 4]),
        ([0, 1, 2], [4, 3, 2, 1, 0]),
        ([1, 2, 0], [1, 0, 3, 2, 4]),
        ([1, 0, 2], [2, 4, 0, 3, 1]),
    ] {
        let other = metrics(&links, &flows);
        let differ: Vec<_> = usual.iter().filter(|(name, bits)| other[*name] != **bits).collect();
        assert!(differ.is_empty(), "{links:?} {flows:?}: {differ:?}");
    }
}

/// Adding a flow on another link does not change the random numbers of the others.
#[test]
fn another_flow_on_another_link_changes_nothing() {
    let base = cell(&CELLS[0]);
    let more = r#"
        [link.aside]
        between = ["server", "elsewhere"]
        rate = "1 Mbps"
        delay = "1 ms"
        [flow.aside]
        from = "server"
        to = "elsewhere"
        start = "0.13 ms"
        transport = { kind = "tcp", variant = "reno", profile = "rfc" }
        app = { kind = "file", size = "1 kB" }
        "#;
    let extended = base.replacen("[flow.transfer]", &format!("{more}\n[flow.transfer]"), 1);
    let [alone, together] = [base, extended].map(|text| run(&scenarios(&text), 2, 1));
    for (index, metric) in alone.metrics.iter().enumerate() {
        let place = together.metrics.iter().position(|name| name == metric).unwrap();
        for (alone, together) in alone.rows.iter().zip(&together.rows) {
            let (alone, together) = (alone.values[index], together.values[place]);
            assert_eq!(alone.to_bits(), together.to_bits(), "{metric}: {alone} and {together}");
        }
    }
}
