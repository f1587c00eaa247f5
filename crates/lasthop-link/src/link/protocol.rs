//! What a link protocol declares beside its machine, and what its endpoints are built from.
//!
//! A protocol is one file of this folder: its keys (`table! { … as "kind" }`), their
//! [`ProtocolKeys`], the alias `Machine` of its machine, the machine, and its [`ByteFormat`] where it
//! has one. A line in the list in `link/mod.rs` makes it a variant of [`LinkEndpoint`] and of
//! [`Protocol`], and with it a row of `lasthop list`, a branch of the JSON Schema and a section of
//! the reference page.

use super::{LinkError, LinkTiming};
use lasthop_base::packet::Payload;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Kind, Read, Table};
use lasthop_base::units::{Bytes, Duration, Rate};

#[cfg(doc)]
use super::{ByteFormat, LinkEndpoint, Protocol};

/// Header of a data frame with its number and an acknowledgment, a byte each: the default of
/// protocols that have both.
pub(super) const ARQ_HEADER: Bytes = Bytes::new(2);

/// Header of a data frame with its number alone: the default of protocols without acknowledgments.
pub(super) const NUMBER_HEADER: Bytes = Bytes::new(1);

/// Retransmissions of a packet for which timers of the layer above allow, where a protocol permits more.
pub(super) const MOST_REPAIRS: u32 = 3;

/// One direction of a link: how long frames take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Air {
    /// Bit rate.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
}

/// What an endpoint is built for: its link, and what crosses it as far as "auto" timers depend on
/// it.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The direction on which it transmits.
    pub own: Air,
    /// The direction on which it receives.
    pub other: Air,
    /// On a framed radio, its radio frame.
    pub radio_frame: Option<Duration>,
    /// The largest packet, in either direction.
    pub packet: Bytes,
    /// The longest time between the packets of a constant-rate flow in its own direction.
    pub interval: Option<Duration>,
    /// Frame header of the protocol.
    pub header: Bytes,
    /// What each frame carries besides, to name its service.
    pub identifier: Bytes,
    /// How long frames of the other direction may have to wait for those of other services.
    pub wait: Duration,
    /// The same for a frame of its own direction.
    pub own_wait: Duration,
    /// By how much two of them in a row may be kept apart by those of other services.
    pub turn: Duration,
    /// By how much layers below may delay a frame because they repair a loss: of its own direction, and of the other one.
    pub repair: [Duration; 2],
}

impl Site {
    /// The times of the link for a protocol whose control frames have `control` bytes.
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

/// The keys of a link protocol, and what follows from them.
pub(crate) trait ProtocolKeys: Table + Kind {
    /// The machine of one end.
    type Machine<P: Payload + Clone>;

    /// Can an agent limit how often a packet is sent?
    const LIMITS_TRANSMISSIONS: bool = false;

    /// Does its sender learn what becomes of its packets ([`Endpoint::poll_fate`](super::Endpoint::poll_fate))?
    const REPORTS_FATES: bool = false;

    /// The endpoint at `site`.
    fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Self::Machine<P>, LinkError>;

    /// Frame header of a link or service that does not set its own.
    fn default_header(&self) -> Bytes;

    /// What a frame takes of a packet, if packets are cut up.
    fn payload(&self) -> Option<Bytes> {
        None
    }

    /// Size of control frames, if they have one of their own.
    fn control(&self) -> Option<Bytes> {
        None
    }

    /// Whether the protocol needs feedback that no real medium has, so that it cannot be a layer of a stack.
    const IS_IDEAL: bool = false;

    /// Length of the longest frame that carries a packet of `packet` bytes, or a part of it, with headers of `header`.
    fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
        Bytes::new(packet.get() + header.get())
    }

    /// Length of all frames that carry a packet of `packet` bytes without retransmissions and parity.
    fn framed(&self, packet: Bytes, header: Bytes) -> Bytes {
        self.largest_frame(packet, header)
    }

    /// By how much repairs delay a packet, as far as "auto" timers of a layer above allow for it: one retransmission, or
    /// as many as a protocol with a limit permits, at most [`MOST_REPAIRS`].
    fn repair_time(&self, _site: &Site) -> Duration {
        Duration::ZERO
    }

    /// Holds these keys against the link: `path` is theirs in the scenario, each frame carries
    /// `identifier` besides.
    fn check(&self, _path: &str, _identifier: Bytes, _directions: [Air; 2]) -> Read<()> {
        Ok(())
    }
}

/// Why keys do not go with a link; see [`ProtocolKeys::check`].
pub(super) fn refuse(path: String, found: String, allowed: String) -> Read<()> {
    Err(ScenarioError::new(path, found, allowed))
}

/// From one line a protocol: its module, the union of all keys ([`Protocol`]) and the enum of all
/// machines ([`LinkEndpoint`]), with what each of them can be asked.
macro_rules! link_protocols {
    ($($module:ident: $($kind:ident($keys:ident)),+;)*) => {
        link_protocols! { @declare ($) $($module: $($kind($keys)),+;)* }
    };
    (@declare ($d:tt) $($module:ident: $($kind:ident($keys:ident)),+;)*) => {
        $(pub mod $module;)*

        kinds! {
            /// A link-layer protocol and its parameters, as a scenario has them.
            pub enum Protocol {
                $($($kind($module::$keys),)+)*
            }
        }

        /// Every link protocol, dispatched statically.
        #[derive(Clone, Debug)]
        pub enum LinkEndpoint<P: Payload> {
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind($module::Machine<P>),
            )+)*
            /// Several services, each with a protocol of its own.
            Services(Box<Services<P>>),
            /// Stacked layers, each with a protocol of its own.
            Stack(Box<Stack<P>>),
            /// A protocol of another crate.
            Own(OwnEndpoint<P>),
        }

        /// Calls the machine inside.
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
            /// The endpoint of this protocol at `site`.
            ///
            /// # Errors
            /// If parameters contradict each other or the link.
            pub fn build<P: Payload + Clone>(
                &self,
                site: &Site,
            ) -> Result<LinkEndpoint<P>, LinkError> {
                match self {
                    $($(Protocol::$kind(keys) => keys.build(site).map(LinkEndpoint::$kind),)+)*
                }
            }

            /// Frame header of a link or service that does not set its own.
            pub fn default_header(&self) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.default_header(),)+)* }
            }

            /// What a frame takes of a packet, if packets are cut up.
            pub fn payload(&self) -> Option<Bytes> {
                match self { $($(Protocol::$kind(keys) => keys.payload(),)+)* }
            }

            /// Size of control frames, if they have one of their own.
            pub fn control(&self) -> Option<Bytes> {
                match self { $($(Protocol::$kind(keys) => keys.control(),)+)* }
            }

            /// Can an agent limit how often a packet is sent?
            pub fn limits_transmissions(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => {
                        <$module::$keys as ProtocolKeys>::LIMITS_TRANSMISSIONS
                    })+)*
                }
            }

            /// Does its sender learn what becomes of its packets?
            pub fn reports_fates(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => <$module::$keys as ProtocolKeys>::REPORTS_FATES,)+)*
                }
            }

            /// Whether the protocol needs feedback that no real medium has.
            pub fn is_ideal(&self) -> bool {
                match self {
                    $($(Protocol::$kind(_) => <$module::$keys as ProtocolKeys>::IS_IDEAL,)+)*
                }
            }

            /// Length of the longest frame that carries a packet of `packet` bytes, or a part of it.
            pub fn largest_frame(&self, packet: Bytes, header: Bytes) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.largest_frame(packet, header),)+)* }
            }

            /// Length of all frames that carry a packet of `packet` bytes without retransmissions and parity.
            pub fn framed(&self, packet: Bytes, header: Bytes) -> Bytes {
                match self { $($(Protocol::$kind(keys) => keys.framed(packet, header),)+)* }
            }

            /// By how much repairs delay a packet, as far as timers of a layer above allow for it.
            pub fn repair_time(&self, site: &Site) -> Duration {
                match self { $($(Protocol::$kind(keys) => keys.repair_time(site),)+)* }
            }

            /// Holds the keys at `path` against the link.
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
