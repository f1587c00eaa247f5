//! Values of statements.

use std::cmp::Ordering;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Number(f64),
    Text(String),
    /// A list, or a tuple.
    List(Vec<Value>),
}

impl Value {
    pub fn of(truth: bool) -> Self {
        Value::Number(f64::from(u8::from(truth)))
    }

    /// Whether it counts as true.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => !list.is_empty(),
        }
    }

    /// Order of two numbers or two texts.
    fn order(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Number(one), Value::Number(two)) => one.partial_cmp(two),
            (Value::Text(one), Value::Text(two)) => Some(one.cmp(two)),
            _ => None,
        }
    }

    /// Result of a comparison; `None` if it is undefined.
    pub fn compare(&self, operator: &str, other: &Value) -> Option<bool> {
        Some(match (operator, other) {
            ("==", _) => self == other,
            ("!=", _) => self != other,
            ("in", Value::List(list)) => list.contains(self),
            ("not in", Value::List(list)) => !list.contains(self),
            ("<", _) => self.order(other)?.is_lt(),
            ("<=", _) => self.order(other)?.is_le(),
            (">", _) => self.order(other)?.is_gt(),
            (">=", _) => self.order(other)?.is_ge(),
            _ => return None,
        })
    }

    /// Result of an operation on numbers; `None` if it is undefined.
    pub fn combine(&self, operator: &str, other: &Value) -> Option<Value> {
        let (Value::Number(one), Value::Number(two)) = (self, other) else { return None };
        let (one, two) = (*one, *two);
        let is_shift = (0.0..64.0).contains(&two);
        Some(Value::Number(match operator {
            "+" => one + two,
            "-" => one - two,
            "*" => one * two,
            "/" if two != 0.0 => one / two,
            "//" if two != 0.0 => (one / two).floor(),
            "%" if two != 0.0 => one - two * (one / two).floor(),
            "&" => (one as i64 & two as i64) as f64,
            "|" => (one as i64 | two as i64) as f64,
            "<<" if is_shift => one.trunc() * 2_f64.powi(two as i32),
            ">>" if is_shift => (one as i64 >> two as u32) as f64,
            _ => return None,
        }))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => write!(out, "{number}"),
            Value::Text(text) => write!(out, "{text}"),
            Value::List(list) => {
                let words: Vec<String> = list.iter().map(ToString::to_string).collect();
                write!(out, "[{}]", words.join(", "))
            }
        }
    }
}
