//! Uniform losses: each frame is lost with one probability, independently of all others.
//!
//! Source: the *Uniform* model of Xylomenos and Kokkinakis, "Multiple layer error control over
//! wireless links" (frame losses of 1.5, 2.5, 5.4 and 9.8 %); the packet-unit error model of ns-2.
//!
//! Loss probability of any frame: p. Runs of losses are geometric, P(k) = p^(k-1) (1 - p).
//!
//! Not modelled: size of the frame, time, memory.

use super::{Airtime, ErrorProcess, FRAME_LOSS, all_units};
use super::{ChannelError, ErrorKeys, HeaderRule};
use lasthop_base::rng::{Stream, Streams, Threshold};
use lasthop_base::schema::keys::table;
use lasthop_base::units::Probability;

table! {
    /// Each frame is lost with the same probability, independently and whatever its length.
    pub struct UniformKeys as "uniform" {
        /// Probability that a frame is lost.
        loss: Probability;
        /// Probability that the header of a lost frame can still be read, for who reads the headers of
        /// damaged packets; without it none can.
        readable_headers: Option<Probability>;
    }
}

impl ErrorKeys for UniformKeys {
    type Process = Uniform;

    fn build(&self, streams: &Streams, component: &str) -> Result<Uniform, ChannelError> {
        Ok(Uniform::new(self.loss, streams, component))
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.map(HeaderRule::Share)
    }
}

/// Each frame is lost with one probability.
#[derive(Clone, Debug)]
pub struct Uniform {
    loss: Threshold,
    frames: Stream,
}

impl Uniform {
    /// Loses a frame with probability `loss`. Numbers come from the stream `frame loss` of
    /// `component`.
    pub fn new(loss: Probability, streams: &Streams, component: &str) -> Self {
        Uniform { loss: Threshold::new(loss), frames: streams.stream(component, FRAME_LOSS) }
    }
}

impl ErrorProcess for Uniform {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        self.frames.is_below(self.loss)
    }

    fn lost_units(&mut self, _airtime: Airtime, units: u8) -> u64 {
        self.frames.which_below(self.loss, all_units(units))
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
