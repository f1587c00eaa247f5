//! Loss probability of a frame with independent bit errors, cached by frame length.

use lasthop_base::units::Probability;

/// Number of cache entries, a power of two. A link carries few different frame lengths at a time.
const ENTRIES: usize = 16;

/// Computes 1 - (1 - BER)^bits for a bit error rate (or 1 - e^(-bits / M)). The latest results are
/// cached by frame length, because an exponential costs more than the rest of the processing of a
/// frame.
#[derive(Clone, Debug)]
pub struct FrameLoss {
    /// ln(1 - BER) or its equivalent, at most 0.
    log_survival: f64,
    /// (bits, loss probability), direct-mapped.
    table: Box<[(u64, f64); ENTRIES]>,
}

impl FrameLoss {
    /// Creates the function for a bit error rate.
    pub fn new(bit_error_rate: Probability) -> Self {
        Self::with_log_survival(libm::log1p(-bit_error_rate.get()))
    }

    /// Creates the function for the logarithm of the probability that a bit survives, at most 0.
    pub fn with_log_survival(log_survival: f64) -> Self {
        // A frame of 0 bits is never lost: (0, 0.0) is a valid entry.
        FrameLoss { log_survival, table: Box::new([(0, 0.0); ENTRIES]) }
    }

    /// Logarithm of the probability that `bits` bits, possibly a fraction, survive.
    #[inline]
    pub fn log_survival(&self, bits: f64) -> f64 {
        // At BER 1 the logarithm is minus infinity, and its product with 0 is NaN.
        if bits > 0.0 { bits * self.log_survival } else { 0.0 }
    }

    /// Probability that a frame of `bits` bits is lost.
    #[inline]
    pub fn of(&mut self, bits: u64) -> f64 {
        // Lengths are whole bytes; the multiplier separates lengths that differ by a power of two.
        let index = ((bits >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % ENTRIES;
        let (known, loss) = self.table[index];
        if known == bits { loss } else { self.compute(bits, index) }
    }

    #[cold]
    fn compute(&mut self, bits: u64, index: usize) -> f64 {
        let loss = loss(self.log_survival(bits as f64));
        self.table[index] = (bits, loss);
        loss
    }
}

/// Loss probability from the logarithm of the survival probability, exact for small losses.
#[inline]
pub fn loss(log_survival: f64) -> f64 {
    -libm::expm1(log_survival)
}
