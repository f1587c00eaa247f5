//! Independent bit errors.
//!
//! Source: the binary symmetric channel. Errors at exponential intervals of mean M bits
//! ([`super::ExponentialBits`]) are equivalent to a bit error rate of 1 / M, up to terms of 1 / M².
//!
//! Loss probability of a frame of L bits: 1 - (1 - BER)^L. Short frames survive more often. The
//! process has no memory; one random number per frame is equivalent to one per bit.
//!
//! Not modelled: bursts, coding.

use super::bits::FrameLoss;
use super::{Airtime, ErrorProcess, FRAME_LOSS};
use super::{ChannelError, ErrorKeys, HeaderRule, Reception};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::{Bytes, Probability};

table! {
    /// Independent bit errors; a frame is lost if any of its bits is.
    pub struct IndependentBitsKeys as "bit" {
        /// Bit error rate.
        ber: Probability;
        /// Length of the beginning of a frame, link header included, that must be intact for the
        /// headers of a damaged packet to be readable. Without it, headers of damaged frames are
        /// never readable.
        header: Option<Bytes>, Limits::PACKET;
    }
}

impl ErrorKeys for IndependentBitsKeys {
    type Process = IndependentBits;

    fn build(&self, streams: &Streams, component: &str) -> Result<IndependentBits, ChannelError> {
        Ok(IndependentBits::new(self.ber, streams, component))
    }

    fn is_lossless(&self) -> bool {
        self.ber.get() == 0.0
    }

    fn header(&self) -> Option<HeaderRule> {
        self.header.map(HeaderRule::First)
    }
}

/// Error process with independent bit errors; one error destroys the frame.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess, IndependentBits};
///
/// // A frame of 8,000 bits is lost with probability 1 - (1 - 0.00001)^8,000 = 7.7 %.
/// let rate = Probability::new(1e-5).expect("a probability");
/// let mut process = IndependentBits::new(rate, &Streams { seed: 1, replication: 0 }, "link.a");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// let lost = (0..10_000).filter(|&index| process.is_lost(frame(index))).count();
/// assert!((660..880).contains(&lost), "{lost}");
/// ```
#[derive(Clone, Debug)]
pub struct IndependentBits {
    loss: FrameLoss,
    frames: Stream,
}

impl IndependentBits {
    /// Each bit is received in error with probability `bit_error_rate`. Random numbers come from
    /// the stream `frame loss` of `component`.
    pub fn new(bit_error_rate: Probability, streams: &Streams, component: &str) -> Self {
        IndependentBits {
            loss: FrameLoss::new(bit_error_rate),
            frames: streams.stream(component, FRAME_LOSS),
        }
    }
}

impl ErrorProcess for IndependentBits {
    #[inline]
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        self.frames.uniform() < self.loss.of(airtime.bits)
    }

    fn reception(&mut self, airtime: Airtime, header_bits: u64) -> Reception {
        let frame = self.loss.of(airtime.bits);
        let header = self.loss.of(header_bits.min(airtime.bits));
        Reception::draw(self.frames.uniform(), frame, header)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn frame_loss_follows_the_table_of_the_wlan_study() {
        // Mean interval of 2^k bits, 1000 B frames: 5.92, 3.01, 1.51, 0.76 %.
        for (k, table) in [(17, 0.0592), (18, 0.0301), (19, 0.0151), (20, 0.0076)] {
            let mut loss = FrameLoss::new(probability(0.5f64.powi(k)));
            assert!((loss.of(8000) - table).abs() < 6e-5, "{k}: {}", loss.of(8000));
            let process = IndependentBits::new(probability(0.5f64.powi(k)), &STREAMS, "bits");
            let lost = losses(&mut Channel::IndependentBits(process), 400_000, 8000);
            assert_binomial(lost, 400_000, 1.0 - (1.0 - 0.5f64.powi(k)).powi(8000));
        }
    }

    #[test]
    fn sizes_that_share_a_table_entry_do_not_disturb_each_other() {
        let mut loss = FrameLoss::new(probability(1e-4));
        for round in 0..2 {
            for bits in 0..3000u64 {
                let exact = 1.0 - (1.0 - 1e-4f64).powi(bits as i32);
                assert!((loss.of(bits) - exact).abs() < 1e-12, "{round} {bits}");
            }
        }
    }

    #[test]
    fn the_extremes_are_exact() {
        assert_eq!(FrameLoss::new(probability(0.0)).of(8000), 0.0);
        assert_eq!(FrameLoss::new(probability(1.0)).of(1), 1.0);
        assert_eq!(FrameLoss::new(probability(1.0)).of(0), 0.0);
    }
}
