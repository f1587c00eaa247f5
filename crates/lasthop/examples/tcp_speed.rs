//! What a congestion law costs: processor time an ACK beyond Reno's, and events a segment beyond those of Reno without pacing.
//!
//! `cargo run --release --example tcp_speed`; `-- --rounds N` for another number of rounds, of which the median counts;
//! `-- --once vegas` for one round of one law, whose instructions are to be counted (200,000 ACKs; `paced`: selective
//! acknowledgments with pacing). One sender, profile `rfc` with selective acknowledgments, 1460 bytes a segment, a round trip
//! of 50 ms over 100 Mbps with 400 segments of buffer, nothing lost; the ACKs are written by hand, so that only the sender
//! costs. What a law needs beside itself, such as records of what was sent, counts as its own.

use lasthop::channel::{Channel, Clean};
use lasthop::packet::{TcpHeader, TcpOptions, flags};
use lasthop::queue::{Limit, Queue, Transmitter};
use lasthop::rng::Streams;
use lasthop::sim::builder::{Builder, RoundTrip};
use lasthop::sim::direction::DirectionParameters;
use lasthop::sim::ids::{DirectionId, Side};
use lasthop::sim::probe::Silent;
use lasthop::tcp::connection::{Connection, Role};
use lasthop::tcp::{Config, Overrides, Profile, Variant, presets};
use lasthop::units::{Bytes, Duration, Instant, Rate};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

const SEGMENT: u64 = 1460;
/// ACKs of a round: tens of milliseconds, as some systems tell processor time by ticks of four.
const ACKS: u64 = 2_000_000;
/// ACKs of a round whose instructions are counted.
const COUNTED_ACKS: u64 = 200_000;
/// A segment's time on the link, and the round trip without a queue.
const SERVICE: Duration = Duration::from_nanos(120_000);
const ROUND_TRIP: Duration = Duration::from_millis(50);
/// Segments of the file whose events are counted.
const SEGMENTS: u64 = 10_000;

fn config(variant: Variant, pacing: Option<bool>) -> Config {
    let set = Overrides {
        segment: Some(Bytes::new(SEGMENT)),
        receive_window: Some(400.0),
        handshake: Some(false),
        pacing,
        ..Overrides::default()
    };
    presets::config(variant, Profile::Rfc, &set)
}

/// Processor time of this thread, nanoseconds.
fn processor_time() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
}

/// Nanoseconds an ACK that the sender takes, over `count` of them.
fn nanos_an_ack(config: &Config, count: u64) -> f64 {
    let mut sender = Connection::new(config, Role::Opener, Duration::ZERO);
    let mut acks: VecDeque<(Instant, u32, TcpHeader)> = VecDeque::new();
    let (mut now, mut free) = (Instant::ZERO, Instant::ZERO);
    let before = processor_time();
    sender.write((count + 1_000) * SEGMENT);
    for _ in 0..count {
        loop {
            let mut header = TcpHeader::default();
            while sender.poll_transmit(now, &mut header).is_some() {
                free = free.max(now) + SERVICE;
                acks.push_back((
                    free + ROUND_TRIP,
                    header.seq.wrapping_add(header.payload),
                    header,
                ));
            }
            let next = acks.front().map_or(Instant::NEVER, |(at, ..)| *at);
            if sender.next_timeout() > next {
                break;
            }
            now = sender.next_timeout();
            sender.handle_timeout(now);
        }
        let Some((at, ack, data)) = acks.pop_front() else { break };
        now = at;
        let stamp = data.options.timestamps.0;
        let answer = TcpHeader {
            seq: 1,
            ack,
            window: config.receive_window as u32 * SEGMENT as u32,
            flags: flags::ACK,
            has_timestamps: data.has_timestamps,
            options: TcpOptions::stamps(stamp.wrapping_add(1), stamp),
            ..TcpHeader::default()
        };
        sender.receive(now, &answer);
    }
    (processor_time() - before) / count as f64
}

/// Events of a file over one link.
fn events(config: &Config) -> u64 {
    let direction = || DirectionParameters {
        transmitter: Transmitter::new(Rate::from_bps(100_000_000)),
        propagation: Duration::from_millis(25).into(),
        queue: Queue::drop_tail(Limit::Packets(400), Bytes::new(0)),
        header: Bytes::new(0),
        channel: Channel::Clean(Clean {}),
    };
    let mut builder = Builder::new(Streams { seed: 1, replication: 0 });
    builder.raw_link(direction(), direction());
    let path = RoundTrip {
        there: &[DirectionId::of(0, Side::Forward)],
        back: &[DirectionId::of(0, Side::Reverse)],
    };
    builder.file("transfer", Instant::ZERO, config, path, Bytes::new(SEGMENTS * SEGMENT));
    let mut world = builder.build(Silent);
    let stop = Instant::ZERO + Duration::from_secs(1_000);
    world.run(stop, true, &AtomicBool::new(false));
    world.events()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "--once") {
        let word = arguments.get(place + 1).map_or("sack", String::as_str);
        let (name, pacing) = if word == "paced" { ("sack", Some(true)) } else { (word, None) };
        let variant = Variant::ALL.iter().copied().find(|variant| variant.word() == name);
        let Some(variant) = variant else { panic!("no variant {name:?}") };
        nanos_an_ack(&config(variant, pacing), COUNTED_ACKS);
        return;
    }
    let place = arguments.iter().position(|argument| argument == "--rounds");
    let rounds = place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(5_usize);
    let variants: Vec<_> = Variant::ALL
        .iter()
        .copied()
        .filter(|variant| variant.is_of_hosts() && variant.has_sack() && variant.word() != "lt-tcp")
        .collect();
    let mut times = vec![Vec::new(); variants.len()];
    for _ in 0..rounds.max(1) {
        for (index, variant) in variants.iter().enumerate() {
            times[index].push(nanos_an_ack(&config(*variant, None), ACKS));
        }
    }
    let medians: Vec<f64> = times
        .into_iter()
        .map(|mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect();
    let reno = variants.iter().position(|variant| variant.word() == "sack").unwrap_or(0);
    let fewest = events(&config(variants[reno], Some(false))) as f64 / SEGMENTS as f64;
    println!("| variant | ns an ACK | beyond Reno | events a segment | beyond Reno |");
    println!("|---|---|---|---|---|");
    for (variant, nanos) in variants.iter().zip(&medians) {
        let more = nanos - medians[reno];
        let events = events(&config(*variant, None)) as f64 / SEGMENTS as f64;
        let word = variant.word();
        println!("| {word} | {nanos:.1} | {more:.1} | {events:.2} | {:.2} |", events - fewest);
    }
    let paced = events(&config(variants[reno], Some(true))) as f64 / SEGMENTS as f64;
    println!("| sack, paced | | | {paced:.2} | {:.2} |", paced - fewest);
}
