//! Declaration of a queue discipline, and the macro that expands the list of disciplines.
//!
//! Each discipline is one file of this folder. It contains the keys (`table! { … as "kind" }`) and
//! their [`DisciplineKeys`], the alias `Machine` of the state machine, and the state machine, a
//! [`QueueDiscipline`]. A line in the list in `queue/mod.rs` makes it a
//! variant of [`Queue`](super::Queue) and of [`Discipline`](super::Discipline). From these follow a
//! branch of the JSON Schema, a row of `lasthop list` and a section of the reference page.

use super::QueueDiscipline;
use lasthop_base::packet::Payload;
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::Bytes;

/// Properties of the link that a queue is built for.
#[derive(Clone, Copy, Debug)]
pub struct QueueSite<'a> {
    /// Source of the random number streams.
    pub streams: &'a Streams,
    /// Name of the link direction, which is the component name of its random number streams.
    pub component: &'a str,
    /// Length of the link header, which sizes count with each packet.
    pub header: Bytes,
    /// Maximum packet length on the link.
    pub packet: Bytes,
}

/// The keys of a queue discipline, and the constructor of its state machine.
pub(crate) trait DisciplineKeys: Table + Kind {
    /// The state machine.
    type Machine<P: Payload>: QueueDiscipline<P>;

    /// Creates the empty queue at `site`.
    fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Self::Machine<P>;

    /// Checks constraints between keys. `path` is the path of the keys in the scenario.
    fn check(&self, _path: &str) -> Read<()> {
        Ok(())
    }
}

/// The methods of a discipline that forward to its `fifo` and `counters`.
macro_rules! fifo_methods {
    () => {
        fn len(&self) -> usize {
            self.fifo.len()
        }

        fn has_room(
            &self,
            now: Instant,
            bytes: u32,
            count: u64,
            transmitter: &Transmitter,
        ) -> bool {
            self.fifo.has_room(now, bytes, count, transmitter)
        }

        fn counters(&self) -> DisciplineCounters {
            self.counters
        }
    };
}

/// Expands each line of the list into a module, a variant of the enum of all keys and a variant of
/// the enum of all queues, and implements the common functions.
macro_rules! queue_disciplines {
    ($($module:ident: $kind:ident($keys:ident);)*) => {
        queue_disciplines! { @declare ($) $($module: $kind($keys);)* }
    };
    (@declare ($d:tt) $($module:ident: $kind:ident($keys:ident);)*) => {
        $(pub mod $module;)*

        kinds! {
            /// Queue discipline: the order of packets, and which packets are dropped or marked.
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
            /// A queue that measures its delays; it behaves like the one inside.
            Measured(Box<Measured<P>>),
        }

        /// Every queue discipline, with arrival times of packets, inside [`Measured`].
        #[derive(Clone, Debug)]
        pub(super) enum StampedQueue<P: Payload> {
            $($kind($module::Machine<Stamped<P>>),)*
        }

        /// Forwards the call to the queue of the variant.
        macro_rules! dispatch {
            ($d self:expr, $d queue:ident => $d call:expr) => {
                match $d self {
                    $(Queue::$kind($d queue) => $d call,)*
                    Queue::Measured($d queue) => $d call,
                }
            };
        }

        /// Forwards the call to the queue of the variant.
        macro_rules! dispatch_stamped {
            ($d self:expr, $d queue:ident => $d call:expr) => {
                match $d self { $(StampedQueue::$kind($d queue) => $d call,)* }
            };
        }

        impl Discipline {
            /// Creates the empty queue of this discipline at `site`.
            pub fn build<P: Payload>(&self, site: &QueueSite<'_>) -> Queue<P> {
                match self { $(Discipline::$kind(keys) => Queue::$kind(keys.build(site)),)* }
            }

            /// Like [`Self::build`], for a queue that measures its delays.
            pub fn build_measured<P: Payload>(&self, site: &QueueSite<'_>) -> Queue<P> {
                let queue = match self {
                    $(Discipline::$kind(keys) => StampedQueue::$kind(keys.build(site)),)*
                };
                Queue::Measured(Box::new(Measured::new(queue)))
            }

            /// Checks constraints between keys. `path` is the path of the keys in the scenario.
            pub fn check(&self, path: &str) -> Read<()> {
                match self { $(Discipline::$kind(keys) => keys.check(path),)* }
            }
        }
    };
}

pub(super) use {fifo_methods, queue_disciplines};
