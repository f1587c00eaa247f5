//! Conditions on combinations of TCP keys, as data.

use super::keys::Packets;
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::Limits;
use lasthop_base::schema::quantity::Window;
use lasthop_tcp::config::{LossDetection, RecoveryKind, UndoKind};
use lasthop_tcp::congestion_control::CongestionControlKind;
use lasthop_tcp::{Config, Profile, TcpKeys};

/// TCP keys of the scenario, and the resulting parameters.
struct Subject<'a> {
    tcp: &'a TcpKeys,
    config: Config,
}

/// A condition on a key.
struct Rule {
    key: &'static str,
    /// Returns the value found if the condition is violated.
    violated: fn(&Subject<'_>) -> Option<String>,
    /// Allowed values or combinations, for the message.
    allowed: &'static str,
}

const RESTART: &str = "false, or profile \"rfc\" without \"rack-tlp\" recovery, or profile \"linux\" with a congestion control algorithm \
                       that does not pace";
const RFC_6675: &str = "only with recovery by SACK as RFC 6675 says: profile \"rfc\" or \"ns-2\", a variant that uses \
                        selective acknowledgments, and no other sack_recovery";
const COMPRESSION: &str = "no value, or profile \"linux\" with sack = true";

/// The conditions; the first violation is reported.
const RULES: &[Rule] = &[
    Rule {
        key: "variant",
        violated: |at| {
            let lacks = at.is(Profile::Linux) && !at.tcp.variant.is_of_hosts();
            lacks.then(|| format!("{}, the default", at.variant_with_profile()))
        },
        allowed: "a variant that a Linux host has, such as \"cubic\", or profile \"rfc\" or \"ns-2\"",
    },
    Rule {
        key: "sack",
        violated: |at| Some(at.with_profile(at.tcp.sack.filter(|_| !at.is(Profile::Linux))?)),
        allowed: "profile \"linux\"; elsewhere variants \"sack\" and \"cubic\" have it",
    },
    Rule {
        key: "autotuning",
        violated: |at| {
            let is_asked = at.tcp.autotuning == Some(true) && !at.config.autotuning;
            is_asked.then(|| match at.tcp.profile {
                Profile::Linux => "true with receive_window".to_owned(),
                Profile::Rfc | Profile::Ns2 => at.with_profile(true),
            })
        },
        allowed: "false, or profile \"linux\" without receive_window",
    },
    Rule {
        key: "send_buffer",
        violated: |at| {
            let segment = at.config.segment;
            let size = at.tcp.send_buffer.filter(|size| *size < segment)?;
            Some(format!("{size} with segments of {segment}"))
        },
        allowed: "at least one segment",
    },
    Rule {
        key: "send_buffer",
        violated: |at| {
            let is_coded = at.tcp.send_buffer.is_some() && at.config.sends_blocks();
            is_coded.then(|| "this key with LT-TCP, which sends blocks".to_owned())
        },
        allowed: "no value",
    },
    Rule {
        key: "segmentation_offload",
        violated: |at| {
            let offload = at.tcp.segmentation_offload.filter(|_| !at.config.autotuning)?;
            Some(format!("{offload} without autotuning"))
        },
        allowed: "profile \"linux\" without receive_window, whose hosts have it",
    },
    Rule {
        key: "min_tso_segments",
        violated: |at| {
            let least = at.tcp.min_tso_segments?;
            let lacks = match at.config {
                Config { autotuning: false, .. } => "without autotuning",
                Config { segmentation_offload: false, .. } => "with segmentation_offload = false",
                _ => return None,
            };
            Some(format!("{least} {lacks}"))
        },
        allowed: "no value, or profile \"linux\" without receive_window and with segmentation_offload = true",
    },
    Rule {
        key: "timer_tick",
        violated: |at| Some(at.with_profile(at.tcp.timer_tick.filter(|_| !at.is(Profile::Linux))?)),
        allowed: "profile \"linux\"",
    },
    Rule {
        key: "sack_recovery",
        violated: |at| {
            let is_other = at.is(Profile::Linux) && !at.has_rack();
            let recovery = at.tcp.sack_recovery.filter(|_| is_other)?;
            Some(format!("{:?} with profile \"linux\"", recovery.word()))
        },
        allowed: "\"rack-tlp\"",
    },
    Rule {
        key: "sack_recovery",
        violated: |at| {
            let lacks = !at.is(Profile::Linux) && !at.tcp.variant.has_sack();
            at.recovery_with_variant().filter(|_| lacks)
        },
        allowed: "a variant that uses selective acknowledgments, such as \"sack\"",
    },
    Rule {
        key: "eln_filter",
        violated: |at| at.tcp.eln_filter.and_then(|_| at.without_esack()),
        allowed: "variant \"esack\" or sack_recovery = \"esack\"",
    },
    Rule {
        key: "ersn",
        violated: |at| at.tcp.ersn.and_then(|_| at.without_esack()),
        allowed: "variant \"esack\" or sack_recovery = \"esack\"",
    },
    Rule {
        key: "congestion_control",
        violated: |at| at.tcp.congestion_control.and_then(|_| at.coded_elsewhere()),
        allowed: "profile \"rfc\" without fin",
    },
    Rule {
        key: "variant",
        violated: |at| at.coded_elsewhere(),
        allowed: "profile \"rfc\" without fin",
    },
    Rule {
        key: "loss_detection",
        violated: |at| {
            let detection = at.tcp.loss_detection.filter(|_| at.delays_detection_elsewhere())?;
            Some(format!("{:?}", detection.word()))
        },
        allowed: RFC_6675,
    },
    Rule {
        key: "variant",
        violated: |at| {
            at.delays_detection_elsewhere().then(|| format!("{:?}", at.tcp.variant.word()))
        },
        allowed: RFC_6675,
    },
    Rule {
        key: "sack_recovery",
        violated: |at| at.recovery_with_variant().filter(|_| !at.tcp.variant.is_of_hosts()),
        allowed: "no value: this variant determines its loss recovery",
    },
    Rule {
        key: "timestamps",
        violated: |at| {
            let lacks = at.config.congestion_control.reads_arrivals() && !at.config.timestamps;
            let law = at.config.congestion_control.kind();
            lacks.then(|| {
                format!("false with congestion control {law:?}, which needs the arrival times of segments")
            })
        },
        allowed: "true",
    },
    Rule {
        key: "congestion_control",
        violated: |at| at.tcp.congestion_control.and_then(|_| at.needs_marks_one_way()),
        allowed: "profile \"rfc\" or \"linux\"",
    },
    Rule {
        key: "variant",
        violated: |at| at.needs_marks_one_way(),
        allowed: "profile \"rfc\" or \"linux\"",
    },
    Rule {
        key: "ecn",
        violated: |at| (at.config.ecn && at.config.one_way).then(|| at.with_profile(true)),
        allowed: "false, or profile \"rfc\" or \"linux\"",
    },
    Rule {
        key: "abe",
        violated: |at| {
            let knows = matches!(
                at.config.congestion_control,
                CongestionControlKind::Reno(_) | CongestionControlKind::Cubic(_)
            ) && at.is(Profile::Rfc)
                && at.config.ecn;
            (at.config.abe && !knows).then(|| "true without what it changes".to_owned())
        },
        allowed: "false, or ecn = true, profile \"rfc\" and congestion control \"reno\" or \"cubic\"",
    },
    Rule {
        key: "nagle",
        violated: |at| (at.config.nagle && at.config.one_way).then(|| at.with_profile(true)),
        allowed: "false, or profile \"rfc\" or \"linux\"",
    },
    Rule {
        key: "nagle",
        violated: |at| {
            let is_coded = at.config.nagle && at.config.sends_blocks();
            is_coded.then(|| "true with LT-TCP, which sends blocks".to_owned())
        },
        allowed: "false",
    },
    Rule {
        key: "tail_probes",
        violated: |at| {
            let probes = at.tcp.tail_probes.filter(|_| !at.has_rack())?;
            Some(format!("{probes} without RACK-TLP"))
        },
        allowed: "no value, or sack_recovery = \"rack-tlp\"",
    },
    Rule {
        key: "frto",
        violated: |at| {
            let frto = at.tcp.frto.filter(|_| at.config.undo != UndoKind::All)?;
            Some(format!("{frto} with undo = {:?}", at.config.undo.word()))
        },
        allowed: "no value, or undo = \"all\"",
    },
    Rule {
        key: "dsack",
        violated: |at| (at.config.dsack && at.is(Profile::Ns2)).then(|| at.with_profile(true)),
        allowed: "false, or profile \"rfc\" or \"linux\"",
    },
    Rule {
        key: "dsack",
        violated: |at| {
            let reports = at.has_rack() || at.config.recovery == RecoveryKind::Sack6675;
            let lacks = at.config.dsack && !(at.config.sack && reports);
            lacks.then(|| "true without SACK".to_owned())
        },
        allowed: "false, or sack_recovery = \"rfc6675\" or \"rack-tlp\" with SACK",
    },
    Rule {
        key: "sack_compression_delay",
        violated: |at| at.compressed_elsewhere(at.tcp.sack_compression_delay),
        allowed: COMPRESSION,
    },
    Rule {
        key: "sack_compression_slack",
        violated: |at| at.compressed_elsewhere(at.tcp.sack_compression_slack),
        allowed: COMPRESSION,
    },
    Rule {
        key: "sack_compression_count",
        violated: |at| at.compressed_elsewhere(at.tcp.sack_compression_count),
        allowed: COMPRESSION,
    },
    Rule {
        key: "syn_linear_timeouts",
        violated: |at| {
            let count = at.tcp.syn_linear_timeouts.filter(|&count| count > 0)?;
            match at.tcp.profile {
                Profile::Ns2 => Some(at.with_profile(count)),
                Profile::Rfc | Profile::Linux if at.config.handshake => None,
                Profile::Rfc | Profile::Linux => Some(format!("{count} with handshake = false")),
            }
        },
        allowed: "0, or profile \"rfc\" or \"linux\" with handshake = true",
    },
    Rule {
        key: "window_validation",
        violated: |at| at.idle_elsewhere().filter(|_| at.config.window_validation),
        allowed: "false, or profile \"rfc\" with another recovery than \"rack-tlp\"",
    },
    Rule {
        key: "restart_after_idle",
        violated: |at| {
            let is_of_linux = at.is(Profile::Linux) && !at.config.congestion_control.paces();
            at.idle_elsewhere().filter(|_| at.config.restart_after_idle && !is_of_linux)
        },
        allowed: RESTART,
    },
    Rule {
        key: "restart_after_idle",
        violated: |at| {
            let both = at.config.window_validation && at.config.restart_after_idle;
            both.then(|| {
                "true with window_validation, which keeps the window in a pause".to_owned()
            })
        },
        allowed: "one of the two",
    },
    Rule {
        key: "byte_counting",
        violated: |at| {
            let knows = at.is(Profile::Rfc)
                && matches!(at.config.congestion_control, CongestionControlKind::Reno(_));
            let most = at.config.byte_counting.filter(|_| !knows)?;
            Some(format!(
                "{} and congestion control {:?}",
                at.with_profile(most),
                at.config.congestion_control.kind()
            ))
        },
        allowed: "no value, or profile \"rfc\" and congestion control \"reno\"",
    },
    Rule {
        key: "undo",
        violated: |at| {
            let lacks = !at.has_rack();
            (at.config.undo == UndoKind::All && lacks)
                .then(|| "\"all\" without RACK-TLP".to_owned())
        },
        allowed: "\"off\", \"eifel\", or sack_recovery = \"rack-tlp\"",
    },
    Rule {
        key: "undo",
        violated: |at| {
            let lacks = at.config.undo == UndoKind::Eifel && !at.config.timestamps;
            lacks.then(|| "\"eifel\" without timestamps".to_owned())
        },
        allowed: "\"off\", or timestamps = true",
    },
];

impl Subject<'_> {
    fn is(&self, profile: Profile) -> bool {
        self.tcp.profile == profile
    }

    fn has_rack(&self) -> bool {
        self.config.recovery == RecoveryKind::RackTlp
    }

    fn with_profile(&self, value: impl std::fmt::Display) -> String {
        format!("{value} with profile {:?}", self.tcp.profile.word())
    }

    fn variant_with_profile(&self) -> String {
        self.with_profile(format_args!("{:?}", self.tcp.variant.word()))
    }

    fn recovery_with_variant(&self) -> Option<String> {
        let recovery = self.tcp.sack_recovery?;
        Some(format!("{:?} with variant {:?}", recovery.word(), self.tcp.variant.word()))
    }

    fn without_esack(&self) -> Option<String> {
        let lacks = self.config.recovery != RecoveryKind::Esack;
        lacks.then(|| format!("this key with variant {:?}", self.tcp.variant.word()))
    }

    /// Returns a violation for the value of a key of compressed ACKs if no ACK can be compressed.
    fn compressed_elsewhere(&self, value: Option<impl std::fmt::Display>) -> Option<String> {
        let value = value?;
        match self.tcp.profile {
            Profile::Linux if self.config.sack => None,
            Profile::Linux => Some(format!("{value} with sack = false")),
            Profile::Rfc | Profile::Ns2 => Some(self.with_profile(value)),
        }
    }

    /// Returns a violation for LT-TCP with another profile, or with a FIN.
    fn coded_elsewhere(&self) -> Option<String> {
        let is_coded = matches!(self.config.congestion_control, CongestionControlKind::LtTcp(_));
        match self.tcp.profile {
            _ if !is_coded => None,
            Profile::Rfc => self.config.fin.then(|| "\"lt-tcp\" with fin = true".to_owned()),
            Profile::Ns2 | Profile::Linux => Some(self.with_profile("\"lt-tcp\"")),
        }
    }

    fn delays_detection_elsewhere(&self) -> bool {
        self.config.loss_detection != LossDetection::Duplicates
            && self.config.recovery != RecoveryKind::Sack6675
    }

    /// Returns a violation for a congestion control algorithm that needs marks if the receiver
    /// cannot echo them.
    fn needs_marks_one_way(&self) -> Option<String> {
        let needs = self.config.ecn && self.config.one_way && self.tcp.ecn.is_none();
        let law = self.config.congestion_control.kind();
        needs.then(|| self.with_profile(format_args!("{law:?}, which needs marks,")))
    }

    /// Returns a violation for a profile or a recovery without the rules for idle periods of RFC
    /// 5681 and RFC 7661.
    fn idle_elsewhere(&self) -> Option<String> {
        match self.tcp.profile {
            Profile::Rfc => self.has_rack().then(|| self.with_profile(true) + " and RACK-TLP"),
            Profile::Ns2 | Profile::Linux => Some(self.with_profile(true)),
        }
    }
}

/// Returns a quantity in the notation of a scenario.
fn quoted(quantity: impl std::fmt::Display) -> String {
    format!("\"{quantity}\"")
}

/// Checks conditions on several keys of the transport at `path`.
pub(super) fn check(tcp: &TcpKeys, path: &str) -> Result<(), ScenarioError> {
    let subject = Subject { tcp, config: tcp.config() };
    for Rule { key, violated, allowed } in RULES {
        if let Some(found) = violated(&subject) {
            return Err(ScenarioError::new(format!("{path}.{key}"), found, *allowed));
        }
    }
    check_limits(&subject).map_err(|(key, found, allowed)| {
        ScenarioError::new(format!("{path}.{key}"), found, allowed)
    })
}

/// Checks quantities that are limited by others; the error is the key, the value found and the
/// values allowed.
fn check_limits(subject: &Subject<'_>) -> Result<(), (&'static str, String, String)> {
    let Subject { tcp, config } = subject;
    let max = config.max_rto;
    for (key, set, value) in [
        ("min_rto", tcp.min_rto, config.min_rto),
        ("initial_rto", tcp.initial_rto, config.initial_rto),
    ] {
        if value <= max {
            continue;
        }
        // The error names the key that the scenario sets.
        return Err(match (set, tcp.max_rto) {
            (None, Some(_)) => {
                ("max_rto", quoted(max), format!("a duration from {key}, {}", quoted(value)))
            }
            _ => (key, quoted(value), format!("a duration up to max_rto, {}", quoted(max))),
        });
    }
    let windows = [("receive_window", tcp.receive_window), ("initial_window", tcp.initial_window)];
    for (key, window) in windows {
        if let Some(Window::Bytes(bytes)) = window
            && bytes < config.segment
        {
            let allowed = format!("at least one segment, {}", quoted(config.segment));
            return Err((key, quoted(bytes), allowed));
        }
    }
    let data = Packets::new(config).data;
    if data.get() > Limits::PACKET.max {
        let allowed = "segment, header and options together up to 65.535 kB".to_owned();
        return Err(("segment", format!("packets of {data}"), allowed));
    }
    Ok(())
}
