//! What is lost, and what goes out next?
//!
//! One file a scheme. A scheme sees each ACK and each timeout, and names the next segment when the
//! connection may send; all sequence and timer state that they share lives in
//! `Flight`.

mod eln;
mod esack;
mod lhp;
mod newreno;
mod prr;
mod rack_tlp;
mod reno;
mod sack_ns2;
mod sack_rfc6675;
mod tahoe;

pub(super) use rack_tlp::{Arrival, RackTlp, SegmentCounts};

use super::config::{Config, Conventions, Notices, RecoveryKind};
use super::flight::Flight;
use super::info::{Outstanding, RecoveryState};
use lasthop_base::units::Instant;

/// A recovery scheme, chosen per connection.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(super) enum Recovery {
    Reno(reno::Reno),
    Tahoe(tahoe::Tahoe),
    NewReno(newreno::NewReno),
    SackNs2(sack_ns2::Sack1),
    /// Apart from the others in memory: it is several times their size.
    RackTlp(Box<rack_tlp::RackTlp>),
    /// The same.
    Esack(Box<esack::Esack>),
    Sack6675(sack_rfc6675::Sack),
    Lhp(Box<lhp::Lhp>),
    /// One of them, with explicit notifications of a link.
    Eln(Box<eln::ElnRecovery>),
}

impl Recovery {
    pub fn new(config: &Config) -> Self {
        match config.notices {
            Notices::Off | Notices::Casablanca | Notices::Ifrane => {
                Recovery::without_notices(config)
            }
            _ => Recovery::Eln(Box::new(eln::ElnRecovery::new(config))),
        }
    }

    /// The recovery that takes no notice of [`Config::notices`].
    fn without_notices(config: &Config) -> Self {
        match config.recovery {
            RecoveryKind::Reno => Recovery::Reno(reno::Reno::new(config)),
            RecoveryKind::Tahoe => Recovery::Tahoe(tahoe::Tahoe::new(config)),
            RecoveryKind::NewReno => Recovery::NewReno(newreno::NewReno::new(config)),
            RecoveryKind::SackNs2 => Recovery::SackNs2(sack_ns2::Sack1::new(config)),
            RecoveryKind::Esack => Recovery::Esack(Box::new(esack::Esack::new(config))),
            RecoveryKind::Sack6675 => Recovery::Sack6675(sack_rfc6675::Sack::new(config)),
            RecoveryKind::Lhp => Recovery::Lhp(Box::default()),
            RecoveryKind::RackTlp => Recovery::RackTlp(Box::new(rack_tlp::RackTlp::new(config))),
        }
    }
}

/// One recovery scheme.
pub(super) trait LossRecovery {
    /// Begins anew, without allocation.
    fn reset(&mut self, config: &Config);

    /// Whether an ACK with SACK blocks matters whatever else it says. RFC 6675, section 5: "Upon the
    /// receipt of any ACK containing SACK information, the scoreboard MUST be updated".
    fn wants_every_sack(&self) -> bool {
        false
    }

    /// Returns `true` if an ACK for new data only advances SND.UNA and grows the window, so that the window alone
    /// decides what can be sent.
    #[inline(always)]
    fn has_ack_fast_path(&self) -> bool {
        false
    }

    /// An ACK for new data, a duplicate of `snd_una` or older, or one whose SACK blocks matter.
    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]);

    /// The retransmission timer fired; called before the window closes and `snd_nxt` goes back.
    fn on_timeout(&mut self, flight: &mut Flight);

    /// Handles an explicit loss notification (ELN) for the segment starting at `seq`.
    fn on_explicit_loss(&mut self, _flight: &mut Flight, _now: Instant, _seq: u64) {}

    /// Whether the receiver has reported the byte at `seq`, above a hole.
    fn has_arrived(&self, _seq: u64) -> bool {
        false
    }

    /// A duplicate that asks for what is known to be lost on a link: what it reports counts, it does not.
    fn on_uncounted_duplicate(&mut self, _flight: &Flight, _blocks: &[(u64, u64)]) {}

    /// A link retransmits the segment that begins with `seq` (ERSN).
    fn on_retransmission_started(&mut self, _flight: &mut Flight, _now: Instant, _seq: u64) {}

    /// Whether the retransmission timer, which is due, has to wait for what a link has reported. Then it has been
    /// restarted.
    fn holds_timer(&mut self, _flight: &mut Flight, _now: Instant) -> bool {
        false
    }

    /// The time has come at which missing segments count as lost.
    fn on_reorder_timeout(&mut self, _flight: &mut Flight, _now: Instant) {}

    /// The application has written.
    fn on_written(&mut self) {}

    /// The reduction that began recovery, or the timeout, was spurious: there is nothing to recover.
    fn on_spurious(&mut self);

    /// Segments by which duplicate ACKs open the window beyond that of the congestion control.
    #[inline]
    fn inflation(&self) -> u32 {
        0
    }

    /// Whether the window alone decides what is sent next, new data from `snd_nxt` on.
    fn is_plain(&self, flight: &Flight) -> bool;

    /// Whether losses are being repaired.
    fn in_recovery(&self) -> bool {
        false
    }

    /// What is known of the segments outstanding. By default each duplicate stands for a segment that has arrived.
    fn known(&self, flight: &Flight) -> Outstanding {
        let repaired = u64::from(self.in_recovery());
        let sacked = u64::from(flight.duplicates.count());
        Outstanding { sacked, lost: repaired, retransmitted: repaired }
    }

    /// The phase, and what is known of the segments outstanding.
    fn outstanding(&self, flight: &Flight) -> (RecoveryState, Outstanding) {
        let known = self.known(flight);
        let state = match () {
            () if flight.snd_una < flight.losses.timed_out_to => RecoveryState::Loss,
            () if self.in_recovery() => RecoveryState::Recovery,
            () if known.sacked > 0 => RecoveryState::Disorder,
            () => RecoveryState::Open,
        };
        (state, known)
    }

    /// Segments that are believed to be in transit.
    fn in_flight(&self, flight: &Flight) -> u32 {
        flight.outstanding_segments() as u32
    }

    /// First byte of the segment to send now, if any.
    fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64>;

    /// The segment at `seq` that it named is sent.
    #[inline]
    fn on_sent(&mut self, _flight: &mut Flight, _now: Instant, _seq: u64) {}
}

macro_rules! dispatch {
    ($recovery:expr, $it:ident => $call:expr) => {
        match $recovery {
            Recovery::Reno($it) => $call,
            Recovery::Tahoe($it) => $call,
            Recovery::NewReno($it) => $call,
            Recovery::SackNs2($it) => $call,
            Recovery::RackTlp($it) => $call,
            Recovery::Esack($it) => $call,
            Recovery::Sack6675($it) => $call,
            Recovery::Lhp($it) => $call,
            Recovery::Eln($it) => $call,
        }
    };
}

impl LossRecovery for Recovery {
    forward! {
        dispatch:
        mut {
            reset(config: &Config);
            #[inline(always)]
            on_ack(flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]);
            on_timeout(flight: &mut Flight);
            on_explicit_loss(flight: &mut Flight, now: Instant, seq: u64);
            on_uncounted_duplicate(flight: &Flight, blocks: &[(u64, u64)]);
            on_retransmission_started(flight: &mut Flight, now: Instant, seq: u64);
            holds_timer(flight: &mut Flight, now: Instant) -> bool;
            on_reorder_timeout(flight: &mut Flight, now: Instant);
            on_written();
            on_spurious();
            #[inline]
            next_segment(flight: &mut Flight, now: Instant) -> Option<u64>;
            #[inline]
            on_sent(flight: &mut Flight, now: Instant, seq: u64);
        }
        ref {
            wants_every_sack() -> bool;
            #[inline(always)]
            has_ack_fast_path() -> bool;
            has_arrived(seq: u64) -> bool;
            #[inline]
            inflation() -> u32;
            #[inline]
            is_plain(flight: &Flight) -> bool;
            outstanding(flight: &Flight) -> (RecoveryState, Outstanding);
            in_flight(flight: &Flight) -> u32;
        }
    }
}

/// One reduction for each window of data: a third duplicate at or below the point that the last
/// reduction had reached reports the same congestion again (RFC 6582, section 3.2).
#[derive(Clone, Copy, Debug)]
struct CutGuard {
    /// One past the highest byte sent at the last reduction.
    recover: u64,
    /// Below this byte the guard does not hold: ns-2 makes an exception while nothing but the SYN was
    /// ever acknowledged (`bugfix_ss_`).
    unguarded: u64,
}

impl CutGuard {
    fn new(config: &Config) -> Self {
        let unguarded = match config.conventions {
            Conventions::Ns2 => 2,
            Conventions::Rfc | Conventions::Linux => 0,
        };
        CutGuard { recover: 0, unguarded }
    }

    fn reset(&mut self) {
        self.recover = 0;
    }

    /// The window is reduced after everything below `snd_max` was sent.
    fn cut_at(&mut self, snd_max: u64) {
        self.recover = snd_max;
    }

    fn may_cut(&self, flight: &Flight) -> bool {
        flight.snd_una > self.recover || flight.snd_una < self.unguarded
    }
}
