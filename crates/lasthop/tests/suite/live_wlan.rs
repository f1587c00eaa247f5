//! Live WLANs without devices: the media of a scenario with real packets and a simulated clock.

use lasthop::live::change::Change;
use lasthop::live::{Network, Side};
use lasthop::medium::phy::qos::AccessCategory;
use lasthop::packet::Payload;
use lasthop::rng::Streams;
use lasthop::run::{Options, run, wlan_media};
use lasthop::scenario::Scenario;
use lasthop::units::{Bytes, Instant};
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;

const STREAMS: Streams = Streams { seed: 5, replication: 3 };

/// A WLAN with two stations: packets of 1000 B every 400 us to `phone` and from `laptop`.
fn text(keys: &str) -> String {
    let app = r#"{ kind = "on-off", rate = "20 Mbps", on = "100 s", off = "0 s", packet = "1000 B", replay = "per-packet" }"#;
    format!(
        r#"
name = "live"
[wlan.cell]
access_point = "ap"
stations = ["phone", "laptop"]
errors = {{ kind = "uniform", loss = "5 %" }}
{keys}
[flow.down]
from = "ap"
to = "phone"
transport = {{ kind = "udp" }}
app = {app}
[flow.up]
from = "laptop"
to = "ap"
transport = {{ kind = "udp" }}
app = {app}
[run]
duration = "999800 us"
seed = 5
"#
    )
}

fn scenario(keys: &str) -> Scenario {
    let document = Scenario::from_toml(&text(keys), Path::new(".")).expect("a scenario");
    document.points().expect("points").remove(0).scenario
}

/// Returns a UDP packet of 1000 bytes with a number and a DSCP.
fn packet(number: u32, dscp: u8) -> Vec<u8> {
    let mut packet = vec![0x45, dscp << 2];
    packet.extend(1000u16.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 71, 0, 1, 10, 71, 0, 2]);
    // All packets have the same ports, and thus belong to one flow.
    packet.extend([0, 9, 0, 9, 3, 212, 0, 0]);
    packet.extend(number.to_be_bytes());
    packet.resize(1000, number as u8);
    packet
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn metrics(network: &Network, scenario: &Scenario) -> HashMap<String, f64> {
    let mut all = HashMap::new();
    network.metrics(scenario, &mut |entity, metric, value| {
        all.insert(format!("{entity}.{metric}"), value.value());
    });
    all
}

/// Keys of WLANs: an old and a new standard, access categories with a fair queue for each station, and rate control
/// whose slow modes end at times at which packets arrive.
const KINDS: [&str; 4] = [
    "standard = \"802.11b\"",
    "standard = \"802.11ax\"\nmcs = 3",
    "standard = \"802.11n\"\nmcs = 5\nedca = true\nscheduler = \"airtime\"\nqueue = { kind = \"fq-codel\" }",
    "standard = \"802.11ac\"\nrate_control = \"minstrel-ht\"",
];

/// Equal arrivals cause equal losses, frames and delays as in the simulator.
#[test]
fn a_live_wlan_does_what_the_simulator_does() {
    for keys in KINDS {
        let scenario = scenario(keys);
        let options = Options { replications: 1, first_replication: 3, seed: 5, jobs: 1 };
        let points = [scenario.clone()];
        let simulated = run(&points, &options, &mut |_| true).expect("a run");
        let mut network = Network::new(&scenario, STREAMS, Some(1000)).expect("a network");
        for number in 1..2_500 {
            let now = at(number * 400);
            for (link, side) in [(0, Side::Reverse), (1, Side::Forward)] {
                assert!(network.input(now, link, side, packet(number as u32, 0)));
            }
        }
        network.advance(at(999_800));
        let live = metrics(&network, &scenario);
        let mut compared = 0;
        for (name, value) in simulated.metrics.iter().zip(&simulated.rows[0].values) {
            let Some(own) = live.get(name) else { continue };
            let same = own == value || own.is_nan() && value.is_nan();
            assert!(same, "{keys}: {name}: live {own}, simulated {value}");
            compared += 1;
        }
        assert!(compared >= 60, "{keys}: {compared} metrics in common");
        for (name, flow) in [("phone.reverse", "down"), ("laptop.forward", "up")] {
            let live = live[&format!("link.cell.{name}.packets_delivered")];
            let metric = format!("flow.{flow}.packets_delivered");
            let place = simulated.metrics.iter().position(|known| *known == metric);
            assert_eq!(live, simulated.rows[0].values[place.expect("a metric")], "{keys}: {name}");
            assert!(live > 100.0, "{keys}: {live}");
        }
    }
}

/// Wakes between deadlines change nothing, delivered bytes are those that were sent, and packets that are in
/// transit at the end are delivered later.
#[test]
fn late_wakes_change_nothing_and_bytes_are_unharmed() {
    let scenario = scenario(KINDS[1]);
    let drive = |wakes: bool| {
        let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
        let mut draws = STREAMS.stream("test", "wakes");
        for number in 0..500u32 {
            let now = u64::from(number) * 150;
            if wakes {
                network.advance(at(now.saturating_sub(draws.bits() % 150)));
            }
            assert!(network.input(at(now), 0, Side::Reverse, packet(number, 0)));
        }
        let in_transit = network.in_transit()[0][Side::Reverse as usize];
        let mut out: Vec<_> = std::iter::from_fn(|| network.poll_delivery()).collect();
        let before = out.len() as u64;
        network.advance(at(10_000_000));
        assert!(network.is_idle());
        out.extend(std::iter::from_fn(|| network.poll_delivery()));
        assert_eq!(out.len() as u64, before + in_transit);
        (out, in_transit)
    };
    let (out, in_transit) = drive(false);
    assert_eq!((out.clone(), in_transit), drive(true));
    assert!(in_transit > 0);
    assert_eq!(out.len(), 500);
    for (number, delivery) in (0..).zip(&out) {
        assert_eq!((delivery.link, delivery.side), (0, Side::Forward));
        assert_eq!(delivery.packet, packet(number, 0));
    }
}

/// With access categories, a packet with the DSCP EF (46) overtakes those that wait as best effort.
#[test]
fn the_code_point_of_a_packet_determines_its_category() {
    for (edca, first) in [("true", 64), ("false", 200)] {
        let scenario = scenario(&format!("standard = \"802.11n\"\nmcs = 0\nedca = {edca}"));
        let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
        for number in 0..200 {
            assert!(network.input(at(1), 0, Side::Reverse, packet(number, 0)));
        }
        assert!(network.input(at(2), 0, Side::Reverse, packet(200, 46)));
        network.advance(at(10_000_000));
        let out: Vec<_> = std::iter::from_fn(|| network.poll_delivery()).collect();
        let place = out.iter().position(|one| one.packet == packet(200, 46)).expect("delivered");
        assert!(if edca == "true" { place < first } else { place == first }, "{edca}: {place}");
    }
}

#[test]
fn what_a_live_wlan_does_not_support_is_refused_by_name() {
    let with_agent = scenario("standard = \"802.11ax\"\nagent = { kind = \"snoop\", at = \"ap\" }");
    let refused = Network::new(&with_agent, STREAMS, None).expect_err("an agent");
    assert_eq!(refused.key, "link.cell.phone.agent");
    let mut scenario = scenario("standard = \"802.11ax\"");
    let mut network = Network::new(&scenario, STREAMS, None).expect("a network");
    let down = r#"{"pause_ns": 1000, "link": "cell.phone"}"#;
    let down = Change::read(down, Path::new("."), &scenario).expect("a change");
    let refused = network.change(at(1), &down, &mut scenario, STREAMS).expect_err("a WLAN");
    assert_eq!(refused.key, "link.cell.phone");
    let other = text("standard = \"802.11ax\"\nmcs = 3");
    let document = Scenario::from_toml(&other, Path::new(".")).expect("a scenario");
    let other = document.points().expect("points").remove(0).scenario;
    let change = Change::Scenario(Box::new(other));
    let refused = network.change(at(2), &change, &mut scenario, STREAMS).expect_err("a WLAN");
    assert_eq!(refused.key, "wlan");
}

thread_local! {
    static COPIES: Cell<u64> = const { Cell::new(0) };
}

/// A packet of 1000 bytes that counts its copies.
#[derive(Debug)]
struct Counted;

impl Clone for Counted {
    fn clone(&self) -> Self {
        COPIES.set(COPIES.get() + 1);
        Counted
    }
}

impl Payload for Counted {
    fn wire_bytes(&self) -> u32 {
        1000
    }

    fn xor(&mut self, _: &Self) {}

    fn truncate(&mut self, _: u32) {}

    fn slice(&self, _: u32, _: u32) -> Self {
        Counted
    }

    fn append(&mut self, _: &Self) {}
}

/// The sender keeps a packet until it is acknowledged, and the receiver has a copy: the only one.
#[test]
fn a_medium_copies_a_packet_once() {
    for keys in ["standard = \"802.11b\"", "standard = \"802.11ax\"\nmcs = 3"] {
        let text = text(keys).replace("5 %", "0 %");
        let document = Scenario::from_toml(&text, Path::new(".")).expect("a scenario");
        let scenario = document.points().expect("points").remove(0).scenario;
        let sizes = [Bytes::new(1000); 2];
        let best_effort = |_: &_| vec![AccessCategory::BestEffort];
        let (mut media, places) =
            wlan_media::<Counted>(&scenario, &STREAMS, &sizes, best_effort).expect("media");
        let place = places[0].as_ref().expect("a link of the WLAN");
        let medium = &mut media[place.medium].medium;
        let before = COPIES.get();
        for _ in 0..40 {
            assert!(medium.enqueue(at(1), place.pairs[0][0], Counted));
        }
        assert_eq!(COPIES.get(), before, "{keys}: in the queue");
        while medium.next_timeout() < Instant::NEVER {
            medium.handle_timeout(medium.next_timeout());
        }
        let delivered = std::iter::from_fn(|| medium.poll_deliver()).count() as u64;
        assert_eq!((delivered, COPIES.get() - before), (40, 40), "{keys}");
    }
}
