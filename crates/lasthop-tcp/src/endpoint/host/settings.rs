//! What a host offers and how long it waits, and what two of them agree on.

use super::limits::Limits;
use crate::config::Config;
use crate::receiver::ReceiveMemory;
use lasthop_base::units::Duration;
use std::sync::Arc;

/// What a host offers and how long it waits: parameters of a [`Socket`](super::Socket) beside those of its
/// [`Connection`](crate::Connection).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum segment size to announce, bytes (RFC 9293, section 3.7.1).
    pub mss: u32,
    /// Bytes of the largest packet that leaves, headers included, as far as the host knows.
    pub mtu: u32,
    /// Window scale to offer (RFC 7323, section 2), if any.
    pub window_scale: Option<u8>,
    /// Are selective acknowledgments offered (RFC 2018)?
    pub sack: bool,
    /// Are timestamps offered (RFC 7323, section 3)?
    pub timestamps: bool,
    /// Is explicit congestion notification offered (RFC 3168, section 6.1.1)?
    pub ecn: EcnOffer,
    /// Initial sequence number (ISS).
    pub initial_sequence: u32,
    /// Bytes that arrive and are not read: the largest window.
    pub receive_buffer: u32,
    /// The memory that bounds the window after the SYN in its place, as in Linux.
    pub receive_memory: Option<ReceiveMemory>,
    /// Memory for what is written and not acknowledged, bytes; does it stay as it is?
    pub send_buffer: (u32, bool),
    /// Bytes written and not sent of which there are always less (Linux: `TCP_NOTSENT_LOWAT`), if limited.
    pub unsent_limit: Option<u32>,
    /// Retransmissions of a SYN, and of a SYN with ACK, before the connection is given up.
    pub syn_retries: [u32; 2],
    /// Retransmissions of a segment, or probes, before the connection is given up (R2 of RFC 9293,
    /// section 3.8.3). Linux makes of those of a segment a time.
    pub retries: u32,
    /// The same of a socket that the application has closed (Linux: `net.ipv4.tcp_orphan_retries`).
    pub orphan_retries: u32,
    /// Upper bound of the RTO.
    pub longest_rto: Duration,
    /// How long TIME-WAIT lasts (2 MSL).
    pub time_wait: Duration,
    /// How long a closed socket stays in FIN-WAIT-2.
    pub fin_wait: Duration,
    /// How long an ACK is delayed where the application asks for that
    /// ([`Socket::set_quick_acks`](super::Socket::set_quick_acks)).
    pub ack_delay: Duration,
    /// How long data may stay unacknowledged (RFC 5482), if limited.
    pub user_timeout: Option<Duration>,
    /// Probing of an idle peer (RFC 9293, section 3.8.4), if any.
    pub keep_alive: Option<KeepAlive>,
    /// SYN and ACK that may go unanswered by data before a connection is handed over without (Linux: `TCP_DEFER_ACCEPT`);
    /// 0 hands it over at once.
    pub deferred_accept: u32,
    /// The ACK of the peer's SYN and ACK waits for data to ride on, or a delayed ACK's time.
    pub delays_first_ack: bool,
    /// Is the path probed for larger segments, which begin small (RFC 4821)?
    pub mtu_probing: Option<MtuProbing>,
    /// What the application bounds by itself.
    pub limits: Limits,
    /// Phase of the host's clock and of its timers ([`Config::timer_tick`]).
    pub boot_offset: Duration,
}

impl Settings {
    /// What is agreed on with a peer that offers the same.
    pub(super) fn offered(&self) -> Negotiated {
        let options = if self.timestamps { super::TIMESTAMPS_BYTES } else { 0 };
        Negotiated {
            segment: self.mss.saturating_sub(options).max(1),
            sack: self.sack,
            timestamps: self.timestamps,
            ecn: self.ecn != EcnOffer::Never,
        }
    }
}

/// How a path is probed for the largest packet that it takes (RFC 4821; Linux: `net.ipv4.tcp_mtu_probing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// Is it probed from the start, or only once nothing seems to pass?
    pub from_start: bool,
    /// Payload bytes of a segment that passes for certain (Linux: `net.ipv4.tcp_base_mss`).
    pub base: u32,
    /// Payload bytes below which no black hole is suspected (Linux: `net.ipv4.tcp_mtu_probe_floor`).
    pub floor: u32,
    /// Retransmissions after which a black hole is suspected, taken as a time as [`Settings::retries`] is (R1 of RFC 9293,
    /// section 3.8.3; Linux: `net.ipv4.tcp_retries1`).
    pub retries: u32,
    /// The search ends where its bounds are closer, bytes (Linux: `net.ipv4.tcp_probe_threshold`).
    pub threshold: u32,
}

/// What a host does about explicit congestion notification (Linux: `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnOffer {
    /// Neither asks for it nor grants it.
    Never,
    /// Grants it to a peer that asks.
    Grants,
    /// Asks as well, in the first SYN; the ones after do without (RFC 3168, section 6.1.1.1).
    Asks,
}

/// When an idle peer is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub probes: u32,
}

/// What both SYN agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Payload bytes of a full segment: the smaller MSS, less the options that every segment carries
    /// (RFC 6691).
    pub segment: u32,
    /// Both permit selective acknowledgments.
    pub sack: bool,
    /// Both offer timestamps.
    pub timestamps: bool,
    /// Both use explicit congestion notification.
    pub ecn: bool,
}

/// From what was negotiated to the parameters of the connection.
pub type Configure = Arc<dyn Fn(Negotiated) -> Config + Send + Sync>;
