//! Outcomes of the frames of one end of a line: channel errors, counters, and reception of damaged
//! frames.

use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::channel::{Airtime, Channel, ErrorProcess};
use lasthop_link::interface::expose;
use lasthop_link::link::{Abilities, Frame, LinkEndpoint};
use lasthop_link::queue::{Ahead, QueueCounters};

/// The channel of one end of a line, with counters of its frames.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Air {
    pub(super) channel: Channel,
    /// Damaged frames that the endpoint at the other end processes.
    pub(super) far_interest: Interest,
    pub(super) counters: QueueCounters,
    /// On a radio, the slots that were filled last and may not have begun.
    pub(super) slots: Option<Box<Ahead>>,
    /// Start times of those slots whose frame is damaged and has a readable header.
    pub(super) readable_ahead: Vec<Instant>,
    /// Per-service state; empty if the endpoint is a single protocol.
    pub services: ServiceTable,
}

impl Air {
    /// Exposes a frame to the channel. The units of a frame with units are lost individually.
    /// Returns `true` if the whole frame is lost.
    #[inline(never)]
    pub(super) fn expose_units<X>(
        &mut self,
        start: Instant,
        end: Instant,
        frame: &mut Frame<Descriptor<X>>,
    ) -> bool {
        let airtime = Airtime { start, end, bits: u64::from(frame.bytes) * 8 };
        let is_lost = expose(&mut self.channel, airtime, frame);
        self.counters.frames_sent += 1;
        self.counters.bits_sent += airtime.bits;
        self.counters.frames_lost += u64::from(is_lost);
        if !self.services.counters.is_empty() {
            self.services.count(frame.service, airtime, is_lost);
        }
        is_lost
    }

    /// Returns `true` if the other end processes the latest frame, which was damaged.
    #[inline]
    pub(super) fn is_damage_processed(&self) -> bool {
        match self.far_interest {
            Interest::Nothing => false,
            Interest::Headers => self.channel.is_header_readable(),
            Interest::All => true,
        }
    }

    /// Number of damaged frames with readable header that were sent by `now`; `None` if the channel
    /// leaves no headers readable.
    pub fn readable_headers(&self, now: Instant) -> Option<u64> {
        let ahead = self.readable_ahead.iter().filter(|&&start| start > now).count() as u64;
        Some(self.channel.readable_headers()? - ahead)
    }

    /// Like [`Self::expose_units`], for a frame without units on a link with a single service.
    #[inline(always)]
    pub(super) fn expose(&mut self, airtime: Airtime) -> bool {
        let is_lost = self.channel.is_lost(airtime);
        self.counters.frames_sent += 1;
        self.counters.bits_sent += airtime.bits;
        self.counters.frames_lost += u64::from(is_lost);
        is_lost
    }
}

/// State of the services that share an end, by service index.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct ServiceTable {
    pub names: Vec<String>,
    pub counters: Vec<QueueCounters>,
    /// Service of the frame sent last, which may still be in transmission.
    pub(super) on_air: u8,
}

impl ServiceTable {
    /// Counts a transmitted frame of `service`.
    #[inline]
    fn count(&mut self, service: u8, airtime: Airtime, is_lost: bool) {
        let counters = &mut self.counters[usize::from(service)];
        counters.frames_sent += 1;
        counters.bits_sent += airtime.bits;
        counters.frames_lost += u64::from(is_lost);
        self.on_air = service;
    }
}

/// Damaged frames that an endpoint processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interest {
    Nothing,
    /// Frames with a readable header.
    Headers,
    /// All frames: the endpoint is an ideal protocol.
    All,
}

impl Interest {
    pub(super) fn of<X: Extension>(endpoint: &mut LinkEndpoint<Descriptor<X>>) -> Self {
        if endpoint.ideal_feedback().is_some() {
            Interest::All
        } else if endpoint.damaged_headers().is_some() {
            Interest::Headers
        } else {
            Interest::Nothing
        }
    }
}
