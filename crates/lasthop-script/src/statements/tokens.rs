//! From the text of a block to words, with the indents that group its lines.

use super::{Error, Trouble};

/// A word of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    Name(String),
    Number(f64),
    Text(String),
    /// Text with values in it (`f"…"`): what stands between the quotes.
    Filled(String),
    Operator(&'static str),
    /// The end of a statement's line.
    Newline,
    /// The lines that follow belong to the statement before.
    Indent,
    /// They no longer do.
    Dedent,
    End,
}

/// A word and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub word: Word,
    /// Line of the script.
    pub line: u32,
    /// Bytes of the block before it, and up to its end.
    pub start: usize,
    pub end: usize,
}

/// The longest first, where one begins another.
const OPERATORS: &[&str] = &[
    "**=", "//=", "<<=", ">>=", "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=",
    "/=", "%=", "&=", "|=", "^=", "->", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<", ">", "(",
    ")", "[", "]", "{", "}", ",", ":", ";", "=", ".",
];

/// The words of a block whose first line is `line`.
pub(super) fn tokens(block: &str, line: u32) -> Result<Vec<Token>, Error> {
    let mut reader = Reader {
        text: block,
        at: 0,
        line,
        depth: 0,
        words: Vec::new(),
        // Where a block begins behind `%{` its indent shows in the next line.
        indents: vec![None],
    };
    while reader.at < block.len() {
        reader.line_start()?;
        while reader.word()? {}
    }
    if !matches!(reader.words.last(), None | Some(Token { word: Word::Newline, .. })) {
        reader.push(Word::Newline, reader.at);
    }
    for _ in 1..reader.indents.len() {
        reader.push(Word::Dedent, reader.at);
    }
    reader.push(Word::End, reader.at);
    Ok(reader.words)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    /// Brackets that are open.
    depth: u32,
    words: Vec<Token>,
    /// Columns of the groups of lines that are open.
    indents: Vec<Option<usize>>,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, word: Word, start: usize) {
        self.words.push(Token { word, line: self.line, start, end: self.at });
    }

    fn syntax<T>(&self, found: &str) -> Result<T, Error> {
        Err((self.line, Trouble::Syntax(found.to_owned())))
    }

    /// Space before the first word of a line, which may open and close groups.
    fn line_start(&mut self) -> Result<(), Error> {
        let column = self.rest().bytes().take_while(|byte| b" \t\r".contains(byte)).count();
        let is_first = self.at == 0;
        self.at += column;
        if self.rest().starts_with(['\n', '#']) || self.rest().is_empty() {
            return Ok(());
        }
        let opens = matches!(
            self.words.iter().rev().nth(1).zip(self.words.last()),
            Some((Token { word: Word::Operator(":"), .. }, Token { word: Word::Newline, .. }))
        );
        let current = self.indents.last().copied().flatten();
        if opens {
            if column <= current.unwrap_or(0) {
                return self.syntax("a line that is not indented");
            }
            self.indents.push(Some(column));
            self.push(Word::Indent, self.at);
            return Ok(());
        }
        while self.indents.len() > 1
            && self.indents.last().copied().flatten().is_some_and(|open| column < open)
        {
            self.indents.pop();
            self.push(Word::Dedent, self.at);
        }
        match self.indents.last_mut() {
            Some(open @ None) if !is_first => *open = Some(column),
            Some(Some(open)) if *open != column => return self.syntax("an indent that differs"),
            _ => {}
        }
        Ok(())
    }

    /// Takes a word; false at the end of a line that ends a statement.
    fn word(&mut self) -> Result<bool, Error> {
        let space = self.rest().bytes().take_while(|byte| b" \t\r".contains(byte)).count();
        self.at += space;
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(false) };
        if first == '#' {
            self.at += rest.find('\n').unwrap_or(rest.len());
            return Ok(true);
        }
        if first == '\\' && rest[1..].trim_start_matches([' ', '\r']).starts_with('\n') {
            self.at += rest.find('\n').unwrap_or(0) + 1;
            self.line += 1;
            return Ok(true);
        }
        if first == '\n' {
            self.at += 1;
            let is_statement = self.depth == 0
                && !matches!(
                    self.words.last().map(|token| &token.word),
                    None | Some(Word::Newline | Word::Indent | Word::Dedent)
                );
            if is_statement {
                self.push(Word::Newline, start);
            }
            self.line += 1;
            return Ok(self.depth > 0);
        }
        let quote = rest.trim_start_matches(['f', 'r', 'b', 'u', 'F']).chars().next();
        let prefix = rest.find(['"', '\'']).unwrap_or(0);
        if quote.is_some_and(|quote| "'\"".contains(quote)) && prefix <= 2 {
            return self.text(prefix).map(|()| true);
        }
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            return self.number().map(|()| true);
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let name: String =
                rest.bytes().take_while(|byte| is_word(byte)).map(char::from).collect();
            self.at += name.len();
            self.push(Word::Name(name), start);
            return Ok(true);
        }
        let Some(operator) = OPERATORS.iter().find(|operator| rest.starts_with(**operator)) else {
            return self.syntax(rest.lines().next().unwrap_or_default());
        };
        self.depth += u32::from("([{".contains(*operator));
        self.depth = self.depth.saturating_sub(u32::from(")]}".contains(*operator)));
        self.at += operator.len();
        self.push(Word::Operator(operator), start);
        Ok(true)
    }

    fn number(&mut self) -> Result<(), Error> {
        let start = self.at;
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let mut length = 0;
        while let Some(&byte) = bytes.get(length) {
            let is_exponent = length > 0
                && b"+-".contains(&byte)
                && b"eE".contains(&bytes[length - 1])
                && !rest.starts_with("0x");
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || is_exponent) {
                break;
            }
            length += 1;
        }
        let word = rest[..length].to_owned();
        let plain = word.replace('_', "");
        let value = match plain.get(..2).map(str::to_ascii_lowercase).as_deref() {
            Some("0x") => u64::from_str_radix(&plain[2..], 16).ok().map(|value| value as f64),
            Some("0b") => u64::from_str_radix(&plain[2..], 2).ok().map(|value| value as f64),
            Some("0o") => u64::from_str_radix(&plain[2..], 8).ok().map(|value| value as f64),
            _ => plain.parse().ok(),
        };
        let Some(value) = value else { return self.syntax(&word) };
        self.at += length;
        self.push(Word::Number(value), start);
        Ok(())
    }

    /// Text in quotes, single or thrice, behind `prefix` letters.
    fn text(&mut self, prefix: usize) -> Result<(), Error> {
        let start = self.at;
        let rest = self.rest().to_owned();
        let (letters, quoted) = rest.split_at(prefix);
        let mark = quoted.chars().next().unwrap_or('"');
        let thrice = mark.to_string().repeat(3);
        let close = if quoted.starts_with(&thrice) { thrice } else { mark.to_string() };
        let is_raw = letters.contains('r');
        let mut inside = String::new();
        let mut characters = quoted[close.len()..].char_indices();
        while let Some((place, character)) = characters.next() {
            let after = &quoted[close.len() + place..];
            if after.starts_with(&close) {
                self.at += prefix + close.len() + place + close.len();
                let filled = letters.contains(['f', 'F']);
                self.push(if filled { Word::Filled(inside) } else { Word::Text(inside) }, start);
                return Ok(());
            }
            match character {
                '\n' if close.len() == 1 => break,
                '\n' => {
                    self.line += 1;
                    inside.push('\n');
                }
                '\\' if !is_raw => match characters.next() {
                    Some((_, 'n')) => inside.push('\n'),
                    Some((_, 't')) => inside.push('\t'),
                    Some((_, '\n')) => self.line += 1,
                    Some((_, other)) => inside.push(other),
                    None => break,
                },
                _ => inside.push(character),
            }
        }
        self.syntax("text without its closing quote")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_indents_become_words() {
        let block = " if a:  # why\n    b = 'x; y'\n\n    c\nd = (1,\n 2)\ne \\\n = 3";
        let words = tokens(block, 5).unwrap();
        let marks: Vec<_> = words
            .iter()
            .filter(|token| matches!(token.word, Word::Newline | Word::Indent | Word::Dedent))
            .map(|token| (token.line, format!("{:?}", token.word)))
            .collect();
        let expected = [
            (5, "Newline"),
            (6, "Indent"),
            (6, "Newline"),
            (8, "Newline"),
            (9, "Dedent"),
            (10, "Newline"),
            (12, "Newline"),
        ];
        assert_eq!(marks, expected.map(|(line, word)| (line, word.to_owned())));
        for wrong in ["if a:\nb\n  c", "'open", "\"\"\"open", "3x", "?", "a\n  b\n c"] {
            assert!(tokens(&format!("x\n{wrong}"), 1).is_err(), "{wrong}");
        }
    }
}
