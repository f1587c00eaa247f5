//! Counters of segments and bytes.

/// Segments and bytes sent and received by a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Segments sent.
    pub segments_sent: u64,
    /// Segments sent with data.
    pub data_segments_sent: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Retransmitted payload bytes.
    pub bytes_sent_again: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments received with data.
    pub data_segments_received: u64,
}
