//! The product of two error processes: a frame survives if it survives both.
//!
//! For example, `first` models fading and `second` disruptions. Both processes are called for every
//! frame, regardless of each other's result. Therefore `first` uses the same random numbers as it
//! would alone, and `second` those of the component `COMPONENT.second`. If they are independent,
//! the long-run loss is 1 - (1 - l_1)(1 - l_2). The header of a lost frame is readable if no
//! process destroyed it. Before `after` and from `until` on both processes advance, but no frames are
//! lost.
//!
//! Not modelled: more than two processes; processes that depend on each other.

use super::{Airtime, Channel, ChannelError, ErrorKeys, ErrorProcess, Factor};
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, Read, table};
use lasthop_base::units::{Duration, Instant};

table! {
    /// Two simultaneous error processes: a frame is lost if either loses it.
    pub struct ProductKeys as "product" {
        /// First error process. It loses the same frames as it would alone.
        first: Box<Factor>;
        /// Second error process.
        second: Box<Factor>;
        /// Time before which no frame is lost.
        after: Duration = "0 s";
        /// Time after which no frame is lost; default: no such time.
        until: Option<Duration>, Limits::POSITIVE;
    }
}

impl ErrorKeys for ProductKeys {
    type Process = Product;

    fn build(&self, streams: &Streams, component: &str) -> Result<Product, ChannelError> {
        let first = self.first.build(streams, component)?;
        let second = self.second.build(streams, &format!("{component}.second"))?;
        let until = self.until.map_or(Instant::NEVER, |until| Instant::ZERO + until);
        Ok(Product { after: Instant::ZERO + self.after, until, ..Product::new(first, second) })
    }

    fn resolve(&mut self, path: &str, radio_frame: Option<Duration>) -> Read<()> {
        if let Some(until) = self.until.filter(|until| *until <= self.after) {
            let allowed = format!("a time after {path}.after, \"{}\"", self.after);
            return Err(ScenarioError::new(
                format!("{path}.until"),
                format!("\"{until}\""),
                allowed,
            ));
        }
        self.first.resolve(&format!("{path}.first"), radio_frame)?;
        self.second.resolve(&format!("{path}.second"), radio_frame)
    }

    fn has_readable_headers(&self) -> bool {
        self.first.has_readable_headers() || self.second.has_readable_headers()
    }

    fn contents(&self) -> Vec<u8> {
        [self.first.contents(), self.second.contents()].concat()
    }
}

/// Error process that combines two processes.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::units::{Duration, Instant, Probability};
/// use lasthop_link::channel::{Airtime, Channel, ErrorProcess, Product, Uniform};
///
/// // A frame is lost if either process loses it: 1 - 0.9 * 0.8 = 28 %.
/// let streams = Streams { seed: 1, replication: 0 };
/// let uniform = |loss, name| {
///     let loss = Probability::new(loss).expect("a probability");
///     Channel::Uniform(Uniform::new(loss, &streams, name))
/// };
/// let mut process = Product::new(uniform(0.1, "link.a.first"), uniform(0.2, "link.a.second"));
/// let frame = |index: u64| {
///     let start = Instant::ZERO + Duration::from_millis(1) * index;
///     Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 }
/// };
/// let lost = (0..10_000).filter(|&index| process.is_lost(frame(index))).count();
/// assert!((2_600..3_000).contains(&lost), "{lost}");
/// ```
#[derive(Clone, Debug)]
pub struct Product {
    factors: Box<[Channel; 2]>,
    /// Time before which no frame is lost.
    after: Instant,
    /// Start of the time in which no frame is lost.
    until: Instant,
    /// If a process leaves headers readable: which processes lost the latest frame.
    headers: Option<Headers>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Headers {
    are_lost: [bool; 2],
    readable: u64,
}

impl Product {
    /// Combines two processes: a frame survives if it survives both.
    pub fn new(first: Channel, second: Channel) -> Self {
        let has_readable_headers = first.readable_headers().or(second.readable_headers()).is_some();
        let headers = has_readable_headers.then(Headers::default);
        let (after, until) = (Instant::ZERO, Instant::NEVER);
        Product { factors: Box::new([first, second]), after, until, headers }
    }

    /// Returns `true` if a frame that starts at `start` can be lost.
    fn is_lossy_at(&self, start: Instant) -> bool {
        start >= self.after && start < self.until
    }
}

impl ErrorProcess for Product {
    fn is_lost(&mut self, airtime: Airtime) -> bool {
        // No short-circuit evaluation: each process is called for every frame.
        let [first, second] = self.factors.each_mut().map(|factor| factor.is_lost(airtime));
        let is_lost = (first || second) && self.is_lossy_at(airtime.start);
        if let Some(headers) = &mut self.headers {
            headers.are_lost = [first && is_lost, second && is_lost];
        }
        if self.is_header_readable()
            && let Some(headers) = &mut self.headers
        {
            headers.readable += 1;
        }
        is_lost
    }

    fn lost_units(&mut self, airtime: Airtime, units: u8) -> u64 {
        let [first, second] =
            self.factors.each_mut().map(|factor| factor.lost_units(airtime, units));
        if let Some(headers) = &mut self.headers {
            headers.are_lost = [false; 2];
        }
        if self.is_lossy_at(airtime.start) { first | second } else { 0 }
    }

    fn is_header_readable(&self) -> bool {
        let Some(Headers { are_lost, .. }) = self.headers else { return false };
        let mut factors = are_lost.iter().zip(self.factors.iter()).filter(|(lost, _)| **lost);
        are_lost != [false; 2] && factors.all(|(_, factor)| factor.is_header_readable())
    }

    fn readable_headers(&self) -> Option<u64> {
        self.headers.map(|headers| headers.readable)
    }

    fn catch_up(&mut self, now: Instant) {
        self.factors.iter_mut().for_each(|factor| factor.catch_up(now));
    }

    fn replay_rate(&self) -> f64 {
        self.factors.iter().map(ErrorProcess::replay_rate).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::{OnOff, Uniform};
    use super::*;
    use lasthop_base::rng::DurationDistribution;

    #[test]
    fn frames_are_lost_between_the_two_times() {
        let lossy = || Channel::Uniform(Uniform::new(probability(1.0), &STREAMS, "link"));
        let at = |milliseconds| Instant::ZERO + Duration::from_millis(milliseconds);
        let product = Product::new(lossy(), lossy());
        let mut product = Product { after: at(10), until: at(20), ..product };
        let frames = back_to_back(2016, Duration::from_millis(1)).take(30);
        let lost: Vec<_> = frames.filter(|&airtime| product.is_lost(airtime)).collect();
        assert_eq!((lost.len(), lost[0].start, lost[9].start), (10, at(10), at(19)));
    }

    #[test]
    fn a_frame_is_lost_if_either_loses_it() {
        let uniform = || Channel::Uniform(Uniform::new(probability(0.1), &STREAMS, "link"));
        let law = DurationDistribution::Exponential(Duration::from_millis(5));
        let on_off = || Channel::OnOff(OnOff::new(law, law, &STREAMS, "link.second"));
        let mut product = Channel::Product(Product::new(uniform(), on_off()));
        let (mut first, mut second) = (uniform(), on_off());
        let mut counts = [0; 4];
        for airtime in back_to_back(2016, Duration::from_millis(1)).take(10_000) {
            let lost = [&mut first, &mut second].map(|factor| factor.is_lost(airtime));
            assert_eq!(product.is_lost(airtime), lost[0] || lost[1]);
            counts[usize::from(lost[0]) + 2 * usize::from(lost[1])] += 1;
        }
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
    }
}
