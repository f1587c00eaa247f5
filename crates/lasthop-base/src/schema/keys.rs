//! How the model's types describe themselves, once: each key's name, type, default, limits and
//! meaning, from which come the reader, the error messages, the JSON Schema and the reference page.

pub use super::declare::{choice, kinds, table, table_field, union};
use super::error::{ScenarioError, suggestion};
use super::files::Files;
use crate::units::Rate;
pub use serde_json::{Map, Value};

/// Result of reading.
pub type Read<T> = Result<T, ScenarioError>;

/// One key of a table.
pub struct Key {
    /// Name in a scenario.
    pub name: &'static str,
    /// What it means; the doc comment of the model's field.
    pub about: &'static str,
    /// The default as written in TOML, without quotes; for a union, its kind.
    pub default: Option<&'static str>,
    /// May be left out although it has no default.
    pub optional: bool,
    /// Limits of its number, if it is one.
    pub limits: Limits,
    /// Its type.
    pub shape: Shape,
}

/// Least and greatest value in base units (1, ns, bytes, bit/s).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

impl Limits {
    /// Every number.
    pub const ANY: Limits = Limits { min: 0, max: u64::MAX };
    /// Every number except 0.
    pub const POSITIVE: Limits = Limits { min: 1, max: u64::MAX };

    /// A rate, in bits per second: see [`Rate::FASTEST`].
    pub const RATE: Limits = Limits::range(1, Rate::FASTEST.as_bps());
    /// A file, in bytes, up to a petabyte: its size in bits stays far from the end of 64 bits.
    pub const FILE: Limits = Limits::range(1, 1_000_000_000_000_000);
    /// A queue or a window, in bytes, up to a terabyte: a thousand times the largest window of TCP
    /// (RFC 7323, section 2.3).
    pub const BUFFER: Limits = Limits::range(1, 1_000_000_000_000);
    /// An IP packet, in bytes.
    pub const PACKET: Limits = Limits::range(1, 65_535);
    /// A control frame of a link, in bytes.
    pub const CONTROL: Limits = Limits::range(1, 1_000);
    /// A header, of a frame or of TCP and IP, in bytes.
    pub const HEADER: Limits = Limits::range(0, 1_000);

    /// From `min` to `max`, both included.
    pub const fn range(min: u64, max: u64) -> Limits {
        Limits { min, max }
    }

    /// Whether `value` is within the limits.
    pub fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// ", from 1 B to 1.5 kB", or nothing; `print` gives a number its unit.
    pub fn text(self, print: impl Fn(u64) -> String) -> String {
        match (self.min, self.max) {
            (0, u64::MAX) => String::new(),
            (1, u64::MAX) => ", more than zero".to_owned(),
            (min, u64::MAX) => format!(", at least {}", print(min)),
            (min, max) => format!(", from {} to {}", print(min), print(max)),
        }
    }
}

/// What may stand as a value.
pub enum Shape {
    /// Free text.
    Text,
    /// A quantity written as text.
    Quantity {
        /// Its type, as the reference calls it.
        what: &'static str,
        /// What is allowed, for messages.
        allowed: &'static str,
        /// Regular expression of the texts allowed.
        pattern: &'static str,
        /// Prints a number of base units, for limits.
        print: fn(u64) -> String,
    },
    /// A probability: a number, or text with a per-cent sign.
    Probability,
    /// A number, at least 1.
    Mean,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A whole number or this word.
    IntegerOr(&'static str),
    /// Different whole numbers, at least one.
    Integers,
    /// A list of probabilities, one a state.
    Probabilities,
    /// A list of rows of probabilities, one row a state.
    ProbabilityRows,
    /// Two different host names.
    HostPair,
    /// Different host names, at least one.
    Hosts,
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose key `kind` decides which other keys it has; without these, the kind alone.
    Union(&'static [Variant]),
    /// The same, or a value of the other shape, which stands for one of the kinds.
    UnionOr(&'static [Variant], &'static Shape),
    /// Pairs of a time and a value of this shape.
    Steps(&'static Shape),
    /// A union, or a list of at least one such table.
    Unions(&'static [Variant]),
    /// Names to tables, in file order.
    Map(&'static [Key]),
    /// A number, or text of a number and a unit: an end of a range.
    Bound,
    /// Dotted keys to lists of values, and what else a sweep has.
    Sweep,
}

impl Shape {
    /// What is allowed as a list of probabilities, or of rows of them, one entry a state.
    pub fn allowed_list(&self, limits: Limits) -> String {
        let (what, example) = match self {
            Shape::ProbabilityRows => ("rows of probabilities", "[[0.9, 0.1], [0.5, 0.5]]"),
            _ => ("probabilities", "[0, 0.5]"),
        };
        format!("a list of {} to {} {what} such as {example}, one a state", limits.min, limits.max)
    }
}

/// One kind of a union.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Value of its key `kind`.
    pub kind: &'static str,
    /// What it is; the doc comment of its table.
    pub about: &'static str,
    /// Its other keys.
    pub keys: &'static [Key],
}

/// A table that is one kind of a union.
pub trait Kind {
    /// The value of its key `kind`.
    const KIND: &'static str;
    /// What it is, in a sentence or two.
    const ABOUT: &'static str;
}

/// Something that can be the value of a key.
pub trait Field: Sized {
    /// Shape of the value in a scenario.
    const SHAPE: Shape;
    /// True for `Option`.
    const OPTIONAL: bool = false;
    /// Reads the value, which must be within `limits`.
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self>;
    /// As a scenario file would say it; `Null` is left out.
    fn write(&self) -> Value;
    /// The value of a key that is absent and has no default.
    fn absent(_node: &Node<'_>) -> Option<Self> {
        None
    }
}

/// A table with a fixed set of keys.
pub trait Table: Sized {
    /// Its keys, in the order of the fields.
    const KEYS: &'static [Key];
    /// Reads the table.
    fn read(node: &Node<'_>) -> Read<Self>;
    /// Writes the table, without absent keys.
    fn write(&self) -> Map<String, Value>;
}

/// A value of the document and where it stands.
#[derive(Clone)]
pub struct Node<'a> {
    /// The value.
    pub value: &'a Value,
    /// Dotted path from the top of the document.
    pub path: String,
    /// The files that it names.
    pub files: &'a Files,
}

impl<'a> Node<'a> {
    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Error for this value: what was found and what is allowed.
    pub fn error(&self, found: impl Into<String>, allowed: impl Into<String>) -> ScenarioError {
        ScenarioError::new(self.path.clone(), found, allowed)
    }

    /// The error that this value is of the wrong type or form.
    pub fn wrong(&self, allowed: impl Into<String>) -> ScenarioError {
        self.error(show(self.value), allowed)
    }

    /// Path of `key` of this table.
    pub fn child_path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The `value` of `key` of this table.
    pub fn child(&self, key: &str, value: &'a Value) -> Node<'a> {
        Node { value, path: self.child_path(key), files: self.files }
    }

    /// The value as text, or an error that says what is `allowed`.
    pub fn text(&self, allowed: &str) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong(allowed))
    }

    /// The value as a table, or an error that says what is `allowed`.
    pub fn object(&self, allowed: &str) -> Read<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.wrong(allowed))
    }

    /// The error for a key of this table.
    pub fn key_error(
        &self,
        key: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::new(self.child_path(key), found, allowed)
    }

    /// This value as a table that has no other keys than these and, in a union, `kind`.
    pub fn only(&self, keys: &[Key], in_union: bool) -> Read<&'a Map<String, Value>> {
        let names = || in_union.then_some("kind").into_iter().chain(keys.iter().map(|k| k.name));
        let list = || names().collect::<Vec<_>>().join(", ");
        let table = self.object(&format!("a table with the keys {}", list()))?;
        match table.keys().find(|key| !names().any(|name| name == *key)) {
            None => Ok(table),
            Some(key) => Err(self.key_error(
                key,
                format!("unknown key {key:?}{}", suggestion(key, names())),
                list(),
            )),
        }
    }

    /// Reads one key of this table.
    pub fn field<T: Field>(&self, key: &Key) -> Read<T> {
        let default;
        let value = match (self.value.get(key.name), key.default) {
            (Some(value), _) => value,
            (None, Some(text)) => {
                default = default_value(&key.shape, text);
                &default
            }
            (None, None) => {
                return T::absent(self).ok_or_else(|| {
                    self.key_error(key.name, "nothing (the key is missing)", allowed(key))
                });
            }
        };
        T::read(&Node { value, path: self.child_path(key.name), files: self.files }, key.limits)
    }

    /// The variant that `kind` names, or that this word is, and no other keys than it has.
    pub fn variant(&self, variants: &'static [Variant]) -> Read<&'static Variant> {
        let kinds = || variants.iter().map(|v| v.kind);
        let list = || kinds().map(|k| format!("{k:?}")).collect::<Vec<_>>().join(", ");
        let find = |node: &Node<'_>, word: &str| {
            variants
                .iter()
                .find(|v| v.kind == word)
                .ok_or_else(|| node.error(format!("{word:?}{}", suggestion(word, kinds())), list()))
        };
        if let Some(word) = self.value.as_str() {
            // All its keys are left out.
            return find(self, word);
        }
        let table = self.object(&format!("a table with the key kind, one of {}", list()))?;
        let missing = || self.key_error("kind", "nothing (the key is missing)", list());
        let node = self.child("kind", table.get("kind").ok_or_else(missing)?);
        let variant = find(&node, node.text(&list())?)?;
        self.only(variant.keys, true)?;
        Ok(variant)
    }
}

/// What may stand at a path of these keys; none where no key has it.
pub fn shape_at(keys: &'static [Key], path: &[&str]) -> Option<&'static Shape> {
    let (name, below) = path.split_first()?;
    let shape = &keys.iter().find(|key| key.name == *name)?.shape;
    match (shape, below) {
        (_, []) => Some(shape),
        (Shape::Table(keys), _) => shape_at(keys, below),
        (Shape::Map(keys), [_name, below @ ..]) => shape_at(keys, below),
        (Shape::Union(variants) | Shape::UnionOr(variants, _) | Shape::Unions(variants), _) => {
            variants.iter().find_map(|variant| shape_at(variant.keys, below))
        }
        _ => None,
    }
}

/// Appends a key to a dotted path, in quotes if it is not a bare key.
pub fn join(path: &str, key: &str) -> String {
    let quoted;
    let key = if is_name(key) {
        key
    } else {
        quoted = format!("{key:?}");
        &quoted
    };
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Letters, digits, `-` and `_`, at least one.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// What is allowed as a name.
pub const NAME_ALLOWED: &str = "a name of letters, digits, - and _";

/// What a sweep may be, for messages.
pub const SWEEP_ALLOWED: &str = "a table of dotted keys, each with a list of values such as \
     \"link.wireless.delay\" = [\"1 ms\", \"50 ms\"]";
/// What a bound of a sweep may be, for messages.
pub const BOUND_ALLOWED: &str =
    "a number such as 0.01, or text of a number and a unit such as \"10 ms\"";

/// What is allowed as the value of a key.
pub fn allowed(key: &Key) -> String {
    allowed_shape(&key.shape, key)
}

/// What is allowed as a value of this shape, with the limits and the name of a key.
fn allowed_shape(shape: &Shape, key: &Key) -> String {
    match shape {
        Shape::Text => super::quantity::TEXT_ALLOWED.to_owned(),
        Shape::Quantity { allowed, print, .. } => format!("{allowed}{}", key.limits.text(print)),
        Shape::Probability => super::quantity::PROBABILITY_ALLOWED.to_owned(),
        Shape::Mean => super::quantity::MEAN_ALLOWED.to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Integer => format!("a whole number{}", key.limits.text(|n| n.to_string())),
        Shape::IntegerOr(word) => {
            format!("a whole number{}, or {word:?}", key.limits.text(|n| n.to_string()))
        }
        Shape::Integers => allowed_numbers(key.limits),
        Shape::Probabilities | Shape::ProbabilityRows => key.shape.allowed_list(key.limits),
        Shape::HostPair => super::quantity::PAIR_ALLOWED.to_owned(),
        Shape::Hosts => super::quantity::HOSTS_ALLOWED.to_owned(),
        Shape::Choice(words) => one_of(words.iter().map(|(word, _)| *word)),
        Shape::Table(keys) => {
            let names: Vec<_> = keys.iter().map(|k| k.name).collect();
            format!("a table with the keys {}", names.join(", "))
        }
        Shape::Union(variants) => {
            format!("a table with the key kind, {}", one_of(variants.iter().map(|v| v.kind)))
        }
        Shape::UnionOr(variants, short) => format!(
            "{}; or a table with the key kind, {}",
            allowed_shape(short, key),
            one_of(variants.iter().map(|v| v.kind))
        ),
        Shape::Steps(value) => {
            format!("a list of pairs of a time and {}", allowed_shape(value, key))
        }
        Shape::Unions(variants) => format!(
            "a table with the key kind, {}, or a list of such tables",
            one_of(variants.iter().map(|v| v.kind))
        ),
        Shape::Map(_) => format!("at least one table [{}.NAME]", key.name),
        Shape::Bound => BOUND_ALLOWED.to_owned(),
        Shape::Sweep => SWEEP_ALLOWED.to_owned(),
    }
}

/// What is allowed as a list of different whole numbers.
pub fn allowed_numbers(limits: Limits) -> String {
    format!("a list of different whole numbers such as [25, 27]{}", limits.text(|n| n.to_string()))
}

/// "one of …" with each word in quotes.
pub fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.map(|word| format!("{word:?}")).collect();
    format!("one of {}", words.join(", "))
}

/// The JSON value of a default.
pub fn default_value(shape: &Shape, text: &str) -> Value {
    match shape {
        Shape::Integer
        | Shape::Mean
        | Shape::Bool
        | Shape::Table(_)
        | Shape::Map(_)
        | Shape::Sweep => serde_json::from_str(text).unwrap_or(Value::Null),
        Shape::IntegerOr(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        Shape::Union(_) => Value::Object(Map::from_iter([("kind".to_owned(), text.into())])),
        _ => text.into(),
    }
}

/// A value as a message shows it: short, as TOML would write it.
pub fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(items) if items.len() > 4 => format!("a list of {} values", items.len()),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        Value::Object(table) if table.is_empty() => "an empty table".to_owned(),
        Value::Object(table) => {
            let mut names: Vec<_> = table.keys().take(4).map(String::as_str).collect();
            if table.len() > 4 {
                names.push("…");
            }
            format!("a table with the keys {}", names.join(", "))
        }
        Value::String(text) if text.chars().count() > 60 => {
            format!("{:?}…", text.chars().take(60).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
