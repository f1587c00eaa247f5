//! One direction of a link, as the packets see it that enter it.
//!
//! A direction without link protocol is a *FIFO*, which is computed: its queue knows a packet's
//! departure and fate when the packet is offered, and only arrivals that somebody must handle wait in
//! its ring. Any other is driven by the endpoints of a line or is part of the
//! air of a WLAN.

use super::deadlines::{Deadlines, Due, MachineId};
use super::hops::Entry;
use super::ids::{LineId, SeatId};
use super::wlan::Shared;
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::units::{Bytes, Instant};
use lasthop_link::channel::Channel;
use lasthop_link::queue::{ComputedFifo, PropagationDelay, Queue, Ring, Transmitter};

/// Something on its way, and when it arrives.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight<T> {
    pub due: Due,
    pub item: T,
}

/// Parameters of one direction.
#[derive(Clone, Debug)]
pub struct DirectionParameters<X: Extension = TcpOptions> {
    /// What sends its frames, at which rate.
    pub transmitter: Transmitter,
    /// How long its frames are on their way.
    pub propagation: PropagationDelay,
    /// The interface queue; drop-tail where the direction is computed.
    pub queue: Queue<Descriptor<X>>,
    /// Link header of each frame. Endpoints of ARQ links add it themselves.
    pub header: Bytes,
    /// What destroys frames.
    pub channel: Channel,
}

/// A direction without link protocol.
#[derive(Clone, Debug)]
pub(super) struct Fifo<X: Extension> {
    pub queue: ComputedFifo,
    /// Packets that have been computed and not yet handled, in order of arrival.
    pub ring: Ring<InFlight<Descriptor<X>>>,
    /// The deadline of its arrivals, if any must be handled.
    pub machine: Option<MachineId>,
    /// What arrives waits here until the end of the line that takes all of it looks: see
    /// [`LineEnd::feeder`](super::line::LineEnd).
    pub is_held_back: bool,
    /// Everything that enters comes from one computed direction, in order: packets can be handed
    /// on as soon as that direction has computed them.
    pub is_chained: bool,
}

impl<X: Extension> Fifo<X> {
    pub fn new(parameters: DirectionParameters<X>) -> Self {
        let DirectionParameters { transmitter, propagation, queue, header, channel } = parameters;
        let Queue::DropTail(queue) = queue else {
            unreachable!("only drop-tail is computed: see QueueDiscipline")
        };
        Fifo {
            queue: ComputedFifo::new(transmitter, queue.limit(), header, channel).over(propagation),
            ring: Ring::with_capacity(8),
            machine: None,
            is_held_back: false,
            is_chained: false,
        }
    }

    /// A packet that survives arrives at `at`, and is to be handled then.
    #[inline(always)]
    pub fn put_on_way(&mut self, at: Instant, packet: &Descriptor<X>, deadlines: &mut Deadlines) {
        let due = Due::new(at, deadlines.ticket());
        if self.ring.is_empty() && !self.is_held_back {
            let machine = self.machine.expect("what arrives here must be handled");
            deadlines.put(machine, due);
        }
        let slot = self.ring.push_slot();
        slot.due = due;
        slot.item = *packet;
    }
}

/// Who carries the packets of a direction.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few directions, and FIFOs are the hot path")]
#[repr(u8)]
pub(super) enum Medium<X: Extension> {
    Fifo(Fifo<X>),
    /// The end of a line that transmits on this direction.
    Line(LineId),
    /// Of a station of a WLAN: the air does all.
    Shared(Shared),
}

impl<X: Extension> Medium<X> {
    /// Who takes a packet that no agent stops.
    pub fn entry(&self) -> Entry {
        match *self {
            Medium::Fifo(_) => Entry::Fifo,
            Medium::Line(line) => Entry::Line(line),
            Medium::Shared(_) => Entry::Shared,
        }
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Direction<X: Extension> {
    pub medium: Medium<X>,
    /// The first agent that packets meet where it begins, and where it ends.
    pub near_agent: Option<SeatId>,
    pub far_agent: Option<SeatId>,
}

impl<X: Extension> Direction<X> {
    pub fn new(medium: Medium<X>) -> Self {
        Direction { medium, near_agent: None, far_agent: None }
    }

    /// The same, to change it.
    #[inline]
    pub fn fifo_mut(&mut self) -> Option<&mut Fifo<X>> {
        match &mut self.medium {
            Medium::Fifo(fifo) => Some(fifo),
            Medium::Line(_) | Medium::Shared(_) => None,
        }
    }

    /// The FIFO, if it has no link protocol.
    pub fn fifo(&self) -> Option<&Fifo<X>> {
        match &self.medium {
            Medium::Fifo(fifo) => Some(fifo),
            Medium::Line(_) | Medium::Shared(_) => None,
        }
    }
}
