//! How an enumeration of the members of a trait is one itself: each method forwards to the member.

/// Methods that forward by `dispatch`: those that change the member, and those that read it.
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
