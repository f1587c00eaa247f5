//! Bytes of packets in transit, to which descriptors refer by number.
//!
//! A [`Descriptor`](super::Descriptor) is `Copy`: links store, retransmit and lose copies, so
//! reference counts are impossible. Bytes are therefore stored once, in a table of slots with
//! generations. The first copy that is delivered removes them. A later copy refers to an earlier
//! generation of the slot and yields no bytes, like a duplicate discarded by the receiver. The
//! bytes of lost packets are freed after two maximum segment lifetimes.
//!
//! ```text
//!   put --> number = generation, slot --> descriptor ... descriptor --> take --> free, generation + 1
//! ```
//!
//! Trailing zeros are not stored, since simulated payloads consist mainly of zeros.

use crate::units::{Duration, Instant};
use std::collections::VecDeque;

/// Time after which bytes belong to a lost packet: two maximum segment lifetimes (RFC 9293, section
/// 3.4.2).
const LIFETIME: Duration = Duration::from_secs(240);

/// Storage of one packet.
#[derive(Clone, Debug, Default)]
struct Slot {
    generation: u32,
    is_used: bool,
    /// The bytes without trailing zeros.
    bytes: Vec<u8>,
    length: usize,
}

/// The bytes of packets in transit. Memory is reused, and allocated only when the number of packets
/// reaches a new maximum.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Numbers in the order of [`Self::put`], with the time of the call.
    order: VecDeque<(Instant, u64)>,
}

impl Buffers {
    /// Creates an empty table.
    pub fn new() -> Self {
        Buffers::default()
    }

    /// Stores the bytes of a packet that is sent at `now`. Returns its number, for
    /// [`Descriptor::numbered`](super::Descriptor::numbered).
    pub fn put(&mut self, now: Instant, bytes: &[u8]) -> u64 {
        while let Some(&(since, number)) = self.order.front()
            && (now.saturating_since(since) > LIFETIME || !self.is_stored(number))
        {
            self.order.pop_front();
            self.release(number);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[place as usize];
        let end = length_without_zeros(bytes);
        slot.bytes.clear();
        slot.bytes.extend_from_slice(&bytes[..end]);
        (slot.length, slot.is_used) = (bytes.len(), true);
        let number = u64::from(slot.generation) << 32 | u64::from(place);
        self.order.push_back((now, number));
        number
    }

    /// Appends the bytes with this number to `into` and frees them. Returns `false` if another copy
    /// of the packet was delivered before.
    pub fn take(&mut self, number: u64, into: &mut Vec<u8>) -> bool {
        if !self.is_stored(number) {
            return false;
        }
        let Slot { bytes, length, .. } = &self.slots[place(number)];
        let end = into.len() + length;
        into.extend_from_slice(bytes);
        into.resize(end, 0);
        self.release(number);
        true
    }

    /// Returns the number of packets whose bytes are stored.
    pub fn stored(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn is_stored(&self, number: u64) -> bool {
        let slot = self.slots.get(place(number));
        slot.is_some_and(|slot| slot.is_used && slot.generation == (number >> 32) as u32)
    }

    fn release(&mut self, number: u64) {
        if self.is_stored(number) {
            let slot = &mut self.slots[place(number)];
            (slot.generation, slot.is_used) = (slot.generation.wrapping_add(1), false);
            self.free.push(place(number) as u32);
        }
    }
}

/// Returns the length without trailing zeros. Whole words are compared first.
fn length_without_zeros(bytes: &[u8]) -> usize {
    const WORD: usize = 32;
    let words = bytes.rchunks_exact(WORD).take_while(|word| **word == [0; WORD]).count();
    let rest = &bytes[..bytes.len() - words * WORD];
    rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Returns the slot of a number.
fn place(number: u64) -> usize {
    number as u32 as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken(buffers: &mut Buffers, number: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        buffers.take(number, &mut bytes).then_some(bytes)
    }

    #[test]
    fn only_the_first_copy_finds_its_bytes() {
        let mut buffers = Buffers::new();
        let first = buffers.put(Instant::ZERO, &[1, 0, 2, 0, 0]);
        assert_eq!(taken(&mut buffers, first), Some(vec![1, 0, 2, 0, 0]));
        assert_eq!(taken(&mut buffers, first), None);
        // The slot is reused; the late copy does not refer to the new bytes.
        let second = buffers.put(Instant::ZERO, &[0; 3]);
        assert_eq!((first as u32, buffers.slots.len()), (second as u32, 1));
        assert_eq!(taken(&mut buffers, first), None);
        assert_eq!(taken(&mut buffers, second), Some(vec![0; 3]));
        assert_eq!(taken(&mut buffers, 7 << 32 | 9), None);
    }

    #[test]
    fn bytes_of_lost_packets_are_freed() {
        let mut buffers = Buffers::new();
        for second in 0..10_000 {
            let number = buffers.put(Instant::ZERO + Duration::from_secs(second), &[1; 100]);
            // Every second packet is lost.
            assert!(second % 2 == 0 || taken(&mut buffers, number).is_some());
        }
        assert!((120..=122).contains(&buffers.stored()), "{}", buffers.stored());
        assert!(buffers.order.len() <= 242 && buffers.slots.len() <= 122);
    }

    proptest! {
        #[test]
        fn each_packet_gets_its_own_bytes(
            packets in prop::collection::vec((prop::collection::vec(0u8..3, 0..20), 0usize..8), 1..60),
        ) {
            let mut buffers = Buffers::new();
            let mut sent: Vec<(u64, Vec<u8>)> = Vec::new();
            for (bytes, next) in packets {
                sent.push((buffers.put(Instant::ZERO, &bytes), bytes));
                if next < sent.len() {
                    let (number, bytes) = sent.swap_remove(next);
                    prop_assert_eq!(taken(&mut buffers, number), Some(bytes));
                    prop_assert_eq!(taken(&mut buffers, number), None);
                }
                prop_assert_eq!(buffers.stored(), sent.len());
            }
        }
    }
}
