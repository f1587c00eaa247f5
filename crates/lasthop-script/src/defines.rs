//! Names defined by a script or its user (`--define=NAME=VALUE`).
//!
//! A name is replaced by its value wherever a word is allowed, except in quotes, shell commands and
//! statements, as in packetdrill.

use super::ScriptError;
use super::parser::syntax;

/// A name and its value.
pub(super) type Define = (String, String);

/// Parses `NAME=VALUE` from a line of the script or the command line.
pub(super) fn define(line: u32, text: &str) -> Result<Define, ScriptError> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_word);
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(syntax(line, text, "--define=NAME=VALUE")),
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the text with all names replaced.
pub(super) fn replace(text: &str, defines: &[Define]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '%' if rest.starts_with("%{") => rest.find("}%").map_or(rest.len(), |end| end + 2),
            '`' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
            _ if first.is_ascii() && is_word(first as u8) => {
                rest.bytes().take_while(|&byte| is_word(byte)).count()
            }
            _ => first.len_utf8(),
        };
        let word = &rest[..length];
        let known = defines.iter().rev().find(|(name, _)| name == word);
        out.push_str(known.map_or(word, |(_, value)| value));
        rest = &rest[length..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_and_quotes_are_not() {
        let defines = ["A=7", "LAW=\"reno\"", "DO=`ls A`", "A=8"];
        let defines: Vec<_> = defines.iter().map(|text| define(1, text).unwrap()).collect();
        let text = "A AB \"A\" `A` %{ A }% (A,LAW) DO";
        let replaced = "8 AB \"A\" `A` %{ A }% (8,\"reno\") `ls A`";
        assert_eq!(replace(text, &defines), replaced);
        for wrong in ["A", "=3", "A-B=3"] {
            assert!(define(4, wrong).is_err(), "{wrong}");
        }
    }
}
