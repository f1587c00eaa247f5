//! Radio link protocol: negative acknowledgments only, and a frame that stays missing is given up.
//! One machine for Karn's RLP, which delivers in sequence, and for out-of-sequence RLP, which
//! delivers each frame as it comes ([`Release`]).
//!
//! Source: Xylomenos and Polyzos, "Wireless link layer enhancements for TCP and UDP applications",
//! IPDPS 2003, after P. Karn, "The Qualcomm CDMA digital cellular system", USENIX Mobile and
//! Location-Independent Computing 1993, and the RLP of TIA IS-99 and IS-707. Timeout, horizon and
//! keep-alive interval are published nowhere: see `docs/links/rlp.md`.
//!
//! A frame at the sender, which has no window, no acknowledgment and no retransmission timer:
//!
//! ```text
//!          enqueue         sent               128 newer ones
//!  (none) --------> new ----------> history ----------------> (gone)
//!                                   ^     |
//!                              sent |     | NACK, fewer than n copies so far
//!                                   |     v
//!                                   queued (first come, first sent; ahead of new data)
//! ```
//!
//! A number at the receiver:
//!
//! ```text
//!            a later one, or a keep-alive                    arrives
//!  not seen -----------------------------> missing ------------------------> received
//!     |                                     |   ^  |                            ^
//!     |                          T_nack and |   |  | T_nack and n NACKs sent,   |
//!     |                       fewer than n  +---+  | or 128 numbers behind      |
//!     |                       NACKs: NACK          v                            |
//!     |                                        abandoned                        |
//!     +-------------------------------------------------------------------------+
//!                                     arrives
//! ```
//!
//! In sequence, a received frame waits until every number before it is received or abandoned. The
//! receiver counts its own NACKs, so that a lost NACK uses up an attempt; it needs no word from
//! the sender to give up. Out goes, in this order: NACKs, retransmissions, new data, keep-alives.
//!
//! Copies of several frames queue for the peer's transmitter. The deadline of a NACK is therefore
//! the later of T_nack after its start and one frame time after the deadline before it; as copies
//! are sent in the order of their NACKs, the one asked for has come by then or is lost.
//!
//! A keep-alive carries the number of the next new frame and shows the loss of the last ones. It
//! is due one interval after the start of the last new frame or keep-alive, the frames that say
//! where the numbers stand.
//!
//! *The horizon*: only the last 128 numbers are remembered, at both ends. A number that falls
//! behind is abandoned; on a saturated link that is n T_nack > 128 T_f.
//!
//! Timers count from the start of a transmission (the machine does not know the rate).
//!
//! Not modelled: reordering by the channel, NACKs for several frames, adaptive timers, the set-up
//! and reset of the numbers after 128 losses in a row (numbers inside are unbounded), splitting of
//! packets into radio frames.

mod machine;

use super::LinkError;
use super::protocol::{Air, MOST_REPAIRS, NUMBER_HEADER, ProtocolKeys, Site, refuse};
use super::timing::LinkTiming;
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::schema::{KeepaliveInterval, KeepaliveLimit, LinkTimeout};
use lasthop_base::units::{Bytes, Duration};
pub use machine::Rlp;

/// Numbers that either end remembers: half of those of the one-byte field.
pub const HORIZON: u64 = 128;

/// Most retransmissions that can be asked for.
pub const MOST_RETRANSMISSIONS: u32 = 100;

/// When a frame that has been received goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Release {
    /// When all before it are received or abandoned (Karn RLP).
    #[default]
    InSequence,
    /// At once (out-of-sequence RLP).
    Immediate,
}

table! {
    /// Parameters of a radio link protocol.
    pub struct RlpKeys {
        /// Copies of a frame at most; then it is given up.
        retransmissions: u32 = "3", Limits::range(0, MOST_RETRANSMISSIONS as u64);
        /// Time after which the receiver asks again for a frame or gives it up; "auto" derives it
        /// from the link.
        nack_timeout: LinkTimeout = "auto";
        /// Time from the last new frame or keep-alive to a keep-alive, which shows the receiver
        /// that the last frames are lost; "auto" is the round trip of the link.
        keepalive: KeepaliveInterval = "auto";
        /// Keep-alives after which an idle sender is silent.
        keepalives: KeepaliveLimit = "5 frames";
        /// Size of a negative acknowledgment or keep-alive.
        control: Bytes = "2 B", Limits::CONTROL;
    }
}

/// An endpoint with these keys that gives frames up as `release` says.
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

/// Keep-alives, which carry `identifier` on a link of services, must leave the link idle in
/// between.
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

/// The machine of one end.
pub type Machine<P> = Rlp<P>;

table! {
    /// Karn's radio link protocol: negative acknowledgments only, a frame is given up after a
    /// few copies, those after it wait and go up in sequence.
    pub struct KarnRlpKeys(RlpKeys) as "karn-rlp";
}

table! {
    /// Out-of-sequence radio link protocol: the same, but each frame goes up as it comes.
    pub struct OosRlpKeys(RlpKeys) as "oos-rlp";
}

/// The protocol of these keys, whose frames go up as `$release` says.
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

            /// The frame is reported missing, and retransmitted.
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
    /// When a frame goes up.
    pub release: Release,
    /// Copies of a frame at most, n: NACKs of the receiver for one number and retransmissions of
    /// the sender, 0 to [`MOST_RETRANSMISSIONS`].
    pub retransmissions: u32,
    /// Time from the start of a NACK's transmission until the copy has come or is lost, T_nack, in
    /// nanoseconds; above 0.
    pub nack_timeout: Duration,
    /// By how much a copy is later for each one that is asked for before it: the air time of a
    /// full frame of the peer, and what goes between two of them on a shared link, in nanoseconds.
    pub copy_time: Duration,
    /// Time from the start of the last new frame or keep-alive to a keep-alive, T_k, in
    /// nanoseconds, above 0; `None`: no keep-alives.
    pub keepalive: Option<Duration>,
    /// Keep-alives after which the sender is silent until there are new data, at least 1; `None`:
    /// it never is.
    pub keepalives: Option<u32>,
    /// Link header of a data frame, in bytes (default 1: the number).
    pub header: Bytes,
    /// Length of a NACK or keep-alive, in bytes (default 2: number and type).
    pub control: Bytes,
}

impl RlpParameters {
    /// Defaults for a link: 3 retransmissions, T_nack = [`LinkTiming::repair_time`], 5 keep-alives,
    /// one every RTT_L (if that leaves the link idle for half of the time).
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
