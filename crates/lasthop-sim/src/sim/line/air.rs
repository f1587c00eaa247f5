//! What becomes of the frames of one end of a line: the channel, what was counted, whom a damaged frame is told to.

use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::channel::{Airtime, Channel, ErrorProcess};
use lasthop_link::interface::expose;
use lasthop_link::link::{Endpoint, Frame, LinkEndpoint};
use lasthop_link::queue::{Ahead, QueueCounters};

/// What becomes of the frames of one end.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Air {
    pub(super) channel: Channel,
    /// Which damaged frames the endpoint at the other end is told of.
    pub(super) far_hears: Hearing,
    pub(super) counters: QueueCounters,
    /// On a radio, the slots that were filled last.
    pub(super) slots: Option<Box<Ahead>>,
    /// Of these, when each damaged frame begins whose header can be read.
    pub(super) readable_ahead: Vec<Instant>,
    /// Empty where the endpoint is one protocol.
    pub services: ServiceTable,
}

impl Air {
    /// A frame is on the air, whose units are lost one by one if it has some: is nothing of it left?
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

    /// Is the other end told of the latest frame, which was damaged?
    #[inline]
    pub(super) fn tells_of_damage(&self) -> bool {
        match self.far_hears {
            Hearing::Nothing => false,
            Hearing::Headers => self.channel.is_header_readable(),
            Hearing::All => true,
        }
    }

    /// Frames that have begun by `now`, were damaged and whose header could be read; `None` where there can be none.
    pub fn readable_headers(&self, now: Instant) -> Option<u64> {
        let ahead = self.readable_ahead.iter().filter(|&&start| start > now).count() as u64;
        Some(self.channel.readable_headers()? - ahead)
    }

    /// The same of a frame without units, on a link of one service.
    #[inline(always)]
    pub(super) fn expose(&mut self, airtime: Airtime) -> bool {
        let is_lost = self.channel.is_lost(airtime);
        self.counters.frames_sent += 1;
        self.counters.bits_sent += airtime.bits;
        self.counters.frames_lost += u64::from(is_lost);
        is_lost
    }
}

/// What an end knows of the services that share it, by their index.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct ServiceTable {
    pub names: Vec<String>,
    pub counters: Vec<QueueCounters>,
    /// Whose frame is on the air.
    pub(super) on_air: u8,
}

impl ServiceTable {
    /// A frame of `service` is on the air.
    #[inline]
    fn count(&mut self, service: u8, airtime: Airtime, is_lost: bool) {
        let counters = &mut self.counters[usize::from(service)];
        counters.frames_sent += 1;
        counters.bits_sent += airtime.bits;
        counters.frames_lost += u64::from(is_lost);
        self.on_air = service;
    }
}

/// Damaged frames that an endpoint is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    Nothing,
    /// Those whose header could be read.
    Headers,
    /// All: it is ideal.
    All,
}

impl Hearing {
    pub(super) fn of<X: Extension>(endpoint: &LinkEndpoint<Descriptor<X>>) -> Self {
        if endpoint.wants_damaged() {
            Hearing::All
        } else if endpoint.wants_headers() {
            Hearing::Headers
        } else {
            Hearing::Nothing
        }
    }
}
