//! Tables that describe several flows or stations, and scenarios that extend others.

use lasthop::run::{Options, run};
use lasthop::scenario::*;
use std::path::{Path, PathBuf};

const CELL: &str = r#"
name = "cell"
[wlan.cell]
access_point = "ap"
STATIONS
[link.wired]
between = ["server", "ap"]
rate = "100 Mbps"
delay = "5 ms"
errors = { kind = "uniform", loss = "2 %" }
[run]
duration = "2 s"
"#;
const KEYS: &str = r#"
transport = { kind = "tcp", variant = "sack", profile = "rfc" }
app = { kind = "file", size = "60 kB" }
"#;

fn load(text: &str) -> Result<Document, ScenarioError> {
    Scenario::from_toml(text, Path::new("."))
}

fn repeated(count: u32) -> String {
    let stations = format!("stations = [\"d##\"]\ncount = {count}");
    CELL.replace("STATIONS", &stations)
        + &format!("[flow.f]\nfrom = \"server\"\nto = \"d##\"\ncount = {count}\n")
        + "start = \"10 ms\"\nspacing = \"70 ms\"\n"
        + KEYS
}

fn one_by_one(count: u32) -> String {
    let names: Vec<_> = (1..=count).map(|number| format!("\"d{number:02}\"")).collect();
    let mut text = CELL.replace("STATIONS", &format!("stations = [{}]", names.join(", ")));
    for number in 1..=count {
        let start = 10 + 70 * (number - 1);
        text += &format!("[flow.f{number}]\nfrom = \"server\"\nto = \"d{number:02}\"\n");
        text += &format!("start = \"{start} ms\"\n{KEYS}");
    }
    text
}

fn results(text: &str) -> (Vec<String>, Vec<f64>) {
    let point = load(text).unwrap().points().unwrap().remove(0).scenario;
    let options = Options { replications: 1, first_replication: 0, seed: 3, jobs: 1 };
    let mut results = run(&[point], &options, &mut |_| true).unwrap();
    (results.metrics, results.rows.remove(0).values)
}

#[test]
fn a_table_with_count_gives_the_bytes_of_its_flows_and_their_aggregates() {
    let (names, values) = results(&repeated(11));
    let (single_names, single_values) = results(&one_by_one(11));
    let own = single_names.len();
    assert_eq!(names[..own], single_names);
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&values[..own]), bits(&single_values));
    let value = |name: String| values[names.iter().position(|one| *one == name).expect(&name)];
    let each = |metric| (1..=11).map(move |number| value(format!("flow.f{number}.{metric}")));
    let sum: f64 = each("goodput_bps").sum();
    assert!((value("flows.f.goodput_bps".into()) / sum - 1.0).abs() < 1e-12);
    let mean = each("complete").sum::<f64>() / 11.0;
    assert!((value("flows.f.complete".into()) - mean).abs() < 1e-12);
    assert!(names[own..].iter().all(|name| name.starts_with("flows.f.")), "{names:?}");
}

#[test]
fn a_resolved_scenario_with_count_reads_back() {
    let point = load(&repeated(3)).unwrap().points().unwrap().remove(0).scenario;
    let written = point.to_json();
    assert_eq!(written["flow"]["f"]["count"], 3);
    let again = Scenario::from_json(written, Path::new(".")).unwrap();
    assert_eq!(again.points().unwrap()[0].scenario, point);
}

#[test]
fn slips_of_repetition_name_the_key() {
    let refusal =
        |from: &str, to: &str| load(&repeated(3).replace(from, to)).expect_err(to).to_string();
    for (from, to, found) in [
        ("count = 3\nstart", "start", "flow.f.spacing: found \"70 ms\" without the key count"),
        (
            "count = 3\nstart = \"10 ms\"\nspacing = \"70 ms\"",
            "",
            "flow.f.to: found \"d##\" without",
        ),
        ("count = 3\nstart", "count = 4\nstart", "flow.f.to: found \"d04\""),
        ("[\"d##\"]", "[\"d01\"]", "wlan.cell.count: found 3; expected no such key"),
        ("[\"d##\"]\ncount = 3", "[\"d##\"]", "wlan.cell.stations: found \"d##\""),
        ("[\"d##\"]", "[\"d##\", \"d02\"]", "wlan.cell.stations: found \"d02\" twice"),
        ("count = 3\nstart", "count = 0\nstart", "flow.f.count: found 0"),
    ] {
        let error = refusal(from, to);
        assert!(error.contains(found), "{error}");
    }
    let other = repeated(3) + "[flow.f2]\nfrom = \"server\"\nto = \"d01\"\n" + KEYS;
    let error = load(&other).unwrap_err().to_string();
    assert!(error.contains("found the flow \"f2\", which \"f\" contains too"), "{error}");
}

/// Files in a temporary folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, String)]) -> Folder {
        let folder = std::env::temp_dir().join(format!("lasthop-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Folder(folder)
    }

    fn load(&self, text: &str) -> Result<Document, ScenarioError> {
        Scenario::from_toml(text, &self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that remains is not an error of the test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_variant_changes_only_its_own_keys() {
    let base = one_by_one(2) + "[sweep]\n\"link.wired.rate\" = [\"1 Mbps\", \"2 Mbps\"]\n";
    let losses = "[link.wired.errors]\nkind = \"trace\"\nfile = \"lost.txt\"\n";
    let inner = format!("extends = \"../base.toml\"\n{losses}");
    let folder = Folder::new(
        "variants",
        &[
            ("base.toml", base.clone()),
            ("more/inner.toml", inner),
            ("more/lost.txt", "0\n1\n".into()),
        ],
    );
    let scenario = |text: &str| folder.load(text).unwrap().points().unwrap().remove(0).scenario;
    // A key of a table; a swept key is no longer swept.
    let text = "extends = \"base.toml\"\nname = \"slow\"\n[link.wired]\nrate = \"3 Mbps\"\n";
    let document = folder.load(text).unwrap();
    assert_eq!(document.points().unwrap().len(), 1);
    let mut expected = load(&base).unwrap();
    expected.set("name", "slow").unwrap();
    expected.set("link.wired.rate", "3 Mbps").unwrap();
    assert_eq!(scenario(text), expected.points().unwrap().remove(0).scenario);
    assert!(document.to_json().get("extends").is_none());
    // A key of a kind keeps the others, another kind replaces the table.
    let lossy = scenario("extends = \"base.toml\"\n[link.wired.errors]\nloss = \"7 %\"\n");
    let kind = scenario("extends = \"base.toml\"\n[link.wired]\nerrors = \"none\"\n");
    let errors = |scenario: &Scenario| scenario.to_json()["link"]["wired"]["errors"].to_string();
    assert!(errors(&lossy).contains("0.07"), "{}", errors(&lossy));
    assert!(errors(&kind).contains("none"), "{}", errors(&kind));
    // Names of files are relative to the file that contains them.
    let through = scenario("extends = \"more/inner.toml\"\n");
    assert!(errors(&through).contains("more/lost.txt"), "{}", errors(&through));
}

#[test]
fn errors_of_extended_files_name_them() {
    let folder = Folder::new(
        "extended",
        &[
            ("bad.toml", repeated(2).replace("100 Mbps", "100 Mops")),
            ("broken.toml", "name = \n".to_owned()),
            ("a.toml", "extends = \"b.toml\"\n".to_owned()),
            ("b.toml", "extends = \"a.toml\"\n".to_owned()),
            ("list.json", "[]".to_owned()),
        ],
    );
    for (file, found) in [
        ("bad.toml", "link.wired.rate: found \"100 Mops\""),
        ("bad.toml", "bad.toml:9: link.wired.rate: "),
        ("broken.toml", "broken.toml:1:8: scenario: found broken TOML"),
        ("a.toml", "b.toml:1: extends: found \"a.toml\", which extends itself"),
        ("missing.toml", "extends: found \"missing.toml\", which cannot be read: No such file"),
        ("list.json", "extends: found \"list.json\", which contains an empty list"),
        (".", "which cannot be read: no regular file"),
    ] {
        let error = folder.load(&format!("extends = \"{file}\"\n")).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
    let error = load(&repeated(2)).unwrap().set("extends", "a.toml").unwrap_err().to_string();
    assert!(error.contains("the key belongs in the scenario file"), "{error}");
}
