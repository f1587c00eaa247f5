//! Physical layers of IEEE 802.11b, a and g as data: rates, preambles, and the durations that the MAC
//! derives from them.
//!
//! ```text
//!   802.11b   | preamble and header, 192 us (long) or 96 us (short) | frame at its rate    |
//!   802.11a   | preamble and SIGNAL, 20 us | symbols of 4 us: service, frame, tail, padding |
//!   802.11g   | as 802.11a                                          | 6 us of silence      |
//! ```
//!
//! Sources: IEEE Std 802.11-2012, clauses 17 (High Rate DSSS; 17.2.2 PLCP, 17.3.3 characteristics), 18
//! (OFDM; 18.3.2 PPDU, 18.4.3 TXTIME, table 18-17) and 19 (ERP-OFDM; 19.5.3 signal extension, 19.8.4);
//! 9.3.7 for the inter-frame spaces, 9.3.2.8 for the timeout of an acknowledgment.
//!
//! Limitations: 802.11b protection of ERP stations, optional modulations (PBCC, DSSS-OFDM) and the rounding of
//! the LENGTH field of DSSS to whole microseconds are not modelled. Propagation delay is part of the slot.

use crate::frames;
use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};

choice! {
    /// A physical layer of IEEE 802.11.
    pub enum Standard {
        /// High Rate DSSS at 2.4 GHz: 1, 2, 5.5 and 11 Mbps.
        B = "802.11b",
        /// OFDM at 5 GHz: 6 to 54 Mbps.
        A = "802.11a",
        /// OFDM at 2.4 GHz, without stations of 802.11b: 6 to 54 Mbps.
        G = "802.11g",
    }
}

choice! {
    /// The preamble of 802.11b; other standards have a single preamble.
    pub enum Preamble {
        /// 144 bits and a header of 48 bits, all at 1 Mbps.
        Long = "long",
        /// 72 bits at 1 Mbps and a header of 48 bits at 2 Mbps. Frames at 1 Mbps use the long
        /// preamble.
        Short = "short",
    }
}

const MEGABIT: u64 = 1_000_000;

const fn micros(count: u64) -> Duration {
    Duration::from_nanos(count * 1_000)
}

/// Rates of 802.11b in bits per second.
const DSSS: &[u64] = &[MEGABIT, 2 * MEGABIT, 5_500_000, 11 * MEGABIT];
/// Rates of 802.11a and g in bits per second.
const OFDM: &[u64] = &[
    6 * MEGABIT,
    9 * MEGABIT,
    12 * MEGABIT,
    18 * MEGABIT,
    24 * MEGABIT,
    36 * MEGABIT,
    48 * MEGABIT,
    54 * MEGABIT,
];

/// Duration of an OFDM symbol.
const SYMBOL: Duration = micros(4);
/// Service field and tail of an OFDM frame, in bits.
const SERVICE_AND_TAIL: u64 = 16 + 6;

impl Standard {
    /// Returns the rates of data frames.
    pub fn rates(self) -> impl Iterator<Item = Rate> + Clone {
        let rates = match self {
            Standard::B => DSSS,
            Standard::A | Standard::G => OFDM,
        };
        rates.iter().map(|&rate| Rate::from_bps(rate))
    }

    /// Returns the rates that all stations support, which control frames use: 1 and 2 Mbps (the
    /// rates of the first standard), or the mandatory rates of OFDM.
    fn basic_rates(self) -> &'static [u64] {
        match self {
            Standard::B => &[MEGABIT, 2 * MEGABIT],
            Standard::A | Standard::G => &[6 * MEGABIT, 12 * MEGABIT, 24 * MEGABIT],
        }
    }

    /// Returns the rate of control frames for data at `rate`: the highest basic rate up to it
    /// (9.7.6.5.2).
    pub fn control_rate(self, rate: Rate) -> Rate {
        let basic = self.basic_rates();
        let highest = basic.iter().copied().rev().find(|&basic| basic <= rate.as_bps());
        Rate::from_bps(highest.unwrap_or(basic[0]))
    }
}

/// A physical layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// The standard.
    pub standard: Standard,
    /// The preamble of 802.11b.
    pub preamble: Preamble,
}

impl Phy {
    /// Returns the duration of the preamble and the physical header of a frame at `rate`.
    pub fn preamble_time(self, rate: Rate) -> Duration {
        match (self.standard, self.preamble) {
            (Standard::B, Preamble::Short) if rate.as_bps() > MEGABIT => micros(96),
            (Standard::B, _) => micros(192),
            (Standard::A | Standard::G, _) => micros(20),
        }
    }

    /// Returns the air time of a frame of `length`, including MAC header and FCS, at `rate`,
    /// rounded up to a whole nanosecond.
    pub fn airtime(self, length: Bytes, rate: Rate) -> Duration {
        let preamble = self.preamble_time(rate);
        match self.standard {
            Standard::B => {
                let nanos = (length.bits() * 1_000_000_000).div_ceil(rate.as_bps());
                preamble + Duration::from_nanos(nanos)
            }
            Standard::A | Standard::G => {
                let bits_per_symbol = rate.as_bps() * SYMBOL.as_nanos() / 1_000_000_000;
                let symbols = (SERVICE_AND_TAIL + length.bits()).div_ceil(bits_per_symbol);
                preamble + SYMBOL * symbols + self.signal_extension()
            }
        }
    }

    /// Returns the silence after a frame of 802.11g, which counts as part of the frame.
    fn signal_extension(self) -> Duration {
        if self.standard == Standard::G { micros(6) } else { Duration::ZERO }
    }

    /// Returns the durations and contention windows of the MAC on this physical layer.
    pub fn timing(self) -> Timing {
        let (slot, sifs, cw_min, rx_start) = match self.standard {
            Standard::B => (20, 10, 31, self.preamble_time(Rate::from_bps(2 * MEGABIT))),
            Standard::A => (9, 16, 15, micros(25)),
            Standard::G => (9, 10, 15, micros(24)),
        };
        let lowest = Rate::from_bps(self.standard.basic_rates()[0]);
        let (slot, sifs) = (micros(slot), micros(sifs));
        Timing {
            slot,
            sifs,
            cw_min,
            cw_max: 1023,
            response_timeout: sifs + slot + rx_start,
            aifsn: 2,
            counts_busy_slot: false,
            detects_collisions: true,
            sensing: slot,
            cf_end: None,
            lowest_ack: self.airtime(Bytes::new(frames::ACK), lowest),
        }
    }
}

/// Durations and contention windows of the MAC. Other durations are derived by methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// aSlotTime.
    pub slot: Duration,
    /// aSIFSTime: between a frame and its response.
    pub sifs: Duration,
    /// aCWmin: the backoff before a first attempt is 0 to this number of slots.
    pub cw_min: u32,
    /// aCWmax.
    pub cw_max: u32,
    /// Time from the end of a frame after which its sender no longer expects a response to begin:
    /// ACKTimeout and CTSTimeout.
    pub response_timeout: Duration,
    /// Slots of the idle time before slots count, after SIFS: 2 for the DCF, AIFSN for EDCA.
    pub aifsn: u32,
    /// Whether backoff counters are also decremented in the slot in which the medium becomes busy, as those of EDCA
    /// (IEEE Std 802.11-2020, 10.23.2.4), but not those of the DCF (10.3.4.3).
    pub counts_busy_slot: bool,
    /// Whether stations receive a collision as a frame with errors, after which they wait for EIFS instead of
    /// DIFS. In ns-3, colliding frames of equal power are not detected as frames.
    pub detects_collisions: bool,
    /// Time from the start of a frame within which other stations begin to transmit, because they have not sensed
    /// it: a slot. ns-3 detects a preamble after 4 us, which matters where slots are not aligned.
    pub sensing: Duration,
    /// Air time of the CF-End with which the holder of a TXOP ends it before its limit, if it does (802.11-2020,
    /// 10.23.2.10). Other stations then wait for this frame or, if it does not fit, for the limit.
    pub cf_end: Option<Duration>,
    /// Air time of a MAC acknowledgment at the lowest basic rate, which is part of EIFS.
    pub lowest_ack: Duration,
}

impl Timing {
    /// Returns DIFS, or the AIFS of EDCA: the idle time of the medium before slots count.
    pub fn difs(&self) -> Duration {
        self.sifs + self.slot * u64::from(self.aifsn)
    }

    /// Returns the number of times that a backoff counter is decremented if its slots count from `from` and the
    /// medium becomes busy at `now`.
    pub fn decrements(&self, from: Instant, now: Instant) -> u64 {
        if now < from {
            return 0;
        }
        let idle = now.saturating_since(from).as_nanos() / self.slot.as_nanos();
        idle + u64::from(self.counts_busy_slot)
    }

    /// Returns EIFS: the idle time before slots count after a frame that could not be read.
    pub fn eifs(&self) -> Duration {
        self.sifs + self.lowest_ack + self.difs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(kbps: u64) -> Rate {
        Rate::from_bps(kbps * 1_000)
    }

    /// Converts to tenths of a microsecond, rounded.
    fn tenths(duration: Duration) -> u64 {
        (duration.as_nanos() + 50) / 100
    }

    const B: Phy = Phy { standard: Standard::B, preamble: Preamble::Long };

    /// Air times of 802.11b frames as in ns-2, with 28 and with 34 bytes of MAC header and FCS, in
    /// tenths of a microsecond.
    #[test]
    fn frames_of_802_11b_to_the_tenth_of_a_microsecond() {
        for (packet, overhead, kbps, tenth) in [
            (1040, 28, 11_000, 9_687),
            (1040, 34, 11_000, 9_731),
            (40, 28, 11_000, 2_415),
            (40, 34, 11_000, 2_458),
            (0, 14, 11_000, 2_022),
            (0, 14, 2_000, 2_480),
            (0, 14, 1_000, 3_040),
        ] {
            let time = B.airtime(Bytes::new(packet + overhead), rate(kbps));
            assert_eq!(tenths(time), tenth, "{packet} + {overhead} B at {kbps} kbps");
        }
    }

    /// Table 18-4: 24 to 216 bits per symbol; the durations of 14 B and 1536 B are computed by
    /// hand.
    #[test]
    fn ofdm_frames_take_whole_symbols() {
        let a = Phy { standard: Standard::A, preamble: Preamble::Long };
        let g = Phy { standard: Standard::G, preamble: Preamble::Long };
        for (bytes, kbps, micros) in
            [(14, 6_000, 44), (14, 24_000, 28), (1_536, 54_000, 248), (1_536, 6_000, 2_072)]
        {
            let time = |phy: Phy| phy.airtime(Bytes::new(bytes), rate(kbps)).as_nanos() / 1_000;
            assert_eq!((time(a), time(g)), (micros, micros + 6), "{bytes} B at {kbps} kbps");
        }
    }

    #[test]
    fn spaces_and_timeouts_of_each_standard() {
        let short = Phy { standard: Standard::B, preamble: Preamble::Short };
        let a = Phy { standard: Standard::A, preamble: Preamble::Long };
        let g = Phy { standard: Standard::G, preamble: Preamble::Long };
        // Slot, SIFS, DIFS, EIFS, response timeout, in microseconds; CWmin.
        for (phy, expected, cw_min) in [
            (B, [20, 10, 50, 364, 222], 31),
            (short, [20, 10, 50, 364, 126], 31),
            (a, [9, 16, 34, 94, 50], 15),
            (g, [9, 10, 28, 88, 43], 15),
        ] {
            let timing = phy.timing();
            let found =
                [timing.slot, timing.sifs, timing.difs(), timing.eifs(), timing.response_timeout];
            assert_eq!(found.map(|time| time.as_nanos()), expected.map(|time| time * 1_000));
            assert_eq!((timing.cw_min, timing.cw_max), (cw_min, 1023));
        }
    }

    #[test]
    fn control_frames_take_the_highest_basic_rate_below() {
        for (standard, data, control) in [
            (Standard::B, 11_000, 2_000),
            (Standard::B, 1_000, 1_000),
            (Standard::A, 54_000, 24_000),
            (Standard::A, 9_000, 6_000),
            (Standard::G, 18_000, 12_000),
        ] {
            assert_eq!(standard.control_rate(rate(data)), rate(control), "{data}");
        }
    }
}
