//! One file over one stream, written at the start of the flow.
//!
//! ```text
//!   start --> Write --> all data is acknowledged, and has arrived --> Close
//!                  \--> the connection is aborted: incomplete
//! ```
//!
//! *Not modelled*: reading from a disk, several files over one stream.

use super::family::{SourceSite, StreamKeys};
use super::{Action, StreamApplication, Write};
use crate::transport::End;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::{Bytes, Instant};

table! {
    /// One file, sent as fast as the transport can; needs tcp or quic.
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

/// The state machine.
pub type Machine = FileTransfer;

impl StreamKeys for FileKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = FileMetrics::METRICS;
    const ENDS: bool = true;

    fn build(&self, _site: &SourceSite<'_>) -> Machine {
        FileTransfer { size: self.size.get(), finished: None, has_failed: false, action: None }
    }
}

/// A file transfer.
#[derive(Clone, Debug)]
pub struct FileTransfer {
    size: u64,
    /// Time of completion or abort.
    finished: Option<Instant>,
    has_failed: bool,
    action: Option<Action>,
}

impl StreamApplication for FileTransfer {
    fn is_transfer(&self) -> bool {
        true
    }

    fn clock(&self, _stream: u32, _writer: End) -> String {
        "boot time".to_owned()
    }

    fn start(&mut self, _now: Instant) {
        let (stream, end, bytes) = (0, End::Opener, self.size);
        self.action =
            Some(Action::Write(Write { stream, end, bytes, opens: false, closes: false }));
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    fn on_delivered(&mut self, now: Instant, stream: u32, end: End) {
        self.finished = Some(now);
        self.action = Some(Action::Close { stream, end });
    }

    fn on_failure(&mut self, now: Instant, _stream: u32) {
        if self.finished.is_none() {
            (self.finished, self.has_failed) = (Some(now), true);
        }
    }

    fn is_complete(&self) -> bool {
        self.finished.is_some()
    }

    fn size(&self) -> u64 {
        self.size
    }

    /// Based on the sender, because the receiver may be computed ahead of time.
    fn delivered_bytes(&self, acknowledged: u64) -> u64 {
        acknowledged.min(self.size)
    }

    fn measured_until(&self, now: Instant) -> Option<Instant> {
        Some(self.finished.unwrap_or(now))
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let is_complete = self.finished.is_some() && !self.has_failed;
        FileMetrics { complete: f64::from(u8::from(is_complete)) }.report(report);
    }
}
