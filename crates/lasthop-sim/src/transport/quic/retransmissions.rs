//! Retransmissions of stream data by an end, and which of them are spurious.
//!
//! A packet is a retransmission if one of its STREAM frames begins with a byte that was sent before; the
//! first such byte represents it. Of the transmissions of this byte, in transmission order, let k be the
//! first that ever arrives. Retransmissions after k are spurious, as for TCP (RFC 3522, section 1).
//!
//! ```text
//!   sent --lost, or probed--> retransmitted --arrival of an earlier transmission--> spurious
//! ```

use std::collections::BTreeMap;

/// Number of retransmitted bytes at which old ones are removed for the first time.
const FIRST_LIMIT: usize = 1_024;
/// Number of packets after which the arrival of an earlier transmission is no longer awaited.
const MAX_AGE: u64 = 65_536;

/// A retransmitted byte.
#[derive(Clone, Debug)]
struct Byte {
    /// Numbers of the packets that retransmit it, in ascending order.
    packets: Vec<u64>,
    /// Lowest number of the packets with this byte that have arrived; 0 if the original is one of
    /// them, `u64::MAX` before the first arrival.
    arrived: u64,
}

/// The retransmissions of one end.
#[derive(Clone, Debug, Default)]
pub(super) struct Retransmissions {
    /// For each stream, one more than the highest offset sent.
    sent: Vec<u64>,
    /// Retransmitted bytes, by stream and offset.
    bytes: BTreeMap<(usize, u64), Byte>,
    /// Number of bytes at which old ones are removed.
    limit: usize,
    count: u64,
    spurious: u64,
}

impl Retransmissions {
    /// Returns the number of packets with retransmitted data.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of spurious retransmissions.
    pub fn spurious(&self) -> u64 {
        self.spurious
    }

    /// Records that packet `number` contains bytes of a stream; `has_arrived` returns whether a byte has
    /// arrived at the peer. Returns `true` if the packet is a retransmission; the other frames of such a
    /// packet are passed to [`Self::on_data`].
    pub fn on_sent(
        &mut self,
        number: u64,
        (stream, offset, length): (usize, u64, u64),
        has_arrived: impl FnOnce() -> bool,
    ) -> bool {
        if !self.on_data((stream, offset, length)) {
            return false;
        }
        self.count += 1;
        let byte = self.bytes.entry((stream, offset)).or_insert_with(|| Byte {
            packets: Vec::new(),
            arrived: if has_arrived() { 0 } else { u64::MAX },
        });
        byte.packets.push(number);
        self.spurious += u64::from(byte.arrived < number);
        if self.bytes.len() >= self.limit.max(FIRST_LIMIT) {
            let is_young =
                |byte: &Byte| byte.packets.last().is_some_and(|last| last + MAX_AGE > number);
            self.bytes.retain(|_, byte| is_young(byte));
            self.limit = 2 * self.bytes.len();
        }
        true
    }

    /// Records that bytes of a stream are sent. Returns `true` if the first one was sent before.
    pub fn on_data(&mut self, (stream, offset, length): (usize, u64, u64)) -> bool {
        if stream >= self.sent.len() {
            self.sent.resize(stream + 1, 0);
        }
        let sent = &mut self.sent[stream];
        let is_repeated = offset < *sent;
        *sent = (*sent).max(offset + length);
        is_repeated
    }

    /// Records that packet `number` with these bytes of a stream arrives at the peer.
    pub fn on_arrival(&mut self, number: u64, (stream, offset, length): (usize, u64, u64)) {
        if self.bytes.last_key_value().is_none_or(|(last, _)| *last < (stream, offset)) {
            return;
        }
        for byte in self.bytes.range_mut((stream, offset)..(stream, offset + length)) {
            let Byte { packets, arrived } = byte.1;
            if number < *arrived {
                let later = packets.iter().filter(|&&other| number < other && other <= *arrived);
                self.spurious += later.count() as u64;
                *arrived = number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Transmissions of one byte in the packets 1, 2, 3 …, and whether and when each arrives: at
    /// the end of a packet's time.
    fn spurious(arrivals: &[Option<u64>]) -> u64 {
        let mut known = Retransmissions::default();
        let mut has_arrived = false;
        for now in 1..=30 {
            let number = now as usize;
            if number <= arrivals.len() {
                let is_repeated = known.on_sent(now, (0, 100, 50), || has_arrived);
                assert_eq!(is_repeated, number > 1);
            }
            for (sent, at) in arrivals.iter().enumerate() {
                if *at == Some(now) {
                    // The original is packet 1.
                    known.on_arrival(sent as u64 + 1, (0, 100, 50));
                    has_arrived = true;
                }
            }
        }
        assert_eq!(known.count(), arrivals.len() as u64 - 1);
        known.spurious()
    }

    #[test]
    fn the_table_of_the_documentation_holds() {
        // docs/applications.md, Spurious retransmissions.
        assert_eq!(spurious(&[None, Some(5)]), 0);
        assert_eq!(spurious(&[Some(5), None]), 1);
        assert_eq!(spurious(&[Some(5), Some(4)]), 1);
        assert_eq!(spurious(&[Some(1), Some(4)]), 1);
        assert_eq!(spurious(&[None, None, Some(5)]), 0);
        assert_eq!(spurious(&[None, Some(9), None]), 1);
        assert_eq!(spurious(&[Some(9), None, None]), 2);
        assert_eq!(spurious(&[None, None, None]), 0);
    }

    proptest! {
        #[test]
        fn transmissions_after_the_first_that_arrives_are_spurious(
            delays in prop::collection::vec(prop::option::of(0u64..20), 2..8),
        ) {
            let arrivals: Vec<_> = delays.iter().zip(1..).map(|(delay, sent)| delay.map(|by| sent + by)).collect();
            let first = arrivals.iter().position(Option::is_some);
            let expected = first.map_or(0, |first| arrivals.len() - 1 - first);
            prop_assert_eq!(spurious(&arrivals), expected as u64);
        }
    }
}
