//! Counts of values in classes of constant relative width.
//!
//! The classes are those of an HDR histogram (G. Tene, <http://hdrhistogram.org>) with a resolution of 512 ns:
//! equal widths of 512 ns up to the value from which the requested digits need no finer classes, then 2^`bits`
//! classes per doubling. The memory grows with the number of classes that have values: the counters are in pages
//! of neighbouring classes, which are allocated when they get their first value.

/// Binary logarithm of the width of the narrowest class.
const FINEST: u32 = 9;
/// Binary logarithm of the number of classes per page.
const PAGE: u32 = 4;

/// Number of values by class.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Binary logarithm of the number of classes per doubling.
    bits: u32,
    /// Number of values.
    total: u64,
    /// For each page of classes, one more than the index of its counters; 0: no values yet.
    pages: Vec<u16>,
    counters: Vec<[u32; 1 << PAGE]>,
}

impl Classes {
    /// Creates classes that separate values with `digits` significant digits, from 1 to 4.
    pub fn with_digits(digits: u8) -> Self {
        assert!((1..=4).contains(&digits), "1 to 4 digits");
        let bits = (2 * 10_u32.pow(digits.into())).next_power_of_two().ilog2() - 1;
        Classes { bits, total: 0, pages: Vec::new(), counters: Vec::new() }
    }

    /// Number of values.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds a value, less than 2^41.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count(self.class_of(value), 1);
    }

    /// Adds `count` values of a class.
    #[inline]
    fn count(&mut self, class: usize, count: u32) {
        let page = class >> PAGE;
        let counters = match self.pages.get(page) {
            Some(&next) if next != 0 => usize::from(next - 1),
            _ => self.allocate(page),
        };
        let counter = &mut self.counters[counters][class % (1 << PAGE)];
        *counter = counter.saturating_add(count);
        self.total += u64::from(count);
    }

    /// Allocates the counters of a page; returns their index.
    #[cold]
    fn allocate(&mut self, page: usize) -> usize {
        if page >= self.pages.len() {
            self.pages.resize(page + 1, 0);
        }
        self.counters.push([0; 1 << PAGE]);
        let Ok(next) = u16::try_from(self.counters.len()) else {
            unreachable!("values below 2^41 have fewer than 2^16 pages")
        };
        self.pages[page] = next;
        self.counters.len() - 1
    }

    /// Adds the values of `other`, whose number of digits may differ.
    pub fn add(&mut self, other: &Classes) {
        for (class, count) in other.counts() {
            self.count(self.class_of(other.bounds(class)[0]), count);
        }
    }

    /// Removes the values of `other`, a copy made at an earlier time.
    pub fn subtract(&mut self, other: &Classes) {
        for (class, count) in other.counts() {
            let counters = usize::from(self.pages[class >> PAGE] - 1);
            self.counters[counters][class % (1 << PAGE)] -= count;
            self.total -= u64::from(count);
        }
    }

    /// Returns the maximum value of the class that the fraction `quantile` of the values does not exceed; `None`
    /// without values.
    pub fn at(&self, quantile: f64) -> Option<u64> {
        let wanted = ((quantile * self.total as f64).ceil() as u64).max(1);
        let mut sum = 0;
        let mut classes = self.counts().skip_while(|&(_, count)| {
            sum += u64::from(count);
            sum < wanted
        });
        classes.next().map(|(class, _)| self.bounds(class)[1])
    }

    /// Returns the classes with values in ascending order, and the number of their values.
    fn counts(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let pages = self.pages.iter().enumerate().filter(|&(_, &next)| next != 0);
        let all = pages.flat_map(|(page, &next)| {
            let counters = self.counters[usize::from(next - 1)];
            counters.into_iter().enumerate().map(move |(at, count)| ((page << PAGE) + at, count))
        });
        all.filter(|&(_, count)| count > 0)
    }

    #[inline]
    fn class_of(&self, value: u64) -> usize {
        let steps = value >> FINEST;
        let doublings = (steps | (1 << self.bits)).ilog2() - self.bits;
        ((doublings << self.bits) as usize) + (steps >> doublings) as usize
    }

    /// Returns the minimum and the maximum value of a class.
    fn bounds(&self, class: usize) -> [u64; 2] {
        let doublings = ((class >> self.bits) as u32).saturating_sub(1);
        let lowest = ((class as u64) - u64::from(doublings << self.bits)) << (doublings + FINEST);
        [lowest, lowest + (1 << (doublings + FINEST)) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    fn histogram(digits: u8, values: &[u64]) -> Histogram<u32> {
        let mut histogram = Histogram::new_with_bounds(1_000, 1 << 41, digits).expect("valid");
        values.iter().for_each(|&value| histogram.record(value).expect("in range"));
        histogram
    }

    fn classes(digits: u8, values: &[u64]) -> Classes {
        let mut classes = Classes::with_digits(digits);
        values.iter().for_each(|&value| classes.record(value));
        classes
    }

    fn equal(found: &Classes, expected: &Histogram<u32>) -> Result<(), TestCaseError> {
        prop_assert_eq!(found.total(), expected.len());
        let some = !expected.is_empty();
        for quantile in [0.001, 0.05, 0.5, 0.95, 0.99, 0.999, 1.0] {
            let value = some.then(|| expected.value_at_quantile(quantile));
            prop_assert_eq!(found.at(quantile), value, "quantile {}", quantile);
        }
        prop_assert_eq!(found.at(1.0), some.then(|| expected.max()));
        Ok(())
    }

    /// Values of each order of magnitude.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(
            (0..41_u32, any::<u64>()).prop_map(|(bits, any)| any >> (63 - bits)),
            0..200,
        )
    }

    proptest! {
        /// Percentiles equal those of crate `hdrhistogram`, also of sums and differences.
        #[test]
        fn percentiles_are_those_of_a_dense_histogram(
            digits in 1..=4_u8, others in 1..=4_u8, first in values(), second in values()
        ) {
            let both = [first.as_slice(), &second].concat();
            equal(&classes(digits, &first), &histogram(digits, &first))?;
            let mut sum = classes(digits, &first);
            sum.add(&classes(others, &second));
            let mut expected = histogram(digits, &first);
            expected.add(histogram(others, &second)).expect("in range");
            equal(&sum, &expected)?;
            let mut difference = classes(digits, &both);
            difference.subtract(&classes(digits, &first));
            equal(&difference, &histogram(digits, &second))?;
        }
    }

    #[test]
    fn memory_grows_with_the_classes_that_have_values() {
        let classes = classes(3, &[20_000_000; 1000]);
        assert_eq!((classes.counters.len(), classes.total()), (1, 1000));
    }
}
