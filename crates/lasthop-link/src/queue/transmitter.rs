//! The transmitter of one direction of a link: one frame at a time, at a constant or time-varying
//! rate.

use super::RateSchedule;
use crate::channel::Airtime;
use lasthop_base::units::{Duration, ExactTime, Instant, Rate};

/// The transmission rate, and the time at which the transmitter becomes idle.
#[derive(Clone, Debug)]
pub struct Transmitter {
    rate: Rate,
    free_at: ExactTime,
    /// Length of the last frame in bits and, at a constant rate, its exact transmission time. The
    /// previous frame usually has the same length.
    last_bits: u64,
    last_time: ExactTime,
    /// Packets that count as queued while the transmitter is busy: 1 for the frame in transmission;
    /// other servers may count several, see [`Self::standing_in`].
    frames: u64,
    schedule: Option<Box<RateSchedule>>,
}

impl Transmitter {
    /// Creates an idle transmitter.
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

    /// Represents, for a queue, a server that is not a transmitter, such as a station of a WLAN. It
    /// serves `frames` packets, `bytes` in total with headers, until `until`. Its service rate is
    /// `rate`.
    pub fn standing_in(rate: Rate, frames: u64, bytes: u64, until: Instant) -> Self {
        let (free_at, last_bits) = (until.into(), bytes * 8);
        Transmitter { free_at, last_bits, frames, ..Transmitter::new(rate) }
    }

    /// Creates an idle transmitter with a time-varying rate. `rate` is its single representative
    /// value.
    pub fn scheduled(rate: Rate, schedule: RateSchedule) -> Self {
        Transmitter { schedule: Some(Box::new(schedule)), ..Transmitter::new(rate) }
    }

    /// Returns `true` if the rate is constant.
    pub fn is_steady(&self) -> bool {
        self.schedule.is_none()
    }

    /// The maximum of the rate over time.
    pub fn fastest(&self) -> Rate {
        self.schedule.as_ref().map_or(self.rate, |schedule| schedule.fastest())
    }

    /// Number of bits that can be sent from the start until `until`; infinite for an unlimited
    /// rate.
    pub fn capacity(&self, until: Instant) -> f64 {
        match &self.schedule {
            Some(schedule) => schedule.capacity(until),
            None if self.rate.is_unlimited() => f64::INFINITY * until.as_secs_f64(),
            None => self.rate.as_bps() as f64 * until.as_secs_f64(),
        }
    }

    /// The rate; for a time-varying rate, its representative value.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Time at which all accepted frames have been sent.
    #[inline]
    pub fn free_at(&self) -> ExactTime {
        self.free_at
    }

    /// Number of accepted bits that are not yet sent at `now`.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        if let Some(schedule) = &self.schedule {
            return schedule.unsent_bits(now, self.free_at.instant());
        }
        let left = self.free_at.instant().saturating_since(now);
        left.as_secs_f64() * self.rate.as_bps() as f64
    }

    /// Returns `true` if a frame is in transmission; `false` if it ends at `now`.
    #[inline]
    pub fn is_busy(&self, now: Instant) -> bool {
        self.free_at.instant() > now
    }

    /// Length of the last frame in bits.
    #[inline]
    pub(super) fn last_bits(&self) -> u64 {
        self.last_bits
    }

    /// Packets that are being served at `now` and count as queued.
    #[inline]
    pub fn on_air_frames(&self, now: Instant) -> u64 {
        if self.is_busy(now) { self.frames } else { 0 }
    }

    /// Length in bytes of the frame in transmission, 0 if the transmitter is idle.
    #[inline]
    pub fn on_air_bytes(&self, now: Instant) -> u64 {
        if self.is_busy(now) { self.last_bits / 8 } else { 0 }
    }

    /// Sends a frame of `bits` after all accepted frames, not before `now`. Only a frame sent back
    /// to back inherits a fraction of a nanosecond.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, bits: u64) -> Airtime {
        if self.schedule.is_some() {
            return self.send_scheduled(now, bits);
        }
        self.expect(bits);
        if self.is_busy(now) { self.repeat_behind() } else { self.repeat_idle(now) }
    }

    /// Sends a frame of `bytes` on an idle transmitter. An empty frame takes no time.
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

    /// Prepares for frames of `bits`. The rate must be constant.
    #[inline(always)]
    pub(super) fn expect(&mut self, bits: u64) {
        if bits != self.last_bits {
            self.last_bits = bits;
            self.last_time = ExactTime::default().after(bits, self.rate);
        }
    }

    /// Sends another frame of the same length after all accepted frames.
    #[inline(always)]
    pub(super) fn repeat_behind(&mut self) -> Airtime {
        self.repeat_from(self.free_at)
    }

    /// Sends another frame of the same length on a transmitter that is idle at `now`. If the last
    /// frame ends at `now`, its fraction of a nanosecond is inherited.
    #[inline(always)]
    pub(super) fn repeat_idle(&mut self, now: Instant) -> Airtime {
        let is_behind = self.free_at.instant() == now;
        let fraction = if is_behind { self.free_at.fraction } else { 0 };
        self.repeat_from(ExactTime { fraction, ..now.into() })
    }

    /// Sends another frame of the same length, starting at `start`.
    #[inline(always)]
    pub(super) fn repeat_from(&mut self, start: ExactTime) -> Airtime {
        debug_assert!(self.is_steady(), "the rate must be constant");
        self.free_at = start.plus(self.last_time, self.rate);
        Airtime { start: start.instant(), end: self.free_at.instant(), bits: self.last_bits }
    }

    #[inline(always)]
    fn send_scheduled(&mut self, now: Instant, bits: u64) -> Airtime {
        let (start, end) = self.send_by_schedule(now, bits);
        Airtime { start, end, bits }
    }

    /// Like [`Self::send_scheduled`], but the result fits into two registers.
    #[cold]
    fn send_by_schedule(&mut self, now: Instant, bits: u64) -> (Instant, Instant) {
        let Some(schedule) = &mut self.schedule else {
            unreachable!("only called with a schedule")
        };
        let [start, end] = schedule.send(self.free_at, now, bits);
        (self.free_at, self.last_bits) = (end, bits);
        (start.instant(), end.instant())
    }

    /// Continues at the rate of `other` from `now`. A frame in transmission continues at the new
    /// rate.
    pub fn replace(&mut self, now: Instant, other: Transmitter) {
        let left = self.unsent_bits(now).round() as u64;
        let (bits, frames, free_at) = (self.last_bits, self.frames, self.free_at);
        *self = Transmitter { frames, ..other };
        if free_at.instant() > now {
            self.send(now, left.max(1));
        } else {
            self.free_at = free_at;
        }
        match self.is_steady() {
            true => self.expect(bits),
            false => self.last_bits = bits,
        }
    }

    /// Pauses the transmission from `now` for `time`, after other pauses.
    pub fn pause(&mut self, now: Instant, time: Duration) {
        let end = self.free_at.instant().max(now) + time;
        let fraction = if self.is_busy(now) { self.free_at.fraction } else { 0 };
        self.free_at = ExactTime { fraction, ..end.into() };
    }

    /// Occupies the transmitter until `end`, after all accepted frames. The rate must be constant.
    #[inline]
    pub(super) fn send_until(&mut self, end: ExactTime) {
        self.free_at = end;
    }

    /// Sends a frame of duration `time` at `start` on an idle transmitter.
    #[inline]
    pub(super) fn send_at(&mut self, start: Instant, time: ExactTime) {
        self.free_at = ExactTime::from(start).plus(time, self.rate);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RateSchedule, RateSteps};
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn mbps(rate: u64) -> Rate {
        Rate::from_bps(rate * 1_000_000)
    }

    #[test]
    fn a_frame_in_transmission_continues_at_the_new_rate() {
        // 1250 B are 10 ms at 1 Mbps. After 4 ms, the other 6 kbit take 3 ms at 2 Mbps.
        let mut transmitter = Transmitter::new(mbps(1));
        transmitter.send(ms(0), 10_000);
        transmitter.replace(ms(4), Transmitter::new(mbps(2)));
        assert_eq!(transmitter.free_at().instant(), ms(7));
        assert_eq!(transmitter.on_air_bytes(ms(5)), 1_250);
        assert_eq!(transmitter.send(ms(8), 10_000).end, ms(13));
        // Steps have the times of the run: 500 kbps from 20 ms on.
        let steps = [(0, mbps(1)), (20_000_000, Rate::from_bps(500_000))];
        let steps = RateSchedule::Steps(RateSteps::new(steps.into(), None));
        transmitter.replace(ms(15), Transmitter::scheduled(mbps(1), steps));
        assert_eq!(transmitter.send(ms(18), 10_000).end, ms(36));
    }

    #[test]
    fn pauses_add_up() {
        let mut transmitter = Transmitter::new(mbps(1));
        transmitter.send(ms(0), 10_000);
        transmitter.pause(ms(4), Duration::from_millis(20));
        transmitter.pause(ms(5), Duration::from_millis(1));
        assert_eq!(transmitter.free_at().instant(), ms(31));
        // An idle transmitter is busy during the pause.
        transmitter.pause(ms(40), Duration::from_millis(5));
        assert!(transmitter.is_busy(ms(44)) && !transmitter.is_busy(ms(45)));
    }
}
