//! Link protocols of other crates: endpoints behind a trait object, with their own frame kinds.
//!
//! A protocol of this crate is dispatched statically, and its frames are [`FrameKind`]s. A protocol
//! of another crate implements [`Endpoint`] with any [`Control`](super::Control), and
//! [`OwnProtocol`]. [`Own`] represents it in a scenario, [`OwnEndpoint`] on a link. Each call is
//! dispatched dynamically once; other protocols have no overhead.

use super::{
    CarriesFrames, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint, LinkError,
    ReportsDelivery,
};
use super::{LinkEvent, Site};
use lasthop_base::packet::{Descriptor, Payload, TcpOptions, Watched};
use lasthop_base::units::{Bytes, Instant};
use std::any::Any;
use std::fmt::{Debug, Formatter, Result as Formatted};
use std::sync::Arc;

/// An endpoint of any type, whose frames media see as [`FrameKind::Other`].
trait AnyEndpoint<P: Payload>: Debug + Send + Sync {
    fn copy(&self) -> Box<dyn AnyEndpoint<P>>;
    fn wants_packet(&self) -> bool;
    fn enqueue(&mut self, now: Instant, packet: P);
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>>;
    fn has_frame(&self) -> bool;
    fn receive(&mut self, now: Instant, frame: Frame<P>);
    fn poll_deliver(&mut self) -> Option<P>;
    fn poll_event(&mut self) -> Option<LinkEvent>;
    fn next_timeout(&self) -> Instant;
    fn handle_timeout(&mut self, now: Instant);
    fn counters(&self) -> LinkCounters;
    fn limit_transmissions(&mut self, limit: Option<u32>);
    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>>;
}

impl<P: Payload, E: Endpoint<P> + Clone + Debug + Send + Sync + 'static> AnyEndpoint<P> for E {
    fn copy(&self) -> Box<dyn AnyEndpoint<P>> {
        Box::new(self.clone())
    }

    fn wants_packet(&self) -> bool {
        Endpoint::wants_packet(self)
    }

    fn enqueue(&mut self, now: Instant, packet: P) {
        Endpoint::enqueue(self, now, packet);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        Endpoint::poll_transmit(self, now).map(Frame::on_air)
    }

    fn has_frame(&self) -> bool {
        Endpoint::has_frame(self)
    }

    /// Drops frames of another kind.
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        if let Some(frame) = Frame::from_air(frame) {
            Endpoint::receive(self, now, frame);
        }
    }

    fn poll_deliver(&mut self) -> Option<P> {
        Endpoint::poll_deliver(self)
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        Endpoint::poll_event(self)
    }

    fn next_timeout(&self) -> Instant {
        Endpoint::next_timeout(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Endpoint::handle_timeout(self, now);
    }

    fn counters(&self) -> LinkCounters {
        Endpoint::counters(self)
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        Endpoint::limit_transmissions(self, limit);
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        Endpoint::delivery_reports(self)
    }
}

/// The endpoint of a protocol of another crate.
#[derive(Debug)]
pub struct OwnEndpoint<P>(Box<dyn AnyEndpoint<P>>);

impl<P: Payload> OwnEndpoint<P> {
    /// Wraps an endpoint of any type.
    pub fn new(endpoint: impl Endpoint<P> + Clone + Debug + Send + Sync + 'static) -> Self {
        OwnEndpoint(Box::new(endpoint))
    }
}

impl<P: Payload> Clone for OwnEndpoint<P> {
    fn clone(&self) -> Self {
        OwnEndpoint(self.0.copy())
    }
}

/// Not inlined, like the endpoint of services.
impl<P: Payload> Endpoint<P> for OwnEndpoint<P> {
    type Control = FrameKind;

    #[inline(never)]
    fn wants_packet(&self) -> bool {
        self.0.wants_packet()
    }

    #[inline(never)]
    fn enqueue(&mut self, now: Instant, packet: P) {
        self.0.enqueue(now, packet);
    }

    #[inline(never)]
    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        self.0.poll_transmit(now)
    }

    #[inline(never)]
    fn has_frame(&self) -> bool {
        self.0.has_frame()
    }

    #[inline(never)]
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        self.0.receive(now, frame);
    }

    #[inline(never)]
    fn poll_deliver(&mut self) -> Option<P> {
        self.0.poll_deliver()
    }

    #[inline(never)]
    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.0.poll_event()
    }

    #[inline(never)]
    fn next_timeout(&self) -> Instant {
        self.0.next_timeout()
    }

    #[inline(never)]
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn counters(&self) -> LinkCounters {
        self.0.counters()
    }

    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.0.limit_transmissions(limit);
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        self.0.delivery_reports()
    }
}

/// A link protocol of another crate: its name, and the construction of its endpoints.
pub trait OwnProtocol: Debug + Send + Sync + 'static {
    /// One end of a link.
    type Endpoint<P: CarriesFrames + Debug + Send + Sync + 'static>: Endpoint<P>
        + Clone
        + Debug
        + Send
        + Sync
        + 'static;

    /// Returns the name of the protocol.
    fn name(&self) -> &'static str;

    /// Returns the length of the header of a data frame.
    fn header(&self) -> Bytes;

    /// Builds the endpoint at `site`.
    ///
    /// # Errors
    /// Returns an error if the parameters are inconsistent or do not fit the link.
    fn build<P: CarriesFrames + Debug + Send + Sync + 'static>(
        &self,
        site: &Site,
    ) -> Result<Self::Endpoint<P>, LinkError>;
}

/// A protocol of any type, for each packet type of the simulator.
trait AnyProtocol: Debug + Send + Sync {
    fn name(&self) -> &'static str;
    fn header(&self) -> Bytes;
    fn plain(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<()>>, LinkError>;
    fn with_options(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<TcpOptions>>, LinkError>;
    fn watched(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<Watched>>, LinkError>;
}

impl<T: OwnProtocol> AnyProtocol for T {
    fn name(&self) -> &'static str {
        OwnProtocol::name(self)
    }

    fn header(&self) -> Bytes {
        OwnProtocol::header(self)
    }

    fn plain(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<()>>, LinkError> {
        self.build(site).map(|end| LinkEndpoint::Own(OwnEndpoint::new(end)))
    }

    fn with_options(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<TcpOptions>>, LinkError> {
        self.build(site).map(|end| LinkEndpoint::Own(OwnEndpoint::new(end)))
    }

    fn watched(&self, site: &Site) -> Result<LinkEndpoint<Descriptor<Watched>>, LinkError> {
        self.build(site).map(|end| LinkEndpoint::Own(OwnEndpoint::new(end)))
    }
}

/// A link protocol of another crate, as part of a scenario. Two values are equal if they are clones
/// of one [`Own::new`].
#[derive(Clone)]
pub struct Own(Arc<dyn AnyProtocol>);

impl Own {
    /// Wraps a protocol of any type.
    pub fn new(protocol: impl OwnProtocol) -> Self {
        Own(Arc::new(protocol))
    }

    /// Returns the name of the protocol.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// Returns the length of the header of a data frame.
    pub fn header(&self) -> Bytes {
        self.0.header()
    }

    /// Builds the endpoint at `site`, for packets of the simulator.
    ///
    /// # Errors
    /// Returns an error if the parameters are inconsistent or do not fit the link.
    ///
    /// # Panics
    /// Panics if `P` is not a packet descriptor.
    pub fn build<P: CarriesFrames + 'static>(
        &self,
        site: &Site,
    ) -> Result<LinkEndpoint<P>, LinkError> {
        let site = &Site { header: self.0.header(), ..*site };
        let ends: [Box<dyn Any>; 3] = [
            Box::new(self.0.plain(site)?),
            Box::new(self.0.with_options(site)?),
            Box::new(self.0.watched(site)?),
        ];
        let end = ends.into_iter().find_map(|end| end.downcast::<LinkEndpoint<P>>().ok());
        Ok(*end.expect("a simulation has packets of these three types"))
    }
}

impl Debug for Own {
    fn fmt(&self, f: &mut Formatter<'_>) -> Formatted {
        self.0.fmt(f)
    }
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
