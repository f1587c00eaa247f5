//! Several services on one link: each has its own protocol, queue and share of the bit rate.
//!
//! Source: the multi-service link layer of Xylomenos and Polyzos (abstracts: ISCC 2003; "Quality of
//! service issues in multi-service wireless Internet links"). Each class of applications uses the
//! error control that suits it. The link is shared *before* error control, so retransmissions,
//! redundancy and acknowledgments of a service use the service's own share.
//!
//! ```text
//!                  +-> queue 0 -> endpoint 0 --+
//!   packet, class -+-> queue 1 -> endpoint 1 --+-> fair queueing -> frame + identifier
//!                  +-> ...                     |
//!   received frame -> identifier -> endpoint --+-> network layer
//! ```
//!
//! Every frame contains the identifier of its service and is charged to it: new data,
//! retransmissions, parity and keep-alives, and the acknowledgments and NACKs for data received by
//! the service. The endpoint of a service determines the order of its frames. Fair queueing is
//! based on start tags (see [`FairQueue`]), for which the length of the
//! next frame need not be known. An endpoint is polled, and starts its timers, only when its frame
//! is sent. At that time a packet also moves from the queue to the endpoint. A link with one
//! service and no identifier is therefore equivalent to a link with that protocol.
//!
//! States of the scheduler:
//!
//! ```text
//!              a service has a frame
//!   +------+ ------------------------> +------+
//!   | idle |                           | busy |  tags advance
//!   +------+ <------------------------ +------+
//!               polled, no service has a frame
//! ```
//!
//! To detect the end of a busy period, the endpoint must be polled once more than it has frames;
//! [`Endpoint::has_frame`] then returns `true`.
//!
//! Weights are fixed or measured. Measured weights are updated at the end of every interval: each
//! service gets its fraction of the bytes offered to all services in that interval, counted before
//! error control and drops. The minimum is 1 %, since acknowledgments for the other direction must
//! be sent.
//!
//! Not modelled: preemption, sharing of queue space, reservation for or admission of services,
//! fragmentation.

use super::{
    Abilities, CarriesFrames, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint,
    LinkError, LinkEvent, ReportsDelivery,
};
use crate::queue::{FairQueue, Queue, Transmitter};
use lasthop_base::packet::{DeliveryReport, Payload};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;
use std::num::NonZeroU32;

/// Maximum number of services per link.
pub const MAX_SERVICES: usize = 16;

/// Number of DS code points (RFC 2474), which have 6 bits.
pub const CLASSES: usize = 64;

/// Sum of measured weights, except for rounding and the minimum.
const WHOLE: u64 = 1000;

/// Minimum of a measured weight.
const LEAST: u64 = 10;

/// One service of a link.
#[derive(Clone, Debug)]
pub struct ServiceParameters<P: Payload> {
    /// Endpoint of the service's protocol.
    pub endpoint: LinkEndpoint<P>,
    /// Weight of the service relative to the sum of all weights. With measured weights, it applies
    /// until the end of the first interval.
    pub weight: NonZeroU32,
    /// Queue of the service. A frame of the service in transmission counts as queued. Packets are
    /// counted with the header of data frames and the identifier.
    pub queue: Queue<P>,
}

/// Parameters of a link with services.
#[derive(Clone, Debug)]
pub struct ServicesParameters<P: Payload> {
    /// The services, at most [`MAX_SERVICES`]. The index is the identifier in frames; the first one
    /// is the default service.
    pub services: Vec<ServiceParameters<P>>,
    /// Service of each traffic class ([`Payload::class`]), for packets enqueued without a service.
    /// Further classes use the first service.
    pub classes: Vec<u8>,
    /// Length of the service identifier in every frame (default 1 B: a few bits suffice, but frame
    /// fields have whole bytes).
    pub identifier: Bytes,
    /// Rate of the link, assumed as the service rate of the queues.
    pub rate: Rate,
    /// Interval at which weights are measured; `None`: fixed weights.
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

/// End of the current measurement interval, and length of an interval.
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
    /// Whether frames have been sent since the transmitter was last idle.
    is_busy: bool,
    /// Service and length of the frame polled last.
    last: (u8, u32),
    classes: Box<[u8]>,
    identifier: u32,
    rate: Rate,
    /// Packets dropped by queues after they had been enqueued, with their services.
    dropped: VecDeque<(u8, P)>,
    measurement: Option<Measurement>,
}

impl<P: CarriesFrames> Services<P> {
    /// Creates an idle endpoint.
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

    /// Returns the number of services.
    pub fn count(&self) -> usize {
        self.services.len()
    }

    /// Returns the endpoint of `service`.
    pub fn endpoint(&self, service: usize) -> &LinkEndpoint<P> {
        &self.services[service].endpoint
    }

    /// Returns the current weight of `service`.
    pub fn weight(&self, service: usize) -> NonZeroU32 {
        self.schedule.weight(service)
    }

    /// Returns the number of packets in all queues.
    pub fn queued(&self) -> u64 {
        self.services.iter().map(|service| service.queue.len() as u64).sum()
    }

    /// Returns the queue of `service`.
    pub fn queue(&self, service: usize) -> &Queue<P> {
        &self.services[service].queue
    }

    /// Returns the transmitter as seen by the queue of `service`: busy while a frame of the service
    /// is in transmission.
    fn server(&self, now: Instant, service: usize, is_on_air: bool) -> Transmitter {
        let is_own = is_on_air && usize::from(self.last.0) == service;
        let until = if is_own { Instant::NEVER } else { now };
        Transmitter::standing_in(self.rate, 1, self.last.1.into(), until)
    }

    /// Enqueues a packet for `service`. Returns `false` if it is dropped. `is_on_air`: the frame
    /// polled last is still in transmission.
    pub fn offer(&mut self, now: Instant, service: usize, packet: P, is_on_air: bool) -> bool {
        self.measure(now);
        let server = self.server(now, service, is_on_air);
        let own = &mut self.services[service];
        own.offered += u64::from(packet.wire_bytes());
        let is_admitted = own.queue.enqueue(now, packet, &server);
        let dropped = own.queue.dropped().cloned();
        self.dropped.extend(dropped.map(|packet| (service as u8, packet)));
        is_admitted
    }

    /// Returns `true` if the queue of `service` has room for `count` packets of `bytes` bytes.
    /// `is_on_air`: the frame polled last is still in transmission.
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

    /// Returns the next packet dropped by a queue after it had been enqueued, and its service.
    pub fn poll_dropped(&mut self) -> Option<(u8, P)> {
        self.dropped.pop_front()
    }

    /// Returns the next event and its service.
    pub fn poll_service_event(&mut self) -> Option<(u8, LinkEvent)> {
        let events = |(index, service): (usize, &mut Service<P>)| {
            service.endpoint.poll_event().map(|event| (index as u8, event))
        };
        self.services.iter_mut().enumerate().find_map(events)
    }

    /// Passes the next packet of `service` to its endpoint, if the endpoint wants one. Returns
    /// `false` if none was passed.
    fn feed(&mut self, now: Instant, service: usize) -> bool {
        let own = &mut self.services[service];
        if !own.endpoint.wants_packet() {
            return false;
        }
        let packet = own.queue.dequeue(now);
        let dropped = own.queue.dropped().cloned();
        self.dropped.extend(dropped.map(|packet| (service as u8, packet)));
        let is_there = packet.is_some();
        if let Some(packet) = packet {
            own.endpoint.enqueue(now, packet);
        }
        is_there
    }

    /// At the end of an interval, sets the weights from the bytes offered in it. An interval
    /// without packets does not change the weights.
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

impl<P: CarriesFrames> ReportsDelivery<P> for Services<P> {
    fn enable(&mut self) {
        for service in &mut self.services {
            if let Some(reports) = service.endpoint.delivery_reports() {
                reports.enable();
            }
        }
    }

    fn poll(&mut self) -> Option<(DeliveryReport, P)> {
        self.services.iter_mut().find_map(|service| service.endpoint.delivery_reports()?.poll())
    }
}

/// Not inlined, so that the match on the protocol stays small and fast for the other protocols.
impl<P: CarriesFrames> Endpoint<P> for Services<P> {
    type Control = FrameKind;

    /// Always `true`, since the queues are part of this endpoint.
    fn wants_packet(&self) -> bool {
        true
    }

    /// Selects the service by the traffic class of the packet. The packet is dropped if the queue
    /// has no room.
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
            // A service whose queue has dropped all its packets has no frame.
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

    /// A frame with an unknown service identifier is dropped.
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

    /// Returns the sum over the services.
    fn counters(&self) -> LinkCounters {
        let counters = self.services.iter().map(|service| service.endpoint.counters());
        counters.fold(LinkCounters::default(), LinkCounters::plus)
    }
}

impl<P: CarriesFrames> Abilities<P> for Services<P> {
    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Some(self)
    }
}

impl<P: CarriesFrames> Driven<P> for Services<P> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Raw;
    use crate::queue::Limit;
    use lasthop_base::packet::Packet;

    /// Returns raw services with these weights.
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
            // Ten of these are dropped, but count as offered.
            link.offer(at(20), 1, packet(150), false);
        }
        assert!(link.poll_transmit(at(99)).is_some());
        assert_eq!(weights(&link), [1, 1, 1], "the interval is not over");
        assert!(link.poll_transmit(at(100)).is_some());
        assert_eq!(weights(&link), [250, 750, 10]);
        // No packet is offered from 100 to 200 ms, so the weights do not change. The packet of 350
        // ms takes effect at 400 ms.
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
        // The service's own frame in transmission occupies room in the queue, that of another
        // service does not.
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
        assert!(error(parameters(0, vec![], 1, None)).contains("number of services 0"));
        assert!(error(parameters(17, vec![], 1, None)).contains("expected 1 to 16"));
        assert!(error(parameters(2, vec![0, 2], 1, None)).contains("unknown service 2"));
        assert!(error(parameters(2, vec![], 70_000, None)).contains("at most 65535 B"));
        assert!(error(parameters(2, vec![], 1, Some(Duration::ZERO))).contains("interval of 0 s"));
        let mut nested = parameters(1, vec![], 1, None);
        let inner = Services::new(parameters(1, vec![], 1, None)).expect("valid");
        nested.services[0].endpoint = LinkEndpoint::Services(Box::new(inner));
        assert!(error(nested).contains("services within a service"));
    }
}
