//! Block acknowledgment of IEEE 802.11: the window of an originator, and the scoreboard and reorder
//! buffer of a recipient, as sans-IO machines.
//!
//! ```text
//!   originator   | acknowledged or given up | S ... outstanding ... | next | ... S + W |
//!   recipient    | passed up                | B  held  hole  held           ... B + W |
//! ```
//!
//! The originator sends MPDUs with numbers in [S, S+W). S is the lowest number that is neither
//! acknowledged nor given up: a hole at the head of the window stops new MPDUs. The recipient passes MPDUs
//! up in the order of their numbers. An MPDU above its window, or a BlockAck request, moves the window and
//! ends the wait for the numbers below it.
//!
//! Sequence numbers are those on the air without their reduction modulo 4096: they never wrap around, and
//! both ends begin with 0.
//!
//! Source: IEEE Std 802.11-2020, 10.25.6 (HT-immediate block ack): 10.25.6.3 scoreboard, 10.25.6.6 reorder
//! buffer, 10.25.6.7 originator. The release after a time is that of Linux (`net/mac80211/rx.c`,
//! HT_RX_REORDER_BUF_TIMEOUT, 100 ms).
//!
//! Not modelled: the setup of an agreement (it exists from the start), delayed block ack, multi-TID and
//! multi-station forms, and partial-state scoreboards.

mod originator;
mod recipient;

pub use originator::{Fate, GiveUp, Originator, Outstanding};
pub use recipient::{Receipt, Recipient};

/// Maximum number of MPDUs in a window: the bits of the longest bitmap.
pub const MAX_WINDOW: u16 = 256;

/// Number of words of the longest bitmap.
const WORDS: usize = MAX_WINDOW as usize / 64;

/// Gives each of the `lists` of a window, one for each place, room for an MPDU of `packets`. All lists grow together, to
/// a power of two, so that a window allocates only for an MPDU longer than all before. Returns the room.
#[cold]
fn make_room<'a, P: 'a>(lists: impl Iterator<Item = &'a mut Vec<P>>, packets: usize) -> usize {
    let room = packets.next_power_of_two();
    lists.for_each(|list| list.reserve_exact(room - list.len()));
    room
}

/// Content of a BlockAck: which MPDUs have been received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockAck {
    /// Sequence number of the first bit.
    pub start: u64,
    /// Bit n of the bitmap, the lowest of its word first, states that number `start` + n has been received.
    pub bitmap: [u64; WORDS],
}

impl BlockAck {
    /// Returns `true` if the BlockAck acknowledges `number`. The recipient no longer accepts numbers below the
    /// start; they count as acknowledged.
    #[inline]
    pub fn acknowledges(&self, number: u64) -> bool {
        let Some(bit) = number.checked_sub(self.start) else { return true };
        bit < u64::from(MAX_WINDOW) && self.bitmap[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    /// Records that `number` has been received. If it is not below the start plus `window`, the bitmap then
    /// ends with it.
    #[inline]
    pub fn mark(&mut self, number: u64, window: u64) {
        self.advance((number + 1).saturating_sub(window));
        if let Some(bit) = number.checked_sub(self.start).filter(|&bit| bit < window) {
            self.bitmap[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    /// Moves the start to `start`, if it is lower.
    #[inline]
    pub fn advance(&mut self, start: u64) {
        if start > self.start {
            self.shift(start - self.start);
        }
    }

    fn shift(&mut self, steps: u64) {
        self.start += steps;
        let (words, bits) = (steps / 64, steps % 64);
        let old = self.bitmap;
        let word = |place: u64| old.get(place as usize).copied().unwrap_or_default();
        for (place, new) in (words..).zip(&mut self.bitmap) {
            *new = match bits {
                0 => word(place),
                _ => word(place) >> bits | word(place + 1) << (64 - bits),
            };
        }
    }
}
