//! Declaration of link protocols: their keys, and the link properties that their endpoints are
//! built from.
//!
//! A protocol is one file of this folder. It contains the keys (`table! { … as "kind" }`), their
//! [`ProtocolKeys`], the alias `Machine`, the state machine, and an optional [`ByteFormat`].
//! A line in the list in `link/mod.rs` adds a variant to [`LinkEndpoint`] and to [`Protocol`]. From
//! this follow a row of `lasthop list`, a branch of the JSON Schema and a section of the reference
//! page.

use super::{LinkError, LinkTiming};
use lasthop_base::packet::Payload;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::{Bytes, Duration, Rate};

#[cfg(doc)]
use super::{ByteFormat, LinkEndpoint, Protocol};

/// Header of a data frame with sequence number and acknowledgment, one byte each: the default of
/// protocols that have both.
pub(super) const ARQ_HEADER: Bytes = Bytes::new(2);

/// Header of a data frame with the sequence number only: the default of protocols without
/// acknowledgments.
pub(super) const NUMBER_HEADER: Bytes = Bytes::new(1);

/// Maximum number of retransmissions per packet for which "auto" timers of the layer above allow,
/// even if the protocol permits more.
pub(super) const MOST_REPAIRS: u32 = 3;

/// Bit rate and propagation delay of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Air {
    /// Bit rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
}

/// Link properties from which an endpoint is built and its "auto" timers are derived.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The direction in which the endpoint transmits.
    pub own: Air,
    /// The direction in which the endpoint receives.
    pub other: Air,
    /// Length of a radio frame, on a radio interface with frames.
    pub radio_frame: Option<Duration>,
    /// The largest packet, in either direction.
    pub packet: Bytes,
    /// Maximum interval between packets of constant-rate flows in the endpoint's own direction.
    pub interval: Option<Duration>,
    /// Length of the frame header of the protocol.
    pub header: Bytes,
    /// Length of the service identifier in each frame, in addition to the header.
    pub identifier: Bytes,
    /// Maximum waiting time of a frame of the other direction for frames of other services.
    pub wait: Duration,
    /// Maximum waiting time of a frame of the own direction for frames of other services.
    pub own_wait: Duration,
    /// Maximum additional interval, caused by other services, between consecutive frames of the
    /// other direction.
    pub turn: Duration,
    /// Maximum additional delay of a frame due to loss recovery in lower layers: in the own
    /// direction and in the other one.
    pub repair: [Duration; 2],
}

impl Site {
    /// Returns the link times for a protocol whose control frames have `control` bytes.
    pub fn timing(&self, control: Bytes) -> LinkTiming {
        let Site { own, other, packet, header, identifier, wait, repair, .. } = *self;
        LinkTiming {
            rate: own.rate,
            delay: own.delay + repair[0],
            back_rate: other.rate,
            back_delay: other.delay + repair[1] + wait,
            data_frame: Bytes::new(packet.get() + header.get() + identifier.get()),
            control_frame: Bytes::new(control.get() + identifier.get()),
        }
    }
}

/// Keys of a link protocol, with the properties derived from them.
pub(crate) trait ProtocolKeys: Table + Kind {
    /// The state machine of one end.
    type Machine<P: Payload + Clone>;

    /// Whether an agent can limit the number of transmissions per packet.
    const LIMITS_TRANSMISSIONS: bool = false;

    /// Whether the sender provides delivery reports
    /// ([`Abilities::delivery_reports`](super::Abilities::delivery_reports)).
    const REPORTS_FATES: bool = false;

    /// Builds the endpoint at `site`.
    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Self::Machine<P>, LinkError>;

    /// Returns the length of the frame header of links and services that do not set their own.
    fn default_header(&self) -> Bytes;

    /// Returns the payload length of a segment, for protocols that segment packets.
    fn payload(&self) -> Option<Bytes> {
        None
    }

    /// Returns the length of control frames, for protocols with a parameter for it.
    fn control(&self) -> Option<Bytes> {
        None
    }

    /// Whether the protocol requires ideal feedback, which no real medium provides. Such a protocol
    /// cannot be a layer of a stack.
    const IS_IDEAL: bool = false;

    /// Returns the length of the longest frame that carries a packet of `packet` bytes, or a
    /// segment of it, with headers of `header`.
    fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
        Bytes::new(packet.get() + header.get())
    }

    /// Returns the total length of the frames that carry a packet of `packet` bytes, without
    /// retransmissions and parity.
    fn framed(&self, packet: Bytes, header: Bytes) -> Bytes {
        self.largest_frame(packet, header)
    }

    /// Returns the additional delay of a packet due to retransmissions for which "auto" timers of
    /// the layer above allow. Counts one retransmission, or with a retry limit as many as
    /// permitted, up to [`MOST_REPAIRS`].
    fn repair_time(&self, _site: &Site) -> Duration {
        Duration::ZERO
    }

    /// Checks these keys against the link. `path` is their path in the scenario, `identifier` the
    /// length of the service identifier in each frame.
    fn check(&self, _path: &str, _identifier: Bytes, _directions: [Air; 2]) -> Read<()> {
        Ok(())
    }
}

/// Returns the error for keys that do not fit the link; see [`ProtocolKeys::check`].
pub(super) fn refuse(path: String, found: String, allowed: String) -> Read<()> {
    Err(ScenarioError::new(path, found, allowed))
}

/// Generates from one line per protocol: its module, the union of all keys ([`Protocol`]), the enum
/// of all state machines ([`LinkEndpoint`]), and the methods of both.
macro_rules! link_protocols {
    ($($module:ident: $($kind:ident($keys:ident)),+;)*) => {
        link_protocols! { @declare ($) $($module: $($kind($keys)),+;)* }
    };
    (@declare ($d:tt) $($module:ident: $($kind:ident($keys:ident)),+;)*) => {
        $(pub mod $module;)*

        kinds! {
            /// A link-layer protocol and its parameters, as in a scenario.
            pub enum Protocol {
                $($($kind($module::$keys),)+)*
            }
        }

        /// A link protocol, dispatched statically.
        #[derive(Clone, Debug)]
        pub enum LinkEndpoint<P: Payload> {
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind($module::Machine<P>),
            )+)*
            /// Several services, each with its own protocol.
            Services(Box<Services<P>>),
            /// Stacked layers, each with its own protocol.
            Stack(Box<Stack<P>>),
            /// A protocol of another crate.
            Own(OwnEndpoint<P>),
        }

        /// Calls the state machine of the variant.
        macro_rules! dispatch {
            ($d self:expr, $d endpoint:ident => $d call:expr) => {
                match $d self {
                    $($(LinkEndpoint::$kind($d endpoint) => $d call,)+)*
                    LinkEndpoint::Services($d endpoint) => $d call,
                    LinkEndpoint::Stack($d endpoint) => $d call,
                    LinkEndpoint::Own($d endpoint) => $d call,
                }
            };
        }

        impl Protocol {
            /// Builds the endpoint of this protocol at `site`.
            ///
            /// # Errors
            /// Returns an error if the parameters are inconsistent or do not fit the link.
            pub fn build<P: Payload + Clone>(
                &self,
                site: &Site,
            ) -> Result<LinkEndpoint<P>, LinkError> {
                match self {
                    $($(Protocol::$kind(keys) => keys.build(site).map(LinkEndpoint::$kind),)+)*
                }
            }

            /// Returns the length of the frame header of links and services that do not set their
            /// own.
            pub fn default_header(&self) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.default_header(),)+)* }
            }

            /// Returns the payload length of a segment, for protocols that segment packets.
            pub fn payload(&self) -> Option<Bytes> {
                match self { $($(Protocol::$kind(keys) => keys.payload(),)+)* }
            }

            /// Returns the length of control frames, for protocols with a parameter for it.
            pub fn control(&self) -> Option<Bytes> {
                match self { $($(Protocol::$kind(keys) => keys.control(),)+)* }
            }

            /// Returns `true` if an agent can limit the number of transmissions per packet.
            pub fn limits_transmissions(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => {
                        <$module::$keys as ProtocolKeys>::LIMITS_TRANSMISSIONS
                    })+)*
                }
            }

            /// Returns `true` if the sender provides delivery reports.
            pub fn reports_fates(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => <$module::$keys as ProtocolKeys>::REPORTS_FATES,)+)*
                }
            }

            /// Returns `true` if the protocol requires ideal feedback, which no real medium
            /// provides.
            pub fn is_ideal(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => <$module::$keys as ProtocolKeys>::IS_IDEAL,)+)*
                }
            }

            /// Returns the length of the longest frame that carries a packet of `packet` bytes, or
            /// a segment of it.
            pub fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.largest_frame(packet, header),)+)* }
            }

            /// Returns the total length of the frames that carry a packet of `packet` bytes,
            /// without retransmissions and parity.
            pub fn framed(&self, packet: Bytes, header: Bytes) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.framed(packet, header),)+)* }
            }

            /// Returns the additional delay of a packet due to retransmissions for which timers of
            /// the layer above allow.
            pub fn repair_time(&self, site: &Site) -> Duration {
                match self { $($(Protocol::$kind(keys) => keys.repair_time(site),)+)* }
            }

            /// Checks the keys at `path` against the link.
            pub fn check(
                &self,
                path: &str,
                identifier: Bytes,
                directions: [Air; 2],
            ) -> Read<()> {
                match self { $($(Protocol::$kind(keys) => keys.check(path, identifier, directions),)+)* }
            }
        }
    };
}

pub(super) use link_protocols;
