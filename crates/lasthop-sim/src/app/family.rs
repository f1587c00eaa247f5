//! What an application declares beside its machine, and what the list of them becomes.
//!
//! An application is one file of this folder: its keys (`table! { … as "kind" }`) and, of a source of
//! datagrams, their [`SourceKeys`], the alias `Machine` of its machine, and the machine, a
//! [`DatagramSource`](super::DatagramSource). A line in the list in `app/mod.rs` makes it a variant of
//! [`App`](super::App), and of [`Source`](super::Source) if it sends datagrams, and with it a branch of the
//! JSON Schema, a row of `lasthop list` and a section of the reference page.
//!
//! What writes to TCP connections declares its keys and [`TransferKeys`]; the simulator drives it
//! (`sim/traffic.rs`), for it opens, writes and closes connections.

use super::DatagramSource;
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::{Bytes, Duration, Instant};

/// What a source of datagrams is built for.
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

/// The keys of an application that writes to TCP connections.
pub(crate) trait TransferKeys: Table + Kind {
    /// What its flow reports, apart from what all flows over TCP report.
    const METRICS: &'static [Metric];
    /// Does it come to an end, for which a run waits?
    const ENDS: bool = false;
    /// Does the host that receives send data too?
    const SENDS_BACK: bool = false;
}

/// From one line an application: its module, the union of all keys, the enum of all sources of
/// datagrams, with what each of them can be asked.
macro_rules! applications {
    (
        tcp { $($transfer:ident: $transfer_kind:ident($transfer_keys:ident);)* }
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

        /// The keys of an application that writes to TCP connections.
        #[derive(Clone, Copy, Debug)]
        pub enum Transfer<'a> {
            $(
                #[doc = concat!("See [`", stringify!($transfer), "`](mod@", stringify!($transfer), ").")]
                $transfer_kind(&'a $transfer::$transfer_keys),
            )*
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
            /// The kinds that write to streams.
            pub(crate) const OVER_STREAMS: &'static [&'static str] =
                &[$(<$transfer::$transfer_keys as Kind>::KIND,)*];
            /// The kinds that send datagrams.
            pub(crate) const DATAGRAMS: &'static [&'static str] =
                &[$(<$source::$source_keys as Kind>::KIND,)*];

            /// The metrics of the kinds, apart from those that all flows report.
            pub const METRICS: &'static [&'static [Metric]] = &[
                $(<$transfer::$transfer_keys as TransferKeys>::METRICS,)*
                $(<$source::$source_keys as SourceKeys>::METRICS,)*
            ];

            /// Does it come to an end, for which a run waits?
            pub(crate) fn ends(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::ENDS,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Does the host that receives send data too?
            pub(crate) fn sends_back(&self) -> bool {
                match self {
                    $(App::$transfer_kind(_) => <$transfer::$transfer_keys>::SENDS_BACK,)*
                    $(App::$source_kind(_) => false,)*
                }
            }

            /// Size of its datagrams, headers included; `None`: it needs TCP.
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

            /// The source of datagrams of the flow at `site`.
            ///
            /// # Errors
            /// If the application needs TCP: its keys.
            pub fn source(&self, site: &SourceSite<'_>) -> Result<Source, Transfer<'_>> {
                match self {
                    $(App::$transfer_kind(keys) => Err(Transfer::$transfer_kind(keys)),)*
                    $(App::$source_kind(keys) => Ok(Source::$source_kind(keys.build(site))),)*
                }
            }
        }
    };
}

pub(super) use applications;
