//! Tests of the proxy with hand-computed traces, and with arbitrary loss.

use super::*;
use lasthop_base::packet::Packet;
use lasthop_base::packet::flags::{ACK, FIN, SYN};
use lasthop_base::units::Duration;
use lasthop_tcp::Connection;
use lasthop_tcp::Role;
use proptest::prelude::*;

fn keys(buffer: u64) -> SplitConnectionKeys {
    SplitConnectionKeys {
        at: "ap".to_owned(),
        buffer: Bytes::new(buffer),
        variant: None,
        profile: None,
        initial_window: None,
    }
}

/// Segments of 1000 B, each acknowledged immediately; an initial window of four.
fn flow() -> Config {
    let set = Overrides {
        segment: Some(Bytes::new(1000)),
        delayed_ack: Some(None),
        initial_window: Some(4.0),
        fin: Some(true),
        ..Overrides::default()
    };
    presets::config(Variant::NewReno, Profile::Rfc, &set)
}

fn proxy(keys: &SplitConnectionKeys) -> SplitConnection<Packet> {
    let configs = [keys.towards_end(&flow()), keys.over_link(&flow())];
    let split = Split::new(configs, keys.buffer.get());
    SplitConnection::new(vec![Some(Box::new(split))])
}

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A segment: flags, sequence number, payload, acknowledgment, window.
type Row = (u8, u32, u32, u32, u32);

fn packet((flags, seq, payload, ack, window): Row) -> Packet {
    let tcp = TcpHeader { flags, seq, payload, ack, window, ..TcpHeader::default() };
    Packet { bytes: 40 + payload, tcp, ..Packet::default() }
}

/// Returns the packets of the proxy, towards the end and over the link.
fn sent(proxy: &mut SplitConnection<Packet>) -> [Vec<Row>; 2] {
    let row = |packet: Packet| {
        let TcpHeader { flags, seq, payload, ack, window, .. } = packet.tcp;
        (flags, seq, payload, ack, window)
    };
    let up = std::iter::from_fn(|| proxy.poll_up()).map(row).collect();
    let down = std::iter::from_fn(|| proxy.poll_down()).map(row).collect();
    [up, down]
}

fn down(proxy: &mut SplitConnection<Packet>, at: u64, row: Row) -> [Vec<Row>; 2] {
    let crossing = Crossing { connection: Some(0), has_room: true };
    assert_eq!(proxy.down(ms(at), crossing, &mut packet(row)), Verdict::Suppress);
    sent(proxy)
}

fn up(proxy: &mut SplitConnection<Packet>, at: u64, row: Row) -> [Vec<Row>; 2] {
    assert_eq!(proxy.up(ms(at), Some(0), &mut packet(row)), Verdict::Suppress);
    sent(proxy)
}

/// Computed by hand: a buffer of 4000 B, a sender that fills it before the far end has responded, a
/// receiver with a window of 3000 B. The window towards the sender shrinks with the buffered data
/// and grows by at least two segments.
#[test]
fn data_are_acknowledged_held_and_sent_on() {
    let mut proxy = proxy(&keys(4000));
    // The SYN is answered immediately, and another one is sent over the link.
    let [first, far] = down(&mut proxy, 0, (SYN, 0, 0, 0, 9000));
    assert_eq!((first, far), (vec![(SYN | ACK, 0, 0, 1, 4000)], vec![(SYN, 0, 0, 0, 0)]));
    for (number, left) in [(0, 3000), (1, 2000), (2, 1000), (3, 0)] {
        let seq = 1 + 1000 * number;
        let rows = down(&mut proxy, 1, (ACK, seq, 1000, 1, 9000));
        assert_eq!(rows, [vec![(ACK, 1, 0, seq + 1000, left)], vec![]], "{number}");
    }
    // The far end responds, with room for three segments.
    let [back, data] = up(&mut proxy, 500, (SYN | ACK, 0, 0, 1, 3000));
    assert_eq!(back, []);
    assert_eq!(data, [1, 1001, 2001].map(|seq| (ACK, seq, 1000, 1, 4000)));
    // One segment is free: too little for an update. Its ACK allows the fourth segment to be sent.
    assert_eq!(
        up(&mut proxy, 1000, (ACK, 1, 0, 1001, 3000)),
        [vec![], vec![(ACK, 3001, 1000, 1, 4000)]]
    );
    // Two segments are free, which is advertised immediately.
    assert_eq!(
        up(&mut proxy, 1001, (ACK, 1, 0, 2001, 3000)),
        [vec![(ACK, 1, 0, 4001, 2000)], vec![]]
    );
    // The sender does not use the window: the update may have been lost and is repeated after a
    // second.
    assert_eq!(
        Agent::<Packet>::next_timeout(&proxy).min(ms(2001)),
        Agent::<Packet>::next_timeout(&proxy)
    );
    proxy.handle_timeout(ms(2001));
    assert_eq!(sent(&mut proxy)[END], [(ACK, 1, 0, 4001, 2000)]);
    // The remaining data and the FIN, which is forwarded after the buffered data.
    let rows = down(&mut proxy, 2002, (ACK, 4001, 1000, 1, 9000));
    assert_eq!(rows, [vec![(ACK, 1, 0, 5001, 1000)], vec![(ACK, 4001, 1000, 1, 4000)]]);
    let [back, far] = down(&mut proxy, 2003, (ACK | FIN, 5001, 0, 1, 9000));
    assert_eq!(back, [(ACK, 1, 0, 5002, 1000)]);
    assert_eq!(far, [], "the window of the receiver is full");
    let [_, far] = up(&mut proxy, 2004, (ACK, 1, 0, 5001, 3000));
    assert_eq!(far, [(ACK | FIN, 5001, 0, 1, 4000)]);
    let mut counted = Vec::new();
    proxy.metrics(&mut |metric, value| counted.push((metric.name, value.value())));
    assert_eq!(
        counted[..3],
        [("split_connections", 1.0), ("unconfirmed_bytes", 0.0), ("max_unconfirmed_bytes", 4000.0)]
    );
}

#[test]
fn what_is_no_segment_of_a_split_connection_passes() {
    let mut proxy = proxy(&keys(4000));
    let mut stray = packet((ACK, 1, 1000, 1, 9000));
    for connection in [None, Some(1)] {
        assert_eq!(proxy.up(ms(0), connection, &mut stray), Verdict::Forward);
    }
    // A segment of an older connection instance: dropped.
    let mut newer = packet((SYN, 0, 0, 0, 9000));
    newer.incarnation = 3;
    assert_eq!(proxy.up(ms(0), Some(0), &mut newer), Verdict::Suppress);
    assert_eq!(sent(&mut proxy).map(|rows| rows.len()), [1, 1]);
    assert_eq!(proxy.up(ms(1), Some(0), &mut stray), Verdict::Suppress);
    assert_eq!(sent(&mut proxy), [vec![], vec![]]);
}

#[test]
fn keys_that_no_flow_can_have_are_refused() {
    let refused =
        |keys: &SplitConnectionKeys, flow: &Config| keys.check_flow(flow).unwrap_err().key;
    let small = keys(1999);
    assert_eq!(refused(&small, &flow()), "buffer");
    let plain = keys(4000);
    assert_eq!(plain.check_flow(&flow()), Ok(()));
    let ns2 = presets::config(Variant::NewReno, Profile::Ns2, &Overrides::default());
    assert_eq!(refused(&plain, &ns2), "kind");
    for (variant, is_fine) in [
        (Variant::Cubic, false),
        (Variant::NewReno, true),
        (Variant::LtTcp, false),
        (Variant::Tahoe, false),
        (Variant::Prague, false),
        (Variant::IdealBandwidth, false),
    ] {
        let keys = SplitConnectionKeys { variant: Some(variant), ..keys(4000) };
        let checked = keys.check_flow(&flow());
        assert_eq!(checked.is_ok(), is_fine, "{variant:?}");
        assert!(checked.is_ok() || refused(&keys, &flow()) == "variant");
        let set = Overrides { segment: Some(Bytes::new(1000)), ..Overrides::default() };
        let sack = presets::config(Variant::Sack, Profile::Rfc, &set);
        let is_fine = matches!(variant, Variant::Cubic | Variant::NewReno);
        assert_eq!(keys.check_flow(&sack).is_ok(), is_fine, "{variant:?}");
    }
}

/// Outcome of a segment: arrival delays, none if it is lost.
fn fates() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let fate = prop_oneof![
        6 => (1u64..40).prop_map(|delay| vec![delay]),
        2 => Just(vec![]),
        1 => (1u64..400, 1u64..40).prop_map(|(first, second)| vec![first, second]),
    ];
    prop::collection::vec(fate, 1..60)
}

proptest! {
    /// With any loss, duplication and reordering in both directions, all bytes of both ends are
    /// delivered exactly once, and both ends close. The proxy never acknowledges more than its
    /// buffer ahead of the receiver.
    #[test]
    fn every_byte_arrives_once_whatever_is_lost(
        [near, far] in [fates(), fates()],
        [there, back] in [1u64..30_000, 0u64..8_000],
        buffer in 2000u64..12_000,
    ) {
        let mut proxy = proxy(&keys(buffer));
        let mut ends = [Role::Opener, Role::Acceptor].map(|role| Connection::new(&flow(), role, Duration::ZERO));
        ends[0].write(there);
        ends[0].close();
        let mut has_answered = false;
        // Time, copy, receiver: an end, or the proxy from one side.
        let mut flying: Vec<(Instant, usize, (bool, usize), Packet)> = Vec::new();
        let mut count = 0;
        let mut now = Instant::ZERO;
        for _ in 0..200_000 {
            for side in [END, LINK] {
                let mut out = Vec::new();
                let mut header = TcpHeader::default();
                while let Some(bytes) = ends[side].poll_transmit(now, &mut header) {
                    out.push(((true, side), Packet { bytes, tcp: header, ..Packet::default() }));
                }
                let poll = |proxy: &mut SplitConnection<Packet>| match side {
                    END => proxy.poll_up(),
                    _ => proxy.poll_down(),
                };
                out.extend(std::iter::from_fn(|| poll(&mut proxy)).map(|packet| ((false, side), packet)));
                let fates = [&near, &far][side];
                for (to, packet) in out {
                    // The last segments are all delivered, so that the test ends.
                    let fate = fates.get(count).cloned().unwrap_or_else(|| vec![10]);
                    flying.extend(fate.iter().map(|&delay| (now + Duration::from_millis(delay), count, to, packet)));
                    count += 1;
                }
            }
            let acked = ends[0].acked_bytes().min(there);
            let arrived = ends[1].delivered_bytes().min(there);
            prop_assert!(acked <= arrived + buffer, "{acked} {arrived}");
            if arrived == there && !has_answered {
                has_answered = true;
                ends[1].write(back);
                ends[1].close();
            }
            let timeout = ends.iter().map(Connection::next_timeout).min().unwrap().min(Agent::<Packet>::next_timeout(&proxy));
            let arrival = flying.iter().map(|&(at, ..)| at).min().unwrap_or(Instant::NEVER);
            if timeout.min(arrival) == Instant::NEVER {
                break;
            }
            now = now.max(timeout.min(arrival));
            flying.sort_by_key(|&(at, count, ..)| (at, count));
            if arrival <= now {
                let (_, _, (is_for_proxy, side), mut packet) = flying.remove(0);
                let crossing = Crossing { connection: Some(0), has_room: true };
                match (is_for_proxy, side) {
                    (false, _) => ends[side].receive(now, &packet.tcp),
                    (true, END) => prop_assert_eq!(proxy.down(now, crossing, &mut packet), Verdict::Suppress),
                    (true, _) => prop_assert_eq!(proxy.up(now, Some(0), &mut packet), Verdict::Suppress),
                }
            } else {
                ends.iter_mut().for_each(|end| end.handle_timeout(now));
                proxy.handle_timeout(now);
            }
        }
        // A FIN counts as one more byte.
        prop_assert_eq!(ends[1].delivered_bytes(), there + 1);
        prop_assert_eq!(ends[0].delivered_bytes(), back + 1);
        prop_assert!(ends[0].is_all_acked() && ends[1].is_all_acked());
    }
}
