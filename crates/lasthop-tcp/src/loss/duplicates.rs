//! Duplicate ACKs: three in a row mean a loss (RFC 5681, section 3.2).

/// What a duplicate means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// Too few yet: the segments may have changed places.
    Early,
    /// The one that means a loss.
    Threshold,
    /// One more.
    Further,
}

/// Counts duplicates since the latest ACK for new data.
#[derive(Clone, Copy, Debug)]
pub struct DuplicateAcks {
    count: u32,
    threshold: u32,
}

impl DuplicateAcks {
    /// None yet; the `threshold`-th means a loss.
    pub fn new(threshold: u32) -> Self {
        DuplicateAcks { count: 0, threshold }
    }

    /// A duplicate arrived.
    pub fn add(&mut self) -> Duplicate {
        self.count += 1;
        match self.count.cmp(&self.threshold) {
            std::cmp::Ordering::Less => Duplicate::Early,
            std::cmp::Ordering::Equal => Duplicate::Threshold,
            std::cmp::Ordering::Greater => Duplicate::Further,
        }
    }

    /// An ACK for new data arrived, or the timer fired.
    #[inline]
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Duplicates so far.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Have there been as many as mean a loss?
    #[inline]
    pub fn mean_loss(&self) -> bool {
        self.count >= self.threshold
    }
}
