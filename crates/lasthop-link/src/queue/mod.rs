//! Queues in front of a transmitter: queue disciplines (scheduling, dropping and ECN marking) and
//! fair sharing of a transmitter.
//!
//! # Contract of a discipline
//!
//! All calls carry `now`, which never decreases. The driver (an
//! [`Interface`](crate::interface::Interface), a station of a WLAN, a
//! [service](crate::link::Services)) owns the transmitter:
//!
//! - The driver passes each packet for the link to [`QueueDiscipline::enqueue`], which returns
//!   whether the packet is enqueued. The same call may drop enqueued packets, this one included:
//!   FQ-CoDel drops from the longest queue.
//! - When the link accepts its next packet, the driver calls [`QueueDiscipline::dequeue`]. This
//!   call may drop any number of packets, up to all of them.
//! - After either call, regardless of its return value, [`QueueDiscipline::dropped`] contains the
//!   other packets that the call dropped, until the next of these calls. The driver reads them
//!   once.
//!
//! Therefore **a non-empty queue need not return a packet**: only the return value of `dequeue`
//! counts. [`QueueDiscipline::is_empty`] and the return value of `enqueue` are hints on when to
//! call `dequeue`. Conversely, a discipline returns `None` only if it is empty afterwards. After
//! `None`, the driver calls `dequeue` again after the next `enqueue`, and needs no timer.
//!
//! A discipline has no timer. Periodic updates of a specification are made up for in the next call,
//! because the state of the queue does not change between calls.
//!
//! A drop-tail queue in front of a link without protocol is not driven by events but computed
//! ([`ComputedFifo`]). Any other discipline makes the link a driven link.

mod computed;
mod fair;
mod family;
mod fifo;
mod link_delay;
mod link_rate;
mod lookahead;
mod measured;
mod propagation;
mod queueing;
mod rate_schedule;
mod ring;
mod transmitter;

pub use biased::{Biased, BiasedKeys};
pub use codel::{Codel, CodelKeys};
pub use computed::{ComputedFifo, Fate, OnOff, OnOffParameters, QueueCounters, QueueMetrics};
pub use drop_tail::{DropTail, DropTailKeys};
pub use dualpi2::{DualPi2, DualPi2Keys};
pub use fair::FairQueue;
pub use family::QueueSite;
pub use fifo::{Fifo, Limit};
pub use fq_codel::{FqCodel, FqCodelKeys};
pub use lasthop_base::delays::Delays;
pub use link_delay::{ConstantDelayKeys, DelayKeys, DelayStepsKeys, DelayTraceKeys};
pub use link_rate::{ConstantRateKeys, RateFormat, RateKeys, RateStepsKeys, RateTraceKeys};
pub use lookahead::{Ahead, Newest};
pub use measured::{Measured, Stamped};
pub use pie::{Pie, PieKeys};
pub use propagation::PropagationDelay;
pub use queueing::QueueingMetrics;
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

/// Counters of the packets dropped and marked by a discipline; always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisciplineCounters {
    /// Packets dropped because the queue was full.
    pub tail_drops: u64,
    /// Packets dropped by the discipline to shorten the queue.
    pub early_drops: u64,
    /// Packets that were marked (ECN).
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
    /// Packets dropped for any reason.
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

/// A queue discipline in front of a transmitter. Its contract is in the [module head](self).
pub trait QueueDiscipline<P: Payload> {
    /// Whether the discipline drops or marks packets of a queue that is not full.
    const DETECTS_EARLY: bool = true;

    /// Enqueues `packet`, which arrives now; returns `false` if it is dropped. The frame in
    /// transmission counts as queued. After `true` the packet may still have been dropped within
    /// this call in favour of others, as reported by [`Self::dropped`].
    fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool;

    /// Removes and returns the next packet to send. Returns `None` only if the queue is empty
    /// afterwards, which includes a queue whose packets were all dropped in this call.
    fn dequeue(&mut self, now: Instant) -> Option<P>;

    /// Like [`Self::dequeue`], but stores the packet in `place` and returns whether it did.
    #[inline(always)]
    fn dequeue_into(&mut self, now: Instant, place: &mut Option<P>) -> bool {
        *place = self.dequeue(now);
        place.is_some()
    }

    /// Number of queued packets.
    fn len(&self) -> usize;

    /// Returns `true` if no packets are queued.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the queue has room for `count` packets of `bytes` each.
    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool;

    /// Counters of dropped and marked packets since the start.
    fn counters(&self) -> DisciplineCounters;

    /// Packets dropped by the last call, except the argument of [`Self::enqueue`].
    fn dropped(&self) -> &[P] {
        &[]
    }
}

// The list of queue disciplines: module, variant, and the keys, which define the `kind` in
// scenarios.
queue_disciplines! {
    drop_tail: DropTail(DropTailKeys);
    red: Red(RedKeys);
    codel: Codel(CodelKeys);
    pie: Pie(PieKeys);
    fq_codel: FqCodel(FqCodelKeys);
    dualpi2: DualPi2(DualPi2Keys);
    step: Step(StepKeys);
    biased: Biased(BiasedKeys);
    policer: Policer(PolicerKeys);
}

impl From<QueueLimit> for Discipline {
    fn from(limit: QueueLimit) -> Self {
        Discipline::DropTail(DropTailKeys { limit })
    }
}

/// A limit alone specifies a drop-tail queue.
impl Shorthand for Discipline {
    type Short = QueueLimit;
    const KEY: (&'static str, &'static str) = ("drop-tail", "limit");

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
    /// Creates an empty drop-tail queue with `limit`; each packet counts with its link header.
    pub fn drop_tail(limit: Limit, header: Bytes) -> Self {
        Queue::DropTail(DropTail::new(limit, header))
    }

    /// Returns `true` if the discipline drops or marks packets of a queue that is not full.
    pub fn detects_early(&self) -> bool {
        fn of<P: Payload, Q: QueueDiscipline<P>>(_: &Q) -> bool {
            Q::DETECTS_EARLY
        }
        match self {
            Queue::Measured(measured) => dispatch_stamped!(&measured.queue, queue => of(queue)),
            _ => dispatch!(self, queue => of(queue)),
        }
    }

    /// Limit of a drop-tail queue; `None`: another discipline.
    pub fn drop_tail_limit(&self) -> Option<Limit> {
        match self {
            Queue::DropTail(queue) => Some(queue.limit()),
            Queue::Measured(queue) => queue.drop_tail_limit(),
            _ => None,
        }
    }

    /// Delays of the packets that the link has taken; `None` if they are not measured.
    pub fn delays(&self) -> Option<&Delays> {
        match self {
            Queue::Measured(queue) => Some(queue.delays()),
            _ => None,
        }
    }

    /// Enqueues `packet`; returns `false` if it is dropped.
    #[inline(always)]
    pub fn enqueue(&mut self, now: Instant, packet: P, transmitter: &Transmitter) -> bool {
        match self {
            Queue::DropTail(queue) => queue.enqueue(now, packet, transmitter),
            _ => self.enqueue_to_other(now, packet, transmitter),
        }
    }

    /// Like [`Self::enqueue`], for a copy of `packet`.
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

    /// Returns `true` if a packet of `bytes` that arrives now would certainly be enqueued and be
    /// the next to be sent.
    #[inline(always)]
    pub fn can_bypass_queue(&self, now: Instant, bytes: u32, transmitter: &Transmitter) -> bool {
        match self {
            Queue::DropTail(queue) => {
                queue.is_empty() && queue.has_room(now, bytes, 1, transmitter)
            }
            _ => false,
        }
    }

    /// Enqueues a packet for which [`Self::can_bypass_queue`] returned `true`.
    pub fn push_admitted(&mut self, packet: P) {
        let Queue::DropTail(queue) = self else {
            unreachable!("only drop-tail queues can be bypassed")
        };
        queue.push(packet);
    }

    /// Appends a packet to a drop-tail queue with a limit in packets, `ahead` of which are at its server, like
    /// [`Self::enqueue`]; returns whether there was room.
    ///
    /// # Errors
    /// The packet, if the queue is of another kind.
    #[inline]
    pub fn enqueue_behind(&mut self, packet: P, ahead: u64) -> Result<bool, P> {
        match self {
            Queue::DropTail(queue) => queue.enqueue_behind(packet, ahead),
            _ => Err(packet),
        }
    }

    /// Returns `true` if the queue drops only the packets that are passed to it.
    #[inline]
    pub fn is_drop_tail(&self) -> bool {
        matches!(self, Queue::DropTail(_))
    }

    /// Returns `true` if `count` further packets of any length would certainly be enqueued, whether
    /// or not a frame is in transmission, and if only arrivals drop or mark packets.
    #[inline(always)]
    pub fn has_certain_room(&self, count: usize) -> bool {
        match self {
            Queue::DropTail(queue) => match queue.limit() {
                Limit::Packets(limit) => ((queue.len() + count) as u64) < limit,
                Limit::Bytes(_) => false,
            },
            _ => false,
        }
    }

    /// Removes and returns the next packet to send.
    #[inline(always)]
    pub fn dequeue(&mut self, now: Instant) -> Option<P> {
        let mut packet = None;
        self.dequeue_into(now, &mut packet);
        packet
    }

    /// Offers the slot of the next packet of a drop-tail queue to `take`, which takes the packet or leaves it. Returns
    /// whether it was taken; `false` for other disciplines, which may drop the packet instead.
    #[inline]
    pub fn offer_next(&mut self, take: impl FnOnce(&mut Option<P>)) -> bool {
        match self {
            Queue::DropTail(queue) => queue.offer_next(take),
            _ => false,
        }
    }

    /// Like [`Self::dequeue`], but stores the packet in `place` and returns whether it did.
    #[inline(always)]
    pub fn dequeue_into(&mut self, now: Instant, place: &mut Option<P>) -> bool {
        match self {
            Queue::DropTail(queue) => queue.dequeue_into(now, place),
            _ => self.dequeue_from_other(now, place),
        }
    }

    /// Number of queued packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Queue::DropTail(queue) => queue.len(),
            _ => self.other_len(),
        }
    }

    /// Returns `true` if no packets are queued.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    // Drop-tail is the most frequent discipline: one comparison saves a jump table.

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

    /// Returns `true` if the queue has room for `count` packets of `bytes` each.
    pub fn has_room(
        &self,
        now: Instant,
        bytes: u32,
        count: u64,
        transmitter: &Transmitter,
    ) -> bool {
        dispatch!(self, queue => queue.has_room(now, bytes, count, transmitter))
    }

    /// Counters of dropped and marked packets since the start.
    pub fn counters(&self) -> DisciplineCounters {
        dispatch!(self, queue => queue.counters())
    }

    /// Packets dropped by the last call, except the argument of [`Self::enqueue`].
    pub fn dropped(&self) -> impl Iterator<Item = &P> {
        let measured = match self {
            Queue::Measured(queue) => Some(queue.dropped_packets()),
            _ => None,
        };
        dispatch!(self, queue => queue.dropped()).iter().chain(measured.into_iter().flatten())
    }
}

impl<P: Payload> StampedQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: Stamped<P>, transmitter: &Transmitter) -> bool {
        dispatch_stamped!(self, queue => queue.enqueue(now, packet, transmitter))
    }

    fn dequeue(&mut self, now: Instant) -> Option<Stamped<P>> {
        dispatch_stamped!(self, queue => queue.dequeue(now))
    }

    fn len(&self) -> usize {
        dispatch_stamped!(self, queue => queue.len())
    }

    fn has_room(&self, now: Instant, bytes: u32, count: u64, transmitter: &Transmitter) -> bool {
        dispatch_stamped!(self, queue => queue.has_room(now, bytes, count, transmitter))
    }

    fn counters(&self) -> DisciplineCounters {
        dispatch_stamped!(self, queue => queue.counters())
    }

    fn dropped(&self) -> &[Stamped<P>] {
        dispatch_stamped!(self, queue => queue.dropped())
    }
}
