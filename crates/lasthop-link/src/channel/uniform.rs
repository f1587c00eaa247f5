//! Uniform losses: all frames are lost with the same probability, independently of each other.
//!
//! Source: the *Uniform* model of Xylomenos and Kokkinakis, "Multiple layer error control over
//! wireless links" (frame losses of 1.5, 2.5, 5.4 and 9.8 %); the packet-unit error model of ns-2.
//!
//! Loss probability of any frame: p. Runs of losses are geometric, P(k) = p^(k-1) (1 - p).
//!
//! Not modelled: frame length, time, memory.

use super::{Airtime, ErrorProcess, FRAME_LOSS, all_units};
use super::{ChannelError, ErrorKeys, HeaderRule};
use lasthop_base::rng::{Stream, Streams, Threshold};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Probability;

table! {
    /// All frames are lost with the same probability, independently and regardless of their length.
    pub struct UniformKeys as "uniform" {
        /// Probability that a frame is lost.
        loss: Probability;
        /// Probability that the header of a lost frame is readable, for receivers that read the
        /// headers of damaged packets. Without it, no headers are readable.
        readable_headers: Option<Probability>;
        /// Whether all units of a frame are lost together, with protocols that code units.
        /// Otherwise each unit is lost with this probability.
        whole_frames: Option<bool>;
    }
}

impl ErrorKeys for UniformKeys {
    type Process = Uniform;

    fn build(&self, streams: &Streams, component: &str) -> Result<Uniform, ChannelError> {
        let process = Uniform::new(self.loss, streams, component);
        Ok(Uniform { whole_frames: self.whole_frames == Some(true), ..process })
    }

    fn is_lossless(&self) -> bool {
        self.loss.get() == 0.0
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }
}

/// Error process with equal loss probabilities for all frames.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, ErrorProcess, Uniform};
///
/// let streams = Streams { seed: 1, replication: 0 };
/// let loss = Probability::new(0.1).expect("a probability");
/// let mut process = Uniform::new(loss, &streams, "link.wireless.forward");
/// let lost = (0..10_000).filter(|frame| {
///     let start = Instant::ZERO + Duration::from_millis(1) * *frame;
///     process.is_lost(Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 })
/// });
/// assert!((900..1_100).contains(&lost.count()));
/// ```
#[derive(Clone, Debug)]
pub struct Uniform {
    loss: Threshold,
    frames: Stream,
    whole_frames: bool,
}

impl Uniform {
    /// Loses each frame with probability `loss`. Random numbers come from the stream `frame loss`
    /// of `component`.
    pub fn new(loss: Probability, streams: &Streams, component: &str) -> Self {
        let frames = streams.stream(component, FRAME_LOSS);
        Uniform { loss: Threshold::new(loss), frames, whole_frames: false }
    }
}

impl ErrorProcess for Uniform {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        self.frames.is_below(self.loss)
    }

    fn lost_units(&mut self, _airtime: Airtime, units: u8) -> u64 {
        match self.whole_frames {
            false => self.frames.which_below(self.loss, all_units(units)),
            true if self.frames.is_below(self.loss) => all_units(units),
            true => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::super::testing::*;
    use super::*;

    fn uniform(p: f64) -> Channel {
        Channel::Uniform(Uniform::new(probability(p), &STREAMS, "uniform"))
    }

    #[test]
    fn whole_frames_lose_all_units_or_none() {
        let keys = |whole_frames| UniformKeys {
            loss: probability(0.3),
            readable_headers: None,
            whole_frames: Some(whole_frames),
        };
        let mut whole = keys(true).build(&STREAMS, "uniform").unwrap();
        let airtime = Airtime {
            start: lasthop_base::units::Instant::ZERO,
            end: lasthop_base::units::Instant::ZERO,
            bits: 8,
        };
        let lost: Vec<_> = (0..20_000).map(|_| whole.lost_units(airtime, 20)).collect();
        assert!(lost.iter().all(|&units| units == 0 || units == all_units(20)));
        assert_binomial(lost.iter().filter(|&&units| units > 0).count() as u64, 20_000, 0.3);
        let mut each = keys(false).build(&STREAMS, "uniform").unwrap();
        assert!((0..100).any(|_| !matches!(each.lost_units(airtime, 20), 0 | 0xf_ffff)));
    }

    #[test]
    fn loses_its_share_of_frames_of_any_size() {
        for p in [0.0, 0.015, 0.025, 0.054, 0.098, 1.0] {
            for bits in [16, 2016] {
                assert_binomial(losses(&mut uniform(p), 400_000, bits), 400_000, p);
            }
        }
    }

    #[test]
    fn runs_of_losses_are_geometric() {
        assert_geometric(&bursts(&mut uniform(0.4), 400_000), 0.4);
    }
}
