//! The Snoop state machine: hand-computed tables, and properties with arbitrary events.
//!
//! Packets have 100 bytes; packet `n` begins at byte `1 + 100 n`, and "ACK n" acknowledges all
//! packets before packet `n`.

use lasthop::agent::{Agent, AgentEvent, Crossing, Quirks, Snoop, SnoopParameters, Verdict};
use lasthop::packet::{Packet, TcpHeader, flags};
use lasthop::units::{Duration, Instant};
use proptest::prelude::*;
use std::collections::HashMap;

/// Circumstances of a packet of `connection` that is about to enter the interface queue.
fn of(connection: usize, has_room: bool) -> Crossing {
    Crossing { connection: Some(connection), has_room }
}

const LENGTH: u32 = 100;

fn ms(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn data(connection: u32, incarnation: u32, number: u32) -> Packet {
    let tcp = TcpHeader { seq: 1 + LENGTH * number, payload: LENGTH, ..TcpHeader::default() };
    Packet { hop: connection, incarnation, bytes: LENGTH + 40, tcp }
}

fn syn(connection: u32, incarnation: u32) -> Packet {
    let tcp = TcpHeader { flags: flags::SYN, ..TcpHeader::default() };
    Packet { hop: connection, incarnation, bytes: 40, tcp }
}

fn ack(connection: u32, incarnation: u32, number: u32) -> Packet {
    let tcp = TcpHeader {
        seq: 1,
        ack: 1 + LENGTH * number,
        window: 5000,
        flags: flags::ACK,
        ..TcpHeader::default()
    };
    Packet { hop: connection, incarnation, bytes: 40, tcp }
}

/// A state machine and a script: every step specifies the output.
struct Bench {
    snoop: Snoop<Packet>,
    now: Instant,
}

/// Verdict on an ACK, and the retransmitted packet, if any.
const FORWARD: (Verdict, Option<u32>) = (Verdict::Forward, None);
const SUPPRESS: (Verdict, Option<u32>) = (Verdict::Suppress, None);
const fn repair(number: u32) -> (Verdict, Option<u32>) {
    (Verdict::Suppress, Some(number))
}

impl Bench {
    fn new(quirks: Quirks) -> Self {
        Bench::with(SnoopParameters { quirks, ..SnoopParameters::default() })
    }

    fn with(set: SnoopParameters) -> Self {
        Bench { snoop: Snoop::new(set, 2), now: Instant::ZERO }
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = ms(millis);
        self
    }

    fn down(&mut self, packet: &Packet, has_room: bool) {
        let verdict =
            self.snoop.down(self.now, of(packet.hop as usize, has_room), &mut { *packet });
        assert_eq!(verdict, Verdict::Forward);
        assert_eq!(self.sent(), None);
    }

    /// Sends packets `numbers` of connection 0 over the link.
    fn data(&mut self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| self.down(&data(0, 0, number), true));
    }

    fn up(&mut self, packet: &Packet) -> (Verdict, Option<u32>) {
        let verdict = self.snoop.up(self.now, Some(packet.hop as usize), &mut { *packet });
        (verdict, self.sent())
    }

    fn ack(&mut self, number: u32) -> (Verdict, Option<u32>) {
        self.up(&ack(0, 0, number))
    }

    fn acks(&mut self, number: u32, expected: &[(Verdict, Option<u32>)]) {
        for (index, &expected) in expected.iter().enumerate() {
            assert_eq!(self.ack(number), expected, "ACK {number}, number {index} of them");
        }
    }

    fn timeout(&mut self) -> Option<u32> {
        self.snoop.handle_timeout(self.now);
        self.sent()
    }

    fn sent(&mut self) -> Option<u32> {
        let sent = self.snoop.poll_down().map(|packet| (packet.tcp.seq - 1) / LENGTH);
        assert_eq!(self.snoop.poll_down(), None);
        sent
    }
}

#[test]
fn a_lost_packet_is_repaired_at_the_second_duplicate() {
    let mut bench = Bench::new(Quirks::None);
    bench.data(0..7);
    assert_eq!(bench.at(20).ack(1), FORWARD);
    // Packet 1 is lost; packets 2 to 6 cause a duplicate each.
    bench.acks(1, &[FORWARD, repair(1), SUPPRESS, SUPPRESS, SUPPRESS]);
    bench.data(7..9);
    assert_eq!(bench.at(40).ack(7), FORWARD);
    let counters = bench.snoop.counters();
    assert_eq!((counters.cached, counters.local_retransmissions), (9, 1));
    assert_eq!((counters.suppressed_acks, counters.local_timeouts), (4, 0));
    let events: Vec<_> = std::iter::from_fn(|| bench.snoop.poll_event()).collect();
    assert_eq!(events[0], AgentEvent::LocalRetransmission { sequence: 101 });
    assert_eq!(events[1], AgentEvent::SuppressedAck { ack: 101 });
    assert_eq!(events.len(), 5);
}

#[test]
fn a_duplicate_too_many_tells_that_the_repair_was_lost() {
    let mut bench = Bench::new(Quirks::None);
    bench.data(0..5);
    bench.acks(0, &[FORWARD, repair(0)]);
    // Packets 5 to 8 follow the repair; it is lost again.
    bench.data(5..9);
    bench.acks(0, &[SUPPRESS, SUPPRESS, repair(0), SUPPRESS, SUPPRESS, SUPPRESS]);
    bench.data(9..10);
    bench.acks(0, &[repair(0)]);
    assert_eq!(bench.ack(10), FORWARD);
    // Two holes: the duplicates for the second are caused by packets after the repair of the first
    // only.
    bench.data(10..15);
    bench.acks(10, &[FORWARD, repair(10)]);
    bench.data(15..18);
    assert_eq!(bench.ack(12), FORWARD);
    bench.acks(12, &[FORWARD, repair(12), SUPPRESS]);
}

#[test]
fn ns2_counts_one_duplicate_too_many_and_repairs_once() {
    let mut bench = Bench::new(Quirks::Ns2);
    bench.data(0..7);
    assert_eq!(bench.at(20).ack(1), FORWARD);
    // 6 packets cached, minus 2: it suppresses 4 duplicates, although 3 more will arrive.
    bench.acks(1, &[FORWARD, repair(1), SUPPRESS, SUPPRESS, SUPPRESS]);
    bench.data(7..10);
    bench.acks(1, &[SUPPRESS, FORWARD]);
    // The counter reaches the threshold again, the packet was repaired once: 9 cached, minus the
    // tail, minus 2.
    bench.acks(1, &[FORWARD, SUPPRESS, SUPPRESS, SUPPRESS, SUPPRESS, SUPPRESS, SUPPRESS]);
    bench.acks(1, &[FORWARD, FORWARD]);
    assert_eq!(bench.ack(10), FORWARD);
}

#[test]
fn a_miscount_of_one_repairs_again_in_ns2() {
    let mut bench = Bench::new(Quirks::Ns2);
    bench.data(0..1);
    // One packet cached, minus 2 is -1.
    bench.acks(0, &[FORWARD, repair(0), repair(0), FORWARD, FORWARD]);
}

#[test]
fn the_counter_of_ns2_is_shared_and_ours_is_not() {
    for (quirks, first) in [(Quirks::None, FORWARD), (Quirks::Ns2, repair(0))] {
        let mut bench = Bench::new(quirks);
        bench.data(0..4);
        (0..4).for_each(|number| bench.down(&data(1, 0, number), true));
        assert_eq!(bench.up(&ack(1, 0, 0)), FORWARD, "a stray duplicate");
        assert_eq!(bench.ack(0), first, "{quirks:?}");
    }
}

#[test]
fn what_is_not_there_is_not_hidden() {
    for quirks in [Quirks::None, Quirks::Ns2] {
        let mut bench = Bench::new(quirks);
        bench.data(0..1);
        bench.down(&data(0, 0, 1), false);
        bench.data(2..9);
        assert_eq!(bench.ack(1), FORWARD);
        bench.acks(1, &[FORWARD; 7]);
        // The sender retransmits packet 1: it is now cached, but the loss is handled by the sender.
        bench.down(&data(0, 0, 1), true);
        bench.acks(1, &[FORWARD; 3]);
        // A timer can still repair it.
        bench.at(5000);
        assert_eq!(bench.timeout(), Some(1), "{quirks:?}");
    }
}

#[test]
fn a_full_cache_forwards_and_forgets() {
    for quirks in [Quirks::None, Quirks::Ns2] {
        let set = SnoopParameters { quirks, cache: 3, ..SnoopParameters::default() };
        let mut bench = Bench::with(set);
        bench.data(0..10);
        assert_eq!(bench.snoop.cached(0), 3);
        assert_eq!(bench.ack(3), FORWARD);
        assert_eq!(bench.snoop.cached(0), 0);
        bench.acks(3, &[FORWARD; 6]);
        // Packet 3 arrives again, after others: it is a retransmission of the sender.
        bench.data([3]);
        bench.acks(3, &[FORWARD; 3]);
    }
}

#[test]
fn the_timer_follows_the_measured_round_trip() {
    for (quirks, wait) in [
        (Quirks::None, 40 + 4 * 20),
        // 100/8 + 40 * 7/8 = 47.5; 7.5/8 + 250 * 7/8; but the timer was set before.
        (Quirks::Ns2, 1100),
    ] {
        let mut bench = Bench::new(quirks);
        bench.data(0..3);
        assert_eq!(bench.at(40).ack(1), FORWARD);
        assert_eq!(bench.at(39 + wait).timeout(), None, "{quirks:?}");
        assert_eq!(bench.at(40 + wait).timeout(), Some(1), "{quirks:?}");
        let wait = match quirks {
            Quirks::None => Duration::from_millis(wait),
            Quirks::Ns2 => Duration::from_nanos(926_250_000),
        };
        let again = bench.now + wait;
        assert!(bench.snoop.next_timeout() <= again, "{quirks:?}");
        bench.now = again;
        assert_eq!(bench.timeout(), Some(1), "{quirks:?}");
        assert_eq!(bench.snoop.counters().local_timeouts, 2);
    }
}

#[test]
fn a_timeout_knows_the_duplicates_to_come() {
    let mut bench = Bench::new(Quirks::None);
    bench.data(0..4);
    bench.at(1100);
    assert_eq!(bench.timeout(), Some(0));
    // Packets 1 to 3 have not caused a duplicate; the next one indicates a lost repair.
    bench.data(4..5);
    bench.acks(0, &[SUPPRESS, SUPPRESS, SUPPRESS, repair(0)]);
    assert_eq!(bench.ack(5), FORWARD);
}

#[test]
fn the_timer_of_ns2_may_expire_in_vain() {
    let mut bench = Bench::new(Quirks::Ns2);
    bench.data(0..1);
    bench.down(&data(0, 0, 1), false);
    bench.data(2..3);
    assert_eq!(bench.ack(1), FORWARD);
    assert_eq!(bench.at(1100).timeout(), None, "packet 2 is the tail, packet 1 is missing");
    assert_eq!(bench.snoop.next_timeout(), Instant::NEVER);
}

#[test]
fn local_retransmissions_are_limited() {
    for quirks in [Quirks::None, Quirks::Ns2] {
        let set = SnoopParameters { quirks, max_retransmissions: 3, ..SnoopParameters::default() };
        let mut bench = Bench::with(set);
        bench.data(0..1);
        let mut sent = 0;
        for second in 0..100 {
            sent += u32::from(bench.at(2000 * second).timeout().is_some());
        }
        assert_eq!(sent, 3);
        assert_eq!(bench.snoop.next_timeout(), Instant::NEVER);
        // After a retransmission by the sender, the limit applies again.
        bench.data([0]);
        assert_eq!(bench.at(500_000).timeout(), Some(0));
    }
}

#[test]
fn a_new_incarnation_begins_with_nothing() {
    let mut bench = Bench::new(Quirks::None);
    bench.data(0..5);
    assert_eq!(bench.ack(2), FORWARD);
    bench.down(&syn(0, 1), true);
    assert_eq!(bench.snoop.cached(0), 1);
    for number in 0..4 {
        bench.down(&data(0, 1, number), true);
    }
    // Late packets of the old instance are ignored.
    bench.acks(2, &[FORWARD; 4]);
    bench.down(&data(0, 0, 4), true);
    assert_eq!(bench.snoop.cached(0), 5);
    let mut late = ack(0, 1, 0);
    assert_eq!(bench.up(&late), FORWARD);
    assert_eq!(bench.up(&late), FORWARD);
    assert_eq!(bench.up(&late), repair(0));
    // A retransmitted SYN is not a new connection; a SYN with another number is.
    bench.down(&syn(0, 1), true);
    assert_eq!(bench.snoop.cached(0), 4);
    let mut other = syn(0, 1);
    other.tcp.seq = 77_000;
    bench.down(&other, true);
    assert_eq!(bench.snoop.cached(0), 1);
    late.tcp.ack = 77_001;
    assert_eq!(bench.up(&late), FORWARD);
    assert_eq!(bench.snoop.cached(0), 0);
    // The wireless host may open it, too.
    (0..3).for_each(|number| bench.down(&data(0, 1, number), true));
    assert_eq!(bench.up(&syn(0, 2)), FORWARD);
    assert_eq!(bench.snoop.cached(0), 0);
    // In ns-2, only the SYN identifies an instance.
    let mut bench = Bench::new(Quirks::Ns2);
    bench.data(0..5);
    bench.down(&syn(0, 0), true);
    assert_eq!(bench.snoop.cached(0), 1);
}

#[test]
fn only_pure_duplicates_are_duplicates() {
    let mut bench = Bench::new(Quirks::None);
    bench.data(0..8);
    assert_eq!(bench.ack(1), FORWARD);
    for _ in 0..5 {
        let mut with_data = ack(0, 0, 1);
        with_data.tcp.payload = 10;
        assert_eq!(bench.up(&with_data), FORWARD);
    }
    for window in [6000, 7000, 8000] {
        let mut update = ack(0, 0, 1);
        update.tcp.window = window;
        assert_eq!(bench.up(&update), FORWARD);
    }
    assert_eq!(bench.up(&ack(0, 0, 0)), FORWARD, "an old one");
    assert_eq!(bench.snoop.counters().local_retransmissions, 0);
    // An ACK on data also frees the cache.
    let mut with_data = ack(0, 0, 6);
    with_data.tcp.payload = 10;
    assert_eq!(bench.up(&with_data), FORWARD);
    assert_eq!(bench.snoop.cached(0), 2);
}

#[test]
fn numbers_may_wrap() {
    for quirks in [Quirks::None, Quirks::Ns2] {
        let mut bench = Bench::new(quirks);
        let at = |number: u32| u32::MAX.wrapping_sub(349).wrapping_add(LENGTH * number);
        // ns-2's numbers start at 0: ACKs move them there.
        for step in 1..=3u32 {
            let mut far = ack(0, 0, 0);
            far.tcp.ack = (at(0) / 3).saturating_mul(step);
            assert_eq!(bench.up(&far), FORWARD);
        }
        let packet = |number: u32| {
            let mut packet = data(0, 0, 0);
            packet.tcp.seq = at(number);
            packet
        };
        (0..8).for_each(|number| bench.down(&packet(number), true));
        let mut received = ack(0, 0, 0);
        received.tcp.ack = at(3);
        assert_eq!(bench.up(&received), FORWARD);
        assert_eq!(bench.snoop.cached(0), 5);
        assert_eq!(bench.up(&received), FORWARD);
        assert_eq!(bench.snoop.up(bench.now, Some(0), &mut { received }), Verdict::Suppress);
        assert_eq!(bench.snoop.poll_down(), Some(packet(3)));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Data { connection: u32, number: u32, has_room: bool },
    Ack { connection: u32, number: u32, payload: bool, window: u32 },
    Open { connection: u32 },
    Late { connection: u32, number: u32 },
    Wait { millis: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let number = 0u32..24;
    prop_oneof![
        6 => (0u32..2, number.clone(), prop::bool::weighted(0.9)).prop_map(
            |(connection, number, has_room)| Step::Data { connection, number, has_room }
        ),
        8 => (0u32..2, number.clone(), prop::bool::weighted(0.1), 0u32..20).prop_map(
            |(connection, number, payload, window)| Step::Ack {
                connection, number, payload, window: 5000 + window / 19
            }
        ),
        // Repeated ACKs are the most relevant events.
        8 => (0u32..2, 2u32..5).prop_map(
            |(connection, number)| Step::Ack { connection, number, payload: false, window: 5000 }
        ),
        1 => (0u32..2).prop_map(|connection| Step::Open { connection }),
        1 => (0u32..2, number).prop_map(|(connection, number)| Step::Late { connection, number }),
        2 => (0u64..1500).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// Model of the agent's state of a connection.
#[derive(Default)]
struct Seen {
    incarnation: u32,
    /// Highest ACK of this instance, by packet number.
    newest: Option<u32>,
    /// Local retransmissions of each cached packet since its last transmission by the sender.
    sent: HashMap<u32, u32>,
}

/// A run with a hundred times as many cases has passed.
const CASES: u32 = 400;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn nothing_is_invented_and_nothing_new_is_hidden(
        steps in prop::collection::vec(step(), 0..120),
        cache in 1usize..30,
        dupack_threshold in 1u32..5,
        max_retransmissions in 1u32..5,
        is_ns2 in any::<bool>(),
    ) {
        let quirks = if is_ns2 { Quirks::Ns2 } else { Quirks::None };
        let set = SnoopParameters {
            quirks, cache, dupack_threshold, max_retransmissions, ..SnoopParameters::default()
        };
        let mut snoop = Snoop::new(set, 1);
        let mut seen = [Seen::default(), Seen::default()];
        let mut now = Instant::ZERO;
        let mut suppressed = 0;
        for connection in 0..2 {
            let verdict = snoop.down(now, of(connection as usize, false), &mut syn(connection, 0));
            prop_assert_eq!(verdict, Verdict::Forward);
        }
        for step in steps {
            match step {
                Step::Data { connection, number, has_room } => {
                    let one = &mut seen[connection as usize];
                    let packet = data(connection, one.incarnation, number);
                    let verdict = snoop.down(now, of(connection as usize, has_room), &mut { packet });
                    prop_assert_eq!(verdict, Verdict::Forward);
                    if has_room || one.sent.contains_key(&number) {
                        one.sent.insert(number, 0);
                    }
                }
                Step::Open { connection } => {
                    let one = &mut seen[connection as usize];
                    *one = Seen { incarnation: one.incarnation + 1, ..Seen::default() };
                    let packet = syn(connection, one.incarnation);
                    prop_assert_eq!(
                        snoop.down(now, of(connection as usize, false), &mut { packet }), Verdict::Forward
                    );
                    prop_assert_eq!(snoop.cached(connection as usize), 0);
                }
                Step::Ack { connection, number, payload, window } => {
                    let one = &mut seen[connection as usize];
                    let mut packet = ack(connection, one.incarnation, number);
                    packet.tcp.payload = u32::from(payload);
                    packet.tcp.window = window;
                    let verdict = snoop.up(now, Some(connection as usize), &mut { packet });
                    if verdict == Verdict::Suppress {
                        suppressed += 1;
                        prop_assert!(!payload && one.newest.is_none_or(|newest| newest == number));
                        prop_assert!(one.sent.contains_key(&number), "it has packet {number}");
                    } else if one.newest.is_none_or(|newest| newest < number)
                        && !(is_ns2 && payload)
                    {
                        one.newest = Some(number);
                    }
                }
                Step::Late { connection, number } if !is_ns2 => {
                    let one = &seen[connection as usize];
                    if one.incarnation > 0 {
                        let old = ack(connection, one.incarnation - 1, number);
                        prop_assert_eq!(
                            snoop.up(now, Some(connection as usize), &mut { old }), Verdict::Forward
                        );
                        prop_assert_eq!(snoop.poll_down(), None);
                    }
                }
                Step::Late { .. } => {}
                Step::Wait { millis } => {
                    let due = now + Duration::from_millis(millis);
                    while snoop.next_timeout() <= due {
                        now = now.max(snoop.next_timeout());
                        snoop.handle_timeout(now);
                        prop_assert!(snoop.next_timeout() > now);
                        let before = snoop.counters();
                        snoop.handle_timeout(now);
                        prop_assert_eq!(snoop.counters(), before, "a repeated wake does nothing");
                    }
                    now = due;
                }
            }
            while let Some(packet) = snoop.poll_down() {
                let one = &mut seen[packet.hop as usize];
                let number = (packet.tcp.seq - 1) / LENGTH;
                prop_assert_eq!(packet, data(packet.hop, one.incarnation, number));
                let count = one.sent.get_mut(&number).expect("only sent packets are retransmitted");
                *count += 1;
                prop_assert!(*count <= max_retransmissions);
                prop_assert!(one.newest.is_none_or(|newest| number >= newest), "acknowledged");
            }
            for connection in 0..2 {
                prop_assert!(snoop.cached(connection) <= cache);
            }
        }
        prop_assert_eq!(snoop.counters().suppressed_acks, suppressed);
    }
}
