//! Spurious timeouts and spurious retransmissions are counted exactly, as the simulator knows all
//! arrivals.

use lasthop::packet::{TcpHeader, flags};
use lasthop::run::{self, Options, Trace};
use lasthop::scenario::Scenario;
use lasthop::tcp::copies::SpuriousCounts;
use lasthop::tcp::{Connection, Overrides, Profile, Role, Variant, presets};
use lasthop::units::{Bytes, Duration, Instant};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Returns timeouts, spurious timeouts, retransmissions, spurious retransmissions and duplicates of
/// a file of 100 kB.
fn run(transport: &str, errors: &str) -> [f64; 5] {
    let text = format!(
        r#"
        name = "spurious"
        [link.air]
        between = ["a", "b"]
        rate = "1 Mbps"
        delay = "200 ms"
        errors = {errors}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", variant = "reno", handshake = false, {transport} }}
        app = {{ kind = "file", size = "100 kB" }}
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    let scenarios: Vec<_> =
        document.points().unwrap().into_iter().map(|point| point.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let results = run::run(&scenarios, &options, &mut |_| true).unwrap();
    let value = |name: &str| {
        let name = format!("flow.f.{name}");
        let at = results.metrics.iter().position(|metric| *metric == name).unwrap();
        results.rows[0].values[at]
    };
    assert_eq!(value("complete"), 1.0, "{transport}");
    let copies = ["retransmissions", "spurious_retransmissions", "duplicates_received"].map(value);
    let [sent, spurious, received] = copies;
    [value("timeouts"), value("spurious_timeouts"), sent, spurious, received]
}

/// No packet is lost, and the timeout is shorter than the RTT.
#[test]
fn without_loss_every_timeout_is_a_mistake() {
    for profile in ["ns-2", "rfc"] {
        let clock = r#"min_rto = "0 s", initial_rto = "150 ms", max_rto = "150 ms""#;
        let transport = format!(r#"profile = "{profile}", {clock}"#);
        let [timeouts, mistakes, retransmissions, spurious, duplicates] =
            run(&transport, r#"{ kind = "none" }"#);
        assert!(timeouts >= 2.0, "{profile}: {timeouts}");
        assert_eq!(
            (mistakes, spurious),
            (timeouts, retransmissions),
            "{profile}: nothing was lost"
        );
        // The run ends with the last ACK: copies sent in the preceding 200 ms are in transit.
        assert!(duplicates >= 1.0 && duplicates <= retransmissions, "{profile}");
    }
}

/// Frames are lost, and no delay exceeds the timeout: only lost ACKs can cause spurious timeouts,
/// which are rare as later ACKs replace them.
#[test]
fn timeouts_after_losses_are_no_mistakes() {
    let errors = r#"{ kind = "uniform", loss = 0.2 }"#;
    for profile in ["ns-2", "rfc"] {
        let transport = format!(r#"profile = "{profile}", min_rto = "2 s""#);
        let [timeouts, mistakes, retransmissions, spurious, duplicates] = run(&transport, errors);
        assert!(timeouts >= 3.0 && mistakes <= timeouts / 2.0, "{profile}: {mistakes} {timeouts}");
        // On a link without reordering, duplicate arrivals are spurious, and so are some lost
        // retransmissions.
        assert!(
            duplicates <= spurious && spurious < retransmissions,
            "{profile}: {duplicates} {spurious} {retransmissions}"
        );
    }
}

/// A segment is sent, and retransmitted after each timeout. Each case lists the transmissions that
/// arrive, in order and relative to the timeouts, and the number of spurious retransmissions and
/// timeouts: those after the first transmission, in transmission order, that ever arrives.
#[test]
fn copies_behind_one_that_arrives_are_spurious() {
    // Events: a transmission is sent (S), after a timeout except for the first, or the transmission
    // with this number arrives; transmissions without arrival are lost. A timeout is spurious if
    // its transmission is.
    for (events, spurious) in [
        // The original is late, and the copy arrives after it.
        ("SS01", 1),
        // The original arrived before its copy was sent.
        ("S0S1", 1),
        ("S0S", 1),
        // The original is lost.
        ("SS1", 0),
        // The original is late, the copy lost.
        ("SS0", 1),
        // Two copies: the first arrives late, the other afterwards, or never.
        ("SSS12", 1),
        ("SSS1", 1),
        // The first copy is lost.
        ("SSS2", 0),
        // The original is late and both copies are lost.
        ("SSS0", 2),
        ("SSS012", 2),
        // Copies overtake earlier transmissions, which arrive later.
        ("SS10", 1),
        ("SSS21", 1),
        ("SSS210", 2),
        ("SSS20", 2),
        // Retransmissions after an arrival are spurious, regardless of their outcome.
        ("SS1S", 1),
        ("SSS2SS3", 2),
        // Each transmission arrives twice.
        ("SS11", 0),
        ("SS0011", 1),
        // No transmission arrives.
        ("SSS", 0),
    ] {
        let set = Overrides { handshake: Some(false), ..Overrides::default() };
        let config = presets::config(Variant::Reno, Profile::Rfc, &set);
        let [mut sender, mut receiver] = [Role::Opener, Role::Acceptor]
            .map(|role| Connection::new(&config, role, Duration::ZERO));
        sender.write(1000);
        let mut now = Instant::ZERO;
        let mut sent: Vec<(TcpHeader, u8)> = Vec::new();
        for event in events.chars() {
            if let Some(number) = event.to_digit(10) {
                let (segment, ordinal) = sent[number as usize];
                now += Duration::from_millis(1);
                deliver(&mut receiver, now, &segment, ordinal);
                continue;
            }
            if !sent.is_empty() {
                now = sender.next_timeout();
                sender.handle_timeout(now);
                sender.note_timeout(now, &mut receiver);
            }
            let mut segment = TcpHeader::default();
            assert!(sender.poll_transmit(now, &mut segment).is_some());
            assert_eq!(sender.has_retransmitted(), !sent.is_empty());
            let ordinal =
                if sent.is_empty() { 0 } else { sender.note_copy(now, &segment, &mut receiver) };
            assert_eq!(usize::from(ordinal), sent.len());
            sent.push((segment, ordinal));
        }
        let expected = SpuriousCounts { retransmissions: spurious, timeouts: spurious };
        assert_eq!(receiver.spurious_of_peer(), expected, "{events}");
        // The next connection instance starts without state, and the count continues.
        receiver.reset(Duration::ZERO);
        assert_eq!(receiver.spurious_of_peer(), expected, "{events}");
    }
}

fn deliver(end: &mut Connection, now: Instant, segment: &TcpHeader, ordinal: u8) {
    match ordinal {
        0 => end.receive(now, segment),
        _ => end.receive_copy(now, segment, ordinal),
    }
}

/// A transmission of data, SYN or FIN, as recorded by an observer without access to ordinals.
struct Sent {
    first: u64,
    end: u64,
    has_arrived: bool,
    /// Whether all its bytes had been sent before.
    is_again: bool,
}

/// Transmissions of one end, and its timeouts: the first outstanding byte, and the number of
/// earlier transmissions.
#[derive(Default)]
struct Written {
    sent: Vec<Sent>,
    timeouts: Vec<(u64, usize)>,
    highest: u64,
    /// Whether the peer's SYN, and an ACK of this end's SYN, were received.
    has_syn: bool,
    has_opened: bool,
}

impl Written {
    /// Counts spurious events by their definition.
    fn judge(&self) -> SpuriousCounts {
        let arrives = |first: u64, before: usize| {
            let mut earlier = self.sent[..before].iter();
            earlier.any(|one| (one.first..one.end).contains(&first) && one.has_arrived)
        };
        let again = self.sent.iter().enumerate().filter(|(_, one)| one.is_again);
        let retransmissions = again.filter(|(place, one)| arrives(one.first, *place)).count();
        let timeouts = self.timeouts.iter().filter(|one| arrives(one.0, one.1)).count();
        SpuriousCounts { retransmissions: retransmissions as u64, timeouts: timeouts as u64 }
    }
}

/// Outcome of a packet: its additional delay in ms, if it arrives, and that of a duplicate.
#[derive(Clone, Copy, Debug)]
struct Fate {
    late: Option<u64>,
    again: Option<u64>,
}

fn fate() -> impl Strategy<Value = Fate> {
    let late = || prop_oneof![8 => Just(0u64), 2 => 1u64..400, 1 => 400u64..4000];
    (prop::option::weighted(0.85, late()), prop::option::weighted(0.1, late()))
        .prop_map(|(late, again)| Fate { late, again })
}

/// An end and its peer.
fn both(ends: &mut [Connection; 2], from: usize) -> (&mut Connection, &mut Connection) {
    let [first, second] = ends;
    if from == 0 { (first, second) } else { (second, first) }
}

/// Runs a transfer over a path that loses, reorders and duplicates packets according to `fates`, in
/// turn. Compares the counts with those of the definition, and returns the counts of the sender.
fn compare(variant: Variant, profile: Profile, writes: &[u64], fates: &[Fate]) -> SpuriousCounts {
    let set = Overrides { segment: Some(Bytes::new(1000)), ..Overrides::default() };
    let config = presets::config(variant, profile, &set);
    let mut ends =
        [Role::Opener, Role::Acceptor].map(|role| Connection::new(&config, role, Duration::ZERO));
    for &bytes in writes {
        ends[0].write(bytes);
    }
    ends[0].close();
    ends[1].close();
    let mut fates = fates.iter().copied().cycle();
    let mut now = Instant::ZERO;
    // By arrival time and transmission order: receiver, packet, and number of the transmission.
    let mut on_way = BTreeMap::<_, (usize, TcpHeader, u8, Option<usize>)>::new();
    let mut written = [Written::default(), Written::default()];
    let mut number = 0;
    // Long intervals of a sender in backoff add no information.
    while now < Instant::ZERO + Duration::from_secs(200) {
        for from in 0..2 {
            let mut segment = TcpHeader::default();
            while ends[from].poll_transmit(now, &mut segment).is_some() {
                let (end, peer) = both(&mut ends, from);
                let ordinal =
                    if end.has_retransmitted() { end.note_copy(now, &segment, peer) } else { 0 };
                let control = segment.flags & (flags::SYN | flags::FIN) != 0;
                let (first, log) = (u64::from(segment.seq), &mut written[from]);
                let end = first + u64::from(segment.payload) + u64::from(control);
                let place = (end > first).then(|| {
                    assert_eq!(ordinal > 0, first < log.highest);
                    let is_again = end <= log.highest;
                    log.sent.push(Sent { first, end, has_arrived: false, is_again });
                    log.highest = end.max(log.highest);
                    log.sent.len() - 1
                });
                let Fate { late, again } = fates.next().unwrap();
                for late in late.into_iter().chain(again) {
                    let at = now + Duration::from_millis(50 + late);
                    number += 1;
                    on_way.insert((at, number), (1 - from, segment, ordinal, place));
                }
            }
        }
        let timer = ends.iter().map(Connection::next_timeout).min().unwrap();
        if let Some(next) = on_way.first_entry()
            && next.key().0 <= timer
        {
            now = next.key().0;
            let (to, segment, ordinal, place) = next.remove();
            deliver(&mut ends[to], now, &segment, ordinal);
            if let Some(place) = place {
                written[1 - to].sent[place].has_arrived = true;
            }
            let log = &mut written[to];
            log.has_syn |= segment.flags & flags::SYN != 0 || config.one_way;
            log.has_opened |= log.has_syn && segment.flags & flags::ACK != 0 && segment.ack > 0;
            continue;
        }
        now = timer;
        for from in 0..2 {
            let before = ends[from].counters().timeouts;
            let log = &mut written[from];
            let has_opened = log.has_opened || !config.handshake;
            let oldest = ends[from].acked_bytes() + u64::from(has_opened);
            ends[from].handle_timeout(now);
            if ends[from].counters().timeouts > before {
                let (end, peer) = both(&mut ends, from);
                end.note_timeout(now, peer);
                if oldest < log.highest {
                    log.timeouts.push((oldest, log.sent.len()));
                }
            }
        }
    }
    for (from, log) in written.iter().enumerate() {
        let counted = ends[1 - from].spurious_of_peer();
        assert_eq!(counted, log.judge(), "{variant:?} {profile:?}, end {from}");
        let again = log.sent.iter().filter(|one| one.is_again).count();
        assert_eq!(ends[from].counters().retransmissions, again as u64);
    }
    ends[1].spurious_of_peer()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// For every sender and any network behaviour, the count agrees with the definition.
    #[test]
    fn properties_of_spurious_counts(
        variant in prop::sample::select(Variant::ALL).prop_filter("it sends blocks", |&variant| variant != Variant::LtTcp),
        profile in prop::sample::select(&[Profile::Ns2, Profile::Rfc, Profile::Linux][..]),
        writes in prop::collection::vec(1u64..40_000, 1..4),
        fates in prop::collection::vec(fate(), 5..120),
    ) {
        compare(variant, profile, &writes, &fates);
    }
}

/// Returns the trace of a file over one link.
fn traced(transport: &str, link: &str) -> Trace {
    let text = format!(
        r#"
        name = "spurious"
        [link.air]
        between = ["a", "b"]
        rate = "200 kbps"
        delay = "100 ms"
        queue = {{ kind = "drop-tail", limit = "1000 packets" }}
        {link}
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", {transport} }}
        app = {{ kind = "file", size = "100 kB" }}
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    let point = document.points().unwrap().remove(0);
    run::trace(&point.scenario, 1, 0, &AtomicBool::new(false)).unwrap()
}

/// Times, numbers and lengths of the sender's transmissions.
struct Spied {
    sent: Vec<(u64, u64, f64)>,
    spurious: Vec<(u64, u64, f64)>,
    timeouts: Vec<(u64, u64, f64)>,
    mistakes: Vec<(u64, u64, f64)>,
}

impl Spied {
    fn of(trace: &Trace) -> Self {
        let of_sender = |name: &str| -> Vec<(u64, u64, f64)> {
            let own = trace.events.iter().filter(|event| event.entity == "flow.f");
            own.filter(|event| event.event == name)
                .map(|event| (event.time_ns, event.sequence as u64, event.value))
                .collect()
        };
        Spied {
            sent: of_sender("segment_sent"),
            spurious: of_sender("spurious_retransmission"),
            timeouts: of_sender("timeout"),
            mistakes: of_sender("spurious_timeout"),
        }
    }
}

/// The trace of a run marks exactly the segments and timeouts that were spurious: on a link without
/// reordering and other traffic, the frames determine which transmissions arrive.
#[test]
fn traces_mark_what_was_not_needed() {
    let short = r#"handshake = false, fin = false, min_rto = "0 s", initial_rto = "250 ms", max_rto = "1 s""#;
    let mut marked = [0, 0];
    for variant in ["tahoe", "reno", "newreno", "sack"] {
        for profile in ["ns-2", "rfc"] {
            let transport = format!(r#"variant = "{variant}", profile = "{profile}", {short}"#);
            let trace = traced(&transport, r#"errors = { kind = "uniform", loss = 0.1 }"#);
            let spied = Spied::of(&trace);
            let sent: Vec<_> = spied.sent.iter().filter(|sent| sent.2 > 0.0).collect();
            let frames: Vec<bool> = trace
                .events
                .iter()
                .filter(|event| event.entity == "link.air.forward")
                .filter(|event| ["frame_sent", "frame_lost"].contains(&event.event))
                .map(|event| event.event == "frame_sent")
                .collect();
            assert_eq!(sent.len(), frames.len(), "a frame each, in their order");
            let arrives = |seq: u64, before: usize| {
                let mut earlier = sent[..before].iter().zip(&frames);
                earlier
                    .any(|(one, arrives)| *arrives && (one.1..one.1 + one.2 as u64).contains(&seq))
            };
            let (mut expected, mut highest) = (Vec::new(), 0);
            for (place, &&(at, seq, bytes)) in sent.iter().enumerate() {
                let end = seq + bytes as u64;
                if end <= highest && arrives(seq, place) {
                    expected.push((at, seq, bytes));
                }
                highest = end.max(highest);
            }
            assert_eq!(spied.spurious, expected, "{transport}");
            // A timer expires for a segment that is then retransmitted immediately.
            let mistakes = spied.timeouts.iter().filter(|(at, ..)| {
                let again =
                    sent.iter().position(|sent| sent.0 == *at).expect("it is retransmitted");
                arrives(sent[again].1, again)
            });
            let mistakes: Vec<u64> = mistakes.map(|(at, ..)| *at).collect();
            let reported: Vec<u64> = spied.mistakes.iter().map(|(at, ..)| *at).collect();
            assert_eq!(reported, mistakes, "{transport}");
            marked[0] += expected.len();
            marked[1] += reported.len();
        }
    }
    assert!(marked[0] > 20 && marked[1] > 5, "there is something to find: {marked:?}");
}

/// Over links that decide about frames, and that also carry ACKs, the trace marks as many events as
/// are counted.
#[test]
fn traces_mark_as_many_as_are_counted() {
    let short = r#"min_rto = "0 s", initial_rto = "250 ms", max_rto = "1 s""#;
    let errors = r#"errors = { kind = "uniform", loss = 0.15 }"#;
    let mut marked = 0;
    for (transport, link) in [
        (r#"variant = "reno", profile = "ns-2""#, r#"protocol = { kind = "selective-repeat" }"#),
        (r#"variant = "sack", profile = "rfc""#, r#"protocol = { kind = "go-back-n" }"#),
        (r#"variant = "cubic", profile = "linux""#, ""),
        (r#"variant = "sack", profile = "rfc""#, r#"agent = { kind = "snoop", at = "a" }"#),
    ] {
        let timers = if transport.contains("linux") { "" } else { short };
        let trace = traced(&format!("{transport}, {timers}"), &format!("{errors}\n{link}"));
        let count = |name: &str| {
            let of_any = trace.events.iter().filter(|event| event.event == name);
            of_any.count() as f64
        };
        let metric = |name: &str| {
            let name = format!("flow.f.{name}");
            trace.metrics.iter().find(|(known, _)| *known == name).unwrap().1
        };
        let retransmissions = count("spurious_retransmission");
        assert_eq!(retransmissions, metric("spurious_retransmissions"), "{transport}");
        assert_eq!(count("spurious_timeout"), metric("spurious_timeouts"), "{transport}");
        assert_eq!(count("timeout"), metric("timeouts"), "{transport}");
        marked += retransmissions as usize;
    }
    assert!(marked > 20, "there is something to count: {marked}");
}

/// If spurious retransmissions cannot be determined, no number is reported.
#[test]
fn what_cannot_be_known_is_not_counted() {
    let split = r#"
        [link.back]
        between = ["b", "c"]
        rate = "1 Mbps"
        delay = "10 ms"
        agent = { kind = "split-connection", at = "b" }
        "#;
    for (transport, link, to) in [
        (r#"variant = "lt-tcp", profile = "rfc", timestamps = true"#, "", "b"),
        (r#"variant = "sack", profile = "rfc""#, split, "c"),
    ] {
        let text = format!(
            r#"
            name = "unknown"
            [link.air]
            between = ["a", "b"]
            rate = "200 kbps"
            delay = "100 ms"
            errors = {{ kind = "uniform", loss = 0.1 }}
            {link}
            [flow.f]
            from = "a"
            to = "{to}"
            transport = {{ kind = "tcp", {transport} }}
            app = {{ kind = "file", size = "100 kB" }}
            "#
        );
        let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
        let point = document.points().unwrap().remove(0);
        let trace = run::trace(&point.scenario, 1, 0, &AtomicBool::new(false)).unwrap();
        let metric = |name: &str| {
            let name = format!("flow.f.{name}");
            trace.metrics.iter().find(|(known, _)| *known == name).unwrap().1
        };
        assert!(metric("segments_sent") > 50.0);
        assert!(metric("spurious_retransmissions").is_nan(), "{transport}");
        assert!(metric("spurious_timeouts").is_nan(), "{transport}");
        assert!(trace.events.iter().all(|event| !event.event.starts_with("spurious")));
    }
}

/// Returns retransmissions and spurious retransmissions of a transfer over a path without reordering, whose queue
/// drops many segments of a window of four bandwidth-delay products.
fn over_a_full_queue(transport: &str) -> [f64; 2] {
    let text = format!(
        r#"
        name = "full queue"
        [link.path]
        between = ["a", "b"]
        rate = "100 Mbps"
        delay = "50 ms"
        queue = "1000 packets"
        [flow.f]
        from = "a"
        to = "b"
        transport = {{ kind = "tcp", {transport} }}
        app = {{ kind = "file", size = "10 GB" }}
        [run]
        duration = "5 s"
        "#
    );
    let document = Scenario::from_toml(&text, Path::new(".")).unwrap();
    let scenarios: Vec<_> =
        document.points().unwrap().into_iter().map(|point| point.scenario).collect();
    let options = Options { replications: 1, first_replication: 0, seed: 1, jobs: 1 };
    let results = run::run(&scenarios, &options, &mut |_| true).unwrap();
    ["flow.f.retransmissions", "flow.f.spurious_retransmissions"].map(|name| {
        let at = results.metrics.iter().position(|metric| *metric == name).unwrap();
        results.rows[0].values[at]
    })
}

/// The receiver holds ACKs back, and an ACK has room for three blocks. No segment is considered
/// lost because no ACK reports its block.
#[test]
fn compressed_acks_report_all_blocks() {
    let window = r#"profile = "linux", receive_window = "4000 segments""#;
    for variant in ["newreno", "bbr"] {
        let [again, spurious] = over_a_full_queue(&format!(r#"variant = "{variant}", {window}"#));
        assert!(again > 1_000.0, "{variant}: {again}");
        assert_eq!(spurious, 0.0, "{variant}: of {again}");
    }
}
