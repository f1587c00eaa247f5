//! Cost of a congestion control algorithm: processor time per ACK in addition to Reno's, and events per segment in
//! addition to those of Reno without pacing.
//!
//! `cargo run --release --example tcp_speed`; `-- --rounds N` for another number of rounds, of which the median
//! counts. One sender, profile `rfc` with selective acknowledgments, 1460 bytes per segment, an RTT of 50 ms over
//! 100 Mbps with a buffer of 400 segments, without losses. The ACKs are computed directly, so that only the sender
//! takes time.
//!
//! An algorithm may enable options: pacing, timestamps, explicit congestion notification. The column "own" is the
//! cost in addition to Reno with the same options; it includes the data that only this algorithm needs, such as
//! transmission times of segments.
//!
//! For instructions (`benches/instructions.py --laws`): `-- --laws` lists the algorithms, `-- --once vegas`
//! processes 200,000 ACKs of one, `-- --once vegas reno` the same ACKs with Reno instead.

use lasthop::app::{App, FileKeys, SourceSite};
use lasthop::channel::{Channel, Clean};
use lasthop::packet::{TcpHeader, TcpOptions, flags};
use lasthop::queue::{Limit, Queue, Transmitter};
use lasthop::rng::Streams;
use lasthop::sim::builder::{Builder, RoundTrip};
use lasthop::sim::direction::DirectionParameters;
use lasthop::sim::ids::{DirectionId, Side};
use lasthop::sim::probe::Silent;
use lasthop::tcp::{Config, Connection, Overrides, Profile, Role, Variant, presets};
use lasthop::transport::Tcp;
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

/// Returns the measured variants: those of hosts, with selective acknowledgments.
fn laws() -> Vec<Variant> {
    let is_measured = |variant: &Variant| {
        variant.is_of_hosts() && variant.has_sack() && variant.word() != "lt-tcp"
    };
    Variant::ALL.iter().copied().filter(is_measured).collect()
}

/// Returns the variant that a scenario names `word`.
fn named(word: &str) -> Variant {
    let found = laws().into_iter().find(|variant| variant.word() == word);
    found.unwrap_or_else(|| panic!("unknown congestion control {word:?}"))
}

/// Returns `config` with Reno as the congestion control algorithm.
fn reno(config: &Config) -> Config {
    Config {
        congestion_control: presets::config(Variant::Sack, Profile::Rfc, &Overrides::default())
            .congestion_control,
        ..*config
    }
}

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
    let streams = Streams { seed: 1, replication: 0 };
    let mut builder = Builder::new(streams);
    builder.raw_link(direction(), direction());
    let path = RoundTrip {
        there: &[DirectionId::of(0, Side::Forward)],
        back: &[DirectionId::of(0, Side::Reverse)],
    };
    let connect = |clock| Tcp::new(config, clock).into();
    let app = App::File(FileKeys { size: Bytes::new(SEGMENTS * SEGMENT) });
    let component = "flow.transfer";
    let site = SourceSite { streams: &streams, component, start: Instant::ZERO };
    builder.flow("transfer", Instant::ZERO, &connect, path, app.build(&site));
    let mut world = builder.build(Silent);
    let stop = Instant::ZERO + Duration::from_secs(1_000);
    world.run(stop, true, &AtomicBool::new(false));
    world.events()
}

/// The median of several measurements.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--laws"] => laws().iter().for_each(|variant| println!("{}", variant.word())),
        ["--once", word, ref rest @ ..] => {
            let config = config(named(word), None);
            let config = if rest.contains(&"reno") { reno(&config) } else { config };
            nanos_an_ack(&config, COUNTED_ACKS);
        }
        ["--rounds", rounds] => table(rounds.parse().expect("a number of rounds")),
        _ => table(5),
    }
}

/// Prints the cost of each algorithm.
fn table(rounds: u32) {
    let laws: Vec<_> = laws().into_iter().map(|law| (law, config(law, None))).collect();
    // Times of each algorithm, and of Reno with its options, measured alternately, so that other
    // load on the machine affects all.
    let mut times = vec![(Vec::new(), Vec::new()); laws.len()];
    for _ in 0..rounds.max(1) {
        for ((_, config), (with, without)) in laws.iter().zip(&mut times) {
            with.push(nanos_an_ack(config, ACKS));
            without.push(nanos_an_ack(&reno(config), ACKS));
        }
    }
    let times: Vec<_> =
        times.into_iter().map(|(with, without)| (median(with), median(without))).collect();
    let place = laws.iter().position(|(law, _)| law.word() == "sack").expect("it is measured");
    let (plain, _) = times[place];
    let fewest = events(&config(laws[place].0, Some(false))) as f64 / SEGMENTS as f64;
    println!("| variant | ns per ACK | beyond Reno | its own | events per segment | beyond Reno |");
    println!("|---|---|---|---|---|---|");
    for ((law, config), (nanos, without)) in laws.iter().zip(times) {
        let (word, more, own) = (law.word(), nanos - plain, nanos - without);
        let events = events(config) as f64 / SEGMENTS as f64;
        let further = events - fewest;
        println!("| {word} | {nanos:.1} | {more:.1} | {own:.1} | {events:.2} | {further:.2} |");
    }
}
