//! Parts of a scenario as numbers, for computations. Quantities are converted to seconds, bits per
//! second, bytes, bits (between bit errors) and fractions. Words used instead of a quantity, such
//! as "auto", are unchanged.

use super::keys::{Field, Key, Shape, default_value};
use crate::rng::DurationDistribution;
use crate::units::{Bytes, Decibels, Distance, Duration, Rate};
use serde_json::{Map, Value, json};

/// Converts a value of the model to numbers. Tables and unions have the keys of a scenario file.
pub fn numbers<T: Field>(value: &T) -> Value {
    convert(&T::SHAPE, value.write())
}

fn convert(shape: &Shape, value: Value) -> Value {
    match (shape, value) {
        (Shape::Quantity { what, .. }, Value::String(text)) => quantity(what, text),
        (Shape::Table(keys), Value::Object(map)) => table(keys, map).into(),
        (Shape::Union(variants), Value::Object(map)) => {
            let kind = map.get("kind").and_then(Value::as_str);
            let keys = variants.iter().find(|variant| Some(variant.kind) == kind);
            table(keys.map_or(&[], |variant| variant.keys), map).into()
        }
        (Shape::UnionOr(variants, _), map @ Value::Object(_)) => {
            convert(&Shape::Union(variants), map)
        }
        (Shape::UnionOr(_, short), value) => convert(&short.shape, value),
        (Shape::Real(real), Value::String(text)) => {
            real.parse(&text).map_or(Value::String(text), Value::from)
        }
        (Shape::Unions(variants), Value::Array(items)) => {
            items.into_iter().map(|item| convert(&Shape::Union(variants), item)).collect()
        }
        (Shape::Unions(variants), item) => convert(&Shape::Union(variants), item),
        (Shape::Map(keys), Value::Object(map)) => {
            let items = map.into_iter().map(|(name, value)| match value {
                Value::Object(item) => (name, table(keys, item).into()),
                other => (name, other),
            });
            Value::Object(items.collect())
        }
        (_, value) => value,
    }
}

fn table(keys: &[Key], map: Map<String, Value>) -> Map<String, Value> {
    let entries = map.into_iter().map(|(name, value)| {
        match keys.iter().find(|key| key.name == name) {
            Some(key) => {
                // A union whose kind has no other keys may be written as a word.
                let value = match (&key.shape, value) {
                    (Shape::Union(_), Value::String(word)) => default_value(&key.shape, &word),
                    (_, value) => value,
                };
                let value = convert(&key.shape, value);
                (name, value)
            }
            None => (name, value),
        }
    });
    entries.collect()
}

fn quantity(what: &str, text: String) -> Value {
    let counted = || text.split_once(' ').and_then(|(count, _)| count.parse::<u64>().ok());
    let number = match what {
        "duration distribution" => text.parse().ok().map(|found: DurationDistribution| match found {
            DurationDistribution::Constant(mean) => json!({"distribution": "constant", "mean": seconds(mean)}),
            DurationDistribution::Uniform(shortest, longest) => {
                let (least, most) = (seconds(shortest), seconds(longest));
                json!({"distribution": "uniform", "mean": seconds(found.mean()), "shortest": least, "longest": most})
            }
            DurationDistribution::Exponential(mean) => json!({"distribution": "exp", "mean": seconds(mean)}),
            DurationDistribution::Pareto(mean, shape) => {
                json!({"distribution": "pareto", "mean": seconds(mean), "shape": shape.get()})
            }
        }),
        "rate" => text.parse().ok().map(|rate: Rate| rate.as_bps().into()),
        "size" => text.parse().ok().map(|size: Bytes| size.get().into()),
        "distance" => text.parse().ok().map(|distance: Distance| distance.as_metres().into()),
        "ratio" => {
            let decibels = |ratio: Decibels| ratio.as_thousandths() as f64 * 1e-3;
            text.parse().ok().map(|ratio| decibels(ratio).into())
        }
        "bits or size" => match text.parse::<Bytes>() {
            Ok(size) => Some(size.bits().into()),
            Err(_) => counted().map(Value::from),
        },
        _ => text.parse().ok().map(|time: Duration| seconds(time).into()),
    };
    number.unwrap_or(Value::String(text))
}

/// Seconds.
pub fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
