//! Former names of keys, which a declaration lists as `#[was = "…"]`. They are accepted until the
//! next minor version: a document is converted to the present names, with a note for each of them.
//!
//! A former name must not be a present name of another kind of the same union: a dotted key does
//! not state the kind.

use super::error::ScenarioError;
use super::keys::{Key, Map, Read, Shape, Value, Variant, join, shape_at};

/// A key that was found by its former name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Dotted path with the former name; parents have their present names.
    pub from: String,
    /// Dotted path with the present name.
    pub to: String,
    /// Former name.
    pub former: &'static str,
    /// Present name.
    pub present: &'static str,
}

/// Converts all keys of `table`, which is at `path`, to their present names, and appends them to
/// `found`. The order of keys does not change.
///
/// # Errors
/// If the table has a key by both names.
pub fn rename(
    table: &mut Map<String, Value>,
    keys: &'static [Key],
    path: &str,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    for key in keys {
        let Some(former) = key.was.filter(|was| table.contains_key(*was)) else {
            continue;
        };
        let (from, to) = (join(path, former), join(path, key.name));
        if table.contains_key(key.name) {
            let both = format!("{former:?} and {:?}, its present name", key.name);
            return Err(ScenarioError::new(from, both, format!("{:?} only", key.name)));
        }
        let present = |name: String| if name == former { key.name.to_owned() } else { name };
        *table = std::mem::take(table).into_iter().map(|(k, v)| (present(k), v)).collect();
        found.push(Renamed { from, to, former, present: key.name });
    }
    for key in keys {
        if let Some(value) = table.get_mut(key.name) {
            rename_in(value, &key.shape, &join(path, key.name), found)?;
        }
    }
    Ok(())
}

/// Like [`rename`], for a value of the given shape.
///
/// # Errors
/// If a table has a key by both names.
pub fn rename_in(
    value: &mut Value,
    shape: &Shape,
    path: &str,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    match (shape, value) {
        (Shape::Table(keys), Value::Object(table)) => rename(table, keys, path, found),
        (Shape::Map(keys), Value::Object(tables)) => {
            for (name, value) in tables {
                if let Value::Object(table) = value {
                    rename(table, keys, &join(path, name), found)?;
                }
            }
            Ok(())
        }
        (Shape::Unions(variants), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                rename_in(item, &Shape::Union(variants), &format!("{path}[{index}]"), found)?;
            }
            Ok(())
        }
        (
            Shape::Union(variants) | Shape::UnionOr(variants, _) | Shape::Unions(variants),
            Value::Object(table),
        ) => match kind_of(table, variants) {
            Some(variant) => rename(table, variant.keys, path, found),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

fn kind_of(table: &Map<String, Value>, variants: &'static [Variant]) -> Option<&'static Variant> {
    let kind = table.get("kind")?.as_str()?;
    variants.iter().find(|variant| variant.kind == kind)
}

/// Converts a dotted key and its value to the present names, and appends them to `found`, with
/// paths below `path`. An unknown key is unchanged.
///
/// # Errors
/// If a table in the value has a key by both names.
pub fn rename_setting(
    key: &mut String,
    value: &mut Value,
    keys: &'static [Key],
    path: &str,
    found: &mut Vec<Renamed>,
) -> Read<()> {
    let parts: Vec<&str> = key.split('.').collect();
    let mut renamed = Vec::new();
    if let Some(present) = present_path(keys, &parts, &mut renamed)
        && !renamed.is_empty()
    {
        let present = present.join(".");
        let (from, to) = (join_setting(path, key), join_setting(path, &present));
        found.extend(renamed.into_iter().map(|(former, present)| Renamed {
            from: from.clone(),
            to: to.clone(),
            former,
            present,
        }));
        *key = present;
    }
    let parts: Vec<&str> = key.split('.').collect();
    match shape_at(keys, &parts) {
        Some(shape) => rename_in(value, shape, &join_setting(path, key), found),
        None => Ok(()),
    }
}

/// Returns the path of a dotted key in a table of settings, or the key itself without a table.
fn join_setting(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { join(path, key) }
}

/// Returns the path with present names, and appends the pairs of names that differ to `renamed`.
fn present_path<'a>(
    keys: &'static [Key],
    path: &[&'a str],
    renamed: &mut Vec<(&'static str, &'static str)>,
) -> Option<Vec<&'a str>> {
    let (&name, below) = path.split_first()?;
    let key = keys.iter().find(|key| key.name == name || key.was == Some(name))?;
    let mut present = vec![name];
    if key.name != name {
        let former = key.was?;
        renamed.push((former, key.name));
        present[0] = key.name;
    }
    match (&key.shape, below) {
        (_, []) => {}
        (Shape::Table(keys), _) => present.extend(present_path(keys, below, renamed)?),
        (Shape::Map(_), [item]) => present.push(item),
        (Shape::Map(keys), [item, rest @ ..]) => {
            present.push(item);
            present.extend(present_path(keys, rest, renamed)?);
        }
        (Shape::Union(variants) | Shape::UnionOr(variants, _) | Shape::Unions(variants), _) => {
            let before = renamed.len();
            present.extend(variants.iter().find_map(|kind| {
                renamed.truncate(before);
                present_path(kind.keys, below, renamed)
            })?);
        }
        _ => return None,
    }
    Some(present)
}
