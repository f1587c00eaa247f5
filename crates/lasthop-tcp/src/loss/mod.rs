//! Loss detection.
//!
//! | detector | source | file |
//! |---|---|---|
//! | duplicate ACKs | RFC 5681, 6582 | `duplicates.rs` |
//! | SACK scoreboard of ns-2's Sack1 | ns-2 | `sack_ns2.rs` |
//! | SACK scoreboard of RFC 6675 | RFC 6675, section 4 | `sack_rfc6675.rs` |
//! | RFC 6675 with delayed detection: TCP-DCR, NCR | Bhandarkar and others 2005, RFC 4653 | `delayed_detection.rs` |
//! | RACK, by time | RFC 8985, section 6 | `rack.rs` |
//! | tail loss probe | RFC 8985, section 7 | `tail_probe.rs` |
//!
//! A detector records the information in ACKs and determines which segments are lost. The module
//! [`recovery`](super::recovery) selects the segments to be sent.

pub(super) mod delayed_detection;
pub(super) mod duplicates;
pub(super) mod rack;
pub(super) mod sack_ns2;
pub(super) mod sack_rfc6675;
pub(super) mod tail_probe;
