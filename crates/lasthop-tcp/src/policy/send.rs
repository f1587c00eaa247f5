//! How written data is sent.

rules! {
    /// Rules of Linux for the transmission of data, beyond the division of send calls into segments
    /// ([`WritePolicy`](crate::config::WritePolicy)) and RFC 9293.
    SendPolicy {
        /// Whether segments are sent as GSO segments, with room for SACK blocks.
        sends_pieces,
        /// Whether a segment has at most half of the peer's maximum window, and not only the MSS.
        halves_window,
        /// Whether a full piece of a send call is sent before more data is written
        /// (`tcp_push_one`).
        pushes_full_pieces,
        /// Whether a FIN counts as an unacknowledged byte.
        counts_fin,
        /// Whether an ACK updates the window of the same segment only to a larger value or 0
        /// (`tcp_may_update_window`).
        updates_window_upwards,
        /// Whether cwnd decays over an idle period (RFC 2861), instead of being restarted (RFC 5681,
        /// section 4.1).
        decays_when_idle,
        /// Whether segments without data have numbers within a window that the peer has shrunk.
        keeps_numbers_in_window,
        /// Whether data does not count as a probe of a window.
        excuses_data_probes,
        /// Whether only data stops the persist timer.
        persists_until_data,
    }
}
