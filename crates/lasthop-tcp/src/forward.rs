//! Implementation of a trait by an enumeration of its implementors: each method calls the method of
//! the variant.

/// Defines methods that forward by `dispatch`: `mut` methods take `&mut self`, `ref` methods
/// `&self`.
macro_rules! forward {
    (
        $dispatch:ident:
        mut { $($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?;)* }
        ref { $($(#[$meta_ref:meta])* $name_ref:ident($($arg_ref:ident: $type_ref:ty),*) -> $out_ref:ty;)* }
    ) => {
        $($(#[$meta])* fn $name(&mut self, $($arg: $type),*) $(-> $out)? {
            $dispatch!(self, it => it.$name($($arg),*))
        })*
        $($(#[$meta_ref])* fn $name_ref(&self, $($arg_ref: $type_ref),*) -> $out_ref {
            $dispatch!(self, it => it.$name_ref($($arg_ref),*))
        })*
    };
}
