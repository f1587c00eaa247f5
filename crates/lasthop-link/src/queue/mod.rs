//! Queues: what waits before a transmitter, what is dropped, what is marked and what goes next; and
//! fair sharing of a transmitter.
//!
//! # Contract of a discipline
//!
//! All calls carry `now`, which never decreases. The driver (an [`Interface`](crate::interface::Interface), a
//! station of a WLAN, a [service](crate::link::Services)) owns the transmitter:
//!
//! - Each packet for the link is passed to [`QueueDiscipline::enqueue`], which returns whether the packet joins.
//!   A packet that joins may be dropped within the same call, as others are: FQ-CoDel drops from the longest queue.
//! - When the link accepts its next packet, the driver calls [`QueueDiscipline::dequeue`]. A discipline may drop
//!   any number of packets there, all of them included.
//! - After either call, whatever it returned, [`QueueDiscipline::dropped`] contains the other packets that it dropped,
//!   until the next of these calls. The driver reads them once.
//!
//! Therefore **a queue that holds packets need not return one**: only the return value of `dequeue` is a packet.
//! [`QueueDiscipline::is_empty`] and the return value of `enqueue` are hints on when to call `dequeue`. Conversely
//! a discipline returns `None` only if it is empty afterwards: a driver that has received `None` calls again after the
//! next `enqueue`, and needs no timer.
//!
//! A discipline has no timer: what a specification does regularly, it does in the next call, for the
//! state of the queue does not change between calls.
//!
//! A drop-tail queue before a link without protocol is not driven at all but computed
//! ([`ComputedFifo`]); any other discipline makes the link a driven one.

mod ahead;
mod computed;
mod fair;
mod family;
mod fifo;
mod link_delay;
mod link_rate;
mod propagation;
mod rate_schedule;
mod ring;
mod transmitter;

pub use ahead::{Ahead, Newest};
pub use biased::{Biased, BiasedKeys};
pub use codel::{Codel, CodelKeys};
pub use computed::{ComputedFifo, Fate, OnOff, OnOffParameters, QueueCounters, QueueMetrics};
pub use drop_tail::{DropTail, DropTailKeys};
pub use dualpi2::{DualPi2, DualPi2Keys};
pub use fair::FairQueue;
pub use family::QueueSite;
pub use fifo::{Fifo, Limit};
pub use fq_codel::{FqCodel, FqCodelKeys};
pub use link_delay::{ConstantDelayKeys, DelayKeys, DelayStepsKeys, DelayTraceKeys};
pub use link_rate::{ConstantRateKeys, RateFormat, RateKeys, RateStepsKeys, RateTraceKeys};
pub use pie::{Pie, PieKeys};
pub use propagation::PropagationDelay;
pub use rate_schedule::{Opportunities, RateSchedule, RateSteps};
pub use red::{Red, RedDetector, RedKeys, RedParameters, RedVerdict};
pub use ring::Ring;
pub use step::{Step, StepKeys};
pub use transmitter::Transmitter;

use family::{DisciplineKeys, queue_disciplines};
use lasthop_base::packet::Payload;
use lasthop_base::schema::keys::{Read, kinds};
use lasthop_base::schema::metrics::metrics;
use lasthop_base::schema::quantity::QueueLimit;
use lasthop_base::schema::shorthand::Shorthand;
use lasthop_base::units::{Bytes, Instant};

/// Always-on counters of what a discipline did to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisciplineCounters {
    /// Packets dropped because the queue was full.
    pub tail_drops: u64,
    /// Packets dropped because the discipline wants a shorter queue.
    pub early_drops: u64,
    /// Packets that got a congestion mark.
    pub marks: u64,
}

metrics! {
    /// A queue discipline that drops or marks packets before the queue is full.
    pub struct DisciplineMetrics {
        /// Packets dropped because the queue was full.
        queue_tail_drops: "Queue tail drops", Count, Lower, Sum;
        /// Packets dropped by the discipline to shorten the queue.
        queue_early_drops: "Queue early drops", Count, Lower, Sum;
        /// Packets that the discipline marked (ECN).
        queue_marks: "Queue marks", Count, Neither, Sum;
    }
}

impl From<&DisciplineCounters> for DisciplineMetrics {
    fn from(counters: &DisciplineCounters) -> Self {
        DisciplineMetrics {
            queue_tail_drops: counters.tail_drops as f64,
            queue_early_drops: counters.early_drops as f64,
            queue_marks: counters.marks as f64,
        }
    }
}

impl DisciplineCounters {
    /// Packets dropped, whatever for.
    pub fn drops(&self) -> u64 {
        self.tail_drops + self.early_drops
    }
}

impl std::iter::Sum for DisciplineCounters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(DisciplineCounters::default(), |sum, one| DisciplineCounters {
            tail_drops: sum.tail_drops + one.tail_drops,
            early_drops: sum.early_drops + one.early_drops,
            marks: sum.marks + one.marks,
        })
    }
}

/// What waits before a transmitter; the contract is the top comment of this module.
pub trait QueueDiscipline<P: Payload> {
    /// Does it drop or mark packets of a queue that is not full?
    const DETECTS_EARLY: bool = true;

    /// A packet arrives; false: it is dropped. The transmitter's frame on the air counts as queued. `true` does not
    /// mean that a packet waits: the same call may drop it in favour of others, as [`Self::dropped`] shows.
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool;

    /// The packet that goes next; `None` only if the queue is empty afterwards. A queue that held packets may drop all
    /// of them and return `None`.
    fn dequeue(&mut self, now: Instant) -> Option<P>;

    /// The same, put where it is wanted; false if there is none.
    #[inline(always)]
    fn dequeue_into(&mut self, now: Instant, place: &mut Option<P>) -> bool {
        *place = self.dequeue(now);
        place.is_some()
    }

    /// Packets that wait.
    fn len(&self) -> usize;

    /// Is there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is there room for `count` packets of `bytes` each?
    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool;

    /// What it did so far.
    fn counters(&self) -> DisciplineCounters;

    /// Packets that the last call dropped, that of [`Self::enqueue`] itself apart.
    fn dropped(&self) -> &[P] {
        &[]
    }
}

// The list of queue disciplines: the file of each, its machine, and the keys and so the `kind` that it
// has in scenarios.
queue_disciplines! {
    drop_tail: DropTail(DropTailKeys);
    red: Red(RedKeys);
    codel: Codel(CodelKeys);
    pie: Pie(PieKeys);
    fq_codel: FqCodel(FqCodelKeys);
    dualpi2: DualPi2(DualPi2Keys);
    step: Step(StepKeys);
    biased: Biased(BiasedKeys);
}

impl From<QueueLimit> for Discipline {
    fn from(limit: QueueLimit) -> Self {
        Discipline::DropTail(DropTailKeys { limit })
    }
}

/// A limit alone is a drop-tail queue.
impl Shorthand for Discipline {
    type Short = QueueLimit;

    fn from_short(limit: QueueLimit) -> Self {
        limit.into()
    }

    fn to_short(&self) -> Option<QueueLimit> {
        match self {
            Discipline::DropTail(DropTailKeys { limit }) => Some(*limit),
            _ => None,
        }
    }
}

impl<P: Payload> Queue<P> {
    /// An empty drop-tail queue of `limit`, which counts each packet with its link header.
    pub fn drop_tail(limit: Limit, header: Bytes) -> Self {
        Queue::DropTail(DropTail::new(limit, header))
    }

    /// Does its discipline drop or mark packets of a queue that is not full?
    pub fn detects_early(&self) -> bool {
        fn of<P: Payload, Q: QueueDiscipline<P>>(_: &Q) -> bool {
            Q::DETECTS_EARLY
        }
        dispatch!(self, queue => of(queue))
    }

    /// A packet arrives; false: it is dropped.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        match self {
            Queue::DropTail(queue) => queue.enqueue(now, packet, transmitter),
            _ => self.enqueue_to_other(now, packet, transmitter),
        }
    }

    /// The same of a copy of a packet.
    #[inline(always)]
    pub fn enqueue_copy(&mut self, now: Instant, packet: &P, transmitter: &Transmitter) -> bool
    where
        P: Clone,
    {
        match self {
            Queue::DropTail(queue) => queue.enqueue_copy(now, packet, transmitter),
            _ => self.enqueue_to_other(now, packet.clone(), transmitter),
        }
    }

    /// Is it plain that a packet of `bytes` that comes now would be admitted, and go next?
    #[inline(always)]
    pub fn lets_pass(&self, now: Instant, bytes: u32, transmitter: &Transmitter) -> bool {
        match self {
            Queue::DropTail(queue) => {
                queue.is_empty() && queue.has_room(now, bytes, 1, transmitter)
            }
            _ => false,
        }
    }

    /// A packet that [could pass](Self::lets_pass) has to wait.
    pub fn push_admitted(&mut self, packet: P) {
        let Queue::DropTail(queue) = self else { unreachable!("another queue lets nothing pass") };
        queue.push(packet);
    }

    /// The packet that goes next.
    #[inline(always)]
    pub fn dequeue(&mut self, now: Instant) -> Option<P> {
        let mut packet = None;
        self.dequeue_into(now, &mut packet);
        packet
    }

    /// The same, put where it is wanted; false if there is none.
    #[inline(always)]
    pub fn dequeue_into(&mut self, now: Instant, place: &mut Option<P>) -> bool {
        match self {
            Queue::DropTail(queue) => queue.dequeue_into(now, place),
            _ => self.dequeue_from_other(now, place),
        }
    }

    /// Packets that wait.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Queue::DropTail(queue) => queue.len(),
            _ => self.other_len(),
        }
    }

    /// Is there none?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // Most queues are drop-tail: one comparison settles what would be a jump through a table.

    #[inline(never)]
    fn enqueue_to_other(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        dispatch!(self, queue => queue.enqueue(now, packet, transmitter))
    }

    #[inline(never)]
    fn dequeue_from_other(&mut self, now: Instant, place: &mut Option<P>) -> bool {
        dispatch!(self, queue => queue.dequeue_into(now, place))
    }

    #[inline(never)]
    fn other_len(&self) -> usize {
        dispatch!(self, queue => queue.len())
    }

    /// Is there room for `count` packets of `bytes` each?
    pub fn has_room(
        &self,
        now: Instant,
        bytes: u32,
        count: u64,
        transmitter: &Transmitter,
    ) -> bool {
        dispatch!(self, queue => queue.has_room(now, bytes, count, transmitter))
    }

    /// What its discipline did so far.
    pub fn counters(&self) -> DisciplineCounters {
        dispatch!(self, queue => queue.counters())
    }

    /// Packets that the last call dropped, that of [`Self::enqueue`] itself apart.
    pub fn dropped(&self) -> &[P] {
        dispatch!(self, queue => queue.dropped())
    }
}
