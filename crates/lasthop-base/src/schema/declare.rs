//! Macros that declare the keys of a component: they derive the descriptions of
//! [`keys`](super::keys) from a struct with documented fields, a list of words or a list of
//! variants.

/// Declares a struct of the model together with its keys, its reader and its writer. Per field:
/// `/// meaning`, `#[was = "former name"]` (see `schema::former`), `name: Type`,
/// `= "default"`, `, limits`, `;`.
///
/// A type that does not check limits ([`Field::HAS_LIMITS`](crate::schema::keys::Field)) with limits
/// does not compile:
///
/// ```
/// use lasthop_base::schema::keys::{Limits, table};
/// table! {
///     /// Keys.
///     pub struct Keys {
///         /// Number of frames.
///         frames: u32, Limits::range(1, 8);
///     }
/// }
/// ```
/// ```compile_fail,E0080
/// use lasthop_base::schema::keys::{Limits, table};
/// table! {
///     /// Keys.
///     pub struct Keys {
///         /// A mean.
///         frames: lasthop_base::schema::quantity::Mean, Limits::range(1, 8);
///     }
/// }
/// ```
#[macro_export]
macro_rules! table {
    // One kind of a union: see `kinds!`.
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident as $kind:literal $fields:tt) => {
        $crate::table! { $(#[doc = $about])* $vis struct $name $fields }

        impl $crate::schema::keys::Kind for $name {
            const KIND: &'static str = $kind;
            const ABOUT: &'static str = concat!($($about),*);
        }
    };
    // A kind with the keys of another table.
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident($table:ty) as $kind:literal;) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name(pub $table);

        impl $crate::schema::keys::Kind for $name {
            const KIND: &'static str = $kind;
            const ABOUT: &'static str = concat!($($about),*);
        }

        impl $crate::schema::keys::Table for $name {
            const KEYS: &'static [$crate::schema::keys::Key] =
                <$table as $crate::schema::keys::Table>::KEYS;

            fn read(
                node: &$crate::schema::keys::Node<'_>,
            ) -> $crate::schema::keys::Read<Self> {
                <$table as $crate::schema::keys::Table>::read(node).map($name)
            }

            fn write(&self) -> $crate::schema::keys::Map<String, $crate::schema::keys::Value> {
                $crate::schema::keys::Table::write(&self.0)
            }
        }
    };
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident {}) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {}

        impl $crate::schema::keys::Table for $name {
            const KEYS: &'static [$crate::schema::keys::Key] = &[];

            fn read(
                _: &$crate::schema::keys::Node<'_>,
            ) -> $crate::schema::keys::Read<Self> {
                Ok($name {})
            }

            fn write(&self) -> $crate::schema::keys::Map<String, $crate::schema::keys::Value> {
                $crate::schema::keys::Map::new()
            }
        }
    };
    ($(#[doc = $about:literal])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])* $(#[was = $was:literal])? $field:ident : $type:ty
            $(= $default:literal)? $(, $limits:expr)? ;)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
        }

        impl $crate::schema::keys::Table for $name {
            const KEYS: &'static [$crate::schema::keys::Key] = &[$(
                $crate::schema::keys::Key {
                    name: stringify!($field),
                    was: $crate::table!(@option $($was)?),
                    about: concat!($($doc),*),
                    default: $crate::table!(@option $($default)?),
                    optional: <$type as $crate::schema::keys::Field>::OPTIONAL,
                    limits: $crate::table!(@limits $($limits)?).of::<$type>(),
                    shape: <$type as $crate::schema::keys::Field>::SHAPE,
                },
            )*];

            fn read(
                node: &$crate::schema::keys::Node<'_>,
            ) -> $crate::schema::keys::Read<Self> {
                // A struct expression evaluates its fields in this order, which is the order of
                // KEYS.
                let mut keys = Self::KEYS.iter();
                Ok($name {
                    $($field: match keys.next() {
                        Some(key) => node.field(key)?,
                        None => unreachable!("one key per field"),
                    },)*
                })
            }

            fn write(&self) -> $crate::schema::keys::Map<String, $crate::schema::keys::Value> {
                let mut map = $crate::schema::keys::Map::new();
                $(
                    let value = $crate::schema::keys::Field::write(&self.$field);
                    if !value.is_null() {
                        map.insert(stringify!($field).to_owned(), value);
                    }
                )*
                map
            }
        }
    };
    (@option) => { None };
    (@option $value:literal) => { Some($value) };
    (@limits) => { $crate::schema::keys::Limits::ANY };
    (@limits $value:expr) => { $value };
}

/// Implements `Field` for a table, so that it can be the value of a key.
#[macro_export]
macro_rules! table_field {
    ($($name:ident),*) => {$(
        impl $crate::schema::keys::Field for $name {
            const SHAPE: $crate::schema::keys::Shape = $crate::schema::keys::Shape::Table(
                <$name as $crate::schema::keys::Table>::KEYS,
            );
            fn read(
                node: &$crate::schema::keys::Node<'_>,
                _: $crate::schema::keys::Limits,
            ) -> $crate::schema::keys::Read<Self> {
                use $crate::schema::keys::Table;
                node.only(Self::KEYS, false)?;
                <$name as Table>::read(node)
            }
            fn write(&self) -> $crate::schema::keys::Value {
                $crate::schema::keys::Value::Object($crate::schema::keys::Table::write(self))
            }
        }
    )*};
}

/// Declares an enum whose variants are words.
#[macro_export]
macro_rules! choice {
    ($(#[doc = $about:literal])* pub enum $name:ident {
        $($(#[doc = $doc:literal])* $variant:ident = $word:literal,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[doc = $doc])* $variant,)*
        }

        impl $name {
            /// Returns the word of this variant in a scenario.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl $crate::schema::keys::Field for $name {
            const SHAPE: $crate::schema::keys::Shape = $crate::schema::keys::Shape::Choice(
                &[$(($word, concat!($($doc),*)),)*],
            );
            fn read(
                node: &$crate::schema::keys::Node<'_>,
                _: $crate::schema::keys::Limits,
            ) -> $crate::schema::keys::Read<Self> {
                let words = [$($word),*];
                let allowed = $crate::schema::keys::one_of(words.into_iter());
                match node.text(&allowed)? {
                    $($word => Ok($name::$variant),)*
                    word => {
                        let near = $crate::schema::error::suggestion(word, words);
                        Err(node.error(format!("{word:?}{near}"), allowed))
                    }
                }
            }
            fn write(&self) -> $crate::schema::keys::Value {
                self.word().into()
            }
        }
    };
}

/// Declares an enum of tables, each of which is a [`Kind`](crate::schema::keys::Kind). The key
/// `kind` of a table selects the variant. A variant may be optional: `#[cfg(feature = "…")]`.
#[macro_export]
macro_rules! kinds {
    ($(#[doc = $about:literal])* pub enum $name:ident {
        $($(#[cfg($on:meta)])? $variant:ident($type:ty),)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $(
                $(#[cfg($on)])?
                #[doc = concat!("See [`", stringify!($type), "`].")]
                $variant($type),
            )*
        }

        impl $name {
            /// Returns the `kind` of this variant in a scenario.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $($(#[cfg($on)])? $name::$variant(_) => <$type as $crate::schema::keys::Kind>::KIND,)*
                }
            }
        }

        impl $crate::schema::keys::Field for $name {
            const SHAPE: $crate::schema::keys::Shape = $crate::schema::keys::Shape::Union(&[
                $($(#[cfg($on)])? $crate::schema::keys::Variant {
                    kind: <$type as $crate::schema::keys::Kind>::KIND,
                    about: <$type as $crate::schema::keys::Kind>::ABOUT,
                    keys: <$type as $crate::schema::keys::Table>::KEYS,
                },)*
            ]);
            fn read(
                node: &$crate::schema::keys::Node<'_>,
                _: $crate::schema::keys::Limits,
            ) -> $crate::schema::keys::Read<Self> {
                let $crate::schema::keys::Shape::Union(variants) = Self::SHAPE else {
                    unreachable!("a union");
                };
                let kind = node.variant(variants)?.kind;
                $(
                    $(#[cfg($on)])?
                    if kind == <$type as $crate::schema::keys::Kind>::KIND {
                        let table = <$type as $crate::schema::keys::Table>::read(node)?;
                        return Ok($name::$variant(table));
                    }
                )*
                unreachable!("node.variant gives one of them")
            }
            fn write(&self) -> $crate::schema::keys::Value {
                let mut map = $crate::schema::keys::Map::new();
                map.insert("kind".to_owned(), self.kind().into());
                match self {
                    $($(#[cfg($on)])? $name::$variant(table) => {
                        map.extend($crate::schema::keys::Table::write(table));
                    })*
                }
                map.into()
            }
        }
    };
}

/// Declares an enum of tables that are distinguished by their key `kind`.
#[macro_export]
macro_rules! union {
    ($(#[doc = $about:literal])* pub enum $name:ident {
        $($(#[doc = $doc:literal])* $variant:ident $(($type:ty))? = $word:literal,)*
    }) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a scenario has few of each")]
        pub enum $name {
            $($(#[doc = $doc])* $variant $(($type))?,)*
        }

        impl $name {
            /// Returns the `kind` of this variant in a scenario.
            pub const fn kind(&self) -> &'static str {
                match self { $($name::$variant { .. } => $word,)* }
            }
        }

        impl $crate::schema::keys::Field for $name {
            const SHAPE: $crate::schema::keys::Shape = $crate::schema::keys::Shape::Union(&[
                $($crate::schema::keys::Variant {
                    kind: $word,
                    about: concat!($($doc),*),
                    keys: $crate::union!(@keys $($type)?),
                },)*
            ]);
            fn read(
                node: &$crate::schema::keys::Node<'_>,
                _: $crate::schema::keys::Limits,
            ) -> $crate::schema::keys::Read<Self> {
                let $crate::schema::keys::Shape::Union(variants) = Self::SHAPE else {
                    unreachable!("a union");
                };
                match node.variant(variants)?.kind {
                    $($word => Ok($crate::union!(@read node, $name::$variant $(, $type)?)),)*
                    _ => unreachable!("node.variant gives one of them"),
                }
            }
            fn write(&self) -> $crate::schema::keys::Value {
                let mut map = $crate::schema::keys::Map::new();
                map.insert("kind".to_owned(), self.kind().into());
                match self {
                    $($crate::union!(@pattern table, $name::$variant $(, $type)?) => {
                        $crate::union!(@write map, table $(, $type)?);
                    })*
                }
                map.into()
            }
        }
    };
    (@keys) => { &[] };
    (@keys $type:ty) => { <$type as $crate::schema::keys::Table>::KEYS };
    (@read $node:ident, $variant:path) => { $variant };
    (@read $node:ident, $variant:path, $type:ty) => {
        $variant(<$type as $crate::schema::keys::Table>::read($node)?)
    };
    (@pattern $table:ident, $variant:path) => { $variant };
    (@pattern $table:ident, $variant:path, $type:ty) => { $variant($table) };
    (@write $map:ident, $table:ident) => {};
    (@write $map:ident, $table:ident, $type:ty) => {
        $map.extend($crate::schema::keys::Table::write($table))
    };
}

pub use crate::{choice, kinds, table, table_field, union};
