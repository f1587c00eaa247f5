//! Invalid scenarios are rejected with location, value found and values allowed; the reader never
//! panics on mutated scenarios.

use lasthop::scenario::{Document, Scenario, ScenarioError};
use proptest::prelude::*;
use std::path::Path;

const BASE: &str = include_str!("../../../../examples/sr-file-transfer.toml");
const CASES: &str = include_str!("data/bad-scenarios.toml");

fn base() -> Document {
    Scenario::from_toml(BASE, Path::new(".")).unwrap()
}

fn texts(value: &toml::Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the error of one case of the table.
fn refuse(case: &toml::Value) -> Result<(), ScenarioError> {
    if let Some(text) = case.get("text") {
        return Scenario::from_toml(text.as_str().unwrap(), Path::new(".")).map(|_| ());
    }
    if let Some(key) = case.get("without") {
        let mut json = base().to_json().clone();
        json.as_object_mut().unwrap().remove("sweep");
        let pointer = format!("/{}", key.as_str().unwrap().replace('.', "/"));
        let (table, key) = pointer.rsplit_once('/').unwrap();
        json.pointer_mut(table).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        return Scenario::from_json(json, Path::new(".")).map(|_| ());
    }
    let mut document = base();
    for (key, value) in case["set"].as_table().unwrap() {
        document.set(key, value.as_str().unwrap())?;
    }
    document.points().map(|_| ())
}

#[test]
fn bad_scenarios_are_refused_with_key_found_and_allowed() {
    let table: toml::Table = CASES.parse().unwrap();
    let cases = table["case"].as_array().unwrap();
    assert!(cases.len() >= 60);
    let mut wrong = Vec::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        match refuse(case) {
            Ok(()) => wrong.push(format!("{name}: not refused")),
            Err(error) => {
                let message = error.to_string();
                let complete = message.contains("; expected ") && !message.contains('\n');
                let parts = texts(&case["expect"]);
                if !complete || !parts.iter().all(|part| message.contains(part)) {
                    wrong.push(format!("{name}: {message}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn broken_traces_name_the_line() {
    let dir = std::env::temp_dir().join(format!("lasthop-traces-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    file("plain", "# recorded\n0\nlost\nok\n\n");
    file("columns", "time, lost\n0.1,0\n0.2, 1\n");
    file("broken", "0\n1\n2\n");
    file("hole", "0\n\n1\n");
    file("twice", "lost,time,lost\n0,0.1,0\n");
    file("short", "time,lost\n0.1,0\n0.2\n");
    file("quote", "time,lost\n0.1,\"0\n");
    file("empty", "# nothing\n");
    let load = |errors: &str| {
        let header = format!("[link.wired]\nerrors = {{ kind = \"trace\", {errors} }}");
        let text = BASE.replacen("[link.wired]", &header, 1);
        Scenario::from_toml(&text, &dir).and_then(|document| document.points())
    };
    for errors in [
        "file = \"plain\"",
        "file = \"plain\", start = \"random\"",
        "file = \"plain\", start = 2",
        "file = \"columns\", column = \"lost\", at_end = \"clean\"",
    ] {
        assert_eq!(load(errors).unwrap().len(), 8);
    }
    for (errors, parts) in [
        ("file = \"broken\"", ["errors.file: found \"2\" in line 3 of \"broken\"", "1 or lost"]),
        ("file = \"hole\"", ["errors.file: found \"\" in line 2 of \"hole\"", "0 or ok"]),
        (
            "file = \"short\", column = \"lost\"",
            ["errors.file: found 1 column in line 3 of \"short\"", "at least 2 columns"],
        ),
        (
            "file = \"quote\", column = \"lost\"",
            ["errors.file: found a misplaced double quote in line 2", "quoted as a whole"],
        ),
        ("file = \"empty\"", ["errors.file: found no frame in \"empty\"", "one line per frame"]),
        (
            "file = \"twice\", column = \"lost\"",
            [
                "errors.column: found \"lost\", which names 2 columns of \"twice\"",
                "a name that only one column has",
            ],
        ),
        (
            "file = \"columns\", column = \"loss\"",
            [
                "errors.column: found \"loss\", which is not a column of \"columns\"",
                "the file's columns: time, lost",
            ],
        ),
        (
            "file = \"plain\", start = 3",
            ["errors.start: found 3", "up to 2, the last frame of \"plain\""],
        ),
        ("file = \"plain\", start = \"first\"", ["errors.start: found \"first\"", "\"random\""]),
        (
            "file = \"plain\", start = \"random\", at_end = \"clean\"",
            ["errors.start: found \"random\" with at_end = \"clean\"", "0 for the first"],
        ),
        ("file = \"columns\"", ["found text that is not a number in line 1", "1 or lost"]),
    ] {
        let message = load(errors).unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn lines_and_sweep_values_are_those_of_the_error() {
    let message = |from: &str, to: &str| {
        assert!(BASE.contains(from));
        let text = BASE.replacen(from, to, 1);
        Scenario::from_toml(&text, Path::new(".")).unwrap_err().to_string()
    };
    let line = |of: &str| {
        let before = &BASE[..BASE.find(of).unwrap()];
        format!("(line {})", before.matches('\n').count() + 1)
    };
    // Errors unrelated to the sweep do not mention it.
    let error = message("64 kbps", "64 kbit");
    assert!(error.ends_with(&line("rate = \"64 kbps\"")) && !error.contains("sweep"), "{error}");
    // The line of an invalid swept value is that of the sweep, not that of the value it replaces.
    let error = message("\"1 s\"]", "\"1 sec\"]");
    assert!(error.ends_with(&line("\"link.wireless.errors.bad\"")), "{error}");
    assert!(error.contains("[in sweep: link.wireless.errors.bad = \"1 sec\"]"), "{error}");
    // An error elsewhere that a swept value causes names that value.
    let error = message("profile", "sack_recovery = \"ns-2\", profile");
    assert!(error.contains("flow.transfer.transport.sack_recovery"), "{error}");
    assert!(error.contains("flow.transfer.transport.variant = \"reno\""), "{error}");
}

#[test]
fn a_grid_beyond_all_patience_is_refused() {
    let seconds = (1..=1001).map(|n| format!("\"{n} s\"")).collect::<Vec<_>>().join(", ");
    let mut document = base();
    document.set("sweep.link.wireless.errors.bad", &format!("[{seconds}]")).unwrap();
    document.set("sweep.link.wireless.errors.good", &format!("[{seconds}]")).unwrap();
    let error = document.points().unwrap_err().to_string();
    assert!(error.contains("sweep: found a grid of 1001 × 2 × 1001 points"), "{error}");
    assert!(error.contains("expected up to 1000000 points"), "{error}");
}

#[test]
fn trees_of_any_depth_are_refused_in_peace() {
    let deep = "a.".repeat(3_000) + "a";
    let lists = format!("name = {}{}", "[".repeat(20_000), "]".repeat(20_000));
    let tables = format!("name = {}", "{ a = ".repeat(20_000));
    for text in [format!("{deep} = 1"), format!("[{deep}]"), lists, tables] {
        assert!(Scenario::from_toml(&text, Path::new(".")).is_err());
    }
    assert!(base().set(&format!("link.{deep}"), "1").is_err());
    assert!(base().set("name", &"[".repeat(20_000)).is_ok(), "plain text");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn mutated_scenarios_never_panic(
        edits in prop::collection::vec((0usize..2000, 0usize..4, any::<u8>()), 1..8),
    ) {
        let mut bytes = BASE.as_bytes().to_vec();
        for (at, length, byte) in edits {
            let at = at % bytes.len();
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, [byte]);
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(document) = Scenario::from_toml(&text, Path::new(".")) {
            let _ = document.points();
        }
    }

    #[test]
    fn arbitrary_settings_never_panic(key in "(link|flow|run|sweep|name)(\\.[a-z\"]{0,8}){0,4}", text in ".{0,20}") {
        let mut document = base();
        if document.set(&key, &text).is_ok() {
            let _ = document.points();
        }
    }

    #[test]
    fn arbitrary_values_in_place_of_others_never_panic(
        key in prop::sample::select(vec![
            "link", "flow", "sweep", "run", "link.wireless", "link.wireless.rate",
            "link.wireless.errors", "link.wireless.errors.kind", "link.wireless.protocol.window",
            "flow.transfer.transport", "flow.congestion.app.on", "flow.transfer.from",
        ]),
        value in prop::sample::select(vec![
            "[]", "{}", "1", "-1", "1e300", "true", "''", "[[1]]", "{ kind = 1 }", "99999 h",
            "é", "{ \"a b\" = {} }", "18446744073709551616 packets",
        ]),
    ) {
        let mut document = base();
        if document.set(key, value).is_ok() {
            let _ = document.points();
        }
    }
}

/// JSON keeps the last bit of a number, as TOML does: one scenario, one hash.
#[test]
fn json_keeps_the_last_bit_of_a_number() {
    let mut state = 1u64;
    for _ in 0..300 {
        // Knuth's MMIX generator: numbers with all their digits.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let loss = (state >> 11) as f64 / (1u64 << 53) as f64;
        let value: serde_json::Value = serde_json::from_str(&format!("{loss:?}")).unwrap();
        assert_eq!(value.as_f64().map(f64::to_bits), Some(loss.to_bits()), "{loss:?}");
    }
}
