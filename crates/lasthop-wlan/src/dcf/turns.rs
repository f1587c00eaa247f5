//! The direction that a station with block-ack agreements serves next, and the packets that it takes from its
//! queues. Part of the [medium](super::medium).
//!
//! A station serves the direction whose oldest packet it took from its queue first. An A-MPDU takes packets of
//! one receiver from the queue and sets those of others aside, up to [`MOST_WAITING`] in total. Directions
//! may instead have queues of their own, which the station serves in turn or with equal air time.

use super::medium::Medium;
use super::report::{Outcome, PairId};
use super::session::{QUANTUM, Scheduler};
use super::station::Waiting;
use crate::block_ack::GiveUp;
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::Instant;
use lasthop_link::queue::Queue;

/// Maximum number of packets that a station has taken from its queue for other receivers than that of the
/// current PPDU: the transmit buffers of Linux's ath9k (ATH_TXBUF).
pub(super) const MOST_WAITING: u32 = 512;

impl<P: Payload + Clone> Medium<P> {
    /// Selects the direction that a station serves next. Returns `false` if there is nothing to send.
    #[inline(never)]
    pub(super) fn take_turn(&mut self, now: Instant, index: u16) -> bool {
        if self.stations[usize::from(index)].scheduler != Scheduler::Fifo {
            return self.take_turn_of_queues(now, index);
        }
        let mut best: Option<(Instant, u32)> = None;
        for place in 0..self.stations[usize::from(index)].directions.len() {
            let pair = self.stations[usize::from(index)].directions[place];
            let mut oldest = self.session(pair).oldest();
            if oldest.is_some_and(|oldest| oldest <= now && oldest > Instant::ZERO) {
                self.expire(now, pair);
                oldest = self.session(pair).oldest();
            }
            if let Some(oldest) = oldest
                && best.is_none_or(|(first, _)| oldest < first)
            {
                best = Some((oldest, pair));
            }
        }
        let turn = best.map(|(_, pair)| pair).or_else(|| self.pull(now, index, None));
        self.stations[usize::from(index)].turn = turn;
        turn.is_some()
    }

    /// Takes packets from the queues of a station's directions into its driver, as far as it has room.
    #[cold]
    pub(super) fn feed_driver(&mut self, now: Instant, index: u16) {
        let station = usize::from(index);
        let driver = self.stations[station].driver;
        let time_in_mac = |this: &mut Self, place: usize| {
            let pair = this.stations[station].directions[place];
            this.session(pair).time_in_mac()
        };
        let count = self.stations[station].directions.len();
        let mut all: u64 = (0..count).map(|place| time_in_mac(self, place)).sum();
        for place in 0..count {
            let pair = self.stations[station].directions[place];
            loop {
                let session = self.session(pair);
                let (own, time) = (session.in_mac[0], session.time_in_mac());
                let is_empty = session.queue.as_ref().is_none_or(Queue::is_empty);
                if is_empty || !driver.has_room(own, time, all) {
                    break;
                }
                if self.pull(now, index, Some(pair)).is_none() {
                    break;
                }
                all += self.session(pair).time_in_mac() - time;
            }
        }
    }

    /// Selects the next one of several queues. The first direction of the list is next while its deficit is
    /// not negative; otherwise it receives a quantum and becomes the last. With turns, a direction becomes the
    /// last when it has been served.
    fn take_turn_of_queues(&mut self, now: Instant, index: u16) -> bool {
        let station = usize::from(index);
        let count = self.stations[station].directions.len();
        // Directions without anything to send, in a row.
        let mut idle = 0;
        while idle < count {
            let Some(&pair) = self.stations[station].directions.front() else { break };
            if self.session(pair).oldest().is_some_and(|oldest| oldest <= now) {
                self.expire(now, pair);
            }
            let session = self.session(pair);
            let has_work = session.has_work();
            if has_work && session.deficit >= 0 {
                // The queue may drop all its packets.
                if session.oldest().is_some() || self.pull(now, index, Some(pair)).is_some() {
                    self.stations[station].turn = Some(pair);
                    if self.stations[station].scheduler == Scheduler::RoundRobin {
                        self.stations[station].directions.rotate_left(1);
                    }
                    return true;
                }
                continue;
            }
            if has_work {
                session.deficit += QUANTUM;
            }
            idle = if has_work { 0 } else { idle + 1 };
            self.stations[station].directions.rotate_left(1);
        }
        self.stations[station].turn = None;
        false
    }

    /// Discards packets of a direction whose lifetime has ended.
    pub(super) fn expire(&mut self, now: Instant, pair: u32) {
        let session = self.session(pair);
        let limits = GiveUp { attempts: session.parameters.attempts, now };
        let (session, mut fates) = self.respond(pair);
        session.originator.expire(limits, |_, mpdu, fate| fates.record(mpdu, fate));
        fates.settle(&mut session.in_mac);
        while self.session(pair).waiting.front().is_some_and(|&(expires, _)| expires <= now) {
            let Some((_, packet)) = self.session(pair).waiting.pop_front() else { break };
            let from = usize::from(self.pairs[pair as usize].from);
            self.pairs[pair as usize].counters.expired += 1;
            let bytes = self.stations[from].leave_mac(&packet);
            let [packets, total] = &mut self.session(pair).in_mac;
            (*packets, *total) = (*packets - 1, *total - bytes);
            if self.pairs[pair as usize].keeps_outcomes {
                let (pair, fate) = (PairId(pair), DeliveryReport::Abandoned);
                let packet = packet.packet;
                self.outcomes.push_back(Outcome { pair, fate, packet });
            }
        }
    }

    /// Takes the next packet from the queue of a station, or from that of one of its directions. Returns its
    /// direction.
    pub(super) fn pull(&mut self, now: Instant, index: u16, direction: Option<u32>) -> Option<u32> {
        let (packet, _) = self.take_packet(now, index, direction)?;
        let pair = packet.pair;
        let session = self.session(pair);
        session.waiting.push_back((now + session.parameters.lifetime, packet));
        Some(pair)
    }

    /// Takes the next packet from the queue of a station, or from that of one of its directions, into the MAC.
    /// Returns it with its length with header.
    pub(super) fn take_packet(
        &mut self,
        now: Instant,
        index: u16,
        direction: Option<u32>,
    ) -> Option<(Waiting<P>, u64)> {
        let own = direction.filter(|&pair| self.session(pair).queue.is_some());
        let next = match own {
            Some(pair) => {
                let next = self.session(pair).queue.as_mut().and_then(|queue| queue.dequeue(now));
                self.count_dropped_by(pair);
                next
            }
            None => {
                let next = self.stations[usize::from(index)].dequeue(now);
                self.count_dropped(index);
                next
            }
        };
        let packet = next?;
        let pair = packet.pair;
        let bytes = self.stations[usize::from(index)].enter_mac(&packet);
        let session = self.session(pair);
        session.in_mac = [session.in_mac[0] + 1, session.in_mac[1] + bytes];
        Some((packet, bytes))
    }

    /// Returns `true` if a packet number `place` of a direction waits for a number, if necessary taken from
    /// the queue.
    pub(super) fn has_waiting(
        &mut self,
        now: Instant,
        index: u16,
        pair: u32,
        place: usize,
    ) -> bool {
        while self.session(pair).waiting.len() <= place {
            let is_full = self.stations[usize::from(index)].waiting >= MOST_WAITING;
            let is_full = is_full && self.session(pair).queue.is_none();
            if is_full || self.pull(now, index, Some(pair)).is_none() {
                return false;
            }
        }
        true
    }
}
