//! Variants of scenarios: the key `extends` names a file, whose keys apply unless they are given.
//!
//! Tables are merged key by key; all other values are replaced. A table with another `kind` replaces
//! the whole table. A key that the extended scenario sweeps and the extending one sets is no longer
//! swept, as with `--set`. The result is a document without the key `extends`.

use super::dotted_keys::{is_kind, unsweep};
use super::former::rename_all;
use super::text::{parse_json, parse_toml};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::files::read_text;
use lasthop_base::schema::former::Renamed;
use lasthop_base::schema::keys::{Read, join, show};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The key that names the extended file.
const EXTENDS: &str = "extends";
const ALLOWED: &str = "the name of a scenario file, relative to this one";

/// Maximum number of files that extend each other.
const MOST_FILES: usize = 16;

/// A document with the keys of the files that it extends.
pub(super) struct Extended {
    pub(super) value: Value,
    /// Lines and files of the keys of the extended files, by dotted path.
    pub(super) places: HashMap<String, (u32, Arc<str>)>,
}

/// Returns the document `value`, in which former names of keys have been replaced, with the keys of
/// the file that its key `extends` names; `None` without this key. File names in the result are
/// relative to `base_dir`. Adds the former names in the extended files to `found`.
///
/// # Errors
/// If a file cannot be read, is not a document, or extends itself. The error has the file and the
/// line of its cause, unless it is in `value`.
pub(super) fn resolve(
    value: &Value,
    base_dir: &Path,
    found: &mut Vec<Renamed>,
) -> Read<Option<Extended>> {
    match value.get(EXTENDS) {
        None => Ok(None),
        Some(_) => merged(value.clone(), base_dir, &mut Vec::new(), found).map(Some),
    }
}

/// Like [`resolve`], for the document of the last one of `files`, which is in `folder`.
fn merged(
    mut value: Value,
    folder: &Path,
    files: &mut Vec<PathBuf>,
    found: &mut Vec<Renamed>,
) -> Read<Extended> {
    let Some(named) = value.as_object_mut().and_then(|table| table.shift_remove(EXTENDS)) else {
        return Ok(Extended { value, places: HashMap::new() });
    };
    let error = |found: String, allowed: &str| ScenarioError::new(EXTENDS, found, allowed);
    let Some(name) = named.as_str().filter(|name| !name.is_empty()) else {
        return Err(error(show(&named), ALLOWED));
    };
    let path = if folder == Path::new(".") { PathBuf::from(name) } else { folder.join(name) };
    let text = read_text(&path).map_err(|reason| {
        let reason = reason.to_string();
        let reason = reason.split(" (os error").next().unwrap_or_default();
        error(format!("{name:?}, which cannot be read: {reason}"), ALLOWED)
    })?;
    let identity = path.canonicalize().unwrap_or_else(|_| path.clone());
    if files.contains(&identity) {
        let found = format!("{name:?}, which extends itself");
        return Err(error(found, "a file that does not extend this one"));
    }
    files.push(identity);
    if files.len() > MOST_FILES {
        let found = format!("more than {MOST_FILES} files that extend each other");
        return Err(error(found, "fewer"));
    }
    let shown: Arc<str> = path.to_string_lossy().into();
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let parsed = if is_json {
        parse_json(&text).map(|value| (value, HashMap::new()))
    } else {
        parse_toml(&text)
    };
    let inside = |error: ScenarioError| ScenarioError { file: Some((*shown).into()), ..error };
    let (mut base, lines) = parsed.map_err(inside)?;
    if !base.is_object() {
        return Err(error(format!("{name:?}, which contains {}", show(&base)), "a table"));
    }
    let located = |error: ScenarioError| {
        let line = error.line.or(lines.get(&error.path).copied());
        if error.file.is_some() { error } else { inside(ScenarioError { line, ..error }) }
    };
    rename_all(&mut base, found).map_err(located)?;
    let inner = path.parent().unwrap_or(Path::new("."));
    let mut extended = merged(base, inner, files, found).map_err(located)?;
    relocate(&mut extended.value, Path::new(name).parent().unwrap_or(Path::new("")));
    let mut set = Vec::new();
    merge(&mut extended.value, value, "", &mut set);
    if let Some(Value::Object(sweep)) = extended.value.get_mut("sweep") {
        set.iter().for_each(|key| unsweep(sweep, key));
    }
    let own = lines.into_iter().filter(|(path, _)| path != EXTENDS);
    extended.places.extend(own.map(|(path, line)| (path, (line, Arc::clone(&shown)))));
    Ok(extended)
}

/// Prefixes relative names of files, the keys `file`, with `folder`.
fn relocate(value: &mut Value, folder: &Path) {
    match value {
        _ if folder.as_os_str().is_empty() => {}
        Value::Object(table) => {
            for (key, value) in table {
                match value {
                    Value::String(name) if key == "file" => {
                        *name = folder.join(name.as_str()).to_string_lossy().into_owned();
                    }
                    value => relocate(value, folder),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| relocate(item, folder)),
        _ => {}
    }
}

/// Merges `over` into `base`, and appends the dotted keys that it sets outside of the sweep.
fn merge(base: &mut Value, over: Value, path: &str, set: &mut Vec<String>) {
    if let (Value::String(word), Value::Object(table)) = (&*base, &over)
        && is_kind(path, word)
        && !table.contains_key("kind")
    {
        *base = Map::from_iter([("kind".to_owned(), word.as_str().into())]).into();
    }
    match (base, over) {
        (Value::Object(base), Value::Object(over)) if !has_other_kind(base, &over) => {
            for (key, value) in over {
                let path = join(path, &key);
                match base.get_mut(&key) {
                    Some(known) => merge(known, value, &path, set),
                    None => {
                        set.push(path);
                        base.insert(key, value);
                    }
                }
            }
        }
        (base, over) => {
            set.push(path.to_owned());
            *base = over;
        }
    }
}

/// Returns `true` if the tables have different kinds.
fn has_other_kind(base: &Map<String, Value>, over: &Map<String, Value>) -> bool {
    over.get("kind").is_some_and(|kind| base.get("kind") != Some(kind))
}
