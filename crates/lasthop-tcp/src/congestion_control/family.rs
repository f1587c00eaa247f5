//! Declarations of a congestion control algorithm, and the macro that turns the list of algorithms
//! into types.
//!
//! An algorithm is one file of this folder. The file contains its keys (`table! { … as "kind" }`),
//! their [`AlgorithmKeys`], and the state machine, a [`CongestionControl`] (most are a
//! [`WindowLaw`](super::window::WindowLaw)). An entry in the list in `congestion_control/mod.rs`
//! adds a variant of [`Algorithm`](super::Algorithm) and a kind of the key `congestion_control`
//! ([`CongestionControlKind`](super::CongestionControlKind)). It also adds a named TCP
//! ([`Variant`](super::Variant)): the algorithm with default keys, over the recovery scheme
//! [`AlgorithmKeys::RECOVERY`].

use super::super::config::{Config, LossDetection, Notices, RecoveryKind};
use super::CongestionControl;
use lasthop_base::schema::files::Files;
use lasthop_base::schema::keys::{Kind, Node, Table};
use serde_json::{Map, Value};
use std::path::Path;

/// Default recovery schemes of named TCPs under the profiles `rfc` and `ns-2`: based on selective
/// acknowledgments.
pub(super) const BY_SACK: [RecoveryKind; 2] = [RecoveryKind::Sack6675, RecoveryKind::SackNs2];

/// Keys of an algorithm, and the properties that the algorithm declares.
pub(crate) trait AlgorithmKeys: Table + Kind + Copy {
    /// The state machine.
    type Machine: CongestionControl + Clone + std::fmt::Debug;

    /// Recovery schemes, under the profiles `rfc` and `ns-2`, of the TCP named after the algorithm.
    const RECOVERY: [RecoveryKind; 2] = BY_SACK;

    /// Whether the algorithm measures the path. If so, the connection records the transmission time
    /// of each segment and calls [`CongestionControl::on_delivery`].
    const MEASURES: bool = true;

    /// Whether the algorithm reads delivery rates ([`Delivery::rate`](super::Delivery)). If so,
    /// each segment record includes the state that a rate sample needs.
    const READS_RATES: bool = false;

    /// Whether the algorithm sets a pacing rate. If so, pacing is on by default.
    const PACES: bool = false;

    /// Whether the algorithm needs the arrival times of segments at the receiver. If so, timestamps
    /// are on, with a fine-grained clock.
    const READS_ARRIVALS: bool = false;

    /// How the algorithm uses congestion marks. Except for [`Marks::Classic`], explicit congestion
    /// notification is on by default.
    const MARKS: Marks = Marks::Classic;

    /// Creates the state machine with a window of `cwnd` segments.
    fn build(&self, config: &Config, cwnd: f64) -> Self::Machine;
}

/// Returns the default keys.
pub(super) fn defaults<K: AlgorithmKeys>() -> K {
    let nothing = Value::Object(Map::new());
    let node = Node { value: &nothing, path: String::new(), files: &Files::new(Path::new("")) };
    K::read(&node).expect("every key of an algorithm has a default")
}

/// Use of congestion marks by an algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// Any mark in a window of data is one congestion signal (RFC 3168).
    #[default]
    Classic,
    /// The algorithm uses the fraction of marked bytes; the receiver echoes each mark (RFC 8257).
    Share,
    /// Like [`Self::Share`], and segments are sent as ECT(1), so that queues classify them as L4S
    /// (RFC 9331).
    Scalable,
}

/// Components of a named TCP.
pub(in super::super) struct Parts {
    /// Recovery schemes under the profiles `rfc` and `ns-2`.
    pub recovery: [RecoveryKind; 2],
    /// Condition for declaring a segment lost.
    pub detection: LossDetection,
    /// Reaction to a notification that a link has lost a segment.
    pub notices: Notices,
    pub congestion_control: super::CongestionControlKind,
}

impl Parts {
    /// Returns Reno's window over a recovery scheme.
    pub fn over_reno(recovery: [RecoveryKind; 2]) -> Self {
        let congestion_control = super::CongestionControlKind::Reno(super::RenoKeys {});
        Parts {
            recovery,
            detection: LossDetection::Duplicates,
            notices: Notices::Off,
            congestion_control,
        }
    }

    /// Like [`Self::over_reno`], with a reaction to explicit loss notifications.
    pub fn with_notices(notices: Notices, recovery: RecoveryKind) -> Self {
        Parts { notices, ..Parts::over_reno([recovery; 2]) }
    }

    /// Returns Reno's window over RFC 6675 with a different loss detection.
    pub fn with_detection(detection: LossDetection) -> Self {
        Parts { detection, ..Parts::over_reno([RecoveryKind::Sack6675; 2]) }
    }
}

/// Expands the list of algorithms to their modules, the union of their keys, the enum of all state
/// machines, and the named TCPs.
macro_rules! algorithms {
    (
        over reno { $($(#[doc = $about:literal])+ $named:ident = $word:literal: $parts:expr;)* }
        $($module:ident: $($kind:ident($keys:ident)),+;)*
    ) => {
        $(pub mod $module;)*

        kinds! {
            /// How the congestion window moves.
            pub enum CongestionControlKind {
                Reno(reno::RenoKeys),
                $($($kind($module::$keys),)+)*
                Python(external::PythonKeys),
            }
        }

        impl Copy for CongestionControlKind {}

        /// Expands to a constant of the keys, or to the corresponding value of Reno or of an
        /// external algorithm.
        macro_rules! of_keys {
            ($algorithm:expr, $reno:expr, $constant:ident, $external:expr) => {
                match $algorithm {
                    CongestionControlKind::Reno(_) => $reno,
                    CongestionControlKind::Python(keys) => $external(keys.class.properties()),
                    $($(CongestionControlKind::$kind(_) => <$module::$keys as AlgorithmKeys>::$constant,)+)*
                }
            };
        }

        impl CongestionControlKind {
            /// Returns `true` if the algorithm measures delivered data (`AlgorithmKeys::MEASURES`).
            #[inline]
            pub fn measures(&self) -> bool {
                of_keys!(self, false, MEASURES, |own: external::Properties| own.measures)
            }

            /// Returns `true` if the algorithm reads delivery rates (`AlgorithmKeys::READS_RATES`).
            pub fn reads_rates(&self) -> bool {
                of_keys!(self, false, READS_RATES, |own: external::Properties| own.reads_rates)
            }

            /// Returns `true` if the algorithm needs arrival times (`AlgorithmKeys::READS_ARRIVALS`).
            pub fn reads_arrivals(&self) -> bool {
                of_keys!(self, false, READS_ARRIVALS, |_| false)
            }

            /// Returns how the algorithm uses congestion marks (`AlgorithmKeys::MARKS`).
            pub fn marks(&self) -> Marks {
                of_keys!(self, Marks::Classic, MARKS, |own: external::Properties| own.marks)
            }

            /// Returns `true` if the algorithm sets a pacing rate (`AlgorithmKeys::PACES`).
            pub fn paces(&self) -> bool {
                of_keys!(self, false, PACES, |own: external::Properties| own.paces)
            }
        }

        /// A named TCP: a recovery scheme and a congestion control algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $($(#[doc = $about])+ $named,)*
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind,
            )+)*
        }

        impl Variant {
            /// All named TCPs.
            pub const ALL: &[Variant] =
                &[$(Variant::$named,)* $($(Variant::$kind,)+)*];

            /// Name in scenarios and description of each.
            const WORDS: &'static [(&'static str, &'static str)] = &[
                $(($word, concat!($($about),+)),)*
                $($((
                    <$module::$keys as Kind>::KIND,
                    <$module::$keys as Kind>::ABOUT,
                ),)+)*
            ];

            /// Returns the components of the named TCP.
            pub(super) fn parts(self) -> Parts {
                match self {
                    $(Variant::$named => $parts,)*
                    $($(Variant::$kind => Parts {
                        recovery: <$module::$keys as AlgorithmKeys>::RECOVERY,
                        detection: LossDetection::Duplicates,
                        notices: Notices::Off,
                        congestion_control: CongestionControlKind::$kind(defaults()),
                    },)+)*
                }
            }
        }

        /// Congestion control state of a connection. Variants several times the size of Reno's are
        /// boxed.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub(super) enum Algorithm {
            /// Reno with ns-2's arithmetic.
            RenoNs2(reno::Reno<reno::Ns2>),
            /// Reno as specified in RFC 5681.
            Reno(reno::Reno<reno::Rfc5681>),
            /// Reno with Linux's arithmetic.
            RenoLinux(reno_linux::RenoLinux),
            /// CUBIC with Linux's arithmetic.
            CubicLinux(Box<cubic_linux::CubicLinux>),
            /// BBR with Linux's arithmetic.
            BbrLinux(Box<bbr_linux::BbrLinux>),
            /// An algorithm outside the engine.
            External(Box<external::External>),
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind(Box<<$module::$keys as AlgorithmKeys>::Machine>),
            )+)*
        }

        /// Evaluates an expression for the state machine of the active variant.
        macro_rules! dispatch {
            ($algorithm:expr, $inner:ident => $does:expr) => {
                match $algorithm {
                    Algorithm::RenoNs2($inner) => $does,
                    Algorithm::Reno($inner) => $does,
                    Algorithm::RenoLinux($inner) => $does,
                    Algorithm::CubicLinux($inner) => $does,
                    Algorithm::BbrLinux($inner) => $does,
                    Algorithm::External($inner) => $does,
                    $($(Algorithm::$kind($inner) => $does,)+)*
                }
            };
        }

        impl Algorithm {
            /// Creates the algorithm that `config` selects, with a window of `cwnd` segments.
            pub fn new(config: &Config, cwnd: f64) -> Self {
                match (&config.congestion_control, config.profile) {
                    (CongestionControlKind::Reno(_), Profile::Ns2) => {
                        Algorithm::RenoNs2(reno::Reno::new(config, cwnd))
                    }
                    (CongestionControlKind::Reno(_), Profile::Rfc) => {
                        Algorithm::Reno(reno::Reno::new(config, cwnd))
                    }
                    (CongestionControlKind::Reno(_), Profile::Linux) => {
                        Algorithm::RenoLinux(reno_linux::RenoLinux::new(config, cwnd))
                    }
                    (CongestionControlKind::Cubic(_), Profile::Linux) => {
                        Algorithm::CubicLinux(Box::new(cubic_linux::CubicLinux::new(config, cwnd)))
                    }
                    (CongestionControlKind::Bbr(_), Profile::Linux) => {
                        Algorithm::BbrLinux(Box::new(bbr_linux::BbrLinux::new(config, cwnd)))
                    }
                    (CongestionControlKind::Python(keys), _) => {
                        Algorithm::External(Box::new(external::External::new(keys, config, cwnd)))
                    }
                    $($((CongestionControlKind::$kind(keys), _) => {
                        Algorithm::$kind(Box::new(keys.build(config, cwnd)))
                    })+)*
                }
            }

            /// Resets the state in place, without allocation if the variant is unchanged.
            pub fn reset(&mut self, config: &Config, cwnd: f64) {
                match (self, &config.congestion_control) {
                    (Algorithm::RenoNs2(algorithm), _) => *algorithm = reno::Reno::new(config, cwnd),
                    (Algorithm::Reno(algorithm), _) => *algorithm = reno::Reno::new(config, cwnd),
                    (Algorithm::RenoLinux(algorithm), _) => *algorithm = reno_linux::RenoLinux::new(config, cwnd),
                    (Algorithm::CubicLinux(algorithm), _) => {
                        **algorithm = cubic_linux::CubicLinux::new(config, cwnd);
                    }
                    (Algorithm::BbrLinux(algorithm), _) => **algorithm = bbr_linux::BbrLinux::new(config, cwnd),
                    (Algorithm::External(algorithm), _) => algorithm.restart(config, cwnd),
                    $($((Algorithm::$kind(algorithm), CongestionControlKind::$kind(keys)) => {
                        **algorithm = keys.build(config, cwnd);
                    })+)*
                    (algorithm, _) => *algorithm = Algorithm::new(config, cwnd),
                }
            }
        }
    };
}

pub(super) use algorithms;
