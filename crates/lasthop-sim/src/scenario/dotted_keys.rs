//! Dotted keys, such as `link.air.rate`: their values in a tree and in a sweep.

use super::model::ScenarioKeys;
use super::sweep::{CASE, ZIP};
use super::text::{MAX_DEPTH, MAX_DEPTH_ALLOWED};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Read, Shape, Table, is_name, join, shape_at, show};
use serde_json::{Map, Value};

/// Returns `true` if the dotted keys are equal or one contains the other.
pub(super) fn overlaps(a: &str, b: &str) -> bool {
    is_within(a, b) || is_within(b, a)
}

/// Returns `true` if the dotted keys are equal or `outer` contains `inner`.
pub(super) fn is_within(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Adds the keys of `defaults` that a table lacks, and completes its tables in the same way.
pub(super) fn complete(value: &mut Value, defaults: &Value) {
    if let (Value::Object(table), Value::Object(defaults)) = (value, defaults) {
        for (key, default) in defaults {
            complete(table.entry(key.clone()).or_insert_with(|| default.clone()), default);
        }
    }
}

/// Removes a key from a sweep, at any position.
pub(super) fn unsweep(sweep: &mut Map<String, Value>, dotted_key: &str) {
    let take_out = |table: &mut Value| {
        if let Some(table) = table.as_object_mut() {
            table.retain(|key, _| !overlaps(key, dotted_key));
        }
    };
    let is_left = |table: &Value| table.as_object().is_none_or(|table| !table.is_empty());
    sweep.retain(|key, _| !overlaps(key, dotted_key));
    if let Some(Value::Array(zips)) = sweep.get_mut(ZIP) {
        // A list that was zipped with this key only becomes a separate list.
        let mut alone = Vec::new();
        for table in zips.iter_mut() {
            let before = table.as_object().map_or(0, Map::len);
            take_out(table);
            if let Some(table) = table.as_object_mut().filter(|it| it.len() == 1 && before > 1) {
                alone.extend(std::mem::take(table));
            }
        }
        zips.retain(is_left);
        if zips.is_empty() {
            sweep.shift_remove(ZIP);
        }
        sweep.extend(alone);
    }
    if let Some(Value::Object(cases)) = sweep.get_mut(CASE) {
        cases.values_mut().for_each(take_out);
        if !cases.values().any(is_left) {
            sweep.shift_remove(CASE);
        }
    }
}

/// Sets a dotted key to a value and creates the missing tables on its path.
pub(super) fn substitute(document: &mut Value, dotted_key: &str, value: Value) -> Read<()> {
    if dotted_key.split('.').count() > MAX_DEPTH {
        return Err(ScenarioError::new("", "a dotted key too long", MAX_DEPTH_ALLOWED));
    }
    let mut path = String::new();
    let mut here = document;
    for part in dotted_key.split('.') {
        if !is_name(part) {
            return Err(ScenarioError::new(
                dotted_key,
                format!("the key {dotted_key:?}"),
                "a dotted key such as \"link.NAME.rate\"",
            ));
        }
        if let Value::String(word) = here
            && is_kind(&path, word)
        {
            *here = Map::from_iter([("kind".to_owned(), word.as_str().into())]).into();
        }
        if !here.is_object() {
            return Err(ScenarioError::new(
                dotted_key,
                format!("{path}, which is {}, no table", show(here)),
                "a key of a table",
            ));
        }
        path = join(&path, part);
        here = &mut here[part];
        if here.is_null() {
            *here = Map::new().into();
        }
    }
    *here = value;
    Ok(())
}

/// Returns `true` if the key is a union of which this word is a kind.
pub(super) fn is_kind(dotted_key: &str, word: &str) -> bool {
    let path: Vec<_> = dotted_key.split('.').collect();
    match shape_at(ScenarioKeys::KEYS, &path) {
        Some(Shape::Union(_) | Shape::Unions(_)) => true,
        Some(Shape::UnionOr(variants, _)) => variants.iter().any(|variant| variant.kind == word),
        _ => false,
    }
}
