//! Optional abilities of link protocols.

use super::{Endpoint, Frame, ReportsDelivery};
use lasthop_base::packet::Payload;
use lasthop_base::units::{Duration, Instant};

/// Ideal feedback of a protocol: its transmission takes no time and is never lost.
pub trait IdealFeedback<P> {
    /// Processes a frame received with errors whose identity is nevertheless known. A real receiver
    /// cannot identify the frame.
    fn receive_damaged(&mut self, now: Instant, frame: Frame<P>);

    /// Returns the next frame of length 0. [`Endpoint::poll_transmit`] also returns such frames,
    /// before all others. A driver that transports them in another way drains them here first.
    fn poll_free(&mut self, now: Instant) -> Option<Frame<P>>;
}

/// Reader of frames received with payload errors but with a readable header.
pub trait ReadsDamagedHeaders<P> {
    /// Processes such a frame. Returns the packet if it is to be delivered with its errors, for
    /// agents and transports that read the headers of damaged packets.
    fn receive_header(&mut self, now: Instant, frame: Frame<P>) -> Option<P>;
}

/// Optional abilities of an endpoint. The defaults are those of a protocol without any.
pub trait Abilities<P: Payload>: Endpoint<P> {
    /// Returns the ideal feedback, which no real protocol has.
    fn ideal_feedback(&mut self) -> Option<&mut dyn IdealFeedback<P>> {
        None
    }

    /// Returns the reader of frames with payload errors and a readable header. By default such
    /// frames are lost. Protocols with [`Self::ideal_feedback`] have no such reader.
    fn damaged_headers(&mut self) -> Option<&mut dyn ReadsDamagedHeaders<P>> {
        None
    }

    /// Returns the delivery reports, for protocols whose sender receives feedback.
    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        None
    }

    /// Sets the maximum number of transmissions per frame from now on; `None` means no limit.
    /// Ignored by protocols without such a limit.
    fn limit_transmissions(&mut self, _limit: Option<u32>) {}

    /// Returns `true` if packets are segmented, so that packets are counted in addition to frames.
    fn counts_packets(&self) -> bool {
        false
    }

    /// Returns the retransmission timeout, for protocols with one timeout for all frames.
    fn retransmission_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the maximum number of outstanding frames, for protocols with a window of frames.
    fn window(&self) -> Option<u32> {
        None
    }
}
