//! Transmission of frames on the channel of a driven link.

use super::Crossing;
use super::air::Air;
use crate::sim::deadlines::{Deadlines, Due};
use crate::sim::direction::InFlight;
use crate::sim::ids::DirectionId;
use crate::sim::probe::{Event, Probe};
use crate::sim::probe_events::record_dropped;
use lasthop_base::packet::{Descriptor, Extension};
use lasthop_base::units::Instant;
use lasthop_link::interface::Carrier;
use lasthop_link::link::Writer;
use lasthop_link::queue::{PropagationDelay, Queue, Ring, Transmitter};

/// State needed to send frames while an interface is polled.
pub(super) struct Transmission<'a, P, X: Extension> {
    pub air: &'a mut Air,
    pub propagation: &'a mut PropagationDelay,
    pub ring: &'a mut Ring<InFlight<Crossing<X>>>,
    pub direction: DirectionId,
    /// Arrival of the first frame in transit.
    pub arrival: &'a mut Due,
    pub deadlines: &'a mut Deadlines,
    pub probe: &'a mut P,
    pub has_sent: bool,
}

impl<P: Probe, X: Extension> Carrier<Descriptor<X>> for Transmission<'_, P, X> {
    const LISTENS: bool = P::ACTIVE;

    #[inline]
    fn on_dequeue(&mut self, now: Instant, queue: &Queue<Descriptor<X>>) {
        record_dropped(self.probe, self.direction, now, queue);
    }

    #[inline(always)]
    fn carry<W: Writer<Descriptor<X>>>(
        &mut self,
        now: Instant,
        writer: W,
        transmitter: &mut Transmitter,
    ) {
        let slot = self.ring.next_slot();
        let frame = &mut slot.item.frame;
        if !writer.write(now, frame) {
            return;
        }
        let (mut end, mut is_damaged) = (now, false);
        if let Some(airtime) = transmitter.send_now(now, frame.bytes) {
            end = airtime.end;
            is_damaged = if W::CODES_UNITS || !self.air.services.counters.is_empty() {
                self.air.expose_units(now, end, frame)
            } else {
                self.air.expose(airtime)
            };
        }
        let arrives = !is_damaged || self.air.is_damage_processed();
        let at = if arrives { self.propagation.arrival(end) } else { Instant::NEVER };
        if P::ACTIVE {
            let event = Event::frame_sent(self.direction, frame, now, is_damaged, at);
            self.probe.record(end, event);
            self.has_sent = true;
        }
        if arrives {
            let due = Due::new(at, self.deadlines.ticket());
            slot.due = due;
            slot.item.is_damaged = is_damaged;
            if self.ring.is_empty() {
                *self.arrival = due;
            }
            self.ring.push_next();
        }
    }
}
