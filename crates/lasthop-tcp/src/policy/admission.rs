//! Which segments an endpoint accepts.

/// Checks that profiles perform in addition to RFC 9293, section 3.10.7, and RFC 5961.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionPolicy {
    /// Whether a SYN/ACK for an open connection is answered by an ACK, and its other information is
    /// ignored (RFC 5961, section 4.2).
    pub challenges_syn_ack: bool,
    /// Whether of a segment below the latest acknowledgment only the data is processed.
    pub ignores_old_segments: bool,
    /// Whether segments without ACK, SYN and RST are dropped before their numbers are checked.
    pub requires_ack: bool,
    /// Whether data that ends above the window is accepted or dropped as a whole, and not cut.
    pub takes_whole_segments: bool,
    /// Whether an ACK with an old timestamp and an old sequence number is dropped without an answer.
    pub ignores_old_acks: bool,
    /// Whether duplicates in unacceptable segments are reported (RFC 2883).
    pub reports_unacceptable: bool,
    /// Whether MAX.SND.WND of RFC 5961, section 5.2, is at most the number of acknowledged bytes.
    pub bounds_old_acks: bool,
    /// Whether a reset is accepted at the end of the highest data received.
    pub accepts_reset_above: bool,
    /// Whether a FIN above missing data is pending until these arrive, and later segments may
    /// replace or remove it.
    pub revises_fin: bool,
    /// Whether data above the peer's FIN is discarded.
    pub discards_above_fin: bool,
    /// Whether the ACK and the options of a segment are processed if its data is refused.
    pub processes_refused: bool,
    /// Whether a connection that only waits for a FIN or for the end of TIME-WAIT is reduced to its
    /// sequence numbers.
    pub reduces_closed: bool,
}

impl AdmissionPolicy {
    /// RFC 9293.
    pub const RFC9293: Self = AdmissionPolicy::all(false);
    /// Linux: `tcp_validate_incoming`, `tcp_data_queue`, `tcp_timewait_state_process`.
    pub const LINUX: Self = AdmissionPolicy::all(true);

    const fn all(is_on: bool) -> Self {
        AdmissionPolicy {
            challenges_syn_ack: is_on,
            ignores_old_segments: is_on,
            requires_ack: is_on,
            takes_whole_segments: is_on,
            ignores_old_acks: is_on,
            reports_unacceptable: is_on,
            bounds_old_acks: is_on,
            accepts_reset_above: is_on,
            revises_fin: is_on,
            discards_above_fin: is_on,
            processes_refused: is_on,
            reduces_closed: is_on,
        }
    }
}
