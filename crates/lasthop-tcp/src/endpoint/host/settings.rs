//! Options and timeouts of a host, and the result of a negotiation.

use super::limits::Limits;
use crate::config::Config;
use crate::receiver::ReceiveMemory;
use lasthop_base::units::Duration;
use std::sync::Arc;

/// Options and timeouts of a host: parameters of a [`Socket`](super::Socket) in addition to those
/// of its [`Connection`](crate::Connection).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum segment size to announce, bytes (RFC 9293, section 3.7.1).
    pub mss: u32,
    /// Maximum size of a packet that the host sends, bytes, including headers.
    pub mtu: u32,
    /// Window scale to offer (RFC 7323, section 2), if any.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgments are offered (RFC 2018).
    pub sack: bool,
    /// Whether timestamps are offered (RFC 7323, section 3).
    pub timestamps: bool,
    /// Use of explicit congestion notification (RFC 3168, section 6.1.1).
    pub ecn: EcnOffer,
    /// Initial sequence number (ISS).
    pub initial_sequence: u32,
    /// Size of the receive buffer, bytes: the maximum window.
    pub receive_buffer: u32,
    /// Memory that limits the window after the SYN instead of `receive_buffer`, as in Linux.
    pub receive_memory: Option<ReceiveMemory>,
    /// Memory for data written and not acknowledged, bytes, and whether it is fixed.
    pub send_buffer: (u32, bool),
    /// Limit of bytes written and not sent (Linux: `TCP_NOTSENT_LOWAT`), if any.
    pub unsent_limit: Option<u32>,
    /// Maximum number of retransmissions of a SYN, and of a SYN/ACK, before the connection is
    /// aborted.
    pub syn_retries: [u32; 2],
    /// Maximum number of retransmissions of a segment, or of probes, before the connection is
    /// aborted (R2 of RFC 9293, section 3.8.3). Linux converts the number of retransmissions to a
    /// time.
    pub retries: u32,
    /// Like [`Self::retries`], for a socket that the application has closed (Linux:
    /// `net.ipv4.tcp_orphan_retries`).
    pub orphan_retries: u32,
    /// Upper bound of the RTO.
    pub longest_rto: Duration,
    /// Duration of TIME-WAIT (2 MSL).
    pub time_wait: Duration,
    /// Time for which a closed socket stays in FIN-WAIT-2.
    pub fin_wait: Duration,
    /// Delay of ACKs if requested by the application
    /// ([`Socket::set_quick_acks`](super::Socket::set_quick_acks)).
    pub ack_delay: Duration,
    /// Maximum time for which data may remain unacknowledged (RFC 5482), if limited.
    pub user_timeout: Option<Duration>,
    /// Probing of an idle peer (RFC 9293, section 3.8.4), if any.
    pub keep_alive: Option<KeepAlive>,
    /// Number of SYN/ACKs not answered by data before a connection is accepted without data (Linux:
    /// `TCP_DEFER_ACCEPT`); 0: it is accepted immediately.
    pub deferred_accept: u32,
    /// Whether the ACK for the peer's SYN/ACK is delayed, to be piggybacked on data.
    pub delays_first_ack: bool,
    /// Path MTU probing, with small segments at first (RFC 4821), if any.
    pub mtu_probing: Option<MtuProbing>,
    /// Limits set by the application.
    pub limits: Limits,
    /// Phase of the host's clock and of its timers ([`Config::timer_tick`]).
    pub boot_offset: Duration,
}

impl Settings {
    /// Result of a negotiation with a peer that offers the same options.
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

/// Parameters of path MTU probing (RFC 4821; Linux: `net.ipv4.tcp_mtu_probing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// Whether probing begins at the start of the connection, or only once a black hole is
    /// suspected.
    pub from_start: bool,
    /// Payload bytes of a segment that is assumed to pass (Linux: `net.ipv4.tcp_base_mss`).
    pub base: u32,
    /// Minimum payload bytes to which segments are reduced for a suspected black hole (Linux:
    /// `net.ipv4.tcp_mtu_probe_floor`).
    pub floor: u32,
    /// Number of retransmissions after which a black hole is suspected, converted to a time like
    /// [`Settings::retries`] (R1 of RFC 9293, section 3.8.3; Linux: `net.ipv4.tcp_retries1`).
    pub retries: u32,
    /// Distance of the bounds at which the search ends, bytes (Linux:
    /// `net.ipv4.tcp_probe_threshold`).
    pub threshold: u32,
}

/// Use of explicit congestion notification by a host (Linux: `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnOffer {
    /// Neither requests nor grants ECN.
    Never,
    /// Grants ECN to a peer that requests it.
    Grants,
    /// Also requests ECN, in the first SYN but not in its retransmissions (RFC 3168, section
    /// 6.1.1.1).
    Asks,
}

/// Times at which an idle peer is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Duration,
    /// Interval between probes.
    pub interval: Duration,
    /// Number of unanswered probes before the connection is aborted.
    pub probes: u32,
}

/// Parameters negotiated by both SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Payload bytes of a full segment: the smaller MSS without the options in every segment (RFC
    /// 6691).
    pub segment: u32,
    /// Whether both endpoints permit selective acknowledgments.
    pub sack: bool,
    /// Whether both endpoints offer timestamps.
    pub timestamps: bool,
    /// Whether both endpoints use explicit congestion notification.
    pub ecn: bool,
}

/// Function that determines the parameters of a connection from the negotiated ones.
pub type Configure = Arc<dyn Fn(Negotiated) -> Config + Send + Sync>;
