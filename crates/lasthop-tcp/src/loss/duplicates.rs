//! Duplicate ACKs: three consecutive ones indicate a loss (RFC 5681, section 3.2).

/// Interpretation of a duplicate ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// Below the threshold: segments may have been reordered.
    Early,
    /// The duplicate that reaches the threshold and indicates a loss.
    Threshold,
    /// A further duplicate.
    Further,
}

/// Number of duplicates since the latest ACK for new data.
#[derive(Clone, Copy, Debug)]
pub struct DuplicateAcks {
    count: u32,
    threshold: u32,
}

impl DuplicateAcks {
    /// Creates a counter; the `threshold`-th duplicate indicates a loss.
    pub fn new(threshold: u32) -> Self {
        DuplicateAcks { count: 0, threshold }
    }

    /// Counts a duplicate.
    pub fn add(&mut self) -> Duplicate {
        self.count += 1;
        match self.count.cmp(&self.threshold) {
            std::cmp::Ordering::Less => Duplicate::Early,
            std::cmp::Ordering::Equal => Duplicate::Threshold,
            std::cmp::Ordering::Greater => Duplicate::Further,
        }
    }

    /// Resets the counter after an ACK for new data or a timeout.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Returns the number of duplicates.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns `true` if the threshold has been reached.
    #[inline]
    pub fn mean_loss(&self) -> bool {
        self.count >= self.threshold
    }
}
