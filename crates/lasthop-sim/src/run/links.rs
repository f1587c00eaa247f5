//! Builds link endpoints with several services.

use crate::scenario;
use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration};
use lasthop_link::link::{
    CarriesFrames, LinkEndpoint, LinkError, ServiceParameters, Services, ServicesParameters, Site,
    airtime,
};
use lasthop_link::queue::QueueSite;
use std::num::NonZeroU32;

/// Maximum of the timers, 11 days in ns: a service with a tiny weight on a slow link could wait
/// forever.
const LONGEST_TURN: u128 = 1_000_000_000_000_000;

/// Builds the endpoint of a link with several services that transmits on `own`. `sites` contains
/// the properties of the link for each service, with packets of length 0 for unused services. The
/// random numbers of the queues come from `component`, with the name of the service appended. `measures`: whether
/// the queues measure their delays.
pub fn services<P: CarriesFrames>(
    set: &scenario::Services,
    own: &scenario::Direction,
    sites: &[Site],
    (streams, component): (&Streams, String),
    measures: bool,
) -> Result<LinkEndpoint<P>, LinkError> {
    let frame = |index: usize| {
        let service: &scenario::Service = &set.services[index];
        Bytes::new(sites[index].packet.get() + service.header.get() + set.identifier.get())
    };
    let used = || (0..set.services.len()).filter(|&index| sites[index].packet > Bytes::default());
    let weights: u64 = used().map(|index| u64::from(set.services[index].weight)).sum();
    let service = |(index, service): (usize, &scenario::Service)| {
        // With fair queueing a frame waits for its service's turn, which is the time of one frame
        // at the service's share of the rate, and for one frame of each other service.
        let weight = u64::from(service.weight);
        let others = u128::from(weights.saturating_sub(weight));
        let waits = |rate| {
            let own_frame = airtime(frame(index), rate).as_nanos();
            let turn = u128::from(own_frame) * others / u128::from(weight);
            let turn = Duration::from_nanos(turn.min(LONGEST_TURN) as u64);
            let busy = used().filter(|&other| other != index);
            (turn, busy.map(|busy| airtime(frame(busy), rate)).fold(turn, |a, b| a + b))
        };
        let (turn, wait) = waits(sites[index].other.rate);
        let (_, own_wait) = waits(sites[index].own.rate);
        let (header, identifier) = (service.header, set.identifier);
        let site = Site { header, identifier, wait, own_wait, turn, ..sites[index] };
        Ok(ServiceParameters {
            endpoint: service.protocol.build(&site)?,
            weight: NonZeroU32::new(service.weight).unwrap_or(NonZeroU32::MIN),
            queue: {
                let discipline = service.queue.as_ref().map_or(&own.queue, |queue| &queue.0);
                let site = QueueSite {
                    streams,
                    component: &format!("{component}.{}", service.name),
                    header: Bytes::new(header.get() + identifier.get()),
                    packet: sites[index].packet,
                };
                if measures { discipline.build_measured(&site) } else { discipline.build(&site) }
            },
        })
    };
    let parameters = ServicesParameters {
        services: set.services.iter().enumerate().map(service).collect::<Result<_, _>>()?,
        classes: Vec::new(),
        identifier: set.identifier,
        rate: own.rate,
        measure: set.measure,
    };
    Ok(LinkEndpoint::Services(Box::new(Services::new(parameters)?)))
}
