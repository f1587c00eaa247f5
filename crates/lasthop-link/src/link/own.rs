//! Link protocols of other crates: endpoints behind a trait object, with their own frame kinds.
//!
//! A protocol of this crate is dispatched statically, and its frames are [`FrameKind`]s. A protocol
//! of another crate implements [`Endpoint`] with any [`Control`](super::Control),
//! [`Abilities`], and [`OwnProtocol`]. [`Own`] represents it in a scenario, [`OwnEndpoint`] on a link. Each call is
//! dispatched dynamically once; other protocols have no overhead.

use super::{
    Abilities, CarriesFrames, Driven, Endpoint, Frame, FrameKind, LinkCounters, LinkEndpoint,
    LinkError, ReportsDelivery,
};
use super::{LinkEvent, Site};
use lasthop_base::packet::{Descriptor, Payload, TcpOptions, Watched};
use lasthop_base::units::{Bytes, Instant};
use std::any::Any;
use std::fmt::{Debug, Formatter, Result as Formatted};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// An endpoint of any type, behind a trait object.
pub trait AnyEndpoint<P: Payload>:
    Endpoint<P, Control = FrameKind> + Abilities<P> + Debug + Send + Sync
{
    /// Returns a copy.
    fn copy(&self) -> Box<dyn AnyEndpoint<P>>;
}

impl<P: Payload> Driven<P> for dyn AnyEndpoint<P> {}

/// An endpoint whose frames media see as [`FrameKind::Other`].
#[derive(Clone, Debug)]
struct OnAir<E>(E);

impl<P: Payload, E: Endpoint<P>> Endpoint<P> for OnAir<E> {
    type Control = FrameKind;

    fn wants_packet(&self) -> bool {
        self.0.wants_packet()
    }

    fn enqueue(&mut self, now: Instant, packet: P) {
        self.0.enqueue(now, packet);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Frame<P>> {
        self.0.poll_transmit(now).map(Frame::on_air)
    }

    fn has_frame(&self) -> bool {
        self.0.has_frame()
    }

    /// Drops frames of another kind.
    fn receive(&mut self, now: Instant, frame: Frame<P>) {
        if let Some(frame) = Frame::from_air(frame) {
            self.0.receive(now, frame);
        }
    }

    fn poll_deliver(&mut self) -> Option<P> {
        self.0.poll_deliver()
    }

    fn poll_event(&mut self) -> Option<LinkEvent> {
        self.0.poll_event()
    }

    fn next_timeout(&self) -> Instant {
        self.0.next_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }

    fn counters(&self) -> LinkCounters {
        self.0.counters()
    }
}

impl<P: Payload, E: Abilities<P>> Abilities<P> for OnAir<E> {
    fn limit_transmissions(&mut self, limit: Option<u32>) {
        self.0.limit_transmissions(limit);
    }

    fn delivery_reports(&mut self) -> Option<&mut dyn ReportsDelivery<P>> {
        self.0.delivery_reports()
    }
}

impl<P: Payload, E: Abilities<P> + Clone + Debug + Send + Sync + 'static> AnyEndpoint<P>
    for OnAir<E>
{
    fn copy(&self) -> Box<dyn AnyEndpoint<P>> {
        Box::new(self.clone())
    }
}

/// The endpoint of a protocol of another crate.
#[derive(Debug)]
pub struct OwnEndpoint<P>(Box<dyn AnyEndpoint<P>>);

impl<P: Payload> OwnEndpoint<P> {
    /// Wraps an endpoint of any type.
    pub fn new(endpoint: impl Abilities<P> + Clone + Debug + Send + Sync + 'static) -> Self {
        OwnEndpoint(Box::new(OnAir(endpoint)))
    }
}

impl<P: Payload> Clone for OwnEndpoint<P> {
    fn clone(&self) -> Self {
        OwnEndpoint(self.0.copy())
    }
}

impl<P: Payload> Deref for OwnEndpoint<P> {
    type Target = dyn AnyEndpoint<P>;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl<P: Payload> DerefMut for OwnEndpoint<P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// A link protocol of another crate: its name, and the construction of its endpoints.
pub trait OwnProtocol: Debug + Send + Sync + 'static {
    /// One end of a link.
    type Endpoint<P: CarriesFrames + Debug + Send + Sync + 'static>: Abilities<P>
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
