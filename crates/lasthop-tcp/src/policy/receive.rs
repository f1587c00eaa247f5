//! How accepted segments are processed.

/// Processing of segments, the receive buffer and the advertised window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivePolicy {
    /// RFC 9293, section 3.10.7.4: window in whole units, every SACK block reported.
    Rfc9293,
    /// Linux: header prediction, receive memory, windows rounded up, the latest SACK blocks only,
    /// and delays of ACKs that adapt to the peer (`tcp_rcv_established`).
    Linux,
}

impl ReceivePolicy {
    /// Returns `true` for [`Self::Linux`].
    #[inline]
    pub fn is_linux(self) -> bool {
        self == ReceivePolicy::Linux
    }
}
