//! Former names of keys in documents: see [`lasthop_base::schema::former`].

use super::model::ScenarioKeys;
use super::sweep::{CASE, ZIP};
use lasthop_base::schema::former::{Renamed, rename, rename_setting};
use lasthop_base::schema::keys::{Read, Table, join};
use serde_json::{Map, Value};

/// Converts all keys of a document, including its sweep, to their present names.
///
/// # Errors
/// If a table has a key by both names.
pub(super) fn rename_all(value: &mut Value, found: &mut Vec<Renamed>) -> Read<()> {
    let Value::Object(table) = value else {
        return Ok(());
    };
    rename(table, ScenarioKeys::KEYS, "", found)?;
    let Some(Value::Object(sweep)) = table.get_mut("sweep") else {
        return Ok(());
    };
    rename_settings(sweep, "sweep", rename_swept, found)?;
    if let Some(Value::Array(zips)) = sweep.get_mut(ZIP) {
        for zip in zips.iter_mut().filter_map(Value::as_object_mut) {
            rename_settings(zip, &join("sweep", ZIP), rename_swept, found)?;
        }
    }
    if let Some(Value::Object(cases)) = sweep.get_mut(CASE) {
        let path = join("sweep", CASE);
        for (name, case) in cases.iter_mut() {
            if let Value::Object(case) = case {
                rename_settings(case, &join(&path, name), rename_key, found)?;
            }
        }
    }
    Ok(())
}

/// Converts a dotted key and its value.
type RenameSetting = fn(&mut String, &mut Value, &str, &mut Vec<Renamed>) -> Read<()>;

/// Converts the dotted keys of a table at `path`, and their values, with `each`.
fn rename_settings(
    table: &mut Map<String, Value>,
    path: &str,
    each: RenameSetting,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    for (mut key, mut value) in std::mem::take(table) {
        each(&mut key, &mut value, path, found)?;
        table.insert(key, value);
    }
    Ok(())
}

/// Converts a dotted key and its value.
pub(super) fn rename_key(
    key: &mut String,
    value: &mut Value,
    path: &str,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    rename_setting(key, value, ScenarioKeys::KEYS, path, found)
}

/// Converts a dotted key and its swept values.
pub(super) fn rename_swept(
    key: &mut String,
    value: &mut Value,
    path: &str,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    let Value::Array(items) = value else {
        return rename_key(key, value, path, found);
    };
    let written = key.clone();
    for item in items {
        *key = written.clone();
        rename_key(key, item, path, found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Scenario;
    use super::super::document::Document;
    use lasthop_base::schema::ScenarioError;
    use serde_json::Value;
    use std::path::Path;

    const TEXT: &str = r#"name = "former"
[link.a]
between = ["server", "client"]
rate = "1 Mbps"
delay = "10 ms"
protocol = { kind = "stop-and-wait" }
agent = [{ kind = "snoop", at = "server" }, { kind = "adaptive-persistence", at = "server",
  stay_good = 0.9, stay_bad = 0.9, loss_good = 0.01, loss_bad = 0.9, NEW_LEAST = 0.1, weight = 0.5 }]

[flow.f]
from = "server"
to = "client"
app = { kind = "file", size = "10 kB" }
transport = { kind = "tcp", variant = "reno", NEW_LAW = { kind = "ideal-bandwidth", NEW_RTT = "9 ms" } }

[sweep]
case = { a = { "flow.f.transport.NEW_LAW" = "veno" }, b = { "flow.f.transport.hystart" = true } }
"link.a.agent" = [
  { kind = "adaptive-persistence", at = "server", stay_good = 0.9, stay_bad = 0.9, loss_good = 0.01,
    loss_bad = 0.9, NEW_LEAST = 0.2, NEW_GREATEST = 0.3 }, { kind = "snoop", at = "server" }]
"#;

    const NAMES: [(&str, &str, &str); 4] = [
        ("NEW_LEAST", "least_wired_loss", "min_wired_loss"),
        ("NEW_GREATEST", "greatest_wired_loss", "max_wired_loss"),
        ("NEW_LAW", "law", "congestion_control"),
        ("NEW_RTT", "round_trip", "rtt"),
    ];

    fn text(is_present: bool) -> String {
        NAMES.iter().fold(TEXT.to_owned(), |text, (name, former, present)| {
            text.replace(name, if is_present { present } else { former })
        })
    }

    fn read(text: &str) -> Result<Document, ScenarioError> {
        Scenario::from_file_text(text, Path::new("x.toml"), &Value::Null)
    }

    #[test]
    fn former_names_mean_the_present_ones_and_have_one_note_each() {
        let (former, present) = (read(&text(false)).unwrap(), read(&text(true)).unwrap());
        assert_eq!(former.to_json().to_string(), present.to_json().to_string());
        assert_eq!(former.points().unwrap(), present.points().unwrap());
        assert!(present.notes().is_empty());
        assert_eq!(
            former.notes(),
            [
                "x.toml:8: link.a.agent[1].least_wired_loss: renamed to `min_wired_loss`; the next \
                 minor version will reject `least_wired_loss`",
                "x.toml:14: flow.f.transport.law: renamed to `congestion_control`; the next minor \
                 version will reject `law`",
                "x.toml:14: flow.f.transport.congestion_control.round_trip: renamed to `rtt`; the \
                 next minor version will reject `round_trip`",
                "x.toml:20: sweep.\"link.a.agent\".greatest_wired_loss: renamed to \
                 `max_wired_loss`; the next minor version will reject `greatest_wired_loss`",
            ]
        );
    }

    #[test]
    fn settings_accept_former_names_of_keys_and_in_values() {
        let mut document = read(&text(true)).unwrap();
        document
            .set("flow.f.transport.law", "{ kind = \"ideal-bandwidth\", round_trip = \"8 ms\" }")
            .unwrap();
        assert_eq!(
            document.notes(),
            [
                "flow.f.transport.law: renamed to `congestion_control`; the next minor version will \
                 reject `law`",
                "flow.f.transport.congestion_control.round_trip: renamed to `rtt`; the next minor \
                 version will reject `round_trip`",
            ]
        );
        let written = document.to_json()["flow"]["f"]["transport"].to_string();
        assert!(
            written.contains(r#""congestion_control":{"kind":"ideal-bandwidth","rtt":"8 ms"}"#)
        );
        let mut swept = read(&text(true)).unwrap();
        swept.set("sweep.flow.f.transport.law", "[\"veno\", \"vegas\"]").unwrap();
        swept.set("sweep.case", "{ a = {} }").unwrap();
        let labels = |document: &Document| document.points().unwrap()[0].parameters[0].0.clone();
        assert_eq!(labels(&swept), "case");
        assert!(swept.to_json()["sweep"].get("flow.f.transport.congestion_control").is_some());
        assert_eq!(swept.points().unwrap().len(), 4);
    }

    #[test]
    fn a_key_by_both_names_is_an_error_with_its_line() {
        let both = text(true).replace("[sweep]", "[flow.f.x]\n[sweep]");
        let both = both.replace("variant = \"reno\",", "variant = \"reno\", law = \"veno\",");
        assert_eq!(
            read(&both).unwrap_err().to_string(),
            "x.toml:14: flow.f.transport.law: found \"law\" and \"congestion_control\", its present \
             name; expected \"congestion_control\" only"
        );
    }

    #[test]
    fn errors_have_the_present_name_and_the_line_of_the_former_one() {
        let bad =
            text(false).replace("law = { kind = \"ideal-bandwidth\"", "law = { kind = \"ideal\"");
        let error = read(&bad).unwrap_err().to_string();
        let expected = "x.toml:14: flow.f.transport.congestion_control.kind: found \"ideal\"";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn no_former_name_is_a_present_name_of_another_kind() {
        use lasthop_base::schema::keys::{Key, Shape};
        fn check(keys: &'static [Key], path: &str) -> usize {
            let unions = keys.iter().map(|key| {
                let path = format!("{path}.{}", key.name);
                match key.shape {
                    Shape::Table(keys) | Shape::Map(keys) => check(keys, &path),
                    Shape::Union(kinds) | Shape::UnionOr(kinds, _) | Shape::Unions(kinds) => {
                        let names = || kinds.iter().flat_map(|kind| kind.keys);
                        for former in names().filter_map(|key| key.was) {
                            assert!(names().all(|key| key.name != former), "{path}: {former}");
                        }
                        kinds.iter().map(|kind| check(kind.keys, &path)).sum()
                    }
                    _ => 0,
                }
            });
            keys.iter().filter(|key| key.was.is_some()).count() + unions.sum::<usize>()
        }
        use super::{ScenarioKeys, Table};
        assert!(check(ScenarioKeys::KEYS, "") > 5);
    }
}
