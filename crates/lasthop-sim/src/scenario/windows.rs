//! Windows of time: reading, writing, and comparison with the end of the run.

use super::model::{Run, TimeWindow, WindowKeys};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Key, Node, Read, Table};
use lasthop_base::schema::named::Named;
use serde_json::{Map, Value};

impl Named for TimeWindow {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Table for TimeWindow {
    const KEYS: &'static [Key] = WindowKeys::KEYS;

    fn read(node: &Node<'_>) -> Read<Self> {
        let WindowKeys { from, to } = WindowKeys::read(node)?;
        if let Some(to) = to
            && to <= from
        {
            let allowed = format!("more than \"{from}\", the value of from");
            return Err(node.key_error("to", format!("\"{to}\""), allowed));
        }
        Ok(TimeWindow { name: node.name().to_owned(), from, to })
    }

    fn write(&self) -> Map<String, Value> {
        WindowKeys { from: self.from, to: self.to }.write()
    }
}

/// Checks that no window exceeds the maximum duration of the run.
pub(super) fn check_ends(path: &str, windows: &[TimeWindow], run: &Run) -> Read<()> {
    let (end, key) = match run.duration {
        Some(duration) => (duration, "run.duration"),
        None => (run.max_time, "run.max_time"),
    };
    for TimeWindow { name, from, to } in windows {
        let error = |key_of: &str, found: String, bound: &str| {
            let allowed = format!("{bound} \"{end}\", the value of {key}");
            Err(ScenarioError::new(format!("{path}.{name}.{key_of}"), found, allowed))
        };
        if *from >= end {
            return error("from", format!("\"{from}\""), "less than");
        }
        if let Some(to) = to.filter(|&to| to > end) {
            return error("to", format!("\"{to}\""), "at most");
        }
    }
    Ok(())
}
