//! From words to statements and expressions.
//!
//! ```text
//!   statement := simple (";" simple)* | if | while | for | def
//!   block     := simple (";" simple)* | NEWLINE INDENT statement+ DEDENT
//!   choice    := or ["if" or "else" choice]
//!   or        := and ("or" and)*
//!   and       := not ("and" not)*
//!   not       := "not" not | bits (("==" | "!=" | "<=" | ">=" | "<" | ">" | ["not"] "in" | "is" ["not"]) bits)*
//!   bits      := shift (("&" | "|" | "^") shift)*
//!   shift     := sum (("<<" | ">>") sum)*
//!   sum       := product (("+" | "-") product)*
//!   product   := unary (("*" | "//" | "/" | "%") unary)*
//!   unary     := ("-" | "+" | "~") unary | power
//!   power     := primary ["**" unary]
//!   primary   := atom ("(" arguments ")" | "[" choice "]" | "." name)*
//! ```

use super::tokens::{Token, Word, tokens};
use super::tree::{Doing, Expression, Function, Piece, Statement, Target};
use super::{Error, Trouble, unknown};
use std::rc::Rc;

/// Brackets and groups of lines within one another.
const DEEPEST: u32 = 60;

/// The statements of a block whose first line is `line`.
pub(super) fn parse(block: &str, line: u32) -> Result<Vec<Statement>, Error> {
    let words = tokens(block, line)?;
    let mut parser = Parser { block, words: &words, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while parser.peek() != &Word::End {
        if !parser.takes_word(&Word::Newline) {
            statements.extend(parser.statement()?);
        }
    }
    Ok(statements)
}

struct Parser<'a> {
    block: &'a str,
    words: &'a [Token],
    at: usize,
    depth: u32,
}

type Parsed = Result<Expression, Error>;

impl Parser<'_> {
    fn peek(&self) -> &Word {
        &self.words[self.at].word
    }

    fn line(&self) -> u32 {
        self.words[self.at].line
    }

    fn syntax<T>(&self) -> Result<T, Error> {
        let token = &self.words[self.at];
        let text = self.block[token.start..].lines().next().unwrap_or_default().trim();
        let found = if text.is_empty() { "the end of a line" } else { text };
        Err((token.line, Trouble::Syntax(found.to_owned())))
    }

    fn takes_word(&mut self, word: &Word) -> bool {
        let is_next = self.peek() == word;
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes an operator.
    fn takes(&mut self, operator: &str) -> bool {
        let is_next = matches!(self.peek(), Word::Operator(next) if *next == operator);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes one of several operators.
    fn takes_one(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        operators.iter().copied().find(|operator| self.takes(operator))
    }

    fn takes_name(&mut self, name: &str) -> bool {
        let is_next = matches!(self.peek(), Word::Name(next) if next == name);
        self.at += usize::from(is_next);
        is_next
    }

    fn wants(&mut self, operator: &str) -> Result<(), Error> {
        if self.takes(operator) { Ok(()) } else { self.syntax() }
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.peek() {
            Word::Name(name) if !KEYWORDS.contains(&name.as_str()) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.syntax(),
        }
    }

    /// Goes one level deeper, of which there are not many.
    fn deeper<T>(&mut self, inside: fn(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return self.syntax();
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// The statements of a line, or one with its group of lines.
    fn statement(&mut self) -> Result<Vec<Statement>, Error> {
        let line = self.line();
        let keyword = match self.peek() {
            Word::Name(name) => name.clone(),
            _ => String::new(),
        };
        let what = match keyword.as_str() {
            "if" => {
                self.at += 1;
                let mut branches = vec![(self.choice()?, self.deeper(Self::block)?)];
                let mut otherwise = Vec::new();
                loop {
                    if self.takes_name("elif") {
                        branches.push((self.choice()?, self.deeper(Self::block)?));
                    } else {
                        if self.takes_name("else") {
                            otherwise = self.deeper(Self::block)?;
                        }
                        break Doing::If(branches, otherwise);
                    }
                }
            }
            "while" => {
                self.at += 1;
                Doing::While(self.choice()?, self.deeper(Self::block)?)
            }
            "for" => {
                self.at += 1;
                let (names, list) = self.each()?;
                Doing::For(names, list, self.deeper(Self::block)?)
            }
            "def" => {
                self.at += 1;
                let name = self.name()?;
                let parameters = self.parameters()?;
                let body = self.deeper(Self::block)?;
                Doing::Define(Rc::new(Function { name, parameters, body }))
            }
            "class" | "try" | "with" | "lambda" | "async" | "del" | "raise" | "yield"
            | "nonlocal" => {
                return unknown(line, format!("the statement \"{keyword}\""));
            }
            _ => return self.line_of_statements(),
        };
        Ok(vec![Statement { line, what }])
    }

    fn line_of_statements(&mut self) -> Result<Vec<Statement>, Error> {
        let mut statements = Vec::new();
        loop {
            let line = self.line();
            statements.push(Statement { line, what: self.simple()? });
            let goes_on = self.takes(";");
            if self.takes_word(&Word::Newline) || self.peek() == &Word::End {
                return Ok(statements);
            }
            if !goes_on {
                return self.syntax();
            }
        }
    }

    /// What stands behind a colon.
    fn block(&mut self) -> Result<Vec<Statement>, Error> {
        self.wants(":")?;
        if !self.takes_word(&Word::Newline) {
            return self.line_of_statements();
        }
        if !self.takes_word(&Word::Indent) {
            return self.syntax();
        }
        let mut statements = Vec::new();
        while !self.takes_word(&Word::Dedent) {
            if self.peek() == &Word::End {
                break;
            }
            statements.extend(self.statement()?);
        }
        Ok(statements)
    }

    fn parameters(&mut self) -> Result<Vec<(String, Option<Expression>)>, Error> {
        self.wants("(")?;
        let mut parameters = Vec::new();
        while !self.takes(")") {
            let name = self.name()?;
            let default = if self.takes("=") { Some(self.choice()?) } else { None };
            parameters.push((name, default));
            if !self.takes(",") && self.peek() != &Word::Operator(")") {
                return self.syntax();
            }
        }
        Ok(parameters)
    }

    fn simple(&mut self) -> Result<Doing, Error> {
        let ends = |word: &Word| matches!(word, Word::Newline | Word::End | Word::Operator(";"));
        if self.takes_name("assert") {
            let start = self.words[self.at].start;
            let condition = self.choice()?;
            let text = self.block[start..self.words[self.at - 1].end].trim().to_owned();
            let message = if self.takes(",") { Some(self.list_or_value()?) } else { None };
            return Ok(Doing::Assert(condition, text, message));
        }
        if self.takes_name("pass") {
            return Ok(Doing::Evaluate(None));
        }
        if self.takes_name("import") || self.takes_name("from") {
            while !ends(self.peek()) {
                self.at += 1;
            }
            return Ok(Doing::Evaluate(None));
        }
        if self.takes_name("return") {
            let value = if ends(self.peek()) { None } else { Some(self.list_or_value()?) };
            return Ok(Doing::Return(value));
        }
        if self.takes_name("break") {
            return Ok(Doing::Break);
        }
        if self.takes_name("continue") {
            return Ok(Doing::Continue);
        }
        if self.takes_name("global") {
            return Ok(Doing::Global(self.names()?));
        }
        // `print "text"` is how Python 2 had it.
        if self.takes_name("print") && !matches!(self.peek(), Word::Operator("(")) {
            let values = if ends(self.peek()) { Vec::new() } else { vec![self.list_or_value()?] };
            let print = Box::new(Expression::Name("print".to_owned()));
            return Ok(Doing::Evaluate(Some(Expression::Call(print, values))));
        } else if matches!(self.words[self.at.saturating_sub(1)].word, Word::Name(ref name) if name == "print")
        {
            self.at -= 1;
        }
        let start = self.at;
        let first = self.list_or_value()?;
        if let (Expression::Name(name), Some(operator)) = (
            &first,
            self.takes_one(&[
                "+=", "-=", "*=", "//=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "**=",
            ]),
        ) {
            return Ok(Doing::Change(name.clone(), operator, self.list_or_value()?));
        }
        let mut values = vec![(start, first)];
        while self.takes("=") {
            values.push((self.at, self.list_or_value()?));
        }
        let Some((_, value)) = values.pop() else { return self.syntax() };
        let mut targets = Vec::new();
        for (start, target) in values {
            let Some(names) = names_of(&target) else {
                self.at = start;
                return self.syntax();
            };
            targets.push(names);
        }
        match targets.is_empty() {
            true => Ok(Doing::Evaluate(Some(value))),
            false => Ok(Doing::Assign(targets, value)),
        }
    }

    fn names(&mut self) -> Result<Target, Error> {
        let mut names = vec![self.name()?];
        while self.takes(",") {
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// `NAMES in LIST`, behind `for`.
    fn each(&mut self) -> Result<(Target, Expression), Error> {
        let in_brackets = self.takes("(");
        let names = self.names()?;
        if in_brackets {
            self.wants(")")?;
        }
        if !self.takes_name("in") {
            return self.syntax();
        }
        Ok((names, self.or()?))
    }

    /// A value, or several that commas make a list.
    fn list_or_value(&mut self) -> Parsed {
        let first = self.choice()?;
        if self.peek() != &Word::Operator(",") {
            return Ok(first);
        }
        let mut list = vec![first];
        while self.takes(",") {
            if matches!(self.peek(), Word::Newline | Word::End | Word::Operator(")" | "=" | ";")) {
                break;
            }
            list.push(self.choice()?);
        }
        Ok(Expression::List(list))
    }

    /// `A if B else C`.
    fn choice(&mut self) -> Parsed {
        self.deeper(|parser| {
            let value = parser.or()?;
            if !parser.takes_name("if") {
                return Ok(value);
            }
            let condition = parser.or()?;
            if !parser.takes_name("else") {
                return parser.syntax();
            }
            Ok(Expression::Choice(Box::new((condition, value, parser.choice()?))))
        })
    }

    fn or(&mut self) -> Parsed {
        let mut parts = vec![self.and()?];
        while self.takes_name("or") {
            parts.push(self.and()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Or(parts) })
    }

    fn and(&mut self) -> Parsed {
        let mut parts = vec![self.not()?];
        while self.takes_name("and") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::And(parts) })
    }

    fn not(&mut self) -> Parsed {
        if self.takes_name("not") {
            let inner = self.deeper(Self::not)?;
            return Ok(Expression::Unary("not", Box::new(inner)));
        }
        let left = self.bits()?;
        let mut links = Vec::new();
        loop {
            let operator = match self.takes_one(&["==", "!=", "<=", ">=", "<", ">"]) {
                Some(operator) => operator,
                None if self.takes_name("in") => "in",
                None if self.takes_name("is") => {
                    if self.takes_name("not") {
                        "!="
                    } else {
                        "=="
                    }
                }
                None if self.takes_name("not") => {
                    if !self.takes_name("in") {
                        return self.syntax();
                    }
                    "not in"
                }
                None => break,
            };
            links.push((operator, self.bits()?));
        }
        match links.is_empty() {
            true => Ok(left),
            false => Ok(Expression::Compare(Box::new(left), links)),
        }
    }

    /// Operators of one rank, from the left.
    fn left(&mut self, operators: &[&'static str], next: fn(&mut Self) -> Parsed) -> Parsed {
        let mut value = next(self)?;
        while let Some(operator) = self.takes_one(operators) {
            value = Expression::Binary(operator, Box::new(value), Box::new(next(self)?));
        }
        Ok(value)
    }

    fn bits(&mut self) -> Parsed {
        self.left(&["&", "|", "^"], |parser| {
            parser.left(&["<<", ">>"], |parser| {
                parser.left(&["+", "-"], |parser| parser.left(&["*", "//", "/", "%"], Self::unary))
            })
        })
    }

    fn unary(&mut self) -> Parsed {
        if let Some(operator) = self.takes_one(&["-", "+", "~"]) {
            let inner = self.deeper(Self::unary)?;
            return Ok(Expression::Unary(operator, Box::new(inner)));
        }
        let value = self.primary()?;
        if !self.takes("**") {
            return Ok(value);
        }
        let power = self.deeper(Self::unary)?;
        Ok(Expression::Binary("**", Box::new(value), Box::new(power)))
    }

    fn primary(&mut self) -> Parsed {
        let mut value = self.atom()?;
        loop {
            if self.takes("(") {
                value = Expression::Call(Box::new(value), self.items(")")?);
            } else if self.takes("[") {
                let index = self.choice()?;
                self.wants("]")?;
                value = Expression::Index(Box::new(value), Box::new(index));
            } else if self.takes(".") {
                let name = self.name()?;
                if !self.takes("(") {
                    return unknown(self.line(), format!("the attribute {name}"));
                }
                value = Expression::Method(Box::new(value), name, self.items(")")?);
            } else {
                return Ok(value);
            }
        }
    }

    /// Values up to a closing bracket; one may be given for each of a list.
    fn items(&mut self, close: &'static str) -> Result<Vec<Expression>, Error> {
        let mut items = Vec::new();
        while !self.takes(close) {
            let item = self.choice()?;
            if self.takes_name("for") {
                let (names, list) = self.each()?;
                let filter = match self.takes_name("if") {
                    true => Some(Box::new(self.or()?)),
                    false => None,
                };
                items.push(Expression::Each(Box::new(item), names, Box::new(list), filter));
            } else {
                items.push(item);
            }
            if !self.takes(",") && self.peek() != &Word::Operator(close) {
                return self.syntax();
            }
        }
        Ok(items)
    }

    fn atom(&mut self) -> Parsed {
        let line = self.line();
        let word = self.peek().clone();
        match word {
            Word::Number(number) => {
                self.at += 1;
                Ok(Expression::Number(number))
            }
            Word::Text(_) | Word::Filled(_) => self.text(),
            Word::Name(name) => {
                let constant = match name.as_str() {
                    "True" => Expression::Truth(true),
                    "False" => Expression::Truth(false),
                    "None" => Expression::Nothing,
                    "lambda" => return unknown(line, "a function without a name (lambda)"),
                    _ => return Ok(Expression::Name(self.name()?)),
                };
                self.at += 1;
                Ok(constant)
            }
            Word::Operator("(") => {
                self.at += 1;
                let before = self.at;
                let items = self.items(")")?;
                // One value in brackets is no list, unless a comma follows.
                let has_comma = self.words[self.at - 2].word == Word::Operator(",");
                match (items.len(), has_comma) {
                    (1, false) => Ok(items.into_iter().next().unwrap_or(Expression::Nothing)),
                    (0, true) => {
                        self.at = before;
                        self.syntax()
                    }
                    _ => Ok(Expression::List(items)),
                }
            }
            Word::Operator("[") => {
                self.at += 1;
                let mut items = self.items("]")?;
                match items.len() {
                    1 if matches!(items[0], Expression::Each(..)) => Ok(items.remove(0)),
                    _ => Ok(Expression::List(items)),
                }
            }
            Word::Operator("{") => unknown(line, "a dictionary"),
            _ => self.syntax(),
        }
    }

    /// Texts that follow each other are one.
    fn text(&mut self) -> Parsed {
        let mut pieces = Vec::new();
        loop {
            match self.peek().clone() {
                Word::Text(text) => pieces.push(Piece::Text(text)),
                Word::Filled(text) => pieces.extend(self.filled(&text)?),
                _ => break,
            }
            self.at += 1;
        }
        match &pieces[..] {
            [Piece::Text(text)] => Ok(Expression::Text(text.clone())),
            _ => Ok(Expression::Filled(pieces)),
        }
    }

    /// The pieces of `f"…{VALUE:FORMAT}…"`.
    fn filled(&self, text: &str) -> Result<Vec<Piece>, Error> {
        let line = self.line();
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut plain = String::new();
        while let Some(place) = rest.find(['{', '}']) {
            plain.push_str(&rest[..place]);
            let mark = &rest[place..=place];
            rest = &rest[place + 1..];
            if let Some(after) = rest.strip_prefix(mark) {
                plain.push_str(mark);
                rest = after;
                continue;
            }
            let Some((inside, after)) = rest.split_once('}').filter(|_| mark == "{") else {
                return Err((line, Trouble::Syntax(text.to_owned())));
            };
            rest = after;
            let (value, format) = match inside.split_once(':') {
                Some((value, format)) => (value, format),
                None => (inside, ""),
            };
            let value = value.trim_end_matches("!r").trim_end_matches("!s");
            if let Some(name) = value.strip_suffix('=').filter(|name| !name.ends_with(['=', '!'])) {
                plain.push_str(value);
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Value(expression(name, line, self.depth)?, format.to_owned()));
                continue;
            }
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(Piece::Value(expression(value, line, self.depth)?, format.to_owned()));
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(pieces)
    }
}

/// One expression.
fn expression(text: &str, line: u32, depth: u32) -> Parsed {
    let words = tokens(text.trim(), line)?;
    let mut parser = Parser { block: text.trim(), words: &words, at: 0, depth };
    let value = parser.choice()?;
    match parser.takes_word(&Word::Newline) {
        true => Ok(value),
        false => parser.syntax(),
    }
}

/// The names that an expression on the left of `=` consists of.
fn names_of(target: &Expression) -> Option<Target> {
    match target {
        Expression::Name(name) => Some(vec![name.clone()]),
        Expression::List(list) => list
            .iter()
            .map(|one| match one {
                Expression::Name(name) => Some(name.clone()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

const KEYWORDS: &[&str] = &[
    "and", "or", "not", "if", "elif", "else", "for", "while", "def", "return", "in", "is",
    "assert", "pass", "break", "continue", "global", "import", "True", "False", "None", "lambda",
];
