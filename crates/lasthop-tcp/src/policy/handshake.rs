//! How a connection is opened.

rules! {
    /// Rules for SYNs that profiles have in addition to RFC 9293, section 3.10.7. Linux:
    /// `tcp_rcv_state_process`, `tcp_check_req`.
    HandshakePolicy {
        /// Whether a listener ignores segments without SYN and ACK and SYNs with a FIN, and checks
        /// the acknowledgment number and the timestamp echo of the ACK for its SYN/ACK first.
        has_strict_listener,
        /// Whether ECN is negotiated although the request for it was in an earlier SYN.
        keeps_ecn_request,
        /// Whether a SYN is retransmitted immediately after an ACK with a wrong number.
        retries_after_wrong_ack,
        /// Whether a retransmitted SYN is answered by retransmitting the SYN/ACK, and not by an
        /// ACK.
        repeats_syn,
        /// Whether the SYN/ACK of a simultaneous open has all options, also those that the peer did
        /// not offer.
        offers_all_options,
        /// Whether the window of a SYN is chosen before timestamps are negotiated
        /// (`tcp_connect_init`).
        ignores_options_in_window,
        /// Whether the loss of a SYN is a loss of the connection: SYN/ACKs for retransmitted SYNs
        /// count, and the timeout is marked with CWR.
        counts_lost_syns,
        /// Whether timestamps detect that SYNs were retransmitted spuriously
        /// (`tcp_try_undo_spurious_syn`).
        detects_spurious_syn,
    }
}
