//! The functions that statements may call, beside their own.

use super::values::{Value, format_value};

/// Values that a list may have, and bytes of a text.
pub(super) const LARGEST: usize = 100_000;

/// Names of the functions, for messages and for what assignments may not be confused with.
pub(super) const FUNCTIONS: &[&str] = &[
    "abs", "all", "any", "bool", "float", "int", "len", "list", "max", "min", "pow", "print",
    "range", "round", "sorted", "str", "sum", "tuple",
];

/// What a function of Python makes of its arguments; what is wrong with them otherwise.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let wrong = || {
        let kinds: Vec<_> = arguments.iter().map(Value::kind).collect();
        format!("{name}({})", kinds.join(", "))
    };
    let number = |at: usize| arguments.get(at).and_then(Value::number).ok_or_else(wrong);
    let first = || arguments.first().ok_or_else(wrong);
    // `max(1, 2)` and `max([1, 2])`.
    let all = || match arguments {
        [Value::List(list)] => list.clone(),
        _ => arguments.to_vec(),
    };
    let list = || match arguments.first() {
        Some(Value::List(list)) => Ok(list.clone()),
        Some(Value::Text(text)) => {
            Ok(text.chars().map(|letter| Value::Text(letter.to_string())).collect())
        }
        _ => Err(wrong()),
    };
    Ok(match name {
        "abs" => Value::Number(number(0)?.abs()),
        "int" => match first()? {
            Value::Text(text) => Value::Number(
                text.trim().parse::<i64>().map_err(|_| format!("int(\"{text}\")"))? as f64,
            ),
            _ => Value::Number(number(0)?.trunc()),
        },
        "float" => match first()? {
            Value::Text(text) => {
                Value::Number(text.trim().parse().map_err(|_| format!("float(\"{text}\")"))?)
            }
            _ => Value::Number(number(0)?),
        },
        "bool" => Value::Truth(first()?.is_true()),
        "str" => Value::Text(first()?.to_string()),
        "round" => {
            let digits = if arguments.len() > 1 { number(1)? } else { 0.0 };
            let scale = 10_f64.powf(digits.trunc());
            Value::Number((number(0)? * scale).round_ties_even() / scale)
        }
        "pow" => Value::Number(number(0)?.powf(number(1)?)),
        "len" => Value::Number(match first()? {
            Value::List(list) => list.len() as f64,
            Value::Text(text) => text.chars().count() as f64,
            _ => return Err(wrong()),
        }),
        "min" | "max" => {
            let side =
                if name == "min" { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            let mut values = all().into_iter();
            let mut best = values.next().ok_or_else(wrong)?;
            for value in values {
                if value.order(&best).ok_or_else(wrong)? == side {
                    best = value;
                }
            }
            best
        }
        "sum" => {
            let numbers: Option<Vec<f64>> = list()?.iter().map(Value::number).collect();
            Value::Number(numbers.ok_or_else(wrong)?.iter().sum())
        }
        "any" => Value::Truth(list()?.iter().any(Value::is_true)),
        "all" => Value::Truth(list()?.iter().all(Value::is_true)),
        "list" | "tuple" => Value::List(if arguments.is_empty() { Vec::new() } else { list()? }),
        "sorted" => {
            let mut values = list()?;
            let mut is_ordered = true;
            values.sort_by(|one, two| {
                one.order(two).unwrap_or_else(|| {
                    is_ordered = false;
                    std::cmp::Ordering::Equal
                })
            });
            if !is_ordered {
                return Err(wrong());
            }
            Value::List(values)
        }
        "range" => {
            let (start, end) = match arguments.len() {
                1 => (0.0, number(0)?),
                _ => (number(0)?, number(1)?),
            };
            let step = if arguments.len() > 2 { number(2)? } else { 1.0 };
            let count = ((end - start) / step).ceil().max(0.0);
            if step == 0.0 || count > LARGEST as f64 {
                return Err(format!("range({start}, {end}, {step})"));
            }
            Value::List(
                (0..count as usize).map(|at| Value::Number(start + at as f64 * step)).collect(),
            )
        }
        _ => return Err(name.to_owned()),
    })
}

/// `text.format(…)`, `text.join(…)` and what else texts can.
pub(super) fn method(of: &Value, name: &str, arguments: &[Value]) -> Result<Value, String> {
    let wrong = || format!("{}.{name}(…)", of.kind());
    let Value::Text(text) = of else { return Err(wrong()) };
    match (name, arguments) {
        ("format", _) => fill(text, arguments).map(Value::Text).ok_or_else(wrong),
        ("join", [Value::List(list)]) => {
            let words: Vec<String> = list.iter().map(ToString::to_string).collect();
            Ok(Value::Text(words.join(text)))
        }
        ("startswith", [Value::Text(start)]) => Ok(Value::Truth(text.starts_with(start))),
        ("endswith", [Value::Text(end)]) => Ok(Value::Truth(text.ends_with(end))),
        ("lower", []) => Ok(Value::Text(text.to_lowercase())),
        ("upper", []) => Ok(Value::Text(text.to_uppercase())),
        ("strip", []) => Ok(Value::Text(text.trim().to_owned())),
        _ => Err(wrong()),
    }
}

/// `{}`, `{0}` and `{:FORMAT}` become values.
fn fill(text: &str, values: &[Value]) -> Option<String> {
    let (mut out, mut rest, mut next) = (String::new(), text, 0);
    while let Some(place) = rest.find(['{', '}']) {
        out.push_str(&rest[..place]);
        let mark = &rest[place..=place];
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix(mark) {
            out.push_str(mark);
            rest = after;
            continue;
        }
        let (inside, after) = rest.split_once('}').filter(|_| mark == "{")?;
        rest = after;
        let (at, format) = inside.split_once(':').unwrap_or((inside, ""));
        let at = if at.is_empty() { next } else { at.parse().ok()? };
        next += 1;
        out.push_str(&format_value(values.get(at)?, format)?);
    }
    out.push_str(rest);
    Some(out)
}
