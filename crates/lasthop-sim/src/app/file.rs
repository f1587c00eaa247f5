//! One file over one TCP connection: all of it is written as the connection opens.
//!
//! The transfer is complete when the sender knows that all of it has arrived. The simulator drives it
//! (`sim/traffic.rs`).
//!
//! *Not modelled*: reading from a disk, several files over one connection.

use super::family::TransferKeys;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, metrics};
use lasthop_base::units::Bytes;

table! {
    /// One file, sent as fast as the transport can; needs tcp.
    pub struct FileKeys as "file" {
        /// Size of the file.
        size: Bytes, Limits::FILE;
    }
}

metrics! {
    /// The transfer of a file.
    pub struct FileMetrics {
        /// Whether the whole file arrived: 1 or 0.
        complete: "Complete", Fraction, Higher, Mean;
    }
}

impl TransferKeys for FileKeys {
    const METRICS: &'static [Metric] = FileMetrics::METRICS;
    const ENDS: bool = true;
}
