//! What one end of a connection sends again, as the other end, where it arrives, keeps account of it.
//!
//! Only a driver that has both ends knows what arrives. It [tells](Connection::note_copy) of each copy that leaves, hands it
//! over [with its ordinal](Connection::receive_copy), and tells of [timeouts](Connection::note_timeout). Connections whose
//! copies nobody tells of work alike, and count nothing.

use super::Connection;
use crate::copies::{Spurious, SpuriousCounts};
use crate::flight::Resent;
use lasthop_base::packet::{Extension, Header, flags};
use lasthop_base::units::Instant;

impl Connection {
    /// Had something of the segment that left last been sent before? Until [`Self::note_copy`] takes note of it.
    #[inline(always)]
    pub fn has_retransmitted(&self) -> bool {
        self.sender.flight.resent != Resent::Nothing
    }

    /// The segment of `header`, which leaves now, [was sent before](Self::has_retransmitted); `peer` stands at the other end.
    /// Returns its ordinal among the copies of its bytes, from 1, which the peer has to be told when it arrives.
    pub fn note_copy<X>(&mut self, now: Instant, header: &Header<X>, peer: &mut Connection) -> u8 {
        let resent = std::mem::replace(&mut self.sender.flight.resent, Resent::Nothing);
        let (seq, end) = peer.span(header);
        peer.receiver.note_copy(now, (seq, end), resent == Resent::All)
    }

    /// The retransmission timer of this end has fired while `peer` stands at the other end: was it a mistake?
    pub fn note_timeout(&mut self, now: Instant, peer: &mut Connection) {
        let una = self.sender.flight.snd_una;
        if una < self.sender.flight.snd_max {
            peer.receiver.note_timeout(now, una);
        }
    }

    /// As [`Self::receive`], of a segment that the peer had sent before: its copy of that ordinal.
    pub fn receive_copy<X: Extension>(&mut self, now: Instant, segment: &Header<X>, ordinal: u8) {
        let (seq, end) = self.span(segment);
        self.receiver.begin_copy(seq, end, ordinal);
        self.receive(now, segment);
        self.receiver.end_copy();
    }

    /// As [`Self::answer`], of a segment that the peer had sent before: its copy of that ordinal.
    pub fn answer_copy<X: Extension>(
        &mut self,
        now: Instant,
        segment: &mut Header<X>,
        ordinal: u8,
    ) -> Option<u32> {
        let (seq, end) = self.span(segment);
        self.receiver.begin_copy(seq, end, ordinal);
        let bytes = self.answer(now, segment);
        self.receiver.end_copy();
        bytes
    }

    /// How many of what the peer has sent again, and of its timeouts, were not needed, over all incarnations.
    pub fn spurious_of_peer(&self) -> SpuriousCounts {
        self.receiver.spurious_counts()
    }

    /// Keeps each that is found from now on, for [`Self::take_spurious_of_peer`].
    pub fn observe_peer(&mut self) {
        self.receiver.with_copies(|copies, _| copies.observe());
    }

    /// Those that were found since the last call, in the order of finding, if this end [observes](Self::observe_peer) its
    /// peer.
    pub fn take_spurious_of_peer(&mut self) -> Vec<Spurious> {
        self.receiver.with_copies(|copies, has| copies.take_found(has))
    }

    /// The first byte of a segment of the peer, and the one after its last.
    pub(super) fn span<X>(&self, header: &Header<X>) -> (u64, u64) {
        let seq = self.receiver.unwrap(header.seq);
        let control = header.flags & (flags::SYN | flags::FIN) != 0;
        (seq, seq + u64::from(header.payload) + u64::from(control))
    }
}
