//! What a congestion law declares beside its machine, and what the list of them becomes.
//!
//! A law is one file of this folder: its keys (`table! { … as "kind" }`), their [`LawKeys`], and the machine, a
//! [`CongestionControl`] (most are a [`WindowLaw`](super::window::WindowLaw)). A line in the list in `congestion_control/mod.rs` makes
//! it a variant of [`Law`](super::Law), a kind of the key `law` ([`CongestionControlKind`](super::CongestionControlKind)), and a named TCP
//! ([`Variant`](super::Variant)): the law with its defaults, over the recovery that [`LawKeys::RECOVERY`] names.

use super::super::config::{Config, LossDetection, Notices, RecoveryKind};
use super::CongestionControl;
use lasthop_base::schema::files::Files;
use lasthop_base::schema::keys::{Kind, Node, Table};
use serde_json::{Map, Value};
use std::path::Path;

/// How a named TCP recovers under the profiles `rfc` and `ns-2`, unless it says otherwise: by selective
/// acknowledgments.
pub(super) const BY_SACK: [RecoveryKind; 2] = [RecoveryKind::Sack6675, RecoveryKind::SackNs2];

/// The keys of a law, and what follows from them.
pub(crate) trait LawKeys: Table + Kind + Copy {
    /// The machine.
    type Machine: CongestionControl + Clone + std::fmt::Debug;

    /// How the TCP that is named after the law recovers, under the profiles `rfc` and `ns-2`.
    const RECOVERY: [RecoveryKind; 2] = BY_SACK;

    /// Does the law measure? Then its connection keeps when each segment left, and
    /// [`CongestionControl::on_delivery`] is called.
    const MEASURES: bool = true;

    /// Does the law read delivery rates ([`Delivery::rate`](super::Delivery))? Then segments remember what rates need.
    const READS_RATES: bool = false;

    /// Does the law say when segments leave? Then pacing is on unless a scenario turns it off.
    const PACES: bool = false;

    /// Does the law need to know when segments arrived? Then timestamps are on, with a fine clock.
    const READS_ARRIVALS: bool = false;

    /// What marks tell the law; if not [`Marks::Classic`], explicit congestion notification is on unless a scenario turns
    /// it off.
    const MARKS: Marks = Marks::Classic;

    /// The law with a window of `cwnd` segments.
    fn build(&self, config: &Config, cwnd: f64) -> Self::Machine;
}

/// Keys as they are where a scenario gives none.
pub(super) fn defaults<K: LawKeys>() -> K {
    let nothing = Value::Object(Map::new());
    let node = Node { value: &nothing, path: String::new(), files: &Files::new(Path::new("")) };
    K::read(&node).expect("every key of a law has a default")
}

/// How a law uses the marks of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// As a sign that there were some (RFC 3168).
    #[default]
    Classic,
    /// By their share: the receiver tells of each (RFC 8257).
    Share,
    /// The same, and segments are ECT(1), so that queues treat them as L4S (RFC 9331).
    Scalable,
}

/// What a named TCP is made of.
pub(in super::super) struct Parts {
    /// Recovery under the profiles `rfc` and `ns-2`.
    pub recovery: [RecoveryKind; 2],
    /// What tells recovery that a segment is lost.
    pub detection: LossDetection,
    /// What the news that a link has lost a segment does.
    pub notices: Notices,
    pub law: super::CongestionControlKind,
}

impl Parts {
    /// Reno's window over a recovery.
    pub fn over_reno(recovery: [RecoveryKind; 2]) -> Self {
        let law = super::CongestionControlKind::Reno(super::RenoKeys {});
        Parts { recovery, detection: LossDetection::Duplicates, notices: Notices::Off, law }
    }

    /// The same, with an ear for news of the link.
    pub fn told(notices: Notices, recovery: RecoveryKind) -> Self {
        Parts { notices, ..Parts::over_reno([recovery; 2]) }
    }

    /// The same over RFC 6675 with another detection of losses.
    pub fn patient(detection: LossDetection) -> Self {
        Parts { detection, ..Parts::over_reno([RecoveryKind::Sack6675; 2]) }
    }
}

/// From one line a law: its module, the union of all keys, the enum of all machines, and the named TCPs.
macro_rules! laws {
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
            }
        }

        impl Copy for CongestionControlKind {}

        /// A constant of the keys inside, or what Reno has in its place.
        macro_rules! of_keys {
            ($law:expr, $reno:expr, $constant:ident) => {
                match $law {
                    CongestionControlKind::Reno(_) => $reno,
                    $($(CongestionControlKind::$kind(_) => <$module::$keys as LawKeys>::$constant,)+)*
                }
            };
        }

        impl CongestionControlKind {
            /// Does it measure what is delivered?
            #[inline]
            pub fn measures(&self) -> bool {
                of_keys!(self, false, MEASURES)
            }

            /// Does it read delivery rates?
            pub fn reads_rates(&self) -> bool {
                of_keys!(self, false, READS_RATES)
            }

            /// Does it need to know when segments arrived?
            pub fn reads_arrivals(&self) -> bool {
                of_keys!(self, false, READS_ARRIVALS)
            }

            /// What it does with marks of the network.
            pub fn marks(&self) -> Marks {
                of_keys!(self, Marks::Classic, MARKS)
            }

            /// Does it say when segments leave?
            pub fn paces(&self) -> bool {
                of_keys!(self, false, PACES)
            }
        }

        /// A named TCP: how losses are recovered and how the window moves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Variant {
            $($(#[doc = $about])+ $named,)*
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind,
            )+)*
        }

        impl Variant {
            /// All of them.
            pub const ALL: &[Variant] =
                &[$(Variant::$named,)* $($(Variant::$kind,)+)*];

            /// Each with its word in scenarios and its meaning.
            const WORDS: &'static [(&'static str, &'static str)] = &[
                $(($word, concat!($($about),+)),)*
                $($((
                    <$module::$keys as Kind>::KIND,
                    <$module::$keys as Kind>::ABOUT,
                ),)+)*
            ];

            /// What it is made of: a line for each.
            pub(super) fn parts(self) -> Parts {
                match self {
                    $(Variant::$named => $parts,)*
                    $($(Variant::$kind => Parts {
                        recovery: <$module::$keys as LawKeys>::RECOVERY,
                        detection: LossDetection::Duplicates,
                        notices: Notices::Off,
                        law: CongestionControlKind::$kind(defaults()),
                    },)+)*
                }
            }
        }

        /// The law of a connection. Those that are several times the size of Reno's stand apart in memory.
        #[derive(Clone, Debug)]
        #[repr(u8)]
        pub(super) enum Law {
            /// Reno in ns-2's arithmetic.
            RenoNs2(reno::Reno<reno::Ns2>),
            /// Reno by RFC 5681.
            Reno(reno::Reno<reno::Rfc5681>),
            /// Reno as Linux counts.
            RenoLinux(reno_linux::RenoLinux),
            /// CUBIC as Linux computes it.
            CubicLinux(Box<cubic_linux::CubicLinux>),
            /// BBR as Linux computes it.
            BbrLinux(Box<bbr_linux::BbrLinux>),
            $($(
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $kind(Box<<$module::$keys as LawKeys>::Machine>),
            )+)*
        }

        /// Calls the law inside.
        macro_rules! dispatch {
            ($law:expr, $inner:ident => $does:expr) => {
                match $law {
                    Law::RenoNs2($inner) => $does,
                    Law::Reno($inner) => $does,
                    Law::RenoLinux($inner) => $does,
                    Law::CubicLinux($inner) => $does,
                    Law::BbrLinux($inner) => $does,
                    $($(Law::$kind($inner) => $does,)+)*
                }
            };
        }

        impl Law {
            /// The law that `config` names, with a window of `cwnd` segments.
            pub fn new(config: &Config, cwnd: f64) -> Self {
                match (&config.law, config.conventions) {
                    (CongestionControlKind::Reno(_), Conventions::Ns2) => {
                        Law::RenoNs2(reno::Reno::new(config, cwnd))
                    }
                    (CongestionControlKind::Reno(_), Conventions::Rfc) => {
                        Law::Reno(reno::Reno::new(config, cwnd))
                    }
                    (CongestionControlKind::Reno(_), Conventions::Linux) => {
                        Law::RenoLinux(reno_linux::RenoLinux::new(config, cwnd))
                    }
                    (CongestionControlKind::Cubic(_), Conventions::Linux) => {
                        Law::CubicLinux(Box::new(cubic_linux::CubicLinux::new(config, cwnd)))
                    }
                    (CongestionControlKind::Bbr(_), Conventions::Linux) => {
                        Law::BbrLinux(Box::new(bbr_linux::BbrLinux::new(config, cwnd)))
                    }
                    $($((CongestionControlKind::$kind(keys), _) => {
                        Law::$kind(Box::new(keys.build(config, cwnd)))
                    })+)*
                }
            }

            /// Begins anew in place, without allocation.
            pub fn reset(&mut self, config: &Config, cwnd: f64) {
                match (self, &config.law) {
                    (Law::RenoNs2(law), _) => *law = reno::Reno::new(config, cwnd),
                    (Law::Reno(law), _) => *law = reno::Reno::new(config, cwnd),
                    (Law::RenoLinux(law), _) => *law = reno_linux::RenoLinux::new(config, cwnd),
                    (Law::CubicLinux(law), _) => {
                        **law = cubic_linux::CubicLinux::new(config, cwnd);
                    }
                    (Law::BbrLinux(law), _) => **law = bbr_linux::BbrLinux::new(config, cwnd),
                    $($((Law::$kind(law), CongestionControlKind::$kind(keys)) => {
                        **law = keys.build(config, cwnd);
                    })+)*
                    (law, _) => *law = Law::new(config, cwnd),
                }
            }
        }
    };
}

pub(super) use laws;
