//! The sweep of a scenario: lists, ranges, zipped lists and named cases, each an axis of the grid.

use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{
    BOUND_ALLOWED, Field, Limits, NAME_ALLOWED, Node, Read, SWEEP_ALLOWED, Shape, choice, is_name,
    show, table, table_field,
};
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::hash::Hash;

/// Key of zipped lists in a sweep; swept keys always contain a dot.
pub(super) const ZIP: &str = "zip";

/// Key of named cases in a sweep, and name of the parameter in points.
pub(super) const CASE: &str = "case";

/// Maximum number of points of a sweep.
pub(super) const MAX_POINTS: usize = 1_000_000;

const VALUES_ALLOWED: &str = "a list of at least one value, or a range such as { from = \"10 ms\", \
     to = \"50 ms\", step = \"10 ms\" }";
const ZIP_ALLOWED: &str =
    "tables [[sweep.zip]], each of at least two dotted keys with lists of the same length";
const CASE_ALLOWED: &str = "tables [sweep.case.NAME] of dotted keys, each with its value there";

/// Number of significant digits of computed values of a range.
const DIGITS: usize = 6;

table! {
    /// Values at equal distances or ratios.
    pub(super) struct Range {
        /// First value.
        from: Bound;
        /// End of the range, in the unit of `from`, and greater. With `step`, the last value is the
        /// last step up to it.
        to: Bound;
        /// Difference or ratio of consecutive values, in the same unit; either this or `count`.
        step: Option<Bound>;
        /// Number of values, including both ends; either this or `step`.
        count: Option<u64>, Limits::range(2, MAX_POINTS as u64);
        /// Spacing of `count` values between the ends. Values that cannot be written exactly are
        /// rounded to six significant digits.
        spacing: Spacing = "linear";
    }
}

table_field!(Range);

choice! {
    /// Spacing of the values of a range.
    pub enum Spacing {
        /// Equal differences.
        Linear = "linear",
        /// Equal ratios; with `count`, from a value above 0.
        Logarithmic = "logarithmic",
    }
}

/// All axes of a sweep; the last varies fastest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sweep(pub Vec<Axis>);

/// One axis of the grid: keys that change together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub steps: Vec<Step>,
}

/// One place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Label of the points.
    pub label: Vec<(String, Value)>,
    pub settings: Vec<Setting>,
}

/// A dotted key and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    pub key: String,
    pub value: Value,
    /// Its path in the document.
    pub path: String,
}

impl Axis {
    /// Creates an axis from lists of equal length, whose values are combined in order.
    fn of_lists(lists: &[(&String, String, Vec<Value>)]) -> Self {
        let length = lists.first().map_or(0, |(_, _, values)| values.len());
        let step = |index: usize| Step {
            label: lists
                .iter()
                .map(|(key, _, list)| ((*key).clone(), list[index].clone()))
                .collect(),
            settings: lists
                .iter()
                .map(|(key, path, list)| Setting {
                    key: (*key).clone(),
                    value: list[index].clone(),
                    path: path.clone(),
                })
                .collect(),
        };
        Axis { steps: (0..length).map(step).collect() }
    }
}

impl Field for Sweep {
    const SHAPE: Shape = Shape::Sweep;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let mut axes = Vec::new();
        for (key, value) in node.object(SWEEP_ALLOWED)? {
            let child = node.child(key, value);
            match key.as_str() {
                ZIP => axes.extend(zips(&child)?),
                CASE => axes.push(cases(&child)?),
                _ if value.is_object() && is_name(key) => {
                    // `link.a.rate = […]` without quotes is a table `link` in TOML.
                    return Err(ScenarioError::new(
                        node.path.clone(),
                        format!("a table {key:?}"),
                        format!("{SWEEP_ALLOWED}; the dotted key in quotes"),
                    ));
                }
                _ => {
                    let values = values(&child)?;
                    if let Some(twice) = repeated(&values) {
                        let found = format!("{} twice", show(twice));
                        return Err(child.error(found, "a list of different values"));
                    }
                    axes.push(Axis::of_lists(&[(key, child.path, values)]));
                }
            }
        }
        Ok(Sweep(axes))
    }
    fn write(&self) -> Value {
        // Resolved scenarios have no sweep, and documents keep their original values.
        Value::Object(Map::new())
    }
}

/// Returns the first value that equals an earlier one.
fn repeated<'a, T: Eq + Hash>(values: impl IntoIterator<Item = &'a T>) -> Option<&'a T> {
    let mut seen = HashSet::new();
    values.into_iter().find(|&value| !seen.insert(value))
}

/// Returns the values of a list or a range.
fn values(node: &Node<'_>) -> Read<Vec<Value>> {
    match node.value {
        Value::Array(values) if !values.is_empty() => Ok(values.clone()),
        Value::Object(_) => <Range as Field>::read(node, Limits::ANY)?.values(node),
        _ => Err(node.wrong(VALUES_ALLOWED)),
    }
}

fn zips(node: &Node<'_>) -> Read<Vec<Axis>> {
    let tables = node.value.as_array().filter(|tables| !tables.is_empty());
    let mut axes = Vec::new();
    for value in tables.ok_or_else(|| node.wrong(ZIP_ALLOWED))? {
        // The error path has no position: the keys of all these tables differ.
        let table = Node { value, ..node.clone() };
        let mut lists = Vec::new();
        for (key, value) in table.object(ZIP_ALLOWED)? {
            let child = table.child(key, value);
            lists.push((key, child.path.clone(), values(&child)?));
        }
        let Some((first, rest)) = lists.split_first().filter(|(_, rest)| !rest.is_empty()) else {
            return Err(table.error(format!("{} key", lists.len()), ZIP_ALLOWED));
        };
        if let Some((_, path, other)) = rest.iter().find(|(_, _, list)| list.len() != first.2.len())
        {
            let found = format!("{} values with {} of {:?}", other.len(), first.2.len(), first.0);
            return Err(ScenarioError::new(path.clone(), found, "lists of the same length"));
        }
        let axis = Axis::of_lists(&lists);
        if let Some(label) = repeated(axis.steps.iter().map(|step| &step.label)) {
            let row: Vec<_> = label.iter().map(|(_, value)| show(value)).collect();
            let found = format!("{} twice", row.join(" with "));
            return Err(table.error(found, "lists that differ at every place"));
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn cases(node: &Node<'_>) -> Read<Axis> {
    let tables = node.object(CASE_ALLOWED)?;
    if tables.is_empty() {
        return Err(node.wrong(CASE_ALLOWED));
    }
    let mut steps = Vec::new();
    for (name, value) in tables {
        if !is_name(name) {
            return Err(node.error(format!("the name {name:?}"), NAME_ALLOWED));
        }
        let child = node.child(name, value);
        let setting = |(key, value): (&String, &Value)| Setting {
            key: key.clone(),
            value: value.clone(),
            path: child.child_path(key),
        };
        steps.push(Step {
            label: vec![(CASE.to_owned(), name.as_str().into())],
            settings: child.object(CASE_ALLOWED)?.iter().map(setting).collect(),
        });
    }
    Ok(Axis { steps })
}

/// An end or a step of a range.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bound {
    number: Decimal,
    /// Unit with the preceding space; empty for numbers.
    unit: String,
    is_text: bool,
}

impl Field for Bound {
    const SHAPE: Shape = Shape::Bound;
    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let bound = match node.value {
            Value::Number(number) => Decimal::read(&number.to_string())
                .filter(|(_, rest)| rest.is_empty())
                .map(|(number, _)| Bound { number, unit: String::new(), is_text: false }),
            Value::String(text) => Decimal::read(text.trim()).map(|(number, unit)| Bound {
                number,
                unit: unit.to_owned(),
                is_text: true,
            }),
            _ => None,
        };
        bound.ok_or_else(|| node.wrong(BOUND_ALLOWED))
    }
    fn write(&self) -> Value {
        self.with(self.number)
    }
}

impl Bound {
    /// Returns another number with the same unit and notation.
    fn with(&self, number: Decimal) -> Value {
        if self.is_text {
            return format!("{}{}", number.text(), self.unit).into();
        }
        match i64::try_from(number.digits) {
            Ok(whole) if number.places == 0 => whole.into(),
            _ => serde_json::Number::from_f64(number.value()).map_or(Value::Null, Value::Number),
        }
    }
}

impl Range {
    /// Returns the values of the range.
    fn values(&self, node: &Node<'_>) -> Read<Vec<Value>> {
        let Range { from, to, step, count, spacing } = self;
        let bounds = [("to", Some(to)), ("step", step.as_ref())];
        for (name, bound) in bounds {
            if let Some(bound) = bound
                && (bound.unit.trim(), bound.is_text) != (from.unit.trim(), from.is_text)
            {
                let unit = match from.unit.trim() {
                    _ if !from.is_text => "a number, as from is".to_owned(),
                    "" => "text of a number without unit, as from is".to_owned(),
                    unit => format!("text of a number and the unit of from, {unit}"),
                };
                return Err(node.key_error(name, show(&bound.write()), unit));
            }
        }
        let (Some(scaled), Some((first, last))) =
            (Scale::of(&[Some(from), Some(to), step.as_ref()]), from.number.ends(to.number))
        else {
            let allowed = "numbers of at most eighteen digits";
            return Err(node.error("numbers too long or too far apart", allowed));
        };
        if first >= last {
            let allowed = format!("more than from, which is {}", show(&from.write()));
            return Err(node.key_error("to", show(&to.write()), allowed));
        }
        let numbers = match (step, count, spacing) {
            (Some(step), None, Spacing::Linear) => scaled.stepped(node, from, to, step)?,
            (Some(_), None, Spacing::Logarithmic) => {
                return Err(node.key_error("spacing", "\"logarithmic\" with step", "count"));
            }
            (None, Some(count), Spacing::Linear) => linear(from.number, to.number, *count),
            (None, Some(count), Spacing::Logarithmic) => {
                if from.number.digits <= 0 {
                    let found = format!("{} with logarithmic spacing", show(&from.write()));
                    return Err(node.key_error("from", found, "more than zero"));
                }
                logarithmic(from.number, to.number, *count)
            }
            (Some(_), Some(_), _) => {
                return Err(node.error("step and count", "one of the two"));
            }
            (None, None, _) => return Err(node.error("neither step nor count", "one of the two")),
        };
        if numbers.windows(2).any(|pair| pair[0].value() >= pair[1].value()) {
            let found = format!("{} values that six digits do not tell apart", numbers.len());
            return Err(node.error(found, "fewer values, or a larger distance of the ends"));
        }
        Ok(numbers.into_iter().map(|number| from.with(number)).collect())
    }
}

/// An exact decimal number: `digits` / 10^`places`, without trailing zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    places: u32,
}

/// Maximum number of digits before and after the point.
const MAX_PLACES: u32 = 18;

impl Decimal {
    fn new(mut digits: i128, mut places: u32) -> Self {
        while places > 0 && digits % 10 == 0 {
            (digits, places) = (digits / 10, places - 1);
        }
        Decimal { digits, places }
    }

    /// Parses the number at the start of a text; returns it with the remaining text.
    fn read(text: &str) -> Option<(Self, &str)> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_digit = |c: char| c.is_ascii_digit();
        let end = |text: &str| text.find(|c: char| !is_digit(c)).unwrap_or(text.len());
        let (whole, mut rest) = unsigned.split_at(end(unsigned));
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = after.split_at(end(after));
            if fraction.is_empty() {
                return None;
            }
        }
        let mut exponent = 0i32;
        if let Some(after) = rest.strip_prefix(['e', 'E']) {
            let sign = after.strip_prefix(['+', '-']).unwrap_or(after);
            let length = after.len() - sign.len() + end(sign);
            // Otherwise the unit begins with this letter.
            if end(sign) > 0 {
                exponent = after[..length].parse().ok()?;
                rest = &after[length..];
            }
        }
        if whole.is_empty() || whole.len() + fraction.len() > MAX_PLACES as usize {
            return None;
        }
        let mut digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        if text.starts_with('-') {
            digits = -digits;
        }
        let places = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        if places.unsigned_abs() > MAX_PLACES {
            return None;
        }
        if places < 0 {
            digits = digits.checked_mul(10i128.pow(places.unsigned_abs()))?;
        }
        Some((Decimal::new(digits, places.max(0).unsigned_abs()), rest))
    }

    /// Rounds a number to [`DIGITS`] significant digits.
    fn rounded(value: f64) -> Option<Self> {
        let text = format!("{value:.*e}", DIGITS - 1);
        Decimal::read(&text).map(|(number, _)| number)
    }

    fn text(self) -> String {
        let Decimal { digits, places } = self;
        let sign = if digits < 0 { "-" } else { "" };
        let width = places as usize + 1;
        let text = format!("{:0width$}", digits.unsigned_abs());
        let (whole, fraction) = text.split_at(text.len() - places as usize);
        let point = if places > 0 { "." } else { "" };
        format!("{sign}{whole}{point}{fraction}")
    }

    fn value(self) -> f64 {
        // The text is exact, and parsing it rounds once.
        self.text().parse().unwrap_or(f64::NAN)
    }

    /// Returns the digits scaled to `places` decimal places.
    fn at(self, places: u32) -> Option<i128> {
        10i128.checked_pow(places.checked_sub(self.places)?)?.checked_mul(self.digits)
    }

    /// Returns this number and another one at a common scale.
    fn ends(self, other: Decimal) -> Option<(i128, i128)> {
        let places = self.places.max(other.places);
        Some((self.at(places)?, other.at(places)?))
    }
}

/// Common number of decimal places of several numbers.
struct Scale(u32);

impl Scale {
    fn of(bounds: &[Option<&Bound>]) -> Option<Self> {
        let numbers = || bounds.iter().flatten().map(|bound| bound.number);
        let places = numbers().map(|number| number.places).max()?;
        numbers().all(|number| number.at(places).is_some()).then_some(Scale(places))
    }

    fn stepped(
        &self,
        node: &Node<'_>,
        from: &Bound,
        to: &Bound,
        step: &Bound,
    ) -> Read<Vec<Decimal>> {
        let Scale(places) = *self;
        let at = |bound: &Bound| bound.number.at(places).unwrap_or_default();
        let (from, to, by) = (at(from), at(to), at(step));
        if by <= 0 {
            return Err(node.key_error("step", show(&step.write()), "more than zero"));
        }
        let steps = (to - from) / by;
        if steps == 0 {
            let allowed = "at most the distance from from to to";
            return Err(node.key_error("step", show(&step.write()), allowed));
        }
        if steps >= MAX_POINTS as i128 {
            let found = format!("{}, which makes {} values", show(&step.write()), steps + 1);
            return Err(node.key_error("step", found, format!("up to {MAX_POINTS} values")));
        }
        Ok((0..=steps).map(|index| Decimal::new(from + index * by, places)).collect())
    }
}

fn linear(from: Decimal, to: Decimal, count: u64) -> Vec<Decimal> {
    let places = from.places.max(to.places);
    let (first, last) = from.ends(to).unwrap_or_default();
    let gaps = i128::from(count) - 1;
    let between = |index: i128| {
        // Exact if a few more decimal places suffice.
        let exact = 10i128
            .checked_pow(DIGITS as u32)
            .and_then(|more| (last - first).checked_mul(index)?.checked_mul(more))
            .filter(|distance| distance % gaps == 0);
        if let Some(distance) = exact
            && let Some(start) = first.checked_mul(10i128.pow(DIGITS as u32))
        {
            return Decimal::new(start + distance / gaps, places + DIGITS as u32);
        }
        let share = index as f64 / gaps as f64;
        let value = from.value() + (to.value() - from.value()) * share;
        Decimal::rounded(value).unwrap_or(from)
    };
    (0..=gaps).map(|index| if index == gaps { to } else { between(index) }).collect()
}

fn logarithmic(from: Decimal, to: Decimal, count: u64) -> Vec<Decimal> {
    let gaps = count - 1;
    let ratio = libm::log(to.value() / from.value());
    let between = |index: u64| {
        let value = from.value() * libm::exp(ratio * index as f64 / gaps as f64);
        Decimal::rounded(value).unwrap_or(from)
    };
    (0..=gaps)
        .map(|index| match index {
            0 => from,
            _ if index == gaps => to,
            _ => between(index),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::schema::files::Files;
    use serde_json::json;
    use std::path::Path;

    fn expand(value: Value) -> Result<Vec<Value>, String> {
        let node =
            Node { value: &value, path: "sweep.x".to_owned(), files: &Files::new(Path::new(".")) };
        values(&node).map_err(|error| error.to_string())
    }

    #[test]
    fn ranges_are_what_one_would_write_by_hand() {
        for (range, list) in [
            (json!({ "from": 1, "to": 4, "step": 1 }), json!([1, 2, 3, 4])),
            (json!({ "from": 0.1, "to": 0.3, "step": 0.1 }), json!([0.1, 0.2, 0.3])),
            (json!({ "from": 1e-6, "to": 3e-6, "step": 1e-6 }), json!([1e-6, 2e-6, 3e-6])),
            (json!({ "from": 0, "to": 1, "step": 0.3 }), json!([0, 0.3, 0.6, 0.9])),
            (json!({ "from": -1, "to": 1, "count": 3 }), json!([-1, 0, 1])),
            (
                json!({ "from": 1000001, "to": 1000004, "count": 4 }),
                json!([1000001, 1000002, 1000003, 1000004]),
            ),
            (json!({ "from": 0, "to": 1, "count": 4 }), json!([0, 0.333333, 0.666667, 1])),
            (
                json!({ "from": "10 ms", "to": "35 ms", "step": "10 ms" }),
                json!(["10 ms", "20 ms", "30 ms"]),
            ),
            (
                json!({ "from": "0.5 %", "to": "2 %", "count": 4 }),
                json!(["0.5 %", "1 %", "1.5 %", "2 %"]),
            ),
            (json!({ "from": "1kB", "to": "2kB", "count": 2 }), json!(["1kB", "2kB"])),
            (
                json!({ "from": 1, "to": 1000, "count": 4, "spacing": "logarithmic" }),
                json!([1, 10, 100, 1000]),
            ),
            (
                json!({ "from": "1 ms", "to": "2 ms", "count": 3, "spacing": "logarithmic" }),
                json!(["1 ms", "1.41421 ms", "2 ms"]),
            ),
        ] {
            assert_eq!(expand(range.clone()).map(Value::from), Ok(list), "{range}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (range, parts) in [
            (json!({ "from": 1, "to": 2 }), ["neither step nor count", "one of the two"]),
            (json!({ "from": 1, "to": 2, "step": 1, "count": 2 }), ["step and count", "one of"]),
            (json!({ "from": 2, "to": 1, "step": 1 }), ["x.to: found 1", "more than from"]),
            (json!({ "from": 1, "to": 2, "step": 0 }), ["x.step: found 0", "more than zero"]),
            (json!({ "from": 1, "to": 2, "step": 3 }), ["x.step: found 3", "at most the dist"]),
            (json!({ "from": 0, "to": 2, "step": 1e-6 }), ["makes 2000001 values", "up to 1"]),
            (
                json!({ "from": "1 ms", "to": "2 s", "count": 2 }),
                ["found \"2 s\"", "unit of from, ms"],
            ),
            (json!({ "from": "1 ms", "to": 2, "count": 2 }), ["found 2;", "unit of from, ms"]),
            (json!({ "from": 1, "to": "2", "count": 2 }), ["found \"2\"", "a number, as from"]),
            (json!({ "from": 1, "to": 2, "count": 1 }), ["x.count: found 1", "from 2 to"]),
            (json!({ "from": "ms", "to": "2 ms", "count": 2 }), ["found \"ms\"", "a number"]),
            (
                json!({ "from": 0, "to": 2, "count": 2, "spacing": "logarithmic" }),
                ["x.from: found 0 with log", "more than zero"],
            ),
            (
                json!({ "from": 1, "to": 2, "step": 1, "spacing": "logarithmic" }),
                ["x.spacing: found \"logarithmic\" with step", "count"],
            ),
            (json!({ "from": 1, "to": 1.00001, "count": 1000 }), ["six digits", "fewer values"]),
            (json!({ "from": 1, "to": 2, "by": 1 }), ["unknown key \"by\"", "from, to, step"]),
            (json!({ "from": 1e-30, "to": 2, "step": 1 }), ["found 1e-30", "a number"]),
            (json!({ "from": 1, "step": 1 }), ["x.to: missing key", "a number"]),
            (json!([]), ["an empty list", "or a range such as"]),
        ] {
            let error = expand(range.clone()).expect_err("refused");
            assert!(parts.iter().all(|part| error.contains(part)), "{range}: {error}");
        }
    }
}
