//! Parsing of TOML and JSON text to values, with the lines of TOML keys.

use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::json;
use lasthop_base::schema::keys::{Read, join};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::panic::resume_unwind;
use toml::de::{DeTable, DeValue};

/// Maximum depth of nested tables. Real scenarios have fewer than ten levels; the limit bounds
/// recursion.
pub(super) const MAX_DEPTH: usize = 32;
pub(super) const MAX_DEPTH_ALLOWED: &str = "at most 32 tables within each other";

/// Length of a text in bytes from which the parser has its own thread.
const LONG: usize = 4096;

/// Returns the values of a TOML text, and the line of each key by its dotted path.
///
/// # Errors
/// If the text is not TOML, is nested too deeply, or contains dates or infinite numbers.
pub(super) fn parse_toml(text: &str) -> Read<(Value, HashMap<String, u32>)> {
    // The parser needs many times the memory of the text.
    if text.len() < LONG { parse_here(text) } else { in_other_heap(|| parse_here(text)) }
}

/// Calls `work` in a separate thread, or in this one if there can be no other. With an allocator that
/// has one heap per thread, later threads, such as those of replications, reuse the memory.
pub(crate) fn in_other_heap<T: Send>(work: impl Fn() -> T + Sync) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, &work);
        match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(_) => work(),
        }
    })
}

fn parse_here(text: &str) -> Read<(Value, HashMap<String, u32>)> {
    let table = DeTable::parse(text).map_err(|error| {
        let mut refused =
            ScenarioError::new("", format!("broken TOML: {}", plain(&error)), "a TOML file");
        if let Some(span) = error.span() {
            let (line, column) = position(text, span.start);
            (refused.line, refused.column) = (Some(line), Some(column));
        }
        refused
    })?;
    let mut lines = Lines { starts: line_starts(text), by_path: HashMap::new() };
    let value = lines.table("", table.into_inner())?;
    Ok((value, lines.by_path))
}

/// Returns the values of a JSON text.
///
/// # Errors
/// If the text is not JSON, or a table has a key twice.
pub(super) fn parse_json(text: &str) -> Read<Value> {
    json::parse(text)
        .map_err(|error| ScenarioError::new("", format!("broken JSON: {error}"), "a JSON object"))
}

/// Parses a text as the TOML value of the key at `path`; returns `None` if it is not TOML.
pub(super) fn toml_value(path: &str, text: &str) -> Option<Read<Value>> {
    let value = DeValue::parse(text).ok()?;
    let mut lines = Lines { starts: Vec::new(), by_path: HashMap::new() };
    Some(lines.value(path, value.into_inner()))
}

/// Converts TOML to JSON values and records the line of each key.
struct Lines {
    starts: Vec<usize>,
    by_path: HashMap<String, u32>,
}

impl Lines {
    fn table(&mut self, path: &str, table: DeTable<'_>) -> Read<Value> {
        if path.split('.').count() > MAX_DEPTH {
            let mut error = ScenarioError::new("", "tables too deep", MAX_DEPTH_ALLOWED);
            error.line = self.by_path.get(path).copied();
            return Err(error);
        }
        let mut map = Map::with_capacity(table.len());
        for (key, value) in table {
            let path = join(path, key.get_ref());
            let line = self.starts.partition_point(|start| *start <= key.span().start) as u32;
            self.by_path.insert(path.clone(), line);
            // Messages name the tables of some lists without their index.
            if let (Some(start), Some(end)) = (path.find('['), path.find(']')) {
                self.by_path.insert(format!("{}{}", &path[..start], &path[end + 1..]), line);
            }
            map.insert(key.into_inner().into_owned(), self.value(&path, value.into_inner())?);
        }
        Ok(map.into())
    }

    fn value(&mut self, path: &str, value: DeValue<'_>) -> Read<Value> {
        let refused = |found: String, allowed: &str| {
            let mut error = ScenarioError::new(path, found, allowed);
            error.line = self.by_path.get(path).copied();
            error
        };
        match value {
            DeValue::String(text) => Ok(text.into_owned().into()),
            DeValue::Boolean(value) => Ok(value.into()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(Value::from)
                .map_err(|_| refused(number.to_string(), "a number from -2^63 to 2^63 - 1")),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .ok()
                .and_then(serde_json::Number::from_f64)
                .map(Value::Number)
                .ok_or_else(|| refused(number.to_string(), "a finite number")),
            DeValue::Datetime(date) => Err(refused(
                date.to_string(),
                "text, numbers, true, false, lists and tables; no dates",
            )),
            DeValue::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| match item.into_inner() {
                    DeValue::Table(table) => self.table(&format!("{path}[{index}]"), table),
                    other => self.value(path, other),
                })
                .collect::<Read<Vec<_>>>()
                .map(Value::Array),
            DeValue::Table(table) => self.table(path, table),
        }
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
    std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect()
}

/// Returns line and column, both from 1, of a byte offset; the column counts characters.
fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line_start..].chars().count() + 1;
    (before.matches('\n').count() as u32 + 1, column as u32)
}

/// Returns the parser's message on one line.
fn plain(error: &toml::de::Error) -> String {
    error.message().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_parsed_like_a_short_one() {
        let long = format!("name = \"a\"\n[run]\nseed = 7\n#{}\n", "x".repeat(LONG));
        let (value, lines) = parse_toml(&long).expect("a TOML file");
        assert_eq!((value, lines), parse_here(&long).expect("a TOML file"));
        for broken in ["a = ", &"a = [".repeat(LONG), &format!("a = {}", "[".repeat(LONG))] {
            let long = format!("{broken}\n#{}", "x".repeat(LONG));
            let [here, there] = [parse_here(&long), parse_toml(&long)];
            let error = there.expect_err("a broken text");
            assert!(error.line.is_some(), "{error}");
            assert_eq!(here.expect_err("a broken text").to_string(), error.to_string());
        }
    }
}
