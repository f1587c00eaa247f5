//! A link protocol of one's own, outside the crate: the alternating-bit protocol, carried by a small
//! driver.
//!
//! `cargo run --release -p lasthop --example my_link`; explained in `docs/extending.md`.

#[path = "my_link/alternating_bit.rs"]
pub mod alternating_bit;
#[path = "my_link/driver.rs"]
pub mod driver;

use alternating_bit::{AlternatingBit, AlternatingBitParameters};
use driver::{Air, carry};
use lasthop::channel::{Channel, Uniform};
use lasthop::packet::Packet;
use lasthop::rng::Streams;
use lasthop::units::{Bytes, Duration, Probability, Rate};

/// Share of the link's rate that packets of 250 bytes get at this frame loss in each direction,
/// measured over `packets` packets, and in the long run.
pub fn efficiency(loss: Probability, packets: u64) -> (f64, f64) {
    let streams = Streams { seed: 1, replication: 0 };
    let channel = |side: &str| Channel::Uniform(Uniform::new(loss, &streams, side));
    let (rate, delay) = (Rate::from_bps(64_000), Duration::from_millis(50));
    let timeout = Duration::from_millis(200);
    let mut air = Air::new(rate, delay, [channel("forward"), channel("reverse")]);
    let parameters =
        AlternatingBitParameters { timeout, header: Bytes::new(2), control: Bytes::new(2) };
    let mut ends = [AlternatingBit::new(parameters), AlternatingBit::new(parameters)];
    let offered = (0..packets).map(|_| Packet { bytes: 250, ..Packet::default() }).collect();
    let (delivered, end) = carry(&mut ends, offered, &mut air);
    assert_eq!(delivered.len() as u64, packets, "every packet arrives");
    let bits = packets as f64 * 250.0 * 8.0;
    let measured = bits / end.as_secs_f64() / rate.as_bps() as f64;

    // A try fails with q = 1 - (1 - p)^2, frame or acknowledgment, and costs the timeout; the try
    // that succeeds costs the round trip RTT_L = 2 P + T_f + T_ack.
    let frame_time = 252.0 * 8.0 / 64_000.0;
    let round_trip = 2.0 * 0.05 + frame_time + 2.0 * 8.0 / 64_000.0;
    let q = 1.0 - (1.0 - loss.get()).powi(2);
    let expected = 250.0 * 8.0 / 64_000.0 / (round_trip + timeout.as_secs_f64() * q / (1.0 - q));
    (measured, expected)
}

fn main() {
    println!("{:>7} {:>9} {:>12}", "loss", "measured", "closed form");
    for loss in [0.0, 0.01, 0.05, 0.1].into_iter().filter_map(Probability::new) {
        let (measured, expected) = efficiency(loss, 20_000);
        println!("{:>7} {measured:>9.4} {expected:>12.4}", loss.to_string());
    }
}
