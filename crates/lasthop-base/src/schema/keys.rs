//! Descriptions of the model's types: name, type, default, limits and meaning of each key. The
//! reader, the error messages, the JSON Schema and the reference page are derived from them.

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
    /// Former name, which is accepted until the next minor version.
    pub was: Option<&'static str>,
    /// Description; the doc comment of the model's field.
    pub about: &'static str,
    /// The default as written in TOML, without quotes; for a union, its kind.
    pub default: Option<&'static str>,
    /// Whether the key may be omitted although it has no default.
    pub optional: bool,
    /// Limits of the value, if it is a number.
    pub limits: Limits,
    /// Its type.
    pub shape: Shape,
}

/// Minimum and maximum in base units (1, ns, bytes, bit/s).
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
    /// A file, in bytes, up to a petabyte: its size in bits fits in 64 bits.
    pub const FILE: Limits = Limits::range(1, 1_000_000_000_000_000);
    /// A queue or a window, in bytes, up to a terabyte: a thousand times the maximum window of TCP
    /// (RFC 7323, section 2.3).
    pub const BUFFER: Limits = Limits::range(1, 1_000_000_000_000);
    /// An IP packet, in bytes.
    pub const PACKET: Limits = Limits::range(1, 65_535);
    /// A control frame of a link, in bytes.
    pub const CONTROL: Limits = Limits::range(1, 1_000);
    /// A frame header or a TCP/IP header, in bytes.
    pub const HEADER: Limits = Limits::range(0, 1_000);

    /// Creates limits from `min` to `max`, both included.
    pub const fn range(min: u64, max: u64) -> Limits {
        Limits { min, max }
    }

    /// Returns `true` if `value` is within the limits.
    pub fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// Returns the limits of a key of type `T`. A type that would ignore them is a compile-time
    /// error.
    pub const fn of<T: Field>(self) -> Limits {
        let is_any = self.min == Self::ANY.min && self.max == Self::ANY.max;
        assert!(is_any || T::HAS_LIMITS, "keys of this type have no limits");
        self
    }

    /// Returns a text such as ", from 1 B to 1.5 kB", or an empty one. `print` adds the unit to a
    /// number.
    pub fn text(self, print: impl Fn(u64) -> String) -> String {
        match (self.min, self.max) {
            (0, u64::MAX) => String::new(),
            (1, u64::MAX) => ", more than zero".to_owned(),
            (min, u64::MAX) => format!(", at least {}", print(min)),
            (min, max) => format!(", from {} to {}", print(min), print(max)),
        }
    }
}

/// Type of a value.
pub enum Shape {
    /// Free text.
    Text,
    /// A quantity written as text.
    Quantity {
        /// Name of its type in the reference.
        what: &'static str,
        /// Values allowed, for messages.
        allowed: &'static str,
        /// Regular expression of the allowed texts.
        pattern: &'static str,
        /// Formats a number of base units, for limits.
        print: fn(u64) -> String,
    },
    /// A probability: a number, or text with a percent sign.
    Probability,
    /// A number, at least 1.
    Mean,
    /// A real number, with or without unit.
    Real(&'static super::quantity::Real),
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A whole number or this word.
    IntegerOr(&'static str),
    /// A non-empty list of distinct whole numbers.
    Integers,
    /// A list of probabilities, one per state.
    Probabilities,
    /// A list of rows of probabilities, one row per state.
    ProbabilityRows,
    /// Two different host names.
    HostPair,
    /// A non-empty list of distinct host names.
    Hosts,
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A table whose key `kind` determines its other keys; a kind without other keys may be written
    /// as a word.
    Union(&'static [Variant]),
    /// Like `Union`, or the value of this key of one of the kinds as a shorthand for that kind.
    UnionOr(&'static [Variant], &'static Key),
    /// A list of pairs of a time and a value of this shape.
    Steps(&'static Shape),
    /// A union, or a non-empty list of such tables.
    Unions(&'static [Variant]),
    /// A table of named tables, in file order.
    Map(&'static [Key]),
    /// A number, or text of a number and a unit: the bound of a range.
    Bound,
    /// A sweep: dotted keys with lists of values, and its options.
    Sweep,
}

impl Shape {
    /// Describes a list of probabilities, or of rows of probabilities, with one entry per state.
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
    /// Description; the doc comment of its table.
    pub about: &'static str,
    /// Its other keys.
    pub keys: &'static [Key],
}

/// A table that is one kind of a union.
pub trait Kind {
    /// The value of its key `kind`.
    const KIND: &'static str;
    /// Description in one or two sentences.
    const ABOUT: &'static str;
}

/// A type that can be the value of a key.
pub trait Field: Sized {
    /// Shape of the value in a scenario.
    const SHAPE: Shape;
    /// Whether the type is an `Option`.
    const OPTIONAL: bool = false;
    /// Whether `read` checks the limits of a key. Other types cannot be declared with limits.
    const HAS_LIMITS: bool = false;
    /// Reads the value and checks it against `limits`.
    fn read(node: &Node<'_>, limits: Limits) -> Read<Self>;
    /// Returns the value as in a scenario file; `Null` is omitted.
    fn write(&self) -> Value;
    /// Returns the value of a key that is absent and has no default, if the key is optional.
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
    /// Writes the table without absent keys.
    fn write(&self) -> Map<String, Value>;
}

/// A value of the document with its path.
#[derive(Clone)]
pub struct Node<'a> {
    /// The value.
    pub value: &'a Value,
    /// Dotted path from the top of the document.
    pub path: String,
    /// Files of the scenario.
    pub files: &'a Files,
}

impl<'a> Node<'a> {
    /// Returns the last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Creates an error for this value from the value found and the values allowed.
    pub fn error(&self, found: impl Into<String>, allowed: impl Into<String>) -> ScenarioError {
        ScenarioError::new(self.path.clone(), found, allowed)
    }

    /// Creates an error for a value of the wrong type or format.
    pub fn wrong(&self, allowed: impl Into<String>) -> ScenarioError {
        self.error(show(self.value), allowed)
    }

    /// Returns the path of `key` in this table.
    pub fn child_path(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// Returns the `value` of `key` in this table as a node.
    pub fn child(&self, key: &str, value: &'a Value) -> Node<'a> {
        Node { value, path: self.child_path(key), files: self.files }
    }

    /// Returns the value as text, or an error with the values `allowed`.
    pub fn text(&self, allowed: &str) -> Read<&'a str> {
        self.value.as_str().ok_or_else(|| self.wrong(allowed))
    }

    /// Returns the value as a table, or an error with the values `allowed`.
    pub fn object(&self, allowed: &str) -> Read<&'a Map<String, Value>> {
        self.value.as_object().ok_or_else(|| self.wrong(allowed))
    }

    /// Creates an error for a key of this table.
    pub fn key_error(
        &self,
        key: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> ScenarioError {
        ScenarioError::new(self.child_path(key), found, allowed)
    }

    /// Returns this value as a table, after checking that it has no keys other than `keys` and, in
    /// a union, `kind`.
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
                return T::absent(self)
                    .ok_or_else(|| self.key_error(key.name, super::error::MISSING, allowed(key)));
            }
        };
        T::read(&Node { value, path: self.child_path(key.name), files: self.files }, key.limits)
    }

    /// Returns the variant that the key `kind`, or this word, names. Checks that the table has no
    /// other keys.
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
            // A word represents a table without other keys.
            return find(self, word);
        }
        let table = self.object(&format!("a table with the key kind, one of {}", list()))?;
        let missing = || self.key_error("kind", super::error::MISSING, list());
        let node = self.child("kind", table.get("kind").ok_or_else(missing)?);
        let variant = find(&node, node.text(&list())?)?;
        self.only(variant.keys, true)?;
        Ok(variant)
    }
}

/// Returns the shape of the value at `path` below these keys, or `None` if no key has that path.
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

/// Returns `true` if `text` consists of letters, digits, `-` and `_`, at least one.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Description of a valid name.
pub const NAME_ALLOWED: &str = "a name of letters, digits, - and _";

/// Description of a valid sweep, for messages.
pub const SWEEP_ALLOWED: &str = "a table of dotted keys, each with a list of values such as \
     \"link.wireless.delay\" = [\"1 ms\", \"50 ms\"]";
/// Description of a valid bound of a sweep, for messages.
pub const BOUND_ALLOWED: &str =
    "a number such as 0.01, or text of a number and a unit such as \"10 ms\"";

/// Describes the values that `key` allows.
pub fn allowed(key: &Key) -> String {
    allowed_shape(&key.shape, key)
}

/// Describes the values of this shape within the limits of `key`.
fn allowed_shape(shape: &Shape, key: &Key) -> String {
    match shape {
        Shape::Text => super::quantity::TEXT_ALLOWED.to_owned(),
        Shape::Quantity { allowed, print, .. } => format!("{allowed}{}", key.limits.text(print)),
        Shape::Probability => super::quantity::PROBABILITY_ALLOWED.to_owned(),
        Shape::Mean => super::quantity::MEAN_ALLOWED.to_owned(),
        Shape::Real(real) => real.allowed.to_owned(),
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
            allowed(short),
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

/// Describes a list of distinct whole numbers.
pub fn allowed_numbers(limits: Limits) -> String {
    format!("a list of different whole numbers such as [25, 27]{}", limits.text(|n| n.to_string()))
}

/// Returns "one of …" with each word in quotes.
pub fn one_of<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.map(|word| format!("{word:?}")).collect();
    format!("one of {}", words.join(", "))
}

/// Returns the JSON value of a default.
pub fn default_value(shape: &Shape, text: &str) -> Value {
    match shape {
        Shape::Integer
        | Shape::Mean
        | Shape::Bool
        | Shape::Table(_)
        | Shape::Map(_)
        | Shape::Sweep => serde_json::from_str(text).unwrap_or(Value::Null),
        Shape::Real(real) if real.units.is_empty() => {
            serde_json::from_str(text).unwrap_or(Value::Null)
        }
        Shape::IntegerOr(_) => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        Shape::Union(_) => Value::Object(Map::from_iter([("kind".to_owned(), text.into())])),
        _ => text.into(),
    }
}

/// Formats a value for a message: short, as in TOML.
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
