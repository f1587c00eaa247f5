//! Abort of a connection whose peer does not answer.

/// Limit of unanswered retransmissions and probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AbortPolicy {
    /// A number of retransmissions or probes (R2 of RFC 9293, section 3.8.3). A timer limits how
    /// long data may be unacknowledged (RFC 5482), and the peer receives a reset.
    ByCount,
    /// A time since the first retransmission or probe, from which the user timeout is measured too.
    /// The connection ends without a reset, with the error that a router has reported, if any
    /// (Linux: `tcp_write_timeout`).
    ByTime,
}

impl AbortPolicy {
    /// Returns `true` for [`Self::ByTime`].
    #[inline]
    pub fn is_by_time(self) -> bool {
        self == AbortPolicy::ByTime
    }
}
