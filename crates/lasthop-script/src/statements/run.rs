//! What statements do.

use super::functions::{FUNCTIONS, LARGEST, call, method};
use super::syntax::parse;
use super::tree::{Doing, Expression, Function, Piece, Statement, Target};
use super::values::{Value, fill_percent, format_value};
use super::{Error, Trouble, failed, unknown};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Statements and values that a block may need: one that needs more does not end.
const MOST_STEPS: u32 = 1_000_000;

/// Functions that call one another.
const DEEPEST_CALL: u32 = 40;

/// What a block sees of the world, and leaves there.
pub(crate) struct Outside<'a> {
    /// Numbers that a block does not define.
    pub look_up: &'a dyn Fn(&str) -> Option<f64>,
    /// What the blocks of a script have defined so far.
    pub variables: &'a mut BTreeMap<String, Value>,
    /// What is printed, with its line.
    pub printed: Vec<(u32, String)>,
}

/// Runs a block whose first line is `line`.
///
/// # Errors
/// The line, and what is wrong there.
pub(crate) fn run(block: &str, line: u32, outside: &mut Outside<'_>) -> Result<(), Error> {
    let statements = parse(block, line)?;
    let mut run = Run { outside, frames: Vec::new(), steps: 0, line };
    match run.all(&statements)? {
        Flow::Next | Flow::Return(_) => Ok(()),
        Flow::Break | Flow::Continue => {
            Err((run.line, Trouble::Syntax("break or continue outside of a loop".to_owned())))
        }
    }
}

/// Where it goes on after a statement.
enum Flow {
    Next,
    Break,
    Continue,
    Return(Value),
}

/// A call of a function: its names, and those that are not its own.
#[derive(Default)]
struct Frame {
    names: BTreeMap<String, Value>,
    global: BTreeSet<String>,
}

struct Run<'a, 'b> {
    outside: &'a mut Outside<'b>,
    frames: Vec<Frame>,
    steps: u32,
    line: u32,
}

impl Run<'_, '_> {
    fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        match self.steps > MOST_STEPS {
            true => failed(self.line, format!("a block of more than {MOST_STEPS} steps")),
            false => Ok(()),
        }
    }

    fn all(&mut self, statements: &[Statement]) -> Result<Flow, Error> {
        for statement in statements {
            self.line = statement.line;
            self.step()?;
            let flow = self.one(&statement.what)?;
            if !matches!(flow, Flow::Next) {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn one(&mut self, what: &Doing) -> Result<Flow, Error> {
        match what {
            Doing::Assert(condition, text, message) => {
                if !self.value(condition)?.is_true() {
                    let line = self.line;
                    let said = message.as_ref().and_then(|message| self.value(message).ok());
                    let said = said.map(|said| said.to_string());
                    return Err((line, Trouble::Asserted(text.clone(), said)));
                }
            }
            Doing::Assign(targets, value) => {
                let value = self.value(value)?;
                for target in targets {
                    self.assign(target, value.clone())?;
                }
            }
            Doing::Change(name, operator, by) => {
                let before = self.name(name)?;
                let by = self.value(by)?;
                let value = self.combine(&operator[..operator.len() - 1], &before, &by)?;
                self.set(name, value);
            }
            Doing::If(branches, otherwise) => {
                for (condition, body) in branches {
                    if self.value(condition)?.is_true() {
                        return self.all(body);
                    }
                }
                return self.all(otherwise);
            }
            Doing::While(condition, body) => {
                while self.value(condition)?.is_true() {
                    self.step()?;
                    match self.all(body)? {
                        Flow::Break => break,
                        Flow::Next | Flow::Continue => {}
                        flow @ Flow::Return(_) => return Ok(flow),
                    }
                }
            }
            Doing::For(target, list, body) => {
                for value in self.list(list)? {
                    self.assign(target, value)?;
                    match self.all(body)? {
                        Flow::Break => break,
                        Flow::Next | Flow::Continue => {}
                        flow @ Flow::Return(_) => return Ok(flow),
                    }
                }
            }
            Doing::Define(function) => {
                self.set(&function.name, Value::Function(Rc::clone(function)));
            }
            Doing::Return(value) => {
                let value = value.as_ref().map_or(Ok(Value::Nothing), |value| self.value(value))?;
                return Ok(Flow::Return(value));
            }
            Doing::Break => return Ok(Flow::Break),
            Doing::Continue => return Ok(Flow::Continue),
            Doing::Global(names) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.global.extend(names.iter().cloned());
                }
            }
            Doing::Evaluate(value) => {
                if let Some(value) = value {
                    self.value(value)?;
                }
            }
        }
        Ok(Flow::Next)
    }

    fn set(&mut self, name: &str, value: Value) {
        let names = match self.frames.last_mut() {
            Some(frame) if !frame.global.contains(name) => &mut frame.names,
            _ => &mut *self.outside.variables,
        };
        names.insert(name.to_owned(), value);
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<(), Error> {
        if let [name] = &target[..] {
            self.set(name, value);
            return Ok(());
        }
        match value {
            Value::List(list) if list.len() == target.len() => {
                for (name, value) in target.iter().zip(list) {
                    self.set(name, value);
                }
                Ok(())
            }
            other => failed(self.line, format!("{} for {} names", other.kind(), target.len())),
        }
    }

    fn name(&self, name: &str) -> Result<Value, Error> {
        let own = self.frames.last().and_then(|frame| frame.names.get(name));
        if let Some(value) = own.or_else(|| self.outside.variables.get(name)) {
            return Ok(value.clone());
        }
        match (self.outside.look_up)(name) {
            Some(number) => Ok(Value::Number(number)),
            None => unknown(self.line, name),
        }
    }

    fn values(&mut self, expressions: &[Expression]) -> Result<Vec<Value>, Error> {
        expressions.iter().map(|expression| self.value(expression)).collect()
    }

    fn list(&mut self, expression: &Expression) -> Result<Vec<Value>, Error> {
        match self.value(expression)? {
            Value::List(list) => Ok(list),
            Value::Text(text) => {
                Ok(text.chars().map(|letter| Value::Text(letter.to_string())).collect())
            }
            other => failed(self.line, format!("{} in place of a list", other.kind())),
        }
    }

    fn value(&mut self, expression: &Expression) -> Result<Value, Error> {
        self.step()?;
        Ok(match expression {
            Expression::Nothing => Value::Nothing,
            Expression::Truth(truth) => Value::Truth(*truth),
            Expression::Number(number) => Value::Number(*number),
            Expression::Text(text) => Value::Text(text.clone()),
            Expression::Filled(pieces) => {
                let mut out = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.push_str(text),
                        Piece::Value(value, format) => {
                            let value = self.value(value)?;
                            match format_value(&value, format) {
                                Some(text) => out.push_str(&text),
                                None => {
                                    let found = format!("{} in the format {format}", value.kind());
                                    return failed(self.line, found);
                                }
                            }
                        }
                    }
                }
                self.bounded(Value::Text(out))?
            }
            Expression::Name(name) => self.name(name)?,
            Expression::List(list) => Value::List(self.values(list)?),
            Expression::Each(value, target, list, filter) => {
                let mut out = Vec::new();
                for one in self.list(list)? {
                    self.assign(target, one)?;
                    let holds = match filter {
                        Some(filter) => self.value(filter)?.is_true(),
                        None => true,
                    };
                    if holds {
                        out.push(self.value(value)?);
                    }
                }
                Value::List(out)
            }
            Expression::Call(function, arguments) => {
                let arguments = self.values(arguments)?;
                self.call(function, arguments)?
            }
            Expression::Method(of, name, arguments) => {
                let arguments = self.values(arguments)?;
                if let (Expression::Name(list), "append") = (&**of, name.as_str()) {
                    return self.append(list, arguments);
                }
                let of = self.value(of)?;
                let found = method(&of, name, &arguments);
                self.bounded(found.or_else(|found| failed(self.line, found))?)?
            }
            Expression::Index(of, index) => {
                let (of, index) = (self.value(of)?, self.value(index)?);
                self.index(&of, &index)?
            }
            Expression::Unary(operator, inner) => {
                let inner = self.value(inner)?;
                match (*operator, inner.number()) {
                    ("not", _) => Value::Truth(!inner.is_true()),
                    ("-", Some(number)) => Value::Number(-number),
                    ("+", Some(number)) => Value::Number(number),
                    ("~", Some(number)) => Value::Number(!(number as i64) as f64),
                    _ => return failed(self.line, format!("{operator} {}", inner.kind())),
                }
            }
            Expression::Binary(operator, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.combine(operator, &left, &right)?
            }
            Expression::Compare(first, links) => {
                let mut left = self.value(first)?;
                for (operator, right) in links {
                    let right = self.value(right)?;
                    if !self.compare(operator, &left, &right)? {
                        return Ok(Value::Truth(false));
                    }
                    left = right;
                }
                Value::Truth(true)
            }
            Expression::And(parts) => self.first_with(parts, false)?,
            Expression::Or(parts) => self.first_with(parts, true)?,
            Expression::Choice(parts) => {
                let (condition, yes, no) = &**parts;
                let chosen = if self.value(condition)?.is_true() { yes } else { no };
                self.value(chosen)?
            }
        })
    }

    /// The first of `parts` that counts as `truth`, or the last.
    fn first_with(&mut self, parts: &[Expression], truth: bool) -> Result<Value, Error> {
        let mut value = Value::Nothing;
        for part in parts {
            value = self.value(part)?;
            if value.is_true() == truth {
                break;
            }
        }
        Ok(value)
    }

    /// Nothing grows without bounds.
    fn bounded(&self, value: Value) -> Result<Value, Error> {
        let size = match &value {
            Value::Text(text) => text.len(),
            Value::List(list) => list.len(),
            _ => 0,
        };
        match size > LARGEST {
            true => failed(self.line, format!("{} of more than {LARGEST}", value.kind())),
            false => Ok(value),
        }
    }

    fn append(&mut self, list: &str, arguments: Vec<Value>) -> Result<Value, Error> {
        let own = self.frames.last_mut().and_then(|frame| frame.names.get_mut(list));
        let known = own.or_else(|| self.outside.variables.get_mut(list));
        match known {
            Some(Value::List(values)) if values.len() < LARGEST && arguments.len() == 1 => {
                values.extend(arguments);
                Ok(Value::Nothing)
            }
            Some(other) => failed(self.line, format!("{}.append(…)", other.kind())),
            None => unknown(self.line, list),
        }
    }

    fn index(&self, of: &Value, index: &Value) -> Result<Value, Error> {
        let wrong = || failed(self.line, format!("{}[{index}]", of.kind()));
        let Some(number) = index.number() else { return wrong() };
        let place = |length: usize| {
            let from = if number < 0.0 { length as f64 + number } else { number };
            (from >= 0.0 && from < length as f64).then_some(from as usize)
        };
        match of {
            Value::List(list) => place(list.len()).map_or_else(wrong, |at| Ok(list[at].clone())),
            Value::Text(text) => {
                let letters: Vec<char> = text.chars().collect();
                place(letters.len()).map_or_else(wrong, |at| Ok(Value::Text(letters[at].into())))
            }
            _ => wrong(),
        }
    }

    fn call(&mut self, function: &Expression, arguments: Vec<Value>) -> Result<Value, Error> {
        let line = self.line;
        let Expression::Name(name) = function else { return unknown(line, "a call of a value") };
        match self.name(name) {
            Ok(Value::Function(function)) => return self.call_own(&function, arguments),
            Ok(other) => return failed(line, format!("{} in place of a function", other.kind())),
            Err(_) if !FUNCTIONS.contains(&name.as_str()) => {
                return unknown(line, format!("{name}()"));
            }
            Err(_) => {}
        }
        if name == "print" {
            let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            self.outside.printed.push((line, words.join(" ")));
            return Ok(Value::Nothing);
        }
        call(name, &arguments).or_else(|found| failed(line, found))
    }

    fn call_own(&mut self, function: &Function, arguments: Vec<Value>) -> Result<Value, Error> {
        let line = self.line;
        let wrong = || failed(line, format!("{} arguments of {}", arguments.len(), function.name));
        if arguments.len() > function.parameters.len() {
            return wrong();
        }
        if self.frames.len() as u32 == DEEPEST_CALL {
            return failed(line, format!("more than {DEEPEST_CALL} calls within one another"));
        }
        let mut frame = Frame::default();
        for (place, (name, default)) in function.parameters.iter().enumerate() {
            let value = match (arguments.get(place), default) {
                (Some(value), _) => value.clone(),
                (None, Some(default)) => self.value(default)?,
                (None, None) => return wrong(),
            };
            frame.names.insert(name.clone(), value);
        }
        self.frames.push(frame);
        let flow = self.all(&function.body);
        self.frames.pop();
        let flow = flow?;
        self.line = line;
        Ok(match flow {
            Flow::Return(value) => value,
            _ => Value::Nothing,
        })
    }

    fn compare(&self, operator: &str, left: &Value, right: &Value) -> Result<bool, Error> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let contains = || match (left, right) {
            (_, Value::List(list)) => Some(list.iter().any(|one| one.equals(left))),
            (Value::Text(part), Value::Text(whole)) => Some(whole.contains(part.as_str())),
            _ => None,
        };
        let order = || left.order(right);
        let holds = match operator {
            "==" => Some(left.equals(right)),
            "!=" => Some(!left.equals(right)),
            "in" => contains(),
            "not in" => contains().map(|is_in| !is_in),
            "<" => order().map(|order| order == Less),
            "<=" => order().map(|order| order != Greater),
            ">" => order().map(|order| order == Greater),
            _ => order().map(|order| order != Less || order == Equal),
        };
        match holds {
            Some(holds) => Ok(holds),
            None => failed(self.line, format!("{} {operator} {}", left.kind(), right.kind())),
        }
    }

    fn combine(&self, operator: &str, left: &Value, right: &Value) -> Result<Value, Error> {
        let wrong = || failed(self.line, format!("{} {operator} {}", left.kind(), right.kind()));
        match (operator, left, right) {
            ("+", Value::Text(one), Value::Text(two)) => {
                return self.bounded(Value::Text(format!("{one}{two}")));
            }
            ("+", Value::List(one), Value::List(two)) => {
                return self.bounded(Value::List([one.clone(), two.clone()].concat()));
            }
            ("%", Value::Text(text), _) => {
                let filled = match right {
                    Value::List(values) => fill_percent(text, values),
                    one => fill_percent(text, std::slice::from_ref(one)),
                };
                return filled.map_or_else(wrong, |text| self.bounded(Value::Text(text)));
            }
            _ => {}
        }
        let (Some(one), Some(two)) = (left.number(), right.number()) else { return wrong() };
        let (bits, shift) = (|value: f64| value as i64, two as u32);
        let is_shift = (0.0..64.0).contains(&two);
        Ok(Value::Number(match operator {
            "+" => one + two,
            "-" => one - two,
            "*" => one * two,
            "**" => one.powf(two),
            "/" | "//" | "%" if two == 0.0 => return failed(self.line, "a division by zero"),
            "/" => one / two,
            "//" => (one / two).floor(),
            "%" => one - two * (one / two).floor(),
            "&" => (bits(one) & bits(two)) as f64,
            "|" => (bits(one) | bits(two)) as f64,
            "^" => (bits(one) ^ bits(two)) as f64,
            "<<" if is_shift => (bits(one) as f64) * 2_f64.powi(shift as i32),
            ">>" if is_shift => (bits(one) >> shift) as f64,
            _ => return wrong(),
        }))
    }
}
