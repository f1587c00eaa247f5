//! What is lost, and what goes out next?
//!
//! One file a scheme. A scheme sees each ACK and each timeout, and names the next segment when the
//! connection may send; all sequence and timer state that they share lives in
//! `Flight`.

mod esack;
mod lhp;
mod newreno;
mod prr;
mod rack_tlp;
mod reno;
mod sack_ns2;
mod sack_rfc6675;
mod tahoe;
mod told;

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
    /// One of them, with an ear for news of the link.
    Told(Box<told::Told>),
}

impl Recovery {
    pub fn new(config: &Config) -> Self {
        match config.notices {
            Notices::Off | Notices::Casablanca | Notices::Ifrane => {
                Recovery::without_notices(config)
            }
            _ => Recovery::Told(Box::new(told::Told::new(config))),
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

    /// Begins anew, without allocation.
    pub fn reset(&mut self, config: &Config) {
        match self {
            Recovery::Reno(reno) => *reno = reno::Reno::new(config),
            Recovery::Tahoe(tahoe) => *tahoe = tahoe::Tahoe::new(config),
            Recovery::NewReno(newreno) => *newreno = newreno::NewReno::new(config),
            Recovery::SackNs2(sack) => sack.reset(),
            Recovery::Esack(esack) => esack.reset(),
            Recovery::Sack6675(sack) => sack.reset(),
            Recovery::Lhp(lhp) => lhp.reset(),
            Recovery::Told(told) => told.reset(config),
            Recovery::RackTlp(rack) => **rack = rack_tlp::RackTlp::new(config),
        }
    }

    /// Does an ACK with SACK blocks matter whatever else it says? RFC 6675, section 5: "Upon the
    /// receipt of any ACK containing SACK information, the scoreboard MUST be updated".
    pub fn wants_every_sack(&self) -> bool {
        match self {
            Recovery::Sack6675(_) => true,
            Recovery::Told(told) => told.base().wants_every_sack(),
            _ => false,
        }
    }

    /// Does an ACK for new data do no more than to move on and to let the window grow, which alone decides what goes
    /// out then?
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        match self {
            Recovery::Reno(reno) => reno.is_calm(),
            Recovery::NewReno(newreno) => newreno.is_calm(),
            _ => false,
        }
    }

    /// An ACK for new data, a duplicate of `snd_una` or older, or one whose SACK blocks matter.
    #[inline(always)]
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        match self {
            Recovery::Reno(reno) => reno.on_ack(flight, now, ack),
            Recovery::Tahoe(tahoe) => tahoe.on_ack(flight, now, ack),
            Recovery::NewReno(newreno) => newreno.on_ack(flight, now, ack),
            Recovery::SackNs2(sack) => sack.on_ack(flight, now, ack, blocks),
            Recovery::Esack(esack) => esack.on_ack(flight, now, ack, blocks),
            Recovery::Sack6675(sack) => sack.on_ack(flight, now, ack, blocks),
            Recovery::Lhp(lhp) => lhp.on_ack(flight, now, ack, blocks),
            Recovery::Told(told) => told.on_ack(flight, now, ack, blocks),
            Recovery::RackTlp(_) => unreachable!("it hears of whole segments: `on_segment`"),
        }
    }

    /// The retransmission timer fired; called before the window closes and `snd_nxt` goes back.
    pub fn on_timeout(&mut self, flight: &mut Flight) {
        match self {
            Recovery::Reno(reno) => reno.on_timeout(flight),
            Recovery::Tahoe(tahoe) => tahoe.on_timeout(flight),
            Recovery::NewReno(newreno) => newreno.on_timeout(flight),
            Recovery::SackNs2(sack) => sack.on_timeout(flight),
            Recovery::Esack(esack) => esack.on_timeout(flight),
            Recovery::Sack6675(sack) => sack.on_timeout(flight),
            Recovery::Lhp(lhp) => lhp.on_timeout(),
            Recovery::Told(told) => told.on_timeout(flight),
            Recovery::RackTlp(_) => unreachable!("it has timers of its own: `handle_timeout`"),
        }
    }

    /// A link has given up the segment that begins with `seq` (ELN). Who does not know it takes no notice.
    pub fn on_explicit_loss(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        match self {
            Recovery::Esack(esack) => esack.on_explicit_loss(flight, now, seq),
            Recovery::Lhp(lhp) => lhp.on_explicit_loss(flight, seq),
            Recovery::Told(told) => told.on_explicit_loss(flight, now, seq),
            _ => {}
        }
    }

    /// Has the receiver reported the byte at `seq`, above a hole?
    fn has_arrived(&self, seq: u64) -> bool {
        matches!(self, Recovery::Sack6675(sack) if sack.has_arrived(seq))
    }

    /// A duplicate that asks for what is known to be lost on a link: what it reports counts, it does not.
    fn on_excused_duplicate(&mut self, flight: &Flight, blocks: &[(u64, u64)]) {
        if let Recovery::Sack6675(sack) = self {
            sack.on_excused_duplicate(flight, blocks);
        }
    }

    /// A link sends the segment that begins with `seq` again (ERSN).
    pub fn on_retransmission_started(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        if let Recovery::Esack(esack) = self {
            esack.on_retransmission_started(flight, now, seq);
        }
    }

    /// The retransmission timer is due: does it have to wait, for what a link has told? Then it has been started
    /// anew.
    pub fn holds_timer(&mut self, flight: &mut Flight, now: Instant) -> bool {
        match self {
            Recovery::Esack(esack) => esack.holds_timer(flight, now),
            _ => false,
        }
    }

    /// The time has come at which what is missing counts as lost.
    pub fn on_patience_end(&mut self, flight: &mut Flight, now: Instant) {
        match self {
            Recovery::Sack6675(sack) => sack.on_patience_end(flight, now),
            Recovery::Told(told) => told.base_mut().on_patience_end(flight, now),
            _ => {}
        }
    }

    /// The reduction that began recovery, or the timeout, was spurious: there is nothing to recover.
    pub fn on_spurious(&mut self) {
        match self {
            Recovery::Reno(reno) => reno.on_spurious(),
            Recovery::Tahoe(tahoe) => tahoe.on_spurious(),
            Recovery::NewReno(newreno) => newreno.on_spurious(),
            Recovery::SackNs2(sack) => sack.on_spurious(),
            Recovery::Esack(esack) => esack.on_spurious(),
            Recovery::Sack6675(sack) => sack.on_spurious(),
            Recovery::Lhp(lhp) => lhp.reset(),
            Recovery::Told(told) => told.on_spurious(),
            Recovery::RackTlp(_) => unreachable!("it takes its reductions back by itself"),
        }
    }

    /// Segments by which duplicate ACKs open the window beyond the law's.
    #[inline]
    pub fn inflation(&self) -> u32 {
        match self {
            Recovery::Reno(reno) => reno.inflation(),
            Recovery::NewReno(newreno) => newreno.inflation(),
            Recovery::Told(told) => told.inflation(),
            _ => 0,
        }
    }

    /// Does the window alone decide what goes out next, new data from `snd_nxt` on?
    #[inline]
    pub fn is_plain(&self, flight: &Flight) -> bool {
        match self {
            Recovery::Reno(reno) => reno.is_plain(),
            // `snd_nxt` tells everything.
            Recovery::Tahoe(_) => true,
            Recovery::NewReno(newreno) => newreno.is_plain(),
            Recovery::SackNs2(sack) => sack.is_plain(),
            Recovery::Esack(esack) => esack.is_plain(),
            Recovery::Sack6675(sack) => sack.is_plain(flight),
            Recovery::Told(told) => told.is_plain(flight),
            // They count segments, not bytes.
            Recovery::RackTlp(_) | Recovery::Lhp(_) => false,
        }
    }

    /// The phase, and what is known of the segments outstanding.
    pub fn outstanding(&self, flight: &Flight) -> (RecoveryState, Outstanding) {
        let phase = |in_recovery: bool, is_disordered: bool| match () {
            () if flight.snd_una < flight.losses.timed_out_to => RecoveryState::Loss,
            () if in_recovery => RecoveryState::Recovery,
            () if is_disordered => RecoveryState::Disorder,
            () => RecoveryState::Open,
        };
        let duplicates = u64::from(flight.duplicates.count());
        match self {
            Recovery::Sack6675(sack) => {
                let known = sack.outstanding(flight);
                (phase(sack.in_recovery(), known.sacked > 0), known)
            }
            Recovery::RackTlp(rack) => rack.outstanding(flight),
            Recovery::Lhp(lhp) => {
                let known = lhp.outstanding(flight);
                (phase(false, known.sacked > 0), known)
            }
            Recovery::Told(told) => told.base().outstanding(flight),
            _ => {
                let in_recovery = match self {
                    Recovery::Reno(reno) => reno.in_recovery(),
                    Recovery::Tahoe(_) => false,
                    Recovery::NewReno(newreno) => newreno.in_recovery(),
                    Recovery::SackNs2(sack) => sack.in_recovery(),
                    Recovery::Esack(esack) => esack.in_recovery(),
                    Recovery::Sack6675(sack) => sack.in_recovery(),
                    Recovery::RackTlp(_) | Recovery::Lhp(_) | Recovery::Told(_) => {
                        unreachable!("see above")
                    }
                };
                // Each duplicate stands for a segment that has arrived.
                let repaired = u64::from(in_recovery);
                let known =
                    Outstanding { sacked: duplicates, lost: repaired, retransmitted: repaired };
                (phase(in_recovery, duplicates > 0), known)
            }
        }
    }

    /// Segments that are believed to be on their way, of a recovery that counts them.
    pub fn in_flight(&self, flight: &Flight) -> u32 {
        match self {
            Recovery::RackTlp(rack) => rack.in_flight(flight),
            _ => flight.outstanding_segments() as u32,
        }
    }

    /// First byte of the segment to send now, if any.
    #[inline]
    pub fn next_segment(&mut self, flight: &mut Flight, now: Instant) -> Option<u64> {
        match self {
            Recovery::Reno(reno) => reno.next_segment(flight),
            Recovery::Tahoe(tahoe) => tahoe.next_segment(flight),
            Recovery::NewReno(newreno) => newreno.next_segment(flight),
            Recovery::SackNs2(sack) => sack.next_segment(flight),
            Recovery::Esack(esack) => esack.next_segment(flight),
            Recovery::Sack6675(sack) => sack.next_segment(flight),
            Recovery::RackTlp(rack) => rack.next_segment(flight, now),
            Recovery::Lhp(lhp) => lhp.next_segment(flight),
            Recovery::Told(told) => told.next_segment(flight, now),
        }
    }

    /// The segment at `seq` that it named leaves.
    #[inline]
    pub fn on_sent(&mut self, flight: &mut Flight, now: Instant, seq: u64) {
        match self {
            Recovery::RackTlp(rack) => rack.on_sent(flight, now, seq),
            Recovery::Lhp(lhp) => lhp.on_sent(flight, seq),
            _ => {}
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
