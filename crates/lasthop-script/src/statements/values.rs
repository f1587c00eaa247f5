//! Values of statements, and how they are written.

use super::tree::Function;
use std::rc::Rc;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Nothing,
    Truth(bool),
    Number(f64),
    Text(String),
    /// A list, or a tuple.
    List(Vec<Value>),
    /// What `def` defines.
    Function(Rc<Function>),
}

impl Value {
    /// Does it count as true?
    pub fn is_true(&self) -> bool {
        match self {
            Value::Nothing => false,
            Value::Truth(truth) => *truth,
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => !list.is_empty(),
            Value::Function(_) => true,
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Truth(truth) => Some(f64::from(u8::from(*truth))),
            _ => None,
        }
    }

    pub fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Nothing, Value::Nothing) => true,
            (Value::Text(one), Value::Text(two)) => one == two,
            (Value::List(one), Value::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.equals(two))
            }
            (Value::Function(one), Value::Function(two)) => Rc::ptr_eq(one, two),
            _ => self.number().is_some() && self.number() == other.number(),
        }
    }

    /// The order of numbers, texts and lists.
    pub fn order(&self, other: &Value) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Value::Text(one), Value::Text(two)) => Some(one.cmp(two)),
            (Value::List(one), Value::List(two)) => {
                let differ = one.iter().zip(two).find(|(one, two)| !one.equals(two));
                differ.map_or(Some(one.len().cmp(&two.len())), |(one, two)| one.order(two))
            }
            _ => self.number()?.partial_cmp(&other.number()?),
        }
    }

    /// What it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Nothing => "None",
            Value::Truth(_) | Value::Number(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Function(_) => "a function",
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Nothing => write!(out, "None"),
            Value::Truth(true) => write!(out, "True"),
            Value::Truth(false) => write!(out, "False"),
            Value::Number(number) => write!(out, "{number}"),
            Value::Text(text) => write!(out, "{text}"),
            Value::List(list) => {
                write!(out, "[")?;
                for (place, value) in list.iter().enumerate() {
                    write!(out, "{}{value}", if place > 0 { ", " } else { "" })?;
                }
                write!(out, "]")
            }
            Value::Function(_) => write!(out, "a function"),
        }
    }
}

/// A value as a format such as `5.2f`, `x` or `<8s` asks; nothing if it has none of these.
pub(super) fn format_value(value: &Value, format: &str) -> Option<String> {
    /// Columns that a format may ask for.
    const WIDEST: usize = 200;
    let (align, rest) = match format.chars().next() {
        Some(mark @ ('<' | '>' | '^')) => (Some(mark), &format[1..]),
        Some('-') => (Some('<'), &format[1..]),
        _ => (None, format),
    };
    let rest = rest.trim_start_matches(['+', ' ', '#', ',']);
    let fills = rest.starts_with('0');
    let letter = rest.chars().last().filter(char::is_ascii_alphabetic);
    let sizes = rest.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (width, precision) = sizes.split_once('.').unwrap_or((sizes, ""));
    let size = |text: &str| match text {
        "" => Some(None),
        _ => text.parse::<usize>().ok().filter(|size| *size <= WIDEST).map(Some),
    };
    let (width, precision) = (size(width)?.unwrap_or(0), size(precision)?);
    let text = match letter {
        Some('d' | 'i' | 'u') => format!("{}", value.number()?.trunc()),
        Some('x') => format!("{:x}", value.number()? as i64),
        Some('X') => format!("{:X}", value.number()? as i64),
        Some('f' | 'F') => format!("{:.*}", precision.unwrap_or(6), value.number()?),
        Some('e') => format!("{:.*e}", precision.unwrap_or(6), value.number()?),
        Some('s' | 'r' | 'g') | None => match (value.number(), precision) {
            (Some(number), Some(precision)) => format!("{number:.precision$}"),
            _ => value.to_string(),
        },
        Some(_) => return None,
    };
    let is_right = align.map_or(value.number().is_some(), |mark| mark == '>');
    Some(match (align, is_right) {
        (Some('^'), _) => format!("{text:^width$}"),
        (None, true) if fills => {
            let digits = text.trim_start_matches('-');
            let sign = if digits.len() < text.len() { "-" } else { "" };
            format!("{sign}{digits:0>width$}", width = width.saturating_sub(sign.len()))
        }
        (_, true) => format!("{text:>width$}"),
        (_, false) => format!("{text:<width$}"),
    })
}

/// `text % values`.
pub(super) fn fill_percent(text: &str, values: &[Value]) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut values = values.iter();
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic() || c == '%')?;
        let format = &after[..=end];
        if format == "%" {
            out.push('%');
        } else {
            let format = format.replace(['l', 'h'], "");
            let value = values.next()?;
            // Text stands to the right as well.
            let is_plain = format.starts_with('-');
            let mark = if is_plain || value.number().is_some() { "" } else { ">" };
            out.push_str(&format_value(value, &format!("{mark}{format}"))?);
        }
        rest = &after[end + 1..];
    }
    out.push_str(rest);
    values.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        for (format, value, text) in [
            ("d", 7.9, "7"),
            ("05d", -7.0, "-0007"),
            (".2f", 2.0 / 3.0, "0.67"),
            ("6.1f", 2.25, "   2.2"),
            ("x", 255.0, "ff"),
            ("", 2.5, "2.5"),
            ("<4", 2.0, "2   "),
            ("^5d", 2.0, "  2  "),
        ] {
            assert_eq!(format_value(&Value::Number(value), format).as_deref(), Some(text));
        }
        let two = [Value::Number(3.0), Value::Text("a".to_owned())];
        assert_eq!(fill_percent("%d%% of %3s.", &two).as_deref(), Some("3% of   a."));
        assert_eq!(fill_percent("%d", &two), None, "one value too many");
        assert_eq!(fill_percent("%d %s %s", &two), None, "one too few");
        assert_eq!(format_value(&two[1], "d"), None);
        assert_eq!(format_value(&two[0], "999999999d"), None, "too wide");
    }
}
