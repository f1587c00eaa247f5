//! Named TCPs and profiles, as data.

use super::config::{
    Config, LossDetection, Notices, RecoveryKind, TIMESTAMPS, TcpKeys, UndoKind, WritePolicy,
};
use super::congestion_control::{CongestionControlKind, Marks, Parts};
use lasthop_base::units::{Bytes, Duration};

pub use super::config::{Overrides, Profile};
pub use super::congestion_control::Variant;

impl Variant {
    /// Returns `true` if the variant uses selective acknowledgments.
    pub fn has_sack(self) -> bool {
        let [rfc, _] = self.parts().recovery;
        matches!(
            rfc,
            RecoveryKind::Sack6675
                | RecoveryKind::SackNs2
                | RecoveryKind::Esack
                | RecoveryKind::Lhp
        )
    }

    /// Returns `true` if a Linux host supports all components of the variant, apart from its
    /// congestion control algorithm.
    pub fn is_of_hosts(self) -> bool {
        let Parts { recovery: [rfc, _], detection, notices, .. } = self.parts();
        let is_own = matches!(rfc, RecoveryKind::Tahoe | RecoveryKind::Lhp);
        !is_own && detection == LossDetection::Duplicates && notices == Notices::Off
    }
}

/// Tick of the timestamps from which algorithms derive arrival times. They replace the separate
/// header fields of the algorithms' papers.
const FINE_TICK: Duration = Duration::from_nanos(10_000);

/// Returns the parameters of `variant` under `profile`, with the user's overrides.
///
/// ```
/// use lasthop_tcp::{Overrides, Profile, Variant, presets};
///
/// let newreno = presets::config(Variant::NewReno, Profile::Rfc, &Overrides::default());
/// assert_eq!(newreno.dupack_threshold, 3);
/// let set = Overrides { dupack_threshold: Some(5), ..Overrides::default() };
/// assert_eq!(presets::config(Variant::NewReno, Profile::Rfc, &set).dupack_threshold, 5);
/// ```
pub fn config(variant: Variant, profile: Profile, set: &Overrides) -> Config {
    let base = Config::of(profile);
    let Parts { recovery: [rfc, ns2], detection, notices, congestion_control: algorithm } =
        variant.parts();
    let algorithm = set.congestion_control.unwrap_or(algorithm);
    let (recovery, sack) = match profile {
        Profile::Rfc => (rfc, variant.has_sack()),
        Profile::Ns2 => (ns2, variant.has_sack()),
        // In Linux, SACK is an option of the host, independent of the algorithm.
        Profile::Linux => (base.recovery, set.sack.unwrap_or(base.sack)),
    };
    let sends_blocks = matches!(algorithm, CongestionControlKind::LtTcp(_));
    let hystart = profile == Profile::Linux && matches!(algorithm, CongestionControlKind::Cubic(_));
    // Any other recovery scheme ignores explicit loss notifications.
    let own = if profile == Profile::Ns2 { ns2 } else { rfc };
    let recovery = set.recovery.filter(|_| sack).unwrap_or(recovery);
    let notices = if recovery == own { notices } else { Notices::Off };
    let timestamps = set.timestamps.unwrap_or(base.timestamps || algorithm.reads_arrivals());
    // RFC 6691: options of every segment reduce its payload.
    let options = if timestamps && base.charge_options { TIMESTAMPS } else { 0 };
    let segment = set.segment.unwrap_or(Bytes::new(base.segment.get() - u64::from(options)));
    let granularity = set.clock_granularity.unwrap_or(base.clock_granularity);
    // RFC 6928: min(10 MSS, max(2 MSS, 14600 B)).
    let initial_window = match profile {
        Profile::Ns2 => base.initial_window,
        Profile::Linux => base.initial_window,
        Profile::Rfc => (14_600.0 / segment.get() as f64).floor().clamp(2.0, base.initial_window),
    };
    let autotuning = base.autotuning
        && !sends_blocks
        && set.receive_window.is_none()
        && set.autotuning.unwrap_or(true);
    let writes = if set.nagle == Some(true) { WritePolicy::Stream } else { base.writes };
    let defaults = Config {
        loss_detection: detection,
        congestion_control: algorithm,
        hystart,
        pacing: base.pacing || algorithm.paces(),
        undo: if recovery == RecoveryKind::RackTlp { UndoKind::All } else { base.undo },
        segment,
        min_tso_segments: if autotuning { base.min_tso_segments } else { 0 },
        delayed_ack: base.delayed_ack.filter(|_| !sends_blocks),
        dsack: base.dsack && sack,
        sack_compression_count: if sack { base.sack_compression_count } else { 0 },
        ecn: base.ecn || sends_blocks || algorithm.marks() != Marks::Classic,
        marks: algorithm.marks(),
        timestamps,
        timestamp_tick: if algorithm.reads_arrivals() { FINE_TICK } else { granularity },
        // Linux does not reduce the window of a paced algorithm.
        restart_after_idle: base.restart_after_idle && !algorithm.paces(),
        fin: base.fin && !sends_blocks,
        initial_window,
        writes,
        notices,
        ..base
    };
    Config { recovery, sack, autotuning, ..defaults.with(set) }
}

impl TcpKeys {
    /// Returns all parameters: keys of the scenario, completed by those of its profile.
    pub fn config(&self) -> Config {
        let config = |set: &Overrides| config(self.variant, self.profile, set);
        // Windows in bytes are converted to segments of the effective length, which does not depend on them.
        let segment = config(&self.overrides(Bytes::new(1))).segment;
        config(&self.overrides(segment))
    }

    /// Returns the text of the program that contains its congestion control, if that is not part of
    /// the engine.
    pub fn program(&self) -> Option<&'static str> {
        match self.congestion_control {
            Some(CongestionControlKind::Python(keys)) => Some(keys.class.source()),
            _ => None,
        }
    }
}
