//! Declaration of an error process, and the macro that expands the list of processes.
//!
//! Each process is one file of this folder. It contains the keys (`table! { … as "kind" }`), their
//! [`ErrorKeys`], and the state machine, an [`ErrorProcess`](super::ErrorProcess). A line in the
//! list in `channel/mod.rs` makes it a variant of [`Channel`](super::Channel) and of
//! [`Errors`](super::Errors).

use super::{ChannelError, HeaderRule};
use lasthop_base::rng::Streams;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::Duration;

/// The keys of an error process, and the constructor of its state machine.
pub(crate) trait ErrorKeys: Table + Kind {
    /// The state machine.
    type Process;

    /// Creates the process of one direction of a link. Its random numbers come from streams of
    /// `component`.
    fn build(&self, streams: &Streams, component: &str) -> Result<Self::Process, ChannelError>;

    /// Returns `true` if no frame is lost. Such a process is replaced by [`Clean`](super::Clean).
    fn is_lossless(&self) -> bool {
        false
    }

    /// Sets defaults that depend on the link, and checks constraints between keys. `path` is the
    /// path of the keys in the scenario; `radio_frame` is the duration of a radio frame on a framed
    /// radio.
    fn resolve(&mut self, _path: &str, _radio_frame: Option<Duration>) -> Read<()> {
        Ok(())
    }

    /// Rule for the damaged frames whose header is readable; `None` if there are no such frames.
    fn header(&self) -> Option<HeaderRule> {
        None
    }

    /// Returns `true` if damaged frames may have a readable header.
    fn has_readable_headers(&self) -> bool {
        self.header().is_some()
    }

    /// Contents of the files named by the keys, for the hash of the scenario, which must not depend
    /// on file names only.
    fn contents(&self) -> Vec<u8> {
        Vec::new()
    }
}

/// Expands each line of the list into a module, a variant of the enum of all keys and a variant of
/// the enum of all processes.
macro_rules! error_processes {
    (
        $($module:ident: $kind:ident($keys:ident);)*
        @of $factor:ident: $($whole:ident: $whole_kind:ident($whole_keys:ident);)*
    ) => {
        $(pub mod $module;)*
        $(pub mod $whole;)*

        kinds! {
            /// Error process.
            pub enum Errors {
                $($kind($module::$keys),)*
                $($whole_kind($whole::$whole_keys),)*
            }
        }

        kinds! {
            /// Error process that is a component of another error process.
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
            /// Any of these processes, with readable headers; see `headers.rs`.
            WithHeaders(Box<WithHeaders>),
        }

        impl Channel {
            /// The processes that are too long to inline. The three arguments fit into registers;
            /// an `Airtime` would have to be in memory, for the other processes too.
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
            /// Creates the process of one direction of a link. Its random numbers come from streams
            /// of `component`.
            ///
            /// # Errors
            /// If parameters are inconsistent.
            pub fn build(
                &self,
                streams: &Streams,
                component: &str,
            ) -> Result<Channel, ChannelError> {
                let process = match self {
                    $($union::$kind(keys) if keys.is_lossless() => Channel::Clean(Clean {}),)*
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

            /// Returns `true` if damaged frames may have a readable header.
            pub fn has_readable_headers(&self) -> bool {
                match self { $($union::$kind(keys) => keys.has_readable_headers(),)* }
            }

            /// Sets defaults that depend on the link, and checks constraints between keys.
            pub fn resolve(
                &mut self,
                path: &str,
                radio_frame: Option<Duration>,
            ) -> Read<()> {
                match self { $($union::$kind(keys) => keys.resolve(path, radio_frame),)* }
            }

            /// Contents of the files named by the keys.
            pub fn contents(&self) -> Vec<u8> {
                match self { $($union::$kind(keys) => keys.contents(),)* }
            }
        }
    };
}

pub(super) use error_processes;
