//! The resolved scenario: all defaults, routes, the parameters of each TCP, and the values of
//! "auto" timers. Used to compare results with analytical models.

use super::RunError;
use super::plan::{Hop, Plan};
use crate::app::mah::Empirical;
use crate::scenario::{
    Access, Direction, Discipline, Errors, Flow, Layers, Link, LinkProtocol, QueueLimit, Scenario,
    Wlan,
};
use lasthop_base::packet::Packet;
use lasthop_base::schema::numbers::{numbers, seconds};
use lasthop_base::schema::shorthand::Shorthand;
use lasthop_base::units::Bytes;
use lasthop_link::link::{Abilities, LinkError, Protocol, Site};
use lasthop_wlan::dcf::Timing;
use lasthop_wlan::phy::qos::AccessCategory;
use serde_json::{Value, json};

/// Returns the resolved scenario as JSON. Times are in seconds, rates in bit/s, sizes in bytes.
///
/// - `run`: as in a scenario file
/// - `radios`, by name: as in a scenario file
/// - `wlans`, by name: as in a scenario file, with the values of the standard for missing keys,
///   `difs` and `eifs`, whether slot and SIFS are those of the standard (`has_standard_times`), and
///   with EDCA the `categories` in use, by name: `aifs`, `cw_min`, `cw_max`, `txop_limit`
/// - `links`, by name: `between`; `header`; `mtu`, null if any packet fits; `control`, the length
///   of control frames (null if the protocol has no separate ones, and with services); `protocol`,
///   as in a scenario file, with the derived lengths of control frames; `agents`, their kinds;
///   `forward` and `reverse`, see below; `radio` (null without a radio), the `frame`, `uplink`,
///   `downlink` and `delay` of the radio whose slots the link shares; `wlan`, the name of its WLAN
///   or null; `frame_overhead`, on a WLAN the air time of the largest frame beyond its bits at the
///   rate: preamble, padding to symbols, signal extension (otherwise null)
/// - `forward` and `reverse` of a link: `rate` (the mean of a time-varying rate); `rate_changes`,
///   as in a scenario file or null; `delay` and `delay_changes` in the same way; `delays`, the
///   minimum and the maximum; `queue` (`packets` or `bytes` of drop-tail, otherwise its `kind` and
///   keys); `errors`; `recorded_frames` of a recorded trace or null; `largest_packet` of all flows
///   over the link; `timeout` of the sender (null if the protocol has none, and with services);
///   `window` of the sender in frames and `round_trip`, from the start of a frame of maximum length
///   to the end of its acknowledgment (null if the protocol has no window, on radios and with
///   services); `layers` of stacked layers (otherwise null), the upper one first: `name`, the
///   `largest_packet` and `largest_frame` in bytes, `timeout` and `window` of the sender
/// - `flows`, by name: `from`, `to`, `start`, `service`; `category`, the access category (null
///   without EDCA); `app`; `tcp` (null for UDP); `packets`,
///   the maximum lengths from `from` to `to` and back; `route` and `back`, lists of link, direction
///   and the service that the flow uses there, or null
/// - `windows`, by name: `from`, and `to` unless it is the end of the run
///
/// # Errors
/// If a link rejects its parameters.
///
/// ```
/// use lasthop_sim::run::resolved;
/// use lasthop_sim::scenario::Scenario;
/// use std::path::Path;
///
/// # let text = r#"
/// # name = "first"
/// # [link.air]
/// # between = ["server", "client"]
/// # rate = "2 Mbps"
/// # delay = "20 ms"
/// # errors = { kind = "uniform", loss = "1 %" }
/// # [flow.f]
/// # from = "server"
/// # to = "client"
/// # transport = { kind = "tcp", variant = "newreno" }
/// # app = { kind = "file", size = "20 kB" }
/// # "#;
/// let scenario = Scenario::from_toml(text, Path::new("."))?.points()?.remove(0).scenario;
/// let found = resolved(&scenario)?;
/// assert_eq!(found["links"]["air"]["forward"]["rate"], 2e6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn resolved(scenario: &Scenario) -> Result<Value, RunError> {
    let plan = Plan::new(scenario);
    let links = scenario
        .links
        .iter()
        .enumerate()
        .map(|(index, one)| Ok((one.name.clone(), link(scenario, &plan, index, one)?)));
    let links: serde_json::Map<String, Value> = links.collect::<Result<_, RunError>>()?;
    let flows = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, one)| (one.name.clone(), flow(scenario, plan.routes(index), one)));
    let flows: serde_json::Map<String, Value> = flows.collect();
    Ok(json!({
        "name": scenario.name,
        "run": numbers(&scenario.run),
        "radios": numbers(&scenario.radios),
        "wlans": scenario.wlans.iter().map(|one| wlan(scenario, one)).collect::<serde_json::Map<_, _>>(),
        "links": links,
        "flows": flows,
        "windows": numbers(&scenario.windows),
    }))
}

/// A WLAN in numbers, with the values of the standard for missing keys.
fn wlan(scenario: &Scenario, wlan: &Wlan) -> (String, Value) {
    let Timing { slot, sifs, cw_min, cw_max, response_timeout, .. } = wlan.timing();
    let (difs, eifs) = (wlan.timing().difs(), wlan.timing().eifs());
    let mut value = numbers(&vec![wlan.clone()])[&wlan.name].take();
    let rate = wlan.rate(None);
    value["rate"] = rate.as_bps().into();
    value["control_rate"] = wlan.control_rate(rate).as_bps().into();
    value["channel"] = wlan.channel().into();
    let keys = &wlan.keys;
    value["has_standard_times"] = (keys.slot.is_none() && keys.sifs.is_none()).into();
    (value["cw_min"], value["cw_max"]) = (cw_min.into(), cw_max.into());
    let times = [
        ("slot", slot),
        ("sifs", sifs),
        ("difs", difs),
        ("eifs", eifs),
        ("response_timeout", response_timeout),
    ];
    for (key, time) in times {
        value[key] = seconds(time).into();
    }
    if wlan.has_categories() {
        let category = |category: AccessCategory| {
            let Access { aifsn, cw_min, cw_max, txop_limit } = wlan.access(category);
            let (aifs, txop_limit) = (seconds(sifs + slot * u64::from(aifsn)), seconds(txop_limit));
            let own = json!({
                "aifs": aifs, "cw_min": cw_min, "cw_max": cw_max, "txop_limit": txop_limit,
            });
            (category.word().to_owned(), own)
        };
        let used = scenario.categories(wlan).into_iter().map(category);
        value["categories"] = used.collect::<serde_json::Map<_, _>>().into();
    }
    (wlan.name.clone(), value)
}

fn link(scenario: &Scenario, plan: &Plan, index: usize, link: &Link) -> Result<Value, RunError> {
    let side = |own: &Direction, is_forward: bool| {
        let (timeout, window, round_trip) = match &link.protocol {
            LinkProtocol::One(protocol) => {
                let site = plan.site(scenario, (index, is_forward), None);
                let end = protocol.build::<Packet>(&site);
                let end = end.map_err(|error| RunError::Link { link: link.name.clone(), error })?;
                // On a framed radio, acknowledgments wait for slots.
                let window = end.window().filter(|_| link.radio.is_none());
                let control = protocol.control().unwrap_or_default();
                let trip = window.map(|_| seconds(site.timing(control).round_trip()));
                (end.retransmission_timeout().map(seconds), window, trip)
            }
            _ => (None, None, None),
        };
        let site = plan.site(scenario, (index, is_forward), None);
        let layers = link.protocol.layers().map(|layers| self::layers(layers, &site)).transpose();
        let layers = layers.map_err(|error| RunError::Link { link: link.name.clone(), error })?;
        Ok::<_, RunError>(json!({
            "rate": own.rate.as_bps(),
            "rate_changes": own.rate_changes.as_ref().map(numbers),
            "delay": seconds(own.delay),
            "delay_changes": own.delay_changes.as_ref().map(numbers),
            "delays": own.delays().map(seconds),
            "queue": queue(&own.queue),
            "errors": numbers(&own.errors),
            "recorded_frames": match &own.errors {
                Errors::Trace(trace) => Some(trace.record.frames()),
                _ => None,
            },
            "largest_packet": plan.largest_packet(index).get(),
            "timeout": timeout,
            "window": window,
            "round_trip": round_trip,
            "layers": layers,
        }))
    };
    Ok(json!({
        "between": link.between,
        "header": link.header.get(),
        "mtu": link.mtu.map(|mtu| mtu.get()),
        "control": match &link.protocol {
            LinkProtocol::One(protocol) => protocol.control().map(|size| size.get()),
            _ => None,
        },
        "protocol": match link.wlan {
            // Its MAC is not a link protocol.
            Some(_) => json!({"kind": "dcf"}),
            None => protocol_numbers(&link.protocol),
        },
        "radio": link.radio.map(|radio| {
            let keys = &scenario.radios[radio].keys;
            json!({
                "frame": seconds(keys.frame),
                "uplink": keys.uplink,
                "downlink": keys.downlink,
                "delay": seconds(link.forward.delay),
            })
        }),
        "wlan": link.wlan.map(|wlan| scenario.wlans[wlan].name.as_str()),
        "frame_overhead": link.wlan.map(|wlan| {
            let frame = Bytes::new(plan.largest_packet(index).get() + link.header.get());
            let (wlan, station) = (&scenario.wlans[wlan], link.between[0].as_str());
            let bits = frame.bits() as f64 / wlan.rate(Some(station)).as_bps() as f64;
            seconds(wlan.frame_time(station, frame)) - bits
        }),
        "agents": link.agents.0.iter().map(crate::scenario::Agent::kind).collect::<Vec<_>>(),
        "forward": side(&link.forward, true)?,
        "reverse": side(&link.reverse, false)?,
    }))
}

/// Stacked layers at one end of a link.
fn layers(layers: &Layers, site: &Site) -> Result<Vec<Value>, LinkError> {
    let sites = layers.sites(site);
    let all = layers.protocols().iter().zip(layers.names()).zip(&sites);
    let layer = |((protocol, name), site): ((&Protocol, String), &Site)| {
        let end = protocol.build::<Packet>(site)?;
        Ok(json!({
            "name": name,
            "largest_packet": site.packet.get(),
            "largest_frame": protocol.largest_frame(site.packet, site.header).get(),
            "timeout": end.retransmission_timeout().map(seconds),
            "window": end.window(),
        }))
    };
    all.map(layer).collect()
}

/// A queue in numbers: `packets` or `bytes` of a drop-tail queue, the keys of other disciplines.
fn queue(discipline: &Discipline) -> Value {
    match discipline.to_short() {
        Some(QueueLimit::Packets(packets)) => json!({"packets": packets}),
        Some(QueueLimit::Bytes(bytes)) => json!({"bytes": bytes.get()}),
        None => numbers(discipline),
    }
}

/// The protocol of a link in numbers, with the derived lengths of control frames.
fn protocol_numbers(protocol: &LinkProtocol) -> Value {
    let mut value = match protocol {
        LinkProtocol::Stack(_) => json!({"kind": protocol.kind(), "layers": numbers(protocol)}),
        _ => numbers(protocol),
    };
    let fill = |place: &mut Value, protocol: &Protocol| {
        if let Some(control) = protocol.control() {
            place["control"] = control.get().into();
        }
    };
    match protocol {
        LinkProtocol::One(protocol) => fill(&mut value, protocol),
        LinkProtocol::Own(_) => {}
        LinkProtocol::Stack(layers) => {
            for (index, (layer, name)) in layers.protocols().iter().zip(layers.names()).enumerate()
            {
                let place = &mut value["layers"][index];
                fill(place, layer);
                place["name"] = name.into();
                place["header"] = layer.default_header().get().into();
            }
        }
        LinkProtocol::Services(set) => {
            for service in &set.services {
                fill(&mut value["service"][&service.name]["protocol"], &service.protocol);
            }
        }
    }
    value
}

/// The parameters of a flow's transport in numbers, if it is of this kind.
fn resolved_if(flow: &Flow, kind: &str) -> Value {
    if flow.transport.kind() == kind { flow.transport.resolved() } else { Value::Null }
}

fn flow(scenario: &Scenario, routes: &[Vec<Hop>; 2], flow: &Flow) -> Value {
    let route = |hops: &[Hop]| -> Vec<Value> {
        let side = |is_forward| if is_forward { "forward" } else { "reverse" };
        let service = |link: &Link| {
            let name = link.protocol.service_names().nth(link.protocol.service_of(flow));
            name.map(str::to_owned)
        };
        hops.iter()
            .map(|&(link, is_forward)| {
                let link = &scenario.links[link];
                json!([link.name, side(is_forward), service(link)])
            })
            .collect()
    };
    let mut app = numbers(&flow.app);
    if flow.app.kind() == "web" {
        app["mean_reply"] = Empirical::reply_length().mean().into();
    }
    json!({
        "from": flow.from,
        "to": flow.to,
        "start": seconds(flow.start),
        "start_spread": flow.start_spread.map(seconds),
        "stop": flow.stop.map(seconds),
        "service": flow.service,
        "category": scenario.wlans.iter().any(Wlan::has_categories).then(|| flow.category().word()),
        "app": app,
        "tcp": resolved_if(flow, "tcp"),
        "quic": resolved_if(flow, "quic"),
        "packets": flow.largest_packets().map(|packet| packet.get()),
        "route": route(&routes[0]),
        "back": route(&routes[1]),
    })
}
