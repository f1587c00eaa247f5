//! Physical layers of IEEE 802.11n (HT), 802.11ac (VHT) and 802.11ax (HE) as data: modes, the duration of
//! PPDUs, and the rates and durations of control frames. All functions are pure.
//!
//! ```text
//!   HT mixed | L-STF 8 | L-LTF 8 | L-SIG 4 |           HT-SIG 8    | STF 4 | LTF 4 N | data   |             |
//!   VHT SU   | L-STF 8 | L-LTF 8 | L-SIG 4 |           VHT-SIG-A 8 | STF 4 | LTF 4 N | SIG-B 4 | data |     |
//!   HE SU    | L-STF 8 | L-LTF 8 | L-SIG 4 | RL-SIG 4, HE-SIG-A 8  | STF 4 | LTF x N | data | extension   |
//! ```
//!
//! Durations in microseconds; N is the number of spatial streams. The symbols of the data field contain 16 bits
//! of service, the PSDU and the tail of the encoder.
//!
//! Interface for a MAC:
//!
//! - [`Mode::new`] checks a combination of [`Format`], MCS, spatial streams, [`Width`] and [`GuardInterval`].
//!   The MCS is that of each stream: 802.11n's MCS 8 to 15 are MCS 0 to 7 with two streams.
//! - [`PpduTiming`] contains the parameters of a medium: [`Band`], [`Form`], [`Coding`], [`PacketExtension`].
//!   [`PpduTiming::duration`] is the air time of a PSDU, [`PpduTiming::max_psdu`] the longest PSDU of a limited
//!   air time ([`MAX_PPDU_TIME`], or the rest of a TXOP).
//! - [`response_rate`] is the rate of the Ack, BlockAck or CTS that answers a mode, [`ControlFrame`] the
//!   lengths of control frames, and [`Band::control_airtime`] their air time, which does not depend on the
//!   width (non-HT duplicate). [`Band::timing`] gives slot, SIFS, contention windows and response timeout.
//! - [`user_priority`](qos::user_priority) and [`AccessCategory`](qos::AccessCategory) map a DSCP.
//! - [`ErrorCurve`] gives the probability that an MPDU is lost, by SNR.
//!
//! Sources: IEEE Std 802.11-2020, clauses 19 (HT: 19.3.11.7.5, 19.4.3), 21 (VHT: 21.3.10.5, 21.4.3) and IEEE Std
//! 802.11ax-2021, clause 27 (HE: 27.3.12.5, 27.4.3). The tests compare with the test vectors of ns-3.44
//! (`src/wifi/test/tx-duration-test.cc`).
//!
//! Limitations: 160 MHz, more than two streams, HT greenfield, STBC, DCM, HE extended range, OFDMA, MU-MIMO and
//! the optional pairs of HE-LTF and guard interval are not modelled.

mod control;
mod duration;
mod error_curve;
mod non_ht;
mod plain_errors;
pub mod qos;

pub use control::{ControlFrame, response_rate};
pub use duration::{Band, Coding, Form, MAX_PPDU_TIME, PacketExtension, PpduTiming};
pub use error_curve::ErrorCurve;
pub use non_ht::{Phy, Preamble, Standard, Timing};

use lasthop_base::schema::keys::choice;
use lasthop_base::units::{Duration, Rate};

choice! {
    /// Format of a PPDU.
    pub enum Format {
        /// High throughput, mixed format: 802.11n.
        Ht = "HT",
        /// Very high throughput, single user: 802.11ac.
        Vht = "VHT",
        /// High efficiency, single user: 802.11ax.
        He = "HE",
    }
}

choice! {
    /// Width of a channel.
    pub enum Width {
        /// 20 MHz.
        Mhz20 = "20 MHz",
        /// 40 MHz.
        Mhz40 = "40 MHz",
        /// 80 MHz, from 802.11ac on.
        Mhz80 = "80 MHz",
    }
}

choice! {
    /// Guard interval between the symbols of the data field.
    pub enum GuardInterval {
        /// 0.4 us, of 802.11n and 802.11ac.
        Ns400 = "400 ns",
        /// 0.8 us.
        Ns800 = "800 ns",
        /// 1.6 us, of 802.11ax.
        Ns1600 = "1600 ns",
        /// 3.2 us, of 802.11ax.
        Ns3200 = "3200 ns",
    }
}

impl Width {
    /// Returns the width in MHz.
    pub const fn mhz(self) -> u32 {
        match self {
            Width::Mhz20 => 20,
            Width::Mhz40 => 40,
            Width::Mhz80 => 80,
        }
    }
}

impl GuardInterval {
    /// Returns the duration in nanoseconds.
    const fn nanos(self) -> u64 {
        match self {
            GuardInterval::Ns400 => 400,
            GuardInterval::Ns800 => 800,
            GuardInterval::Ns1600 => 1_600,
            GuardInterval::Ns3200 => 3_200,
        }
    }
}

impl Format {
    /// Returns the highest MCS of a stream.
    pub const fn max_mcs(self) -> u8 {
        match self {
            Format::Ht => 7,
            Format::Vht => 9,
            Format::He => 11,
        }
    }
}

/// Bits per subcarrier and code rate of an MCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulation {
    /// Coded bits per subcarrier and symbol: 1 for BPSK to 10 for 1024-QAM.
    pub bits: u64,
    /// Numerator and denominator of the code rate.
    pub code_rate: [u64; 2],
}

/// Modulation of MCS 0 to 11.
const MODULATIONS: [Modulation; 12] = {
    const fn new(bits: u64, code_rate: [u64; 2]) -> Modulation {
        Modulation { bits, code_rate }
    }
    [
        new(1, [1, 2]),
        new(2, [1, 2]),
        new(2, [3, 4]),
        new(4, [1, 2]),
        new(4, [3, 4]),
        new(6, [2, 3]),
        new(6, [3, 4]),
        new(6, [5, 6]),
        new(8, [3, 4]),
        new(8, [5, 6]),
        new(10, [3, 4]),
        new(10, [5, 6]),
    ]
};

/// Non-HT reference rates of MCS 0 to 11 in Mbps: the OFDM rate of the same modulation and code rate
/// (802.11-2020, table 10-11), and 54 Mbps above.
const REFERENCE_RATES: [u64; 12] = [6, 12, 18, 24, 36, 48, 54, 54, 54, 54, 54, 54];

/// How the data of a frame are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// In a mode of 802.11n, ac or ax.
    Mode(Mode),
    /// At a rate of 802.11b, a or g.
    Plain(Standard, Rate),
}

/// A combination of parameters that the standard does not define or this module does not model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: found {found}; expected {expected}")]
pub struct ModeError {
    /// Name of the parameter.
    pub key: &'static str,
    /// Value found.
    pub found: String,
    /// Description of the values allowed.
    pub expected: String,
}

/// How the data field of a PPDU is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    format: Format,
    mcs: u8,
    streams: u8,
    width: Width,
    guard_interval: GuardInterval,
}

impl Mode {
    /// Creates a mode with `streams` spatial streams, all with the modulation and coding of `mcs`.
    ///
    /// # Errors
    /// If the standard does not define the combination, or for more than 2 streams.
    pub fn new(
        format: Format,
        mcs: u8,
        streams: u8,
        width: Width,
        guard_interval: GuardInterval,
    ) -> Result<Self, ModeError> {
        let refuse = |key, found: String, expected: String| Err(ModeError { key, found, expected });
        let name = format.word();
        if mcs > format.max_mcs() {
            let expected = format!("a whole number from 0 to {} with {name}", format.max_mcs());
            return refuse("mcs", mcs.to_string(), expected);
        }
        if !(1..=2).contains(&streams) {
            return refuse("spatial_streams", streams.to_string(), "1 or 2".into());
        }
        if format == Format::Ht && width == Width::Mhz80 {
            let expected = "\"20 MHz\" or \"40 MHz\" with HT".into();
            return refuse("width", format!("{:?}", width.word()), expected);
        }
        let is_short = guard_interval == GuardInterval::Ns400;
        let is_long = matches!(guard_interval, GuardInterval::Ns1600 | GuardInterval::Ns3200);
        if if format == Format::He { is_short } else { is_long } {
            let expected = match format {
                Format::He => "\"800 ns\", \"1600 ns\" or \"3200 ns\" with HE".into(),
                _ => format!("\"400 ns\" or \"800 ns\" with {name}"),
            };
            return refuse("guard_interval", format!("{:?}", guard_interval.word()), expected);
        }
        if format == Format::Vht && width == Width::Mhz20 && mcs == 9 {
            let expected = "0 to 8 with VHT at 20 MHz and 1 or 2 streams".into();
            return refuse("mcs", mcs.to_string(), expected);
        }
        Ok(Mode { format, mcs, streams, width, guard_interval })
    }

    /// Returns the format.
    pub const fn format(self) -> Format {
        self.format
    }

    /// Returns the MCS of each stream.
    pub const fn mcs(self) -> u8 {
        self.mcs
    }

    /// Returns the number of spatial streams.
    pub const fn streams(self) -> u8 {
        self.streams
    }

    /// Returns the width of the channel.
    pub const fn width(self) -> Width {
        self.width
    }

    /// Returns the guard interval.
    pub const fn guard_interval(self) -> GuardInterval {
        self.guard_interval
    }

    /// Returns the modulation and the code rate.
    pub fn modulation(self) -> Modulation {
        MODULATIONS[usize::from(self.mcs)]
    }

    /// Returns N_SD, the number of data subcarriers.
    const fn subcarriers(self) -> u64 {
        match (self.format, self.width) {
            (Format::He, Width::Mhz20) => 234,
            (Format::He, Width::Mhz40) => 468,
            (Format::He, Width::Mhz80) => 980,
            (_, Width::Mhz20) => 52,
            (_, Width::Mhz40) => 108,
            (_, Width::Mhz80) => 234,
        }
    }

    /// Returns the coded bits of `subcarriers` per symbol, all streams.
    fn coded_bits(self, subcarriers: u64) -> u64 {
        subcarriers * self.modulation().bits * u64::from(self.streams)
    }

    /// Returns the data bits of `subcarriers` per symbol, all streams.
    fn data_bits(self, subcarriers: u64) -> u64 {
        let [numerator, denominator] = self.modulation().code_rate;
        self.coded_bits(subcarriers) * numerator / denominator
    }

    /// Returns N_DBPS, the number of data bits per symbol.
    pub fn data_bits_per_symbol(self) -> u64 {
        self.data_bits(self.subcarriers())
    }

    /// Returns the duration of a symbol of the data field, guard interval included.
    pub const fn symbol(self) -> Duration {
        let data = if matches!(self.format, Format::He) { 12_800 } else { 3_200 };
        Duration::from_nanos(data + self.guard_interval.nanos())
    }

    /// Returns the data rate, rounded down to bits per second.
    pub fn rate(self) -> Rate {
        Rate::from_bps(self.data_bits_per_symbol() * 1_000_000_000 / self.symbol().as_nanos())
    }

    /// Returns the non-HT reference rate, which determines the rate of control responses.
    pub fn reference_rate(self) -> Rate {
        Rate::from_bps(REFERENCE_RATES[usize::from(self.mcs)] * 1_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use GuardInterval::{Ns400, Ns800, Ns1600, Ns3200};
    use Width::{Mhz20, Mhz40, Mhz80};

    /// N_DBPS of MCS 0 to 11 with one stream: HT or VHT at 20, 40 and 80 MHz, HE at 20, 40 and 80 MHz
    /// (802.11-2020, 19.5, 21.5; 802.11ax-2021, 27.5); 0: not defined.
    const DATA_BITS: [[u64; 6]; 12] = [
        [26, 54, 117, 117, 234, 490],
        [52, 108, 234, 234, 468, 980],
        [78, 162, 351, 351, 702, 1470],
        [104, 216, 468, 468, 936, 1960],
        [156, 324, 702, 702, 1404, 2940],
        [208, 432, 936, 936, 1872, 3920],
        [234, 486, 1053, 1053, 2106, 4410],
        [260, 540, 1170, 1170, 2340, 4900],
        [312, 648, 1404, 1404, 2808, 5880],
        [0, 720, 1560, 1560, 3120, 6533],
        [0, 0, 0, 1755, 3510, 7350],
        [0, 0, 0, 1950, 3900, 8166],
    ];

    #[test]
    fn data_bits_per_symbol_of_every_mode() {
        for (mcs, row) in (0..).zip(DATA_BITS) {
            for (place, &bits) in row.iter().enumerate() {
                let width = [Mhz20, Mhz40, Mhz80][place % 3];
                let format = if place < 3 { Format::Vht } else { Format::He };
                for format in [format, Format::Ht] {
                    let is_ht = format == Format::Ht;
                    if is_ht && (mcs > 7 || place > 1) {
                        assert!(Mode::new(Format::Ht, mcs, 1, Mhz80, Ns800).is_err());
                        continue;
                    }
                    for streams in [1, 2] {
                        let mode = Mode::new(format, mcs, streams, width, Ns800).ok();
                        let found = mode.map_or(0, Mode::data_bits_per_symbol);
                        // HE at 80 MHz: fractions are discarded after multiplication.
                        let fraction = match (place, mcs, streams) {
                            (5, 11, 2) => 1,
                            _ => 0,
                        };
                        let expected = bits * u64::from(streams) + fraction;
                        assert_eq!(found, expected, "{format:?} {mcs} {width:?} {streams}");
                    }
                }
            }
        }
    }

    #[test]
    fn rates_of_the_tables_of_the_standard() {
        for (format, mcs, streams, width, interval, kbps) in [
            (Format::Ht, 7, 1, Mhz20, Ns800, 65_000),
            (Format::Ht, 7, 1, Mhz20, Ns400, 72_222),
            (Format::Ht, 7, 2, Mhz40, Ns400, 300_000),
            (Format::Vht, 9, 1, Mhz80, Ns800, 390_000),
            (Format::Vht, 9, 1, Mhz80, Ns400, 433_333),
            (Format::He, 11, 1, Mhz20, Ns800, 143_382),
            (Format::He, 11, 1, Mhz20, Ns1600, 135_416),
            (Format::He, 11, 1, Mhz20, Ns3200, 121_875),
            (Format::He, 11, 1, Mhz80, Ns800, 600_441),
        ] {
            let mode = Mode::new(format, mcs, streams, width, interval).expect("defined");
            assert_eq!(mode.rate().as_bps() / 1_000, kbps, "{mode:?}");
        }
    }

    #[test]
    fn undefined_combinations_are_refused() {
        for (format, mcs, streams, width, interval, message) in [
            (
                Format::Vht,
                9,
                2,
                Mhz20,
                Ns800,
                "`mcs`: found 9; expected 0 to 8 with VHT at 20 MHz and 1 or 2 streams",
            ),
            (
                Format::Ht,
                8,
                1,
                Mhz20,
                Ns800,
                "`mcs`: found 8; expected a whole number from 0 to 7 with HT",
            ),
            (Format::He, 11, 3, Mhz20, Ns800, "`spatial_streams`: found 3; expected 1 or 2"),
            (
                Format::Ht,
                7,
                1,
                Mhz80,
                Ns800,
                "`width`: found \"80 MHz\"; expected \"20 MHz\" or \"40 MHz\" with HT",
            ),
            (
                Format::He,
                7,
                1,
                Mhz20,
                Ns400,
                "`guard_interval`: found \"400 ns\"; expected \"800 ns\", \"1600 ns\" or \"3200 ns\" \
                 with HE",
            ),
            (
                Format::Vht,
                7,
                1,
                Mhz80,
                Ns1600,
                "`guard_interval`: found \"1600 ns\"; expected \"400 ns\" or \"800 ns\" with VHT",
            ),
        ] {
            let error = Mode::new(format, mcs, streams, width, interval).expect_err(message);
            assert_eq!(error.to_string(), message);
        }
    }
}
