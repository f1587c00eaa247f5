//! Parses and evaluates statements in one pass.

use super::tokens::{Token, Word, tokens};
use super::values::Value;
use super::{Error, Trouble};
use std::collections::BTreeMap;

/// Maximum nesting depth of brackets and blocks.
const DEEPEST: u32 = 60;

/// Environment of a block.
pub(crate) struct Outside<'a> {
    /// Lookup of numbers that a block does not define.
    pub look_up: &'a dyn Fn(&str) -> Option<f64>,
    /// Variables defined by earlier blocks of the script.
    pub variables: &'a mut BTreeMap<String, Value>,
}

/// The line and the error.
pub(crate) fn run(block: &str, line: u32, outside: &mut Outside<'_>) -> Result<(), Error> {
    let words = tokens(block, line)?;
    let mut run = Run { block, words: &words, at: 0, depth: 0, is_live: true, outside };
    let mut indent = None;
    while !matches!(run.peek(), Word::End) {
        if matches!(run.peek(), Word::Newline) {
            run.at += 1;
            continue;
        }
        // The first line follows `%{`.
        if run.line() > line
            && indent.replace(run.indent()).is_some_and(|indent| indent != run.indent())
        {
            return run.syntax();
        }
        run.statements()?;
    }
    Ok(())
}

struct Run<'a, 'b> {
    block: &'a str,
    words: &'a [Token<'a>],
    at: usize,
    depth: u32,
    /// Whether parsed expressions are evaluated.
    is_live: bool,
    outside: &'a mut Outside<'b>,
}

/// Value of an expression that is not evaluated.
const NONE: Value = Value::Number(0.0);

type Evaluated = Result<Value, Error>;

impl<'a> Run<'a, '_> {
    fn peek(&self) -> &Word<'a> {
        &self.words[self.at].word
    }

    fn line(&self) -> u32 {
        self.words[self.at].line
    }

    fn indent(&self) -> usize {
        self.words[self.at].indent
    }

    /// Rest of the line, from the next word.
    fn rest(&self) -> String {
        let rest =
            self.block[self.words[self.at].start..].lines().next().unwrap_or_default().trim();
        if rest.is_empty() { "the end of a line".to_owned() } else { rest.to_owned() }
    }

    fn syntax<T>(&self) -> Result<T, Error> {
        Err((self.line(), Trouble::Syntax(self.rest())))
    }

    /// Takes an operator or a keyword.
    fn takes(&mut self, mark: &str) -> bool {
        let is_next =
            matches!(self.peek(), Word::Operator(next) | Word::Name(next) if *next == mark);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes one of several operators.
    fn takes_one(&mut self, operators: &[&'static str]) -> Option<&'static str> {
        operators.iter().copied().find(|operator| self.takes(operator))
    }

    fn wants(&mut self, operator: &str) -> Result<(), Error> {
        if self.takes(operator) { Ok(()) } else { self.syntax() }
    }

    /// Runs `inside` one nesting level deeper, up to the maximum depth.
    fn deeper<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.depth == DEEPEST {
            return self.syntax();
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// Evaluates `inside` only if `is_live` is set.
    fn only<T>(
        &mut self,
        is_live: bool,
        inside: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = self.is_live;
        self.is_live &= is_live;
        let result = self.deeper(inside);
        self.is_live = before;
        result
    }

    /// Parses the statements of a line, or an `if` with its blocks.
    fn statements(&mut self) -> Result<(), Error> {
        if self.takes("if") {
            return self.branches();
        }
        let line = self.line();
        loop {
            self.statement()?;
            if !matches!(self.peek(), Word::Newline) {
                return self.syntax();
            }
            self.at += 1;
            // After `;`.
            if self.line() > line || matches!(self.peek(), Word::Newline | Word::End) {
                return Ok(());
            }
        }
    }

    fn statement(&mut self) -> Result<(), Error> {
        let line = self.line();
        if self.takes("assert") {
            return self.assertion(line);
        }
        if self.takes("pass") {
            return Ok(());
        }
        let assigned = &self.words[self.at + 1..];
        match (self.peek(), assigned.first().map(|token| &token.word)) {
            (&Word::Name(name), Some(Word::Operator("="))) => {
                self.at += 2;
                let value = self.expression()?;
                if self.is_live {
                    self.outside.variables.insert(name.to_owned(), value);
                }
                Ok(())
            }
            (Word::Name(_), _) => {
                let found = format!("{} (statements: assert, NAME = …, if, pass)", self.rest());
                Err((line, Trouble::Unknown(found)))
            }
            _ => self.syntax(),
        }
    }

    fn assertion(&mut self, line: u32) -> Result<(), Error> {
        let start = self.words[self.at].start;
        let holds = self.expression()?.is_true() || !self.is_live;
        let text = self.block[start..self.words[self.at - 1].end].to_owned();
        let message = match self.takes(",") {
            true => self.only(!holds, Self::expression).map(Some),
            false => Ok(None),
        };
        if holds {
            return message.map(|_| ());
        }
        let said = message.ok().flatten().map(|said| said.to_string());
        Err((line, Trouble::Asserted(text, said)))
    }

    /// Parses the conditions and blocks after `if`, and evaluates the first branch whose condition
    /// is true.
    fn branches(&mut self) -> Result<(), Error> {
        let indent = self.indent();
        let mut is_open = true;
        loop {
            let is_chosen = self.only(is_open, Self::expression)?.is_true();
            self.wants(":")?;
            self.only(is_open && is_chosen, |run| run.block(indent))?;
            is_open &= !is_chosen;
            while matches!(self.peek(), Word::Newline) {
                self.at += 1;
            }
            if self.indent() != indent || !self.takes("elif") {
                break;
            }
        }
        if self.indent() == indent && self.takes("else") {
            self.wants(":")?;
            self.only(is_open, |run| run.block(indent))?;
        }
        Ok(())
    }

    /// Parses statements after a colon, or lines that are indented by more than `outer`.
    fn block(&mut self, outer: usize) -> Result<(), Error> {
        if !matches!(self.peek(), Word::Newline) {
            return self.statements();
        }
        let mut indent = None;
        loop {
            while matches!(self.peek(), Word::Newline) {
                self.at += 1;
            }
            let is_inside = self.indent() > outer && !matches!(self.peek(), Word::End);
            match (is_inside, indent) {
                (false, None) => return self.syntax(),
                (false, Some(_)) => return Ok(()),
                (true, Some(indent)) if self.indent() != indent => return self.syntax(),
                (true, _) => indent = Some(self.indent()),
            }
            self.statements()?;
        }
    }

    fn expression(&mut self) -> Evaluated {
        let mut value = self.and()?;
        while self.takes("or") {
            let is_decided = value.is_true();
            let next = self.only(!is_decided, Self::and)?;
            value = if is_decided { value } else { next };
        }
        Ok(value)
    }

    fn and(&mut self) -> Evaluated {
        let mut value = self.not()?;
        while self.takes("and") {
            let is_decided = !value.is_true();
            let next = self.only(!is_decided, Self::not)?;
            value = if is_decided { value } else { next };
        }
        Ok(value)
    }

    fn not(&mut self) -> Evaluated {
        if self.takes("not") {
            return self.deeper(Self::not).map(|value| Value::of(!value.is_true()));
        }
        let mut left = self.binary(0)?;
        let mut result = None;
        loop {
            let line = self.line();
            let operator = match self.takes_one(&["==", "!=", "<=", ">=", "<", ">", "in"]) {
                Some(operator) => operator,
                None if self.takes("not") => self.wants("in").map(|()| "not in")?,
                None => return Ok(result.map_or(left, Value::of)),
            };
            let is_decided = result == Some(false);
            let right = self.only(!is_decided, |run| run.binary(0))?;
            let holds = left.compare(operator, &right);
            if self.is_live && !is_decided && holds.is_none() {
                return Err((line, Trouble::Failed(format!("{left} {operator} {right}"))));
            }
            result = Some(!is_decided && holds.unwrap_or_default());
            left = right;
        }
    }

    /// Parses binary operations. Those of a higher `level` have higher precedence.
    fn binary(&mut self, level: usize) -> Evaluated {
        const LEVELS: [&[&str]; 4] =
            [&["&", "|"], &["<<", ">>"], &["+", "-"], &["*", "//", "/", "%"]];
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let line = self.line();
            let Some(operator) = self.takes_one(operators) else { return Ok(left) };
            let right = self.binary(level + 1)?;
            if self.is_live {
                left = left
                    .combine(operator, &right)
                    .ok_or_else(|| (line, Trouble::Failed(format!("{left} {operator} {right}"))))?;
            }
        }
    }

    fn unary(&mut self) -> Evaluated {
        let line = self.line();
        if self.takes("-") {
            let value = self.deeper(Self::unary)?;
            let negative = Value::Number(0.0).combine("-", &value);
            return negative.ok_or_else(|| (line, Trouble::Failed(format!("-{value}"))));
        }
        if self.takes("(") {
            return self.deeper(|run| run.list(")")).map(|(mut list, is_list)| match list.pop() {
                Some(only) if !is_list => only,
                last => {
                    list.extend(last);
                    Value::List(list)
                }
            });
        }
        if self.takes("[") {
            return self.deeper(|run| run.list("]")).map(|(list, _)| Value::List(list));
        }
        let value = match *self.peek() {
            Word::Number(number) => Value::Number(number),
            Word::Text(text) => Value::Text(text.to_owned()),
            Word::Name("True") => Value::of(true),
            Word::Name("False") => Value::of(false),
            Word::Name(name) => {
                if matches!(self.words[self.at + 1].word, Word::Operator("(" | "[")) {
                    return Err((line, Trouble::Unknown(self.rest())));
                }
                self.name(name)?
            }
            _ => return self.syntax(),
        };
        self.at += 1;
        Ok(value)
    }

    fn name(&self, name: &str) -> Evaluated {
        if !self.is_live {
            return Ok(NONE);
        }
        if let Some(value) = self.outside.variables.get(name) {
            return Ok(value.clone());
        }
        let number = (self.outside.look_up)(name).map(Value::Number);
        number.ok_or_else(|| (self.line(), Trouble::Unknown(name.to_owned())))
    }

    /// Parses expressions up to `end`, and returns them and whether they form a list.
    fn list(&mut self, end: &str) -> Result<(Vec<Value>, bool), Error> {
        let mut list = Vec::new();
        let mut has_comma = false;
        while !self.takes(end) {
            list.push(self.expression()?);
            if !self.takes(",") {
                self.wants(end)?;
                break;
            }
            has_comma = true;
        }
        let is_list = has_comma || list.is_empty();
        Ok((list, is_list))
    }
}
