//! Bit errors at exponentially distributed intervals, counted in bits.
//!
//! Source: the WLAN links of Xylomenos and Polyzos, IPDPS 2003, with bit errors at exponential
//! intervals. The Berkeley studies of TCP over wireless links use one error per 64 KiB on average.
//! In ns-2 this is the two-state model in bit units with a second state of length 0
//! (`errmodel.cc`).
//!
//! The errors are a Poisson process of mean interval M along the transmitted bits: idle time does
//! not count. A frame of L bits survives with probability exp(-L / M), independently of the past,
//! because an exponential distribution is memoryless. Therefore one random number per frame gives
//! the same distribution as sampling the intervals, as verified by a test. Short frames survive
//! more often.
//!
//! Not modelled: bursts, coding.

use super::bits::FrameLoss;
use super::{Airtime, ErrorProcess, FRAME_LOSS};
use super::{ChannelError, ErrorKeys, HeaderRule, Reception};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::BitInterval;
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::units::Bytes;

table! {
    /// Bit errors at exponentially distributed intervals along the transmitted bits. A frame of L
    /// bits survives with probability exp(-L / mean).
    pub struct ExponentialBitsKeys as "exponential-bits" {
        /// Mean number of bits between errors.
        mean: BitInterval;
        /// Length of the beginning of a frame, link header included, that must be intact for the
        /// headers of a damaged packet to be readable. Without it, headers of damaged frames are
        /// never readable.
        header: Option<Bytes>, Limits::PACKET;
    }
}

impl ErrorKeys for ExponentialBitsKeys {
    type Process = ExponentialBits;

    fn build(&self, streams: &Streams, component: &str) -> Result<ExponentialBits, ChannelError> {
        Ok(ExponentialBits::new(self.mean.0, streams, component))
    }

    fn header(&self) -> Option<HeaderRule> {
        self.header.map(HeaderRule::First)
    }
}

/// Error process with errors at exponential intervals, in bits; one error destroys the frame.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_link::channel::{Airtime, ErrorProcess, ExponentialBits};
///
/// // A frame of 8,000 bits is lost with probability 1 - exp(-8,000 / 80,000) = 9.5 %.
/// let mut process = ExponentialBits::new(80_000, &Streams { seed: 1, replication: 0 }, "link.a");
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// let lost = (0..10_000).filter(|&index| process.is_lost(frame(index))).count();
/// assert!((850..1_050).contains(&lost), "{lost}");
/// ```
#[derive(Clone, Debug)]
pub struct ExponentialBits {
    loss: FrameLoss,
    frames: Stream,
}

impl ExponentialBits {
    /// Errors have a mean interval of `mean_bits` bits, at least 1. Random numbers come from the
    /// stream `frame loss` of `component`.
    pub fn new(mean_bits: u64, streams: &Streams, component: &str) -> Self {
        ExponentialBits {
            loss: FrameLoss::with_log_survival(-1.0 / mean_bits.max(1) as f64),
            frames: streams.stream(component, FRAME_LOSS),
        }
    }
}

impl ErrorProcess for ExponentialBits {
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

    fn channel(mean_bits: u64) -> Channel {
        Channel::ExponentialBits(ExponentialBits::new(mean_bits, &STREAMS, "bits"))
    }

    #[test]
    fn frame_loss_follows_the_table_of_the_wlan_links() {
        // 1000 B frames, mean interval of 2^k bits; the table has three digits.
        let table = [
            (14, 0.386),
            (15, 0.217),
            (16, 0.115),
            (17, 0.0592),
            (18, 0.0301),
            (19, 0.0151),
            (20, 0.0076),
        ];
        for (k, table) in table {
            let exact = 1.0 - (-8000.0 / f64::from(1u32 << k)).exp();
            let digit = if table > 0.1 { 5e-4 } else { 5e-5 };
            assert!((exact - table).abs() <= digit, "{k}: {exact}");
            let n = 400_000;
            assert_binomial(losses(&mut channel(1 << k), n, 8000), n, exact);
        }
    }

    #[test]
    fn small_frames_suffer_by_their_own_length() {
        // A 2 B acknowledgment, a 40 B TCP acknowledgment, a full frame.
        for bits in [16, 320, 8000] {
            let exact = 1.0 - (-(bits as f64) / 131_072.0).exp();
            let n = 2_000_000;
            assert_binomial(losses(&mut channel(1 << 17), n, bits), n, exact);
        }
    }

    /// Reference implementation with sampled intervals, which are consumed by frames.
    struct Intervals {
        stream: Stream,
        mean: f64,
        left: f64,
    }

    impl Intervals {
        fn is_lost(&mut self, bits: f64) -> bool {
            let is_lost = self.left < bits;
            while self.left < bits {
                self.left += self.stream.exponential() * self.mean;
            }
            self.left -= bits;
            is_lost
        }
    }

    #[test]
    fn one_draw_a_frame_has_the_law_of_the_intervals() {
        // Frames of two lengths alternate. The losses of each, and of a frame directly after a
        // loss, match those of independent frames in both implementations.
        let mean = 1u64 << 15;
        let mut stream = STREAMS.stream("bits", "intervals");
        let left = stream.exponential() * mean as f64;
        let mut intervals = Intervals { stream, mean: mean as f64, left };
        let mut draws = channel(mean);
        let n = 400_000u64;
        let loss = |bits: u64| 1.0 - (-(bits as f64) / mean as f64).exp();
        for is_drawn in [true, false] {
            let (mut before, mut counts, mut after) = (false, [0u64; 2], [(0u64, 0u64); 2]);
            for (index, airtime) in back_to_back(0, lasthop_base::units::Duration::from_millis(1))
                .take(n as usize)
                .enumerate()
            {
                let bits = [8000, 320][index % 2];
                let lost = if is_drawn {
                    draws.is_lost(Airtime { bits, ..airtime })
                } else {
                    intervals.is_lost(bits as f64)
                };
                counts[index % 2] += u64::from(lost);
                if before {
                    after[index % 2].0 += 1;
                    after[index % 2].1 += u64::from(lost);
                }
                before = lost;
            }
            for (kind, bits) in [8000, 320].into_iter().enumerate() {
                assert_binomial(counts[kind], n / 2, loss(bits));
                assert_binomial(after[kind].1, after[kind].0, loss(bits));
            }
        }
    }
}
