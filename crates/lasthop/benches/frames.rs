//! Cost of a frame of a link protocol in the simulator: datagrams over consecutive links, in one direction.
//!
//! `cargo bench --bench frames`; `-- --once selective-repeat 64` runs one case and prints the number of frames
//! that its links have sent, by which `benches/instructions.py` divides the instructions. Sources,
//! queues and delivery are included. Every link is driven, also with protocol "raw".

use lasthop::app::{App, OnOffKeys, Replay, SourceSite};
use lasthop::channel::{Channel, Uniform};
use lasthop::link::{
    Harq, HarqParameters, LinkEndpoint, LinkTiming, Raw, SelectiveRepeat, SelectiveRepeatParameters,
};
use lasthop::packet::Descriptor;
use lasthop::queue::{Limit, Queue, Transmitter};
use lasthop::rng::{DurationDistribution, Streams};
use lasthop::sim::builder::{Builder, RoundTrip};
use lasthop::sim::direction::DirectionParameters;
use lasthop::sim::ids::{DirectionId, Side};
use lasthop::sim::probe::Silent;
use lasthop::transport::Udp;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use std::sync::atomic::AtomicBool;
use std::time::Instant as Clock;

/// Datagrams times links of a case.
const CROSSINGS: u64 = 20_000;

/// The protocols, and numbers of links.
const PROTOCOLS: [&str; 3] = ["raw", "selective-repeat", "harq"];
const HOPS: [u64; 2] = [1, 64];

fn endpoint(protocol: &str) -> LinkEndpoint<Descriptor<()>> {
    let [data, control] = [252, 2].map(Bytes::new);
    let timing = LinkTiming::symmetric(RATE, DELAY, data, control);
    let endpoint = match protocol {
        "raw" => Ok(LinkEndpoint::Raw(Raw::new())),
        "selective-repeat" => {
            SelectiveRepeat::new(SelectiveRepeatParameters::for_link(&timing, 64))
                .map(LinkEndpoint::SelectiveRepeat)
        }
        "harq" => Harq::new(HarqParameters::for_link(&timing, 20))
            .map(|harq| LinkEndpoint::Harq(Box::new(harq))),
        _ => panic!("{protocol}: one of {PROTOCOLS:?}"),
    };
    endpoint.unwrap_or_else(|error| panic!("{protocol}: {error}"))
}

const RATE: Rate = Rate::from_bps(10_000_000);
const DELAY: Duration = Duration::from_millis(1);

/// Runs one case and returns the frames that were sent.
fn replicate(protocol: &str, hops: u64) -> u64 {
    let streams = Streams { seed: 1, replication: 0 };
    let loss = Probability::new(0.025).unwrap_or_default();
    let mut builder = Builder::carrying(streams);
    for hop in 0..hops {
        let end = |way| DirectionParameters {
            transmitter: Transmitter::new(RATE),
            propagation: DELAY.into(),
            queue: Queue::drop_tail(Limit::Packets(50), Bytes::new(0)),
            header: Bytes::new(0),
            channel: Channel::Uniform(Uniform::new(loss, &streams, &format!("l{hop}.{way}"))),
        };
        let [forward, reverse] = ["forward", "reverse"].map(end);
        builder.arq_link((forward, endpoint(protocol)), (reverse, endpoint(protocol)));
    }
    let app = App::OnOff(OnOffKeys {
        rate: Rate::from_bps(1_000_000),
        on: DurationDistribution::Constant(Duration::from_secs(1_000_000)),
        off: DurationDistribution::Constant(Duration::ZERO),
        packet: Bytes::new(250),
        replay: Replay::PerPacket,
    });
    let site = SourceSite { streams: &streams, component: "flow.f", start: Instant::ZERO };
    let path: Vec<_> = (0..hops).map(|hop| DirectionId::of(hop as usize, Side::Forward)).collect();
    let path = RoundTrip { there: &path, back: &[] };
    builder.flow("f", Instant::ZERO, &|_| Udp::default().into(), path, app.build(&site));
    let mut world = builder.build(Silent);
    // One every 2 ms.
    let stop = Instant::ZERO + Duration::from_millis(2) * (CROSSINGS / hops);
    world.run(stop, false, &AtomicBool::new(false));
    let names: Vec<_> = (0..hops).map(|hop| format!("l{hop}")).collect();
    let mut frames = 0;
    world.metrics(&names, &mut |_, metric, value| {
        if metric.name == "frames_sent" {
            frames += value.value() as u64;
        }
    });
    frames
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [option, protocol, hops, ..] = arguments.as_slice()
        && option == "--once"
    {
        let hops = hops.parse().unwrap_or_else(|_| panic!("{hops}: a number of links"));
        println!("{}", replicate(protocol, hops));
        return;
    }
    println!("{:<18} {:>5} {:>9} {:>9}", "", "hops", "frames", "ns each");
    for protocol in PROTOCOLS {
        for hops in HOPS {
            let rounds = (0..5).map(|_| {
                let clock = Clock::now();
                let frames = replicate(protocol, hops);
                (clock.elapsed().as_nanos() / u128::from(frames), frames)
            });
            let (nanos, frames) = rounds.min().unwrap_or_default();
            println!("{protocol:<18} {hops:>5} {frames:>9} {nanos:>9}");
        }
    }
}
