//! Parts of a scenario in numbers, for who computes with them instead of reading them: quantities
//! lose their units and are in seconds, bits per second, bytes, bits (between bit errors) and
//! shares. Words that stand in place of a quantity, such as "auto", stay.

use super::keys::{Field, Key, Shape, default_value};
use crate::rng::DurationLaw;
use crate::units::{Bytes, Decibels, Distance, Duration, Rate};
use serde_json::{Map, Value, json};

/// A value of the model in numbers; tables and unions have the keys of a scenario file.
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
        (Shape::UnionOr(_, short), value) => convert(short, value),
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
                // A union whose kind has no keys may be written as that word.
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
        "duration law" => text.parse().ok().map(|law: DurationLaw| match law {
            DurationLaw::Constant(mean) => json!({"law": "constant", "mean": seconds(mean)}),
            DurationLaw::Uniform(shortest, longest) => {
                let (least, most) = (seconds(shortest), seconds(longest));
                json!({"law": "uniform", "mean": seconds(law.mean()), "shortest": least, "longest": most})
            }
            DurationLaw::Exponential(mean) => json!({"law": "exp", "mean": seconds(mean)}),
            DurationLaw::Pareto(mean, shape) => {
                json!({"law": "pareto", "mean": seconds(mean), "shape": shape.get()})
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use std::path::Path;

    #[test]
    fn quantities_lose_their_units_and_words_stay() {
        let text = r#"
            name = "n"
            [link.l]
            between = ["a", "b"]
            rate = "64 kbps"
            delay = "50 ms"
            protocol = { kind = "stop-and-wait", retries = 3 }
            errors = { kind = "two-state", good = "10 s", bad = "100 ms", good_ber = 1e-6, bad_ber = "1 %" }
            reverse = { errors = { kind = "exponential-bits", mean = "16 KiB" } }
            [flow.f]
            from = "a"
            to = "b"
            transport = { kind = "udp" }
            app = { kind = "media", rate = "8 kbps", packet = "100 B", silence = "0 s" }
            [run]
            duration = "1 min"
        "#;
        let document = Scenario::from_toml(text, Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("a point").remove(0).scenario;
        let link = &scenario.links[0];
        let two_state = json!({
            "kind": "two-state", "good": 10.0, "bad": 0.1, "good_ber": 1e-6, "bad_ber": 0.01,
        });
        assert_eq!(numbers(&link.forward.errors), two_state);
        let intervals = json!({"kind": "exponential-bits", "mean": 131_072});
        assert_eq!(numbers(&link.reverse.errors), intervals);
        let protocol = json!({
            "kind": "stop-and-wait", "retries": 3, "timeout": "auto", "control": 2,
        });
        assert_eq!(numbers(&link.protocol), protocol);
        let media = json!({
            "kind": "media", "rate": 8000, "packet": 100,
            "talk": {"law": "exp", "mean": 1.0}, "silence": {"law": "constant", "mean": 0.0},
            "deadline": 0.4,
        });
        assert_eq!(numbers(&scenario.flows[0].app), media);
    }
}
