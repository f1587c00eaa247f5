//! What an application declares beside its machine, and what the list of them becomes.
//!
//! An application is one file of this folder: its keys (`table! { … as "kind" }`) with their [`StreamKeys`] or
//! [`SourceKeys`], the alias `Machine` of its machine, and the machine: a
//! [`StreamApplication`](super::StreamApplication) or a [`DatagramSource`](super::DatagramSource). A line in the list in
//! `app/mod.rs` makes it a variant of [`App`](super::App), and of [`StreamMachine`](super::StreamMachine) or
//! [`Source`](super::Source), and with it a branch of the JSON Schema, a row of `lasthop list` and a section of the
//! reference page.

use super::{DatagramSource, StreamApplication};
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::{Bytes, Duration, Instant};

/// What an application is built for.
#[derive(Clone, Copy, Debug)]
pub struct SourceSite<'a> {
    /// Where its random numbers come from.
    pub streams: &'a Streams,
    /// Name of its flow, `flow.NAME`: its random numbers are of this component.
    pub component: &'a str,
    /// When the flow starts.
    pub start: Instant,
}

/// The keys of a source of datagrams, and how its machine is built.
pub(crate) trait SourceKeys: Table + Kind {
    /// The machine.
    type Machine: DatagramSource;

    /// What its flow reports, apart from what all flows report.
    const METRICS: &'static [Metric];

    /// Size of its packets, headers included.
    fn packet(&self) -> Bytes;

    /// Time between packets while it sends at a constant rate; `None`: there is no such rate.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Checks what concerns several keys; `path` is that of the application.
    fn check(&self, _path: &str) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// The source of the flow at `site`, before its first packet.
    fn build(&self, site: &SourceSite<'_>) -> Self::Machine;
}

/// The keys of an application that writes streams, and how its machine is built.
pub(crate) trait StreamKeys: Table + Kind {
    /// The machine.
    type Machine: StreamApplication;

    /// What its flow reports, apart from what all flows and its transport report.
    const METRICS: &'static [Metric];
    /// Whether it comes to an end, for which a run waits.
    const ENDS: bool = false;
    /// Whether both hosts send data. The destination of the flow then opens the streams, as a browser does; otherwise the
    /// source does.
    const SENDS_BACK: bool = false;

    /// The application of the flow at `site`.
    fn build(&self, site: &SourceSite<'_>) -> Self::Machine;
}

/// From one line an application: its module, the union of all keys, and the enums of all machines.
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
        #[allow(clippy::large_enum_variant, reason = "each stands in a box of its own")]
        pub enum StreamMachine {
            $(
                #[doc = concat!("See [`", stringify!($transfer), "`](mod@", stringify!($transfer), ").")]
                $transfer_kind($transfer::Machine),
            )*
        }

        /// Calls the application inside.
        macro_rules! dispatch_stream {
            ($d self:expr, $d machine:ident => $d call:expr) => {
                match $d self { $(StreamMachine::$transfer_kind($d machine) => $d call,)* }
            };
        }

        /// A machine of an application.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "it is taken apart at once")]
        pub enum AppMachine {
            /// It writes streams. Whether both hosts send data, and the destination opens the streams; whether it comes to
            /// an end.
            Streams {
                /// The machine.
                machine: StreamMachine,
                /// Whether both hosts send data, and the destination opens the streams.
                sends_back: bool,
                /// Whether it comes to an end, for which a run waits.
                ends: bool,
            },
            /// It sends datagrams.
            Datagrams(Source),
        }

        /// Every source of datagrams, dispatched statically.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant, reason = "each stands in a box of its own")]
        pub enum Source {
            $(
                #[doc = concat!("See [`", stringify!($source), "`](mod@", stringify!($source), ").")]
                $source_kind($source::Machine),
            )*
        }

        /// Calls the machine inside.
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

            /// The metrics of the kinds, apart from those that all flows report.
            pub const METRICS: &'static [&'static [Metric]] = &[
                $(<$transfer::$transfer_keys as StreamKeys>::METRICS,)*
                $(<$source::$source_keys as SourceKeys>::METRICS,)*
            ];

            /// Whether it comes to an end, for which a run waits.
            pub(crate) fn ends(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::ENDS,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Whether the host that receives sends data too.
            pub(crate) fn sends_back(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::SENDS_BACK,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Size of its datagrams, headers included; `None`: it writes streams.
            pub(crate) fn packet(&self) -> Option<Bytes> {
                match self {
                    $(App::$transfer_kind(_) => None,)*
                    $(App::$source_kind(keys) => Some(keys.packet()),)*
                }
            }

            /// Checks what concerns several keys; `path` is that of the application.
            pub(crate) fn check(&self, path: &str) -> Result<(), ScenarioError> {
                match self {
                    $(App::$transfer_kind(_) => Ok(()),)*
                    $(App::$source_kind(keys) => keys.check(path),)*
                }
            }

            /// Time between its datagrams, if they leave at a constant rate.
            pub(crate) fn interval(&self) -> Option<Duration> {
                match self {
                    $(App::$transfer_kind(_) => None,)*
                    $(App::$source_kind(keys) => keys.interval(),)*
                }
            }

            /// The application of the flow at `site`.
            pub fn build(&self, site: &SourceSite<'_>) -> AppMachine {
                match self {
                    $(App::$transfer_kind(keys) => AppMachine::Streams {
                        machine: StreamMachine::$transfer_kind(keys.build(site)),
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
