//! One direction of a link, as seen by the packets that enter it.
//!
//! A direction without a link protocol is a *FIFO*, which is computed: its queue determines the
//! departure time and the outcome of a packet when the packet is offered. Its ring holds only
//! arrivals that must be handled as events. Other directions are driven by the endpoints of a line
//! or belong to the medium of a WLAN.

use super::deadlines::{Deadlines, Due, MachineId};
use super::hops::Entry;
use super::ids::{LineId, SeatId};
use super::wlan::Shared;
use lasthop_base::packet::{Descriptor, Extension, TcpOptions};
use lasthop_base::units::{Bytes, Instant};
use lasthop_link::channel::Channel;
use lasthop_link::queue::{ComputedFifo, PropagationDelay, Queue, Ring, Transmitter};

/// An item in transit, with the deadline of its arrival.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight<T> {
    pub due: Due,
    pub item: T,
}

/// Parameters of one direction.
#[derive(Clone, Debug)]
pub struct DirectionParameters<X: Extension = TcpOptions> {
    /// The transmitter of its frames, with its rate.
    pub transmitter: Transmitter,
    /// Propagation delay of its frames.
    pub propagation: PropagationDelay,
    /// The interface queue; drop-tail if the direction is computed.
    pub queue: Queue<Descriptor<X>>,
    /// Length of the link header of each frame. Endpoints of ARQ links add their headers
    /// themselves.
    pub header: Bytes,
    /// The error model of the channel.
    pub channel: Channel,
}

/// A computed direction, without a link protocol.
#[derive(Clone, Debug)]
pub(super) struct Fifo<X: Extension> {
    pub queue: ComputedFifo,
    /// Packets whose outcome has been computed and whose arrival is pending, in order of arrival.
    pub ring: Ring<InFlight<Descriptor<X>>>,
    /// The machine of its arrivals, if any must be handled.
    pub machine: Option<MachineId>,
    /// Whether arrivals wait in the ring until the line that takes all of them is serviced: see
    /// [`LineEnd::feeder`](super::line::LineEnd).
    pub is_held_back: bool,
    /// Whether all packets arrive in order from one computed direction. They can then be forwarded
    /// as soon as that direction has computed them.
    pub is_chained: bool,
}

impl<X: Extension> Fifo<X> {
    pub fn new(parameters: DirectionParameters<X>) -> Self {
        let DirectionParameters { transmitter, propagation, queue, header, channel } = parameters;
        let is_measured = queue.delays().is_some();
        let Some(limit) = queue.drop_tail_limit() else {
            unreachable!("only drop-tail is computed: see QueueDiscipline")
        };
        let queue = ComputedFifo::new(transmitter, limit, header, channel).over(propagation);
        Fifo {
            queue: if is_measured { queue.measured() } else { queue },
            ring: Ring::with_capacity(8),
            machine: None,
            is_held_back: false,
            is_chained: false,
        }
    }

    /// Puts a packet in transit, which arrives at `at` and must be handled then.
    #[inline(always)]
    pub fn put_on_way(&mut self, at: Instant, packet: &Descriptor<X>, deadlines: &mut Deadlines) {
        let due = Due::new(at, deadlines.ticket());
        if self.ring.is_empty() && !self.is_held_back {
            let machine = self.machine.expect("the direction has a machine for its arrivals");
            deadlines.put(machine, due);
        }
        let slot = self.ring.push_slot();
        slot.due = due;
        slot.item = *packet;
    }
}

/// The carrier of the packets of a direction.
#[derive(Clone, Debug)]
#[repr(u8)]
pub(super) enum Medium<X: Extension> {
    /// Boxed, because directions of other kinds are many times smaller.
    Fifo(Box<Fifo<X>>),
    /// The end of a line that transmits on this direction.
    Line(LineId),
    /// A direction of a WLAN station, handled by the medium.
    Shared(Shared),
}

impl<X: Extension> Medium<X> {
    /// Returns the entry for packets that no agent takes.
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
    /// The first agents at the start and at the end of the direction.
    pub near_agent: Option<SeatId>,
    pub far_agent: Option<SeatId>,
}

impl<X: Extension> Direction<X> {
    pub fn new(medium: Medium<X>) -> Self {
        Direction { medium, near_agent: None, far_agent: None }
    }

    /// Returns the FIFO for modification; `None` if the direction is not computed.
    #[inline]
    pub fn fifo_mut(&mut self) -> Option<&mut Fifo<X>> {
        match &mut self.medium {
            Medium::Fifo(fifo) => Some(fifo),
            Medium::Line(_) | Medium::Shared(_) => None,
        }
    }

    /// Returns the FIFO; `None` if the direction is not computed.
    pub fn fifo(&self) -> Option<&Fifo<X>> {
        match &self.medium {
            Medium::Fifo(fifo) => Some(fifo),
            Medium::Line(_) | Medium::Shared(_) => None,
        }
    }
}
