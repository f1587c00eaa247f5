//! How round-trip times become timeouts.

/// Arithmetic of the RTO, and of the intervals that it determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RttPolicy {
    /// ns-2: whole ticks of the clock; the minimum applies before backoff.
    Ns2,
    /// RFC 6298, in nanoseconds.
    Rfc6298,
    /// Linux: the maximum deviation of an RTT, at least the minimum RTO; probes of a closed window
    /// and reports of routers share the backoff (`tcp_rtt_estimator`).
    Linux,
}
