//! Prints what a frame costs: each error process, and saturated links with both endpoints, a
//! uniform channel and acknowledgments, on a driver that only shifts frames between two rings.
//!
//! `cargo run --release -p lasthop --example link_speed`

use lasthop::channel::{
    Airtime, Channel, ExponentialBits, GilbertElliott, GilbertElliottParameters, IndependentBits,
    TwoState, TwoStateParameters, Uniform,
};
use lasthop::link::{
    Endpoint, Frame, GoBackN, GoBackNParameters, LinkEndpoint, LinkTiming, Release, Rlp,
    RlpParameters, SelectiveRepeat, SelectiveRepeatParameters, StopAndWait, StopAndWaitParameters,
    XorFec, XorFecParameters,
};
use lasthop::packet::Packet;
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Duration, Instant, Probability, Rate};
use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
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
    println!("{name:<24} {nanos:6.2} ns a frame, loss {:.4}", lost as f64 / frames as f64);
}

/// Data goes from end 0 to end 1 without pause; time advances by one frame a round.
fn link_speed(name: &str, mut ends: [LinkEndpoint<Packet>; 2], loss: Probability) {
    let rounds = 5_000_000u64;
    let (frame_time, delay) = (Duration::from_nanos(31_500_000), Duration::from_millis(50));
    let mut channel = Channel::Uniform(Uniform::new(loss, &STREAMS, "link.forward"));
    let mut air: [VecDeque<(Instant, Frame<Packet>)>; 2] = Default::default();
    let packet = Packet { bytes: 250, ..Packet::default() };
    let (mut now, mut events, mut delivered) = (Instant::ZERO, 0u64, 0u64);
    let clock = Clock::now();
    for _ in 0..rounds {
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
                while receiver.poll_event().is_some() {}
            }
        }
        for (side, end) in ends.iter_mut().enumerate() {
            if end.next_timeout() <= now {
                end.handle_timeout(now);
            }
            if side == 0 && end.wants_packet() {
                end.enqueue(now, packet);
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
    let spent = clock.elapsed();
    let nanos = spent.as_nanos() as f64 / events as f64;
    println!(
        "{name:<24} {nanos:6.2} ns a frame event, {:5.1} M a second, efficiency {:.4}",
        events as f64 / spent.as_secs_f64() / 1e6,
        delivered as f64 / rounds as f64
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let p = "2.5 %".parse::<Probability>()?;
    let two_state = TwoStateParameters {
        good: "10 s".parse()?,
        bad: "200 ms".parse()?,
        good_ber: "1e-6".parse()?,
        bad_ber: "1e-2".parse()?,
    };
    let chain = GilbertElliottParameters::from_burst(p, 4.0)?;
    channel_speed("clean", Channel::Clean);
    channel_speed("uniform", Channel::Uniform(Uniform::new(p, &STREAMS, "u")));
    channel_speed("two-state", Channel::TwoState(TwoState::new(two_state, &STREAMS, "t")?));
    let bits = IndependentBits::new("1e-5".parse()?, &STREAMS, "b");
    channel_speed("independent bits", Channel::IndependentBits(bits));
    let bits = ExponentialBits::new(100_000, &STREAMS, "e");
    channel_speed("exponential bits", Channel::ExponentialBits(bits));
    let chain = GilbertElliott::new(chain, &STREAMS, "g")?;
    channel_speed("gilbert-elliott", Channel::GilbertElliott(chain));

    let timing = LinkTiming::symmetric(
        Rate::from_bps(64_000),
        "50 ms".parse()?,
        Bytes::new(252),
        Bytes::new(2),
    );
    for (window, loss) in [(8, "0 %"), (8, "2.5 %"), (32, "2.5 %"), (128, "9.8 %")] {
        let parameters = SelectiveRepeatParameters {
            window,
            timeout: timing.turnaround() * 4,
            ..SelectiveRepeatParameters::for_link(&timing)
        };
        let end = || SelectiveRepeat::new(parameters).map(LinkEndpoint::SelectiveRepeat);
        let name = format!("selective repeat {window} {loss}");
        link_speed(&name, [end()?, end()?], loss.parse()?);
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = GoBackNParameters::for_link(&timing);
        let end = || GoBackN::new(parameters).map(LinkEndpoint::GoBackN);
        link_speed(&format!("go-back-N 8 {loss}"), [end()?, end()?], loss.parse()?);
    }
    for (name, release) in
        [("Karn RLP", Release::InSequence), ("out-of-sequence RLP", Release::Immediate)]
    {
        for loss in ["0 %", "2.5 %", "9.8 %"] {
            let parameters = RlpParameters::for_link(&timing, release);
            let end = || Rlp::new(parameters).map(LinkEndpoint::Rlp);
            link_speed(&format!("{name} {loss}"), [end()?, end()?], loss.parse()?);
        }
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = StopAndWaitParameters::for_link(&timing);
        let end = || StopAndWait::new(parameters).map(LinkEndpoint::StopAndWait);
        link_speed(&format!("stop-and-wait {loss}"), [end()?, end()?], loss.parse()?);
    }
    for loss in ["0 %", "2.5 %"] {
        let parameters = XorFecParameters::for_link(&timing, None);
        let end = || XorFec::new(parameters).map(LinkEndpoint::XorFec);
        link_speed(&format!("XOR FEC 8 {loss}"), [end()?, end()?], loss.parse()?);
    }
    Ok(())
}
