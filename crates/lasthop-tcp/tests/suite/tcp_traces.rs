//! Profile `rfc` compared with traces derived by hand from the RFCs. The pipe has a delay of 50 ms
//! each way and no transmission time. Segments have 1000 bytes; the SYN is byte 0. `sent` shows `S`
//! for SYN, `F` for FIN, `A n` for a pure ACK of all data below n, and `n` for data from byte n on.

use crate::tcp_pipe::{ACCEPTOR, OPENER, Pipe, ms};
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_tcp::config::UndoKind;
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};

pub const DELAY: Duration = Duration::from_millis(50);

pub fn config(variant: Variant, set: Overrides) -> Config {
    let set = Overrides { segment: Some(Bytes::new(1000)), ..set };
    presets::config(variant, Profile::Rfc, &set)
}

/// Every segment is acknowledged immediately.
pub fn at_once() -> Overrides {
    Overrides { delayed_ack: Some(None), ..Overrides::default() }
}

/// Returns a pipe that drops the opener's data segments that begin at these bytes, each the given
/// number of times.
pub fn losing(config: &Config, lost: &[(u32, u32)]) -> Pipe<'static> {
    let mut lost = lost.to_vec();
    Pipe::with_losses(config, DELAY, move |end, _, header: &TcpHeader| {
        let fate = lost.iter_mut().find(|(seq, left)| {
            end == OPENER && header.payload > 0 && header.seq == *seq && *left > 0
        });
        fate.is_some_and(|(_, left)| {
            *left -= 1;
            true
        })
    })
}

fn data(list: &[(u64, u64)]) -> Vec<(u64, String)> {
    list.iter().map(|&(at, seq)| (at, seq.to_string())).collect()
}

fn acks(list: &[(u64, u64)]) -> Vec<(u64, String)> {
    list.iter().map(|&(at, ack)| (at, format!("A {ack}"))).collect()
}

/// Returns the segments sent by the opener from `from` ms on.
pub fn since(pipe: &Pipe, from: u64) -> Vec<(u64, String)> {
    pipe.sent(OPENER).into_iter().filter(|&(at, _)| at >= from).collect()
}

/// RFC 9293, figure 6.
#[test]
fn three_way_handshake() {
    let mut pipe = losing(&config(Variant::Reno, at_once()), &[]);
    pipe.ends[OPENER].open();
    pipe.pump(OPENER);
    pipe.run(ms(10_000));
    let [syn, syn_ack, ack] = pipe.log[..] else { panic!("{:?}", pipe.log) };
    assert_eq!((syn.at, syn.end, syn.header.seq, syn.header.flags), (ms(0), OPENER, 0, flags::SYN));
    assert_eq!(syn_ack.header.flags, flags::SYN | flags::ACK);
    assert_eq!((syn_ack.at, syn_ack.end, syn_ack.header.ack), (ms(50), ACCEPTOR, 1));
    assert_eq!(
        (ack.at, ack.header.flags, ack.header.seq, ack.header.ack),
        (ms(100), flags::ACK, 1, 1)
    );
    assert!(pipe.ends.iter().all(|end| end.is_all_acked()));
}

/// An acceptor in LISTEN sends no segments, even if data has been written.
#[test]
fn an_acceptor_waits_for_the_syn() {
    let mut pipe = losing(&config(Variant::Reno, at_once()), &[]);
    pipe.ends[ACCEPTOR].write(1500);
    pipe.pump(ACCEPTOR);
    pipe.run(ms(500));
    assert!(pipe.log.is_empty());
    pipe.ends[OPENER].open();
    pipe.pump(OPENER);
    pipe.run(ms(10_000));
    assert_eq!(pipe.ends[OPENER].delivered_bytes(), 1500);
    let sent = pipe.sent(ACCEPTOR);
    assert_eq!(sent[0], (550, "S".to_owned()));
    assert_eq!(sent[1..3], [(650, "1".to_owned()), (650, "1001".to_owned())]);
}

/// RFC 5681, section 4.2: an ACK for at least every second full segment, and within 500 ms; here
/// 200 ms.
#[test]
fn delayed_acks() {
    let mut pipe = losing(&config(Variant::Reno, Overrides::default()), &[]);
    pipe.ends[OPENER].write(5000);
    pipe.pump(OPENER);
    pipe.run(ms(10_000));
    // RFC 6928: 10 segments may be sent initially; the ACK of the last of the five is delayed.
    assert_eq!(
        since(&pipe, 1),
        data(&[(100, 1), (100, 1001), (100, 2001), (100, 3001), (100, 4001)])
    );
    let sent = pipe.sent(ACCEPTOR);
    assert_eq!(sent[1..], acks(&[(150, 2001), (150, 4001), (350, 5001)]));
}

/// RFC 5681, section 4.2: out-of-order and gap-filling segments are acknowledged immediately.
#[test]
fn gaps_are_acknowledged_at_once() {
    let mut pipe = losing(&config(Variant::Reno, Overrides::default()), &[(1001, 1)]);
    pipe.ends[OPENER].write(5000);
    pipe.pump(OPENER);
    pipe.run(ms(10_000));
    // 1: delayed. 2001: immediate, together with the delayed one. 3001, 4001: immediate, and two
    // duplicates are below the threshold. The timer, restarted at 200 ms, retransmits at 1200 ms.
    // The segment that fills the gap is acknowledged immediately.
    let sent = pipe.sent(ACCEPTOR);
    assert_eq!(sent[1..], acks(&[(150, 1001), (150, 1001), (150, 1001), (1250, 5001)]));
}

/// RFC 5681, section 3.2, with limited transmit (RFC 3042). Of ten segments, the first is lost.
#[test]
fn reno_fast_retransmit_and_recovery() {
    let mut pipe = losing(&config(Variant::Reno, at_once()), &[(1, 1)]);
    pipe.ends[OPENER].write(40_000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    // Nine duplicates arrive at 200 ms. Two trigger limited transmit; the third triggers the
    // retransmission and halves the window. The flight size was 10, not counting these two, so
    // ssthresh = 5. The window is 5 + 3, plus 1 for each of the six others: 14 segments from 1 on,
    // 12 of which have been sent.
    let sender = pipe.ends[OPENER].sender();
    assert_eq!((sender.congestion_window(), sender.slow_start_threshold()), (5.0, 5.0));
    assert_eq!(
        since(&pipe, 200),
        data(&[(200, 10_001), (200, 11_001), (200, 1), (200, 12_001), (200, 13_001)])
    );
    pipe.run(ms(300));
    // At 300 ms the ACKs of the segments sent at 200 ms arrive, in that order. Two duplicates (for
    // 10001 and 11001) inflate the window to 16: 14001 and 15001 are sent. The ACK of the
    // retransmission covers all data below 12001, and the window is deflated to 5: 12001 to 16001,
    // of which 16001 is new. The ACKs of 12001 and 13001 grow it by 1/5 and 1/5.2 and allow one
    // segment each.
    assert_eq!(
        since(&pipe, 300),
        data(&[(300, 14_001), (300, 15_001), (300, 16_001), (300, 17_001), (300, 18_001)])
    );
    let sender = pipe.ends[OPENER].sender();
    assert!((sender.congestion_window() - (5.2 + 1.0 / 5.2)).abs() < 1e-12);
    pipe.run(ms(20_000));
    let counters = pipe.ends[OPENER].counters();
    assert_eq!((counters.retransmissions, counters.timeouts, counters.window_cuts), (1, 0, 1));
}

/// RFC 6582: the ACK of the first retransmission is partial; the next hole is retransmitted
/// immediately.
#[test]
fn newreno_partial_ack() {
    let set = Overrides { limited_transmit: Some(false), ..at_once() };
    let mut pipe = losing(&config(Variant::NewReno, set), &[(1, 1), (4001, 1)]);
    pipe.ends[OPENER].write(40_000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    // Eight duplicates. Third: 1 is retransmitted, ssthresh = 10 / 2. Window 5 + 3 + 5 = 13: three
    // new segments.
    assert_eq!(since(&pipe, 200), data(&[(200, 1), (200, 10_001), (200, 11_001), (200, 12_001)]));
    pipe.run(ms(300));
    // ACK 4001 is partial. Four segments deflate the inflation of 8 to 4, plus one; 4001 is
    // retransmitted. The window is 5 + 5 = 10 from 4001 on: 13001 fits. Three duplicates inflate
    // it: three new segments.
    assert_eq!(
        since(&pipe, 300),
        data(&[(300, 4001), (300, 13_001), (300, 14_001), (300, 15_001), (300, 16_001)])
    );
    pipe.run(ms(20_000));
    let counters = pipe.ends[OPENER].counters();
    assert_eq!((counters.retransmissions, counters.timeouts, counters.window_cuts), (2, 0, 1));
}

/// RFC 6675, section 5: one reduction, holes by NextSeg rule 1 as pipe permits, then new data by
/// rule 2.
#[test]
fn sack_recovery_of_three_holes() {
    let set = Overrides { limited_transmit: Some(false), ..at_once() };
    let mut pipe = losing(&config(Variant::Sack, set), &[(1, 1), (2001, 1), (4001, 1)]);
    pipe.ends[OPENER].write(40_000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    // Sent: 1 to 9001. SACKed in this order: 1001, 3001, 5001, 6001, 7001, 8001, 9001. On the third
    // duplicate there are three ranges, so 1 is lost and retransmitted. cwnd = 5.
    //
    // Not SACKed: 1, 2001, 4001, 6001 to 9001. IsLost: above 1 there are three ranges (1001, 3001,
    // 5001). Above 2001 there are two ranges and 2000 bytes, not more than 2000: not lost. pipe =
    // 2001, 4001, 6001, 7001, 8001, 9001 and the retransmission: 7.
    //
    // Fourth (6001 SACKed): 3001 and 5001-7000 are 3000 bytes above 2001: lost. Above 4001 there
    // are 2000 bytes: not lost. pipe = 4001, 7001, 8001, 9001, 1: 5. Fifth (7001): 3000 bytes above
    // 4001: lost. pipe = 8001, 9001, 1: 3; two segments may be sent: 2001, 4001. Sixth (8001): 4:
    // new data, 10001. Seventh (9001): 4: 11001.
    assert_eq!(
        since(&pipe, 200),
        data(&[(200, 1), (200, 2001), (200, 4001), (200, 10_001), (200, 11_001)])
    );
    let sender = pipe.ends[OPENER].sender();
    assert_eq!((sender.congestion_window(), sender.slow_start_threshold()), (5.0, 5.0));
    pipe.run(ms(20_000));
    let counters = pipe.ends[OPENER].counters();
    assert_eq!((counters.retransmissions, counters.timeouts, counters.window_cuts), (3, 0, 1));
    // RFC 2018: the first block contains the segment that triggered the ACK.
    let blocks: Vec<_> = pipe
        .log
        .iter()
        .filter(|sent| sent.end == ACCEPTOR && sent.at == ms(150))
        .map(|sent| sent.header.options.sack[..usize::from(sent.header.sack_blocks)].to_vec())
        .collect();
    assert_eq!(blocks[2], [(5001, 6001), (3001, 4001), (1001, 2001)]);
    assert_eq!(blocks[6], [(5001, 10_001), (3001, 4001), (1001, 2001)]);
}

/// RFC 6675, NextSeg rule 3: without new data, a hole that is not declared lost is retransmitted.
#[test]
fn sack_rule_3_resends_what_may_be_lost() {
    let set = Overrides { limited_transmit: Some(false), ..at_once() };
    let mut pipe = losing(&config(Variant::Sack, set), &[(1, 1), (5001, 1)]);
    pipe.ends[OPENER].write(7000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    // SACKed: 1001 to 5000, then 6001. Third duplicate: cwnd = 3.5, 1 is retransmitted. At the last
    // two, pipe is 5001, 6001 and 1, then 5001 and 1. The window permits a segment and there is no
    // new data. Only 1000 bytes are SACKed above 5001.
    assert_eq!(since(&pipe, 200), data(&[(200, 1), (200, 5001)]));
    pipe.run(ms(20_000));
    assert_eq!(pipe.ends[OPENER].counters().timeouts, 0);
}

/// RFC 6675, NextSeg rule 4: the beginning and the end of the flight are lost; the rescue
/// retransmission triggers an ACK that maintains the ACK clock.
#[test]
fn sack_rule_4_rescues_the_tail() {
    let set = Overrides { limited_transmit: Some(false), ..at_once() };
    let mut pipe = losing(&config(Variant::Sack, set), &[(1, 1), (8001, 1), (9001, 1)]);
    pipe.ends[OPENER].write(10_000);
    pipe.pump(OPENER);
    pipe.run(ms(200));
    // SACKed: 1001 to 8000. cwnd = 5; pipe at the last duplicate: 8001, 9001 and 1. There is no
    // further hole below a SACKed segment, so the last segment is retransmitted, once.
    assert_eq!(since(&pipe, 200), data(&[(200, 1), (200, 9001)]));
    pipe.run(ms(20_000));
    let counters = pipe.ends[OPENER].counters();
    assert_eq!((counters.timeouts, counters.retransmissions), (0, 3));
}

/// RFC 6298, rules 5.4 to 5.7, and Karn's algorithm.
#[test]
fn timeouts_double_and_a_retransmission_is_no_sample() {
    let mut pipe = losing(&config(Variant::Reno, at_once()), &[(1, 3)]);
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    pipe.run(ms(9_000));
    // The RTT sample of the SYN is 100 ms, RTO = max(1 s, 100 + 4 * 50). Sent at 100 ms; then after
    // 1, 2 and 4 s. The acceptor, whose SYN-ACK is not acknowledged, retransmits it after 1 s, and
    // the opener answers with a pure ACK.
    let (sent, repeated): (Vec<_>, Vec<_>) =
        since(&pipe, 1).into_iter().partition(|(_, text)| !text.starts_with('A'));
    assert_eq!(sent, data(&[(100, 1), (1100, 1), (3100, 1), (7100, 1)]));
    assert_eq!(repeated, acks(&[(1100, 1)]));
    assert_eq!(pipe.ends[OPENER].srtt(), Duration::from_millis(100));
    assert!(pipe.ends[OPENER].is_all_acked());
    // Backoff persists until a segment sent only once is acknowledged: the next RTO is still 8 s.
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    assert_eq!(pipe.ends[OPENER].next_timeout(), ms(17_000));
    pipe.run(ms(9_100));
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    assert_eq!(pipe.ends[OPENER].next_timeout(), ms(10_100));
}

/// Returns the segments that the opener sends within 5 s, and its threshold, if its first `syns`
/// SYNs and all its data segments are lost.
fn losing_syns(syns: u64) -> (Vec<(u64, String)>, f64) {
    let config = config(Variant::Reno, at_once());
    let mut pipe = Pipe::with_losses(&config, DELAY, move |end, count, header| {
        end == OPENER && (count < syns || header.payload > 0)
    });
    pipe.ends[OPENER].write(5000);
    pipe.pump(OPENER);
    pipe.run(ms(5_000));
    (pipe.sent(OPENER), pipe.ends[OPENER].sender().slow_start_threshold())
}

/// RFC 6298, rules 2.1 and 5.7: after a lost SYN the RTO is 3 s. RFC 6928, section 2: one lost SYN
/// does not change the initial window, two reduce it to one segment.
#[test]
fn lost_syns() {
    let (sent, threshold) = losing_syns(1);
    let text = |at: u64, what: &str| (at, what.to_owned());
    assert_eq!(sent[..2], [text(0, "S"), text(1000, "S")]);
    // The ACK of the SYN-ACK is piggybacked on the first segment. As that is lost, the acceptor
    // retransmits its SYN, which is acknowledged.
    assert_eq!(
        sent[2..7],
        data(&[(1100, 1), (1100, 1001), (1100, 2001), (1100, 3001), (1100, 4001)])
    );
    assert_eq!(sent[7..], [text(2100, "A 1"), text(4100, "1")]);
    // The flight size of five was halved at 4.1 s; the SYN does not affect it.
    assert_eq!(threshold, 2.5);

    let (sent, threshold) = losing_syns(2);
    assert_eq!(sent[..3], [text(0, "S"), text(1000, "S"), text(3000, "S")]);
    assert_eq!(sent[3..], [text(3100, "1"), text(4100, "A 1")]);
    assert_eq!(threshold, f64::INFINITY);
}

/// RFC 7323, section 4.3: a delayed ACK echoes the first segment that it acknowledges, so that the
/// delay is part of the RTT.
#[test]
fn timestamps_measure_every_ack_with_its_delay() {
    let set = Overrides { timestamps: Some(true), ..Overrides::default() };
    let mut pipe = losing(&config(Variant::Reno, set), &[]);
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    pipe.run(ms(130));
    // A second segment is sent 30 ms after the first. Its arrival triggers the ACK, which echoes
    // the first.
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    pipe.run(ms(10_000));
    let ack = pipe.log.iter().rfind(|sent| sent.end == ACCEPTOR).unwrap();
    assert_eq!((ack.at, ack.header.ack), (ms(180), 2001));
    assert_eq!(
        ack.header.options.timestamps.1, 101,
        "the clock of the first segment, sent at 100 ms"
    );
    // SRTT: 100 from the handshake, then 7/8 * 100 + 1/8 * 130.
    assert_eq!(pipe.ends[OPENER].srtt(), Duration::from_nanos(103_750_000));
}

/// A FIN occupies one sequence number; it is acknowledged and retransmitted like data.
#[test]
fn fins_close_both_ways_and_are_resent() {
    let mut lost = false;
    let mut pipe =
        Pipe::with_losses(&config(Variant::Reno, at_once()), DELAY, move |end, _, header| {
            let is_fin = end == OPENER && header.flags & flags::FIN != 0;
            is_fin && !std::mem::replace(&mut lost, true)
        });
    pipe.ends[OPENER].write(1000);
    pipe.pump(OPENER);
    pipe.ends[OPENER].close();
    pipe.ends[ACCEPTOR].close();
    pipe.run(ms(20_000));
    let sent = since(&pipe, 100);
    assert_eq!(sent[..2], [(100, "1".to_owned()), (100, "F".to_owned())]);
    let fins = sent.iter().filter(|(_, text)| text == "F").count();
    assert_eq!(fins, 2);
    assert!(pipe.ends.iter().all(|end| end.is_all_acked()));
    let fin = pipe.log.iter().find(|sent| sent.header.flags & flags::FIN != 0).unwrap();
    assert_eq!((fin.header.seq, fin.header.payload), (1001, 0));
}

/// Pacing: no bursts. After the handshake the RTT is 100 ms and the window 10 segments in slow
/// start: one segment is sent every 100 / (2 * 10) = 5 ms. The interval decreases as each ACK grows
/// the window by one.
#[test]
fn pacing_spreads_a_window() {
    let set = Overrides { pacing: Some(true), ..at_once() };
    let mut pipe = losing(&config(Variant::Cubic, set), &[]);
    pipe.ends[OPENER].write(60_000);
    pipe.pump(OPENER);
    pipe.run(ms(199));
    let first: Vec<_> = (0..10).map(|k| (100 + 5 * k, 1 + 1000 * k)).collect();
    assert_eq!(since(&pipe, 100), data(&first));
    pipe.run(ms(10_000));
    let sent: Vec<_> = pipe.log.iter().filter(|sent| sent.end == OPENER).collect();
    let data = sent.iter().filter(|sent| sent.header.payload > 0);
    let times: Vec<_> = data.map(|sent| sent.at).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    assert!(pipe.ends[OPENER].is_all_acked());
    let counters = pipe.ends[OPENER].counters();
    assert_eq!((counters.retransmissions, counters.timeouts), (0, 0));
}

/// The ACK of the SYN delivers one byte per RTT, which does not measure the rate of the path. The
/// first window is sent with the gain of STARTUP, at 2.885 or 2.77 windows per round trip.
#[test]
fn a_syn_tells_bbr_no_rate() {
    for (variant, gain) in [(Variant::Bbr, 2.885), (Variant::Bbr3, 2.77)] {
        let mut pipe = losing(&config(variant, at_once()), &[]);
        pipe.ends[OPENER].write(60_000);
        pipe.pump(OPENER);
        pipe.run(ms(199));
        let leaves = |k: u64| 100 + (10.0 * k as f64 / gain) as u64;
        let first: Vec<_> = (0..10).map(|k| (leaves(k), 1 + 1000 * k)).collect();
        assert_eq!(since(&pipe, 100), data(&first), "{variant:?}");
    }
}

/// HyStart++ takes its RTT samples from the records of sent segments: the queue of a slow link ends
/// slow start before a segment is lost.
#[test]
fn hystart_ends_slow_start_without_a_loss() {
    for variant in [Variant::Reno, Variant::Cubic] {
        let threshold = |hystart| {
            let set =
                Overrides { hystart: Some(hystart), receive_window: Some(3000.0), ..at_once() };
            // A link with 2 ms transmission time per segment, and 50 ms each way.
            let mut free = ms(0);
            let config = config(variant, set);
            let fate = Box::new(move |end, _, now: Instant, header: &TcpHeader| {
                if end == ACCEPTOR || header.payload == 0 {
                    return vec![DELAY];
                }
                free = free.max(now) + Duration::from_millis(2);
                vec![free - now + DELAY]
            });
            let mut pipe = Pipe::new(&config, fate);
            pipe.ends[OPENER].write(8_000_000);
            pipe.pump(OPENER);
            pipe.run(ms(9000));
            assert_eq!(pipe.ends[OPENER].counters().retransmissions, 0);
            pipe.ends[OPENER].sender().slow_start_threshold()
        };
        assert_eq!(threshold(false), f64::INFINITY, "{variant:?}");
        // 51 segments are in transit without queueing. At most two rounds, which double the window,
        // pass before detection. Five rounds with a quarter of the growth follow: 51 * 4 * 1.25^5 =
        // 623.
        let threshold = threshold(true);
        assert!((51.0..623.0).contains(&threshold), "{variant:?} {threshold}");
    }
}

fn eifel(is_on: bool) -> Overrides {
    let undo = Some(if is_on { UndoKind::Eifel } else { UndoKind::Off });
    Overrides { undo, timestamps: Some(true), ..at_once() }
}

/// RFC 3522: the path delivers no segments until 2.1 s. The timer expires at 1.1 s. The ACKs of the
/// originals arrive before the ACK of the retransmission: no segment was lost.
#[test]
fn eifel_takes_a_spurious_timeout_back() {
    for variant in [Variant::Reno, Variant::NewReno, Variant::Sack, Variant::Cubic] {
        let run = |is_on| {
            let config = config(variant, eifel(is_on));
            let fate = Box::new(|_, _, now: Instant, header: &TcpHeader| {
                let arrives = if header.payload > 0 { ms(2100) } else { ms(0) };
                vec![arrives.max(now + DELAY) - now]
            });
            let mut pipe = Pipe::new(&config, fate);
            pipe.ends[OPENER].write(200_000);
            pipe.pump(OPENER);
            pipe.run(ms(2150));
            pipe
        };
        let pipe = run(true);
        // Ten segments were sent. The first ACK restores the window of 10 and allows the next. Each
        // of the other nine grows it by one and allows two. The duplicate triggered by the
        // retransmission allows one more by limited transmit; not with SACK, because it contains no
        // new SACK block.
        let count = if variant.has_sack() { 19 } else { 20 };
        let new: Vec<_> = (0..count).map(|k| (2150, 10_001 + 1000 * k)).collect();
        let resent: Vec<_> = since(&pipe, 1100).into_iter().filter(|&(at, _)| at < 2150).collect();
        // The acceptor also retransmits its SYN.
        assert_eq!(resent, [(1100, "A 1".to_owned()), (1100, "1".to_owned())]);
        assert_eq!(since(&pipe, 2150), data(&new), "{variant:?}");
        let counters = pipe.ends[OPENER].counters();
        assert_eq!((counters.timeouts, counters.retransmissions), (1, 1), "{variant:?}");
        assert_eq!(counters.spurious_reductions, 1);
        let sender = pipe.ends[OPENER].sender();
        assert_eq!(
            (sender.congestion_window(), sender.slow_start_threshold()),
            (19.0, f64::INFINITY)
        );
        // Without Eifel, the sender retransmits segments that have arrived.
        let pipe = run(false);
        let counters = pipe.ends[OPENER].counters();
        assert!(counters.retransmissions > 1 && counters.spurious_reductions == 0, "{variant:?}");
    }
}

/// RFC 3522: the first of ten segments is delayed by 30 ms, three duplicates trigger its
/// retransmission, and the ACK of the original arrives before the retransmission does.
#[test]
fn eifel_takes_a_spurious_fast_retransmit_back() {
    for variant in [Variant::Reno, Variant::NewReno, Variant::Sack, Variant::Cubic] {
        let config = config(variant, eifel(true));
        let fate = Box::new(|_, _, now: Instant, header: &TcpHeader| {
            let is_late = header.seq == 1 && header.payload > 0 && now < ms(150);
            vec![if is_late { DELAY + Duration::from_millis(30) } else { DELAY }]
        });
        let mut pipe = Pipe::new(&config, fate);
        pipe.ends[OPENER].write(10_000);
        pipe.pump(OPENER);
        pipe.run(ms(229));
        // RFC 6675 also retransmits the last segment once, as its rescue retransmission.
        let resent = if variant.has_sack() { &[(200, 1), (200, 9001)][..] } else { &[(200, 1)] };
        assert_eq!(since(&pipe, 200), data(resent), "{variant:?}");
        assert!(pipe.ends[OPENER].sender().congestion_window() < 10.0);
        pipe.run(ms(10_000));
        let counters = pipe.ends[OPENER].counters();
        assert_eq!(counters.retransmissions, resent.len() as u64, "{variant:?}");
        assert_eq!(counters.spurious_reductions, 1, "{variant:?}");
        let sender = pipe.ends[OPENER].sender();
        assert!(sender.congestion_window() >= 10.0, "{variant:?}");
        assert_eq!(sender.slow_start_threshold(), f64::INFINITY);
    }
}
