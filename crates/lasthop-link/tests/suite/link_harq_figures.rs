//! Compares losses and goodput of hybrid ARQ with closed forms and with the link tables of the
//! project's notes on the paper. Seeds are fixed.

use crate::common::*;
use crate::link_harq::{millis, numbers, seconds};
use lasthop_base::rng::{DurationDistribution, Streams};
use lasthop_base::units::{Bytes, Duration, Instant, Probability, Rate};
use lasthop_link::channel::{Airtime, Channel, ErrorProcess, OnOff, Product, Uniform};
use lasthop_link::link::{Endpoint, HarqMode, HarqParameters};

/// Unit losses of an on-off process combined with uniform losses.
fn disrupted(law: DurationDistribution, loss: f64, seed: u64, units: u32) -> UnitFate {
    let streams = Streams { seed, replication: 0 };
    let loss = Probability::new(loss).expect("a probability");
    let uniform = Channel::Uniform(Uniform::new(loss, &streams, "link"));
    let on_off = Channel::OnOff(OnOff::new(law, law, &streams, "link.second"));
    let mut channel = Product::new(uniform, on_off);
    Box::new(move |_, [start, end]| {
        !channel.lost_units(Airtime { start, end, bits: 12_000 }, units as u8)
    })
}

/// Section 3.6 of the project's notes: residual loss without FEC if transmissions are 21.2 ms apart
/// and the link is down for 100 of 200 ms, in addition to independent packet losses.
#[test]
fn without_coding_the_residual_loss_is_that_of_its_closed_form() {
    // The product of the loss probabilities of all transmissions, averaged over the phase of a
    // cycle.
    let exact = |loss: f64, retransmissions: u64| {
        let steps = 200_000;
        let product = |phase: u64| {
            let at = |k| (phase + k * 21_200) % 200_000;
            (0..=retransmissions).map(|k| if at(k) < 100_000 { loss } else { 1.0 }).product::<f64>()
        };
        (0..steps).map(product).sum::<f64>() / steps as f64
    };
    // Values printed in the notes.
    for (loss, retransmissions, printed) in
        [(0.0, 2, 0.2880), (0.0, 3, 0.1820), (0.3, 3, 0.2719), (0.5, 5, 0.1829), (0.5, 20, 0.0009)]
    {
        assert!((exact(loss, retransmissions) - printed).abs() < 1e-4);
    }
    // The interval between packets is long enough for each to be resolved before the next one
    // arrives, at phases distributed over the cycle. The variance of the number of abandoned packets
    // is at most that of a binomial one: 5 standard deviations, false positives below 6e-7 each, 12 in total.
    let packets = 40_000;
    let down = DurationDistribution::Constant(millis(100));
    for loss in [0.0, 0.1, 0.3, 0.5] {
        for retransmissions in [2, 3, 5] {
            let parameters = HarqParameters {
                mode: HarqMode::Pipelined,
                max_transmissions: Some(1 + retransmissions as u32),
                header: Bytes::new(0),
                control: Bytes::new(1),
                ..harq(1, Duration::from_nanos(21_200_000 - 1))
            };
            let mut stream = Streams { seed: 2, replication: 0 }.stream("offers", "phase");
            let offers = (0..packets).map(|number| {
                let phase = (stream.uniform() * 200e6) as u64;
                (seconds(2 * number) + Duration::from_nanos(phase), Token { number, bytes: 1 })
            });
            let ends = Protocol::Harq(parameters).ends();
            let air = (Rate::from_bps(8_000_000_000), millis(5));
            let offers = [offers.collect(), tokens(0, 0)];
            let mut link = Link::new(ends, air, offers, [clean(), clean()]);
            link.unit_fates[0] = Some(disrupted(down, loss, 3, 1));
            link.run(Instant::NEVER);
            let counters = link.ends[0].counters();
            assert_eq!(counters.data_frames, packets);
            let (n, p) = (packets as f64, exact(loss, retransmissions));
            let (lost, error) = (counters.abandoned as f64, (n * p * (1.0 - p)).sqrt());
            assert!(
                (lost - n * p).abs() <= 5.0 * error + 1e-9,
                "p = {loss}, L = {retransmissions}: {lost} of {n}, expected {}",
                n * p
            );
        }
    }
}

/// Returns the payload throughput in Mbit/s and the residual loss of a saturated link with 10
/// Mbit/s and 10 ms. Packets have 1500 B; the link is alternately down and up for 90 to 110 ms
/// each.
fn saturated(parameters: HarqParameters, loss: f64) -> [f64; 2] {
    let rate = Rate::from_bps(10_000_000);
    // A feedback frame takes less than 0.1 ms and arrives 20 ms after the end of the block.
    let parameters = HarqParameters {
        header: Bytes::new(0),
        control: Bytes::new(1),
        rate,
        timeout: Duration::from_nanos(20_010_000),
        ..parameters
    };
    let ends = Protocol::Harq(parameters).ends();
    let offers = [tokens(300_000, 1500), tokens(0, 0)];
    let mut link = Link::new(ends, (rate, millis(10)), offers, [clean(), clean()]);
    let law = DurationDistribution::Uniform(millis(90), millis(110));
    link.unit_fates[0] = Some(disrupted(law, loss, 5, parameters.units));
    link.run(seconds(200));
    let counters = link.ends[0].counters();
    let delivered = link.delivered[1].len() as f64;
    assert!(numbers(&link).is_sorted());
    [delivered * 12_000.0 / 200e6, counters.abandoned as f64 / counters.packets as f64]
}

/// Tables 3.7 (baseline) and 3.8 (one hop) of the project's notes. The goodput of a cycle of 200 ms
/// varies by about 13 % of its mean, its number of abandoned packets by about 60 %. 5 standard
/// errors of the difference between 1000 cycles here and 2800 there are 2.4 % and 11 %; printed
/// values are rounded in addition. False positives below 1e-6 per value.
#[test]
fn saturated_links_have_the_figures_of_the_notes() {
    let hybrid = HarqParameters { max_transmissions: Some(4), ..harq(20, millis(1)) };
    let plain = |retransmissions: u32| HarqParameters {
        mode: HarqMode::Pipelined,
        max_transmissions: Some(1 + retransmissions),
        ..harq(1, millis(1))
    };
    for (parameters, loss, goodput, residual) in [
        (hybrid, 0.0, 3.36, 0.020),
        (hybrid, 0.1, 2.69, 0.024),
        (hybrid, 0.3, 1.84, 0.033),
        (hybrid, 0.5, 1.17, 0.051),
        (plain(4), 0.0, 4.95, 0.128),
        (plain(4), 0.1, 4.45, 0.151),
        (plain(4), 0.3, 3.46, 0.208),
        (plain(4), 0.5, 2.47, 0.299),
        (plain(7), 0.0, 4.95, 0.0),
        (plain(7), 0.1, 4.45, 0.0006),
        (plain(7), 0.3, 3.46, 0.020),
        (plain(7), 0.5, 2.47, 0.099),
    ] {
        let [found, lost] = saturated(parameters, loss);
        let label = format!("N = {}, p = {loss}: {found} Mb/s, {lost}", parameters.units);
        assert!((found / goodput - 1.0).abs() < 0.024 + 0.005 / goodput, "{label}");
        assert!((lost - residual).abs() < 0.11 * residual + 0.0006, "{label}");
    }
}

/// Consider a burst that destroys b consecutive units, and a packet whose parts of s = N / d units
/// are separated by parts of other packets. The expected number of packets that lose more than P
/// units of a part to the burst is
///
/// ```text
///    (b + s - 1 - 2 P) / s   if b > P and s > P, otherwise 0,
/// ```
///
/// which is the number of positions of the burst relative to a part with more than P common units,
/// divided by the number of positions. Each packet encounters at most one burst, because the
/// interval between bursts is longer than a packet. 10 Mbps, 20 units of 84 B, of which 2 are
/// parity: 67.2 us per unit. Bursts last for 9 units, which destroys 10 units at any phase, and
/// occur every 300 units on average. The delay is 1 ms, so that a retransmission, which needs fewer
/// units, arrives before the next burst. Expected retransmitted packets per burst for the values of
/// d: 1.25, 2.25, 0 and 0. The number for one burst takes one of two adjacent values, so that its
/// variance is at most 1/4. The variance of the number of bursts in 100 s is below 10. 5 standard
/// deviations of the sum: false positives below 6e-7 each.
#[test]
fn bursts_take_as_many_packets_as_the_interleaver_lets_them() {
    let (rate, unit) = (Rate::from_bps(10_000_000), 67_200u64);
    for (interleave, expected) in [(1, 1.25), (5, 2.25), (10, 0.0), (20, 0.0)] {
        let parameters = HarqParameters {
            interleave,
            mode: HarqMode::Pipelined,
            header: Bytes::new(0),
            control: Bytes::new(1),
            rate,
            ..harq(20, Duration::from_nanos(2_010_000))
        };
        let ends = Protocol::Harq(parameters).ends();
        let offers = [tokens(100_000, 1500), tokens(0, 0)];
        let mut link = Link::new(ends, (rate, millis(1)), offers, [clean(), clean()]);
        let up = [290 - 17, 290 + 19].map(|units| Duration::from_nanos(units * unit));
        let down = DurationDistribution::Constant(Duration::from_nanos(9 * unit));
        let streams = Streams { seed: 6, replication: 0 };
        let up = DurationDistribution::Uniform(up[0], up[1]);
        let mut channel = OnOff::new(up, down, &streams, "link");
        link.unit_fates[0] = Some(Box::new(move |_, [start, end]| {
            let units = 20 / interleave as u8;
            !channel.lost_units(Airtime { start, end, bits: 12_000 }, units)
        }));
        // Skip the time until the estimate has converged.
        link.run(seconds(3));
        let before = link.ends[0].counters().retransmissions;
        link.run(seconds(103));
        assert!(link.delivered[1].len() < 90_000, "there was always something to send");
        let again = (link.ends[0].counters().retransmissions - before) as f64;
        let bursts = 100e9 / (300 * unit) as f64;
        let error = (0.25 * bursts + 10.0 * expected * expected).sqrt();
        let within = if expected == 0.0 { 0.0 } else { 5.0 * error };
        assert!(
            (again - expected * bursts).abs() <= within,
            "d = {interleave}: {again}, expected {}",
            expected * bursts
        );
    }
}
