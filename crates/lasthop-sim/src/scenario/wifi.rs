//! Keys of 802.11n, ac and ax in a WLAN, and of SNR and rate control: their defaults, checks and conversion.

use super::wlan::{Wlan, WlanKeys};
use lasthop_base::rng::Streams;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Node, Read, choice};
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::schema::shorthand::{OrShort, Shorthand};
use lasthop_base::units::{Bytes, Duration, Probability, Rate};
use lasthop_link::channel::Errors;
use lasthop_link::channel::independent_bits::IndependentBitsKeys;
use lasthop_link::queue::Discipline;
use lasthop_wlan::dcf::{Aggregation, MissedBlockAck, Phy, Preamble, Scheduler, Standard, Timing};
use lasthop_wlan::fading::Fading;
use lasthop_wlan::frames;
use lasthop_wlan::link_errors::SnrErrors;
use lasthop_wlan::phy::{
    Band, Coding, ErrorCurve, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming,
    Signal, Width, response_rate,
};
use lasthop_wlan::rate_control::{Contention, Ideal, MAX_BER, MinstrelHt, RateMachine};
use lasthop_wlan::snr::{FadingKeys, SnrKeys};

choice! {
    /// A standard of wireless LANs.
    pub enum WlanStandard {
        /// High Rate DSSS at 2.4 GHz: 1, 2, 5.5 and 11 Mbps.
        B = "802.11b",
        /// OFDM at 5 GHz: 6 to 54 Mbps.
        A = "802.11a",
        /// OFDM at 2.4 GHz, without stations of 802.11b: 6 to 54 Mbps.
        G = "802.11g",
        /// High throughput (HT), Wi-Fi 4: A-MPDUs and Block Ack; 6.5 to 300 Mbps.
        N = "802.11n",
        /// Very high throughput (VHT), Wi-Fi 5: up to 866.7 Mbps.
        Ac = "802.11ac",
        /// High efficiency (HE), Wi-Fi 6: up to 1201 Mbps.
        Ax = "802.11ax",
    }
}

choice! {
    /// Choice of the MCS of a link.
    pub enum RateControl {
        /// The value of the key mcs.
        Fixed = "fixed",
        /// The fastest MCS up to the key mcs with a bit error rate of at most 1e-6 at the SNR.
        Ideal = "ideal",
        /// By the losses of earlier MPDUs: Minstrel-HT, as in Linux. Modes are those up to the keys mcs and
        /// spatial_streams, with both guard intervals if guard_interval is 400 ns.
        MinstrelHt = "minstrel-ht",
        /// With 802.11b, a and g: automatic rate fallback (ARF), by failures and acknowledgments in a row,
        /// among the rates up to the key rate.
        Arf = "arf",
    }
}

/// AIFSN of the access category best effort.
const BEST_EFFORT_AIFSN: u32 = 3;

/// Largest A-MPDU of a format (802.11-2020, 9.4.2.55.3 and 9.4.2.157.2; 802.11ax-2021, 9.4.2.248.2).
const fn largest_ampdu(format: Format) -> Bytes {
    Bytes::new(match format {
        Format::Ht => 65_535,
        Format::Vht => 1_048_575,
        Format::He => 6_500_631,
    })
}

/// Largest A-MSDU of a format (802.11-2020, table 9-19): of VHT and HE by their largest MPDU.
const fn largest_amsdu(format: Format) -> Bytes {
    Bytes::new(match format {
        Format::Ht => 7_935,
        Format::Vht | Format::He => 11_398,
    })
}

/// Largest A-MSDU in an A-MPDU of HT, whose MPDUs have at most 4,095 B with QoS header and FCS.
const LARGEST_HT_AMSDU: Bytes = Bytes::new(4_095 - frames::QOS_HEADER - frames::FCS);

/// Largest window of a block-ack agreement.
const fn largest_window(format: Format) -> u32 {
    match format {
        Format::He => 256,
        Format::Ht | Format::Vht => 64,
    }
}

impl WlanStandard {
    /// Returns the standard without MCS: 802.11b, a or g.
    pub const fn plain(self) -> Option<Standard> {
        match self {
            WlanStandard::B => Some(Standard::B),
            WlanStandard::A => Some(Standard::A),
            WlanStandard::G => Some(Standard::G),
            WlanStandard::N | WlanStandard::Ac | WlanStandard::Ax => None,
        }
    }

    /// Returns the format of PPDUs of 802.11n, ac and ax.
    pub const fn format(self) -> Option<Format> {
        match self {
            WlanStandard::N => Some(Format::Ht),
            WlanStandard::Ac => Some(Format::Vht),
            WlanStandard::Ax => Some(Format::He),
            WlanStandard::B | WlanStandard::A | WlanStandard::G => None,
        }
    }
}

/// Returns a drop-tail queue of `count` packets.
fn packets(count: u32) -> OrShort<Discipline> {
    OrShort(Discipline::from_short(QueueLimit::Packets(count)))
}

/// Sets the keys that are missing to their defaults, which depend on the standard; without A-MPDUs, the
/// window is one MPDU.
pub(super) fn fill_in(keys: &mut WlanKeys) {
    let Some(format) = keys.standard.format() else {
        keys.header.get_or_insert(Bytes::new(36));
        keys.queue.get_or_insert_with(|| packets(50));
        return;
    };
    keys.header.get_or_insert(Bytes::new(38));
    keys.queue.get_or_insert_with(|| packets(500));
    let width = *keys.width.get_or_insert(Width::Mhz20);
    keys.guard_interval.get_or_insert(GuardInterval::Ns800);
    keys.spatial_streams.get_or_insert(1);
    keys.mcs.get_or_insert(match (format, width) {
        (Format::Vht, Width::Mhz20) => 8,
        _ => format.max_mcs().into(),
    });
    keys.band.get_or_insert(Band::Ghz5);
    keys.coding.get_or_insert(Coding::Bcc);
    keys.packet_extension.get_or_insert(PacketExtension::Us0);
    keys.durations.get_or_insert(Form::Standard);
    let max_ampdu = *keys.max_ampdu.get_or_insert(largest_ampdu(format));
    let has_ampdus = max_ampdu > Bytes::default();
    let most = if has_ampdus { largest_window(format) } else { 1 };
    let window = *keys.block_ack_window.get_or_insert(most);
    keys.max_ampdu_mpdus.get_or_insert(window);
    keys.max_amsdu.get_or_insert(Bytes::default());
    keys.missed_block_ack.get_or_insert(MissedBlockAck::Retransmit);
    keys.mpdu_retry_limit.get_or_insert(if has_ampdus { 10 } else { keys.short_retry_limit });
    keys.lifetime.get_or_insert(Duration::from_nanos(500_000_000));
    keys.reorder_timeout.get_or_insert(Duration::from_nanos(100_000_000));
    keys.scheduler.get_or_insert(Scheduler::Fifo);
    keys.rate_control.get_or_insert(RateControl::Fixed);
    keys.edca.get_or_insert(false);
}

impl Wlan {
    /// Returns the format of PPDUs of 802.11n, ac and ax.
    pub fn format(&self) -> Option<Format> {
        self.keys.standard.format()
    }

    /// Checks the keys that belong to one group of standards. Called before defaults are set.
    pub(super) fn check_standard(keys: &WlanKeys, node: &Node<'_>) -> Read<()> {
        let mut own = keys.station.iter().flatten();
        if keys.standard.format().is_some() {
            let allowed = format!("no rate with {}; use the key mcs", keys.standard.word());
            if let Some(rate) = keys.rate {
                return Err(node.key_error("rate", format!("\"{rate}\""), allowed));
            }
            if let Some(one) = own.find(|one| one.keys.rate.is_some()) {
                let path = format!("{}.station.{}.rate", node.path, one.name);
                return Err(ScenarioError::new(path, "a rate", allowed));
            }
            return Ok(());
        }
        let set = [
            ("mcs", keys.mcs.is_some()),
            ("width", keys.width.is_some()),
            ("guard_interval", keys.guard_interval.is_some()),
            ("spatial_streams", keys.spatial_streams.is_some()),
            ("band", keys.band.is_some()),
            ("coding", keys.coding.is_some()),
            ("packet_extension", keys.packet_extension.is_some()),
            ("durations", keys.durations.is_some()),
            ("max_ampdu", keys.max_ampdu.is_some()),
            ("max_ampdu_mpdus", keys.max_ampdu_mpdus.is_some()),
            ("max_amsdu", keys.max_amsdu.is_some()),
            ("block_ack_window", keys.block_ack_window.is_some()),
            ("missed_block_ack", keys.missed_block_ack.is_some()),
            ("mpdu_retry_limit", keys.mpdu_retry_limit.is_some()),
            ("lifetime", keys.lifetime.is_some()),
            ("reorder_timeout", keys.reorder_timeout.is_some()),
            ("scheduler", keys.scheduler.is_some()),
            ("driver_queue", keys.driver_queue.is_some()),
            ("edca", keys.edca.is_some()),
            ("category", keys.category.is_some()),
        ];
        let found = format!("a value with {}", keys.standard.word());
        let allowed = "no such key, or the standard \"802.11n\", \"802.11ac\" or \"802.11ax\"";
        if let Some((key, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
            return Err(node.key_error(key, found, allowed));
        }
        if let Some(one) = own.find(|one| one.keys.mcs.is_some()) {
            let path = format!("{}.station.{}.mcs", node.path, one.name);
            return Err(ScenarioError::new(path, found, allowed));
        }
        Ok(())
    }

    /// Checks the keys of 802.11n, ac and ax.
    pub(super) fn check_aggregation(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        self.check_snr(node)?;
        if let Some(choice) = keys.rate_control
            && (choice == RateControl::Arf) == self.format().is_some()
            && choice != RateControl::Fixed
        {
            let found = format!("{:?} with {}", choice.word(), keys.standard.word());
            let allowed = "\"arf\" with 802.11b, a and g; \"ideal\" or \"minstrel-ht\" with others";
            return Err(node.key_error("rate_control", found, allowed));
        }
        let Some(format) = self.format() else { return Ok(()) };
        if keys.driver_queue.is_some() && self.separate_scheduler().is_none() {
            let allowed = "no such key, or the scheduler \"round-robin\" or \"airtime\"";
            return Err(node.key_error("driver_queue", "one queue for all stations", allowed));
        }
        let hosts = std::iter::once(None);
        let own = keys.station.iter().flatten().filter(|one| one.keys.mcs.is_some());
        for host in hosts.chain(own.map(|one| Some(one.name.as_str()))) {
            let checked = self.try_mode(format, host).and_then(|mode| self.band().check(mode));
            if let Err(error) = checked {
                let path = match host {
                    Some(host) if error.key == "mcs" => {
                        format!("{}.station.{host}.mcs", node.path)
                    }
                    _ => format!("{}.{}", node.path, error.key),
                };
                return Err(ScenarioError::new(path, error.found, error.expected));
            }
        }
        let (window, name) = (largest_window(format), keys.standard.word());
        let has_ampdus = keys.max_ampdu.is_none_or(|most| most > Bytes::default());
        let window = if has_ampdus { window } else { 1 };
        let without = if has_ampdus { "" } else { " without A-MPDUs" };
        for (key, value) in
            [("block_ack_window", keys.block_ack_window), ("max_ampdu_mpdus", keys.max_ampdu_mpdus)]
        {
            if let Some(value) = value.filter(|&value| value > window) {
                let range = if has_ampdus { format!("1 to {window}") } else { window.to_string() };
                let allowed = format!("{range} with {name}{without}");
                return Err(node.key_error(key, value.to_string(), allowed));
            }
        }
        for (key, value, most) in [
            ("max_ampdu", keys.max_ampdu, largest_ampdu(format)),
            ("max_amsdu", keys.max_amsdu, largest_amsdu(format)),
        ] {
            if let Some(value) = value.filter(|&value| value > most) {
                let allowed = format!("up to \"{most}\" with {name}");
                return Err(node.key_error(key, format!("\"{value}\""), allowed));
            }
        }
        Ok(())
    }

    /// Checks that the errors of each link are given once.
    fn check_snr(&self, node: &Node<'_>) -> Read<()> {
        let keys = &self.keys;
        let none = |errors: &Errors| errors.kind() == "none";
        for station in &keys.stations.0 {
            let own = self.own(station);
            let own_errors =
                own.and_then(|own| own.errors.as_ref().or(own.downlink_errors.as_ref()));
            let mut errors = [Some(&keys.errors), keys.downlink_errors.as_ref(), own_errors]
                .into_iter()
                .flatten();
            let snr = self.snr_keys(station);
            let has_snr = snr.is_some();
            if snr.is_some_and(SnrKeys::needs_positions) && self.distance(station).is_none() {
                let found = format!("the distance of {station}, which has no position");
                let allowed = "the key distance, or positions (x and y) of all hosts";
                return Err(node.key_error("snr", found, allowed));
            }
            if self.fading(station).is_some() && !has_snr {
                let allowed = format!("an snr for each station with fading; {station} has none");
                return Err(node.key_error("fading", "fading without an SNR", allowed));
            }
            if has_snr && !errors.all(none) {
                let allowed = "no errors, or no snr, for a link";
                return Err(node.key_error("snr", "an SNR in addition to errors", allowed));
            }
            if keys.rate_control == Some(RateControl::Ideal) && !has_snr {
                let allowed = format!("an snr for each station; {station} has none");
                return Err(node.key_error("rate_control", "\"ideal\" without an SNR", allowed));
            }
        }
        Ok(())
    }

    /// Returns the SNR of a station's link, if it determines the errors.
    pub(super) fn snr_keys(&self, station: &str) -> Option<&SnrKeys> {
        let own = self.own(station).and_then(|own| own.snr.as_ref());
        own.or(self.keys.snr.as_ref()).map(|OrShort(snr)| snr)
    }

    /// Returns the contents of recordings of an SNR, for the hash of the scenario.
    pub(super) fn snr_contents(&self) -> Vec<u8> {
        let own = self.keys.station.iter().flatten().filter_map(|one| one.keys.snr.as_ref());
        self.keys.snr.iter().chain(own).flat_map(|OrShort(snr)| snr.contents()).collect()
    }

    /// Returns the fading of a station's link, if any.
    fn fading(&self, station: &str) -> Option<&FadingKeys> {
        self.own(station).and_then(|own| own.fading.as_ref()).or(self.keys.fading.as_ref())
    }

    /// Returns the distance of a station and the access point in metres, if they have positions.
    fn distance(&self, station: &str) -> Option<f64> {
        Some(self.position(None)?.distance(self.position(Some(station))?))
    }

    /// Returns the SNR of a station's link in dB, if it determines the errors and is constant.
    fn snr(&self, station: &str) -> Option<f64> {
        let keys = self.snr_keys(station).filter(|_| self.fading(station).is_none())?;
        keys.constant(self.keys.width.unwrap_or(Width::Mhz20), self.distance(station))
    }

    fn error_curve(&self) -> ErrorCurve {
        self.keys.error_curve.unwrap_or(ErrorCurve::Nist)
    }

    /// Returns the errors of frames of one direction of a station's link, `component`, if they follow from an
    /// SNR.
    pub(crate) fn snr_errors(
        &self,
        station: &str,
        streams: &Streams,
        component: &str,
    ) -> Option<SnrErrors> {
        let keys = self.snr_keys(station)?;
        let width = self.keys.width.unwrap_or(Width::Mhz20);
        let course = keys.course(width, self.distance(station));
        let frames = streams.stream(component, "frame loss");
        let errors = SnrErrors::new(self.error_curve(), course, frames);
        let Some(fading) = self.fading(station) else { return Some(errors) };
        let (period, k) = fading.parameters();
        // Both directions of a link fade alike.
        let link = format!("link.{}.{station}", self.name);
        let fading = Fading::new(period, k, streams.stream(&link, "fading"));
        Some(errors.with_fading(fading, period))
    }

    /// Returns the errors of frames at the constant SNR of a station's link, in its fixed mode or at its rate, if
    /// it has one.
    pub(super) fn errors_at_snr(&self, station: &str) -> Option<Errors> {
        let snr = self.snr(station)?;
        let plain = || Signal::Plain(self.phy().standard, self.rate(Some(station)));
        let signal = self.mode(Some(station)).map_or_else(plain, Signal::Mode);
        let ber = Probability::new(self.error_curve().signal_error(signal, snr).min(1.0))?;
        Some(Errors::IndependentBits(IndependentBitsKeys { ber, header: None }))
    }

    /// Returns `true` if control frames are subject to errors.
    pub fn control_errors(&self) -> bool {
        let keys = &self.keys;
        let has_snr = keys.stations.0.iter().any(|station| self.snr_keys(station).is_some());
        keys.control_errors && !has_snr
    }

    /// Returns the order in which the access point serves its stations if it has a queue for each.
    pub fn separate_scheduler(&self) -> Option<Scheduler> {
        self.keys.scheduler.filter(|&scheduler| scheduler != Scheduler::Fifo)
    }

    fn band(&self) -> Band {
        self.keys.band.unwrap_or(Band::Ghz5)
    }

    fn form(&self) -> Form {
        self.keys.durations.unwrap_or(Form::Standard)
    }

    fn try_mode(
        &self,
        format: Format,
        station: Option<&str>,
    ) -> Result<Mode, lasthop_wlan::phy::ModeError> {
        let keys = &self.keys;
        let own = station.and_then(|station| self.own(station)?.mcs);
        let mcs = own.or(keys.mcs).unwrap_or_default();
        let width = keys.width.unwrap_or(Width::Mhz20);
        let interval = keys.guard_interval.unwrap_or(GuardInterval::Ns800);
        let streams = keys.spatial_streams.unwrap_or(1) as u8;
        let mode = |mcs: u32| Mode::new(format, mcs as u8, streams, width, interval);
        let snr = station.and_then(|station| self.snr(station));
        match snr.filter(|_| keys.rate_control == Some(RateControl::Ideal)) {
            None => mode(mcs),
            Some(snr) => {
                let is_good = |mode: &Mode| self.error_curve().bit_error(*mode, snr) <= MAX_BER;
                let good = (0..=mcs).rev().filter_map(|mcs| mode(mcs).ok()).find(is_good);
                good.map_or_else(|| mode(0), Ok)
            }
        }
    }

    /// Returns the mode of data frames in general, or to and from a station; `None` with 802.11b, a and g.
    pub fn mode(&self, station: Option<&str>) -> Option<Mode> {
        // The reader has checked the combination.
        self.format().and_then(|format| self.try_mode(format, station).ok())
    }

    /// Returns the parameters of PPDUs; `None` with 802.11b, a and g.
    pub fn ppdu_timing(&self) -> Option<PpduTiming> {
        Some(PpduTiming {
            band: self.band(),
            form: self.form(),
            coding: self.keys.coding?,
            packet_extension: self.keys.packet_extension?,
        })
    }

    /// Returns the rate control of the direction `component` of a station's link, with its modes, ordered by
    /// group and rate; `None` if the mode is fixed.
    pub(crate) fn rate_machine(
        &self,
        station: &str,
        streams: &Streams,
        component: &str,
    ) -> Option<(Vec<Mode>, RateMachine)> {
        match self.keys.rate_control? {
            RateControl::Fixed | RateControl::Arf => None,
            // With a constant SNR, the choice is constant: see `mode`.
            RateControl::Ideal if self.snr(station).is_some() => None,
            RateControl::Ideal => {
                let modes = self.modes(self.keys.spatial_streams? as u8, false)?;
                let machine = Ideal::new(&modes, self.error_curve());
                Some((modes, RateMachine::Ideal(machine)))
            }
            RateControl::MinstrelHt => {
                let modes = self.modes(1, true)?;
                let random = streams.stream(component, "rate probes");
                let contention = Contention::from(&self.timing());
                let machine = MinstrelHt::new(&modes, self.ppdu_timing()?, contention, random);
                Some((modes, RateMachine::MinstrelHt(Box::new(machine))))
            }
        }
    }

    /// Returns the rates of data and of control frames between which ARF chooses for a station's link, in
    /// increasing order; `None` without ARF.
    pub(crate) fn arf_rates(&self, station: &str) -> Option<Vec<[Rate; 2]>> {
        if self.keys.rate_control != Some(RateControl::Arf) {
            return None;
        }
        let highest = self.rate(Some(station));
        let rates = self.phy().standard.rates().filter(|&rate| rate <= highest);
        Some(rates.map(|rate| [rate, self.control_rate(rate)]).collect())
    }

    /// Returns the modes with at least `fewest` streams, with both guard intervals if `has_both` and the shorter
    /// one is set.
    fn modes(&self, fewest: u8, has_both: bool) -> Option<Vec<Mode>> {
        let (format, keys) = (self.format()?, &self.keys);
        let (width, interval) = (keys.width?, keys.guard_interval?);
        let intervals = match interval {
            GuardInterval::Ns400 if has_both => &[GuardInterval::Ns800, GuardInterval::Ns400][..],
            _ => &[interval],
        };
        let mut modes = Vec::new();
        for streams in fewest..=keys.spatial_streams? as u8 {
            for &interval in intervals {
                let mode = |mcs: u32| Mode::new(format, mcs as u8, streams, width, interval).ok();
                let of_band = |mode: &Mode| self.band().check(*mode).is_ok();
                modes.extend((0..=keys.mcs?).filter_map(mode).filter(of_band));
            }
        }
        Some(modes)
    }

    /// Returns the parameters of A-MPDUs to and from a station; `None` with 802.11b, a and g.
    pub fn aggregation(&self, station: &str) -> Option<Aggregation> {
        let keys = &self.keys;
        let (format, mode) = (self.format()?, self.mode(Some(station))?);
        let has_ampdus = keys.max_ampdu? > Bytes::default();
        Some(Aggregation {
            timing: self.ppdu_timing()?,
            mode,
            control_rate: self.control_rate_of(station),
            max_ampdu: keys.max_ampdu?,
            max_mpdus: keys.max_ampdu_mpdus?,
            max_amsdu: if format == Format::Ht && has_ampdus {
                keys.max_amsdu?.min(LARGEST_HT_AMSDU)
            } else {
                keys.max_amsdu?
            },
            window: keys.block_ack_window? as u16,
            attempts: keys.mpdu_retry_limit?,
            lifetime: keys.lifetime?,
            reorder_timeout: keys.reorder_timeout?,
            missed: keys.missed_block_ack?,
        })
    }

    /// Returns the physical layer of the frames: of all with 802.11b, a and g, otherwise of control frames.
    pub fn phy(&self) -> Phy {
        match self.keys.standard.plain() {
            Some(standard) => Phy { standard, preamble: self.keys.preamble },
            None => Phy { preamble: Preamble::Long, ..self.band().non_ht() },
        }
    }

    /// Returns durations and contention windows of the standard.
    pub(super) fn standard_timing(&self) -> Timing {
        match self.format() {
            None => self.phy().timing(),
            Some(_) => {
                let has_categories = self.has_categories();
                let aifsn = if has_categories { self.smallest_aifsn() } else { BEST_EFFORT_AIFSN };
                Timing { aifsn, ..self.band().timing(self.form()) }
            }
        }
    }

    /// Returns the air time of a frame of `length`, header included, alone in a PPDU to or from a station.
    pub(crate) fn frame_time(&self, station: &str, length: Bytes) -> Duration {
        let (Some(mode), Some(timing)) = (self.mode(Some(station)), self.ppdu_timing()) else {
            return self.phy().airtime(length, self.rate(Some(station)));
        };
        // An MPDU of VHT and HE has a delimiter also if it is alone.
        let delimiter = if mode.format() == Format::Ht { 0 } else { 4 };
        timing.duration(mode, Bytes::new(length.get() + delimiter))
    }

    /// Returns the rate of control frames to and from a station.
    pub fn control_rate_of(&self, station: &str) -> Rate {
        let rate = self.rate(Some(station));
        match self.mode(Some(station)) {
            None => self.control_rate(rate),
            Some(mode) => self.response_rate(mode),
        }
    }

    /// Returns the rate of control frames that belong to data in `mode`.
    pub fn response_rate(&self, mode: Mode) -> Rate {
        self.keys.control_rate.unwrap_or(response_rate(mode))
    }
}
