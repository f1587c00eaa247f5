//! The recipient of a block-ack agreement: its scoreboard, from which BlockAcks are made, and its reorder
//! buffer, from which MPDUs are passed up in order.
//!
//! ```text
//!   number       below B       B ... B + W - 1     B + W ... B + 2047
//!   MPDU         old: dropped  held, or a copy     window ends with it, holes below are skipped
//!   request      nothing       window begins with it, holes below are skipped
//! ```

use super::{BlockAck, MAX_WINDOW, make_room};
use lasthop_base::units::{Duration, Instant};

/// Result of the reception of an MPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Passed up immediately.
    Passed,
    /// Held until lower numbers have arrived.
    Held,
    /// Received before, or no longer wanted.
    Duplicate,
}

/// A number of the reorder buffer.
#[derive(Clone, Debug)]
struct Held<P> {
    packets: Vec<P>,
    is_there: bool,
    /// Time of its arrival.
    since: Instant,
}

/// The recipient's scoreboard and reorder buffer.
#[derive(Clone, Debug)]
pub struct Recipient<P> {
    /// A power of two of slots; that of a number is its remainder.
    slots: Vec<Held<P>>,
    /// Packets of an MPDU for which all slots have room.
    room: usize,
    window: u64,
    /// B: the lowest number that is still expected.
    next: u64,
    /// MPDUs in the reorder buffer.
    held: u32,
    scoreboard: BlockAck,
    /// Maximum time in the reorder buffer.
    timeout: Duration,
}

impl<P: Clone> Recipient<P> {
    /// Creates the recipient of an agreement with a window of 1 to [`MAX_WINDOW`] MPDUs, which holds an MPDU
    /// for at most `timeout`.
    pub fn new(window: u16, timeout: Duration) -> Self {
        let slot = || Held { packets: Vec::new(), is_there: false, since: Instant::ZERO };
        let window = window.clamp(1, MAX_WINDOW);
        let slots = (0..window.next_power_of_two()).map(|_| slot()).collect();
        let window = window.into();
        let scoreboard = BlockAck::default();
        Recipient { slots, room: 0, window, next: 0, held: 0, scoreboard, timeout }
    }

    /// Returns B, the lowest number that is still expected.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of MPDUs in the reorder buffer.
    pub fn held(&self) -> u32 {
        self.held
    }

    fn slot(&mut self, number: u64) -> &mut Held<P> {
        let mask = self.slots.len() - 1;
        &mut self.slots[number as usize & mask]
    }

    /// Announces that `last` is the highest number of a PPDU that is received without errors, so that its MPDUs move
    /// the scoreboard once.
    pub fn expect(&mut self, last: u64) {
        self.scoreboard.advance((last + 1).saturating_sub(self.window));
    }

    /// Processes an MPDU received without errors. Calls `up` with the packets that are passed up.
    pub fn on_mpdu(
        &mut self,
        now: Instant,
        number: u64,
        packets: &[P],
        mut up: impl FnMut(u64, P),
    ) -> Receipt {
        self.scoreboard.mark(number, self.window);
        if number < self.next {
            return Receipt::Duplicate;
        }
        if number >= self.next + self.window {
            self.move_to(number + 1 - self.window, &mut up);
            self.release(&mut up);
        }
        if number == self.next {
            packets.iter().for_each(|packet| up(number, packet.clone()));
            self.next += 1;
            self.release(&mut up);
            return Receipt::Passed;
        }
        if packets.len() > self.room {
            let lists = self.slots.iter_mut().map(|slot| &mut slot.packets);
            self.room = make_room(lists, packets.len());
        }
        let slot = self.slot(number);
        if slot.is_there {
            return Receipt::Duplicate;
        }
        (slot.is_there, slot.since) = (true, now);
        slot.packets.clear();
        slot.packets.extend_from_slice(packets);
        self.held += 1;
        Receipt::Held
    }

    /// Processes a BlockAck request, which states that the originator has
    /// finished with all numbers below `start`.
    pub fn on_request(&mut self, start: u64, mut up: impl FnMut(u64, P)) {
        self.scoreboard.advance(start);
        self.move_to(start, &mut up);
        self.release(&mut up);
    }

    /// Passes up everything below `start`, from which the window then begins.
    fn move_to(&mut self, start: u64, up: &mut impl FnMut(u64, P)) {
        while self.next < start {
            if self.held == 0 {
                self.next = start;
                return;
            }
            self.pass(up);
        }
    }

    /// Passes up the MPDUs at the start of the window without holes.
    fn release(&mut self, up: &mut impl FnMut(u64, P)) {
        while self.held > 0 && self.slot(self.next).is_there {
            self.pass(up);
        }
    }

    /// Moves the window by one number, and passes up its MPDU, if any.
    fn pass(&mut self, up: &mut impl FnMut(u64, P)) {
        let number = self.next;
        self.next += 1;
        let slot = self.slot(number);
        if std::mem::take(&mut slot.is_there) {
            slot.packets.drain(..).for_each(|packet| up(number, packet));
            self.held -= 1;
        }
    }

    /// Returns the content of a BlockAck.
    pub fn block_ack(&self) -> BlockAck {
        self.scoreboard
    }

    /// Returns the time at which the reorder buffer stops waiting for its lowest hole.
    pub fn deadline(&self) -> Option<Instant> {
        let mask = self.slots.len() - 1;
        let slot = |number: u64| &self.slots[number as usize & mask];
        let mut held = (self.next..self.next + self.window).map(slot).filter(|slot| slot.is_there);
        let first = if self.held == 0 { None } else { held.next() };
        first.map(|slot| slot.since + self.timeout)
    }

    /// Skips holes for which the reorder buffer has waited long enough.
    pub fn on_timeout(&mut self, now: Instant, mut up: impl FnMut(u64, P)) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            while !self.slot(self.next).is_there {
                self.next += 1;
            }
            self.release(&mut up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_nanos(100);

    /// Number of an MPDU or start of a request, the packets passed up, and B afterwards.
    type Step = (Option<u64>, Option<u64>, &'static [u64], u64);

    fn run(window: u16, steps: &[Step]) -> Recipient<u64> {
        let mut recipient = Recipient::new(window, TIMEOUT);
        for &(mpdu, request, expected, next) in steps {
            let mut passed = Vec::new();
            let up = |number, packet| {
                assert_eq!(number, packet);
                passed.push(number);
            };
            match (mpdu, request) {
                (Some(number), _) => {
                    recipient.on_mpdu(Instant::ZERO, number, &[number], up);
                }
                (None, Some(start)) => recipient.on_request(start, up),
                (None, None) => {}
            }
            assert_eq!((passed.as_slice(), recipient.next()), (expected, next), "{mpdu:?}");
        }
        recipient
    }

    /// A window of 4: 1 is missing until its retransmission; the old 0 and the copy of 3 are dropped.
    #[test]
    fn a_hole_holds_what_is_behind_it() {
        let mpdu = |number| Some(number);
        let recipient = run(
            4,
            &[
                (mpdu(0), None, &[0], 1),
                (mpdu(2), None, &[], 1),
                (mpdu(3), None, &[], 1),
                (mpdu(3), None, &[], 1),
                (mpdu(0), None, &[], 1),
                (mpdu(1), None, &[1, 2, 3], 4),
            ],
        );
        assert_eq!(recipient.held(), 0);
    }

    /// The window has 4 numbers and starts at 1; 2 and 3 are held. MPDU 5 moves its start to 2: 1 is skipped,
    /// 2 and 3 are delivered. A BlockAckReq with start 8 delivers 5 and 6 despite the gaps before them; one with
    /// an earlier start has no effect.
    #[test]
    fn the_window_moves_past_holes() {
        run(
            4,
            &[
                (Some(0), None, &[0], 1),
                (Some(2), None, &[], 1),
                (Some(3), None, &[], 1),
                (Some(5), None, &[2, 3], 4),
                (Some(6), None, &[], 4),
                (None, Some(8), &[5, 6], 8),
                (None, Some(3), &[], 8),
                (Some(7), None, &[], 8),
                (Some(9), None, &[], 8),
                (None, Some(9), &[9], 10),
                (Some(5_000), None, &[], 4_997),
                (None, Some(5_000), &[5_000], 5_001),
            ],
        );
    }

    /// Numbers 0 and 2 of a window of 64, then 300: the scoreboard begins with 300 - 63 = 237.
    #[test]
    fn the_scoreboard_ends_with_the_highest_number() {
        let mut recipient = Recipient::new(64, TIMEOUT);
        let mut on = |number: u64| {
            recipient.on_mpdu(Instant::ZERO, number, &[number], |_, _| {});
            recipient.block_ack()
        };
        on(0);
        assert_eq!(on(2), BlockAck { start: 0, bitmap: [0b101, 0, 0, 0] });
        let last = on(300);
        assert_eq!(last, BlockAck { start: 237, bitmap: [1 << 63, 0, 0, 0] });
        assert!(last.acknowledges(300) && !last.acknowledges(299) && last.acknowledges(236));
        assert_eq!(on(250), BlockAck { start: 237, bitmap: [1 << 63 | 1 << 13, 0, 0, 0] });
    }

    /// 1 is missing; 2 arrives at 10, 4 at 50: released at 110 and 150.
    #[test]
    fn a_held_mpdu_waits_for_a_limited_time() {
        let mut recipient = Recipient::new(8, TIMEOUT);
        let at = Instant::from_nanos;
        let mut passed = Vec::new();
        recipient.on_mpdu(at(0), 0, &[0], |_, _| {});
        assert_eq!(recipient.deadline(), None);
        assert_eq!(recipient.on_mpdu(at(10), 2, &[2], |_, _| {}), Receipt::Held);
        recipient.on_mpdu(at(50), 4, &[4], |_, _| {});
        assert_eq!(recipient.deadline(), Some(at(110)));
        recipient.on_timeout(at(109), |number, _| passed.push(number));
        assert!(passed.is_empty());
        recipient.on_timeout(at(110), |number, _| passed.push(number));
        assert_eq!((passed.as_slice(), recipient.next()), (&[2][..], 3));
        assert_eq!(recipient.deadline(), Some(at(150)));
        assert_eq!(recipient.on_mpdu(at(120), 1, &[1], |_, _| {}), Receipt::Duplicate);
    }
}
