//! Unions with a shorthand: `queue = "50 packets"` for `queue = { kind = "drop-tail", limit = "50
//! packets" }`.

use super::keys::{Field, Key, Limits, Node, Read, Shape, Variant, one_of};
use serde_json::Value;

/// A union with a shorthand for one of its kinds.
pub trait Shorthand: Field {
    /// Type of the shorthand.
    type Short: Field;
    /// The kind, and the key of this kind, that the shorthand represents. Its limits apply.
    const KEY: (&'static str, &'static str);

    /// Expands a shorthand.
    fn from_short(short: Self::Short) -> Self;

    /// Returns the shorthand of this value, if any.
    fn to_short(&self) -> Option<Self::Short>;

    /// Checks conditions on several keys of the table.
    fn check(&self, _node: &Node<'_>) -> Read<()> {
        Ok(())
    }
}

/// Returns the variants of a union.
const fn variants(shape: &Shape) -> &'static [Variant] {
    match shape {
        Shape::Union(variants) => variants,
        _ => panic!("a union"),
    }
}

/// Returns the key `name` of the variant `kind`.
const fn key_of(variants: &'static [Variant], (kind, name): (&str, &str)) -> &'static Key {
    let mut i = 0;
    while i < variants.len() {
        let keys = variants[i].keys;
        let mut j = 0;
        while j < keys.len() {
            if is_same(variants[i].kind, kind) && is_same(keys[j].name, name) {
                return &keys[j];
            }
            j += 1;
        }
        i += 1;
    }
    panic!("a kind and one of its keys")
}

/// Compares texts in constants.
const fn is_same(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    let mut i = 0;
    while i < left.len() && i < right.len() && left[i] == right[i] {
        i += 1;
    }
    i == left.len() && i == right.len()
}

/// A union, or a shorthand for one of its kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct OrShort<T>(pub T);

impl<T: Shorthand> Field for OrShort<T> {
    const SHAPE: Shape = Shape::UnionOr(variants(&T::SHAPE), key_of(variants(&T::SHAPE), T::KEY));

    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let kinds = || variants(&T::SHAPE).iter().map(|variant| variant.kind);
        let is_kind = |text: &str| kinds().any(|kind| kind == text);
        if node.value.is_object() || node.value.as_str().is_some_and(is_kind) {
            let table = T::read(node, Limits::ANY)?;
            table.check(node)?;
            return Ok(OrShort(table));
        }
        let short = T::Short::read(node, key_of(variants(&T::SHAPE), T::KEY).limits).map_err(
            |mut error| {
                error.allowed =
                    format!("{}; or a table with the key kind, {}", error.allowed, one_of(kinds()));
                error
            },
        )?;
        Ok(OrShort(T::from_short(short)))
    }

    fn write(&self) -> Value {
        self.0.to_short().map_or_else(|| self.0.write(), |short| short.write())
    }
}
