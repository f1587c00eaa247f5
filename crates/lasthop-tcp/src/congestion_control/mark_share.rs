//! Moving average of the fraction of marked bytes: alpha of RFC 8257, section 3.3.
//!
//! ```text
//!   at the end of a window   M = bytes that were marked / bytes that were delivered
//!                            alpha = (1 - g) alpha + g M
//! ```

use super::sample::Delivery;

/// g of RFC 8257, section 4.2.
pub const GAIN: f64 = 1.0 / 16.0;

/// Alpha, and the byte counts of the current window.
#[derive(Clone, Copy, Debug)]
pub struct MarkShare {
    /// Alpha, 0 to 1; initially 1 (section 3.3).
    pub alpha: f64,
    gain: f64,
    delivered: u64,
    marked: u64,
}

impl MarkShare {
    /// Creates an average with the given gain.
    pub fn new(gain: f64) -> Self {
        MarkShare { alpha: 1.0, gain, delivered: 0, marked: 0 }
    }

    /// Counts the bytes of an ACK.
    pub fn add(&mut self, delivery: &Delivery) {
        self.delivered += delivery.delivered;
        self.marked += if delivery.is_marked { delivery.delivered } else { 0 };
    }

    /// Ends the window and updates alpha.
    pub fn end(&mut self) {
        if self.delivered > 0 {
            let share = self.marked as f64 / self.delivered as f64;
            self.alpha += self.gain * (share - self.alpha);
        }
        (self.delivered, self.marked) = (0, 0);
    }
}
