//! Proportional rate reduction (PRR): the number of segments that an ACK permits to be sent during
//! a reduction of the window (RFC 9937, which replaces RFC 6937).
//!
//! ```text
//!   pipe > ssthresh     sndcnt = ceil(prr_delivered * ssthresh / RecoverFS) - prr_out
//!   otherwise           sndcnt = max(prr_delivered - prr_out, delivered), one more if the ACK is
//!                       safe, at most ssthresh - pipe
//!   nothing sent yet    at least one segment
//!   cwnd = pipe + sndcnt
//! ```
//!
//! An ACK is safe if it advances SND.UNA and reports no further loss (section 6.1). All counts are
//! in segments.

/// State of one reduction, in segments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prr {
    ssthresh: u32,
    /// Segments in flight at the start of the reduction (RecoverFS).
    recover_fs: u32,
    /// Segments delivered since the start (prr_delivered).
    delivered: u32,
    /// Segments sent since the start (prr_out).
    out: u32,
}

impl Prr {
    /// Starts a reduction to `ssthresh` with `recover_fs` segments in flight.
    pub fn begin(&mut self, ssthresh: u32, recover_fs: u32) {
        *self = Prr { ssthresh, recover_fs: recover_fs.max(1), delivered: 0, out: 0 };
    }

    /// Processes an ACK that delivers `delivered` segments, after which `pipe` are in flight.
    /// Returns the number of segments that may be sent.
    pub fn on_ack(&mut self, delivered: u32, pipe: u32, is_safe: bool) -> u32 {
        self.delivered += delivered;
        let count = if pipe > self.ssthresh {
            let share = u64::from(self.delivered) * u64::from(self.ssthresh);
            (share.div_ceil(self.recover_fs.into()) as u32).saturating_sub(self.out)
        } else {
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            (conserved + u32::from(is_safe)).min(self.ssthresh - pipe)
        };
        count.max(u32::from(self.out == 0))
    }

    /// Records that a segment was sent.
    pub fn on_sent(&mut self) {
        self.out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes ACKs given as (delivered, newly lost, safe) and sends all permitted segments.
    /// Returns the numbers permitted and the number in flight at the end.
    fn play(
        ssthresh: u32,
        in_flight: u32,
        lost: u32,
        acks: &[(u32, u32, bool)],
    ) -> (Vec<u32>, u32) {
        let mut prr = Prr::default();
        prr.begin(ssthresh, in_flight);
        let mut pipe = in_flight - lost;
        let mut counts = Vec::new();
        for &(delivered, newly_lost, is_safe) in acks {
            pipe -= delivered + newly_lost;
            let count = prr.on_ack(delivered, pipe, is_safe);
            for _ in 0..count {
                prr.on_sent();
            }
            pipe += count;
            counts.push(count);
        }
        (counts, pipe)
    }

    const SACK: (u32, u32, bool) = (1, 0, false);

    /// One loss of 20, Reno halves: 20 in flight, 1 lost, three SACKed before recovery begins with the third
    /// (RecoverFS 18: 20 less the two SACKed before).
    #[test]
    fn one_loss_under_reno_by_hand() {
        let (counts, pipe) = play(10, 18, 1, &[SACK; 16]);
        // ceil(10 k / 18), k = 1 ..: 1 2 2 3 3 4 4 5 5 6 7 7 8 8, minus the number already sent. At
        // the 15th ACK the pipe is 17 - 15 + 8 = 10. From then onwards each delivered segment
        // permits another.
        assert_eq!(counts, [1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1]);
        assert_eq!(pipe, 10);
    }

    /// One loss of 20 under CUBIC, beta 0.7: reduction to 14.
    #[test]
    fn one_loss_under_cubic_by_hand() {
        let (counts, pipe) = play(14, 18, 1, &[SACK; 9]);
        // ceil(14 k / 18): 1 2 3 4 4 5 6 7 7; the pipe always remains above 14.
        assert_eq!(counts, [1, 1, 1, 1, 0, 1, 1, 1, 0]);
        assert_eq!(pipe, 17 - 9 + 7);
    }

    /// Many losses in one window reduce the pipe below ssthresh: packet conservation while ACKs are
    /// not safe, slow start when they are (section 6.2).
    #[test]
    fn heavy_losses_by_hand() {
        // 20 in flight, 15 lost: pipe 5, ssthresh 10.
        let (counts, pipe) = play(10, 20, 15, &[SACK; 4]);
        assert_eq!((counts, pipe), (vec![1, 1, 1, 1], 5), "conserved");
        let safe = (1, 0, true);
        let (counts, pipe) = play(10, 20, 15, &[SACK, safe, safe, safe, safe, safe, safe]);
        assert_eq!(counts, [1, 2, 2, 2, 2, 2, 1], "one more each, up to ssthresh");
        assert_eq!(pipe, 10);
        // An ACK that reports a further loss adds no segment.
        let (counts, pipe) = play(10, 20, 15, &[SACK, (1, 1, false), safe]);
        assert_eq!((counts, pipe), (vec![1, 1, 2], 5));
    }

    /// Permitted segments that were not sent may be sent later: prr_delivered - prr_out.
    #[test]
    fn credit_is_kept() {
        let mut prr = Prr::default();
        prr.begin(10, 20);
        assert_eq!(prr.on_ack(6, 14, false), 3);
        prr.on_sent();
        // Two were not sent because no data was available: 7 * 10 / 20 - 1.
        assert_eq!(prr.on_ack(1, 14, false), 3);
        // Below ssthresh: 8 delivered, 1 sent.
        assert_eq!(prr.on_ack(1, 3, false), 7);
    }

    /// The first ACK permits at least the retransmission of the lost segment.
    #[test]
    fn recovery_begins_with_a_retransmission() {
        let mut prr = Prr::default();
        prr.begin(2, 100);
        assert_eq!(prr.on_ack(0, 90, false), 1);
        prr.on_sent();
        assert_eq!(prr.on_ack(1, 89, false), 0);
    }
}
