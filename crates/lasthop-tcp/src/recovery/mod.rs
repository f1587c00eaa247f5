//! Loss recovery schemes: detection of lost segments and selection of the next segment to send.
//!
//! One file per scheme. A scheme processes each ACK and each timeout. It returns the next segment
//! when the connection may send. The sequence numbers and timers common to all schemes are in
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

use super::config::{Config, Notices, Profile, RecoveryKind};
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
    /// Boxed because it is several times as large as the other variants.
    RackTlp(Box<rack_tlp::RackTlp>),
    /// Boxed for the same reason as [`Self::RackTlp`].
    Esack(Box<esack::Esack>),
    Sack6675(sack_rfc6675::Sack),
    Lhp(Box<lhp::Lhp>),
    /// Another scheme with support for explicit loss notifications (ELN).
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

    /// Returns the recovery scheme selected by [`Config::recovery`]; ignores [`Config::notices`].
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

/// Interface of a recovery scheme.
pub(super) trait LossRecovery {
    /// Resets the state for a new connection, without allocation.
    fn reset(&mut self, config: &Config);

    /// Returns `true` if every ACK with SACK blocks is to be processed, even an old one. RFC 6675,
    /// section 5: "Upon the receipt of any ACK containing SACK information, the scoreboard MUST be
    /// updated".
    fn wants_every_sack(&self) -> bool {
        false
    }

    /// Returns `true` if an ACK for new data only advances SND.UNA and grows the window, so that the window alone
    /// decides what can be sent.
    #[inline(always)]
    fn has_ack_fast_path(&self) -> bool {
        false
    }

    /// Processes an ACK for new data, a duplicate ACK for `snd_una`, or an ACK with relevant SACK
    /// blocks.
    fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]);

    /// Handles the expiry of the retransmission timer. It is called before the congestion window is
    /// reduced and `snd_nxt` goes back.
    fn on_timeout(&mut self, flight: &mut Flight);

    /// Handles an explicit loss notification (ELN) for the segment starting at `seq`.
    fn on_explicit_loss(&mut self, _flight: &mut Flight, _now: Instant, _seq: u64) {}

    /// Returns `true` if the receiver has reported the byte at `seq` as received above a hole.
    fn has_arrived(&self, _seq: u64) -> bool {
        false
    }

    /// Processes a duplicate ACK for a segment that was reported lost on a link. Its SACK blocks
    /// are used, but it is not counted as a duplicate.
    fn on_uncounted_duplicate(&mut self, _flight: &Flight, _blocks: &[(u64, u64)]) {}

    /// Handles an explicit retransmission start notification (ERSN): a link has begun to retransmit
    /// the segment that starts at `seq`.
    fn on_retransmission_started(&mut self, _flight: &mut Flight, _now: Instant, _seq: u64) {}

    /// Returns `true` if the expired retransmission timer has to wait because of a notification
    /// from a link. The timer has then been restarted.
    fn holds_timer(&mut self, _flight: &mut Flight, _now: Instant) -> bool {
        false
    }

    /// Handles the end of the delay after which missing segments are declared lost.
    fn on_reorder_timeout(&mut self, _flight: &mut Flight, _now: Instant) {}

    /// Handles a send call of the application.
    fn on_written(&mut self) {}

    /// Ends recovery because the reduction that began it, or the timeout, was spurious.
    fn on_spurious(&mut self);

    /// Number of segments by which duplicate ACKs inflate the congestion window.
    #[inline]
    fn inflation(&self) -> u32 {
        0
    }

    /// Returns `true` if the window alone determines the next transmissions, and these are the
    /// segments from `snd_nxt` onwards.
    fn is_plain(&self, flight: &Flight) -> bool;

    /// Returns `true` if losses are being repaired.
    fn in_recovery(&self) -> bool {
        false
    }

    /// Numbers of outstanding segments by state. By default, each duplicate ACK represents one
    /// segment that has arrived.
    fn known(&self, flight: &Flight) -> Outstanding {
        let repaired = u64::from(self.in_recovery());
        let sacked = u64::from(flight.duplicates.count());
        Outstanding { sacked, lost: repaired, retransmitted: repaired }
    }

    /// State of recovery and numbers of outstanding segments by state.
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

    /// Estimated number of segments in flight.
    fn in_flight(&self, flight: &Flight) -> u32 {
        flight.outstanding_segments() as u32
    }

    /// Returns the first byte of the segment to send now, if any.
    fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64>;

    /// Records that the segment at `seq`, returned by [`Self::next_segment`], was sent.
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

/// Limits reductions to one per window of data. A third duplicate ACK at or below the highest byte
/// sent at the last reduction reports the same congestion (RFC 6582, section 3.2).
#[derive(Clone, Copy, Debug)]
struct CutGuard {
    /// One past the highest byte sent at the last reduction.
    recover: u64,
    /// SND.UNA below which the limit does not apply. ns-2 exempts the time until data beyond the
    /// SYN is acknowledged (`bugfix_ss_`).
    unguarded: u64,
}

impl CutGuard {
    fn new(config: &Config) -> Self {
        let unguarded = match config.profile {
            Profile::Ns2 => 2,
            Profile::Rfc | Profile::Linux => 0,
        };
        CutGuard { recover: 0, unguarded }
    }

    fn reset(&mut self) {
        self.recover = 0;
    }

    /// Records a reduction at the time when SND.MAX is `snd_max`.
    fn cut_at(&mut self, snd_max: u64) {
        self.recover = snd_max;
    }

    fn may_cut(&self, flight: &Flight) -> bool {
        flight.snd_una > self.recover || flight.snd_una < self.unguarded
    }
}
