//! What is lost, and what goes out next?
//!
//! One file a scheme. A scheme sees each ACK and each timeout, and names the next segment when the
//! connection may send; all sequence and timer state that they share lives in
//! [`Flight`](super::sender::Flight).

mod newreno;
mod reno;
mod sack_ns2;
mod sack_rfc6675;

use super::config::{Config, Conventions, RecoveryKind};
use super::sender::Flight;
use crate::units::Instant;

/// A recovery scheme, chosen per connection.
#[derive(Clone, Debug)]
pub(super) enum Recovery {
    Reno(reno::Reno),
    NewReno(newreno::NewReno),
    SackNs2(sack_ns2::Sack1),
    Sack6675(sack_rfc6675::Sack),
}

impl Recovery {
    pub fn new(config: &Config) -> Self {
        match config.recovery {
            RecoveryKind::Reno => Recovery::Reno(reno::Reno::default()),
            RecoveryKind::NewReno => Recovery::NewReno(newreno::NewReno::default()),
            RecoveryKind::SackNs2 => Recovery::SackNs2(sack_ns2::Sack1::default()),
            RecoveryKind::Sack6675 => Recovery::Sack6675(sack_rfc6675::Sack::default()),
        }
    }

    pub fn reset(&mut self) {
        match self {
            Recovery::Reno(reno) => *reno = Default::default(),
            Recovery::NewReno(newreno) => *newreno = Default::default(),
            Recovery::SackNs2(sack) => sack.reset(),
            Recovery::Sack6675(sack) => sack.reset(),
        }
    }

    /// Does an ACK with SACK blocks matter whatever else it says? RFC 6675, section 5: "Upon the
    /// receipt of any ACK containing SACK information, the scoreboard MUST be updated".
    pub fn wants_every_sack(&self) -> bool {
        matches!(self, Recovery::Sack6675(_))
    }

    /// An ACK for new data, a duplicate of `snd_una` or older, or one whose SACK blocks matter.
    #[inline]
    pub fn on_ack(&mut self, flight: &mut Flight, now: Instant, ack: u64, blocks: &[(u64, u64)]) {
        match self {
            Recovery::Reno(reno) => reno.on_ack(flight, now, ack),
            Recovery::NewReno(newreno) => newreno.on_ack(flight, now, ack),
            Recovery::SackNs2(sack) => sack.on_ack(flight, now, ack, blocks),
            Recovery::Sack6675(sack) => sack.on_ack(flight, now, ack, blocks),
        }
    }

    /// The retransmission timer fired; called before the window closes and `snd_nxt` goes back.
    pub fn on_timeout(&mut self, flight: &mut Flight) {
        match self {
            Recovery::Reno(reno) => reno.on_timeout(flight),
            Recovery::NewReno(newreno) => newreno.on_timeout(flight),
            Recovery::SackNs2(sack) => sack.on_timeout(flight),
            Recovery::Sack6675(sack) => sack.on_timeout(flight),
        }
    }

    /// First byte of the segment to send now, if any.
    #[inline]
    pub fn next_segment(&mut self, flight: &mut Flight) -> Option<u64> {
        match self {
            Recovery::Reno(reno) => reno.next_segment(flight),
            Recovery::NewReno(newreno) => newreno.next_segment(flight),
            Recovery::SackNs2(sack) => sack.next_segment(flight),
            Recovery::Sack6675(sack) => sack.next_segment(flight),
        }
    }
}

/// A third duplicate below the point where the last reduction happened reports the same
/// congestion again (RFC 6582, section 3.2); ns-2 makes an exception while nothing but the SYN was
/// ever acknowledged (`bugfix_ss_`).
fn may_cut(flight: &Flight, recover: u64) -> bool {
    flight.snd_una > recover || flight.snd_una <= 1 && flight.config.conventions == Conventions::Ns2
}
