//! Saturated 802.11 DCF: n stations that always have a frame to send and all hear each other (G. Bianchi).
//!
//! A station draws 0 to CW_i slots before attempt i = 0, 1, … R - 1, CW_i = min(2^i (CW_0 + 1) - 1,
//! CW_max), and gives a frame up after R attempts. All is decided by τ, the probability that a station
//! transmits in a slot, and p, that somebody else does:
//!
//! p = 1 - (1 - τ)^(n-1)
//!
//! *Bianchi's chain* (`Counting::Always`): counters go down in every slot, busy ones too. With
//! f_i = p^i, the chance that attempt i is made,
//!
//! τ = Σ f_i / Σ f_i (1 + CW_i / 2)
//! S = P_1 L / ((1 - τ)^n σ + P_1 T_s + P_c T_c),  P_1 = n τ (1 - τ)^(n-1),  P_c = 1 - (1 - τ)^n - P_1
//!
//! *Counters that freeze* (`Counting::Idle`), as in the standard: a counter goes down for each idle slot
//! only. So after a busy time nobody can transmit before an idle slot has passed but those who transmitted
//! last and have drawn 0, and they meet nobody. Counted in idle slots and the transmissions that may follow
//! each of them, with z_i = 1 / (CW_i + 1):
//!
//! f_0 = 1,  f_(i+1) = f_i (1 - z_i) p,  τ = Σ f_i (1 - z_i) / Σ f_i CW_i / 2
//! A = n τ Σ f_i z_i / Σ f_i (1 - z_i)      attempts at once for each idle slot
//! S = (P_1 + A) L / (σ + (P_1 + A) T_s + P_c T_c)
//!
//! Delay of a frame that gets through, from the time when it is the first of its queue to its
//! acknowledgment: the slots that its attempts wait for, in mean slots (Chatzimisios et al.), but for its
//! own attempts at once.
//! Stations are alike and take turns at random, so that the mean of Jain's index over w frames is about
//! w / (w + n - 1).
//!
//! Sources: G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE
//! JSAC 18 (3), 2000; H. Wu et al., "Performance of reliable transport protocol over IEEE 802.11 wireless
//! LAN", INFOCOM 2002 (finite retry limits); P. Chatzimisios, A. C. Boucouvalas, V. Vitsas, "Packet delay
//! analysis of the IEEE 802.11 MAC protocol", 2003; counters that freeze: after G. Bianchi, I. Tinnirello,
//! "Remarks on IEEE 802.11 DCF performance analysis", IEEE Communications Letters 9 (8), 2005. Fairness:
//! C. E. Koksal, H. Kassab, H. Balakrishnan, "An analysis of short-term fairness in wireless media access
//! protocols", SIGMETRICS 2000.
//!
//! *Not modelled*: noise, queues that run empty, stations that do not hear each other, two stations that
//! collide and both draw 0, dependence between the stations' counters.

use super::{AnalysisError, Result, count, positive};
use lasthop_base::units::{Bytes, Duration, Rate};
use lasthop_wlan::dcf::{Phy, Timing, frames};

/// When the counter of a back-off goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// In every slot, as in Bianchi's chain of 2000.
    Always,
    /// In idle slots only, as in the standard.
    Idle,
}

/// Stations, windows and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saturation {
    stations: u32,
    cw_min: u32,
    cw_max: u32,
    limit: Option<u32>,
    counting: Counting,
}

/// Times of the medium in seconds, and what a frame carries in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// An idle slot.
    pub slot: f64,
    /// From the start of a successful exchange to the next slot that counts.
    pub success: f64,
    /// The same of a collision.
    pub collision: f64,
    /// Bits that a frame carries and that count for throughput.
    pub payload: f64,
}

/// What a saturated medium does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    model: Saturation,
    /// Probability that a station transmits in a slot.
    pub transmission: f64,
    /// Probability that an attempt after back-off meets another one, p.
    pub contention: f64,
    /// Share of all attempts that collide.
    pub collision: f64,
    /// Share of frames that are given up.
    pub drop: f64,
    /// Attempts without back-off for each idle slot, of all stations.
    at_once: f64,
}

/// Attempts that are told apart where there is no limit: beyond, what is left is below any rounding.
const STAGES: u32 = 4_096;

impl Saturation {
    /// `stations` of contention windows from `cw_min` to `cw_max` that give a frame up after `limit`
    /// attempts, or never.
    ///
    /// # Errors
    /// If there is no station, `cw_min` is 0 or above `cw_max`, or nothing may be attempted.
    pub fn new(
        stations: u32,
        [cw_min, cw_max]: [u32; 2],
        limit: Option<u32>,
        counting: Counting,
    ) -> Result<Self> {
        count("stations", stations, 1..=65_536)?;
        count("cw_min", cw_min, 1..=65_535)?;
        if !(cw_min..=1 << 20).contains(&cw_max) {
            let allowed = format!("a whole number from cw_min, {cw_min}, to 1048576");
            return Err(AnalysisError::new("cw_max", cw_max, allowed));
        }
        if let Some(limit) = limit {
            count("limit", limit, 1..=STAGES)?;
        }
        Ok(Saturation { stations, cw_min, cw_max, limit, counting })
    }

    /// The contention windows of the attempts.
    fn windows(&self) -> impl Iterator<Item = f64> {
        let double = |cw: &u32| Some(cw.saturating_mul(2).saturating_add(1).min(self.cw_max));
        let windows = std::iter::successors(Some(self.cw_min), double);
        windows.take(self.limit.unwrap_or(STAGES) as usize).map(f64::from)
    }

    /// Sums over the attempts if one after back-off meets another with probability `p`: attempts after
    /// back-off, attempts at once, slots, and how often the frame is given up.
    fn sums(&self, p: f64) -> [f64; 4] {
        let (mut chance, mut after, mut at_once, mut slots) = (1.0, 0.0, 0.0, 0.0);
        for cw in self.windows() {
            match self.counting {
                Counting::Always => {
                    after += chance;
                    slots += chance * (1.0 + cw / 2.0);
                    chance *= p;
                }
                Counting::Idle => {
                    let zero = 1.0 / (cw + 1.0);
                    after += chance * (1.0 - zero);
                    at_once += chance * zero;
                    slots += chance * cw / 2.0;
                    chance *= (1.0 - zero) * p;
                }
            }
            if chance < 1e-18 {
                break;
            }
        }
        [after, at_once, slots, chance]
    }

    /// Solves for τ and p.
    ///
    /// # Errors
    /// None for what [`Self::new`] takes; kept for models that need not have a solution.
    pub fn solve(&self) -> Result<Saturated> {
        let transmission = |p: f64| {
            let [after, _, slots, _] = self.sums(p);
            // With two slots to choose from, a station that waits transmits in the next one.
            (after / slots).min(1.0)
        };
        let others = self.stations as i32 - 1;
        let meets = |p: f64| 1.0 - (1.0 - transmission(p)).powi(others);
        // The left side grows and the right side falls with p.
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if meets(middle) > middle { low = middle } else { high = middle }
        }
        let contention = if others == 0 { 0.0 } else { 0.5 * (low + high) };
        let [after, at_once, _, drop] = self.sums(contention);
        let transmission = transmission(contention);
        Ok(Saturated {
            model: *self,
            transmission,
            contention,
            collision: contention * after / (after + at_once),
            drop: if self.limit.is_some() { drop } else { 0.0 },
            at_once: f64::from(self.stations) * transmission * at_once / after,
        })
    }
}

impl Saturated {
    /// Per slot: attempts that meet nobody, collisions, and how long it is.
    fn slot(&self, times: &Times) -> [f64; 3] {
        let n = f64::from(self.model.stations);
        let others = (1.0 - self.transmission).powi(self.model.stations as i32 - 1);
        let alone = n * self.transmission * others;
        let silent = (1.0 - self.transmission) * others;
        let collisions = (1.0 - silent - alone).max(0.0);
        let successes = alone + self.at_once;
        let idle = match self.model.counting {
            Counting::Always => silent,
            Counting::Idle => 1.0,
        };
        let length = idle * times.slot + successes * times.success + collisions * times.collision;
        [successes, collisions, length]
    }

    /// Bits per second that all stations together get through.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn throughput(&self, times: &Times) -> Result<f64> {
        times.check()?;
        let [successes, _, length] = self.slot(times);
        Ok(successes * times.payload / length)
    }

    /// Shares of time: successful exchanges, collisions, idle slots; spaces and timeouts belong to what they
    /// follow.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn shares(&self, times: &Times) -> Result<[f64; 3]> {
        times.check()?;
        let [successes, collisions, length] = self.slot(times);
        let shares = [successes * times.success / length, collisions * times.collision / length];
        Ok([shares[0], shares[1], 1.0 - shares[0] - shares[1]])
    }

    /// Mean time in seconds from when a frame is the first of its queue to its acknowledgment, of frames
    /// that get through.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn delay(&self, times: &Times) -> Result<f64> {
        times.check()?;
        let [_, _, length] = self.slot(times);
        // Its own attempts at once are counted apart.
        let length = length - self.at_once * times.success / f64::from(self.model.stations);
        let (mut chance, mut waited, mut total, mut got_through) = (1.0, 0.0, 0.0, 0.0);
        for cw in self.model.windows() {
            let (slots, fails, zero) = match self.model.counting {
                Counting::Always => (1.0 + cw / 2.0, self.contention, 0.0),
                Counting::Idle => {
                    let zero = 1.0 / (cw + 1.0);
                    (cw / 2.0, (1.0 - zero) * self.contention, zero)
                }
            };
            waited += slots * length;
            let succeeds = chance * (1.0 - fails);
            // An attempt at once takes the time of its exchange, the others are within their slots.
            let at_once = if fails < 1.0 { zero / (1.0 - fails) } else { 0.0 };
            total += succeeds * (waited + at_once * times.success);
            got_through += succeeds;
            chance *= fails;
            if chance < 1e-18 {
                break;
            }
        }
        Ok(total / got_through)
    }

    /// The mean of Jain's index of the stations' shares of `frames` frames in a row.
    ///
    /// # Errors
    /// If there are no frames.
    pub fn fairness(&self, frames: u32) -> Result<f64> {
        let frames = f64::from(count("frames", frames, 1..=u32::MAX)?);
        Ok(frames / (frames + f64::from(self.model.stations) - 1.0))
    }
}

impl Times {
    /// Of packets of `packet` bytes with `header` more in a frame at `rate`, and control frames at
    /// `control_rate`; `rts`: after RTS and CTS. A collision is followed by EIFS.
    pub fn of(
        phy: Phy,
        timing: &Timing,
        [rate, control_rate]: [Rate; 2],
        [packet, header]: [Bytes; 2],
        rts: bool,
    ) -> Times {
        let control = |length| phy.airtime(Bytes::new(length), control_rate);
        let data = phy.airtime(Bytes::new(packet.get() + header.get()), rate);
        let sifs = timing.sifs;
        let (before, first) = if rts {
            let asked = control(frames::RTS) + sifs + control(frames::CTS) + sifs;
            (asked, control(frames::RTS))
        } else {
            (Duration::ZERO, data)
        };
        let success = before + data + sifs + control(frames::ACK) + timing.difs();
        Times {
            slot: timing.slot.as_secs_f64(),
            success: success.as_secs_f64(),
            collision: (first + timing.eifs()).as_secs_f64(),
            payload: packet.bits() as f64,
        }
    }

    fn check(&self) -> Result<()> {
        positive("slot", self.slot, "seconds")?;
        positive("success", self.success, "seconds")?;
        positive("collision", self.collision, "seconds")?;
        positive("payload", self.payload, "bits")?;
        Ok(())
    }
}
