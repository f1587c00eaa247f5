//! Parser of JSON text, like `serde_json` but with an error for duplicate keys. `serde_json`
//! silently uses the last one; TOML rejects them.

use serde_core::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Parses a text. A duplicate key in a table is an error.
pub fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Strict(value)| value)
}

/// A value without duplicate keys.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if table.contains_key(&key) {
                let shown: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format!("the key {shown:?} twice in a table")));
            }
            let Strict(value) = entries.next_value()?;
            table.insert(key, value);
        }
        Ok(table.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_key_twice_is_read_as_by_the_library() {
        for text in [
            r#"{"a": [1, -1, 18446744073709551615, 0.1, 1e-7, 1.0], "b": {"a": null, "c": [true]}}"#,
            r#""text \u00e9 \n""#,
            "[]",
            "{}",
            "0.30000000000000004",
        ] {
            let known: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(parse(text).expect("JSON"), known);
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_with_its_place() {
        for (text, place) in [
            (r#"{"a": 1, "a": 1}"#, "line 1 column 12"),
            ("{\"b\": [{\"a\": 1,\n\"a\": 2}]}", "line 2 column 3"),
        ] {
            let error = parse(text).expect_err("refused").to_string();
            assert!(error.contains(r#"the key "a" twice in a table"#), "{error}");
            assert!(error.contains(place), "{error}");
        }
    }
}
