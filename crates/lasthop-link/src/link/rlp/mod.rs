//! Radio link protocol (RLP): ARQ with negative acknowledgments only, in which frames that remain
//! missing are abandoned. One state machine for Karn's RLP, which delivers in sequence, and for
//! out-of-sequence RLP, which delivers each frame on arrival ([`Release`]).
//!
//! Source: Xylomenos and Polyzos, "Wireless link layer enhancements for TCP and UDP applications",
//! IPDPS 2003, after P. Karn, "The Qualcomm CDMA digital cellular system", USENIX Mobile and
//! Location-Independent Computing 1993, and the RLP of TIA IS-99 and IS-707. Timeout, horizon and
//! keep-alive interval are not published: see `docs/links/rlp.md`.
//!
//! States of a frame at the sender, which has no window, acknowledgments or retransmission timer:
//!
//! ```text
//!          enqueue         sent               128 newer frames
//!  (none) --------> new ----------> history ------------------> (removed)
//!                                   ^     |
//!                              sent |     | NACK, fewer than n retransmissions so far
//!                                   |     v
//!                                   queued (in order of NACKs, before new data)
//! ```
//!
//! States of a sequence number at the receiver:
//!
//! ```text
//!          later number or keep-alive                     received
//!  not seen -----------------------------> missing ------------------------> received
//!     |                                     |   ^  |                            ^
//!     |                          T_nack and |   |  | T_nack and n NACKs sent,   |
//!     |                       fewer than n  +---+  | or 128 numbers behind      |
//!     |                       NACKs: NACK          v                            |
//!     |                                        abandoned                        |
//!     +-------------------------------------------------------------------------+
//!                                     received
//! ```
//!
//! In-sequence delivery holds a received frame until all earlier ones are received or abandoned.
//! The receiver counts its own NACKs, so a lost NACK uses up an attempt, and it abandons frames
//! without notification by the sender. Transmission order: NACKs, retransmissions, new data,
//! keep-alives.
//!
//! Retransmissions of several frames are queued for the peer's transmitter. The deadline of a NACK
//! is therefore the later of two times: T_nack after its start, and one frame time after the
//! deadline of the preceding NACK. As frames are retransmitted in the order of their NACKs, the
//! requested one has been received by then or is lost.
//!
//! A keep-alive contains the number of the next new frame, which reveals the loss of the last
//! frames. It is sent one interval after the start of the last new frame or keep-alive, since both
//! reveal preceding losses.
//!
//! *Horizon*: both ends keep state for the last 128 sequence numbers only. A missing frame that
//! falls behind is abandoned. On a saturated link this occurs if n T_nack > 128 T_f.
//!
//! Timers start at the beginning of a transmission, since the state machine does not know the rate.
//!
//! Not modelled: reordering by the channel, NACKs for several frames, adaptive timers,
//! initialization and reset of sequence numbers after 128 consecutive losses (internal numbers are
//! unbounded), segmentation of packets into radio frames.

mod driven;
mod machine;

use super::LinkError;
use super::protocol::{Air, MOST_REPAIRS, NUMBER_HEADER, ProtocolKeys, Site, refuse};
use super::timing::LinkTiming;
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::schema::{KeepaliveInterval, KeepaliveLimit, LinkTimeout};
use lasthop_base::units::{Bytes, Duration};
pub use machine::Rlp;

/// Sequence numbers for which either end keeps state: half of the one-byte range.
pub const HORIZON: u64 = 128;

/// Maximum of the retransmission limit.
pub const MOST_RETRANSMISSIONS: u32 = 100;

/// Delivery of received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// After all earlier frames are received or abandoned (Karn RLP).
    #[default]
    InSequence,
    /// On arrival (out-of-sequence RLP).
    Immediate,
}

table! {
    /// Parameters of a radio link protocol.
    pub struct RlpKeys {
        /// Maximum number of retransmissions per frame; then it is abandoned.
        retransmissions: u32 = "3", Limits::range(0, MOST_RETRANSMISSIONS as u64);
        /// Time after which the receiver repeats a negative acknowledgment or abandons the frame;
        /// "auto" derives it from the link.
        nack_timeout: LinkTimeout = "auto";
        /// Interval from the last new frame or keep-alive to the next keep-alive, which reveals the
        /// loss of the last frames; "auto" is the round trip of the link.
        keepalive: KeepaliveInterval = "auto";
        /// Maximum number of consecutive keep-alives of an idle sender.
        keepalives: KeepaliveLimit = "5 frames";
        /// Size of a negative acknowledgment or keep-alive.
        control: Bytes = "2 B", Limits::CONTROL;
    }
}

/// Builds the endpoint for these keys with the given delivery.
fn build<P: Payload + Clone>(
    keys: &RlpKeys,
    release: Release,
    site: &Site,
) -> Result<Rlp<P>, LinkError> {
    let auto = RlpParameters::for_link(&site.timing(keys.control), release);
    Rlp::new(RlpParameters {
        retransmissions: keys.retransmissions,
        nack_timeout: keys.nack_timeout.or(auto.nack_timeout),
        copy_time: auto.copy_time + site.turn,
        keepalive: match keys.keepalive {
            KeepaliveInterval::Auto => auto.keepalive,
            KeepaliveInterval::Off => None,
            KeepaliveInterval::Every(interval) => Some(interval),
        },
        keepalives: match keys.keepalives {
            KeepaliveLimit::Unlimited => None,
            KeepaliveLimit::Frames(count) => Some(count),
        },
        header: site.header,
        control: keys.control,
        ..auto
    })
}

/// Checks that keep-alives, which contain `identifier` on a link of services, do not occupy the
/// link permanently.
fn check(keys: &RlpKeys, path: &str, identifier: Bytes, directions: [Air; 2]) -> Read<()> {
    let control = Bytes::new(keys.control.get() + identifier.get());
    let KeepaliveInterval::Every(interval) = keys.keepalive else { return Ok(()) };
    for Air { rate, delay } in directions {
        let timing = LinkTiming::symmetric(rate, delay, Bytes::default(), control);
        let airtime = timing.control_time();
        if interval <= airtime {
            let allowed = format!(
                "\"auto\", \"off\", or more than the {airtime} that {control} take on the air at \
                 {rate}"
            );
            return refuse(format!("{path}.keepalive"), format!("\"{interval}\""), allowed);
        }
    }
    Ok(())
}

/// The state machine of one end.
pub type Machine<P> = Rlp<P>;

table! {
    /// Karn's radio link protocol: negative acknowledgments only; a frame is abandoned after a few
    /// retransmissions, and later frames are held for in-sequence delivery.
    pub struct KarnRlpKeys(RlpKeys) as "karn-rlp";
}

table! {
    /// Out-of-sequence radio link protocol: like Karn's, but each frame is delivered on arrival.
    pub struct OosRlpKeys(RlpKeys) as "oos-rlp";
}

/// Implements [`ProtocolKeys`] for these keys with the given delivery.
macro_rules! protocol {
    ($keys:ident, $release:expr) => {
        impl ProtocolKeys for $keys {
            type Machine<P: Payload + Clone> = Machine<P>;

            fn build<P: Payload + Clone>(&self, site: &Site) -> Result<Machine<P>, LinkError> {
                build(&self.0, $release, site)
            }

            fn default_header(&self) -> Bytes {
                NUMBER_HEADER
            }

            /// Time until the frame is reported missing and retransmitted.
            fn repair_time(&self, site: &Site) -> Duration {
                let most = self.0.retransmissions.min(MOST_REPAIRS);
                site.timing(self.0.control).longest_turnaround() * u64::from(most)
            }

            fn control(&self) -> Option<Bytes> {
                Some(self.0.control)
            }

            fn check(&self, path: &str, identifier: Bytes, directions: [Air; 2]) -> Read<()> {
                check(&self.0, path, identifier, directions)
            }
        }
    };
}

protocol!(KarnRlpKeys, Release::InSequence);
protocol!(OosRlpKeys, Release::Immediate);

/// Parameters of the radio link protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RlpParameters {
    /// Delivery of received frames.
    pub release: Release,
    /// Maximum number n of retransmissions per frame by the sender, and of NACKs per frame by the
    /// receiver, 0 to [`MOST_RETRANSMISSIONS`].
    pub retransmissions: u32,
    /// Time from the start of a NACK until the retransmission has been received or is lost, T_nack,
    /// in nanoseconds; above 0.
    pub nack_timeout: Duration,
    /// Additional delay of a retransmission per retransmission requested before it: the
    /// transmission time of a full frame of the peer, and the waiting time between two of them on a
    /// shared link, in nanoseconds.
    pub copy_time: Duration,
    /// Interval from the start of the last new frame or keep-alive to the next keep-alive, T_k, in
    /// nanoseconds; above 0; `None`: no keep-alives.
    pub keepalive: Option<Duration>,
    /// Maximum number of keep-alives after the last new frame, at least 1; `None`: no limit.
    pub keepalives: Option<u32>,
    /// Link header of a data frame (default 1 B: the number).
    pub header: Bytes,
    /// Length of a NACK or keep-alive (default 2 B: number and type).
    pub control: Bytes,
}

impl RlpParameters {
    /// Returns the defaults for a link: 3 retransmissions, T_nack = [`LinkTiming::repair_time`], 5
    /// keep-alives at intervals of RTT_L, or longer if they would use more than half of the link.
    pub fn for_link(timing: &LinkTiming, release: Release) -> Self {
        RlpParameters {
            release,
            retransmissions: 3,
            nack_timeout: timing.repair_time(),
            copy_time: timing.back_frame_time(),
            keepalive: Some(timing.round_trip().max(timing.control_time() * 2)),
            keepalives: Some(5),
            header: Bytes::new(1),
            control: Bytes::new(2),
        }
    }
}
