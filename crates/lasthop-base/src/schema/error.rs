//! The one message that says what is wrong with a scenario.

use std::borrow::Cow;
use std::fmt;

/// Why a scenario was refused: where, what was found there, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Dotted path of the key, such as `link.wireless.errors.bad`; empty for the file as a whole.
    pub path: String,
    /// What was found there.
    pub found: String,
    /// What would be right.
    pub allowed: String,
    /// Line of the scenario file, from 1, where it is known.
    pub line: Option<u32>,
    /// Column of the scenario file, from 1, for errors of TOML syntax.
    pub column: Option<u32>,
    /// The sweep value that was being tried, such as `link.a.rate = "0 bps"`.
    pub sweep: Option<String>,
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
            line: None,
            column: None,
            sweep: None,
        }
    }
}

/// Characters of a message that say where an error is, or what was found; a file may hold any value.
const MOST_FOUND: usize = 200;
/// Characters that say what is allowed, such as the names of a thousand flows.
const MOST_ALLOWED: usize = 2000;

/// A text of at most `most` characters, the rest replaced by `…`.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "scenario" } else { &self.path };
        let [path, found, allowed] =
            [(path, MOST_FOUND), (&self.found, MOST_FOUND), (&self.allowed, MOST_ALLOWED)]
                .map(|(text, most)| cut(text, most));
        write!(f, "{path}: found {found}; allowed: {allowed}")?;
        if let Some(sweep) = &self.sweep {
            write!(f, " [in sweep: {}]", cut(sweep, MOST_FOUND))?;
        }
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, " (line {line}, column {column})"),
            (Some(line), None) => write!(f, " (line {line})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// The candidate nearest to `word`, if near enough to be a likely slip.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.chars().take(64).collect();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let length = candidate.chars().count();
            // Of a candidate of one letter nothing would be left.
            *distance <= 1 + length / 4 && *distance < length
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance without regard to case, `_` and `-` being the same.
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

/// "; did you mean …?" for the words of a message, or nothing.
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
