//! Throughput of 802.11n, ac and ax with A-MPDUs: one saturated sender, senders that share the medium, and the
//! times of the saturation model.
//!
//! A sender without competitors repeats a cycle of backoff, PPDU and response. With n MPDUs of P bits of
//! payload in a PPDU,
//!
//! cycle = AIFS + σ CWmin / 2 + T(n) + SIFS + T_BA
//! G = n P / cycle,  n the largest number within the A-MPDU limit, the block-ack window and 5,484 us
//!
//! The response of a single MPDU is an Ack. In VHT and HE, a single MPDU also has a delimiter.
//!
//! *Performance anomaly*: saturated senders that take turns have one PPDU each per round, so that the slowest
//! determines the throughput of all. With equal airtime, each has 1/N of its own throughput.
//!
//! *Loss*: without retry limit and with BlockAcks that are never lost, G = (1-p) m P / cycle(m), where m is the mean
//! number of MPDUs in a PPDU. m = n if the window never limits the sender.
//!
//! Sources: IEEE Std 802.11-2020, 9.7.1 (A-MPDU), 10.12, 10.23.2 (EDCA); M. Heusse, F. Rousseau, G. Berger-Sabbatel,
//! A. Duda, "Performance anomaly of 802.11b", INFOCOM 2003; the saturation model: [`crate::dcf_saturation`].
//!
//! Limitations: A-MSDUs, TXOPs of several PPDUs, RTS, beacons, and the effect of the block-ack window on
//! retransmissions are not modelled.

use super::dcf_saturation::Times;
use super::{AnalysisError, Result, count, probability};
use lasthop_base::units::{Bytes, Duration};
use lasthop_wlan::phy::{ControlFrame, Format, MAX_PPDU_TIME, Mode, PpduTiming, response_rate};

/// Delimiter of an MPDU in an A-MPDU, in bytes.
const DELIMITER: u64 = 4;

/// A sender that always has packets of the same length.
///
/// HT, MCS 7, 20 MHz, packets of 1,500 B with 38 B of headers and FCS:
///
/// ```
/// use lasthop_analysis::ampdu::AmpduSender;
/// use lasthop_base::units::Bytes;
/// use lasthop_wlan::phy::{
///     Band, Coding, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming, Width,
/// };
///
/// let mode = Mode::new(Format::Ht, 7, 1, Width::Mhz20, GuardInterval::Ns800).unwrap();
/// let timing = PpduTiming {
///     band: Band::Ghz5,
///     form: Form::Standard,
///     coding: Coding::Bcc,
///     packet_extension: PacketExtension::Us0,
/// };
/// let sender = AmpduSender {
///     timing,
///     mode,
///     mpdu: Bytes::new(1_538),
///     payload: Bytes::new(1_472),
///     max_ampdu: Bytes::new(65_535),
///     window: 64,
///     aifsn: 3,
///     cw_min: 15,
/// };
/// assert_eq!(sender.mpdus().unwrap(), 28);
/// assert!((sender.throughput().unwrap() / 1e6 - 59.75).abs() < 0.01);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmpduSender {
    /// Durations of PPDUs.
    pub timing: PpduTiming,
    /// Mode of the data.
    pub mode: Mode,
    /// Length of an MPDU, FCS included.
    pub mpdu: Bytes,
    /// Bytes of an MPDU that count for throughput.
    pub payload: Bytes,
    /// Maximum length of an A-MPDU; a limit below two MPDUs disables aggregation.
    pub max_ampdu: Bytes,
    /// Block-ack window in MPDUs, 1 to 256.
    pub window: u32,
    /// AIFSN of the access category.
    pub aifsn: u32,
    /// CWmin of the access category.
    pub cw_min: u32,
}

impl AmpduSender {
    fn check(&self) -> Result<()> {
        count("window", self.window, 1..=256)?;
        count("aifsn", self.aifsn, 1..=15)?;
        count("cw_min", self.cw_min, 0..=32_767)?;
        let (mpdu, payload) = (self.mpdu.get(), self.payload.get());
        if !(1..=11_454).contains(&mpdu) {
            let allowed = "a whole number of bytes from 1 to 11454";
            return Err(AnalysisError::new("mpdu", mpdu, allowed));
        }
        if !(1..=mpdu).contains(&payload) {
            let allowed = format!("a whole number of bytes from 1 to the MPDU, {mpdu}");
            return Err(AnalysisError::new("payload", payload, allowed));
        }
        Ok(())
    }

    /// Returns the length of a PSDU of `mpdus` MPDUs: delimiters, and padding to 4 bytes except after the
    /// last MPDU.
    fn psdu(&self, mpdus: u32) -> Bytes {
        let mpdu = self.mpdu.get();
        if mpdus == 1 && self.mode.format() == Format::Ht {
            return self.mpdu;
        }
        let padded = mpdu.next_multiple_of(4);
        Bytes::new(u64::from(mpdus) * (DELIMITER + padded) - (padded - mpdu))
    }

    /// Returns the number of MPDUs of a PPDU without losses, at least 1.
    ///
    /// # Errors
    /// If a length, the window, AIFSN or CWmin is out of range.
    pub fn mpdus(&self) -> Result<u32> {
        self.check()?;
        let fits = |&mpdus: &u32| {
            let psdu = self.psdu(mpdus);
            psdu <= self.max_ampdu && self.timing.duration(self.mode, psdu) <= MAX_PPDU_TIME
        };
        Ok((2..=self.window).take_while(fits).last().unwrap_or(1))
    }

    /// Returns the air time of a PPDU of `mpdus` MPDUs, and of its response.
    fn exchange(&self, mpdus: u32) -> [Duration; 2] {
        let response = match mpdus {
            1 => ControlFrame::Ack,
            _ => ControlFrame::block_ack(self.window as u16),
        };
        let rate = response_rate(self.mode);
        let data = self.timing.duration(self.mode, self.psdu(mpdus));
        [data, self.timing.band.control_airtime(response, rate)]
    }

    /// Returns AIFS.
    fn aifs(&self) -> Duration {
        let timing = self.timing.band.timing(self.timing.form);
        timing.sifs + timing.slot * u64::from(self.aifsn)
    }

    /// Returns the mean duration of a cycle with `mpdus` MPDUs, in seconds.
    ///
    /// # Errors
    /// If `mpdus` or a parameter is out of range.
    pub fn cycle(&self, mpdus: u32) -> Result<f64> {
        self.check()?;
        count("mpdus", mpdus, 1..=256)?;
        let timing = self.timing.band.timing(self.timing.form);
        let [data, response] = self.exchange(mpdus);
        let backoff = timing.slot.as_secs_f64() * f64::from(self.cw_min) / 2.0;
        Ok((self.aifs() + data + timing.sifs + response).as_secs_f64() + backoff)
    }

    /// Returns the throughput without losses and competitors, in bits per second.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn throughput(&self) -> Result<f64> {
        self.throughput_with_loss(0.0)
    }

    /// Returns the throughput without competitors if MPDUs are lost with probability `loss`, the block-ack
    /// window never limits the sender and responses are not lost, in bits per second.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn throughput_with_loss(&self, loss: f64) -> Result<f64> {
        let delivered = 1.0 - probability("loss", loss)?;
        let mpdus = self.mpdus()?;
        let bits = f64::from(mpdus) * self.payload.bits() as f64;
        Ok(delivered * bits / self.cycle(mpdus)?)
    }

    /// Returns the times of the [saturation model](crate::dcf_saturation) for stations with this sender's
    /// PPDUs, with [`Counting::Always`](crate::dcf_saturation::Counting::Always). All MPDUs of a PPDU that collides
    /// are lost, and the sender continues after the timeout of the response. The model counts slots from AIFS.
    ///
    /// # Errors
    /// If a parameter is out of range.
    pub fn saturation_times(&self) -> Result<Times> {
        let mpdus = self.mpdus()?;
        let timing = self.timing.band.timing(self.timing.form);
        let [data, response] = self.exchange(mpdus);
        Ok(Times {
            slot: timing.slot.as_secs_f64(),
            success: (data + timing.sifs + response + self.aifs()).as_secs_f64(),
            collision: (data + timing.response_timeout + self.aifs()).as_secs_f64(),
            payload: f64::from(mpdus) * self.payload.bits() as f64,
        })
    }
}

/// How saturated senders share a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One PPDU each in turn, as a single access point with round-robin scheduling.
    Turns,
    /// Equal airtime.
    Airtime,
}

/// Returns the throughput of each of several saturated senders, in bits per second.
///
/// # Errors
/// If a parameter of a sender is out of range.
pub fn shared_throughputs(senders: &[AmpduSender], sharing: Sharing) -> Result<Vec<f64>> {
    let mut rows = Vec::with_capacity(senders.len());
    for sender in senders {
        let mpdus = sender.mpdus()?;
        rows.push((f64::from(mpdus) * sender.payload.bits() as f64, sender.cycle(mpdus)?));
    }
    let round: f64 = rows.iter().map(|&(_, cycle)| cycle).sum();
    let number = rows.len() as f64;
    let share = |&(bits, cycle): &(f64, f64)| match sharing {
        Sharing::Turns => bits / round,
        Sharing::Airtime => bits / cycle / number,
    };
    Ok(rows.iter().map(share).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dcf_saturation::{Counting, Saturation};
    use Format::{He, Ht, Vht};
    use Width::{Mhz20, Mhz40, Mhz80};
    use lasthop_wlan::phy::{Band, Coding, Form, GuardInterval, PacketExtension, Width};

    fn sender(mode: Mode, max_ampdu: u64, window: u32) -> AmpduSender {
        let timing = PpduTiming {
            band: Band::Ghz5,
            form: Form::Ns3,
            coding: Coding::Bcc,
            packet_extension: PacketExtension::Us0,
        };
        let [mpdu, payload] = [1_538, 1_472].map(Bytes::new);
        let max_ampdu = Bytes::new(max_ampdu);
        AmpduSender { timing, mode, mpdu, payload, max_ampdu, window, aifsn: 3, cw_min: 15 }
    }

    fn mode(format: Format, mcs: u8, streams: u8, width: Width, interval: GuardInterval) -> Mode {
        Mode::new(format, mcs, streams, width, interval).expect("defined")
    }

    fn ht(mcs: u8) -> Mode {
        mode(Ht, mcs, 1, Mhz20, GuardInterval::Ns800)
    }

    /// HT, MCS 7, 20 MHz: MPDUs, cycle in us, throughput in Mbps, and the throughput that ns-3.44 measured with
    /// beacons, which take 0.245 % of the time.
    #[test]
    fn one_sender_by_limit_of_the_ampdu() {
        for (limit, mpdus, cycle, mbps, ns3) in [
            (0, 1, 382.5, 30.79, 30.73),
            (4_000, 2, 578.5, 40.71, 40.63),
            (8_000, 5, 1_146.5, 51.36, 51.24),
            (16_000, 10, 2_098.5, 56.12, 55.98),
            (32_000, 20, 3_998.5, 58.90, 58.75),
            (65_535, 28, 5_518.5, 59.75, 59.59),
        ] {
            let sender = sender(ht(7), limit, 64);
            assert_eq!(sender.mpdus(), Ok(mpdus), "{limit} B");
            let found = sender.cycle(mpdus).expect("valid") * 1e6;
            assert!((found - cycle).abs() < 1e-6, "{limit} B: {found} us");
            let found = sender.throughput().expect("valid") / 1e6;
            assert!((found - mbps).abs() < 0.006, "{limit} B: {found} Mbps");
            let with_beacons = found * 0.997_55;
            assert!((with_beacons / ns3 - 1.0).abs() < 0.001, "{limit} B: {with_beacons} Mbps");
        }
    }

    #[test]
    fn one_sender_by_standard() {
        use GuardInterval::{Ns400, Ns800};
        for (mode, limit, window, mpdus, mbps) in [
            (mode(Vht, 8, 1, Mhz20, Ns800), 65_535, 64, 34, 71.72),
            (mode(Vht, 9, 1, Mhz80, Ns800), 1_048_575, 64, 64, 339.11),
            (mode(He, 11, 1, Mhz20, Ns800), 6_500_631, 256, 63, 131.30),
            (mode(He, 11, 1, Mhz80, Ns800), 6_500_631, 256, 256, 549.39),
            (mode(He, 11, 2, Mhz80, Ns800), 6_500_631, 256, 256, 1_055.22),
            (mode(Ht, 7, 2, Mhz40, Ns400), 65_535, 64, 42, 256.25),
        ] {
            let sender = sender(mode, limit, window);
            assert_eq!(sender.mpdus(), Ok(mpdus), "{mode:?}");
            let found = sender.throughput().expect("valid") / 1e6;
            assert!((found - mbps).abs() < 0.006, "{mode:?}: {found} Mbps");
        }
    }

    /// MCS 7 and MCS 0 of HT, in Mbps: turns and equal airtime, with and without aggregation.
    #[test]
    fn a_slow_sender_slows_down_all_others_unless_airtime_is_equal() {
        for (limit, turns, airtime) in
            [(65_535, [34.52, 2.47], [29.87, 2.92]), (0, [4.73, 4.73], [15.39, 2.80])]
        {
            let senders = [ht(7), ht(0)].map(|mode| sender(mode, limit, 64));
            for (sharing, expected) in [(Sharing::Turns, turns), (Sharing::Airtime, airtime)] {
                let found = shared_throughputs(&senders, sharing).expect("valid");
                for (found, expected) in found.into_iter().zip(expected) {
                    let found = found / 1e6;
                    assert!((found - expected).abs() < 0.006, "{sharing:?}: {found} Mbps");
                }
            }
        }
        assert_eq!(shared_throughputs(&[], Sharing::Airtime), Ok(Vec::new()));
    }

    #[test]
    fn loss_scales_the_throughput() {
        let sender = sender(ht(7), 65_535, 64);
        let [none, some, all] =
            [0.0, 0.25, 1.0].map(|loss| sender.throughput_with_loss(loss).expect("valid"));
        assert!((some / none - 0.75).abs() < 1e-12);
        assert_eq!(all, 0.0);
    }

    /// A single station of the saturation model has the throughput of the closed form, with any PPDU.
    #[test]
    fn one_station_of_the_saturation_model() {
        for limit in [0, 8_000, 65_535] {
            let sender = sender(ht(7), limit, 64);
            let model = Saturation::new(1, [15, 1_023], None, Counting::Always);
            let model = model.and_then(|model| model.solve()).expect("valid");
            let found =
                model.throughput(&sender.saturation_times().expect("valid")).expect("valid");
            let expected = sender.throughput().expect("valid");
            assert!((found / expected - 1.0).abs() < 1e-9, "{limit} B: {found}, {expected}");
        }
    }

    #[test]
    fn invalid_parameters_are_refused() {
        let valid = sender(ht(7), 65_535, 64);
        for (sender, message) in [
            (
                AmpduSender { window: 257, ..valid },
                "window: found 257; expected a whole number from 1 to 256",
            ),
            (
                AmpduSender { aifsn: 0, ..valid },
                "aifsn: found 0; expected a whole number from 1 to 15",
            ),
            (
                AmpduSender { mpdu: Bytes::new(0), ..valid },
                "mpdu: found 0; expected a whole number of bytes from 1 to 11454",
            ),
            (
                AmpduSender { payload: Bytes::new(1_539), ..valid },
                "payload: found 1539; expected a whole number of bytes from 1 to the MPDU, 1538",
            ),
        ] {
            assert_eq!(sender.throughput().expect_err(message).to_string(), message);
        }
        assert!(valid.throughput_with_loss(1.5).is_err());
    }
}
