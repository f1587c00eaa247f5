//! Erasure codes over the units of a block.
//!
//! A block of K data units has up to 256 - K parity units. Any K distinct units suffice to decode
//! it, because the code is maximum distance separable. Frames that carry bytes are coded and
//! decoded ([`ReedSolomon`]). For descriptors, the distinct units received are counted
//! ([`UnitSet`]); this is exact.

pub mod gf256;
mod reed_solomon;
mod sums;
mod units;

pub use reed_solomon::{CodingError, ReedSolomon};
pub use units::{CodedUnits, UnitSet};
