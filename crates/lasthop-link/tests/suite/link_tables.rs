//! Ladder diagrams of the link protocols, computed by hand.
//!
//! The link: 200 kbps, 20 ms. Data frames are 250 B and take 10 ms, control frames are 25 B and
//! take 1 ms. Therefore RTT_L is 51 ms. Each table lists all frames: start in ms, sending end,
//! contents, acknowledgment.

use crate::common::*;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::link::{
    Endpoint, FrameKind, GoBackN, GoBackNParameters, LinkEvent, Release, Renack, Rlp,
    RlpParameters, SelectiveRepeat, SelectiveRepeatParameters, TimerMode,
};

const MS: u64 = 1_000_000;

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn sr(window: u32) -> SelectiveRepeatParameters {
    SelectiveRepeatParameters {
        control: Bytes::new(25),
        renack: Renack::OncePerGap,
        nack_guard: millis(51),
        ..selective_repeat(window, millis(100))
    }
}

/// Runs a link and returns its frames as text, such as `71 A data 1 ack 0`. All packets must
/// arrive.
fn ladder(protocol: Protocol, offers: [&[u64]; 2], fates: [Fate; 2]) -> (Link<Token>, Vec<String>) {
    let (link, lines) = lossy_ladder(protocol, offers, fates);
    let counts = offers.map(|offers| offers.len());
    assert_eq!([link.delivered[1].len(), link.delivered[0].len()], counts);
    (link, lines)
}

/// Like [`ladder`], but packets may be lost.
fn lossy_ladder(
    protocol: Protocol,
    offers: [&[u64]; 2],
    fates: [Fate; 2],
) -> (Link<Token>, Vec<String>) {
    let offers = offers.map(|times| {
        let token = |(number, &ms): (usize, &u64)| {
            (Instant::from_nanos(ms * MS), Token { number: number as u64, bytes: 248 })
        };
        times.iter().enumerate().map(token).collect()
    });
    let air = (Rate::from_bps(200_000), millis(20));
    let mut link = Link::new(protocol.ends(), air, offers, fates);
    link.log = Some(Vec::new());
    link.strict = true;
    link.run(Instant::NEVER);
    let log = link.log.take().expect("a log");
    let lines = log.into_iter().map(|(start, side, kind, ack)| {
        assert_eq!(start.as_nanos() % MS, 0);
        let what = match kind {
            FrameKind::Data { sequence } => format!("data {sequence} "),
            FrameKind::Nack { sequence } => format!("nack {sequence} "),
            FrameKind::Ack => String::new(),
            FrameKind::Keepalive { next } => format!("keepalive {next} "),
            FrameKind::Parity { first, count, .. } => format!("parity {first}+{count} "),
            other => panic!("none of these protocols sends {other:?}"),
        };
        let ack = ack.map_or(String::new(), |ack| format!("ack {ack}"));
        let line = format!("{} {} {what}{ack}", start.as_nanos() / MS, ["A", "B"][side]);
        line.trim_end().to_owned()
    });
    let lines = lines.collect();
    (link, lines)
}

#[test]
fn a_single_loss_is_repaired_by_a_nack() {
    for timer in [TimerMode::PerFrame, TimerMode::BaseOnly] {
        let protocol = SelectiveRepeatParameters { timer, timeout: millis(200), ..sr(4) };
        let (link, lines) =
            ladder(Protocol::SelectiveRepeat(protocol), [&[0; 4], &[]], [losing(&[1]), clean()]);
        assert_eq!(
            lines,
            [
                "0 A data 0 ack 0",
                "10 A data 1 ack 0", // lost
                "20 A data 2 ack 0",
                "30 A data 3 ack 0",
                "30 B ack 1",
                "50 B nack 1 ack 1", // 2 has arrived; 3 at 60 contains no new information
                "71 A data 1 ack 0",
                "101 B ack 4", // one for the run 1, 2, 3
            ]
        );
        assert_eq!(link.events[0], [LinkEvent::Retransmitted { sequence: 1 }]);
        assert_eq!(link.events[1], [LinkEvent::NackSent { sequence: 1 }]);
    }
}

#[test]
fn a_lost_nack_is_repaired_by_the_timer() {
    let run = |timer| {
        let protocol = SelectiveRepeatParameters { timer, ..sr(4) };
        ladder(Protocol::SelectiveRepeat(protocol), [&[0; 4], &[]], [losing(&[1]), losing(&[1])])
    };
    let before = [
        "0 A data 0 ack 0",
        "10 A data 1 ack 0", // lost
        "20 A data 2 ack 0",
        "30 A data 3 ack 0",
        "30 B ack 1",
        "50 B nack 1 ack 1", // lost
        "110 A data 1 ack 0",
    ];
    // The timers of 2 and 3 expire while their acknowledgment waits for 1: spurious
    // retransmissions.
    let per_frame =
        ["120 A data 2 ack 0", "130 A data 3 ack 0", "140 B ack 4", "150 B ack 4", "160 B ack 4"];
    let (link, lines) = run(TimerMode::PerFrame);
    assert_eq!(lines, [&before[..], &per_frame].concat());
    assert_eq!(link.events[0][0], LinkEvent::TimedOut { sequence: 1 });
    let (_, lines) = run(TimerMode::BaseOnly);
    assert_eq!(lines, [&before[..], &["140 B ack 4"]].concat());
}

#[test]
fn a_lost_retransmission_is_nacked_again_after_a_round_trip() {
    let protocol = SelectiveRepeatParameters {
        renack: Renack::AfterRoundTrip(millis(61)),
        timeout: millis(500),
        ..sr(16)
    };
    // 1 is lost at 10 ms and again at 80 ms (frame 8: 80 A follows 0, 10 … 70).
    let (_, lines) =
        ladder(Protocol::SelectiveRepeat(protocol), [&[0; 12], &[]], [losing(&[1, 8]), clean()]);
    let of_one: Vec<_> =
        lines.iter().filter(|l| l.contains("data 1 ") || l.contains("nack")).collect();
    assert_eq!(
        of_one,
        [
            "10 A data 1 ack 0",
            "50 B nack 1 ack 1",
            "80 A data 1 ack 0", // the NACK arrived at 71, frame 7 was in transmission until 80
            "120 B nack 1 ack 1", // the first arrival 61 ms after the NACK: frame 8
            "141 A data 1 ack 0",
        ]
    );
}

/// The frames with data 1, 6 and 9, and those of B.
fn of_interest(lines: &[String]) -> Vec<&str> {
    let wanted = |line: &&str| {
        line.contains(" B ") || [1, 6, 9].iter().any(|n| line.contains(&format!("data {n} ")))
    };
    lines.iter().map(String::as_str).filter(wanted).collect()
}

#[test]
fn a_new_gap_nacks_older_gaps_too() {
    let protocol =
        SelectiveRepeatParameters { renack: Renack::EveryGap, timeout: millis(500), ..sr(16) };
    // Lost: 1 at 10 ms, its retransmission at 80 ms (frame 8), and 9 at 100 ms (frame 10).
    let fates = [losing(&[1, 8, 10]), clean()];
    let (link, lines) = ladder(Protocol::SelectiveRepeat(protocol), [&[0; 12], &[]], fates);
    assert_eq!(
        of_interest(&lines),
        [
            "10 A data 1 ack 0", // lost
            "30 B ack 1",
            "50 B nack 1 ack 1", // 2 reveals the gap; 3 to 8 do not reveal another one
            "60 A data 6 ack 0",
            "80 A data 1 ack 0",  // lost
            "100 A data 9 ack 0", // lost
            "140 B nack 1 ack 1", // 10 reveals the gap at 9: all missing frames are reported
            "141 B nack 9 ack 1",
            "161 A data 1 ack 0",
            "171 A data 9 ack 0",
            "191 B ack 9", // 1 to 8
            "201 B ack 12",
        ]
    );
    assert_eq!(link.ends[0].counters().timeouts, 0);

    // With one NACK per gap, the sender's timer must repair the loss: 500 ms after the
    // retransmission.
    let protocol = SelectiveRepeatParameters { renack: Renack::OncePerGap, ..protocol };
    let fates = [losing(&[1, 8, 10]), clean()];
    let (link, lines) = ladder(Protocol::SelectiveRepeat(protocol), [&[0; 12], &[]], fates);
    assert!(lines.contains(&"580 A data 1 ack 0".to_owned()));
    assert!(link.ends[0].counters().timeouts > 0);
}

#[test]
fn a_new_gap_does_not_repeat_a_copy_on_its_way() {
    let protocol =
        SelectiveRepeatParameters { renack: Renack::EveryGap, timeout: millis(500), ..sr(16) };
    let fates = [losing(&[1, 6]), clean()];
    let (_, lines) = ladder(Protocol::SelectiveRepeat(protocol), [&[0; 12], &[]], fates);
    assert_eq!(
        of_interest(&lines),
        [
            "10 A data 1 ack 0", // lost
            "30 B ack 1",
            "50 B nack 1 ack 1",
            "60 A data 6 ack 0", // lost
            "80 A data 1 ack 0",
            "100 A data 9 ack 0",
            "100 B nack 1 ack 1", // 7 reveals the gap at 6
            "101 B nack 6 ack 1",
            "110 B ack 6", // the copy of 1, sent 41 ms before its NACK arrived: no other one
            "130 A data 6 ack 0", // its NACK arrived at 122, frame 11 was in transmission until 130
            "160 B ack 12",
        ]
    );
}

#[test]
fn a_full_window_stalls_until_the_acknowledgment() {
    let (_, lines) = ladder(Protocol::SelectiveRepeat(sr(2)), [&[0; 4], &[]], [clean(), clean()]);
    assert_eq!(
        lines,
        [
            "0 A data 0 ack 0",
            "10 A data 1 ack 0",
            "30 B ack 1",
            "40 B ack 2",
            "51 A data 2 ack 0",
            "61 A data 3 ack 0",
            "81 B ack 3",
            "91 B ack 4",
        ]
    );
}

#[test]
fn acknowledgments_ride_on_data_that_is_ready() {
    let offers: [&[u64]; 2] = [&[0], &[25, 25]];
    for protocol in [
        Protocol::SelectiveRepeat(sr(4)),
        Protocol::GoBackN(GoBackNParameters {
            control: Bytes::new(25),
            ..go_back_n(4, millis(100))
        }),
    ] {
        let (_, lines) = ladder(protocol, offers, [clean(), clean()]);
        assert_eq!(
            lines,
            [
                "0 A data 0 ack 0",
                "25 B data 0 ack 0",
                "35 B data 1 ack 1", // A's 0 arrived at 30, while the transmitter was busy
                "55 A ack 1",
                "65 A ack 2",
            ]
        );
    }
}

#[test]
fn a_duplicate_is_acknowledged_again() {
    let (link, lines) =
        ladder(Protocol::SelectiveRepeat(sr(4)), [&[0], &[]], [clean(), losing(&[0])]);
    assert_eq!(lines, ["0 A data 0 ack 0", "30 B ack 1", "100 A data 0 ack 0", "130 B ack 1"]);
    assert_eq!(link.ends[1].counters().duplicates, 1);
}

#[test]
fn go_back_n_repeats_the_window() {
    let run = |reject| {
        let protocol =
            GoBackNParameters { control: Bytes::new(25), reject, ..go_back_n(4, millis(100)) };
        ladder(Protocol::GoBackN(protocol), [&[0; 4], &[]], [losing(&[1]), clean()]).1
    };
    let sent = ["0 A data 0 ack 0", "10 A data 1 ack 0", "20 A data 2 ack 0", "30 A data 3 ack 0"];
    let by_timer = [
        "30 B ack 1",
        "50 B ack 1", // 2 is dropped
        "60 B ack 1", // 3 is dropped
        "110 A data 1 ack 0",
        "120 A data 2 ack 0",
        "130 A data 3 ack 0",
        "140 B ack 2",
        "150 B ack 3",
        "160 B ack 4",
    ];
    assert_eq!(run(false), [&sent[..], &by_timer].concat());
    let by_reject = [
        "30 B ack 1",
        "50 B nack 1 ack 1",
        "60 B ack 1",
        "71 A data 1 ack 0",
        "81 A data 2 ack 0",
        "91 A data 3 ack 0",
        "101 B ack 2",
        "111 B ack 3",
        "121 B ack 4",
    ];
    assert_eq!(run(true), [&sent[..], &by_reject].concat());
}

/// At most two retransmissions. A NACK is answered within 61 ms (T_ack + P + 2 T_f + P), or one
/// frame later if another retransmission precedes. A deadline expires one nanosecond after this
/// time.
fn rlp(release: Release) -> RlpParameters {
    RlpParameters {
        release,
        header: Bytes::new(2),
        control: Bytes::new(25),
        ..karn_rlp(2, Duration::from_nanos(61 * MS - 1), millis(10))
    }
}

/// The packets delivered by end B: number and time in ms.
fn delivered(link: &Link<Token>) -> Vec<(u64, u64)> {
    let at = link.delivered_at[1].iter().map(|at| at.as_nanos() / MS);
    link.delivered[1].iter().map(|token| token.number).zip(at).collect()
}

#[test]
fn rlp_repairs_a_loss_by_a_nack() {
    let run =
        |release| ladder(Protocol::Rlp(rlp(release)), [&[0; 4], &[]], [losing(&[1]), clean()]);
    for (release, up) in [
        (Release::InSequence, [(0, 30), (1, 101), (2, 101), (3, 101)]),
        (Release::Immediate, [(0, 30), (2, 50), (3, 60), (1, 101)]),
    ] {
        let (link, lines) = run(release);
        assert_eq!(
            lines,
            [
                "0 A data 0",
                "10 A data 1", // lost
                "20 A data 2",
                "30 A data 3",
                "50 B nack 1", // 2 has arrived
                "71 A data 1",
            ]
        );
        assert_eq!(delivered(&link), up);
        assert_eq!(link.events[0], [LinkEvent::Retransmitted { sequence: 1 }]);
        assert_eq!(link.events[1], [LinkEvent::NackSent { sequence: 1 }]);
    }
}

#[test]
fn rlp_gives_up_after_its_copies_and_never_stalls() {
    let run = |release| {
        // Frame 8 of A is the only retransmission of data 1: the second NACK is lost.
        let protocol = Protocol::Rlp(rlp(release));
        lossy_ladder(protocol, [&[0; 9], &[]], [losing(&[1, 8]), losing(&[1])])
    };
    for (release, up) in [
        (
            Release::InSequence,
            [(0, 30), (2, 172), (3, 172), (4, 172), (5, 172), (6, 172), (7, 172), (8, 172)],
        ),
        (
            Release::Immediate,
            [(0, 30), (2, 50), (3, 60), (4, 70), (5, 80), (6, 90), (7, 100), (8, 120)],
        ),
    ] {
        let (link, lines) = run(release);
        assert_eq!(
            lines,
            [
                "0 A data 0",
                "10 A data 1", // lost
                "20 A data 2",
                "30 A data 3",
                "40 A data 4",
                "50 A data 5",
                "50 B nack 1", // arrives at 71
                "60 A data 6",
                "70 A data 7",
                "80 A data 1", // lost
                "90 A data 8",
                "111 B nack 1", // lost
            ]
        );
        assert_eq!(delivered(&link), up);
        let nack = LinkEvent::NackSent { sequence: 1 };
        assert_eq!(link.events[1], [nack, nack, LinkEvent::Abandoned { sequence: 1 }]);
        // The second deadline: 111 + 61.
        assert_eq!(link.event_times[1][2], Instant::from_nanos(172 * MS));
        let counters = link.ends[1].counters();
        assert_eq!((counters.nacks, counters.skipped, counters.duplicates), (2, 1, 0));
        assert_eq!(link.ends[0].counters().abandoned, 0, "the sender does not know");
    }
}

#[test]
fn rlp_finds_the_loss_of_the_last_frames_by_a_keepalive() {
    let run = |keepalives| {
        let protocol =
            RlpParameters { keepalive: Some(millis(51)), keepalives, ..rlp(Release::InSequence) };
        // 1, 2 and the first keep-alive are lost.
        lossy_ladder(Protocol::Rlp(protocol), [&[0; 3], &[]], [losing(&[1, 2, 3]), clean()])
    };
    let (link, lines) = run(Some(3));
    assert_eq!(
        lines,
        [
            "0 A data 0",
            "10 A data 1",
            "20 A data 2",
            "71 A keepalive 3",  // 51 after the last new frame; lost
            "122 A keepalive 3", // arrives at 143
            "143 B nack 1",
            "144 B nack 2",
            "164 A data 1",
            "174 A data 2",
            "184 A keepalive 3", // due at 173, queued behind the copies; the third and last
        ]
    );
    assert_eq!(delivered(&link), [(0, 30), (1, 194), (2, 204)]);
    assert_eq!(link.ends[0].counters().keepalives, 3);
    // The only keep-alive is lost: the loss is never detected.
    let (link, lines) = run(Some(1));
    assert_eq!(lines[3..], ["71 A keepalive 3"]);
    assert_eq!(delivered(&link), [(0, 30)]);
    assert_eq!(link.ends[1].counters().skipped, 0);
}

#[test]
fn rlp_waits_longer_for_copies_that_queue() {
    // Three NACKs take 3 ms, the retransmissions 30 ms.
    for retransmissions in [1, 2] {
        let protocol = RlpParameters { retransmissions, ..rlp(Release::InSequence) };
        let (link, lines) =
            ladder(Protocol::Rlp(protocol), [&[0; 20], &[]], [losing(&[1, 2, 3]), clean()]);
        let of_lost = |line: &&String| {
            line.contains("nack") || (1..4).any(|lost| line.ends_with(&format!(" data {lost}")))
        };
        assert_eq!(
            lines.iter().filter(of_lost).collect::<Vec<_>>(),
            [
                "10 A data 1",
                "20 A data 2",
                "30 A data 3",
                "70 B nack 1",
                "71 B nack 2",
                "72 B nack 3",
                "100 A data 1", // 9 is in transmission when the first NACK arrives
                "110 A data 2",
                "120 A data 3", // arrives at 150, 78 after its NACK, and is not requested again
            ]
        );
        assert_eq!(link.ends[1].counters().duplicates, 0);
        assert_eq!(link.ends[1].counters().skipped, 0);
    }
}

#[test]
fn rlp_abandons_what_falls_behind_the_horizon() {
    // All NACKs are lost, and 128 frames are sent before T_nack expires.
    let all_lost: Fate = Box::new(|_| (true, Duration::ZERO));
    let protocol = RlpParameters { nack_timeout: millis(10_000), ..rlp(Release::InSequence) };
    let offers: &[u64] = &[0; 140];
    let (link, _) = lossy_ladder(Protocol::Rlp(protocol), [offers, &[]], [losing(&[1]), all_lost]);
    // Number 129 replaces 1; it arrives at 1290 + 30 ms and releases 2 to 129.
    assert_eq!(delivered(&link)[..2], [(0, 30), (2, 1320)]);
    assert_eq!(delivered(&link).len(), 139);
    assert_eq!(link.event_times[1][1], Instant::from_nanos(1320 * MS));
    assert_eq!(link.events[1][1], LinkEvent::Abandoned { sequence: 1 });
    assert_eq!(link.ends[1].counters().skipped, 1);
}

#[test]
fn rlp_senders_refuse_what_they_have_given_up() {
    use lasthop_link::link::{Frame, LinkEndpoint};
    let [mut end, _] = Protocol::Rlp(rlp(Release::InSequence)).ends::<Token>();
    let now = Instant::ZERO;
    let send = |end: &mut LinkEndpoint<Token>| {
        end.enqueue(now, Token { number: 0, bytes: 1 });
        end.poll_transmit(now).expect("a frame").kind
    };
    let nack = |sequence| {
        let kind = FrameKind::Nack { sequence };
        Frame { kind, ack: None, payload: None, bytes: 25, service: 0 }
    };
    for _ in 0..3 {
        send(&mut end);
    }
    // Two retransmissions of 1 and no third one; a number that was never sent is ignored.
    for _ in 0..4 {
        end.receive(now, nack(1));
        end.receive(now, nack(3));
        while end.poll_transmit(now).is_some() {}
    }
    assert_eq!((end.counters().retransmissions, end.counters().abandoned), (2, 1));
    // 0 has left the history after 128 has been sent; two requests are refused only once.
    for _ in 3..128 {
        send(&mut end);
    }
    end.receive(now, nack(0));
    assert_eq!(end.poll_transmit(now).map(|f| f.kind), Some(FrameKind::Data { sequence: 0 }));
    assert_eq!(send(&mut end), FrameKind::Data { sequence: 128 });
    for _ in 0..2 {
        end.receive(now, nack(0));
        assert!(end.poll_transmit(now).is_none());
    }
    assert_eq!(end.counters().abandoned, 2);
    let events: Vec<_> = std::iter::from_fn(|| end.poll_event()).collect();
    let of = |event| events.iter().filter(|&&found| found == event).count();
    assert_eq!(of(LinkEvent::Abandoned { sequence: 0 }), 1);
    assert_eq!(of(LinkEvent::Abandoned { sequence: 1 }), 1);
}

#[test]
fn wrong_parameters_say_what_is_allowed() {
    let error = |p| SelectiveRepeat::<Token>::new(p).expect_err("wrong").to_string();
    assert!(error(sr(32_769)).contains("invalid window of 32769 frames; expected 1 to 32768"));
    assert!(error(sr(0)).contains("window of 0"));
    assert!(
        error(SelectiveRepeatParameters { timeout: Duration::ZERO, ..sr(1) }).contains("timeout")
    );
    let error = |p| GoBackN::<Token>::new(p).expect_err("wrong").to_string();
    assert!(error(go_back_n(65_536, millis(1))).contains("1 to 65535"));
    let wide = GoBackNParameters { reject: true, ..go_back_n(32_769, millis(1)) };
    assert!(
        error(wide).contains("with reject: invalid window of 32769 frames; expected 1 to 32768")
    );
    let header = Bytes::new(1 << 40);
    assert!(error(GoBackNParameters { header, ..go_back_n(8, millis(1)) }).contains("65535"));
    let error = |p| Rlp::<Token>::new(p).expect_err("wrong").to_string();
    let good = rlp(Release::InSequence);
    let many = RlpParameters { retransmissions: 300, ..good };
    assert_eq!(error(many), "Karn RLP: invalid limit of 300 retransmissions; expected 0 to 100");
    let fast = RlpParameters { nack_timeout: Duration::ZERO, ..rlp(Release::Immediate) };
    assert!(error(fast).contains("out-of-sequence RLP: invalid timeout of 0 s"));
    let zero = Some(Duration::ZERO);
    assert!(error(RlpParameters { keepalive: zero, ..good }).contains("keep-alive interval"));
    assert!(error(RlpParameters { keepalives: Some(0), ..good }).contains("0 keep-alives"));
    assert!(error(RlpParameters { control: Bytes::new(1 << 20), ..good }).contains("65535"));
}
