//! The originator of a block-ack agreement: MPDUs that are not yet acknowledged.
//!
//! ```text
//!              send                     acknowledged
//!   +---------+ ------------> +------+ --------------> gone
//!   | pending |               | sent |
//!   +---------+ <------------ +------+
//!        |      not acknowledged
//!        +-----> gone: attempts or lifetime exhausted; a request then moves the recipient's window
//! ```

use super::{BlockAck, MAX_WINDOW, make_room};
use lasthop_base::units::Instant;

/// State of a number of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Acknowledged.
    #[default]
    Gone,
    /// Discarded, while a lower number is outstanding.
    Skipped,
    /// To be sent, for the first time or again.
    Pending,
    /// Part of the PPDU in transmission.
    Sent,
}

/// An MPDU of the window.
#[derive(Clone, Debug)]
pub struct Outstanding<P> {
    state: State,
    /// Its packets: one, or several as an A-MSDU.
    pub packets: Vec<P>,
    /// Its length in bytes, FCS included.
    pub bytes: u32,
    /// Number of its transmissions.
    pub attempts: u32,
    /// Time at which its lifetime ends.
    pub expires: Instant,
    /// Whether the recipient has received its latest transmission: known to the medium, not to the
    /// originator.
    pub is_received: bool,
    /// Whether at least the header of its latest transmission was readable.
    pub is_header_readable: bool,
}

/// Result of the transmission of an MPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged.
    Acknowledged,
    /// Not acknowledged; it remains in the window.
    Retrying {
        /// Whether it has been transmitted once.
        is_first: bool,
    },
    /// Discarded after the maximum number of attempts.
    Abandoned,
    /// Discarded at the end of its lifetime.
    Expired,
}

/// Conditions for discarding an MPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveUp {
    /// Maximum number of attempts, at least 1.
    pub attempts: u32,
    /// The current time, with which lifetimes are compared.
    pub now: Instant,
}

/// The originator's window.
#[derive(Clone, Debug)]
pub struct Originator<P> {
    /// A power of two of slots; that of a number is its remainder.
    slots: Vec<Outstanding<P>>,
    /// Packets of an MPDU for which all slots have room.
    room: usize,
    window: u64,
    /// S: the lowest outstanding number, or `next`.
    start: u64,
    /// Number of the next new MPDU.
    next: u64,
    /// Outstanding MPDUs.
    count: u32,
    /// Whether the window has moved past a discarded MPDU, for which the recipient may wait.
    owes_request: bool,
}

impl<P> Originator<P> {
    /// Creates the originator of an agreement with a window of 1 to [`MAX_WINDOW`] MPDUs.
    pub fn new(window: u16) -> Self {
        let slot = || Outstanding {
            state: State::Gone,
            packets: Vec::new(),
            bytes: 0,
            attempts: 0,
            expires: Instant::ZERO,
            is_received: false,
            is_header_readable: false,
        };
        let window = window.clamp(1, MAX_WINDOW);
        let slots = (0..window.next_power_of_two()).map(|_| slot()).collect();
        let window = window.into();
        Originator { slots, room: 0, window, start: 0, next: 0, count: 0, owes_request: false }
    }

    /// Returns the length of the window, W.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Returns S, the lowest number that is outstanding or new.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of the next new MPDU.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of MPDUs that are neither acknowledged nor discarded.
    pub fn outstanding(&self) -> u32 {
        self.count
    }

    /// Returns `true` if the window has room for a new MPDU.
    pub fn is_open(&self) -> bool {
        self.next < self.start + self.window()
    }

    fn slot(&self, number: u64) -> &Outstanding<P> {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    fn slot_mut(&mut self, number: u64) -> &mut Outstanding<P> {
        let mask = self.slots.len() - 1;
        &mut self.slots[number as usize & mask]
    }

    /// Appends a new MPDU of `bytes` with `packets`, which is discarded at the time `expires`. Returns its number.
    /// The window must be open.
    pub fn push(
        &mut self,
        bytes: u32,
        expires: Instant,
        packets: impl ExactSizeIterator<Item = P>,
    ) -> u64 {
        debug_assert!(self.is_open(), "a new MPDU has a number within the window");
        if packets.len() > self.room {
            let lists = self.slots.iter_mut().map(|slot| &mut slot.packets);
            self.room = make_room(lists, packets.len());
        }
        let number = self.next;
        self.next += 1;
        self.count += 1;
        let slot = self.slot_mut(number);
        (slot.state, slot.bytes, slot.attempts, slot.expires) = (State::Pending, bytes, 0, expires);
        (slot.is_received, slot.is_header_readable) = (false, false);
        slot.packets.clear();
        slot.packets.extend(packets);
        number
    }

    /// Returns the lowest pending number from `from` on.
    pub fn pending(&self, from: u64) -> Option<u64> {
        (from.max(self.start)..self.next).find(|&number| self.slot(number).state == State::Pending)
    }

    /// Returns an outstanding MPDU.
    pub fn mpdu(&self, number: u64) -> &Outstanding<P> {
        debug_assert!((self.start..self.next).contains(&number), "a number of the window");
        self.slot(number)
    }

    /// Makes a pending MPDU part of the next PPDU.
    pub fn select(&mut self, number: u64) {
        let slot = self.slot_mut(number);
        debug_assert_eq!(slot.state, State::Pending, "an MPDU is selected once");
        slot.state = State::Sent;
        (slot.is_received, slot.is_header_readable) = (false, false);
    }

    /// Calls `each` with the number and the MPDU for all MPDUs of the PPDU, in order.
    pub fn for_each_selected(&mut self, mut each: impl FnMut(u64, &mut Outstanding<P>)) {
        for number in self.start..self.next {
            let slot = self.slot_mut(number);
            if slot.state == State::Sent {
                each(number, slot);
            }
        }
    }

    /// Returns the PPDU's MPDUs to the window without an attempt: the PPDU was not sent.
    pub fn unselect(&mut self) {
        for slot in &mut self.slots {
            if slot.state == State::Sent {
                slot.state = State::Pending;
            }
        }
    }

    /// Processes the response to a PPDU or a request; `None`: there was no response. Calls `each` with the
    /// fate of every MPDU of the PPDU, of other MPDUs that the response acknowledges, and of MPDUs whose
    /// lifetime has ended. The attempts of the PPDU's MPDUs have been counted.
    pub fn on_response(
        &mut self,
        response: Option<&BlockAck>,
        limits: GiveUp,
        mut each: impl FnMut(u64, &Outstanding<P>, Fate),
    ) {
        for number in self.start..self.next {
            let slot = self.slot_mut(number);
            let is_sent = slot.state == State::Sent;
            let is_transmitted = is_sent || (slot.state == State::Pending && slot.attempts > 0);
            let fate = match response {
                Some(response) if is_transmitted && response.acknowledges(number) => {
                    Fate::Acknowledged
                }
                _ if is_sent && slot.attempts >= limits.attempts => Fate::Abandoned,
                _ if is_sent => Fate::Retrying { is_first: slot.attempts == 1 },
                _ => continue,
            };
            slot.state = match fate {
                Fate::Acknowledged => State::Gone,
                Fate::Retrying { .. } => State::Pending,
                Fate::Abandoned | Fate::Expired => State::Skipped,
            };
            each(number, slot, fate);
            self.count -= u32::from(!matches!(fate, Fate::Retrying { .. }));
        }
        self.expire(limits, each);
    }

    /// Discards pending MPDUs whose lifetime has ended, and moves the window to the lowest outstanding
    /// number.
    pub fn expire(&mut self, limits: GiveUp, mut each: impl FnMut(u64, &Outstanding<P>, Fate)) {
        if self.count > 0 {
            for number in self.start..self.next {
                let slot = self.slot_mut(number);
                if slot.state == State::Pending && slot.expires <= limits.now {
                    slot.state = State::Skipped;
                    each(number, slot, Fate::Expired);
                    self.count -= 1;
                }
            }
        }
        while self.start < self.next {
            match self.slot(self.start).state {
                State::Gone => {}
                State::Skipped => self.owes_request = true,
                State::Pending | State::Sent => break,
            }
            self.start += 1;
        }
    }

    /// Returns the start of the request that tells the recipient not to wait for discarded MPDUs; `None` if
    /// it is not needed. A window of one MPDU needs none: the next MPDU moves the recipient's window.
    pub fn request(&self) -> Option<u64> {
        (self.owes_request && self.window > 1).then_some(self.start)
    }

    /// Records that the recipient has answered a request, or that the originator has aborted it.
    pub fn end_request(&mut self) {
        self.owes_request = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block_ack::Recipient;
    use lasthop_base::units::Duration;
    use proptest::prelude::*;

    const NEVER: GiveUp = GiveUp { attempts: u32::MAX, now: Instant::ZERO };

    /// Sends all pending MPDUs, at most `most`, after new ones have filled the window up to `last`.
    fn send(originator: &mut Originator<u64>, most: usize, last: u64) -> Vec<u64> {
        while originator.is_open() && originator.next() < last {
            let number = originator.next();
            originator.push(100, Instant::NEVER, std::iter::once(number));
        }
        let mut sent = Vec::new();
        let mut from = 0;
        while let Some(number) = originator.pending(from).filter(|_| sent.len() < most) {
            originator.select(number);
            sent.push(number);
            from = number + 1;
        }
        originator.for_each_selected(|_, mpdu| mpdu.attempts += 1);
        sent
    }

    fn ack(start: u64, bits: u64) -> BlockAck {
        BlockAck { start, bitmap: [bits, 0, 0, 0] }
    }

    fn fates(
        originator: &mut Originator<u64>,
        response: Option<&BlockAck>,
        limits: GiveUp,
    ) -> Vec<(u64, Fate)> {
        let mut fates = Vec::new();
        originator.on_response(response, limits, |number, _, fate| fates.push((number, fate)));
        fates
    }

    /// A window of 4. 0 to 3 are sent, 1 and 3 are lost; the retries go first, and new MPDUs follow up to
    /// S + W = 5. 1 is lost again: the window stalls after 4.
    #[test]
    fn holes_at_the_head_stop_new_mpdus() {
        let mut originator = Originator::new(4);
        assert_eq!(send(&mut originator, 9, 100), [0, 1, 2, 3]);
        let first = Fate::Retrying { is_first: true };
        let got = fates(&mut originator, Some(&ack(0, 0b0101)), NEVER);
        let done = Fate::Acknowledged;
        assert_eq!(got, [(0, done), (1, first), (2, done), (3, first)]);
        assert_eq!((originator.start(), originator.outstanding()), (1, 2));
        assert_eq!(send(&mut originator, 9, 100), [1, 3, 4]);
        let got = fates(&mut originator, Some(&ack(1, 0b1100)), NEVER);
        assert_eq!(got, [(1, Fate::Retrying { is_first: false }), (3, done), (4, done)]);
        assert_eq!(send(&mut originator, 9, 100), [1]);
        fates(&mut originator, Some(&ack(1, 0b1111)), NEVER);
        assert_eq!((originator.start(), originator.next()), (5, 5));
        assert_eq!(originator.request(), None);
    }

    /// A BlockAck is lost; the next PPDU contains two of the four MPDUs, and its BlockAck acknowledges all.
    #[test]
    fn a_later_block_ack_acknowledges_what_an_earlier_one_did() {
        let mut originator = Originator::new(8);
        send(&mut originator, 4, 4);
        fates(&mut originator, None, NEVER);
        assert_eq!(send(&mut originator, 2, 4), [0, 1]);
        let got = fates(&mut originator, Some(&ack(0, 0b1111)), NEVER);
        assert_eq!(got.len(), 4);
        assert_eq!((originator.start(), originator.outstanding()), (4, 0));
    }

    /// Two attempts. 1 is discarded while 0 was acknowledged: the window moves to 2 with a request. 3 is discarded
    /// behind the outstanding 2: the request follows when 2 is acknowledged.
    #[test]
    fn a_request_follows_when_the_window_passes_a_discarded_mpdu() {
        let limits = GiveUp { attempts: 2, now: Instant::ZERO };
        let mut originator = Originator::new(4);
        assert_eq!(send(&mut originator, 9, 2), [0, 1]);
        fates(&mut originator, Some(&ack(0, 0b01)), limits);
        assert_eq!(send(&mut originator, 1, 2), [1]);
        assert_eq!(fates(&mut originator, None, limits), [(1, Fate::Abandoned)]);
        assert_eq!(originator.request(), Some(2));
        originator.end_request();
        assert_eq!(send(&mut originator, 9, 4), [2, 3]);
        fates(&mut originator, None, limits);
        let slot = originator.slot_mut(2);
        slot.attempts = 0;
        send(&mut originator, 9, 4);
        let got = fates(&mut originator, None, limits);
        assert_eq!(got, [(2, Fate::Retrying { is_first: true }), (3, Fate::Abandoned)]);
        assert_eq!(originator.request(), None);
        send(&mut originator, 9, 4);
        fates(&mut originator, Some(&ack(2, 0b01)), limits);
        assert_eq!((originator.request(), originator.start()), (Some(4), 4));
    }

    #[test]
    fn lifetimes_end_between_transmissions() {
        let mut originator = Originator::new(4);
        originator.push(100, Instant::from_nanos(10), std::iter::once(0));
        originator.push(100, Instant::from_nanos(20), std::iter::once(1));
        let mut expired = Vec::new();
        let limits = GiveUp { attempts: 7, now: Instant::from_nanos(10) };
        originator.expire(limits, |number, _, fate| expired.push((number, fate)));
        assert_eq!(expired, [(0, Fate::Expired)]);
        assert_eq!((originator.start(), originator.request()), (1, Some(1)));
    }

    proptest! {
        /// Whatever the losses of MPDUs, BlockAcks and requests: packets arrive in order and once, and each is
        /// acknowledged, or was discarded after its attempts. Without a limit, all arrive.
        #[test]
        fn packets_arrive_in_order_and_once(
            window in 1u16..=256,
            most in 1usize..=80,
            attempts in prop_oneof![Just(u32::MAX), 1u32..6],
            losses in prop::collection::vec(any::<u8>(), 1..400),
            threshold in 0u8..200,
        ) {
            const LAST: u64 = 500;
            let mut originator = Originator::new(window);
            let mut recipient = Recipient::new(window, Duration::from_nanos(1));
            let mut draws = losses.iter().cycle().enumerate();
            let mut is_lost = || {
                let (place, &draw) = draws.next().unwrap();
                // The last draws of a long run are never lost, so that it ends.
                place < 20_000 && draw.wrapping_mul(place as u8 | 1) < threshold
            };
            let limits = GiveUp { attempts, now: Instant::ZERO };
            let (mut passed, mut abandoned) = (Vec::new(), Vec::new());
            while originator.next() < LAST || originator.outstanding() > 0 {
                if let Some(start) = originator.request()
                    && !is_lost()
                {
                    recipient.on_request(start, |number, _| passed.push(number));
                    if !is_lost() {
                        originator.end_request();
                    }
                    continue;
                }
                send(&mut originator, most, LAST);
                let mut is_answered = false;
                let mut arrived = Vec::new();
                originator.for_each_selected(|number, mpdu| {
                    if !is_lost() {
                        arrived.push((number, mpdu.packets.clone()));
                        is_answered = true;
                    }
                });
                for (number, packets) in arrived {
                    recipient.on_mpdu(Instant::ZERO, number, &packets, |number, packet| {
                        assert_eq!(number, packet);
                        passed.push(number);
                    });
                }
                let response = (is_answered && !is_lost()).then(|| recipient.block_ack());
                originator.on_response(response.as_ref(), limits, |number, _, fate| {
                    if fate == Fate::Abandoned {
                        abandoned.push(number);
                    }
                });
                prop_assert!(originator.next() - originator.start() <= window.into());
            }
            recipient.on_request(LAST, |number, _| passed.push(number));
            prop_assert!(passed.is_sorted_by(|one, other| one < other), "{passed:?}");
            let missing: Vec<_> = (0..LAST).filter(|number| !passed.contains(number)).collect();
            prop_assert!(missing.iter().all(|number| abandoned.contains(number)), "{missing:?}");
            prop_assert!(attempts < u32::MAX || missing.is_empty());
        }
    }
}
