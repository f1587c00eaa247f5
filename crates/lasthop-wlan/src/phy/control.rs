//! Control frames of 802.11n, ac and ax: lengths, rates and durations.
//!
//! They are sent in non-HT format, or in non-HT duplicate format of the same duration on 40 and 80 MHz, at
//! a basic rate: 6, 12 or 24 Mbps. A response uses the highest basic rate that does not exceed the non-HT
//! reference rate of the frame it answers (802.11-2020, 10.6.6.5.2).

use super::duration::{Band, Form};
use super::{ModeError, Width};
use super::{Phy, Preamble, Standard, Timing};
use crate::frames;
use crate::phy::Mode;
use lasthop_base::units::{Bytes, Duration, Rate};

/// A control frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlFrame {
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
    /// Acknowledgment of one MPDU.
    Ack,
    /// Compressed BlockAck with a bitmap of 64 bits.
    BlockAck64,
    /// Compressed BlockAck with a bitmap of 256 bits, of 802.11ax.
    BlockAck256,
    /// Request for a BlockAck.
    BlockAckRequest,
    /// End of a TXOP.
    CfEnd,
}

impl ControlFrame {
    /// Returns the length, FCS included.
    pub const fn length(self) -> Bytes {
        Bytes::new(match self {
            ControlFrame::Rts => frames::RTS,
            ControlFrame::Cts => frames::CTS,
            ControlFrame::Ack => frames::ACK,
            ControlFrame::BlockAck64 => frames::block_ack(false),
            ControlFrame::BlockAck256 => frames::block_ack(true),
            ControlFrame::BlockAckRequest => frames::BLOCK_ACK_REQUEST,
            ControlFrame::CfEnd => frames::CF_END,
        })
    }

    /// Returns the BlockAck of an agreement with a window of `window` MPDUs.
    pub const fn block_ack(window: u16) -> Self {
        if window <= 64 { ControlFrame::BlockAck64 } else { ControlFrame::BlockAck256 }
    }
}

/// Returns the rate of the Ack, BlockAck or CTS that answers a frame sent in `mode`.
pub fn response_rate(mode: Mode) -> Rate {
    Standard::A.control_rate(mode.reference_rate())
}

impl Band {
    /// Returns the non-HT physical layer of the band, which control frames use.
    pub const fn non_ht(self) -> Phy {
        let standard = match self {
            Band::Ghz2 => Standard::G,
            Band::Ghz5 => Standard::A,
        };
        Phy { standard, preamble: Preamble::Long }
    }

    /// Returns the air time of a control frame at `rate`.
    pub fn control_airtime(self, frame: ControlFrame, rate: Rate) -> Duration {
        self.non_ht().airtime(frame.length(), rate)
    }

    /// Returns slot, SIFS, contention windows and timeouts. ns-3 waits for a response for SIFS, a slot and
    /// the preamble of 20 us; the standard defines aRxPHYStartDelay as 25 us (24 us at 2.4 GHz). ns-3 also ends
    /// TXOPs by CF-End at 6 Mbps, which the standard permits.
    pub fn timing(self, form: Form) -> Timing {
        let timing = Timing { counts_busy_slot: true, ..self.non_ht().timing() };
        match form {
            Form::Standard => timing,
            Form::Ns3 => {
                let lowest = Rate::from_bps(6_000_000);
                let response_timeout =
                    timing.sifs + timing.slot + self.non_ht().preamble_time(lowest);
                let cf_end = Some(self.control_airtime(ControlFrame::CfEnd, lowest));
                let sensing = Duration::from_nanos(4_000);
                Timing { response_timeout, detects_collisions: false, sensing, cf_end, ..timing }
            }
        }
    }

    /// Checks that the standard defines `mode` in this band.
    ///
    /// # Errors
    /// VHT and 80 MHz are defined at 5 GHz only.
    pub fn check(self, mode: Mode) -> Result<(), ModeError> {
        let is_vht = mode.format() == super::Format::Vht;
        if self == Band::Ghz5 || (!is_vht && mode.width() != Width::Mhz80) {
            return Ok(());
        }
        let found = format!("{:?}", self.word());
        let what = if is_vht { "VHT" } else { "80 MHz" };
        Err(ModeError { key: "band", found, expected: format!("\"5 GHz\" with {what}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phy::{Format, GuardInterval};

    fn mode(mcs: u8) -> Mode {
        Mode::new(Format::He, mcs, 1, Width::Mhz80, GuardInterval::Ns800).expect("defined")
    }

    #[test]
    fn responses_use_the_highest_basic_rate_below_the_reference_rate() {
        let rates: Vec<u64> =
            (0..12).map(|mcs| response_rate(mode(mcs)).as_bps() / 1_000_000).collect();
        assert_eq!(rates, [6, 12, 12, 24, 24, 24, 24, 24, 24, 24, 24, 24]);
    }

    /// Durations at 6, 12 and 24 Mbps in microseconds, by hand: 20 + 4 ceil((22 + 8 B) / (24, 48, 96)).
    #[test]
    fn durations_of_control_frames() {
        for (frame, expected) in [
            (ControlFrame::Ack, [44, 32, 28]),
            (ControlFrame::Cts, [44, 32, 28]),
            (ControlFrame::Rts, [52, 36, 28]),
            (ControlFrame::CfEnd, [52, 36, 28]),
            (ControlFrame::BlockAck64, [68, 44, 32]),
            (ControlFrame::BlockAck256, [100, 60, 40]),
            (ControlFrame::BlockAckRequest, [56, 40, 32]),
        ] {
            for (mcs, micros) in [0, 1, 3].into_iter().zip(expected) {
                let rate = response_rate(mode(mcs));
                let time = |band: Band| band.control_airtime(frame, rate).as_nanos();
                assert_eq!(time(Band::Ghz5), micros * 1_000, "{frame:?} {mcs}");
                assert_eq!(time(Band::Ghz2), (micros + 6) * 1_000, "{frame:?} {mcs}");
            }
        }
        assert_eq!(ControlFrame::block_ack(64), ControlFrame::BlockAck64);
        assert_eq!(ControlFrame::block_ack(65), ControlFrame::BlockAck256);
    }

    /// EIFS of the best-effort category in ns-3 at 5 GHz: SIFS 16, Ack 44, AIFS 43.
    #[test]
    fn timing_of_both_forms() {
        let timing = |band: Band, form| {
            let timing = band.timing(form);
            [timing.slot, timing.sifs, timing.response_timeout].map(|time| time.as_nanos() / 1_000)
        };
        assert_eq!(timing(Band::Ghz5, Form::Ns3), [9, 16, 45]);
        assert_eq!(timing(Band::Ghz5, Form::Standard), [9, 16, 50]);
        assert_eq!(timing(Band::Ghz2, Form::Ns3), [9, 10, 39]);
        let five = Band::Ghz5.timing(Form::Ns3);
        assert_eq!((five.eifs() + five.slot).as_nanos(), 103_000);
    }

    #[test]
    fn some_modes_are_limited_to_5_ghz() {
        let new =
            |format, width| Mode::new(format, 0, 1, width, GuardInterval::Ns800).expect("defined");
        let vht = new(Format::Vht, Width::Mhz20);
        assert_eq!(Band::Ghz5.check(vht), Ok(()));
        assert_eq!(Band::Ghz2.check(new(Format::He, Width::Mhz40)), Ok(()));
        for (mode, what) in [(vht, "VHT"), (mode(0), "80 MHz")] {
            let message = format!("`band`: found \"2.4 GHz\"; expected \"5 GHz\" with {what}");
            assert_eq!(Band::Ghz2.check(mode).expect_err(what).to_string(), message);
        }
    }
}
