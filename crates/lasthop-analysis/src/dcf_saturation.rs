//! Saturated 802.11 DCF: n stations in range of each other that always have a frame to send (G. Bianchi).
//!
//! Before attempt i = 0, 1, … R - 1, a station samples a backoff of 0 to CW_i slots, CW_i =
//! min(2^i (CW_0 + 1) - 1, CW_max). It discards a frame after R attempts. The unknowns are τ, the
//! probability that a station transmits in a slot, and p, the probability that another station does:
//!
//! p = 1 - (1 - τ)^(n-1)
//!
//! *Bianchi's chain* (`Counting::Always`): counters are decremented in every slot, including busy slots, as with
//! EDCA.
//! With f_i = p^i, the probability that attempt i is made,
//!
//! τ = Σ f_i / Σ f_i (1 + CW_i / 2)
//! S = P_1 L / ((1 - τ)^n σ + P_1 T_s + P_c T_c),  P_1 = n τ (1 - τ)^(n-1),  P_c = 1 - (1 - τ)^n - P_1
//!
//! *Frozen counters* (`Counting::Idle`), as with the DCF: a counter is decremented in idle slots only.
//! Immediately after a busy period, only the stations that transmitted last can transmit, if their new
//! backoff is 0; these attempts do not collide. All other stations wait for an idle slot. Counted in idle
//! slots and the transmissions that may follow each of them, with z_i = 1 / (CW_i + 1):
//!
//! f_0 = 1,  f_(i+1) = f_i (1 - z_i) p,  τ = Σ f_i (1 - z_i) / Σ f_i CW_i / 2
//! A = n τ Σ f_i z_i / Σ f_i (1 - z_i)      immediate attempts per idle slot
//! S = (P_1 + A) L / (σ + (P_1 + A) T_s + P_c T_c)
//!
//! The delay of a delivered frame, from the head of the queue to the acknowledgment, is the number of slots
//! for which its attempts wait, times the mean slot duration (Chatzimisios et al.); its own immediate
//! attempts are excluded. Stations are identical and access the medium in random order, so the mean of
//! Jain's index over w frames is about w / (w + n - 1).
//!
//! Sources: G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE
//! JSAC 18 (3), 2000; H. Wu et al., "Performance of reliable transport protocol over IEEE 802.11 wireless
//! LAN", INFOCOM 2002 (finite retry limits); P. Chatzimisios, A. C. Boucouvalas, V. Vitsas, "Packet delay
//! analysis of the IEEE 802.11 MAC protocol", 2003; counters that freeze: after G. Bianchi, I. Tinnirello,
//! "Remarks on IEEE 802.11 DCF performance analysis", IEEE Communications Letters 9 (8), 2005. Fairness:
//! C. E. Koksal, H. Kassab, H. Balakrishnan, "An analysis of short-term fairness in wireless media access
//! protocols", SIGMETRICS 2000.
//!
//! Limitations: noise, empty queues, hidden stations, two colliding stations that both sample 0, and the
//! dependence between the stations' counters are not modelled.

use super::{AnalysisError, Result, count, positive};
use lasthop_base::units::{Bytes, Duration, Rate};
use lasthop_wlan::dcf::{Phy, Timing};
use lasthop_wlan::frames;

/// Slots in which a backoff counter is decremented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Every slot, as in Bianchi's chain of 2000 and with EDCA (802.11n, ac, ax).
    Always,
    /// Idle slots only, as with the DCF (802.11b, a, g).
    Idle,
}

/// Number of stations, contention windows and retry limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saturation {
    stations: u32,
    cw_min: u32,
    cw_max: u32,
    limit: Option<u32>,
    counting: Counting,
}

/// Durations in seconds, and the payload of a frame in bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// An idle slot.
    pub slot: f64,
    /// Time from the start of a successful exchange to the next counted slot.
    pub success: f64,
    /// Time from the start of a collision to the next counted slot.
    pub collision: f64,
    /// Bits per frame that count for throughput.
    pub payload: f64,
}

/// State of a saturated medium.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    model: Saturation,
    /// Probability that a station transmits in a slot.
    pub transmission: f64,
    /// Probability p that an attempt after backoff collides.
    pub contention: f64,
    /// Fraction of all attempts that collide.
    pub collision: f64,
    /// Fraction of the frames that are discarded.
    pub drop: f64,
    /// Attempts without backoff per idle slot, of all stations.
    at_once: f64,
}

/// Number of attempts that are modelled without a limit; the remainder is below rounding.
const STAGES: u32 = 4_096;

impl Saturation {
    /// Creates `stations` stations with contention windows from `cw_min` to `cw_max` that discard a
    /// frame after `limit` attempts, or never.
    ///
    /// # Errors
    /// If `stations` or `limit` is 0, or if `cw_min` is 0 or above `cw_max`.
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

    /// Returns the contention windows of the attempts.
    fn windows(&self) -> impl Iterator<Item = f64> {
        let double = |cw: &u32| Some(cw.saturating_mul(2).saturating_add(1).min(self.cw_max));
        let windows = std::iter::successors(Some(self.cw_min), double);
        windows.take(self.limit.unwrap_or(STAGES) as usize).map(f64::from)
    }

    /// Returns sums over the attempts if an attempt after backoff collides with probability `p`:
    /// attempts after backoff, immediate attempts, slots, and the probability of a discard.
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
    /// None for parameters that [`Self::new`] accepts; kept for models without a guaranteed
    /// solution.
    pub fn solve(&self) -> Result<Saturated> {
        let transmission = |p: f64| {
            let [after, _, slots, _] = self.sums(p);
            // With a contention window of two slots, a waiting station transmits in the next slot.
            (after / slots).min(1.0)
        };
        let others = self.stations as i32 - 1;
        let meets = |p: f64| 1.0 - (1.0 - transmission(p)).powi(others);
        // The left side increases and the right side decreases with p.
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
    /// Returns, per slot: successful attempts, collisions, and the mean duration in seconds.
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

    /// Returns the total throughput of all stations, in bits per second.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn throughput(&self, times: &Times) -> Result<f64> {
        times.check()?;
        let [successes, _, length] = self.slot(times);
        Ok(successes * times.payload / length)
    }

    /// Returns the fractions of time of successful exchanges, collisions and idle slots. Interframe
    /// spaces and timeouts count as part of the preceding frame.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn shares(&self, times: &Times) -> Result<[f64; 3]> {
        times.check()?;
        let [successes, collisions, length] = self.slot(times);
        let shares = [successes * times.success / length, collisions * times.collision / length];
        Ok([shares[0], shares[1], 1.0 - shares[0] - shares[1]])
    }

    /// Returns the mean delay in seconds of delivered frames, from the head of the queue to the
    /// acknowledgment.
    ///
    /// # Errors
    /// If a time or the payload is not above 0.
    pub fn delay(&self, times: &Times) -> Result<f64> {
        times.check()?;
        let [_, _, length] = self.slot(times);
        // The station's own immediate attempts are counted separately.
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
            // An immediate attempt takes the time of its exchange; other attempts are part of their
            // slots.
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

    /// Returns the mean of Jain's index of the stations' shares of `frames` consecutive frames.
    ///
    /// # Errors
    /// If `frames` is 0.
    pub fn fairness(&self, frames: u32) -> Result<f64> {
        let frames = f64::from(count("frames", frames, 1..=u32::MAX)?);
        Ok(frames / (frames + f64::from(self.model.stations) - 1.0))
    }
}

impl Times {
    /// Returns the durations for packets of `packet` bytes in frames with `header` more bytes at
    /// `rate`, and control frames at `control_rate`. `rts`: with RTS and CTS. A collision is
    /// followed by EIFS.
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
