//! One direction of a link.
//!
//! A *raw* direction is computed: its queue knows a packet's departure and fate when the packet is
//! offered, and only arrivals that somebody must handle wait in its ring. An *ARQ* direction is
//! driven: its endpoint chooses the next frame when the transmitter falls idle.

use super::radio::NO_RADIO;
use super::wlan::Shared;
use crate::channel::{Airtime, Channel, ErrorProcess};
use crate::interface::{Interface, Transmission};
use crate::link::{Endpoint, Frame, LinkCounters, LinkEndpoint, LinkEvent};
use crate::packet::Packet;
use crate::queue::{Ahead, ComputedFifo, Queue, QueueCounters, Ring, Transmitter};
use crate::units::{Bytes, Duration, Instant, Rate};

/// Something on its way: when it arrives, its insertion ticket, and what it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight<T> {
    pub at: Instant,
    pub ticket: u64,
    pub item: T,
}

/// Parameters of one direction.
#[derive(Clone, Debug)]
pub struct DirectionParameters {
    /// What sends its frames, at which rate.
    pub transmitter: Transmitter,
    /// Propagation delay.
    pub delay: Duration,
    /// The interface queue; drop-tail where the direction is computed.
    pub queue: Queue<Packet>,
    /// Link header of each frame. Endpoints of ARQ links add it themselves.
    pub header: Bytes,
    /// What destroys frames.
    pub channel: Channel,
}

/// A direction without link protocol.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub queue: ComputedFifo,
    /// Packets that have been computed and not yet handled, in order of arrival.
    pub ring: Ring<InFlight<Packet>>,
}

/// A frame of a link protocol on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossing {
    pub frame: Frame<Packet>,
    /// Arrives all the same, where an endpoint wants to be told.
    pub is_damaged: bool,
}

/// A direction whose frames an endpoint chooses.
#[derive(Clone, Debug)]
pub(super) struct Arq {
    pub interface: Interface<LinkEndpoint<Packet>, Packet>,
    channel: Channel,
    pub ring: Ring<InFlight<Crossing>>,
    /// Does the endpoint at the far end want damaged frames too?
    wants_damaged: bool,
    pub counters: QueueCounters,
    /// On a radio, the slots that were filled last.
    slots: Option<Box<Ahead>>,
    /// Empty where the endpoint is one protocol.
    pub services: ServiceTable,
}

/// What a direction knows of the services that share it, by their index.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTable {
    pub names: Vec<String>,
    pub counters: Vec<QueueCounters>,
    /// Whose frame is on the air.
    on_air: u8,
}

/// What an ARQ direction's transmitter did.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The frame, and when its last bit leaves.
    pub frame: Frame<Packet>,
    pub end: Instant,
    pub is_lost: bool,
}

impl Sent {
    /// Does it take no time, so that it cannot be lost?
    pub fn is_free(&self) -> bool {
        self.frame.bytes == 0
    }
}

impl Arq {
    pub fn new(parameters: DirectionParameters, endpoint: LinkEndpoint<Packet>) -> Self {
        let count = match &endpoint {
            LinkEndpoint::Services(services) => services.count(),
            _ => 0,
        };
        let services = ServiceTable {
            names: (0..count).map(|index| index.to_string()).collect(),
            counters: vec![QueueCounters::default(); count],
            ..ServiceTable::default()
        };
        Arq {
            services,
            wants_damaged: endpoint.wants_damaged(),
            interface: Interface::new(endpoint, parameters.queue, parameters.transmitter),
            channel: parameters.channel,
            ring: Ring::with_capacity(64),
            counters: QueueCounters::default(),
            slots: None,
        }
    }

    /// Its frames take slots of a radio, which are filled ahead of their time.
    pub fn take_slots(&mut self) {
        self.slots = Some(Box::new(Ahead::new()));
    }

    /// Would a packet that arrives now leave room for another one like it?
    pub fn has_spare_room(&self, now: Instant, service: u8, packet: &Packet) -> bool {
        if let LinkEndpoint::Services(services) = &self.interface.endpoint {
            let busy = self.interface.transmitter().is_busy(now);
            return services.has_room(usize::from(service), packet.bytes, 2, busy);
        }
        self.interface.has_spare_room(now, packet.bytes)
    }

    /// A packet joins the interface queue; false: dropped. Frames held in the endpoint's window
    /// have left the queue.
    #[inline]
    pub fn offer(&mut self, now: Instant, service: u8, packet: &Packet) -> bool {
        if !self.services.counters.is_empty() {
            return self.offer_to_service(now, usize::from(service), packet);
        }
        self.interface.enqueue(now, *packet)
    }

    /// A packet joins the queue of its service, which the endpoint holds; false: dropped.
    #[inline(never)]
    fn offer_to_service(&mut self, now: Instant, service: usize, packet: &Packet) -> bool {
        let busy = self.interface.transmitter().is_busy(now);
        let LinkEndpoint::Services(services) = &mut self.interface.endpoint else {
            unreachable!("only services have counters of their own")
        };
        let admitted = services.offer(now, service, *packet, busy);
        if !admitted {
            self.counters.drops += 1;
            self.services.counters[service].drops += 1;
        }
        admitted
    }

    /// Counters of the endpoint that transmits here.
    pub fn link_counters(&self) -> LinkCounters {
        self.interface.endpoint.counters()
    }

    /// Packets in the queue, the frame in transmission included.
    pub fn length(&self, now: Instant) -> u64 {
        let queued = match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.queued(),
            _ => self.interface.queued() as u64,
        };
        queued + u64::from(self.interface.transmitter().is_busy(now))
    }

    /// The endpoint's next event and the service that it belongs to.
    #[inline]
    pub fn poll_event(&mut self) -> Option<(u8, LinkEvent)> {
        match &mut self.interface.endpoint {
            LinkEndpoint::Services(services) => services.poll_service_event(),
            endpoint => endpoint.poll_event().map(|event| (0, event)),
        }
    }

    /// Counters of the endpoint of `service`.
    pub fn service_link_counters(&self, service: usize) -> LinkCounters {
        match &self.interface.endpoint {
            LinkEndpoint::Services(services) => services.endpoint(service).counters(),
            endpoint => endpoint.counters(),
        }
    }

    /// Is the frame on the air, if there is one, of `service`?
    pub fn is_last_of(&self, service: usize) -> bool {
        usize::from(self.services.on_air) == service
    }

    /// Does the packet that joined last stand behind others?
    #[inline]
    pub fn has_backlog(&self) -> bool {
        self.interface.queued() > 1
    }

    /// When the frame on the air has left.
    #[inline]
    pub fn free_at(&self) -> Instant {
        self.interface.free_at()
    }

    /// A frame is on the air: is it lost?
    #[inline(always)]
    fn expose(&mut self, airtime: Airtime) -> bool {
        let is_lost = self.channel.is_lost(airtime);
        self.counters.frames_sent += 1;
        self.counters.bits_sent += airtime.bits;
        self.counters.frames_lost += u64::from(is_lost);
        is_lost
    }

    /// The next frame takes a slot of a radio, from `start` to `end`; none is slower than that.
    #[inline]
    pub fn poll_slot(&mut self, now: Instant, [start, end]: [Instant; 2]) -> Option<Sent> {
        let frame = self.interface.next_frame(now)?;
        if frame.bytes == 0 {
            return Some(Sent { frame, end: now, is_lost: false });
        }
        let airtime = Airtime { start, end, bits: u64::from(frame.bytes) * 8 };
        let is_lost = self.expose(airtime);
        if let Some(slots) = &mut self.slots {
            slots.send(now, airtime, is_lost);
        }
        Some(Sent { frame, end, is_lost })
    }

    /// Is it on its way to somebody: arrives, or is awaited although it is damaged?
    #[inline]
    pub fn arrives(&self, sent: &Sent) -> bool {
        !sent.is_lost || self.wants_damaged
    }

    /// Would the endpoint send something, had it a slot?
    #[inline]
    pub fn has_something(&self) -> bool {
        let Interface { endpoint, .. } = &self.interface;
        endpoint.has_frame() || self.interface.queued() > 0 && endpoint.wants_packet()
    }

    /// The transmitter is idle: puts the next frame on the air, if there is one.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Option<Sent> {
        let Transmission { frame, airtime } = self.interface.poll_transmit(now)?;
        let Some(airtime) = airtime else {
            return Some(Sent { frame, end: now, is_lost: false });
        };
        let is_lost = self.expose(airtime);
        if let Some(counters) = self.services.counters.get_mut(usize::from(frame.service)) {
            counters.frames_sent += 1;
            counters.bits_sent += airtime.bits;
            counters.frames_lost += u64::from(is_lost);
            self.services.on_air = frame.service;
        }
        Some(Sent { frame, end: airtime.end, is_lost })
    }

    /// When this direction must be polled again: end of transmission if something waits, or the
    /// endpoint's timer.
    #[inline]
    pub fn next_poll(&self) -> Instant {
        self.interface.next_timeout()
    }
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few directions, and raw ones are the hot path")]
pub(super) enum Kind {
    Raw(Raw),
    Arq(Box<Arq>),
    /// Of a station of a WLAN: the air does all.
    Shared(Shared),
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub kind: Kind,
    pub delay: Duration,
    /// Its deadlines: arrivals at its far end, and the one after it for an endpoint's
    /// transmissions and timers.
    pub machine: usize,
    /// Everything that enters comes from one computed direction, in order: packets can be handed
    /// on as soon as that direction has computed them.
    pub is_chained: bool,
    /// The first agent that packets meet where it begins, and where it ends.
    pub near_agent: Option<u32>,
    pub far_agent: Option<u32>,
    /// The radio whose slots it shares, or [`NO_RADIO`].
    pub radio: u32,
}

impl Direction {
    pub fn raw(parameters: DirectionParameters) -> Self {
        let DirectionParameters { transmitter, delay, queue, header, channel } = parameters;
        let Queue::DropTail(queue) = queue else {
            unreachable!("only drop-tail is computed: see QueueDiscipline")
        };
        let queue = ComputedFifo::new(transmitter, queue.limit(), header, channel);
        let ring = Ring::with_capacity(64);
        Self::new(Kind::Raw(Raw { queue, ring }), delay)
    }

    fn new(kind: Kind, delay: Duration) -> Self {
        let (near_agent, far_agent) = (None, None);
        let radio = NO_RADIO;
        Direction { kind, delay, machine: 0, is_chained: false, near_agent, far_agent, radio }
    }

    /// A direction of a WLAN.
    pub fn shared(shared: Shared) -> Self {
        Self::new(Kind::Shared(shared), Duration::ZERO)
    }

    pub fn arq(parameters: DirectionParameters, endpoint: LinkEndpoint<Packet>) -> Self {
        let delay = parameters.delay;
        let arq = Box::new(Arq::new(parameters, endpoint));
        Self::new(Kind::Arq(arq), delay)
    }

    /// Would a packet of `bytes` that arrives now leave room for another one like it?
    pub fn has_spare_room(&mut self, now: Instant, service: u8, packet: &Packet) -> bool {
        match &mut self.kind {
            Kind::Raw(raw) => raw.queue.has_spare_room(now, packet.bytes),
            Kind::Arq(arq) => arq.has_spare_room(now, service, packet),
            Kind::Shared(_) => unreachable!("the air knows"),
        }
    }

    /// Replays what happens up to and including `until` without anybody looking: background traffic,
    /// changes of the channel. Nothing may enter before that time any more.
    pub fn catch_up(&mut self, until: Instant) {
        match &mut self.kind {
            Kind::Raw(raw) => raw.queue.catch_up_with_channel(until),
            Kind::Arq(arq) => arq.channel.catch_up(until),
            Kind::Shared(_) => {}
        }
    }

    /// Steps that such a replay takes for a second of simulated time.
    pub fn replay_rate(&self) -> f64 {
        match &self.kind {
            Kind::Raw(raw) => raw.queue.replay_rate(),
            Kind::Arq(arq) => arq.channel.replay_rate(),
            Kind::Shared(_) => 0.0,
        }
    }

    /// The highest rate that it ever has.
    pub fn fastest(&self) -> Rate {
        match &self.kind {
            Kind::Raw(raw) => raw.queue.transmitter().fastest(),
            Kind::Arq(arq) => arq.interface.transmitter().fastest(),
            Kind::Shared(shared) => shared.rate,
        }
    }

    /// Bits that it could have sent by then.
    pub fn capacity(&self, until: Instant) -> f64 {
        match &self.kind {
            Kind::Raw(raw) => raw.queue.transmitter().capacity(until),
            Kind::Arq(arq) => arq.interface.transmitter().capacity(until),
            Kind::Shared(shared) => shared.rate.as_bps() as f64 * until.as_secs_f64(),
        }
    }

    /// Counters of the queue and transmitter at `now`, background traffic included: of what was
    /// computed, frames that have started.
    pub fn counters(&self, now: Instant) -> QueueCounters {
        match &self.kind {
            Kind::Raw(raw) => raw.queue.counters(now),
            Kind::Arq(arq) => {
                let drops = arq.counters.drops + arq.interface.queue().counters().drops();
                let counters = QueueCounters { drops, ..arq.counters };
                match &arq.slots {
                    Some(slots) => counters - slots.after(now),
                    None => counters,
                }
            }
            Kind::Shared(_) => unreachable!("the air counts"),
        }
    }

    /// Bits of the frame on the air at `now` that are not out.
    pub fn unsent_bits(&self, now: Instant) -> f64 {
        match &self.kind {
            Kind::Raw(raw) => raw.queue.unsent_bits(now),
            Kind::Arq(arq) => match &arq.slots {
                Some(slots) => slots.unsent_bits(now),
                None => arq.interface.transmitter().unsent_bits(now),
            },
            Kind::Shared(_) => 0.0,
        }
    }
}
