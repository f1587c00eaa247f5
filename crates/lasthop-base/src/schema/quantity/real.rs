//! Real numbers with a unit, as the value of a key: see [`real!`](crate::real).
//!
//! The value is the number in the text, read as the nearest `f64` and multiplied by the size of its
//! unit. Both operations are exactly specified (IEEE 754), so a scenario has the same value on every
//! machine.

use crate::schema::keys::{Node, Read};
use serde_json::Value;

/// Description of a type of real numbers.
#[derive(Debug)]
pub struct Real {
    /// Name of the type in the reference.
    pub what: &'static str,
    /// Values allowed, for messages.
    pub allowed: &'static str,
    /// Regular expression of the allowed texts; of no use without units.
    pub pattern: &'static str,
    /// Units with their sizes; the first one has size 1. Without units, the value is a number.
    pub units: &'static [(&'static str, f64)],
    /// Minimum in the first unit.
    pub min: f64,
    /// Maximum in the first unit.
    pub max: f64,
}

impl Real {
    /// Reads a value in the first unit.
    pub fn read(&self, node: &Node<'_>) -> Read<f64> {
        let value = match node.value {
            Value::Number(number) if self.units.is_empty() => number.as_f64(),
            Value::String(text) => self.parse(text),
            _ => None,
        };
        value
            .filter(|value| (self.min..=self.max).contains(value))
            // Minus zero is written as zero.
            .map(|value| value + 0.0)
            .ok_or_else(|| node.wrong(self.allowed))
    }

    /// Returns the value of a text in the first unit, without a check of its limits.
    pub fn parse(&self, text: &str) -> Option<f64> {
        let text = text.trim();
        // "mW" ends with "W" too: the longest unit applies.
        let (unit, size) = self
            .units
            .iter()
            .filter(|(unit, _)| text.ends_with(unit))
            .max_by_key(|(unit, _)| unit.len())?;
        let number = text[..text.len() - unit.len()].trim_end();
        // `f64::from_str` also accepts "inf", "nan", ".5" and "+1".
        let is_digit = |c: char| c.is_ascii_digit();
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_number = digits.starts_with(is_digit)
            && digits.chars().all(|c| is_digit(c) || "._eE+-".contains(c));
        let number = is_number.then(|| number.replace('_', ""))?;
        number.parse::<f64>().ok().map(|number| number * size)
    }

    /// Writes a value in the first unit, as in a scenario file.
    pub fn write(&self, value: f64) -> Value {
        match self.units.first() {
            Some((unit, _)) => format!("{value} {unit}").into(),
            None => value.into(),
        }
    }
}

/// Declares a type of real numbers with units, or without, for keys of `table!`.
///
/// A declaration contains a name for the reference, an example, the limits in the first unit, and
/// the units; every further unit with its size in the first one. Without units, the value of the key
/// is a number. Limits belong to the type: a key of such a type has none.
///
/// ```
/// use lasthop_base::real;
/// use lasthop_base::schema::keys::{Node, Table, table};
///
/// real! {
///     /// Speed of a station in metres per second.
///     pub struct Speed: "speed", "1.5 m/s", 0.0..=100.0, { "m/s", "km/h" = 1.0 / 3.6 }
/// }
/// real! {
///     /// Smoothing gain.
///     pub struct Gain: "gain", "0.125", 0.0..=1.0, {}
/// }
/// table! {
///     /// A station that moves.
///     pub struct MovingKeys as "moving" {
///         /// Speed.
///         speed: Speed;
///         /// Gain of the moving average of its signal.
///         gain: Gain = "0.125";
///     }
/// }
///
/// let value = serde_json::json!({ "kind": "moving", "speed": "54 km/h" });
/// let files = lasthop_base::schema::files::Files::new(std::path::Path::new("."));
/// let node = Node { value: &value, path: "wlan.ap".to_owned(), files: &files };
/// let keys = MovingKeys::read(&node).unwrap();
/// assert_eq!((keys.speed.0, keys.gain.0), (15.0, 0.125));
/// ```
#[macro_export]
macro_rules! real {
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident: $what:literal, $example:literal,
        $min:literal ..= $max:literal, {}
    ) => {
        $crate::real! { @type $(#[doc = $about])* $vis struct $name; $crate::schema::quantity::Real {
            what: $what,
            allowed: concat!("a number such as ", $example, ", from ", $min, " to ", $max),
            pattern: "",
            units: &[],
            min: $min as f64,
            max: $max as f64,
        } }
    };
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident: $what:literal, $example:literal,
        $min:literal ..= $max:literal, { $base:literal $(, $unit:literal = $size:expr)* $(,)? }
    ) => {
        $crate::real! { @type $(#[doc = $about])* $vis struct $name; $crate::schema::quantity::Real {
            what: $what,
            allowed: concat!(
                "text such as \"", $example, "\" (units ", $base, $(", ", $unit,)* "; from ",
                $min, " to ", $max, " ", $base, ")"
            ),
            pattern: concat!(
                "^\\s*-?[0-9][0-9_]*(\\.[0-9_]+)?([eE][+-]?[0-9]{1,3})?\\s*(",
                $base, $("|", $unit,)* ")\\s*$"
            ),
            units: &[($base, 1.0) $(, ($unit, $size))*],
            min: $min as f64,
            max: $max as f64,
        } }
    };
    (@type $(#[doc = $about:literal])* $vis:vis struct $name:ident; $real:expr) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        $vis struct $name(pub f64);

        impl $crate::schema::keys::Field for $name {
            const SHAPE: $crate::schema::keys::Shape = $crate::schema::keys::Shape::Real(&$real);
            fn read(
                node: &$crate::schema::keys::Node<'_>,
                _: $crate::schema::keys::Limits,
            ) -> $crate::schema::keys::Read<Self> {
                $real.read(node).map($name)
            }
            fn write(&self) -> $crate::schema::keys::Value {
                $real.write(self.0)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::schema::files::Files;
    use crate::schema::keys::{Field, Key, Limits, Node, allowed, default_value};
    use crate::schema::numbers::numbers;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::path::Path;

    real! {
        /// A power.
        struct Power: "power", "-95.5 dBm", -200.0..=100.0, { "dBm" }
    }
    real! {
        /// A speed.
        struct Speed: "speed", "1.5 m/s", 0.0..=100.0, { "m/s", "km/h" = 1.0 / 3.6, "s" = 7.0 }
    }
    real! {
        /// A factor.
        struct Gain: "gain", "0.125", 0.0..=1.0, {}
    }

    fn read<T: Field>(value: &Value) -> Result<T, String> {
        let files = Files::new(Path::new("."));
        let node = Node { value, path: "link.a.key".to_owned(), files: &files };
        T::read(&node, Limits::ANY).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_read_in_the_first_unit() {
        assert_eq!(read::<Power>(&json!("-95.5 dBm")), Ok(Power(-95.5)));
        assert_eq!(read::<Power>(&json!(" 1_0e-1dBm ")), Ok(Power(1.0)));
        assert_eq!(read::<Speed>(&json!("54 km/h")), Ok(Speed(54.0 * (1.0 / 3.6))));
        // "m/s" ends with "s", another unit.
        assert_eq!(read::<Speed>(&json!("2 m/s")), Ok(Speed(2.0)));
        assert_eq!(read::<Speed>(&json!("2 s")), Ok(Speed(14.0)));
        assert_eq!(read::<Gain>(&json!(0.3)), Ok(Gain(0.3)));
        let zero = read::<Power>(&json!("-0 dBm")).expect("zero");
        assert!(zero.0.is_sign_positive(), "written as \"0 dBm\"");
    }

    #[test]
    fn other_values_are_rejected_with_those_allowed() {
        let units = "text such as \"1.5 m/s\" (units m/s, km/h, s; from 0.0 to 100.0 m/s)";
        for wrong in ["-1 m/s", "100.1 m/s", "1", "m/s", "1 mph", "inf m/s", ".5 m/s", "1e999 m/s"]
        {
            let error = read::<Speed>(&json!(wrong)).expect_err(wrong);
            assert!(error.contains(units) && error.contains(wrong), "{wrong}: {error}");
        }
        assert!(read::<Speed>(&json!(1.0)).is_err(), "a unit is required");
        for wrong in [json!(1.1), json!(-0.1), json!("0.5")] {
            let error = read::<Gain>(&wrong).expect_err("rejected");
            assert!(error.contains("a number such as 0.125, from 0.0 to 1.0"), "{error}");
        }
    }

    #[test]
    fn keys_have_a_default_and_a_description() {
        let key = |shape, default| Key {
            name: "key",
            was: None,
            about: "",
            default: Some(default),
            optional: false,
            limits: Limits::ANY,
            shape,
        };
        let speed = key(Speed::SHAPE, "1.5 m/s");
        assert_eq!(default_value(&speed.shape, "1.5 m/s"), json!("1.5 m/s"));
        assert!(allowed(&speed).starts_with("text such as \"1.5 m/s\""));
        assert_eq!(default_value(&Gain::SHAPE, "0.125"), json!(0.125));
    }

    #[test]
    fn resolved_values_are_numbers_in_the_first_unit() {
        assert_eq!(numbers(&Speed(1.5)), json!(1.5));
        assert_eq!(numbers(&Gain(0.125)), json!(0.125));
    }

    proptest! {
        /// A written value is read as the same bits.
        #[test]
        fn written_values_are_read_again(value in -200.0..=100.0f64) {
            let value = value + 0.0;
            let written = Power(value).write();
            prop_assert_eq!(read::<Power>(&written).map(|power| power.0.to_bits()), Ok(value.to_bits()));
        }
    }
}
