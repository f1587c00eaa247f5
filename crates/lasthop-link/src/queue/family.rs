//! What a queue discipline declares beside its machine, and what the list of them becomes.
//!
//! A discipline is one file of this folder: its keys (`table! { … as "kind" }`), their
//! [`DisciplineKeys`], the alias `Machine` of its machine, and the machine, a [`QueueDiscipline`](super::QueueDiscipline). A line in the
//! list in `queue/mod.rs` makes it a variant of [`Queue`](super::Queue) and of
//! [`Discipline`](super::Discipline), and with it a branch of the JSON Schema, a row of `lasthop list`
//! and a section of the reference page.

use super::QueueDiscipline;
use lasthop_base::packet::Payload;
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::Bytes;

/// What a queue is built for.
#[derive(Clone, Copy, Debug)]
pub struct QueueSite<'a> {
    /// Where its random numbers come from.
    pub streams: &'a Streams,
    /// Name of the direction of the link that it stands before: its random numbers are of this
    /// component.
    pub component: &'a str,
    /// Link header, which sizes count with each packet.
    pub header: Bytes,
    /// The largest packet that crosses the link.
    pub packet: Bytes,
}

/// The keys of a queue discipline, and how its machine is built.
pub(crate) trait DisciplineKeys: Table + Kind {
    /// The machine.
    type Machine<P: Payload>: QueueDiscipline<P>;

    /// The empty queue at `site`.
    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Self::Machine<P>;

    /// Checks what concerns several keys: `path` is theirs in the scenario.
    fn check(&self, _path: &str) -> Read<()> {
        Ok(())
    }
}

/// From one line a discipline: its module, the union of all keys and the enum of all machines, with
/// what each of them can be asked.
macro_rules! queue_disciplines {
    ($($module:ident: $kind:ident($keys:ident);)*) => {
        queue_disciplines! { @declare ($) $($module: $kind($keys);)* }
    };
    (@declare ($d:tt) $($module:ident: $kind:ident($keys:ident);)*) => {
        $(pub mod $module;)*

        kinds! {
            /// Which packet goes next, which are dropped and which are marked.
            pub enum Discipline {
                $($kind($module::$keys),)*
            }
        }

        /// Every queue discipline, dispatched statically.
        #[derive(Clone, Debug)]
        pub enum Queue<P: Payload> {
            $(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind($module::Machine<P>),
            )*
        }

        /// Calls the machine inside.
        macro_rules! dispatch {
            ($d self:expr, $d queue:ident => $d call:expr) => {
                match $d self { $(Queue::$kind($d queue) => $d call,)* }
            };
        }

        impl Discipline {
            /// The empty queue of this discipline at `site`.
            pub fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Queue<P> {
                match self { $(Discipline::$kind(keys) => Queue::$kind(keys.build(site)),)* }
            }

            /// Checks what concerns several keys; `path` is theirs in the scenario.
            pub fn check(&self, path: &str) -> Read<()> {
                match self { $(Discipline::$kind(keys) => keys.check(path),)* }
            }
        }
    };
}

pub(super) use queue_disciplines;
