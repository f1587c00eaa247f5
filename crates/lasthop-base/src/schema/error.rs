//! The error type of invalid scenarios.

use std::borrow::Cow;
use std::fmt;

/// Error in a scenario: location, value found, values allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Dotted path of the key, such as `link.wireless.errors.bad`; empty for the file as a whole.
    pub path: String,
    /// Value found at the path.
    pub found: String,
    /// Description of the values allowed.
    pub allowed: String,
    /// Scenario file, if the scenario was read from one and contains the cause.
    pub file: Option<Box<str>>,
    /// Line of the scenario file, from 1, if known.
    pub line: Option<u32>,
    /// Column of the scenario file, from 1, for TOML syntax errors.
    pub column: Option<u32>,
    /// Sweep value that caused the error, such as `link.a.rate = "0 bps"`.
    pub sweep: Option<Box<str>>,
}

impl ScenarioError {
    /// Creates an error for the key at `path`.
    pub fn new(
        path: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        ScenarioError {
            path: path.into(),
            found: found.into(),
            allowed: allowed.into(),
            file: None,
            line: None,
            column: None,
            sweep: None,
        }
    }
}

/// Value found of a required key that the table lacks.
pub const MISSING: &str = "missing key";
/// Start of the value found of a key that the kind of its table does not declare.
const UNKNOWN_KEY: &str = "unknown key ";

/// Maximum length in characters of the path and of the value found, which a file may make
/// arbitrarily long.
const MOST_FOUND: usize = 200;
/// Maximum length in characters of the values allowed, for example the names of a thousand flows.
const MOST_ALLOWED: usize = 2000;

/// Truncates `text` to `most` characters and appends `…` if it was longer.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", Place { file, line: self.line, column: self.column })?;
        }
        let path = if self.path.is_empty() { "scenario" } else { &self.path };
        let [path, found, allowed] =
            [(path, MOST_FOUND), (&self.found, MOST_FOUND), (&self.allowed, MOST_ALLOWED)]
                .map(|(text, most)| cut(text, most));
        match found.strip_prefix(UNKNOWN_KEY) {
            None if found == MISSING => write!(f, "{path}: {MISSING}; expected {allowed}")?,
            Some(key) => write!(f, "{path}: {UNKNOWN_KEY}{key}; expected one of {allowed}")?,
            None => write!(f, "{path}: found {found}; expected {allowed}")?,
        }
        if let Some(sweep) = &self.sweep {
            write!(f, " [in sweep: {}]", cut(sweep, MOST_FOUND))?;
        }
        match (self.line, self.column) {
            _ if self.file.is_some() => Ok(()),
            (Some(line), Some(column)) => write!(f, " (line {line}, column {column})"),
            (Some(line), None) => write!(f, " (line {line})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Place in a file, printed as `FILE:LINE:COLUMN` without the unknown parts.
pub struct Place<'a> {
    /// File, as its reader was given it.
    pub file: &'a str,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column, from 1.
    pub column: Option<u32>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file)?;
        [self.line, self.column].into_iter().flatten().try_for_each(|part| write!(f, ":{part}"))
    }
}

/// Returns the candidate nearest to `word`, if it is similar enough for a typing error.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let length = candidate.chars().count();
            // Rejects candidates of one letter, none of which would remain.
            *distance <= 1 + length / 4 && *distance < length
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the Levenshtein distance, ignoring case and the difference between `_` and `-`.
fn distance(a: &[char], b: &str) -> usize {
    let plain = |c: char| if c == '_' { '-' } else { c.to_ascii_lowercase() };
    let b: Vec<char> = b.chars().map(plain).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(plain(from) != to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Returns ` (did you mean …?)` for a message, or an empty string.
pub fn suggestion<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_slip_has_something_of_the_word() {
        assert_eq!(nearest("dealy", ["rate", "delay"]), Some("delay"));
        assert_eq!(nearest("c", ["a", "b"]), None);
        assert_eq!(nearest("A", ["a", "b"]), Some("a"));
        assert_eq!(nearest("scak", ["reno", "sack"]), Some("sack"));
    }
}
