//! Output derived from the descriptions in `model.rs`: a JSON Schema for editors, and the reference
//! page.

use super::model::ScenarioKeys;
use super::sweep::{CASE, Range, ZIP};
use lasthop_base::schema::keys::{
    Field, Key, Limits, Shape, Table, Variant, allowed, default_value,
};
use lasthop_base::units::Duration;
use serde_json::{Map, Value, json};
use std::fmt::Write;

const NAME_PATTERN: &str = "^[A-Za-z0-9_-]+$";
/// Like [`NAME_PATTERN`], with `#` for a number.
const NUMBERED_NAME_PATTERN: &str = "^[A-Za-z0-9_#-]+$";

/// Version of the format of scenario files.
pub const SCHEMA_VERSION: &str = "2.0";

/// Returns the JSON Schema (draft 2020-12) of a scenario document. It describes the values of
/// single keys. Only the reader checks conditions on several keys (reachable hosts, an end of the
/// run).
///
/// The version is in `$id`. The first number changes if a valid file becomes invalid or changes its
/// meaning, the second if keys or values are added: docs/upgrading.md.
pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:lasthop:scenario:{SCHEMA_VERSION}"),
        "title": "Lasthop scenario",
        "description": "A lossy network, its traffic and how often to run it.",
    });
    if let (Some(schema), Value::Object(top)) =
        (schema.as_object_mut(), table_schema(ScenarioKeys::KEYS, None))
    {
        schema.extend(top);
    }
    // Required keys depend on another key, which the schema of a single key cannot express.
    schema["properties"]["link"]["additionalProperties"]["anyOf"] =
        json!([{ "required": ["preset"] }, { "required": ["rate", "delay"] }]);
    // The required keys may be in the extended file.
    let own = schema["required"].take();
    let with = |medium: &str| {
        let keys = own.as_array().into_iter().flatten().filter_map(Value::as_str);
        json!({ "required": keys.chain([medium]).collect::<Vec<_>>() })
    };
    schema["anyOf"] =
        json!([with("link"), with("radio"), with("wlan"), { "required": ["extends"] }]);
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("required");
    }
    schema
}

fn table_schema(keys: &[Key], variant: Option<&Variant>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some(variant) = variant {
        let kind = json!({ "const": variant.kind, "description": variant.about.trim() });
        properties.insert("kind".to_owned(), kind);
        required.push("kind");
    }
    for key in keys {
        properties.insert(key.name.to_owned(), key_schema(key));
        if is_required(key) {
            required.push(key.name);
        }
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    if let Some(variant) = variant {
        schema["title"] = variant.kind.into();
        schema["description"] = variant.about.trim().into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

fn probability_schema() -> Value {
    json!({ "anyOf": [
        { "type": "number", "minimum": 0, "maximum": 1 },
        { "type": "string", "pattern": "^\\s*[0-9.]+([eE][+-]?[0-9]+)?\\s*%?\\s*$" },
    ] })
}

/// Returns the schema of a list whose number of items is within `limits`.
fn list_schema(limits: Limits, items: Value) -> Value {
    json!({ "type": "array", "minItems": limits.min, "maxItems": limits.max, "items": items })
}

fn key_schema(key: &Key) -> Value {
    let mut schema = shape_schema(&key.shape, key);
    if let Some(quantity) = quantity(&key.shape) {
        schema["x-quantity"] = quantity.into();
    }
    let about = key.about.trim();
    schema["description"] = match &key.shape {
        Shape::Quantity { .. } | Shape::Probability | Shape::Mean | Shape::Real(_) => {
            format!("{about} Allowed: {}.", allowed(key)).into()
        }
        Shape::Choice(words) => {
            let list =
                words.iter().map(|(word, meaning)| format!("\"{word}\": {}", meaning.trim()));
            format!("{about} {}", list.collect::<Vec<_>>().join(" ")).into()
        }
        _ => about.into(),
    };
    if let Some(text) = key.default {
        schema["default"] = default_value(&key.shape, text);
    }
    schema
}

/// Returns the quantity of a key whose values have a unit or may be a percentage; `lasthop explain`
/// prints its numbers accordingly.
fn quantity(shape: &Shape) -> Option<&'static str> {
    match shape {
        // A word that may replace the quantity follows.
        Shape::Quantity { what, .. } => what.split([',', ' ']).next(),
        Shape::Probability | Shape::Probabilities | Shape::ProbabilityRows => Some("probability"),
        _ => None,
    }
}

/// Returns the schema of a value of this shape, within the limits of a key.
fn shape_schema(shape: &Shape, key: &Key) -> Value {
    match shape {
        Shape::Text => json!({ "type": "string", "pattern": "\\S" }),
        Shape::Quantity { pattern, .. } => json!({ "type": "string", "pattern": pattern }),
        Shape::Probability => probability_schema(),
        Shape::Probabilities => list_schema(key.limits, probability_schema()),
        Shape::ProbabilityRows => {
            list_schema(key.limits, list_schema(key.limits, probability_schema()))
        }
        Shape::Mean => json!({ "type": "number", "minimum": 1 }),
        Shape::Real(real) if real.units.is_empty() => {
            json!({ "type": "number", "minimum": real.min, "maximum": real.max })
        }
        Shape::Real(real) => json!({ "type": "string", "pattern": real.pattern }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer => integer_schema(key),
        Shape::IntegerOr(word) => json!({ "anyOf": [integer_schema(key), { "const": word }] }),
        Shape::Integers => json!({
            "type": "array",
            "items": integer_schema(key),
            "minItems": 1,
            "uniqueItems": true,
        }),
        Shape::HostPair => json!({
            "type": "array",
            "items": { "type": "string", "pattern": NAME_PATTERN },
            "minItems": 2,
            "maxItems": 2,
            "uniqueItems": true,
        }),
        Shape::Hosts => json!({
            "type": "array",
            "items": { "type": "string", "pattern": NUMBERED_NAME_PATTERN },
            "minItems": 1,
            "uniqueItems": true,
        }),
        Shape::Choice(words) => {
            json!({ "enum": words.iter().map(|(word, _)| *word).collect::<Vec<_>>() })
        }
        Shape::Table(keys) => table_schema(keys, None),
        Shape::Union(variants) => union_schema(variants),
        Shape::UnionOr(variants, short) => {
            json!({ "anyOf": [shape_schema(&short.shape, short), union_schema(variants)] })
        }
        Shape::Steps(value) => json!({
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "array",
                "prefixItems": [shape_schema(&Duration::SHAPE, key), shape_schema(value, key)],
                "minItems": 2,
                "maxItems": 2,
            },
        }),
        Shape::Unions(variants) => {
            let mut one = union_schema(variants);
            let list = json!({ "type": "array", "minItems": 1, "items": one.clone() });
            if let Some(forms) = one["oneOf"].as_array_mut() {
                forms.push(list);
            }
            one
        }
        Shape::Map(keys) => json!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": { "pattern": NAME_PATTERN },
            "additionalProperties": table_schema(keys, None),
        }),
        Shape::Bound => json!({ "type": ["number", "string"] }),
        Shape::Sweep => sweep_schema(),
    }
}

fn union_schema(variants: &[Variant]) -> Value {
    let mut forms: Vec<_> = variants.iter().map(variant_schema).collect();
    let words: Vec<_> = variants
        .iter()
        .filter(|variant| !variant.keys.iter().any(is_required))
        .map(|variant| variant.kind)
        .collect();
    if !words.is_empty() {
        forms.push(json!({ "enum": words }));
    }
    json!({ "oneOf": forms })
}

fn sweep_schema() -> Value {
    let dotted = json!({ "pattern": "^(link|radio|wlan|flow|window|run)(\\.[A-Za-z0-9_-]+)+$" });
    let range = table_schema(Range::KEYS, None);
    json!({
        "type": "object",
        "properties": {
            ZIP: {
                "description": "Lists of the same length that are taken side by side.",
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "minProperties": 2,
                    "propertyNames": dotted,
                    "additionalProperties": {
                        "anyOf": [{ "type": "array", "minItems": 1 }, range],
                    },
                },
            },
            CASE: {
                "description": "Values that belong together, by name.",
                "type": "object",
                "minProperties": 1,
                "propertyNames": { "pattern": NAME_PATTERN },
                "additionalProperties": { "type": "object", "propertyNames": dotted },
            },
        },
        "propertyNames": { "anyOf": [dotted, { "enum": [ZIP, CASE] }] },
        "additionalProperties": {
            "anyOf": [{ "type": "array", "minItems": 1, "uniqueItems": true }, range],
        },
    })
}

fn integer_schema(key: &Key) -> Value {
    let mut schema = json!({ "type": "integer", "minimum": key.limits.min });
    if key.limits.max != u64::MAX {
        schema["maximum"] = key.limits.max.into();
    }
    schema
}

fn variant_schema(variant: &Variant) -> Value {
    table_schema(variant.keys, Some(variant))
}

fn is_required(key: &Key) -> bool {
    key.default.is_none() && !key.optional
}

/// Returns the reference of all scenario keys as a page of Markdown: a table per section with key,
/// type, default and meaning.
pub fn reference_markdown() -> String {
    let mut page = Page { text: String::from(REFERENCE_HEAD), unions: Vec::new() };
    page.section("The top level", "", ScenarioKeys::KEYS);
    page.text
}

const REFERENCE_HEAD: &str = "\
# Scenario reference

A scenario is a TOML file, or the same tree as Python objects. Quantities are text with a unit;
probabilities are numbers or text with a per-cent sign. A key marked *required* has no default; a
key without a default that is not required is described with what its absence means. Names of links,
flows and hosts are made of letters, digits, `-` and `_`.

This page is generated from the model that reads scenarios.
";

struct Page {
    text: String,
    /// Unions that are already described, by their kinds.
    unions: Vec<Vec<&'static str>>,
}

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn section(&mut self, title: &str, path: &str, keys: &'static [Key]) {
        self.line(format_args!("\n## {title}\n"));
        self.table(keys);
        self.below(path, keys);
    }

    fn table(&mut self, keys: &[Key]) {
        self.line(format_args!("| key | type | default | meaning |"));
        self.line(format_args!("|---|---|---|---|"));
        for key in keys {
            let default = match (key.default, &key.shape) {
                (Some("{}"), _) | (None, _) if !is_required(key) => "–".to_owned(),
                (Some(text), Shape::Integer | Shape::Bool) => format!("`{text}`"),
                (Some(text), _) => format!("`\"{text}\"`"),
                (None, _) => "*required*".to_owned(),
            };
            let (name, about) = (key.name, key.about.trim());
            self.line(format_args!("| `{name}` | {} | {default} | {about} |", kind(key)));
        }
    }

    /// Writes the sections of keys with tables, and the words of keys with choices.
    fn below(&mut self, path: &str, keys: &'static [Key]) {
        let dotted = |key: &Key| {
            if path.is_empty() { key.name.into() } else { format!("{path}.{}", key.name) }
        };
        for key in keys {
            if let Shape::Choice(words) = key.shape {
                self.line(format_args!("\n`{}` is one of:\n", key.name));
                for (word, meaning) in words {
                    self.line(format_args!("- `\"{word}\"`: {}", meaning.trim()));
                }
            }
        }
        for key in keys {
            let path: String = dotted(key);
            match key.shape {
                Shape::Table(keys) => self.section(&format!("`[{path}]`"), &path, keys),
                Shape::Map(keys) => {
                    let path = format!("{path}.NAME");
                    self.section(&format!("`[{path}]`"), &path, keys);
                }
                Shape::Union(variants) | Shape::UnionOr(variants, _) | Shape::Unions(variants) => {
                    self.union(&path, variants)
                }
                Shape::Sweep => {
                    self.line(format_args!("{SWEEP_REFERENCE}"));
                    self.table(Range::KEYS);
                    self.below("", Range::KEYS);
                    self.line(format_args!("{ZIP_AND_CASE_REFERENCE}"));
                }
                _ => {}
            }
        }
    }

    fn union(&mut self, path: &str, variants: &'static [Variant]) {
        let kinds: Vec<_> = variants.iter().map(|variant| variant.kind).collect();
        // Services have the protocols of links, except one.
        let holds = |known: &Vec<_>| kinds.iter().all(|kind| known.contains(kind));
        if self.unions.iter().any(holds) {
            return;
        }
        self.unions.push(kinds);
        self.line(format_args!(
            "\n## `{path}`\n\nThe key `kind` is one of the following. Where no other key is given, \
             the kind alone will do, without a table."
        ));
        for variant in variants {
            self.line(format_args!("\n### `kind = \"{}\"`\n", variant.kind));
            self.line(format_args!("{}", variant.about.trim()));
            if !variant.keys.is_empty() {
                self.text.push('\n');
                self.table(variant.keys);
                self.below(path, variant.keys);
            }
        }
    }
}

const SWEEP_REFERENCE: &str = "
## `[sweep]`

Each key is a dotted key of a link, a radio, a WLAN, a flow or the run, in quotes; its value is the list of
values that the key takes in turn, or a range. Every combination is run, the last key varying fastest. A
value may be a table. `run.replications` and `run.seed` cannot be swept.

```toml
[sweep]
\"link.wireless.errors.bad\" = [\"100 ms\", \"1 s\"]
\"link.wireless.errors.good\" = { from = \"1 s\", to = \"10 s\", step = \"1 s\" }
\"link.wireless.rate\" = { from = \"64 kbps\", to = \"1024 kbps\", count = 5, spacing = \"logarithmic\" }
\"flow.transfer.transport.variant\" = [\"reno\", \"sack\"]
```

### Ranges
";

const ZIP_AND_CASE_REFERENCE: &str = "
### `[[sweep.zip]]`

Lists or ranges of the same length that are taken side by side: the first values together, then the
second, and so on. Each such table is one axis of the grid.

```toml
[[sweep.zip]]
\"link.wireless.rate\" = [\"64 kbps\", \"2 Mbps\"]
\"link.wireless.delay\" = [\"50 ms\", \"3 ms\"]
```

### `[sweep.case.NAME]`

Values that belong together, by name. The cases are one axis of the grid; a case sets only what
differs from the scenario, and may be empty. Results call its points by `case`.

```toml
[sweep.case.cellular]
\"link.wireless.rate\" = \"64 kbps\"

[sweep.case.wlan]
\"link.wireless.rate\" = \"2 Mbps\"
\"link.wireless.errors\" = { kind = \"uniform\", loss = \"1 %\" }
```";

/// Returns the type of a key for the reference, with its limits.
fn kind(key: &Key) -> String {
    kind_of(&key.shape, key)
}

fn kind_of(shape: &Shape, key: &Key) -> String {
    match shape {
        Shape::Text => "text".to_owned(),
        Shape::Quantity { what, print, .. } => format!("{what}{}", key.limits.text(print)),
        Shape::Probability => "probability".to_owned(),
        Shape::Mean => "number, at least 1".to_owned(),
        Shape::Real(real) => {
            let unit = real.units.first().map(|(unit, _)| format!(" {unit}")).unwrap_or_default();
            format!("{}, from {} to {}{unit}", real.what, real.min, real.max)
        }
        Shape::Bool => "true or false".to_owned(),
        Shape::Integer => format!("whole number{}", key.limits.text(|n| n.to_string())),
        Shape::IntegerOr(word) => {
            format!("whole number{}, or {word:?}", key.limits.text(|n| n.to_string()))
        }
        Shape::Integers => {
            format!("list of whole numbers{}", key.limits.text(|n| n.to_string()))
        }
        Shape::Probabilities => "list of probabilities, one a state".to_owned(),
        Shape::ProbabilityRows => "list of rows of probabilities, one row per state".to_owned(),
        Shape::HostPair => "list of two host names".to_owned(),
        Shape::Hosts => "list of host names".to_owned(),
        Shape::Choice(_) => "word".to_owned(),
        Shape::Table(_) => "table".to_owned(),
        Shape::Union(_) => "table, or its kind".to_owned(),
        Shape::UnionOr(_, short) => format!("{}, or a table", kind(short)),
        Shape::Steps(value) => format!("list of pairs of a duration and a {}", kind_of(value, key)),
        Shape::Unions(_) => "table, or a list of tables".to_owned(),
        Shape::Map(_) => "named tables, at least one".to_owned(),
        Shape::Bound => "number or quantity".to_owned(),
        Shape::Sweep => "table, see below".to_owned(),
    }
}
