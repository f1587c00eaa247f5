//! What an error process declares beside its machine, and what the list of them becomes.
//!
//! A process is one file of this folder: its keys (`table! { … as "kind" }`), their [`ErrorKeys`], and
//! the machine, an [`ErrorProcess`](super::ErrorProcess). A line in the list in `channel/mod.rs` makes
//! it a variant of [`Channel`](super::Channel) and of [`Errors`](super::Errors).

use super::{ChannelError, HeaderRule};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::Duration;

/// The keys of an error process, and how it is built.
pub(crate) trait ErrorKeys: Table + Kind {
    /// The machine.
    type Process;

    /// The process of one direction of a link; its random numbers come from streams of `component`.
    fn build(&self, streams: &Streams, component: &str) -> Result<Self::Process, ChannelError>;

    /// Fills in what follows from the link, and checks what concerns several keys: `path` is
    /// theirs in the scenario, `radio_frame` the duration of a radio frame, on a framed radio.
    fn resolve(&mut self, _path: &str, _radio_frame: Option<Duration>) -> Read<()> {
        Ok(())
    }

    /// Which damaged frames leave a header that can be read; `None`: none.
    fn header(&self) -> Option<HeaderRule> {
        None
    }

    /// Can any damaged frame leave a header?
    fn leaves_headers(&self) -> bool {
        self.header().is_some()
    }

    /// What the files that the keys name hold, for a scenario's hash; a name does not say it.
    fn contents(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// From one line a process: its module, the union of all keys and the enum of all machines.
macro_rules! error_processes {
    (
        $($module:ident: $kind:ident($keys:ident);)*
        @of $factor:ident: $($whole:ident: $whole_kind:ident($whole_keys:ident);)*
    ) => {
        $(pub mod $module;)*
        $(pub mod $whole;)*

        kinds! {
            /// What destroys frames.
            pub enum Errors {
                $($kind($module::$keys),)*
                $($whole_kind($whole::$whole_keys),)*
            }
        }

        kinds! {
            /// What destroys frames, as a part of another error process.
            pub enum $factor { $($kind($module::$keys),)* }
        }

        error_processes! {
            @impl Errors $($module: $kind,)* $($whole: $whole_kind,)*
        }
        error_processes! { @impl $factor $($module: $kind,)* }

        /// Every error process, dispatched statically.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub enum Channel {
            $(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind($module::$kind),
            )*
            $(
                #[doc = concat!("See [`", stringify!($whole), "`].")]
                $whole_kind($whole::$whole_kind),
            )*
            /// Any of them that leaves headers; see `headers.rs`.
            WithHeaders(Box<WithHeaders>),
        }

        impl Channel {
            /// The processes that are too long to inline. Three arguments, which registers hold: an
            /// `Airtime` would have to be in memory, for the other processes too.
            #[inline(never)]
            fn is_lost_with_memory(&mut self, start: Instant, end: Instant, bits: u64) -> bool {
                let airtime = Airtime { start, end, bits };
                match self {
                    $(Channel::$kind(process) => process.is_lost(airtime),)*
                    $(Channel::$whole_kind(process) => process.is_lost(airtime),)*
                    Channel::WithHeaders(process) => process.is_lost(airtime),
                }
            }

            fn dispatch_reception(&mut self, airtime: Airtime, header_bits: u64) -> Reception {
                match self {
                    $(Channel::$kind(process) => process.reception(airtime, header_bits),)*
                    $(Channel::$whole_kind(process) => process.reception(airtime, header_bits),)*
                    Channel::WithHeaders(process) => process.reception(airtime, header_bits),
                }
            }

            fn dispatch_is_header_readable(&self) -> bool {
                match self {
                    $(Channel::$kind(process) => process.is_header_readable(),)*
                    $(Channel::$whole_kind(process) => process.is_header_readable(),)*
                    Channel::WithHeaders(process) => process.is_header_readable(),
                }
            }

            fn dispatch_readable_headers(&self) -> Option<u64> {
                match self {
                    $(Channel::$kind(process) => process.readable_headers(),)*
                    $(Channel::$whole_kind(process) => process.readable_headers(),)*
                    Channel::WithHeaders(process) => process.readable_headers(),
                }
            }

            #[inline(never)]
            fn dispatch_lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
                match self {
                    $(Channel::$kind(process) => process.lost_units(airtime, units),)*
                    $(Channel::$whole_kind(process) => process.lost_units(airtime, units),)*
                    Channel::WithHeaders(process) => process.lost_units(airtime, units),
                }
            }

            fn dispatch_catch_up(&mut self, now: Instant) {
                match self {
                    $(Channel::$kind(process) => process.catch_up(now),)*
                    $(Channel::$whole_kind(process) => process.catch_up(now),)*
                    Channel::WithHeaders(process) => process.catch_up(now),
                }
            }

            fn dispatch_replay_rate(&self) -> f64 {
                match self {
                    $(Channel::$kind(process) => process.replay_rate(),)*
                    $(Channel::$whole_kind(process) => process.replay_rate(),)*
                    Channel::WithHeaders(process) => process.replay_rate(),
                }
            }
        }
    };
    (@impl $union:ident $($module:ident: $kind:ident,)*) => {
        impl $union {
            /// The process of one direction of a link; its random numbers come from streams of
            /// `component`.
            ///
            /// # Errors
            /// If parameters contradict each other.
            pub fn build(
                &self,
                streams: &Streams,
                component: &str,
            ) -> Result<Channel, ChannelError> {
                let process = match self {
                    $($union::$kind(keys) => keys.build(streams, component).map(Channel::$kind)?,)*
                };
                Ok(match self.header() {
                    None => process,
                    Some(rule) => {
                        let process = WithHeaders::new(process, rule, streams, component);
                        Channel::WithHeaders(Box::new(process))
                    }
                })
            }

            fn header(&self) -> Option<HeaderRule> {
                match self { $($union::$kind(keys) => keys.header(),)* }
            }

            /// Can any damaged frame leave a header?
            pub fn leaves_headers(&self) -> bool {
                match self { $($union::$kind(keys) => keys.leaves_headers(),)* }
            }

            /// Fills in what follows from the link, and checks what concerns several keys.
            pub fn resolve(
                &mut self,
                path: &str,
                radio_frame: Option<Duration>,
            ) -> Read<()> {
                match self { $($union::$kind(keys) => keys.resolve(path, radio_frame),)* }
            }

            /// What the files that the keys name hold.
            pub fn contents(&self) -> Vec<u8> {
                match self { $($union::$kind(keys) => keys.contents(),)* }
            }
        }
    };
}

pub(super) use error_processes;
