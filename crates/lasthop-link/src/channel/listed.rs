//! Listed losses: exactly the listed frames are lost, such as the 25th and the 27th.
//!
//! State: the number of frames so far. Uses no random numbers, so that all replications have the
//! same losses.
//!
//! Not modelled: time, frame length.

use super::{Airtime, ChannelError, ErrorKeys, ErrorProcess, HeaderRule};
use lasthop_base::rng::Streams;
use lasthop_base::schema::ScenarioError;
use lasthop_base::schema::keys::{Field, Limits, Node, Read, Shape, allowed_numbers, table};
use lasthop_base::units::Duration;
use serde_json::Value;

table! {
    /// The listed frames of a direction are lost, equally in every replication: for worked
    /// examples.
    pub struct ListedKeys as "listed" {
        /// Numbers of the lost frames, counted from 1 over all frames of the direction, including
        /// retransmissions and control frames.
        lose: FrameNumbers, Limits::POSITIVE;
        /// Lost frames whose header is readable, for receivers that read the headers of damaged
        /// packets.
        readable_headers: Option<FrameNumbers>, Limits::POSITIVE;
    }
}

impl ErrorKeys for ListedKeys {
    type Process = Listed;

    fn build(&self, _streams: &Streams, _component: &str) -> Result<Listed, ChannelError> {
        Ok(Listed { frames: self.lose.0.clone(), next: 0, count: 0 })
    }

    fn resolve(&mut self, path: &str, _radio_frame: Option<Duration>) -> Read<()> {
        let readable = self.readable_headers.iter().flat_map(|frames| &frames.0);
        match readable.into_iter().find(|frame| !self.lose.0.contains(frame)) {
            None => Ok(()),
            Some(frame) => Err(ScenarioError::new(
                format!("{path}.readable_headers"),
                frame.to_string(),
                "frames that lose lists too",
            )),
        }
    }

    fn header(&self) -> Option<HeaderRule> {
        self.readable_headers.as_ref().map(|frames| HeaderRule::Listed(frames.0.clone()))
    }
}

/// Distinct frame numbers, at least one. Written as a list in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameNumbers(
    /// Frame numbers in ascending order.
    pub Vec<u64>,
);

impl Field for FrameNumbers {
    const HAS_LIMITS: bool = true;
    const SHAPE: Shape = Shape::Integers;

    fn read(node: &Node<'_>, limits: Limits) -> Read<Self> {
        let allowed = allowed_numbers(limits);
        let list = node.value.as_array().filter(|list| !list.is_empty());
        let list = list.ok_or_else(|| node.wrong(&allowed))?;
        let mut frames = Vec::with_capacity(list.len());
        for value in list {
            let number = u64::read(&Node { value, ..node.clone() }, limits);
            frames.push(number.map_err(|mut error| {
                error.allowed.clone_from(&allowed);
                error
            })?);
        }
        frames.sort_unstable();
        match frames.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(node.error(format!("{} twice", pair[0]), allowed)),
            None => Ok(FrameNumbers(frames)),
        }
    }

    fn write(&self) -> Value {
        self.0.as_slice().into()
    }
}

/// Error process that loses the listed frames.
///
/// ```
/// use lasthop_base::rng::Streams;
/// use lasthop_base::schema::files::Files;
/// use lasthop_base::schema::keys::{Field, Limits, Node};
/// use lasthop_base::units::{Duration, Instant};
/// use lasthop_link::channel::{Airtime, ErrorProcess, Errors};
///
/// // The keys of a scenario.
/// let value = serde_json::json!({ "kind": "listed", "lose": [2, 4] });
/// let files = Files::new(std::path::Path::new("."));
/// let node = Node { value: &value, path: "link.a.errors".to_owned(), files: &files };
/// let errors = Errors::read(&node, Limits::ANY).unwrap();
/// let streams = Streams { seed: 1, replication: 0 };
/// let mut process = errors.build(&streams, "link.a.forward").unwrap();
///
/// let lost = (0..5).map(|frame| {
///     let start = Instant::ZERO + Duration::from_millis(1) * frame;
///     process.is_lost(Airtime { start, end: start + Duration::from_millis(1), bits: 8_000 })
/// });
/// assert_eq!(lost.collect::<Vec<_>>(), [false, true, false, true, false]);
/// ```
#[derive(Clone, Debug)]
pub struct Listed {
    /// Numbers of the lost frames, ascending.
    frames: Vec<u64>,
    /// Index of the next loss in the list.
    next: usize,
    /// Number of frames so far.
    count: u64,
}

impl ErrorProcess for Listed {
    #[inline]
    fn is_lost(&mut self, _airtime: Airtime) -> bool {
        self.count += 1;
        let is_lost = self.frames.get(self.next) == Some(&self.count);
        self.next += usize::from(is_lost);
        is_lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use lasthop_base::schema::files::Files;
    use lasthop_base::units::Duration;
    use std::path::Path;

    fn read(lose: &str) -> Result<FrameNumbers, String> {
        let value = serde_json::from_str(lose).expect("JSON");
        let node =
            Node { value: &value, path: "lose".to_owned(), files: &Files::new(Path::new(".")) };
        FrameNumbers::read(&node, Limits::POSITIVE).map_err(|error| error.to_string())
    }

    #[test]
    fn exactly_the_listed_frames_are_lost_whatever_their_size_and_time() {
        let keys =
            ListedKeys { lose: read("[27, 1, 25]").expect("a list"), readable_headers: None };
        for (bits, millis) in [(8, 1), (12_000, 40)] {
            let mut process = keys.build(&STREAMS, "link").expect("a process");
            let airtimes = back_to_back(bits, Duration::from_millis(millis)).take(1000);
            let lost = airtimes.map(|airtime| process.is_lost(airtime));
            let lost: Vec<usize> =
                lost.enumerate().filter_map(|(place, lost)| lost.then_some(place + 1)).collect();
            assert_eq!(lost, [1, 25, 27]);
        }
    }

    #[test]
    fn what_is_no_list_of_frames_is_refused() {
        for (lose, found) in [
            ("[]", "an empty list"),
            ("25", "25"),
            ("[25, 0]", "0"),
            ("[25, -1]", "-1"),
            ("[25, 1.5]", "1.5"),
            ("[25, \"x\"]", "\"x\""),
            ("[25, 27, 25]", "25 twice"),
        ] {
            let message = read(lose).expect_err(lose);
            assert!(message.starts_with(&format!("lose: found {found};")), "{message}");
            assert!(message.contains("a list of different whole numbers"), "{message}");
        }
    }
}
