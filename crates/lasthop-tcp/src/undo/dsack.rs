//! Undo by DSACK: if the receiver reports every retransmission after a reduction as a duplicate, no
//! segment was lost (RFC 2883, section 4; RFC 3708).
//!
//! ```text
//!   reduction          marker = SND.UNA, count = outstanding retransmissions
//!   retransmission     count + 1
//!   DSACK above marker count - 1 for each segment of it
//!   count 0            spurious
//! ```

/// Retransmissions since the latest reduction that have not been reported as duplicates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duplicated {
    /// SND.UNA at the reduction; `None` if there is no reduction to undo.
    marker: Option<u64>,
    /// `None` before the first retransmission.
    outstanding: Option<u32>,
}

impl Duplicated {
    /// Records a reduction with `resent` outstanding retransmissions.
    pub fn on_reduction(&mut self, snd_una: u64, resent: u32) {
        *self = Duplicated { marker: Some(snd_una), outstanding: (resent > 0).then_some(resent) };
    }

    /// Counts a retransmission.
    pub fn on_retransmission(&mut self) {
        self.outstanding = Some(self.outstanding.unwrap_or(0) + 1);
    }

    /// Processes a DSACK for `segments` segments that ends at `end`.
    pub fn on_duplicate(&mut self, end: u64, segments: u32) {
        if self.marker.is_some_and(|marker| end > marker)
            && let Some(outstanding) = &mut self.outstanding
        {
            *outstanding = outstanding.saturating_sub(segments);
        }
    }

    /// Returns `true` if there is a reduction that may be undone.
    pub fn has_reduction(&self) -> bool {
        self.marker.is_some()
    }

    /// Returns `true` if every retransmission since the reduction was a duplicate.
    pub fn is_spurious(&self) -> bool {
        self.marker.is_some() && self.outstanding == Some(0)
    }

    /// Ends the detection: the reduction is undone or confirmed.
    pub fn end(&mut self) {
        self.marker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: retransmissions outstanding at the reduction and sent after it, ends of DSACKs,
    /// whether it is spurious. The marker is 100.
    #[test]
    fn all_must_be_reported() {
        for (before, after, duplicates, spurious) in [
            (0, 1, &[][..], false),
            (0, 1, &[110][..], true),
            (0, 2, &[110], false),
            (0, 2, &[110, 120], true),
            (1, 1, &[110], false),
            (1, 1, &[110, 120], true),
            // Below the marker: a duplicate of an earlier reduction.
            (0, 1, &[90], false),
            // Without retransmissions, none can be spurious.
            (0, 0, &[110], false),
        ] {
            let mut duplicated = Duplicated::default();
            duplicated.on_reduction(100, before);
            for _ in 0..after {
                duplicated.on_retransmission();
            }
            for &end in duplicates {
                duplicated.on_duplicate(end, 1);
            }
            assert_eq!(duplicated.is_spurious(), spurious, "{before} {after} {duplicates:?}");
            duplicated.end();
            assert!(!duplicated.is_spurious() && !duplicated.has_reduction());
        }
    }
}
