//! Tokenizer: splits the text of a block into words.

use super::{Error, Trouble};

/// A word of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word<'a> {
    Name(&'a str),
    Number(f64),
    Text(&'a str),
    Operator(&'static str),
    /// The end of a line outside of brackets.
    Newline,
    End,
}

/// A word and its position.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub word: Word<'a>,
    /// Line of the script.
    pub line: u32,
    /// Indent of its line.
    pub indent: usize,
    /// Byte offset of its start in the block.
    pub start: usize,
    /// Byte offset of its end in the block.
    pub end: usize,
}

/// Operators. One that is a prefix of another follows it.
const OPERATORS: [&str; 23] = [
    "==", "!=", "<=", ">=", "<<", ">>", "//", "<", ">", "+", "-", "*", "/", "%", "&", "|", "=",
    "(", ")", "[", "]", ",", ":",
];

/// Splits a block whose first line is `line` into words. `;` is a [`Word::Newline`] within its
/// line.
pub(super) fn tokens(block: &str, mut line: u32) -> Result<Vec<Token<'_>>, Error> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut at, mut depth, mut indent) = (0, 0_u32, 0);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let length_of =
        |text: &str, is: &dyn Fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
    loop {
        let blank = length_of(&block[at..], &|c| " \t\r".contains(c));
        if at == 0 || block[..at].ends_with('\n') {
            indent = blank;
        }
        at += blank;
        let rest = &block[at..];
        let syntax =
            || Err((line, Trouble::Syntax(rest.lines().next().unwrap_or_default().to_owned())));
        let (word, length) = match rest.chars().next() {
            None => (Word::End, 0),
            Some('#') => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            Some('\n') if depth > 0 => {
                (at, line) = (at + 1, line + 1);
                continue;
            }
            Some('\n' | ';') => (Word::Newline, 1),
            Some(quote @ ('\'' | '"')) => match rest[1..].split([quote, '\n']).next() {
                Some(text) if rest[1 + text.len()..].starts_with(quote) => {
                    (Word::Text(text), text.len() + 2)
                }
                _ => return syntax(),
            },
            Some('0'..='9' | '.') => {
                let text = &rest[..length_of(rest, &|c| is_word(c) || c == '.')];
                let number = match text.strip_prefix("0x") {
                    Some(digits) => {
                        u64::from_str_radix(digits, 16).ok().map(|number| number as f64)
                    }
                    None => text.parse().ok(),
                };
                match number {
                    Some(number) => (Word::Number(number), text.len()),
                    None => return syntax(),
                }
            }
            Some(first) if is_word(first) => {
                let length = length_of(rest, &is_word);
                (Word::Name(&rest[..length]), length)
            }
            Some(_) => match OPERATORS.into_iter().find(|operator| rest.starts_with(operator)) {
                Some(operator) => (Word::Operator(operator), operator.len()),
                None => return syntax(),
            },
        };
        match word {
            Word::Operator("(" | "[") => depth += 1,
            Word::Operator(")" | "]") => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_end = word == Word::End;
        if is_end {
            // The last line may end without a newline.
            tokens.push(Token { word: Word::Newline, line, indent, start: at, end: at });
        }
        tokens.push(Token { word, line, indent, start: at, end: at + length });
        if is_end {
            return Ok(tokens);
        }
        line += u32::from(rest.starts_with('\n'));
        at += length;
    }
}
