//! Records of retransmissions of one endpoint, kept at the other endpoint, where they arrive.
//!
//! Only a driver that controls both endpoints knows the segments that arrive. It
//! [reports](Connection::note_copy) each copy when it is sent, delivers it [with its
//! ordinal](Connection::receive_copy), and reports [timeouts](Connection::note_timeout).
//! Connections whose copies are not reported work normally, but count nothing.

use super::Connection;
use crate::copies::{Spurious, SpuriousCounts};
use crate::flight::Resent;
use lasthop_base::packet::{Extension, Header, flags};
use lasthop_base::units::Instant;

impl Connection {
    /// Returns `true` if data of the segment sent last had been sent before, until
    /// [`Self::note_copy`] is called.
    #[inline(always)]
    pub fn has_retransmitted(&self) -> bool {
        self.sender.flight.output.resent != Resent::Nothing
    }

    /// Records that the segment of `header`, which is sent now, [is a
    /// retransmission](Self::has_retransmitted); `peer` is the other endpoint. Returns its ordinal
    /// among the copies of its bytes, starting at 1, which must be passed to the peer on arrival.
    pub fn note_copy<X>(&mut self, now: Instant, header: &Header<X>, peer: &mut Connection) -> u8 {
        let resent = std::mem::replace(&mut self.sender.flight.output.resent, Resent::Nothing);
        let (seq, end) = peer.span(header);
        peer.receiver.note_copy(now, (seq, end), resent == Resent::All)
    }

    /// Records an expiry of the retransmission timer of this endpoint, to determine whether it was
    /// spurious; `peer` is the other endpoint.
    pub fn note_timeout(&mut self, now: Instant, peer: &mut Connection) {
        let una = self.sender.flight.snd_una;
        if una < self.sender.flight.snd_max {
            peer.receiver.note_timeout(now, una);
        }
    }

    /// Like [`Self::receive`], for a retransmission of the peer with this ordinal.
    pub fn receive_copy<X: Extension>(&mut self, now: Instant, segment: &Header<X>, ordinal: u8) {
        let (seq, end) = self.span(segment);
        self.receiver.begin_copy(seq, end, ordinal);
        self.receive(now, segment);
        self.receiver.end_copy();
    }

    /// Like [`Self::answer`], for a retransmission of the peer with this ordinal.
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

    /// Numbers of spurious retransmissions and timeouts of the peer, over all connection instances.
    pub fn spurious_of_peer(&self) -> SpuriousCounts {
        self.receiver.spurious_counts()
    }

    /// Starts to record individual spurious events, for [`Self::take_spurious_of_peer`].
    pub fn observe_peer(&mut self) {
        self.receiver.with_copies(|copies, _| copies.observe());
    }

    /// Returns the spurious events found since the last call, in the order of detection, if this
    /// endpoint [observes](Self::observe_peer) its peer.
    pub fn take_spurious_of_peer(&mut self) -> Vec<Spurious> {
        self.receiver.with_copies(|copies, has| copies.take_found(has))
    }

    /// First byte of a segment of the peer, and one past its last byte.
    pub(super) fn span<X>(&self, header: &Header<X>) -> (u64, u64) {
        let seq = self.receiver.unwrap(header.seq);
        let control = header.flags & (flags::SYN | flags::FIN) != 0;
        (seq, seq + u64::from(header.payload) + u64::from(control))
    }
}
