//! How RACK-TLP detects and repairs losses.

rules! {
    /// Rules of Linux in addition to RFC 8985 and RFC 9937 (`tcp_input.c`, `tcp_output.c`,
    /// `tcp_timer.c`).
    RackPolicy {
        /// Whether SACK blocks that start at or below the acknowledgment number are ignored.
        ignores_low_blocks,
        /// Whether an ACK that finds nothing outstanding may answer a probe.
        answers_stray_probes,
        /// Whether an ACK that finds nothing outstanding, with a DSACK, has no effect on congestion
        /// control except to undo a reduction (`tcp_ack`).
        only_undoes_after_the_last_ack,
        /// Whether the RTO of the first data is increased if a SYN was lost (RFC 6298, rule 5.7) and
        /// no RTT was measured.
        starts_slowly_after_lost_syn,
        /// Whether permitted segments that are deferred are sent by a timer that expires first.
        ends_deferral_by_timers,
        /// Whether the RTO uses the maximum deviation of an RTT (`tcp_rtt_estimator`).
        measures_maximum_deviation,
        /// Whether data that F-RTO sends is exempt from Nagle's algorithm, and limited to the data that
        /// is available when the ACK arrives.
        sends_held_data_by_frto,
        /// Whether the distance by which a spuriously retransmitted segment was reordered raises the
        /// threshold.
        learns_from_spurious,
        /// Whether PRR starts from the window, and not from the segments in flight.
        reduces_from_window,
        /// Whether a mark in an ACK that delivers nothing leaves the window unchanged.
        reduces_by_deliveries,
        /// Whether the reordering timer has a slack (`TCP_TIMEOUT_MIN`).
        has_timer_slack,
        /// Whether there are at most as many outstanding retransmissions as lost segments
        /// (`tcp_xmit_retransmit_queue`).
        bounds_retransmissions,
        /// Whether a probe that retransmits a segment again does not count as its retransmission.
        excuses_repeated_probes,
        /// Whether a deadline of the retransmission timer in the past does not limit a probe's delay.
        ignores_past_deadline,
        /// Whether retransmissions are limited to the window of the peer, except of the oldest
        /// segment (`__tcp_retransmit_skb`).
        respects_shrunk_window,
        /// Whether a timeout at a closed window is a probe that is not counted.
        excuses_closed_window,
        /// Whether an undone reduction is still reported by CWR if it did not lower the threshold
        /// (`tcp_undo_cwnd_reduction`), as with BBR.
        withdraws_cwr_with_threshold,
        /// Whether it is decided again which segment is sent when pacing permits the next one
        /// (`tcp_tsq_write`): a retransmission although F-RTO sends new data first, or deferred
        /// segments.
        decides_after_pacing,
        /// Whether a timeout replaces the window also of algorithms that keep it in recovery.
        always_restarts_window,
    }
}
