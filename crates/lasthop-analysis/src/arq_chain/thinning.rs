//! Binomial distributions of the PDUs that fail, as a matrix.

/// Pr(k' of k PDUs fail) for 1 ≤ k' ≤ k ≤ N. Rows form groups of [`GROUP`] and are padded with
/// zeros to the longest row of the group, so that products use whole vectors.
#[derive(Clone, Debug)]
pub(super) struct Thinning {
    pub(super) rows: Vec<f64>,
}

pub(super) const GROUP: usize = 4;
/// Probabilities below this value count as 0 if many PDUs are missing.
pub(super) const TINY: f64 = 1e-290;

/// Returns the start of row k: earlier groups contain GROUP rows of GROUP, 2 GROUP, ... entries.
fn row_start(k: usize) -> usize {
    let (group, within) = ((k - 1) / GROUP, (k - 1) % GROUP);
    GROUP * GROUP * group * (group + 1) / 2 + within * GROUP * (group + 1)
}

/// Rounds `pdus` up to whole groups.
pub(super) fn padded(pdus: usize) -> usize {
    pdus.next_multiple_of(GROUP)
}

impl Thinning {
    pub(super) fn new(loss: f64, pdus: usize) -> Self {
        // Pascal's recurrence: all terms are positive, so no cancellation occurs. Terms too small
        // for a normal double become 0, as subnormal numbers are slow.
        let normal = |value: f64| if value < f64::MIN_POSITIVE { 0.0 } else { value };
        let mut rows = vec![0.0; row_start(padded(pdus) + 1)];
        let arrival = 1.0 - loss;
        rows[0] = loss;
        let mut none = arrival;
        for k in 2..=pdus {
            let (before, after) = rows.split_at_mut(row_start(k));
            let above = &before[row_start(k - 1)..][..k - 1];
            let row = &mut after[..k];
            row[0] = normal(loss * none + arrival * above[0]);
            for (slot, pair) in row[1..].iter_mut().zip(above.windows(2)) {
                *slot = normal(loss * pair[0] + arrival * pair[1]);
            }
            row[k - 1] = normal(loss * above[k - 2]);
            none = normal(none * arrival);
        }
        Thinning { rows }
    }

    /// Returns row k: Pr(1, 2, ..., k of k PDUs fail).
    pub(super) fn row(&self, k: usize) -> &[f64] {
        &self.rows[row_start(k)..][..k]
    }

    /// Computes out += v T; both are padded.
    #[inline]
    pub(super) fn add(&self, v: &[f64], out: &mut [f64]) {
        let mut rows = self.rows.as_slice();
        for (group, mass) in v.chunks_exact(GROUP).enumerate() {
            let length = GROUP * (group + 1);
            let (own, rest) = rows.split_at(GROUP * length);
            rows = rest;
            let (a, own) = own.split_at(length);
            let (b, own) = own.split_at(length);
            let (c, d) = own.split_at(length);
            let out = &mut out[..length];
            for ((((slot, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *slot += (mass[0] * a + mass[1] * b) + (mass[2] * c + mass[3] * d);
            }
        }
    }
}
