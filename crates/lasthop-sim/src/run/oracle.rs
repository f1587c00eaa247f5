//! The fair share of a path, used by transports with an ideal estimate.

use super::plan::{Hop, Plan};
use crate::scenario::{Direction, Flow, Scenario};
use crate::transport::Sizes;
use lasthop_base::units::{Duration, Rate};

/// Returns the fair share of flow `index` on its path among all flows with streams, as payload
/// rate, and its round-trip time without queueing, for packets of these sizes. `None` if all links
/// of the path have an unlimited rate.
pub(super) fn share(
    sizes: Sizes,
    scenario: &Scenario,
    plan: &Plan,
    index: usize,
) -> Option<(Rate, Duration)> {
    let direction = |&(link, is_forward): &Hop| -> &Direction {
        let link = &scenario.links[link];
        if is_forward { &link.forward } else { &link.reverse }
    };
    let [there, back] = plan.routes(index);
    let [payload, data, ack] = [sizes.payload, sizes.data, sizes.ack].map(|size| size.get() as f64);
    let frame = |hop: &Hop, bytes: f64| bytes + scenario.links[hop.0].header.get() as f64;
    // The share of a link: it is divided among the flows with streams that send data in this
    // direction.
    let share = |hop: &Hop| {
        let crosses = |(index, flow): &(usize, &Flow)| {
            flow.app.packet().is_none() && plan.routes(*index)[0].contains(hop)
        };
        let flows = scenario.flows.iter().enumerate().filter(crosses).count();
        let efficiency = payload / frame(hop, data);
        direction(hop).rate.as_bps() as f64 * efficiency / flows.max(1) as f64
    };
    let finite = |hop: &&Hop| !direction(hop).rate.is_unlimited();
    let bandwidth = there.iter().filter(finite).map(share).fold(f64::INFINITY, f64::min);
    let seconds = |hop: &Hop, bytes: f64| {
        let direction = direction(hop);
        let on_air = 8.0 * frame(hop, bytes) / direction.rate.as_bps() as f64;
        direction.delay.as_secs_f64() + on_air
    };
    let round_trip: f64 = there.iter().map(|hop| seconds(hop, data)).sum::<f64>()
        + back.iter().map(|hop| seconds(hop, ack)).sum::<f64>();
    bandwidth.is_finite().then(|| {
        (Rate::from_bps(bandwidth as u64), Duration::from_nanos((round_trip * 1e9) as u64))
    })
}
