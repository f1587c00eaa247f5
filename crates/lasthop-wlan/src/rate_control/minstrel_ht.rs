//! Minstrel-HT, the rate control of Linux for 802.11n and 802.11ac.
//!
//! ```text
//!   every 50 ms:   successes / attempts of each mode -> probability p, by a low pass of second order
//!                  throughput of each mode           -> the four best modes
//!                  among the modes with a high p     -> the most reliable mode
//!
//!   a PPDU without response:   best | second | third | most reliable     two to seven attempts each
//!   at most every 20 ms:       probe, one attempt | best | second | ...
//! ```
//!
//! A group contains the modes with equal numbers of streams, guard interval and width. Probes are of three
//! kinds: the next faster mode of a group (INC), a random faster one (JUMP), and one between the best and the
//! most reliable mode (SLOW).
//!
//! Source: the algorithm of Linux 6.18, `net/mac80211/rc80211_minstrel_ht.c` (its constants are named below); a
//! probe has one MPDU, as with the driver ath9k. The choice of a chain with four stages is that of ath9k.
//!
//! Not modelled: modes of 802.11b, a and g in addition to those of HT and VHT, groups of narrower channels, the
//! limits that drivers set. Linux has no groups of 802.11ax, whose hosts choose modes in their firmware; here,
//! they are treated like those of 802.11ac.

use super::Choice;
use crate::phy::{ControlFrame, Mode, PpduTiming, Timing};
use lasthop_base::rng::Stream;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};

/// Denominator of probabilities (`MINSTREL_SCALE`).
const ONE: i32 = 1 << 12;
/// Coefficients of the low pass, in units of [`ONE`] (`MINSTREL_AVG_COEFF1` to `3`).
const FILTER: [i32; 3] = [1_173, 5_273, -2_350];
/// Interval between updates (HZ / 20).
const UPDATE: Duration = Duration::from_nanos(50_000_000);
/// Minimum interval between probes (HZ / 50).
const PROBE: Duration = Duration::from_nanos(20_000_000);
/// Length of the frame that represents a mode (`AVG_PKT_SIZE`).
const PACKET: Bytes = Bytes::new(1_200);
/// Maximum duration of the attempts of a stage in ns (`segment_size`), and their number.
const STAGE_TIME: u64 = 6_000_000;
const STAGE_ATTEMPTS: u32 = 7;
/// Number of modes that are kept by throughput (`MAX_THR_RATES`).
const BEST: usize = 4;
/// Stages of a chain, and those of them that are chosen by throughput.
const STAGES: usize = 4;
/// Number of probes of each kind that an update selects (`MINSTREL_SAMPLE_RATES`).
const SLOTS: usize = 5;
/// Order of the kinds of probes.
const KINDS: [usize; 6] = [INC, JUMP, INC, JUMP, INC, SLOW];
const INC: usize = 0;
const JUMP: usize = 1;
const SLOW: usize = 2;
/// Attempts in an interval after which a mode with a success probability below 1/4 is replaced.
const SUDDEN_ATTEMPTS: u32 = 30;

/// Contention for the medium, which delays attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// Duration of a slot.
    pub slot: Duration,
    /// Contention window of the first attempt, in slots.
    pub cw_min: u32,
    /// Maximum contention window, in slots.
    pub cw_max: u32,
}

impl From<&Timing> for Contention {
    fn from(timing: &Timing) -> Self {
        Contention { slot: timing.slot, cw_min: timing.cw_min, cw_max: timing.cw_max }
    }
}

/// Statistics of a mode.
#[derive(Clone, Copy, Debug)]
struct Statistics {
    group: u16,
    streams: u8,
    /// Duration of the data of a packet in ns.
    duration: u64,
    /// MPDUs sent and acknowledged since the last update.
    attempts: u32,
    successes: u32,
    /// Whether an MPDU has ever been sent in this mode.
    is_known: bool,
    /// Latest outputs of the low pass; 0: none.
    outputs: [i32; 2],
    /// Success probability in units of [`ONE`].
    p: i32,
}

/// A stage of the chain of a PPDU: a mode and its number of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage {
    mode: u16,
    attempts: u32,
}

/// State of the rate control of one direction.
#[derive(Clone, Debug)]
pub struct MinstrelHt {
    modes: Vec<Statistics>,
    groups: u16,
    contention: Contention,
    /// Duration of an empty frame with its response in ns.
    overhead: u64,
    /// Modes by throughput, the best one first, and the most reliable mode.
    best: [u16; BEST],
    reliable: u16,
    /// Mean number of MPDUs in a PPDU in units of [`ONE`], 0: unknown; MPDUs and PPDUs since the last update.
    length: u32,
    mpdus: [u32; 2],
    updated: Instant,
    probed: Instant,
    /// Modes to be probed, by kind.
    slots: [[Option<u16>; SLOTS]; 3],
    turn: usize,
    /// Group of the latest INC probe.
    inc_group: u16,
    chain: [Stage; STAGES + 1],
    /// Place in the chain, attempts of its stage, and whether the chain began with a probe. `None`: no PPDU is
    /// being attempted.
    place: Option<(usize, u32, bool)>,
    random: Stream,
}

impl MinstrelHt {
    /// Creates the rate control for at least one of `modes`, ordered by group and rate. `random` selects probes.
    pub fn new(modes: &[Mode], timing: PpduTiming, contention: Contention, random: Stream) -> Self {
        debug_assert!(!modes.is_empty(), "there is a mode to choose");
        let key = |mode: &Mode| (mode.streams(), mode.guard_interval(), mode.width());
        let mut groups = 0;
        let mut known: Vec<Statistics> = Vec::with_capacity(modes.len());
        for (place, mode) in modes.iter().enumerate() {
            groups += u16::from(place == 0 || key(&modes[place - 1]) != key(mode));
            let data = timing.duration(*mode, PACKET).as_nanos();
            known.push(Statistics {
                group: groups - 1,
                streams: mode.streams(),
                duration: data.saturating_sub(timing.preamble(*mode).as_nanos()),
                attempts: 0,
                successes: 0,
                is_known: false,
                outputs: [0, 0],
                p: 0,
            });
        }
        let empty = timing.preamble(modes[0]) + modes[0].symbol();
        let ack = timing.band.control_airtime(ControlFrame::Ack, Rate::from_bps(6_000_000));
        let mut this = MinstrelHt {
            modes: known,
            groups,
            contention,
            overhead: (empty + ack).as_nanos(),
            best: [0; BEST],
            reliable: 0,
            length: 0,
            mpdus: [0, 0],
            updated: Instant::ZERO,
            probed: Instant::ZERO,
            slots: [[None; SLOTS]; 3],
            turn: 0,
            inc_group: groups - 1,
            chain: [Stage::default(); STAGES + 1],
            place: None,
            random,
        };
        this.refill();
        this
    }

    /// Returns the index of the mode with the best throughput.
    pub fn best(&self) -> usize {
        self.best[0].into()
    }

    /// Returns the success probability of the mode `mode`, as estimated by the latest update.
    pub fn probability(&self, mode: usize) -> f64 {
        f64::from(self.modes[mode].p) / f64::from(ONE)
    }

    /// Returns the mode of the next attempt: of a PPDU in progress, or of a new one.
    pub fn choose(&mut self, now: Instant) -> Choice {
        let (place, _, has_probe) = match self.place {
            Some(place) => place,
            None => self.begin_chain(now),
        };
        Choice {
            mode: self.chain[place].mode.into(),
            is_probe: has_probe && place == 0,
            is_fallback: place > usize::from(has_probe),
        }
    }

    /// Begins the chain of a new PPDU.
    fn begin_chain(&mut self, now: Instant) -> (usize, u32, bool) {
        let probe = self.next_probe(now);
        let mut length = 0;
        if let Some(mode) = probe {
            self.chain[0] = Stage { mode, attempts: 1 };
            length = 1;
        }
        for stage in 0..STAGES {
            let mode = if stage == STAGES - 1 { self.reliable } else { self.best[stage] };
            self.chain[length] = Stage { mode, attempts: self.attempts_of(mode) };
            length += 1;
        }
        let place = (0, 0, probe.is_some());
        self.place = Some(place);
        // Without a probe, the last place is not used.
        if probe.is_none() {
            self.chain[STAGES].attempts = 0;
        }
        place
    }

    /// Records the result of the attempt in the mode chosen last: a PPDU of `mpdus`, of which the response
    /// acknowledges `acknowledged`; `None`: there was no response.
    pub fn on_result(&mut self, now: Instant, mpdus: u32, acknowledged: Option<u32>) {
        let Some((place, attempts, has_probe)) = self.place else { return };
        let Stage { mode, attempts: most } = self.chain[place];
        let statistics = &mut self.modes[usize::from(mode)];
        statistics.attempts += mpdus;
        statistics.successes += acknowledged.unwrap_or(0).min(mpdus);
        let is_over = place == STAGES || self.chain[place + 1].attempts == 0;
        self.place = match acknowledged {
            None if attempts + 1 < most => Some((place, attempts + 1, has_probe)),
            None if !is_over => Some((place + 1, 0, has_probe)),
            _ => None,
        };
        if self.place.is_none() {
            self.mpdus = [self.mpdus[0] + mpdus, self.mpdus[1] + 1];
            self.replace_dead();
            if now.saturating_since(self.updated) >= UPDATE {
                self.update(now);
            }
        }
    }

    /// Returns the mean number of MPDUs in a PPDU in units of [`ONE`]; before the first PPDUs, an assumption by
    /// the duration of a packet at the best rate.
    fn mean_length(&self) -> u32 {
        if self.length > 0 {
            return self.length;
        }
        let mpdus = match self.modes[self.best()].duration / 1_000 {
            0..=150 => 16,
            151..=250 => 8,
            251..=400 => 4,
            _ => 2,
        };
        mpdus * ONE as u32
    }

    /// Returns the throughput of a mode in packets per ns: 0 below a success probability of 10 %, and 90 % above
    /// it.
    fn throughput(&self, mode: usize) -> f64 {
        let Statistics { p, duration, .. } = self.modes[mode];
        if p < ONE / 10 {
            return 0.0;
        }
        let length = f64::from(self.mean_length()) / f64::from(ONE);
        let time = self.overhead as f64 / length + duration as f64;
        f64::from(p.min(ONE * 9 / 10)) / f64::from(ONE) / time
    }

    /// Updates the statistics and selects the modes of the next interval.
    fn update(&mut self, now: Instant) {
        self.updated = now;
        let [mpdus, ppdus] = std::mem::take(&mut self.mpdus);
        if ppdus > 0 {
            let mean = (u64::from(mpdus) * ONE as u64 / u64::from(ppdus)) as u32;
            self.length = if self.length == 0 { mean } else { (mean + 3 * self.length) / 4 };
        }
        // Modes of which nothing is known have the best probability of the faster ones of their group.
        let (mut group, mut highest) = (u16::MAX, 0);
        for statistics in self.modes.iter_mut().rev() {
            if statistics.group != group {
                (group, highest) = (statistics.group, 0);
            }
            if statistics.attempts > 0 {
                let (attempts, successes) =
                    (statistics.attempts as i32, statistics.successes as i32);
                statistics.p = filter(&mut statistics.outputs, successes * ONE / attempts);
                statistics.is_known = true;
                (statistics.attempts, statistics.successes) = (0, 0);
            } else if !statistics.is_known {
                statistics.p = highest;
            }
            highest = highest.max(statistics.p);
        }
        self.sort();
        self.refill();
    }

    /// Selects the best modes and the most reliable one.
    fn sort(&mut self) {
        let rank = |mode: usize| (self.throughput(mode), self.modes[mode].p);
        let mut best = [0u16; BEST];
        let mut count = 0;
        for mode in 0..self.modes.len() {
            let after = |other: &u16| rank(mode) > rank((*other).into());
            let place = best[..count].iter().position(after).unwrap_or(count);
            if place < BEST {
                count = (count + 1).min(BEST);
                best[place..count].rotate_right(1);
                best[place] = mode as u16;
            }
        }
        let last = best[count - 1];
        best[count..].fill(last);
        self.best = best;
        self.reliable = self.most_reliable();
    }

    /// Returns the most reliable mode: of the best throughput among those with more than 75 % success, otherwise
    /// that with the highest probability; with fewer streams than the best mode, if its throughput is not 0.
    fn most_reliable(&self) -> u16 {
        let top = self.modes[self.best()];
        let is_allowed = |&mode: &usize| {
            let Statistics { duration, p, .. } = self.modes[mode];
            duration >= top.duration || p >= top.p
        };
        let rank = |mode: usize| {
            let p = self.modes[mode].p;
            if p > ONE * 3 / 4 { (ONE, self.throughput(mode)) } else { (p, 0.0) }
        };
        let reliable_of = |is_in: &dyn Fn(&Statistics) -> bool| {
            let of = (0..self.modes.len()).filter(|&mode| is_in(&self.modes[mode]));
            let mut chosen: Option<usize> = None;
            for mode in of.filter(is_allowed) {
                if chosen.is_none_or(|known| rank(mode) > rank(known)) {
                    chosen = Some(mode);
                }
            }
            chosen
        };
        let all = reliable_of(&|_| true).unwrap_or_else(|| self.best());
        let mut reduced: Option<usize> = None;
        for group in 0..self.groups {
            let of = |one: &Statistics| one.group == group && one.streams < top.streams;
            if let Some(mode) = reliable_of(&of)
                && self.throughput(mode) > reduced.map_or(0.0, |known| self.throughput(known))
            {
                reduced = Some(mode);
            }
        }
        reduced.unwrap_or(all) as u16
    }

    /// Returns the number of attempts of a stage: at least 2, more while they take less than 6 ms with backoff.
    fn attempts_of(&self, mode: u16) -> u32 {
        let Statistics { p, duration, .. } = self.modes[usize::from(mode)];
        if p < ONE / 10 {
            return 1;
        }
        if p < ONE / 5 {
            return 2;
        }
        let Contention { slot, cw_min, cw_max } = self.contention;
        let attempt = self.overhead + duration * u64::from(self.mean_length()) / ONE as u64;
        let (mut window, mut time, mut attempts) = (cw_min, 0, 0);
        while attempts < STAGE_ATTEMPTS {
            time += attempt + slot.as_nanos() * u64::from(window) / 2;
            if attempts >= 2 && time >= STAGE_TIME {
                break;
            }
            window = (window.saturating_mul(2) + 1).min(cw_max);
            attempts += 1;
        }
        attempts
    }

    /// Replaces the best and the second mode if they have suddenly become bad.
    fn replace_dead(&mut self) {
        for place in 0..2 {
            let Statistics { attempts, successes, group, streams, .. } =
                self.modes[usize::from(self.best[place])];
            if attempts > SUDDEN_ATTEMPTS && successes * 4 < attempts {
                let below = (0..self.modes.len()).filter(|&mode| {
                    self.modes[mode].group < group && self.modes[mode].streams <= streams
                });
                let nearest = below.clone().map(|mode| self.modes[mode].group).max();
                let of_nearest = below.filter(|&mode| Some(self.modes[mode].group) == nearest);
                let mut chosen = None;
                for mode in of_nearest {
                    if chosen.is_none_or(|known| self.throughput(mode) > self.throughput(known)) {
                        chosen = Some(mode);
                    }
                }
                if let Some(mode) = chosen {
                    self.best[place] = mode as u16;
                }
            }
        }
    }

    /// Selects the modes that are probed until the next update.
    fn refill(&mut self) {
        self.slots = [[None; SLOTS]; 3];
        let duration = |this: &Self, mode: u16| this.modes[usize::from(mode)].duration;
        let fast = duration(self, self.best[0]);
        let slow = duration(self, self.best[1]).max(duration(self, self.reliable));
        for slot in 0..SLOTS {
            self.slots[INC][slot] = self.next_inc(fast);
        }
        for slot in 0..SLOTS {
            let faster = |one: &Statistics| one.duration < fast;
            self.slots[JUMP][slot] = self.random_mode(JUMP, &faster);
            let slower = |one: &Statistics| {
                one.duration > fast && one.duration <= slow && one.p <= ONE * 95 / 100
            };
            self.slots[SLOW][slot] = self.random_mode(SLOW, &slower);
        }
    }

    /// Returns the slowest mode of the next group that is faster than `fast` and not yet selected.
    fn next_inc(&mut self, fast: u64) -> Option<u16> {
        for step in 1..=self.groups {
            let group = (self.inc_group + step) % self.groups;
            let modes = (0..).zip(&self.modes);
            let faster = modes.filter(|(_, one)| one.group == group && one.duration < fast);
            let slowest = faster.max_by_key(|(_, one)| one.duration).map(|(mode, _)| mode);
            if let Some(mode) = slowest
                && !self.slots[INC].contains(&Some(mode))
            {
                self.inc_group = group;
                return Some(mode);
            }
        }
        None
    }

    /// Returns a random mode with a property that is not yet selected for probes of `kind`.
    fn random_mode(&mut self, kind: usize, has: &dyn Fn(&Statistics) -> bool) -> Option<u16> {
        let known = self.slots[kind];
        let is_free = |&(mode, one): &(u16, &Statistics)| has(one) && !known.contains(&Some(mode));
        let free = (0..).zip(&self.modes).filter(is_free);
        let count = free.clone().count();
        if count == 0 {
            return None;
        }
        let place = (self.random.uniform() * count as f64) as usize;
        free.map(|(mode, _)| mode).nth(place)
    }

    /// Returns the mode to be probed now, if a probe is due.
    fn next_probe(&mut self, now: Instant) -> Option<u16> {
        if now.saturating_since(self.probed) < PROBE {
            return None;
        }
        self.probed = now;
        let kind = KINDS[self.turn];
        self.turn = (self.turn + 1) % KINDS.len();
        let slot = self.slots[kind].iter().position(Option::is_some)?;
        self.slots[kind][slot].take()
    }
}

/// Returns the output of the low pass for `input`, and stores it.
fn filter(outputs: &mut [i32; 2], input: i32) -> i32 {
    let input = input.max(1);
    let [first, second] = *outputs;
    if first == 0 {
        *outputs = [input, input];
        return input;
    }
    let sum = FILTER[0] * input + FILTER[1] * first + FILTER[2] * second;
    let output = (sum / ONE).clamp(1, ONE);
    *outputs = [output, first];
    output
}

#[cfg(test)]
mod tests;
