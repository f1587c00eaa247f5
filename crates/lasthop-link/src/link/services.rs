//! Several services on one link: each with its own protocol, queue and share of the bit rate.
//!
//! Source: the multi-service link layer of Xylomenos and Polyzos (abstracts: ISCC 2003; "Quality of
//! service issues in multi-service wireless Internet links"): each class of applications gets the
//! error control that suits it, and the link is shared *before* any error control is applied, so
//! that a service pays with its own share for what it repeats, adds or acknowledges.
//!
//! ```text
//!                  +-> queue 0 -> endpoint 0 --+
//!   packet, class -+-> queue 1 -> endpoint 1 --+-> fair queueing -> frame + identifier
//!                  +-> ...                     |
//!   undamaged frame -> identifier -> endpoint -+-> up
//! ```
//!
//! Every frame names its service and is charged to it: new data, copies, parity and keep-alives,
//! and the acknowledgments and NACKs for what the same service receives. Within a service its
//! endpoint decides what goes first. Fair queueing is by start tags (see
//! [`FairQueue`](crate::queue::FairQueue)): an endpoint is polled, and so starts its timers, only
//! when its frame does go out, and the length of the frame is not needed before. A packet leaves its
//! queue for its endpoint at that moment, too. So a link with one service and no identifier does
//! what a link with that protocol alone does.
//!
//! States of the scheduler:
//!
//! ```text
//!              a service has a frame
//!   +------+ ------------------------> +------+
//!   | idle |                           | busy |  tags count
//!   +------+ <------------------------ +------+
//!              polled, and none has
//! ```
//!
//! To see the end of a busy period the machine has to be polled once more than it has frames:
//! [`Endpoint::has_frame`] says so.
//!
//! Weights are fixed, or measured: at the end of every interval each service gets the part that it
//! had in the bytes offered to all services in that interval, before error control and drops, but
//! not below 1 %: acknowledgments for the other direction must get through.
//!
//! Not modelled: pre-emption, borrowing of queue space, reservation or admission of services,
//! fragments.

use super::{
    CarriesFrames, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint, LinkError, LinkEvent,
};
use crate::queue::{FairQueue, Queue, Transmitter};
use lasthop_base::packet::{LinkFate, Payload};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Most services of a link.
pub const MAX_SERVICES: usize = 16;

/// DS code points (RFC 2474): six bits.
pub const CLASSES: usize = 64;

/// Measured weights are parts of this.
const WHOLE: u64 = 1000;

/// The least of them.
const LEAST: u64 = 10;

/// One service of a link.
#[derive(Clone, Debug)]
pub struct ServiceParameters<P: Payload> {
    /// Its protocol.
    pub endpoint: LinkEndpoint<P>,
    /// Its share, in parts of the sum of all weights; with measured shares, until the end of the
    /// first interval.
    pub weight: NonZeroU32,
    /// Its queue, which counts a frame of its own in transmission; sizes count packets with the header of
    /// its data frames, identifier included.
    pub queue: Queue<P>,
}

/// Parameters of a link with services.
#[derive(Clone, Debug)]
pub struct ServicesParameters<P: Payload> {
    /// The services, at most [`MAX_SERVICES`]; the index is the identifier on the air, and the first
    /// takes what belongs to no other.
    pub services: Vec<ServiceParameters<P>>,
    /// Service of each traffic class ([`Payload::class`]), for packets that come without a service;
    /// classes beyond the end go to the first service.
    pub classes: Vec<u8>,
    /// What every frame carries to name its service (default 1 B, our choice: a few bits would do,
    /// the field of a frame is whole bytes).
    pub identifier: Bytes,
    /// Rate of the link, at which queues take their packets to be served.
    pub rate: Rate,
    /// How often shares are measured; `None`: the weights are fixed.
    pub measure: Option<Duration>,
}

#[derive(Clone, Debug)]
struct Service<P: Payload> {
    endpoint: LinkEndpoint<P>,
    queue: Queue<P>,
    /// Bytes offered in this interval.
    offered: u64,
}

impl<P: CarriesFrames> Service<P> {
    fn has_frame(&self) -> bool {
        self.endpoint.has_frame() || !self.queue.is_empty() && self.endpoint.wants_packet()
    }
}

/// When the interval of measurement ends, and how long one is.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    end: Instant,
    interval: Duration,
}

/// One end of a link with several services.
#[derive(Clone, Debug)]
pub struct Services<P: Payload> {
    services: Box<[Service<P>]>,
    schedule: FairQueue,
    /// Have frames been sent since the transmitter was last found idle?
    is_busy: bool,
    /// Service and length of the frame polled last.
    last: (u8, u32),
    classes: Box<[u8]>,
    identifier: u32,
    rate: Rate,
    /// Packets that queues have dropped after they had joined, with their services.
    dropped: VecDeque<(u8, P)>,
    measurement: Option<Measurement>,
}

impl<P: CarriesFrames> Services<P> {
    /// An idle endpoint.
    pub fn new(parameters: ServicesParameters<P>) -> Result<Self, LinkError> {
        let ServicesParameters { services, mut classes, identifier, rate, measure } = parameters;
        let count = services.len();
        if !(1..=MAX_SERVICES).contains(&count) {
            return Err(LinkError::Services { found: count });
        }
        if let Some(&class) = classes.iter().find(|&&class| usize::from(class) >= count) {
            return Err(LinkError::Class { found: class, services: count });
        }
        if measure == Some(Duration::ZERO) {
            return Err(LinkError::Interval);
        }
        let identifier = u16::try_from(identifier.get())
            .map_err(|_| LinkError::Header { protocol: "services", found: identifier })?;
        if services.iter().any(|own| matches!(own.endpoint, LinkEndpoint::Services(_))) {
            return Err(LinkError::Nested);
        }
        classes.resize(CLASSES, 0);
        let weights: Vec<_> = services.iter().map(|own| own.weight).collect();
        let service = |own: ServiceParameters<P>| Service {
            endpoint: own.endpoint,
            queue: own.queue,
            offered: 0,
        };
        Ok(Services {
            services: services.into_iter().map(service).collect(),
            schedule: FairQueue::new(&weights),
            is_busy: false,
            last: (0, 0),
            classes: classes.into_boxed_slice(),
            identifier: identifier.into(),
            rate,
            dropped: VecDeque::new(),
            measurement: measure
                .map(|interval| Measurement { end: Instant::ZERO + interval, interval }),
        })
    }

    /// Number of services.
    pub fn count(&self) -> usize {
        self.services.len()
    }

    /// The endpoint of `service`.
    pub fn endpoint(&self, service: usize) -> &LinkEndpoint<P> {
        &self.services[service].endpoint
    }

    /// The weight of `service` now.
    pub fn weight(&self, service: usize) -> NonZeroU32 {
        self.schedule.weight(service)
    }

    /// Packets in the queues.
    pub fn queued(&self) -> u64 {
        self.services.iter().map(|service| service.queue.len() as u64).sum()
    }

    /// The queue of `service`.
    pub fn queue(&self, service: usize) -> &Queue<P> {
        &self.services[service].queue
    }

    /// What the queue of `service` sees of the link: a frame of its own, if one is on the air.
    fn server(&self, now: Instant, service: usize, is_on_air: bool) -> Transmitter {
        let is_own = is_on_air && usize::from(self.last.0) == service;
        let until = if is_own { Instant::NEVER } else { now };
        Transmitter::standing_in(self.rate, 1, self.last.1.into(), until)
    }

    /// A packet joins the queue of `service`; false: it is dropped. `is_on_air`: the frame polled last is
    /// still being sent.
    pub fn offer(&mut self, now: Instant, service: usize, packet: P, is_on_air: bool) -> bool {
        self.measure(now);
        let server = self.server(now, service, is_on_air);
        let own = &mut self.services[service];
        own.offered += u64::from(packet.wire_bytes());
        let is_admitted = own.queue.enqueue(now, packet, &server);
        let dropped = own.queue.dropped().iter().cloned();
        self.dropped.extend(dropped.map(|packet| (service as u8, packet)));
        is_admitted
    }

    /// Has the queue of `service` room for so many packets of `bytes`? `is_on_air`: the frame
    /// polled last is still being sent.
    pub fn has_room(
        &self,
        now: Instant,
        service: usize,
        bytes: u32,
        count: u64,
        is_on_air: bool,
    ) -> bool {
        let server = self.server(now, service, is_on_air);
        self.services[service].queue.has_room(now, bytes, count, &server)
    }

    /// The next packet that a queue has dropped after it had joined, and its service.
    pub fn poll_dropped(&mut self) -> Option<(u8, P)> {
        self.dropped.pop_front()
    }

    /// The next event and the service that it belongs to.
    pub fn poll_service_event(&mut self) -> Option<(u8, LinkEvent)> {
        let events = |(index, service): (usize, &mut Service<P>)| {
            service.endpoint.poll_event().map(|event| (index as u8, event))
        };
        self.services.iter_mut().enumerate().find_map(events)
    }

    /// Passes the next packet of `service` to its endpoint if that wants one; false if there is none.
    fn feed(&mut self, now: Instant, service: usize) -> bool {
        let own = &mut self.services[service];
        if !own.endpoint.wants_packet() {
            return false;
        }
        let packet = own.queue.dequeue(now);
        let dropped = own.queue.dropped().iter().cloned();
        self.dropped.extend(dropped.map(|packet| (service as u8, packet)));
        let is_there = packet.is_some();
        if let Some(packet) = packet {
            own.endpoint.enqueue(now, packet);
        }
        is_there
    }

    /// At the end of an interval, takes the weights from what was offered in it. An interval
    /// without packets says nothing.
    fn measure(&mut self, now: Instant) {
        let Some(Measurement { end, interval }) = self.measurement else { return };
        if now < end {
            return;
        }
        let passed = now.saturating_since(end).as_nanos() / interval.as_nanos() + 1;
        self.measurement = Some(Measurement { end: end + interval * passed, interval });
        let all: u64 = self.services.iter().map(|service| service.offered).sum();
        for (index, service) in self.services.iter_mut().enumerate() {
            let offered = std::mem::take(&mut service.offered);
            let part = (offered * WHOLE).checked_div(all).map(|part| part.max(LEAST) as u32);
            if let Some(weight) = part.and_then(NonZeroU32::new) {
                self.schedule.set_weight(index, weight);
            }
        }
    }
}

/// Out of line: what calls an endpoint of any kind stays small, and fast for the other kinds.
impl<P: CarriesFrames> Endpoint<P> for Services<P> {
    type Control = FrameKind;

    fn keep_fates(&mut self) {
        self.services.iter_mut().for_each(|service| service.endpoint.keep_fates());
    }

    fn poll_fate(&mut self) -> Option<(LinkFate, P)> {
        self.services.iter_mut().find_map(|service| service.endpoint.poll_fate())
    }

    /// Always: the queues are in here.
    fn wants_packet(&self) -> bool {
        true
    }

    /// The service is that of the packet's class; without room the packet is dropped.
    #[inline(never)]
    fn enqueue(&mut self, now: Instant, packet: P) {
        let class = usize::from(packet.class());
        let service = self.classes.get(class).copied().unwrap_or(0);
        self.offer(now, service.into(), packet, false);
    }

    #[inline(never)]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        self.measure(now);
        let chosen = loop {
            let Some(chosen) = self.schedule.choose(|index| self.services[index].has_frame())
            else {
                self.schedule.reset();
                self.is_busy = false;
                return None;
            };
            // A service whose queue has dropped all that it held has nothing to send.
            if self.feed(now, chosen) || self.services[chosen].endpoint.has_frame() {
                break chosen;
            }
        };
        let frame = self.services[chosen].endpoint.poll_transmit(now);
        debug_assert!(frame.is_some(), "an endpoint that has a frame gives it");
        let mut frame = frame?;
        frame.service = chosen as u8;
        frame.bytes += self.identifier;
        self.schedule.charge(chosen, frame.bytes);
        self.is_busy = true;
        self.last = (frame.service, frame.bytes);
        Some(frame)
    }

    #[inline(never)]
    fn has_frame(&self) -> bool {
        self.is_busy || self.services.iter().any(Service::has_frame)
    }

    /// A frame of a service that does not exist is dropped.
    #[inline(never)]
    fn receive(&mut self, now: Instant, mut frame: Frame<P>) {
        if let Some(service) = self.services.get_mut(usize::from(frame.service)) {
            frame.service = 0;
            frame.bytes = frame.bytes.saturating_sub(self.identifier);
            service.endpoint.receive(now, frame);
        }
    }

    #[inline(never)]
    fn poll_deliver(&mut self) -> Option<P> {
        self.services.iter_mut().find_map(|service| service.endpoint.poll_deliver())
    }

    #[inline(never)]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.poll_service_event().map(|(_, event)| event)
    }

    fn drop_events(&mut self) {
        self.dropped.clear();
        self.services.iter_mut().for_each(|service| service.endpoint.drop_events());
    }

    #[inline(never)]
    fn next_timeout(&self) -> Instant {
        let timeouts = self.services.iter().map(|service| service.endpoint.next_timeout());
        timeouts.min().unwrap_or(Instant::NEVER)
    }

    #[inline(never)]
    fn handle_timeout(&mut self, now: Instant) {
        for service in &mut self.services {
            if service.endpoint.next_timeout() <= now {
                service.endpoint.handle_timeout(now);
            }
        }
    }

    /// The sum over the services.
    fn counters(&self) -> LinkCounters {
        let counters = self.services.iter().map(|service| service.endpoint.counters());
        counters.fold(LinkCounters::default(), LinkCounters::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Raw;
    use crate::queue::Limit;
    use lasthop_base::packet::Packet;

    /// Raw services of these weights.
    fn services(weights: &[u32], measure: Option<Duration>) -> Services<Packet> {
        let service = |weight: &u32| ServiceParameters {
            endpoint: LinkEndpoint::Raw(Raw::new()),
            weight: NonZeroU32::new(*weight).expect("positive"),
            queue: Queue::drop_tail(Limit::Packets(50), Bytes::new(1)),
        };
        let parameters = ServicesParameters {
            services: weights.iter().map(service).collect(),
            classes: Vec::new(),
            identifier: Bytes::new(1),
            rate: Rate::from_bps(1_000_000),
            measure,
        };
        Services::new(parameters).expect("valid parameters")
    }

    fn packet(bytes: u32) -> Packet {
        Packet { bytes, ..Packet::default() }
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn shares_follow_what_was_offered() {
        let mut link = services(&[1, 1, 1], Some(Duration::from_millis(100)));
        let weights = |link: &Services<Packet>| [0, 1, 2].map(|index| link.weight(index).get());
        for _ in 0..6 {
            assert!(link.offer(at(10), 0, packet(500), false));
        }
        for _ in 0..60 {
            // Ten of these find no room: they were offered all the same.
            link.offer(at(20), 1, packet(150), false);
        }
        assert!(link.poll_transmit(at(99)).is_some());
        assert_eq!(weights(&link), [1, 1, 1], "the interval is not over");
        assert!(link.poll_transmit(at(100)).is_some());
        assert_eq!(weights(&link), [250, 750, 10]);
        // Nothing was offered from 100 to 200 ms: nothing changes; what comes at 350 ms counts at
        // 400 ms.
        assert!(link.offer(at(350), 2, packet(100), false));
        assert_eq!(weights(&link), [250, 750, 10]);
        link.poll_transmit(at(400));
        assert_eq!(weights(&link), [10, 10, 1000]);
    }

    #[test]
    fn each_queue_has_its_own_limit() {
        let mut link = services(&[1, 1], None);
        let mut admitted = [0, 0];
        for _ in 0..60 {
            admitted[0] += u32::from(link.offer(at(0), 0, packet(9), false));
        }
        assert!(link.offer(at(0), 1, packet(9), false), "the other one is empty");
        let frame = link.poll_transmit(at(0)).expect("a frame");
        assert_eq!((frame.service, frame.bytes, link.queued()), (0, 10, 50));
        // A frame of one's own that is on the air takes room, that of another does not.
        assert!(!link.offer(at(1), 0, packet(9), true));
        assert!(link.offer(at(1), 0, packet(9), false));
        for _ in 0..60 {
            admitted[1] += u32::from(link.offer(at(1), 1, packet(9), true));
        }
        assert_eq!(admitted, [50, 49]);
    }

    #[test]
    fn an_idle_poll_ends_the_busy_period() {
        let mut link = services(&[1, 1], None);
        let next = |link: &mut Services<Packet>| link.poll_transmit(at(0)).map(|sent| sent.service);
        link.offer(at(0), 0, packet(1000), false);
        assert_eq!(next(&mut link), Some(0));
        assert!(link.has_frame(), "to be polled when the frame has left");
        for service in [0, 1] {
            link.offer(at(0), service, packet(1000), false);
        }
        assert_eq!(next(&mut link), Some(1), "service 0 has had its turn");
        assert_eq!([next(&mut link), next(&mut link)], [Some(0), None]);
        assert!(!link.has_frame());
        for service in [0, 1] {
            link.offer(at(0), service, packet(1000), false);
        }
        assert_eq!(next(&mut link), Some(0), "forgotten");
    }

    #[test]
    fn frames_of_unknown_services_are_dropped() {
        let mut link = services(&[1], None);
        let mut peer = services(&[1, 1], None);
        peer.offer(at(0), 1, packet(9), false);
        link.receive(at(0), peer.poll_transmit(at(0)).expect("a frame"));
        assert!(link.poll_deliver().is_none());
    }

    #[test]
    fn bad_parameters_are_refused() {
        let parameters = |count, classes, identifier, measure| ServicesParameters::<Packet> {
            services: (0..count)
                .map(|_| ServiceParameters {
                    endpoint: LinkEndpoint::Raw(Raw::new()),
                    weight: NonZeroU32::MIN,
                    queue: Queue::drop_tail(Limit::Packets(1), Bytes::new(1)),
                })
                .collect(),
            classes,
            identifier: Bytes::new(identifier),
            rate: Rate::from_bps(1_000_000),
            measure,
        };
        let error = |parameters| Services::new(parameters).expect_err("refused").to_string();
        assert!(error(parameters(0, vec![], 1, None)).contains("found 0 services"));
        assert!(error(parameters(17, vec![], 1, None)).contains("allowed: 1 to 16"));
        assert!(error(parameters(2, vec![0, 2], 1, None)).contains("found service 2"));
        assert!(error(parameters(2, vec![], 70_000, None)).contains("at most 65535 B"));
        assert!(error(parameters(2, vec![], 1, Some(Duration::ZERO))).contains("interval of 0 s"));
        let mut nested = parameters(1, vec![], 1, None);
        let inner = Services::new(parameters(1, vec![], 1, None)).expect("valid");
        nested.services[0].endpoint = LinkEndpoint::Services(Box::new(inner));
        assert!(error(nested).contains("services within services"));
    }
}
