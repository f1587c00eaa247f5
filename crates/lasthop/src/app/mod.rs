//! Applications: what asks a transport to send, and when.

mod mah;
mod media;
mod on_off;
mod web;

pub use mah::Empirical;
pub use media::{GRACE, HORIZON, LONGEST, MediaReport, MediaStatistics, OUTAGE};
pub use on_off::{OnOff, OnOffParameters};
pub use web::{Web, WebCounters, WebParameters};
