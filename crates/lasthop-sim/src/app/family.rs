//! Declaration of an application, and the macro that expands the list of applications.
//!
//! Each application is one file of this folder. It contains the keys (`table! { … as "kind" }`)
//! with their [`StreamKeys`] or [`SourceKeys`], the alias `Machine` of the state machine, and the
//! state machine: a [`StreamApplication`] or a
//! [`DatagramSource`](super::DatagramSource). A line in the list in `app/mod.rs` makes it a variant
//! of [`App`](super::App), and of [`StreamMachine`](super::StreamMachine) or
//! [`Source`](super::Source). From these follow a branch of the JSON Schema, a row of `lasthop
//! list` and a section of the reference page.

use super::StreamApplication;
use crate::transport::TransportFeatures;
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::{Bytes, Duration, Instant};

/// Properties of the flow that an application is built for.
#[derive(Clone, Copy, Debug)]
pub struct SourceSite<'a> {
    /// Source of the random number streams.
    pub streams: &'a Streams,
    /// Name of its flow, `flow.NAME`, which is the component name of its random number streams.
    pub component: &'a str,
    /// Start of the flow.
    pub start: Instant,
}

/// The keys of a datagram source, and the constructor of its state machine.
pub(crate) trait SourceKeys: Table + Kind {
    /// The state machine, a [`DatagramSource`](super::DatagramSource); boxed if it takes more than 120 B, because the size
    /// of all sources is that of the largest one.
    type Machine;

    /// Metrics of the flow, in addition to those of all flows.
    const METRICS: &'static [Metric];

    /// Length of its packets, headers included.
    fn packet(&self) -> Bytes;

    /// Interval between packets while it sends at a constant rate; `None` if it has no constant
    /// rate.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Checks constraints between keys. `path` is the path of the application.
    fn check(&self, _path: &str) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// Creates the source of the flow at `site`.
    fn build(&self, site: &SourceSite<'_>) -> Self::Machine;
}

/// The keys of an application with streams, and the constructor of its state machine.
pub(crate) trait StreamKeys: Table + Kind {
    /// The state machine.
    type Machine: StreamApplication;

    /// Metrics of the flow, in addition to those of all flows and of its transport.
    const METRICS: &'static [Metric];
    /// Whether the application finishes; a run waits for it.
    const ENDS: bool = false;
    /// Whether both hosts send data. The destination of the flow then opens the streams, like a
    /// browser; otherwise the source does.
    const SENDS_BACK: bool = false;

    /// Checks that it can use a transport. `path` is the path of the application.
    fn check_transport(&self, _path: &str, _has: TransportFeatures) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// Creates the application of the flow at `site`.
    fn build(&self, site: &SourceSite<'_>) -> Self::Machine;
}

/// Expands each line of the list into a module, a variant of the enum of all keys and a variant of
/// an enum of machines.
macro_rules! applications {
    (
        streams { $($transfer:ident: $transfer_kind:ident($transfer_keys:ident);)* }
        datagrams { $($source:ident: $source_kind:ident($source_keys:ident);)* }
    ) => {
        applications! { @declare ($)
            [$($transfer: $transfer_kind($transfer_keys);)*]
            [$($source: $source_kind($source_keys);)*]
        }
    };
    (@declare ($d:tt)
        [$($transfer:ident: $transfer_kind:ident($transfer_keys:ident);)*]
        [$($source:ident: $source_kind:ident($source_keys:ident);)*]
    ) => {
        $(pub mod $transfer;)*
        $(pub mod $source;)*

        kinds! {
            /// An application.
            pub enum App {
                $($transfer_kind($transfer::$transfer_keys),)*
                $($source_kind($source::$source_keys),)*
            }
        }

        /// Every application that writes streams, dispatched statically.
        #[derive(Clone, Debug)]
        pub enum StreamMachine {
            $(
                #[doc = concat!("See [`", stringify!($transfer), "`](mod@", stringify!($transfer), ").")]
                $transfer_kind(Box<$transfer::Machine>),
            )*
        }

        /// Forwards the call to the application of the variant.
        macro_rules! dispatch_stream {
            ($d self:expr, $d machine:ident => $d call:expr) => {
                match $d self { $(StreamMachine::$transfer_kind($d machine) => $d call,)* }
            };
        }

        /// The state machine of an application.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "it is destructured immediately")]
        pub enum AppMachine {
            /// An application that writes streams.
            Streams {
                /// The state machine.
                machine: StreamMachine,
                /// Whether both hosts send data and the destination opens the streams.
                sends_back: bool,
                /// Whether the application finishes; a run waits for it.
                ends: bool,
            },
            /// A source of datagrams.
            Datagrams(Source),
        }

        /// Every source of datagrams, dispatched statically.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "most sources are of the largest one")]
        pub enum Source {
            $(
                #[doc = concat!("See [`", stringify!($source), "`](mod@", stringify!($source), ").")]
                $source_kind($source::Machine),
            )*
        }

        /// Forwards the call to the source of the variant.
        macro_rules! dispatch {
            ($d self:expr, $d machine:ident => $d call:expr) => {
                match $d self { $(Source::$source_kind($d machine) => $d call,)* }
            };
        }

        impl App {
            /// The kinds that write streams.
            pub(crate) const OVER_STREAMS: &'static [&'static str] =
                &[$(<$transfer::$transfer_keys as Kind>::KIND,)*];
            /// The kinds that send datagrams.
            pub(crate) const DATAGRAMS: &'static [&'static str] =
                &[$(<$source::$source_keys as Kind>::KIND,)*];

            /// The metrics of the kinds, in addition to those of all flows.
            pub const METRICS: &'static [&'static [Metric]] = &[
                $(<$transfer::$transfer_keys as StreamKeys>::METRICS,)*
                $(<$source::$source_keys as SourceKeys>::METRICS,)*
            ];

            /// Whether the application finishes; a run waits for it.
            pub(crate) fn ends(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::ENDS,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Whether the receiving host sends data, too.
            pub(crate) fn sends_back(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::SENDS_BACK,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Length of its datagrams, headers included; `None` for applications with streams.
            pub(crate) fn packet(&self) -> Option<Bytes> {
                match self {
                    $(App::$transfer_kind(_) => None,)*
                    $(App::$source_kind(keys) => Some(keys.packet()),)*
                }
            }

            /// Checks constraints between keys. `path` is the path of the application.
            pub(crate) fn check(&self, path: &str) -> Result<(), ScenarioError> {
                match self {
                    $(App::$transfer_kind(_) => Ok(()),)*
                    $(App::$source_kind(keys) => keys.check(path),)*
                }
            }

            /// Checks that it can use a transport. `path` is the path of the application.
            pub(crate) fn check_transport(
                &self,
                path: &str,
                has: TransportFeatures,
            ) -> Result<(), ScenarioError> {
                match self {
                    $(App::$transfer_kind(keys) => keys.check_transport(path, has),)*
                    $(App::$source_kind(_) => Ok(()),)*
                }
            }

            /// Interval between its datagrams, if they are sent at a constant rate.
            pub(crate) fn interval(&self) -> Option<Duration> {
                match self {
                    $(App::$transfer_kind(_) => None,)*
                    $(App::$source_kind(keys) => keys.interval(),)*
                }
            }

            /// Creates the application of the flow at `site`.
            pub fn build(&self, site: &SourceSite<'_>) -> AppMachine {
                match self {
                    $(App::$transfer_kind(keys) => AppMachine::Streams {
                        machine: StreamMachine::$transfer_kind(Box::new(keys.build(site))),
                        sends_back: self.sends_back(),
                        ends: self.ends(),
                    },)*
                    $(App::$source_kind(keys) => {
                        AppMachine::Datagrams(Source::$source_kind(keys.build(site)))
                    })*
                }
            }
        }
    };
}

pub(super) use applications;
