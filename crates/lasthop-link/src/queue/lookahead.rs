//! Corrections for frames that are counted before they are sent.
//!
//! A computed direction determines the outcome of a packet before its frame starts. A link of a
//! chain is offered packets that have not yet arrived, and a framed radio fills all slots of a
//! frame at its start. They are counted immediately. To correct the counters at the end of a run,
//! this module keeps the newest frames; those that start later are subtracted. Frames that end
//! before the earliest possible end of the run, the *horizon*, are not kept.

use super::QueueCounters;
use crate::channel::Airtime;
use lasthop_base::units::{Duration, ExactTime, Instant, Rate};

/// Initial number of slots, a power of two.
const FIRST_SLOTS: usize = 8;

/// An entry with an end time.
pub trait Ends {
    fn end(&self) -> Instant;
}

impl Ends for Instant {
    #[inline]
    fn end(&self) -> Instant {
        *self
    }
}

/// The newest entries. The oldest entry is overwritten if it has ended; otherwise the buffer grows.
/// Entries that end by the horizon are not stored.
#[derive(Clone, Debug)]
pub struct Newest<T> {
    /// Its length is a power of two.
    slots: Box<[T]>,
    /// Number of entries ever stored; it wraps around.
    count: u32,
    horizon: Instant,
}

impl<T: Copy + Default> Default for Newest<T> {
    /// Without entries.
    fn default() -> Self {
        Newest {
            slots: vec![T::default(); FIRST_SLOTS].into_boxed_slice(),
            count: 0,
            horizon: Instant::ZERO,
        }
    }
}

impl<T: Copy + Default + Ends> Newest<T> {
    /// Sets the horizon: entries that end by then are not stored.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.horizon = horizon;
    }

    /// Stores an entry; the current time is `now`.
    #[inline]
    pub fn put(&mut self, now: Instant, entry: T) {
        if entry.end() <= self.horizon {
            return;
        }
        let mask = self.slots.len() - 1;
        let place = self.count as usize & mask;
        if self.slots[place].end() > now {
            return self.grow(entry);
        }
        self.slots[place] = entry;
        self.count = self.count.wrapping_add(1);
    }

    /// Doubles the buffer; no stored entry has ended.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, entry: T) {
        let mask = self.slots.len() - 1;
        let oldest_first = (0..=mask).map(|index| self.slots[(self.count as usize + index) & mask]);
        let mut slots: Vec<T> = oldest_first.chain([entry]).collect();
        self.count = slots.len() as u32;
        slots.resize(2 * self.slots.len(), T::default());
        self.slots = slots.into_boxed_slice();
    }

    /// All slots. Ended entries may be among them; unused slots contain the default entry, which
    /// ended at the start of the run.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter()
    }
}

/// Outcome of a packet that is counted ahead of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Outcome {
    #[default]
    Dropped,
    Lost,
    Sent,
}

/// A frame, or a packet that is dropped at `start`.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    start: Instant,
    end: Instant,
    bits: u32,
    outcome: Outcome,
}

impl Ends for Entry {
    #[inline]
    fn end(&self) -> Instant {
        self.end
    }
}

/// The newest frames and drops of one direction.
#[derive(Clone, Debug, Default)]
pub struct Ahead {
    entries: Newest<Entry>,
}

impl Ahead {
    /// Sets the horizon: frames that end by then are not kept.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.entries.set_horizon(horizon);
    }

    /// Records a counted frame that is in transmission during `airtime`; the current time is `now`.
    #[inline]
    pub fn send(&mut self, now: Instant, airtime: Airtime, is_lost: bool) {
        let Airtime { start, end, bits } = airtime;
        let outcome = if is_lost { Outcome::Lost } else { Outcome::Sent };
        debug_assert!(bits <= u64::from(u32::MAX), "a frame has at most 64 KiB and its header");
        self.entries.put(now, Entry { start, end, bits: bits as u32, outcome });
    }

    /// Records a counted packet that is dropped at `at` because the queue is full.
    #[inline]
    pub fn refuse(&mut self, now: Instant, at: Instant) {
        let entry = Entry { start: at, end: at, bits: 0, outcome: Outcome::Dropped };
        self.entries.put(now, entry);
    }

    /// Counters of the counted events that occur later than `now`.
    pub fn after(&self, now: Instant) -> QueueCounters {
        let mut after = QueueCounters::default();
        for entry in self.entries.iter().filter(|entry| entry.start > now) {
            let is_frame = entry.outcome != Outcome::Dropped;
            after.drops += u64::from(!is_frame);
            after.frames_sent += u64::from(is_frame);
            after.bits_sent += u64::from(entry.bits);
            after.frames_lost += u64::from(entry.outcome == Outcome::Lost);
        }
        after
    }

    /// Number of bits of the frame in transmission at `now` that are not yet sent.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        let on_air = self.entries.iter().filter(|entry| entry.start <= now && now < entry.end);
        let left = on_air.map(|Entry { start, end, bits, .. }| {
            let share = (*end - now).as_secs_f64() / (*end - *start).as_secs_f64();
            f64::from(*bits) * share
        });
        left.sum()
    }
}

/// Equally spaced departures.
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    first: ExactTime,
    last: Instant,
    count: u32,
    is_spaced: bool,
}

impl Ends for Departures {
    #[inline]
    fn end(&self) -> Instant {
        self.last
    }
}

/// Spacing of a source's frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Bits of a packet and rate of the source.
    pub source: (u64, Rate),
    /// Bits of a frame and rate of the transmitter.
    pub link: (u64, Rate),
}

impl Departures {
    fn at(&self, index: u64, pace: &Pace) -> Instant {
        let (bits, rate) = if self.is_spaced { pace.source } else { pace.link };
        let time = self.first.after(bits * index, rate).instant();
        if !self.is_spaced {
            return time;
        }
        // Every packet finds the transmitter idle, so that its frame starts on a whole nanosecond.
        let (bits, rate) = pace.link;
        ExactTime::from(time).after(bits, rate).instant()
    }

    /// Number of packets that arrive later than `now`, `delay` after they depart.
    fn after(&self, now: Instant, delay: Duration, pace: &Pace) -> u64 {
        let (mut low, mut high) = (0, u64::from(self.count));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle, pace) + delay <= now { low = middle + 1 } else { high = middle }
        }
        u64::from(self.count) - low
    }
}

/// The newest surviving packets of one replayed source, one entry per block.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    entries: Newest<Departures>,
    /// Time from departure to arrival.
    delay: Duration,
    pace: Pace,
}

impl UnderWay {
    /// Without packets.
    pub fn new(delay: Duration, pace: Pace) -> Self {
        UnderWay { entries: Newest::default(), delay, pace }
    }

    /// Sets the horizon: packets that arrive by then are not kept.
    pub fn set_horizon(&mut self, horizon: Instant) {
        self.entries.set_horizon(self.arrived(horizon));
    }

    /// Departure time of packets that arrive at `now`.
    #[inline]
    fn arrived(&self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_sub(self.delay.as_nanos()))
    }

    /// Records a packet that departs at `end`; the current time is `now`.
    #[inline]
    pub fn one(&mut self, now: Instant, end: Instant) {
        let entry = Departures { first: end.into(), last: end, count: 1, is_spaced: false };
        self.entries.put(self.arrived(now), entry);
    }

    /// Records `count` packets that depart back to back, from `first` to `last`.
    #[inline]
    pub fn back_to_back(&mut self, now: Instant, first: ExactTime, last: Instant, count: u64) {
        let entry = Departures { first, last, count: count as u32, is_spaced: false };
        self.entries.put(self.arrived(now), entry);
    }

    /// Records `count` packets that arrive at an idle transmitter at the rate of the source, from
    /// `first` onwards. The last one departs at `last`.
    #[inline]
    pub fn spaced(&mut self, now: Instant, first: ExactTime, last: Instant, count: u64) {
        let entry = Departures { first, last, count: count as u32, is_spaced: true };
        self.entries.put(self.arrived(now), entry);
    }

    /// Number of packets that arrive later than `now`.
    pub fn after(&self, now: Instant) -> u64 {
        let later = |entry: &Departures| entry.after(now, self.delay, &self.pace);
        self.entries.iter().map(later).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn what_starts_later_is_told_and_the_past_forgotten() {
        let mut ahead = Ahead::default();
        for frame in 0..1000 {
            let airtime =
                Airtime { start: nanos(frame * 10), end: nanos(frame * 10 + 10), bits: 7 };
            // Twenty frames ahead of the clock.
            ahead.send(nanos((frame * 10).saturating_sub(200)), airtime, frame % 2 == 0);
        }
        ahead.refuse(nanos(9_800), nanos(9_990));
        ahead.refuse(nanos(9_800), nanos(9_991));
        let after = ahead.after(nanos(9_972));
        assert_eq!(
            (after.drops, after.frames_sent, after.frames_lost, after.bits_sent),
            (2, 2, 1, 14)
        );
        assert_eq!(ahead.after(nanos(9_990)).frames_sent, 0, "a frame that starts now is sent");
        assert_eq!(ahead.after(nanos(9_990)).drops, 1);
        assert!((ahead.unsent_bits(nanos(9_972)) - 5.6).abs() < 1e-9);
        assert_eq!(ahead.entries.iter().count(), 32, "the past is overwritten");
        for frame in 1000..1100 {
            let airtime =
                Airtime { start: nanos(frame * 10), end: nanos(frame * 10 + 10), bits: 7 };
            ahead.send(nanos(9_980), airtime, false);
        }
        assert_eq!(ahead.after(nanos(9_980)).frames_sent, 101, "future frames are kept");
    }

    #[test]
    fn departures_of_a_block_are_counted_one_by_one() {
        // One packet of 2000 bits at 3 Mbps every 666,666.67 ns; frames of 2016 bits at 10 Mbps
        // take 201,600 ns.
        let source = (2000, Rate::from_bps(3_000_000));
        let link = (2016, Rate::from_bps(10_000_000));
        let mut under_way = UnderWay::new(Duration::from_nanos(50), Pace { source, link });
        under_way.spaced(Instant::ZERO, nanos(100).into(), nanos(2_201_700), 4);
        under_way.back_to_back(Instant::ZERO, nanos(3_000_000).into(), nanos(3_201_600), 2);
        under_way.one(Instant::ZERO, nanos(4_000_000));
        let departures = [201_700, 868_366, 1_535_033, 2_201_700, 3_000_000, 3_201_600, 4_000_000];
        for (index, &at) in departures.iter().enumerate() {
            assert_eq!(under_way.after(nanos(at + 49)), 7 - index as u64, "{at}");
            assert_eq!(under_way.after(nanos(at + 50)), 6 - index as u64, "{at}");
        }
    }
}
