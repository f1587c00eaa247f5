//! Tahoe, TCP-DCR, NCR, LHP and senders with explicit loss notification, compared with traces
//! derived by hand. The pipe has a delay of 50 ms each way and no transmission time. Segments have
//! 1000 bytes, the SYN is byte 0, and ten segments are sent at 100 ms.

use crate::tcp_pipe::{ACCEPTOR, OPENER, Pipe, Sent, ms};
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::config::LossDetection;
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};

const DELAY: Duration = Duration::from_millis(50);

fn config(variant: Variant, detection: Option<LossDetection>) -> Config {
    let set = Overrides {
        segment: Some(Bytes::new(1000)),
        delayed_ack: Some(None),
        fin: Some(false),
        loss_detection: detection,
        ..Overrides::default()
    };
    presets::config(variant, Profile::Rfc, &set)
}

/// Sends `bytes`; the first copy of the segment that begins at `odd` is lost, or has a delay of
/// `late`.
fn sends(
    variant: Variant,
    detection: Option<LossDetection>,
    bytes: u64,
    odd: u32,
    late: Option<Duration>,
) -> Pipe<'static> {
    let config = config(variant, detection);
    let mut is_first = true;
    let fate = move |end: usize, _: u64, _, header: &TcpHeader| {
        let is_odd = end == OPENER && header.payload > 0 && header.seq == odd;
        if is_odd && std::mem::take(&mut is_first) {
            late.into_iter().collect()
        } else {
            vec![DELAY]
        }
    };
    let mut pipe = Pipe::new(&config, Box::new(fate));
    pipe.ends[OPENER].write(bytes);
    pipe.pump(OPENER);
    pipe
}

/// Returns the segments sent by the opener from `from` ms on: transmission time and first byte.
fn since(pipe: &Pipe, from: u64) -> Vec<(u64, u64)> {
    let sent = pipe.sent(OPENER).into_iter().filter(|&(at, _)| at >= from);
    sent.map(|(at, segment)| (at, segment.parse().unwrap())).collect()
}

/// Returns window, threshold, number of reductions and number of retransmissions.
fn state(pipe: &Pipe) -> (f64, f64, u64, u64) {
    let end = &pipe.ends[OPENER];
    let (sender, counters) = (end.sender(), end.counters());
    let windows = (sender.congestion_window(), sender.slow_start_threshold());
    (windows.0, windows.1, counters.window_cuts, counters.retransmissions)
}

/// Returns `count` segments of 1000 bytes from byte `first` on, all sent at `at`.
fn segments(at: u64, first: u64, count: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (at, first + 1000 * number)).collect()
}

/// Nine duplicates arrive at 200 ms: two trigger limited transmit, the third the retransmission.
/// The window is 1, so that the other six allow no segments. At 300 ms two more duplicates arrive,
/// then an ACK of all data: slow start from 1 to 2.
#[test]
fn tahoe_starts_slowly_after_a_fast_retransmit() {
    let mut pipe = sends(Variant::Tahoe, None, 40_000, 1, None);
    pipe.run(ms(200));
    assert_eq!(state(&pipe), (1.0, 5.0, 1, 1));
    assert_eq!(since(&pipe, 200), [(200, 10_001), (200, 11_001), (200, 1)]);
    pipe.run(ms(300));
    assert_eq!(since(&pipe, 300), [(300, 12_001), (300, 13_001)]);
    assert_eq!(state(&pipe).0, 2.0);
}

/// Each of nine duplicates at 200 ms allows one segment. The segment is declared lost 100 ms (one
/// RTT) after the first. The flight size at the first duplicate was 10.
#[test]
fn dcr_waits_for_a_round_trip() {
    let mut pipe = sends(Variant::Dcr, None, 19_000, 1, None);
    pipe.run(ms(299));
    assert_eq!(since(&pipe, 200), segments(200, 10_001, 9));
    assert_eq!(state(&pipe).2, 0);
    pipe.run(ms(300));
    assert_eq!(since(&pipe, 201), [(300, 1)]);
    assert_eq!(state(&pipe), (5.0, 5.0, 1, 1));
    pipe.run(ms(2_000));
    assert!(pipe.ends[OPENER].is_all_acked() && state(&pipe).3 == 1);
}

/// The link delivers the missing segment 80 ms late: its ACK stops the timer at 280 ms. SACK
/// recovery has reduced the window at 200 ms.
#[test]
fn dcr_takes_what_comes_late() {
    let late = Some(Duration::from_millis(130));
    let mut pipe = sends(Variant::Dcr, None, 19_000, 1, late);
    pipe.run(ms(2_000));
    assert!(pipe.ends[OPENER].is_all_acked());
    assert_eq!(since(&pipe, 200), segments(200, 10_001, 9));
    assert_eq!((state(&pipe).2, state(&pipe).3), (0, 0));
    let mut pipe = sends(Variant::Sack, None, 19_000, 1, late);
    pipe.run(ms(2_000));
    assert_eq!((state(&pipe).2, state(&pipe).3), (1, 1));
}

/// RFC 4653, careful: DupThresh is 2/3 of the flight size, which grows from 10 to 14 segments. It
/// is 6, 7, 7, 8, 8, 8, 8, 9, 9 at the nine duplicates; the ninth reaches it. The first, third,
/// fifth and seventh allow a segment. Aggressive: 1/2 of the flight size, 5, 5, 6, 6, 7, 7, 8, 8.
/// The eighth reaches it, after seven that allowed a segment each. Both reduce the window to half
/// of ten segments.
#[test]
fn ncr_waits_for_a_window_of_duplicates() {
    for (detection, released) in [(LossDetection::NcrCareful, 4), (LossDetection::NcrAggressive, 7)]
    {
        let mut pipe = sends(Variant::Ncr, Some(detection), 40_000, 1, None);
        pipe.run(ms(200));
        let mut expected = segments(200, 10_001, released);
        expected.push((200, 1));
        assert_eq!(since(&pipe, 200), expected, "{detection:?}");
        assert_eq!(state(&pipe), (5.0, 5.0, 1, 1), "{detection:?}");
    }
}

/// The sixth segment arrives 20 ms late. Five ACKs grow the window to 15 and allow ten segments. Of
/// four duplicates, the first and third allow one segment each. At 220 ms, after an ACK of ten
/// segments, 12 are outstanding. The window is set to 13, from which slow start restores 15, and
/// one segment is sent.
#[test]
fn ncr_goes_back_to_its_flight() {
    let late = Some(Duration::from_millis(70));
    let mut pipe = sends(Variant::Ncr, None, 60_000, 5_001, late);
    pipe.run(ms(219));
    assert_eq!(since(&pipe, 200), segments(200, 10_001, 12));
    pipe.run(ms(220));
    assert_eq!(since(&pipe, 201), [(220, 22_001)]);
    assert_eq!(state(&pipe), (13.0, 15.0, 0, 0));
}

/// Yun 2009, figure 4, with ten segments of which the first, third and fifth are lost. The first
/// two duplicates remove the segments that triggered them from the list, which allows one segment
/// each. The third duplicate (sixth segment) is the third later arrival for the first segment, the
/// next two for the third and fifth. Each halves the window: lists of 9, 8 and 7.
#[test]
fn lhp_cuts_for_each_lost_segment() {
    let config = config(Variant::Lhp, None);
    let mut lost = vec![1, 2_001, 4_001];
    let fate = move |end: usize, _: u64, _, header: &TcpHeader| {
        let place = lost.iter().position(|&seq| end == OPENER && header.seq == seq);
        let is_lost = header.payload > 0 && place.map(|place| lost.remove(place)).is_some();
        if is_lost { Vec::new() } else { vec![DELAY] }
    };
    let mut pipe = Pipe::new(&config, Box::new(fate));
    pipe.ends[OPENER].write(40_000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    assert_eq!(
        since(&pipe, 200),
        [(200, 10_001), (200, 11_001), (200, 1), (200, 2_001), (200, 4_001)]
    );
    assert_eq!(state(&pipe), (3.5, 3.5, 3, 3));
    pipe.run(ms(3_000));
    assert!(pipe.ends[OPENER].is_all_acked());
    assert_eq!(state(&pipe).3, 3, "nothing went a third time");
}

/// The first of ten segments is received with errors. Its header reaches the receiver at 149 ms,
/// and the notification reaches the sender at 199 ms. The sender retransmits the segment without a
/// reduction. HACK's third duplicate nevertheless reduces the window to half of 10, and its
/// recovery retransmits the segment once more; of nine duplicates, the last two allow a segment.
/// HACK-fixed and LHP attribute the nine duplicates to the notified segment, and each allows a
/// segment.
#[test]
fn a_damaged_segment_goes_again_without_a_cut() {
    let hack = [(199, 1), (200, 10_001), (200, 11_001), (200, 1), (200, 12_001), (200, 13_001)];
    let mut clean = vec![(199, 1)];
    clean.extend(segments(200, 10_001, 9));
    for (variant, expected, cuts) in [
        (Variant::Hack, hack.to_vec(), 1),
        (Variant::HackFixed, clean.clone(), 0),
        (Variant::Lhp, clean, 0),
    ] {
        let mut pipe = sends(variant, None, 40_000, 1, None);
        pipe.run(ms(149));
        let is_first = |sent: &&Sent| sent.end == OPENER && sent.header.payload > 0;
        let damaged = pipe.log.iter().find(is_first).unwrap().header;
        pipe.ends[ACCEPTOR].receive_damaged(ms(149), &damaged);
        pipe.pump(ACCEPTOR);
        let message = pipe.log.last().unwrap();
        assert_eq!((message.header.flags, message.header.ack), (flags::ELN, 1));
        pipe.run(ms(200));
        assert_eq!(since(&pipe, 199), expected, "{variant:?}");
        assert_eq!(state(&pipe).2, cuts, "{variant:?}");
        pipe.run(ms(3_000));
        assert!(pipe.ends[OPENER].is_all_acked(), "{variant:?}");
    }
}

/// Marked duplicates request a segment that a link has lost. The first triggers its retransmission,
/// the others have no effect. Without marks, the sender behaves like Reno.
#[test]
fn a_marked_duplicate_sends_again_once() {
    for (marks, sent, cuts) in
        [(true, vec![(200, 1)], 0), (false, vec![(200, 10_001), (200, 11_001), (200, 1)], 1)]
    {
        let mut pipe = sends(Variant::BalakrishnanEln, None, 40_000, 1, None);
        pipe.run(ms(199));
        // Nine duplicates are in transit to the opener.
        if marks {
            pipe.edit_flying(OPENER, |header| header.flags |= flags::NOTICE);
        }
        pipe.run(ms(200));
        let first = sent.len();
        assert_eq!(since(&pipe, 200)[..first], sent, "{marks}");
        assert_eq!(state(&pipe).2, cuts, "{marks}");
    }
}
