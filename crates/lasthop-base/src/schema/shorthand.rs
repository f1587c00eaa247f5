//! Unions with a shorthand: `queue = "50 packets"` for `queue = { kind = "drop-tail", limit = "50
//! packets" }`.

use super::keys::{Field, Limits, Node, Read, Shape, Variant, one_of};
use serde_json::Value;

/// A union with a shorthand for one of its kinds.
pub trait Shorthand: Field {
    /// Type of the shorthand.
    type Short: Field;

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

/// A union, or a shorthand for one of its kinds.
#[derive(Clone, Debug, PartialEq)]
pub struct OrShort<T>(pub T);

impl<T: Shorthand> Field for OrShort<T> {
    const SHAPE: Shape = Shape::UnionOr(variants(&T::SHAPE), &<T::Short as Field>::SHAPE);

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let kinds = || variants(&T::SHAPE).iter().map(|variant| variant.kind);
        let is_kind = |text: &str| kinds().any(|kind| kind == text);
        if node.value.is_object() || node.value.as_str().is_some_and(is_kind) {
            let table = T::read(node, limits)?;
            table.check(node)?;
            return Ok(OrShort(table));
        }
        let short = T::Short::read(node, limits).map_err(|mut error| {
            error.allowed =
                format!("{}; or a table with the key kind, {}", error.allowed, one_of(kinds()));
            error
        })?;
        Ok(OrShort(T::from_short(short)))
    }

    fn write(&self) -> Value {
        self.0.to_short().map_or_else(|| self.0.write(), |short| short.write())
    }
}
