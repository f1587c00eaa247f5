//! Which segments an endpoint accepts.

rules! {
    /// Checks that profiles perform in addition to RFC 9293, section 3.10.7, and RFC 5961. Linux:
    /// `tcp_validate_incoming`, `tcp_data_queue`, `tcp_timewait_state_process`.
    AdmissionPolicy {
        /// Whether a SYN/ACK for an open connection is answered by an ACK, and its other
        /// information is ignored (RFC 5961, section 4.2).
        challenges_syn_ack,
        /// Whether of a segment below the latest acknowledgment only the data is processed.
        ignores_old_segments,
        /// Whether segments without ACK, SYN and RST are dropped before their numbers are checked.
        requires_ack,
        /// Whether data that ends above the window is accepted or dropped as a whole, and not cut.
        takes_whole_segments,
        /// Whether an ACK with an old timestamp and an old sequence number is dropped without an
        /// answer.
        ignores_old_acks,
        /// Whether duplicates in unacceptable segments are reported (RFC 2883).
        reports_unacceptable,
        /// Whether MAX.SND.WND of RFC 5961, section 5.2, is at most the number of acknowledged
        /// bytes.
        bounds_old_acks,
        /// Whether a reset is accepted at the end of the highest data received.
        accepts_reset_above,
        /// Whether a FIN above missing data is pending until these arrive, and later segments may
        /// replace or remove it.
        revises_fin,
        /// Whether data above the peer's FIN is discarded.
        discards_above_fin,
        /// Whether the ACK and the options of a segment are processed if its data is refused.
        processes_refused,
        /// Whether a connection that only waits for a FIN or for the end of TIME-WAIT is reduced to
        /// its sequence numbers.
        reduces_closed,
    }
}
