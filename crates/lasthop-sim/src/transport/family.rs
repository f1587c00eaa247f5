//! Declarations of a transport in addition to its machine, and the types generated from the list of
//! transports.
//!
//! A transport is a file or folder in this directory: its keys (`table! { … as "kind" }`), their
//! [`TransportKeys`], the alias `Machine` and the state machine, a [`Transport`].
//! A line in the list in `transport/mod.rs` makes it a variant of
//! [`TransportKind`](super::TransportKind) and of [`TransportMachine`](super::TransportMachine). It
//! is then also a branch of the JSON Schema, a row of `lasthop list` and a section of the reference
//! page.

use super::Transport;
use lasthop_base::rng::Stream;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Kind, Table};
use lasthop_base::schema::metrics::Metric;
use lasthop_base::units::{Bytes, Duration, Rate};
use serde_json::Value;

/// Type of data that a transport carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Reliable byte streams.
    Streams,
    /// Datagrams.
    Datagrams,
}

/// Properties of an application's traffic that determine the packets of its transport.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Size of its datagrams, headers included; `None` if it writes streams.
    pub datagram: Option<Bytes>,
    /// Whether both hosts send data.
    pub sends_back: bool,
}

/// Packet sizes of a transport, which determine its fair share of a path.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Payload of a full packet.
    pub payload: Bytes,
    /// A full packet, including headers.
    pub data: Bytes,
    /// An acknowledgment.
    pub ack: Bytes,
}

/// Environment for which a connection is built.
pub struct TransportSite<'a> {
    /// Random number stream for the phases of the hosts' clocks.
    pub clock: Stream,
    /// The path of the connection.
    pub path: PathShare<'a>,
}

/// Returns the fair share of a path's rate and its round-trip time without queueing, for packets of
/// some sizes. `None` if no link of the path has a finite rate.
pub type PathShare<'a> = &'a dyn Fn(Sizes) -> Option<(Rate, Duration)>;

/// Keys of a transport, and the properties derived from them.
pub(crate) trait TransportKeys: Table + Kind {
    /// State machine of a connection.
    type Machine: Transport;

    /// Types of data that it carries; the metrics belong to the first.
    const CARRIES: &'static [Carries];

    /// Metrics of its connections.
    const METRICS: &'static [&'static [Metric]];

    /// Checks conditions on several keys; `path` is the path of the transport.
    fn check(&self, _path: &str) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// Checks that it can carry the traffic of an application; `path` is the path of the application.
    fn check_load(&self, _path: &str, _load: Load) -> Result<(), ScenarioError> {
        Ok(())
    }

    /// Returns the sizes of the largest packets from the source of the flow to its destination, and
    /// back.
    fn largest_packets(&self, load: Load) -> [Bytes; 2];

    /// Returns the packets that may exceed the maximum packet length of a link: the key that
    /// determines their size, the size of the largest packet, and whether it is sent on the reverse
    /// path.
    fn limits(&self, load: Load) -> Vec<(&'static str, Bytes, bool)> {
        let [there, _] = self.largest_packets(load);
        vec![("app.packet", there, false)]
    }

    /// Returns `true` if its packets have TCP options, for which descriptors need space.
    fn writes_options(&self) -> bool {
        false
    }

    /// Returns its parameters as numbers in SI units, including defaults; null without parameters.
    fn resolved(&self) -> Value {
        Value::Null
    }

    /// Builds a connection at `site`, before its first packet.
    fn build(&self, site: TransportSite<'_>) -> Self::Machine;
}

/// Generates from one line per transport: the modules, the union of all keys, and the enum of all
/// state machines.
macro_rules! transports {
    ($($(#[cfg($on:meta)])? $module:ident: $kind:ident($keys:ident);)*) => {
        $($(#[cfg($on)])? pub mod $module;)*
        $($(#[cfg($on)])? pub use $module::{$keys, $kind};)*

        kinds! {
            /// A transport protocol.
            pub enum TransportKind { $($(#[cfg($on)])? $kind($module::$keys),)* }
        }

        impl TransportKind {
            /// Returns the kinds that carry this type of data.
            pub(crate) fn carrying(carries: Carries) -> Vec<&'static str> {
                let all = [$($(#[cfg($on)])? (
                    <$module::$keys as TransportKeys>::CARRIES,
                    <$module::$keys as lasthop_base::schema::keys::Kind>::KIND,
                ),)*];
                all.into_iter().filter(|one| one.0.contains(&carries)).map(|(_, kind)| kind).collect()
            }

            /// Returns the metrics of the kinds whose first type of data is this one.
            pub(crate) fn metrics(carries: Carries) -> Vec<&'static [Metric]> {
                let all = [$($(#[cfg($on)])? (
                    <$module::$keys as TransportKeys>::CARRIES,
                    <$module::$keys as TransportKeys>::METRICS,
                ),)*];
                let own = all.into_iter().filter(|one| one.0.first() == Some(&carries));
                own.flat_map(|(_, metrics)| metrics).copied().collect()
            }

            /// Returns `true` if it carries this type of data.
            pub fn carries(&self, what: Carries) -> bool {
                match self {
                    $($(#[cfg($on)])? TransportKind::$kind(_) => {
                        <$module::$keys as TransportKeys>::CARRIES.contains(&what)
                    })*
                }
            }

            /// Checks that it can carry the traffic of an application; `path` is the path of the
            /// application.
            pub(crate) fn check_load(&self, path: &str, load: Load) -> Result<(), ScenarioError> {
                match self {
                    $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.check_load(path, load),)*
                }
            }

            /// Checks conditions on several keys; `path` is the path of the transport.
            pub(crate) fn check(&self, path: &str) -> Result<(), ScenarioError> {
                match self { $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.check(path),)* }
            }

            /// Returns the sizes of the largest packets from the source of the flow to its
            /// destination, and back.
            pub(crate) fn largest_packets(&self, load: Load) -> [Bytes; 2] {
                match self { $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.largest_packets(load),)* }
            }

            /// Returns the packets that may exceed the maximum packet length of a link: the key
            /// that determines their size, the size of the largest packet, and whether it is sent
            /// on the reverse path.
            pub(crate) fn limits(&self, load: Load) -> Vec<(&'static str, Bytes, bool)> {
                match self { $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.limits(load),)* }
            }

            /// Returns `true` if its packets have TCP options, for which descriptors need space.
            pub(crate) fn writes_options(&self) -> bool {
                match self { $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.writes_options(),)* }
            }

            /// Returns its parameters as numbers in SI units, including defaults; null without
            /// parameters.
            pub(crate) fn resolved(&self) -> Value {
                match self { $($(#[cfg($on)])? TransportKind::$kind(keys) => keys.resolved(),)* }
            }

            /// Builds a connection at `site`, before its first packet.
            pub fn build(&self, site: TransportSite<'_>) -> TransportMachine {
                match self {
                    $($(#[cfg($on)])? TransportKind::$kind(keys) => TransportMachine::$kind(keys.build(site)),)*
                }
            }
        }

        /// State machine of a connection with any transport, dispatched statically.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "most connections are of the largest one")]
        pub enum TransportMachine {
            $(
                $(#[cfg($on)])?
                #[doc = concat!("See [`", stringify!($module), "`](mod@", stringify!($module), ").")]
                $kind($module::Machine),
            )*
        }

        $(
            $(#[cfg($on)])?
            impl From<$module::Machine> for TransportMachine {
                fn from(machine: $module::Machine) -> Self {
                    TransportMachine::$kind(machine)
                }
            }
        )*

        impl Transport for TransportMachine {
            transports! { @methods [$([$(#[cfg($on)])? $kind])*]
                fn features(&self) -> TransportFeatures;
                fn open(&mut self);
                fn poll_transmit[X](
                    &mut self,
                    now: Instant,
                    end: End,
                    packet: &mut Descriptor<X>
                ) -> bool;
                fn receive[X](&mut self, now: Instant, end: End, packet: &Descriptor<X>);
                fn receive_copy[X](&mut self, now: Instant, end: End, packet: &Descriptor<X>);
                fn receive_damaged[X](&mut self, now: Instant, end: End, packet: &Descriptor<X>);
                fn next_timeout(&self, end: End) -> Instant;
                fn handle_timeout(&mut self, now: Instant, end: End) -> bool;
            }
            transports! { @report [$([$(#[cfg($on)])? $kind])*] }
        }

        impl CarriesStreams for TransportMachine {
            transports! { @methods [$([$(#[cfg($on)])? $kind])*]
                fn write(&mut self, end: End, bytes: u64);
                fn read(&self, end: End) -> u64;
                fn close(&mut self, end: End);
                fn write_stream(&mut self, end: End, stream: u32, urgency: u8, bytes: u64);
                fn close_stream(&mut self, end: End, stream: u32);
                fn stop(&mut self, end: End);
                fn follow(&mut self);
                fn poll_received(&mut self, end: End) -> Option<(u32, u64)>;
                fn waiting(&self, end: End) -> u64;
                fn acknowledged(&self, end: End) -> u64;
                fn unsent(&self, end: End) -> u64;
                fn is_all_acknowledged(&self, end: End) -> bool;
                fn can_fail(&self) -> bool;
                fn has_failed(&self) -> bool;
            }
        }

        impl CarriesDatagrams for TransportMachine {
            transports! { @methods [$([$(#[cfg($on)])? $kind])*]
                fn send(&mut self, now: Instant, datagram: Datagram);
                fn read_datagram(&mut self) -> Option<Arrival>;
            }
        }

        impl Answers for TransportMachine {
            transports! { @methods [$([$(#[cfg($on)])? $kind])*]
                fn answer[X](&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool;
                fn answer_copy[X](&mut self, at: Instant, packet: &mut Descriptor<X>) -> bool;
            }
        }

        impl Observed for TransportMachine {
            transports! { @methods [$([$(#[cfg($on)])? $kind])*]
                fn losses(&self, end: End) -> Losses;
                fn clock(&self, end: End) -> Duration;
                fn start_observation(&mut self);
                fn observe(
                    &self,
                    end: End,
                    moment: Moment<'_>,
                    tell: &mut dyn FnMut(TransportEvent)
                );
                fn observe_past(&mut self, tell: &mut dyn FnMut(Instant, End, TransportEvent));
                fn numbers(&self, packet: &Packet) -> Option<Numbers>;
                fn payload(&self, packet: &Packet) -> Option<Vec<u8>>;
            }
        }
    };
    (@methods $kinds:tt $(fn $method:ident $([$extension:ident])? ($($inputs:tt)*) $(-> $result:ty)?;)*) => {
        $(transports! { @method $kinds fn $method [$($extension: Extension)?] ($($inputs)*) [$(-> $result)?] })*
    };
    (@method $kinds:tt fn $method:ident $generics:tt
        (&self $(, $argument:ident: $type:ty)*) $result:tt) => {
        transports! { @dispatch $kinds fn $method $generics
            [&self] [&TransportMachine] self ($($argument: $type),*) ($($argument),*) $result }
    };
    (@method $kinds:tt fn $method:ident $generics:tt
        (&mut self $(, $argument:ident: $type:ty)*) $result:tt) => {
        transports! { @dispatch $kinds fn $method $generics
            [&mut self] [&mut TransportMachine] self ($($argument: $type),*) ($($argument),*) $result }
    };
    // The first transport of the list carries most packets. It is inlined into the caller, the
    // others are not.
    (@dispatch [[$first:ident] $([$(#[cfg($on:meta)])? $kind:ident])*] fn $method:ident [$($generics:tt)*]
        [$($receiver:tt)*] [$reference:ty] $self:ident
        ($($argument:ident: $type:ty),*) $arguments:tt [$($result:tt)*]) => {
        #[inline(always)]
        fn $method<$($generics)*>($($receiver)*, $($argument: $type),*) $($result)* {
            #[cold]
            #[inline(never)]
            fn others<$($generics)*>(machine: $reference, $($argument: $type),*) $($result)* {
                match machine {
                    TransportMachine::$first(machine) => machine.$method $arguments,
                    $($(#[cfg($on)])? TransportMachine::$kind(machine) => machine.$method $arguments,)*
                }
            }
            match $self {
                TransportMachine::$first(machine) => machine.$method $arguments,
                _ => others($self, $($argument),*),
            }
        }
    };
    // All connections of a flow have the same transport.
    (@report [$([$(#[cfg($on:meta)])? $kind:ident])*]) => {
        fn report(connections: &[&Self], is_end_to_end: bool, report: &mut Report<'_>) {
            match connections.first() {
                None => {}
                $($(#[cfg($on)])? Some(TransportMachine::$kind(_)) => {
                    let own = connections.iter().filter_map(|one| match one {
                        TransportMachine::$kind(machine) => Some(machine),
                        _ => None,
                    });
                    $kind::report(&own.collect::<Vec<_>>(), is_end_to_end, report);
                })*
            }
        }
    };
}

pub(super) use transports;
