//! Prints the cost of a frame: for each error process, and for saturated links with both endpoints, a
//! uniform channel and acknowledgments, with a driver that moves frames between two ring buffers.
//!
//! `cargo run --release -p lasthop --example link_speed`; with `-- --csv` only the links, as
//! `protocol,loss,nanoseconds` for `benches/run.py`. A frame event is a frame sent or received. Processor
//! time; the median of several runs counts.

use lasthop::channel::{
    Airtime, Channel, Clean, ExponentialBits, GilbertElliott, GilbertElliottParameters,
    IndependentBits, TwoState, TwoStateParameters, Uniform,
};
use lasthop::link::{
    Endpoint, Frame, GoBackN, GoBackNParameters, LinkEndpoint, LinkError, LinkTiming, Raw, Release,
    Rlc, RlcParameters, Rlp, RlpParameters, SelectiveRepeat, SelectiveRepeatParameters,
    ServiceParameters, Services, ServicesParameters, StopAndWait, StopAndWaitParameters, XorFec,
    XorFecParameters,
};
use lasthop::packet::Packet;
use lasthop::queue::{Limit, Queue};
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant as Clock;

const STREAMS: Streams = Streams { seed: 1, replication: 0 };

fn channel_speed(name: &str, mut channel: Channel) {
    let frames = 20_000_000u64;
    let (mut start, mut lost) = (Instant::ZERO, 0u64);
    let clock = Clock::now();
    for _ in 0..frames {
        let end = start + Duration::from_nanos(31_500_000);
        lost += u64::from(channel.is_lost(black_box(Airtime { start, end, bits: 2016 })));
        start = end;
    }
    let nanos = clock.elapsed().as_nanos() as f64 / frames as f64;
    println!("{name:<24} {nanos:6.2} ns per frame, loss {:.4}", lost as f64 / frames as f64);
}

/// Runs of which the median counts.
const RUNS: usize = 5;

/// Figures of a saturated link.
struct Figures {
    nanos_per_event: f64,
    /// Packets delivered per frame time.
    efficiency: f64,
}

/// Returns the processor time of this thread in nanoseconds if available, otherwise wall-clock
/// time.
fn processor_time(clock: Clock) -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = schedstat.and_then(|line| line.split(' ').next()?.parse().ok());
    nanos.unwrap_or_else(|| clock.elapsed().as_nanos() as u64)
}

/// Data is sent continuously from end 0 to end 1; each round advances the time by one frame.
fn saturate(mut ends: [LinkEndpoint<Packet>; 2], loss: Probability) -> Figures {
    let rounds = 4_000_000u64;
    let (frame_time, delay) = (Duration::from_nanos(31_500_000), Duration::from_millis(50));
    let mut channel = Channel::Uniform(Uniform::new(loss, &STREAMS, "link.forward"));
    let mut air: [VecDeque<(Instant, Frame<Packet>)>; 2] = Default::default();
    let packet = Packet { bytes: 250, ..Packet::default() };
    let (mut now, mut events, mut delivered) = (Instant::ZERO, 0u64, 0u64);
    let clock = Clock::now();
    let begin = processor_time(clock);
    for round in 0..rounds {
        for (side, in_flight) in air.iter_mut().enumerate() {
            let receiver = &mut ends[1 - side];
            while in_flight.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, frame)) = in_flight.pop_front() {
                    receiver.receive(now, frame);
                    events += 1;
                }
                while receiver.poll_deliver().is_some() {
                    delivered += 1;
                }
                receiver.drop_events();
            }
        }
        for (side, end) in ends.iter_mut().enumerate() {
            if end.next_timeout() <= now {
                end.handle_timeout(now);
            }
            if side == 0 {
                if let LinkEndpoint::Services(services) = end {
                    // More than the capacity of the link, to each service in turn.
                    let service = round as usize % services.count();
                    services.offer(now, service, packet, false);
                } else if end.wants_packet() {
                    end.enqueue(now, packet);
                }
            }
            if let Some(frame) = end.poll_transmit(now) {
                events += 1;
                let done = now + frame_time;
                let airtime = Airtime { start: now, end: done, bits: u64::from(frame.bytes) * 8 };
                if side == 1 || !channel.is_lost(airtime) {
                    air[side].push_back((done + delay, frame));
                }
            }
        }
        now += frame_time;
    }
    let nanos = processor_time(clock) - begin;
    Figures {
        nanos_per_event: nanos as f64 / events as f64,
        efficiency: delivered as f64 / rounds as f64,
    }
}

/// Prints the cost of a saturated link.
fn link_speed(
    csv: bool,
    name: &str,
    end: impl Fn() -> Result<LinkEndpoint<Packet>, LinkError>,
    loss: &str,
) -> Result<(), Box<dyn Error>> {
    let probability = loss.parse()?;
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        runs.push(saturate([end()?, end()?], probability));
    }
    runs.sort_by(|a, b| a.nanos_per_event.total_cmp(&b.nanos_per_event));
    let Figures { nanos_per_event, efficiency } = runs[RUNS / 2];
    if csv {
        println!("{name},{loss},{nanos_per_event:.3}");
    } else {
        println!(
            "{name:<26} {loss:>5} {nanos_per_event:6.2} ns per frame event, {:5.1} M per second, \
             efficiency {efficiency:.4}",
            1e3 / nanos_per_event
        );
    }
    Ok(())
}

/// Each error process.
fn channel_speeds() -> Result<(), Box<dyn Error>> {
    let p = "2.5 %".parse::<Probability>()?;
    let two_state = TwoStateParameters {
        good: "10 s".parse()?,
        bad: "200 ms".parse()?,
        good_ber: "1e-6".parse()?,
        bad_ber: "1e-2".parse()?,
    };
    let chain = GilbertElliottParameters::from_burst(p, 4.0)?;
    channel_speed("clean", Channel::Clean(Clean {}));
    channel_speed("uniform", Channel::Uniform(Uniform::new(p, &STREAMS, "u")));
    channel_speed("two-state", Channel::TwoState(TwoState::new(two_state, &STREAMS, "t")?));
    let bits = IndependentBits::new("1e-5".parse()?, &STREAMS, "b");
    channel_speed("independent bits", Channel::IndependentBits(bits));
    let bits = ExponentialBits::new(100_000, &STREAMS, "e");
    channel_speed("exponential bits", Channel::ExponentialBits(bits));
    let chain = GilbertElliott::new(chain, &STREAMS, "g")?;
    channel_speed("gilbert-elliott", Channel::GilbertElliott(chain));

    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let csv = std::env::args().any(|argument| argument == "--csv");
    if !csv {
        channel_speeds()?;
    }
    let timing = LinkTiming::symmetric(
        Rate::from_bps(64_000),
        "50 ms".parse()?,
        Bytes::new(252),
        Bytes::new(2),
    );
    link_speed(csv, "raw", || Ok(LinkEndpoint::Raw(Raw::new())), "2.5 %")?;
    for (window, loss) in [(8, "0 %"), (8, "2.5 %"), (32, "2.5 %"), (128, "9.8 %")] {
        let parameters = SelectiveRepeatParameters {
            timeout: timing.turnaround() * 4,
            ..SelectiveRepeatParameters::for_link(&timing, window)
        };
        let end = || SelectiveRepeat::new(parameters).map(LinkEndpoint::SelectiveRepeat);
        link_speed(csv, &format!("selective repeat {window}"), end, loss)?;
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = GoBackNParameters::for_link(&timing);
        let end = || GoBackN::new(parameters).map(LinkEndpoint::GoBackN);
        link_speed(csv, "go-back-N 8", end, loss)?;
    }
    for (name, release) in
        [("Karn RLP", Release::InSequence), ("out-of-sequence RLP", Release::Immediate)]
    {
        for loss in ["0 %", "2.5 %", "9.8 %"] {
            let parameters = RlpParameters::for_link(&timing, release);
            let end = || Rlp::new(parameters).map(LinkEndpoint::KarnRlp);
            link_speed(csv, name, end, loss)?;
        }
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = StopAndWaitParameters::for_link(&timing);
        let end = || StopAndWait::new(parameters).map(LinkEndpoint::StopAndWait);
        link_speed(csv, "stop-and-wait", end, loss)?;
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = XorFecParameters::for_link(&timing, None);
        let end = || XorFec::new(parameters).map(LinkEndpoint::XorFec);
        link_speed(csv, "XOR FEC 8", end, loss)?;
    }
    for loss in ["0 %", "2.5 %", "9.8 %"] {
        // The packets of 250 B in PDUs of 50 B.
        let pdu = Bytes::new(52);
        let timing = LinkTiming { data_frame: pdu, control_frame: pdu, ..timing };
        let guard = Duration::from_nanos(150_000_000);
        let parameters =
            RlcParameters { nack_guard: guard, ..RlcParameters::for_link(&timing, Bytes::new(50)) };
        let end = || Ok(LinkEndpoint::RlcAm(Box::new(Rlc::new(parameters)?)));
        link_speed(csv, "RLC AM", end, loss)?;
    }
    for loss in ["0 %", "2.5 %"] {
        let service = |endpoint| ServiceParameters {
            endpoint,
            weight: NonZeroU32::MIN,
            queue: Queue::drop_tail(Limit::Packets(50), Bytes::new(2)),
        };
        let rlp = RlpParameters::for_link(&timing, Release::InSequence);
        let fec = XorFecParameters::for_link(&timing, None);
        let end = || {
            let services = vec![
                service(LinkEndpoint::KarnRlp(Rlp::new(rlp)?)),
                service(LinkEndpoint::XorFec(XorFec::new(fec)?)),
            ];
            let parameters = ServicesParameters {
                services,
                classes: Vec::new(),
                identifier: Bytes::new(1),
                rate: timing.rate,
                measure: None,
            };
            Ok(LinkEndpoint::Services(Box::new(Services::new(parameters)?)))
        };
        link_speed(csv, "services: RLP and FEC", end, loss)?;
    }
    Ok(())
}
