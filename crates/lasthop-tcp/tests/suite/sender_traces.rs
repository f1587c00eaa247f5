//! Tahoe, TCP-DCR, NCR, LHP and the senders that hear of losses on a link against traces worked by hand. The pipe takes 50 ms each way and transmits in no time; segments
//! have 1000 bytes, the SYN is byte 0, ten segments leave at 100 ms.

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

/// Sends `bytes`; the first copy of the segment that begins with `odd` is lost, or takes `late`.
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

/// What the opener sent from `from` ms on: when, and the first byte.
fn since(pipe: &Pipe, from: u64) -> Vec<(u64, u64)> {
    let sent = pipe.sent(OPENER).into_iter().filter(|&(at, _)| at >= from);
    sent.map(|(at, segment)| (at, segment.parse().unwrap())).collect()
}

/// The window, the threshold, reductions and retransmissions.
fn state(pipe: &Pipe) -> (f64, f64, u64, u64) {
    let end = &pipe.ends[OPENER];
    let (sender, counters) = (end.sender(), end.counters());
    let windows = (sender.congestion_window(), sender.slow_start_threshold());
    (windows.0, windows.1, counters.window_cuts, counters.retransmissions)
}

/// Segments of 1000 bytes from `first` on, all at `at`.
fn segments(at: u64, first: u64, count: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (at, first + 1000 * number)).collect()
}

/// Nine duplicates at 200 ms: two by limited transmit, the third resends; the window is 1, so that the other six release
/// nothing. At 300 ms two more duplicates, then an ACK of everything: slow start from 1 to 2.
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

/// Nine duplicates at 200 ms release a segment each; a round trip of 100 ms after the first the loss counts. The flight at
/// the first duplicate was 10.
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

/// The link delivers the missing segment 80 ms late: its ACK stops the timer at 280 ms. SACK has cut at 200 ms.
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

/// RFC 4653. Careful: DupThresh is 2/3 of the flight, 10 to 14 segments, that is 6, 7, 7, 8, 8, 8, 8, 9, 9 at the nine
/// duplicates; the ninth reaches it. The first, third, fifth and seventh release a segment. Aggressive: half, 5, 5, 6, 6, 7,
/// 7, 8, 8; the eighth reaches it, seven have released one. Either way half of ten segments is left.
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

/// The sixth segment comes 20 ms late. Five ACKs open the window to 15 and release ten segments; of four duplicates the first
/// and third release one each. At 220 ms an ACK of ten segments leaves 12 outstanding: the window is 13, from where slow
/// start leads back to 15, and one segment goes.
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

/// Yun 2009, figure 4, with ten segments of which the first, third and fifth are lost. The first two duplicates take their
/// triggers off the list and make room for one segment each. The third (sixth segment) is the third later arrival for the
/// first segment, the next two for the third and fifth: three reductions by half of lists of 9, 8 and 7.
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

/// The first of ten segments is damaged; its header reaches the receiver at 149 ms, whose message reaches the sender at
/// 199 ms. That sends it again, without a cut. HACK's third duplicate cuts all the same, and its recovery resends the segment
/// once more: half of 10, so that of nine duplicates the last two release a segment. HACK-fixed and LHP take the nine for
/// what they are, and a segment leaves for each.
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

/// Marked duplicates ask for what a link has lost: the first sends it again, the others do nothing. Without marks it
/// is Reno.
#[test]
fn a_marked_duplicate_sends_again_once() {
    for (marks, sent, cuts) in
        [(true, vec![(200, 1)], 0), (false, vec![(200, 10_001), (200, 11_001), (200, 1)], 1)]
    {
        let mut pipe = sends(Variant::BalakrishnanEln, None, 40_000, 1, None);
        pipe.run(ms(199));
        // What is on its way to the opener: nine duplicates.
        if marks {
            pipe.edit_flying(OPENER, |header| header.flags |= flags::NOTICE);
        }
        pipe.run(ms(200));
        let first = sent.len();
        assert_eq!(since(&pipe, 200)[..first], sent, "{marks}");
        assert_eq!(state(&pipe).2, cuts, "{marks}");
    }
}
