//! Damaged frames whose header can still be read.
//!
//! ```text
//!   |-- header, H bits --|---------- payload ----------|   frame of L bits
//!         intact                   intact                 intact
//!         intact                   damaged                header readable
//!         damaged                  intact or damaged      lost
//! ```
//!
//! Some receivers check the header of a packet by itself and use it although the payload is damaged: TCP HACK
//! (R. K. Balan et al., "TCP HACK: TCP header checksum option to improve performance over lossy links", IEEE
//! INFOCOM 2001), explicit loss notification, UDP-Lite (RFC 3828). An error process whose keys say so tells such
//! frames from lost ones:
//!
//! - bit errors: with S(n) the probability that the first n bits survive, a frame is lost with probability 1 - S(H), and only
//!   its header is readable with probability S(H) - S(L). One number decides both, so that the same frames are
//!   damaged as without a readable header;
//! - processes that lose whole frames: the header of a lost frame is readable with a given probability, independently
//!   of all others, by numbers of the stream `header`;
//! - frames that are listed: those of a second list.
//!
//! *Not modelled*: headers that are damaged and read nevertheless: the check of a header is assumed perfect; damage to the
//! header of the link apart from that of the packet: `header` counts both.

use super::{Airtime, Channel, ErrorProcess};
use lasthop_base::rng::{Stream, Streams, Threshold};
use lasthop_base::units::{Bytes, Instant, Probability};

/// Purpose of the stream that decides about headers of lost frames.
const HEADER: &str = "header";

/// What reaches the far end of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// All of it.
    Intact,
    /// Its header is intact, its payload is not.
    HeaderReadable,
    /// Nothing that could be read.
    Lost,
}

impl Reception {
    /// From one number in [0, 1) and the loss probabilities of the frame and of its header.
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

/// Which damaged frames leave a header that can be read.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderRule {
    /// Those whose errors are all behind their first bytes; of processes that know bits.
    First(Bytes),
    /// Each with this probability.
    Share(Probability),
    /// Those with these numbers, counted from 1 over all frames of the direction; in ascending order.
    Listed(Vec<u64>),
}

/// The same, with what it takes.
#[derive(Clone, Debug)]
enum Rule {
    First { bits: u64 },
    Share { threshold: Threshold, draws: Stream },
    Listed { frames: Vec<u64>, count: u64 },
}

/// An error process that leaves headers.
#[derive(Clone, Debug)]
pub struct WithHeaders {
    process: Channel,
    rule: Rule,
    /// The header of the latest frame could be read, and its payload was damaged.
    is_readable: bool,
    readable: u64,
}

impl WithHeaders {
    /// `process`, some of whose damaged frames leave a header; random numbers come from the stream `header` of
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
            Rule::First { .. } => unreachable!("the process itself tells"),
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

    /// The units of a coded frame have no header of their own.
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

    /// Counts of lost frames and of readable headers among `n` frames of 250 bytes, 2 ms each, which are the
    /// same frames that `plain` loses.
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
        // 40 of 250 bytes, bit errors at 1e-4 or 10 000 bits apart.
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
        // Bit errors in the bad state are certain, in the good state impossible: a header is readable if and only if
        // the frame is good until its header has left, that is 0.32 of 2 ms, and bad before its end.
        let parameters = TwoStateParameters {
            good: Duration::from_millis(8),
            bad: Duration::from_millis(4),
            good_ber: probability(0.0),
            bad_ber: probability(1.0),
        };
        let process = TwoState::new(parameters, &STREAMS, "link").expect("positive means");
        let mut plain = Channel::TwoState(process);
        let mut process = headed(plain.clone(), HeaderRule::First(Bytes::new(40)));
        // Frames a second apart, so that they are independent.
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
        // Each factor spares the frame (0.8), leaves its header (0.1) or nothing (0.1).
        assert_binomial(readable, n, 0.9 * 0.9 - 0.8 * 0.8);
        assert_eq!(process.readable_headers(), Some(readable));
    }
}
