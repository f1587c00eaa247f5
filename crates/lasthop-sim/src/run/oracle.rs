//! What a TCP with the ideal bandwidth estimate is told of its path.

use super::plan::{Hop, Plan};
use crate::scenario::{Direction, Flow, Scenario, Transport};
use lasthop_base::units::{Duration, Rate};
use lasthop_tcp::Config;
use lasthop_tcp::law::LawKind;

/// The parameters of the TCP of flow `index`, with what the links of the scenario tell where its law asks for the ideal
/// bandwidth and was not given it.
pub(super) fn tell(config: Config, scenario: &Scenario, plan: &Plan, index: usize) -> Config {
    let LawKind::IdealBandwidth(mut keys) = config.law else { return config };
    let direction = |&(link, is_forward): &Hop| -> &Direction {
        let link = &scenario.links[link];
        if is_forward { &link.forward } else { &link.reverse }
    };
    let [there, back] = plan.routes(index);
    let payload = config.segment.get() as f64;
    let (data, ack) = (config.wire_bytes(config.segment.get() as u32, 0), config.wire_bytes(0, 0));
    let frame = |hop: &Hop, bytes: u32| bytes as f64 + scenario.links[hop.0].header.get() as f64;
    let is_tcp = |flow: &Flow| matches!(flow.transport, Transport::Tcp(_));
    // The share of a link: TCP flows that send data over it the same way.
    let share = |hop: &Hop| {
        let crosses =
            |(index, flow): &(usize, &Flow)| is_tcp(flow) && plan.routes(*index)[0].contains(hop);
        let flows = scenario.flows.iter().enumerate().filter(crosses).count();
        let efficiency = payload / frame(hop, data);
        direction(hop).rate.as_bps() as f64 * efficiency / flows.max(1) as f64
    };
    let finite = |hop: &&Hop| !direction(hop).rate.is_unlimited();
    let bandwidth = there.iter().filter(finite).map(share).fold(f64::INFINITY, f64::min);
    let seconds = |hop: &Hop, bytes: u32| {
        let direction = direction(hop);
        let on_air = 8.0 * frame(hop, bytes) / direction.rate.as_bps() as f64;
        direction.delay.as_secs_f64() + on_air
    };
    let round_trip: f64 = there.iter().map(|hop| seconds(hop, data)).sum::<f64>()
        + back.iter().map(|hop| seconds(hop, ack)).sum::<f64>();
    if bandwidth.is_finite() {
        keys.bandwidth.get_or_insert(Rate::from_bps(bandwidth as u64));
        keys.round_trip.get_or_insert(Duration::from_nanos((round_trip * 1e9) as u64));
    }
    Config { law: LawKind::IdealBandwidth(keys), ..config }
}
