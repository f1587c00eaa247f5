//! How a connection is opened.

/// Rules for SYNs that profiles have in addition to RFC 9293, section 3.10.7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakePolicy {
    /// Whether a listener ignores segments without SYN and ACK and SYNs with a FIN, and checks the
    /// acknowledgment number and the timestamp echo of the ACK for its SYN/ACK first.
    pub has_strict_listener: bool,
    /// Whether ECN is negotiated although the request for it was in an earlier SYN.
    pub keeps_ecn_request: bool,
    /// Whether a SYN is retransmitted immediately after an ACK with a wrong number.
    pub retries_after_wrong_ack: bool,
    /// Whether a retransmitted SYN is answered by retransmitting the SYN/ACK, and not by an ACK.
    pub repeats_syn: bool,
    /// Whether the SYN/ACK of a simultaneous open has all options, also those that the peer did not
    /// offer.
    pub offers_all_options: bool,
    /// Whether the window of a SYN is chosen before timestamps are negotiated (`tcp_connect_init`).
    pub ignores_options_in_window: bool,
    /// Whether the loss of a SYN is a loss of the connection: SYN/ACKs for retransmitted SYNs count,
    /// and the timeout is marked with CWR.
    pub counts_lost_syns: bool,
    /// Whether timestamps detect that SYNs were retransmitted spuriously
    /// (`tcp_try_undo_spurious_syn`).
    pub detects_spurious_syn: bool,
}

impl HandshakePolicy {
    /// RFC 9293.
    pub const RFC9293: Self = HandshakePolicy::all(false);
    /// Linux: `tcp_rcv_state_process`, `tcp_check_req`.
    pub const LINUX: Self = HandshakePolicy::all(true);

    const fn all(is_on: bool) -> Self {
        HandshakePolicy {
            has_strict_listener: is_on,
            keeps_ecn_request: is_on,
            retries_after_wrong_ack: is_on,
            repeats_syn: is_on,
            offers_all_options: is_on,
            ignores_options_in_window: is_on,
            counts_lost_syns: is_on,
            detects_spurious_syn: is_on,
        }
    }
}
