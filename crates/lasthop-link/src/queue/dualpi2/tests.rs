//! Tests of DualPI2: probabilities, marks and order, worked out by hand or computed independently.

use super::*;
use lasthop_base::packet::{Ecn, Packet};
use lasthop_base::schema::keys::{Node, Table};
use lasthop_base::units::Rate;
use proptest::prelude::*;

fn micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(micros * 1000)
}

/// The defaults with these changes, for packets of 1500 B at 12 Mbps: the transmission of one
/// packet takes 1 ms.
fn queue(change: impl Fn(&mut DualPi2Keys)) -> (Box<DualPi2<Packet>>, Transmitter) {
    let document = serde_json::json!({});
    let files = lasthop_base::schema::files::Files::new(std::path::Path::new(""));
    let node = Node { value: &document, path: String::new(), files: &files };
    let mut keys = DualPi2Keys::read(&node).unwrap();
    change(&mut keys);
    let queue = DualPi2::new(keys, Bytes::default(), 1500);
    (Box::new(queue), Transmitter::new(Rate::from_bps(12_000_000)))
}

fn packet(ecn: Ecn, number: u32) -> Packet {
    let mut packet = Packet { bytes: 1500, hop: number, ..Packet::default() };
    packet.tcp.ecn = ecn;
    packet
}

/// Fixes p' regardless of the delays.
fn fix(queue: &mut DualPi2<Packet>, base: f64) {
    queue.control.base = base;
    queue.control.next_update = Instant::NEVER;
}

/// Gains of appendix A.1 with its defaults: T_update = min(15, 100 / 3) = 15 ms, alpha = 0.1 *
/// 0.015 / 0.1^2 = 0.15 Hz, beta = 0.3 / 0.1 = 3 Hz. Steps computed by hand.
#[test]
fn the_base_probability_follows_the_delay() {
    let millis = Duration::from_millis;
    let mut control = Control::new(millis(15), millis(100), 2);
    assert_eq!(control.update, millis(15));
    let mut expected = 0.0;
    for (delay, step) in [
        // 0.15 * (0.030 - 0.015) + 3 * 0.030
        (30, 0.00225 + 0.09),
        // 0.15 * 0.005 - 3 * 0.010
        (20, 0.00075 - 0.03),
        // At the target only the trend counts; then nothing changes.
        (15, -0.015),
        (15, 0.0),
        (215, 0.03 + 0.6),
        // Clamped to 1 and to 0.
        (1015, 9.0),
        (0, -9.0),
    ] {
        control.step(millis(delay));
        expected = f64::clamp(expected + step, 0.0, 1.0);
        assert!((control.base - expected).abs() < 1e-12, "{delay}: {control:?}");
        assert_eq!(control.classic(), control.base * control.base);
        assert_eq!(control.coupled(), (2.0 * control.base).min(1.0));
        assert_eq!(control.is_overloaded(), control.classic() >= 0.25);
    }
}

/// The delay grows with time between updates, even without calls.
#[test]
fn missed_updates_are_made_up_for() {
    let (mut late, transmitter) = queue(|_| ());
    let mut often = late.clone();
    for queue in [&mut late, &mut often] {
        queue.enqueue(micros(10_000), packet(Ecn::NotEct, 0), &transmitter);
    }
    (1..100).for_each(|millis| often.catch_up(micros(10_000 + 1000 * millis)));
    late.catch_up(micros(109_000));
    assert_eq!(late.control.base, often.control.base);
    // Updates at 15, 30, … 105 ms with delays 5, 20, … 95 ms: the trends add up to 3 * 0.095, the errors to
    // 0.15 * (sum of 5, 20, … 95 less 7 * 15) ms = 0.15 * 0.245.
    assert!((late.control.base - (0.285 + 0.15 * 0.245)).abs() < 1e-12, "{:?}", late.control);
    // An empty queue: p' falls to 0 and stays there.
    assert!(late.dequeue(micros(109_000)).is_some());
    late.catch_up(micros(10_000_000_000));
    assert_eq!((late.control.base, late.control.old_delay), (0.0, Duration::ZERO));
    assert!(late.control.next_update > micros(10_000_000_000));
}

/// `count` packets arrive simultaneously and are dequeued simultaneously. Returns the numbers
/// of the marked and of the dropped packets.
fn hits(queue: &mut Box<DualPi2<Packet>>, ecn: Ecn, count: u32) -> [Vec<u32>; 2] {
    let transmitter = Transmitter::new(Rate::from_bps(1_000_000_000));
    for number in 1..=count {
        assert!(queue.enqueue(Instant::ZERO, packet(ecn, number), &transmitter));
    }
    let (mut marked, mut dropped) = (Vec::new(), Vec::new());
    while let Some(packet) = queue.dequeue(Instant::ZERO) {
        dropped.extend(queue.dropped().iter().map(|packet| packet.hop));
        marked.extend((packet.tcp.ecn == Ecn::Ce).then_some(packet.hop));
    }
    dropped.extend(queue.dropped().iter().map(|packet| packet.hop));
    let counters = queue.counters();
    assert_eq!(counters.marks, marked.len() as u64);
    assert_eq!(counters.early_drops, dropped.len() as u64);
    [marked, dropped]
}

/// Computed by hand: `recur` accumulates the likelihood; when the sum exceeds 1, it selects the
/// packet and subtracts 1.
#[test]
fn classic_packets_are_hit_with_the_square_and_l4s_packets_k_times_as_often_as_its_root() {
    // p' = 1/4: p_CL = 1/2, p_C = 1/16.
    for (ecn, expected) in [
        (Ecn::Ect1, [vec![3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35], vec![]]),
        (Ecn::Ect0, [vec![17, 33], vec![]]),
        (Ecn::NotEct, [vec![], vec![17, 33]]),
    ] {
        let (mut queue, _) = queue(|_| ());
        fix(&mut queue, 0.25);
        assert_eq!(hits(&mut queue, ecn, 36), expected, "{ecn:?}");
    }
    // k = 3: sums 0.75, 1.5, 1.25, 1, 1.75, 1.5, where marks subtract 1.
    let (mut queue, _) = queue(|keys| keys.k = 3);
    fix(&mut queue, 0.25);
    assert_eq!(hits(&mut queue, Ecn::Ect1, 6), [vec![2, 3, 5, 6], vec![]]);
}

/// p' = 1/2: p_CL = 1 = p_Lmax, p_C = 1/4 = p_Cmax. The sum of the L queue is 1/4 and, after
/// the mark, again 1/4 with the first packet. It is 1/2, 3/4, 1 (no mark until above 1: 2) with
/// the next three, and 5/4 drops the fifth.
#[test]
fn overload_drops_from_both_queues() {
    for (ecn, expected) in [
        (Ecn::Ect1, [vec![1, 2, 3, 4, 6, 7, 8, 10], vec![5, 9]]),
        (Ecn::Ect0, [vec![], vec![5, 9]]),
        (Ecn::NotEct, [vec![], vec![5, 9]]),
    ] {
        let (mut queue, _) = queue(|_| ());
        fix(&mut queue, 0.5);
        assert_eq!(hits(&mut queue, ecn, 10), expected, "{ecn:?}");
    }
}

/// The ramp from 800 to 1200 us, and its floor: a packet with at most one packet behind it is
/// not marked.
#[test]
fn l4s_packets_are_marked_by_their_own_delay() {
    for (delay, behind, expected) in [
        (800, 5, 0.0),
        (900, 5, 0.25),
        (1000, 5, 0.5),
        (1200, 5, 1.0),
        (9000, 5, 1.0),
        (9000, 2, 1.0),
        (9000, 1, 0.0),
        (9000, 0, 0.0),
    ] {
        let (mut queue, transmitter) = queue(|_| ());
        for number in 0..behind {
            queue.enqueue(Instant::ZERO, packet(Ecn::Ect1, number), &transmitter);
        }
        assert_eq!(queue.ramp(Duration::from_nanos(delay * 1000)), expected, "{delay} {behind}");
    }
}

/// 40 packets, 20 of either kind, arrive simultaneously. Returns the order in which their kinds
/// are sent.
fn order(change: impl Fn(&mut DualPi2Keys)) -> String {
    let (mut queue, transmitter) = queue(change);
    fix(&mut queue, 0.0);
    for number in 0..20 {
        queue.enqueue(Instant::ZERO, packet(Ecn::Ect1, number), &transmitter);
        queue.enqueue(Instant::ZERO, packet(Ecn::NotEct, number), &transmitter);
    }
    let mut order = String::new();
    while let Some(packet) = queue.dequeue(Instant::ZERO) {
        order.push(if packet.tcp.ecn == Ecn::NotEct { 'C' } else { 'L' });
    }
    order
}

/// Each L packet earns the Classic queue 1500 B times the weight. With a weight of 1/4, the
/// first L packet is followed by one C packet; from then on, each C packet uses up the credit
/// of three L packets.
#[test]
fn the_classic_queue_has_its_share() {
    let quarter = |keys: &mut DualPi2Keys| keys.classic_weight = Probability::new(0.25).unwrap();
    assert!(order(quarter).starts_with("LCLLLCLLLCLLLCLLLC"));
    let none = |keys: &mut DualPi2Keys| keys.classic_weight = Probability::new(0.0).unwrap();
    assert_eq!(order(none), "L".repeat(20) + &"C".repeat(20));
    // A Classic packet that arrived 50 ms + 1 us earlier is sent first; one that arrived 50 ms
    // earlier is not.
    for (head_start, first) in [(50_000, Ecn::Ect1), (50_001, Ecn::NotEct)] {
        let (mut queue, transmitter) = queue(|keys| keys.scheduler = Scheduler::TimeShiftedFifo);
        fix(&mut queue, 0.0);
        queue.enqueue(Instant::ZERO, packet(Ecn::NotEct, 0), &transmitter);
        queue.enqueue(micros(head_start), packet(Ecn::Ect1, 1), &transmitter);
        assert_eq!(queue.dequeue(micros(60_000)).unwrap().tcp.ecn, first);
    }
}

/// 250 ms at 12 Mbps are 375,000 B, or 250 packets of both kinds together.
#[test]
fn both_queues_share_the_limit() {
    for (limit, room) in [
        (None, 250),
        (Some(QueueLimit::Packets(7)), 7),
        (Some(QueueLimit::Bytes(Bytes::new(4500))), 3),
    ] {
        let (mut queue, transmitter) = queue(|keys| keys.limit = limit);
        let joined = (0..300).filter(|&number| {
            let ecn = if number % 3 == 0 { Ecn::Ect1 } else { Ecn::NotEct };
            queue.enqueue(Instant::ZERO, packet(ecn, number), &transmitter)
        });
        assert_eq!((joined.count(), queue.len()), (room, room));
        assert_eq!(queue.counters().tail_drops, 300 - room as u64);
    }
}

proptest! {
    /// For any arrivals: packets of a kind are sent in order, and each is either sent once or
    /// dropped once. No packets remain. Only packets of transports that support ECN are marked.
    /// The sums of `recur` stay between 0 and 1.
    #[test]
    fn no_packet_is_lost_or_twice(
        steps in prop::collection::vec((0u64..3000, 0u8..4, 0u8..3), 1..400),
        is_shifted in any::<bool>(),
    ) {
        let (mut queue, transmitter) = queue(|keys| {
            keys.scheduler = if is_shifted { Scheduler::TimeShiftedFifo } else { Scheduler::Wrr };
        });
        let mut now = Instant::ZERO;
        let (mut joined, mut left) = (0, 0);
        let mut last = [None; 2];
        let mut take = |queue: &mut Box<DualPi2<Packet>>, now| {
            let packet = queue.dequeue(now);
            left += queue.dropped().len() + usize::from(packet.is_some());
            let Some(packet) = packet else { return queue.is_empty() };
            let lane = usize::from(packet.is_l4s() && packet.tcp.payload == 1);
            let in_order = last[lane] < Some(packet.hop);
            last[lane] = Some(packet.hop);
            in_order && (packet.tcp.ecn != Ecn::Ce || packet.tcp.seq == 1)
        };
        for (number, (wait, ecn, departures)) in (0..).zip(steps) {
            now += Duration::from_nanos(wait * 1000);
            let ecn = Ecn::from_bits(ecn);
            let mut packet = packet(ecn, number);
            // The ECN field and the queue at arrival.
            (packet.tcp.seq, packet.tcp.payload) = (ecn.is_capable().into(), packet.is_l4s().into());
            joined += usize::from(queue.enqueue(now, packet, &transmitter));
            for _ in 0..departures {
                prop_assert!(take(&mut queue, now));
            }
            prop_assert!((0.0..=1.0).contains(&queue.low_latency.count));
            prop_assert!((0.0..=1.0).contains(&queue.classic.count));
        }
        while !queue.is_empty() {
            prop_assert!(take(&mut queue, now));
        }
        prop_assert_eq!(left, joined);
    }
}
