//! Tables that are named by their key in the enclosing table, such as `[link.NAME]`.

use super::keys::{Field, Limits, NAME_ALLOWED, Node, Read, Shape, Table, is_name};
use serde_json::Value;

/// A table that reads its name from [`Node::name`].
pub trait Named: Table {
    /// Returns the name.
    fn name(&self) -> &str;

    /// Checks the tables of one list, at `node`, for consistency.
    fn check_all(_tables: &[Self], _node: &Node<'_>) -> Read<()> {
        Ok(())
    }
}

impl<T: Named> Field for Vec<T> {
    const SHAPE: Shape = Shape::Map(T::KEYS);

    fn read(node: &Node<'_>, _: Limits) -> Read<Self> {
        let allowed = format!("at least one table [{}.NAME]", node.path);
        let tables = node.object(&allowed)?;
        if tables.is_empty() {
            return Err(node.wrong(allowed));
        }
        let mut items = Vec::with_capacity(tables.len());
        for (name, value) in tables {
            if !is_name(name) {
                return Err(node.error(format!("the name {name:?}"), NAME_ALLOWED));
            }
            let child = node.child(name, value);
            child.only(T::KEYS, false)?;
            items.push(T::read(&child)?);
        }
        T::check_all(&items, node)?;
        Ok(items)
    }

    fn write(&self) -> Value {
        Value::Object(self.iter().map(|one| (one.name().to_owned(), one.write().into())).collect())
    }
}
