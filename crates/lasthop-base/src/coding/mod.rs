//! Erasure codes: what is computed from the units of a block, and from what arrives of them.
//!
//! A block of K data units has up to 256 - K parity units; any K distinct units give the data back.
//! Frames that carry bytes are really coded ([`ReedSolomon`]); descriptors are counted
//! ([`UnitSet`]), which is exact, because the code is maximum distance separable: a block is decodable
//! if and only if K distinct units of it have arrived.

pub mod gf256;
mod reed_solomon;
mod sums;
mod units;

pub use reed_solomon::{CodingError, ReedSolomon};
pub use units::{CodedUnits, UnitSet};
