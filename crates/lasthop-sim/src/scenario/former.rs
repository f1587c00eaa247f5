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
