//! Damaged frames with a readable header.
//!
//! ```text
//!   |-- header, H bits --|---------- payload ----------|   frame of L bits
//!         intact                   intact                 intact
//!         intact                   damaged                header readable
//!         damaged                  intact or damaged      lost
//! ```
//!
//! Some receivers verify the header of a packet separately and use it even if the payload is
//! damaged: TCP HACK (R. K. Balan et al., "TCP HACK: TCP header checksum option to improve
//! performance over lossy links", IEEE INFOCOM 2001), explicit loss notification, UDP-Lite (RFC
//! 3828). If its keys specify a rule, an error process distinguishes such frames from lost ones:
//!
//! - Bit errors: let S(n) be the probability that the first n bits survive. A frame is lost with
//!   probability 1 - S(H), and only its header is readable with probability S(H) - S(L). One random
//!   number decides both, so that the same frames are damaged as without readable headers.
//! - Processes that destroy whole frames: the header of a lost frame is readable with a given
//!   probability, independently of all others. The numbers come from the stream `header`.
//! - Listed frames: a second list contains those with a readable header.
//!
//! *Not modelled*: damaged headers that are not detected, since the checksum of the header is
//! assumed to be perfect; separate damage to the link header: `header` covers both.

use super::{Airtime, Channel, ErrorProcess};
use lasthop_base::rng::{Stream, Streams, Threshold};
use lasthop_base::units::{Bytes, Instant, Probability};

/// Purpose of the stream that decides about the headers of lost frames.
const HEADER: &str = "header";

/// Reception of a frame at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Received without errors.
    Intact,
    /// The header is intact, the payload is damaged.
    HeaderReadable,
    /// Lost, header included.
    Lost,
}

impl Reception {
    /// Returns the reception for a random number in [0, 1) and the loss probabilities of the frame
    /// and of its header.
    #[inline]
    pub(super) fn draw(number: f64, frame: f64, header: f64) -> Self {
        if number >= frame {
            Reception::Intact
        } else if number >= header {
            Reception::HeaderReadable
        } else {
            Reception::Lost
        }
    }
}

/// Rule for the damaged frames whose header is readable.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderRule {
    /// Frames whose first bytes are intact; for processes with bit errors.
    First(Bytes),
    /// Each frame with this probability.
    Share(Probability),
    /// Frames with these numbers, counted from 1 over all frames of the direction; ascending.
    Listed(Vec<u64>),
}

/// A [`HeaderRule`] with its state.
#[derive(Clone, Debug)]
enum Rule {
    First { bits: u64 },
    Share { threshold: Threshold, draws: Stream },
    Listed { frames: Vec<u64>, count: u64 },
}

/// An error process with readable headers.
#[derive(Clone, Debug)]
pub struct WithHeaders {
    process: Channel,
    rule: Rule,
    /// Whether the header of the latest frame was readable and its payload damaged.
    is_readable: bool,
    readable: u64,
}

impl WithHeaders {
    /// Adds readable headers to `process`. Random numbers come from the stream `header` of
    /// `component`.
    pub fn new(process: Channel, rule: HeaderRule, streams: &Streams, component: &str) -> Self {
        let rule = match rule {
            HeaderRule::First(bytes) => Rule::First { bits: bytes.get() * 8 },
            HeaderRule::Share(share) => Rule::Share {
                threshold: Threshold::new(share),
                draws: streams.stream(component, HEADER),
            },
            HeaderRule::Listed(frames) => Rule::Listed { frames, count: 0 },
        };
        WithHeaders { process, rule, is_readable: false, readable: 0 }
    }

    fn receive(&mut self, airtime: Airtime) -> Reception {
        if let Rule::First { bits } = self.rule {
            return self.process.reception(airtime, bits);
        }
        let is_lost = self.process.is_lost(airtime);
        let is_readable = match &mut self.rule {
            Rule::First { .. } => unreachable!("handled above"),
            Rule::Share { threshold, draws } => is_lost && draws.is_below(*threshold),
            Rule::Listed { frames, count } => {
                *count += 1;
                is_lost && frames.binary_search(count).is_ok()
            }
        };
        match (is_lost, is_readable) {
            (false, _) => Reception::Intact,
            (true, true) => Reception::HeaderReadable,
            (true, false) => Reception::Lost,
        }
    }
}

impl ErrorProcess for WithHeaders {
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        let reception = self.receive(airtime);
        self.is_readable = reception == Reception::HeaderReadable;
        self.readable += u64::from(self.is_readable);
        reception != Reception::Intact
    }

    /// The units of a coded frame have no separate headers.
    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        self.is_readable = false;
        self.process.lost_units(airtime, units)
    }

    fn is_header_readable(&self) -> bool {
        self.is_readable
    }

    fn readable_headers(&self) -> Option<u64> {
        Some(self.readable)
    }

    fn catch_up(&mut self, now: Instant) {
        self.process.catch_up(now);
    }

    fn replay_rate(&self) -> f64 {
        self.process.replay_rate()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{
        ExponentialBits, GilbertElliott, GilbertElliottParameters, IndependentBits, TwoState,
        TwoStateParameters, Uniform,
    };
    use super::*;
    use lasthop_base::units::Duration;

    fn headed(process: Channel, rule: HeaderRule) -> Channel {
        Channel::WithHeaders(Box::new(WithHeaders::new(process, rule, &STREAMS, "link")))
    }

    /// Returns the counts of lost frames and of readable headers among `n` frames of 250 B, 2 ms
    /// each. Checks that `plain` loses the same frames.
    fn counts(plain: &mut Channel, headed: &mut Channel, n: u64) -> [u64; 2] {
        let mut counts = [0; 2];
        for airtime in back_to_back(2000, Duration::from_millis(2)).take(n as usize) {
            let is_lost = headed.is_lost(airtime);
            assert_eq!(plain.is_lost(airtime), is_lost);
            assert!(is_lost || !headed.is_header_readable());
            counts[0] += u64::from(is_lost);
            counts[1] += u64::from(headed.is_header_readable());
        }
        assert_eq!(headed.readable_headers(), Some(counts[1]));
        counts
    }

    #[test]
    fn bit_errors_spare_short_headers() {
        // 40 of 250 B; bit errors with a rate of 1e-4 or a mean interval of 10 000 bits.
        let n = 400_000;
        let exponential = ExponentialBits::new(10_000, &STREAMS, "link");
        let independent = IndependentBits::new(probability(1e-4), &STREAMS, "link");
        let of_exponential = |bits: f64| (-bits / 1e4).exp();
        let of_independent = |bits: f64| (1.0f64 - 1e-4).powf(bits);
        let cases: [(Channel, &dyn Fn(f64) -> f64); 2] = [
            (Channel::ExponentialBits(exponential), &of_exponential),
            (Channel::IndependentBits(independent), &of_independent),
        ];
        for (mut plain, survival) in cases {
            let mut process = headed(plain.clone(), HeaderRule::First(Bytes::new(40)));
            let [lost, readable] = counts(&mut plain, &mut process, n);
            assert_binomial(lost, n, 1.0 - survival(2000.0));
            assert_binomial(readable, n, survival(320.0) - survival(2000.0));
        }
    }

    #[test]
    fn a_header_as_long_as_the_frame_is_never_readable() {
        let independent = IndependentBits::new(probability(1e-3), &STREAMS, "link");
        let mut plain = Channel::IndependentBits(independent);
        let mut process = headed(plain.clone(), HeaderRule::First(Bytes::new(250)));
        assert_eq!(counts(&mut plain, &mut process, 10_000)[1], 0);
    }

    #[test]
    fn a_change_of_state_within_a_frame_damages_what_comes_after_it() {
        // Bit errors are certain in the bad state and impossible in the good state. A header is
        // therefore readable if and only if the state is good until the end of the header, 0.32 of
        // 2 ms, and bad before the end of the frame.
        let parameters = TwoStateParameters {
            good: Duration::from_millis(8),
            bad: Duration::from_millis(4),
            good_ber: probability(0.0),
            bad_ber: probability(1.0),
        };
        let process = TwoState::new(parameters, &STREAMS, "link").expect("positive means");
        let mut plain = Channel::TwoState(process);
        let mut process = headed(plain.clone(), HeaderRule::First(Bytes::new(40)));
        // Frames are 1 s apart, so that they are independent.
        let (n, mut readable) = (100_000u64, 0);
        for frame in 0..n {
            let start = Instant::ZERO + Duration::from_secs(frame);
            let airtime = Airtime { start, end: start + Duration::from_millis(2), bits: 2000 };
            assert_eq!(plain.is_lost(airtime), process.is_lost(airtime));
            readable += u64::from(process.is_header_readable());
        }
        let expected = 2.0 / 3.0 * ((-0.32f64 / 8.0).exp() - (-2.0f64 / 8.0).exp());
        assert_binomial(readable, n, expected);
    }

    #[test]
    fn whole_frames_leave_their_header_with_a_probability() {
        let n = 400_000;
        let chain = GilbertElliottParameters {
            good_to_bad: probability(0.02),
            bad_to_good: probability(0.2),
            loss_in_good: probability(0.01),
            loss_in_bad: probability(0.9),
        };
        let chain = GilbertElliott::new(chain, &STREAMS, "link").expect("a moving chain");
        let uniform = Uniform::new(probability(0.1), &STREAMS, "link");
        for mut plain in [Channel::Uniform(uniform), Channel::GilbertElliott(chain)] {
            let mut process = headed(plain.clone(), HeaderRule::Share(probability(0.3)));
            let [lost, readable] = counts(&mut plain, &mut process, n);
            assert_binomial(readable, lost, 0.3);
        }
    }

    #[test]
    fn a_product_leaves_a_header_if_no_factor_destroys_it() {
        let uniform = |component| {
            let process = Channel::Uniform(Uniform::new(probability(0.2), &STREAMS, component));
            let rule = HeaderRule::Share(probability(0.5));
            Channel::WithHeaders(Box::new(WithHeaders::new(process, rule, &STREAMS, component)))
        };
        let mut process = Channel::Product(super::super::Product::new(uniform("a"), uniform("b")));
        let n = 400_000;
        let readable = back_to_back(2000, Duration::from_millis(2)).take(n as usize);
        let readable = readable.filter(|&airtime| {
            let is_lost = process.is_lost(airtime);
            is_lost && process.is_header_readable()
        });
        let readable = readable.count() as u64;
        // Each factor leaves the frame intact (0.8), its header readable (0.1), or destroys both
        // (0.1).
        assert_binomial(readable, n, 0.9 * 0.9 - 0.8 * 0.8);
        assert_eq!(process.readable_headers(), Some(readable));
    }
}
