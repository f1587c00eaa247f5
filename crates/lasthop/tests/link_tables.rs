//! Hand-worked ladders of the link protocols.
//!
//! The link: 200 kbps, 20 ms. Data frames are 250 B and take 10 ms, control frames are set to
//! 25 B and take 1 ms. So RTT_L = 51 ms. Each table lists every frame: start in ms, end that
//! sends, what, acknowledgment.

mod common;

use common::*;
use lasthop::link::{
    FrameKind, GoBackN, GoBackNParameters, LinkEvent, Renack, SelectiveRepeat,
    SelectiveRepeatParameters, TimerMode,
};
use lasthop::units::{Bytes, Duration, Instant, Rate};

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

/// Every frame of a run, one a line, such as `71 A data 1 ack 0`.
fn ladder(protocol: Protocol, offers: [&[u64]; 2], fates: [Fate; 2]) -> (Link<Token>, Vec<String>) {
    let offers = offers.map(|times| {
        let token = |(number, &ms): (usize, &u64)| {
            (Instant::from_nanos(ms * MS), Token { number: number as u64, bytes: 248 })
        };
        times.iter().enumerate().map(token).collect()
    });
    let counts = offers.each_ref().map(|offers: &std::collections::VecDeque<_>| offers.len());
    let air = (Rate::from_bps(200_000), millis(20));
    let mut link = Link::new(protocol.ends(), air, offers, fates);
    link.log = Some(Vec::new());
    link.strict = true;
    link.run(Instant::NEVER);
    assert_eq!([link.delivered[1].len(), link.delivered[0].len()], counts);
    let log = link.log.take().expect("a log");
    let lines = log.into_iter().map(|(start, side, kind, ack)| {
        assert_eq!(start.as_nanos() % MS, 0);
        let what = match kind {
            FrameKind::Data { sequence } => format!("data {sequence} "),
            FrameKind::Nack { sequence } => format!("nack {sequence} "),
            FrameKind::Ack => String::new(),
            FrameKind::Keepalive { next } => format!("keepalive {next} "),
            FrameKind::Parity { first, count, .. } => format!("parity {first}+{count} "),
        };
        let ack = ack.map_or(String::new(), |ack| format!("ack {ack}"));
        format!("{} {} {what}{ack}", start.as_nanos() / MS, ["A", "B"][side])
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
                "50 B nack 1 ack 1", // 2 has arrived; 3 at 60 says nothing new
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
    // Timers of 2 and 3 expire while their acknowledgment waits for 1: needless copies.
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
    // 1 is lost at 10 and again at 80 (the 8th frame: 80 A follows 0, 10 … 70).
    let (_, lines) =
        ladder(Protocol::SelectiveRepeat(protocol), [&[0; 12], &[]], [losing(&[1, 8]), clean()]);
    let of_one: Vec<_> =
        lines.iter().filter(|l| l.contains("data 1 ") || l.contains("nack")).collect();
    assert_eq!(
        of_one,
        [
            "10 A data 1 ack 0",
            "50 B nack 1 ack 1",
            "80 A data 1 ack 0", // the NACK came at 71, frame 7 was on the air until 80
            "120 B nack 1 ack 1", // the first arrival 61 ms after the NACK: frame 8
            "141 A data 1 ack 0",
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
                "35 B data 1 ack 1", // A's 0 came at 30, while the transmitter was busy
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
    use lasthop::link::Endpoint;
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

#[test]
fn wrong_parameters_say_what_is_allowed() {
    let error = |p| SelectiveRepeat::<Token>::new(p).expect_err("wrong").to_string();
    assert_eq!(error(sr(129)), "selective repeat: found a window of 129 frames; allowed: 1 to 128");
    assert!(error(sr(0)).contains("window of 0"));
    assert!(
        error(SelectiveRepeatParameters { timeout: Duration::ZERO, ..sr(1) }).contains("timeout")
    );
    let error = |p| GoBackN::<Token>::new(p).expect_err("wrong").to_string();
    assert!(error(go_back_n(256, millis(1))).contains("1 to 255"));
    let wide = GoBackNParameters { reject: true, ..go_back_n(129, millis(1)) };
    assert!(error(wide).contains("with reject: found a window of 129 frames; allowed: 1 to 128"));
    let header = Bytes::new(1 << 40);
    assert!(error(GoBackNParameters { header, ..go_back_n(8, millis(1)) }).contains("65535"));
}
