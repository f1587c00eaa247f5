//! Lists of start times and values.

use super::keys::{Field, Limits, Node, Read, Shape, show};
use crate::units::Duration;
use serde_json::Value;

const FIRST_ALLOWED: &str = "\"0 s\" as the first time";
const ORDER_ALLOWED: &str = "a time after the one before";

/// Pairs of a start time and a value that applies from then. The first time is 0, and times
/// increase.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<T>(pub Vec<(Duration, T)>);

impl<T: Field> Field for Steps<T> {
    const HAS_LIMITS: bool = T::HAS_LIMITS;
    const SHAPE: Shape = Shape::Steps(&T::SHAPE);

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let allowed = "a list of pairs of a time and a value such as [[\"0 s\", …], [\"10 s\", …]]";
        let items = node.value.as_array().filter(|items| !items.is_empty());
        let mut steps: Vec<(Duration, T)> = Vec::new();
        for (index, item) in items.ok_or_else(|| node.wrong(allowed))?.iter().enumerate() {
            let Some([time, value]) = item.as_array().map(Vec::as_slice) else {
                return Err(node.error(format!("{} in it", show(item)), allowed));
            };
            let part = |value| Node { value, path: format!("{}[{index}]", node.path), ..*node };
            let at = Duration::read(&part(time), Limits::ANY)?;
            let follows = match steps.last() {
                None if at > Duration::ZERO => Err(FIRST_ALLOWED),
                Some((last, _)) if at <= *last => Err(ORDER_ALLOWED),
                _ => Ok(()),
            };
            follows.map_err(|allowed| part(time).wrong(allowed))?;
            steps.push((at, T::read(&part(value), limits)?));
        }
        Ok(Steps(steps))
    }

    fn write(&self) -> Value {
        let pairs = self.0.iter().map(|(at, value)| Value::from(vec![at.write(), value.write()]));
        Value::Array(pairs.collect())
    }
}
