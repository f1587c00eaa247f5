//! How written data is sent.

/// Transmission of data, beyond the division of send calls into segments
/// ([`WritePolicy`](crate::config::WritePolicy)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendPolicy {
    /// RFC 9293: a segment has at most the MSS without options, and an idle connection restarts
    /// from the initial window (RFC 5681, section 4.1).
    Rfc9293,
    /// Linux: segments reserve room for SACK blocks and have at most half of the peer's window,
    /// send calls push full pieces, and cwnd decays over an idle period (RFC 2861).
    Linux,
}

impl SendPolicy {
    /// Returns `true` for [`Self::Linux`].
    #[inline]
    pub fn is_linux(self) -> bool {
        self == SendPolicy::Linux
    }
}
