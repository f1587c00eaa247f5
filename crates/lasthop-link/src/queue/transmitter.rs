//! The transmitter of one direction of a link: one frame at a time, at a constant rate or one that
//! changes with time.

use super::RateSchedule;
use crate::channel::Airtime;
use lasthop_base::units::{ExactTime, Instant, Rate};

/// When the air is free, and how long frames take.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: Rate,
    free_at: ExactTime,
    /// Length of the frame that was sent last, and at a rate that never changes its exact air time: most
    /// frames have the length of the one before.
    last_bits: u64,
    last_time: ExactTime,
    /// Packets that count as queued while it is busy: the frame on the air, unless it stands in for
    /// something else.
    frames: u64,
    schedule: Option<Box<RateSchedule>>,
}

impl Transmitter {
    /// An idle transmitter.
    pub fn new(rate: Rate) -> Self {
        Transmitter {
            rate,
            free_at: ExactTime::default(),
            last_bits: 0,
            last_time: ExactTime::default(),
            frames: 1,
            schedule: None,
        }
    }

    /// What a queue sees of a server that is no transmitter of its own, such as a station of a WLAN: it
    /// serves `frames` packets of `bytes` in all, headers included, until `until`, at a rate of `rate`
    /// while it serves them.
    pub fn standing_in(rate: Rate, frames: u64, bytes: u64, until: Instant) -> Self {
        let (free_at, last_bits) = (until.into(), bytes * 8);
        Transmitter { free_at, last_bits, frames, ..Transmitter::new(rate) }
    }

    /// The same with a rate that changes; `rate` is what stands for it where one number is asked for.
    pub fn scheduled(rate: Rate, schedule: RateSchedule) -> Self {
        Transmitter { schedule: Some(Box::new(schedule)), ..Transmitter::new(rate) }
    }

    /// Is its rate always the same?
    pub fn is_steady(&self) -> bool {
        self.schedule.is_none()
    }

    /// The highest rate that it ever has.
    pub fn fastest(&self) -> Rate {
        self.schedule.as_ref().map_or(self.rate, |schedule| schedule.fastest())
    }

    /// Bits that it could have sent by then; infinite of an unlimited rate.
    pub fn capacity(&self, until: Instant) -> f64 {
        match &self.schedule {
            Some(schedule) => schedule.capacity(until),
            None if self.rate.is_unlimited() => f64::INFINITY * until.as_secs_f64(),
            None => self.rate.as_bps() as f64 * until.as_secs_f64(),
        }
    }

    /// Its rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// When everything accepted so far has been sent.
    #[inline]
    pub fn free_at(&self) -> ExactTime {
        self.free_at
    }

    /// Bits that have been accepted and are not out at `now`.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        if let Some(schedule) = &self.schedule {
            return schedule.unsent_bits(now, self.free_at.instant());
        }
        let left = self.free_at.instant().saturating_since(now);
        left.as_secs_f64() * self.rate.as_bps() as f64
    }

    /// Is a frame on the air? One that ends now is not.
    #[inline]
    pub fn is_busy(&self, now: Instant) -> bool {
        self.free_at.instant() > now
    }

    /// Length of the frame that was sent last.
    #[inline]
    pub(super) fn last_bits(&self) -> u64 {
        self.last_bits
    }

    /// Packets that it serves now: the frame on the air.
    #[inline]
    pub fn on_air_frames(&self, now: Instant) -> u64 {
        if self.is_busy(now) { self.frames } else { 0 }
    }

    /// Length of the frame on the air in bytes; 0 if there is none.
    #[inline]
    pub fn on_air_bytes(&self, now: Instant) -> u64 {
        if self.is_busy(now) { self.last_bits / 8 } else { 0 }
    }

    /// Sends a frame of `bits` as soon as the air is free, not before `now`. Only back-to-back
    /// frames inherit a fraction of a nanosecond.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, bits: u64) -> Airtime {
        if self.schedule.is_some() {
            return self.send_scheduled(now, bits);
        }
        self.expect(bits);
        if self.is_busy(now) { self.repeat_behind() } else { self.repeat_idle(now) }
    }

    /// Sends a frame of `bytes` with nothing on the air; one of no length takes no time.
    #[inline(always)]
    pub fn send_now(&mut self, now: Instant, bytes: u32) -> Option<Airtime> {
        debug_assert!(!self.is_busy(now), "one frame at a time");
        let bits = u64::from(bytes) * 8;
        if bits == 0 {
            return None;
        }
        if self.schedule.is_some() {
            return Some(self.send_scheduled(now, bits));
        }
        self.expect(bits);
        Some(self.repeat_idle(now))
    }

    /// Frames of `bits` come now; the rate never changes.
    #[inline(always)]
    pub(super) fn expect(&mut self, bits: u64) {
        if bits != self.last_bits {
            self.last_bits = bits;
            self.last_time = ExactTime::default().after(bits, self.rate);
        }
    }

    /// Sends another frame of the same length behind what has been accepted.
    #[inline(always)]
    pub(super) fn repeat_behind(&mut self) -> Airtime {
        self.repeat_from(self.free_at)
    }

    /// Sends another frame of the same length with nothing on the air at `now`; what has just left may
    /// hand its fraction on.
    #[inline(always)]
    pub(super) fn repeat_idle(&mut self, now: Instant) -> Airtime {
        let is_behind = self.free_at.instant() == now;
        let fraction = if is_behind { self.free_at.fraction } else { 0 };
        self.repeat_from(ExactTime { fraction, ..now.into() })
    }

    /// Sends another frame of the same length at `start`.
    #[inline(always)]
    pub(super) fn repeat_from(&mut self, start: ExactTime) -> Airtime {
        debug_assert!(self.is_steady(), "what a frame takes depends on nothing but its length");
        self.free_at = start.plus(self.last_time, self.rate);
        Airtime { start: start.instant(), end: self.free_at.instant(), bits: self.last_bits }
    }

    #[inline(always)]
    fn send_scheduled(&mut self, now: Instant, bits: u64) -> Airtime {
        let (start, end) = self.send_by_schedule(now, bits);
        Airtime { start, end, bits }
    }

    /// The same; two registers hold what it returns.
    #[cold]
    fn send_by_schedule(&mut self, now: Instant, bits: u64) -> (Instant, Instant) {
        let Some(schedule) = &mut self.schedule else { unreachable!("asked for before") };
        let [start, end] = schedule.send(self.free_at, now, bits);
        (self.free_at, self.last_bits) = (end, bits);
        (start.instant(), end.instant())
    }

    /// The air is taken until `end`, behind what has been accepted; the rate never changes.
    #[inline]
    pub(super) fn send_until(&mut self, end: ExactTime) {
        self.free_at = end;
    }

    /// An idle transmitter sends a frame at `start` that takes `time`.
    #[inline]
    pub(super) fn send_at(&mut self, start: Instant, time: ExactTime) {
        self.free_at = ExactTime::from(start).plus(time, self.rate);
    }
}
