//! Times by the factor that limits a sender, against manually computed transfers: an RTT of 100 ms,
//! an initial window of 10 segments, slow start with an ACK per segment.

use crate::tcp_pipe::{OPENER, Pipe, ms};
use lasthop_base::packet::TcpHeader;
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::{Limit, Overrides, Profile, Variant, presets};

const DELAY: Duration = Duration::from_millis(50);

fn set() -> Overrides {
    Overrides {
        segment: Some(Bytes::new(1000)),
        receive_window: Some(1000.0),
        initial_window: Some(10.0),
        delayed_ack: Some(None),
        fin: Some(false),
        ..Overrides::default()
    }
}

/// Returns the times of the opener in ms, in the order of [`Limit::ALL`], after a transfer of
/// `segments` segments. `is_lost` selects segments of data by their index.
fn times(set: &Overrides, segments: u64, is_lost: fn(u64) -> bool) -> [u64; 4] {
    let config = presets::config(Variant::Reno, Profile::Rfc, set);
    // The opener's first two segments are a SYN and an ACK.
    let is_lost = move |end, count: u64, _: &TcpHeader| end == OPENER && is_lost(count);
    let mut pipe = Pipe::with_losses(&config, DELAY, is_lost);
    pipe.ends[OPENER].write(1000 * segments);
    pipe.pump(OPENER);
    pipe.run(ms(60_000));
    assert!(pipe.ends[OPENER].is_all_acked());
    let usage = pipe.ends[OPENER].usage();
    let times = Limit::ALL.map(|limit| usage.limited_by(limit).as_nanos() / 1_000_000);
    assert_eq!(usage.busy().as_nanos() / 1_000_000, times.iter().sum::<u64>());
    times
}

/// The initial window suffices. The handshake is not measured.
#[test]
fn an_application_with_few_data() {
    assert_eq!(times(&set(), 3, |_| false), [0, 0, 0, 100]);
}

/// 10, 20 and 10 segments: data waits until the last 10 are sent.
#[test]
fn a_congestion_window() {
    assert_eq!(times(&set(), 40, |_| false), [200, 0, 0, 100]);
}

/// 1 and 2 segments. No data is outstanding when the ACK of the first one permits the others.
#[test]
fn a_window_of_one_segment() {
    let set = Overrides { initial_window: Some(1.0), ..set() };
    assert_eq!(times(&set, 3, |_| false), [100, 0, 0, 100]);
}

/// Four times 10 segments. Both windows are used up in the first RTT, in which the congestion window
/// is the limit as in Linux.
#[test]
fn a_receive_window() {
    let set = Overrides { receive_window: Some(10.0), ..set() };
    assert_eq!(times(&set, 40, |_| false), [100, 200, 0, 100]);
}

/// Four times 10 segments. In the first RTT, the congestion window is used up, too.
#[test]
fn a_send_buffer() {
    let set = Overrides { send_buffer: Some(Some(Bytes::new(10_000))), ..set() };
    assert_eq!(times(&set, 40, |_| false), [100, 0, 200, 100]);
}

/// A buffer with room for 9 full segments and a part of another one: no segment is short.
#[test]
fn an_application_writes_whole_segments() {
    let set = Overrides { send_buffer: Some(Some(Bytes::new(9_900))), ..set() };
    assert_eq!(times(&set, 27, |_| false), [0, 0, 200, 100]);
}

/// A buffer with room for all data changes nothing: each send call still ends a segment.
#[test]
fn a_large_send_buffer() {
    for profile in [Profile::Rfc, Profile::Ns2] {
        let sent = |send_buffer| {
            let set = Overrides { send_buffer, pad_segments: Some(false), ..set() };
            let config = presets::config(Variant::NewReno, profile, &set);
            let mut pipe = Pipe::with_losses(&config, DELAY, |end, count, _| {
                end == OPENER && matches!(count, 4 | 20)
            });
            for bytes in [1500, 2500, 70_300] {
                pipe.ends[OPENER].write(bytes);
            }
            pipe.ends[OPENER].close();
            pipe.pump(OPENER);
            pipe.run(ms(60_000));
            assert!(pipe.ends[OPENER].is_all_acked());
            pipe.sent(OPENER)
        };
        assert_eq!(sent(Some(Some(Bytes::new(100_000)))), sent(None), "{profile:?}");
    }
}

/// The last of 3 segments is lost after all were sent. The RTO is 1 s, started by the ACK of the
/// second segment after 100 ms; the ACK of the retransmission arrives 100 ms later.
#[test]
fn a_timeout_is_charged_to_loss_recovery() {
    assert_eq!(times(&set(), 3, |count| count == 3), [1200, 0, 0, 0]);
}

/// The times continue through a new connection between the same ports, and the time between the two
/// is not measured.
#[test]
fn times_of_several_connections() {
    let config = presets::config(Variant::Reno, Profile::Rfc, &set());
    let mut pipe = Pipe::with_losses(&config, DELAY, |_, _, _| false);
    for end in [1000, 5000] {
        pipe.ends.iter_mut().for_each(|end| end.reset(Duration::ZERO));
        pipe.ends[OPENER].write(1000);
        pipe.pump(OPENER);
        pipe.run(ms(end));
    }
    let usage = pipe.ends[OPENER].usage();
    assert_eq!(usage.busy(), Duration::from_millis(200));
    assert_eq!(usage.limited_by(Limit::Application), Duration::from_millis(200));
}

/// A new connection ends the measurement of one whose data is not acknowledged, at its latest input:
/// the SYN/ACK, at which the data was sent.
#[test]
fn a_new_connection_before_the_last_ack() {
    let config = presets::config(Variant::Reno, Profile::Rfc, &set());
    // Data of the first connection, and retransmissions of it, are lost.
    let mut pipe = Pipe::new(
        &config,
        Box::new(|end, _, now, header| {
            let is_lost = end == OPENER && header.payload > 0 && now < ms(1000);
            if is_lost { Vec::new() } else { vec![DELAY] }
        }),
    );
    for (write, end) in [(1000, 150), (1000, 6000)] {
        pipe.ends.iter_mut().for_each(|end| end.reset(Duration::ZERO));
        pipe.ends[OPENER].write(write);
        pipe.pump(OPENER);
        pipe.run(ms(end));
        if end == 150 {
            pipe.now = ms(5000);
        }
    }
    assert!(pipe.ends[OPENER].is_all_acked());
    assert_eq!(pipe.ends[OPENER].usage().busy(), Duration::from_millis(100));
}

/// A window of 20 segments limits the delivery rate, and BBR's pacing rate and window follow this rate, so that BBR
/// seldom waits for the window itself. The kernel charges this to the congestion window. One segment in 50 is lost.
/// Half of the time is the threshold of notes on limits.
#[test]
fn the_rate_of_a_receive_window() {
    for (window, is_bound) in [(20.0, true), (100_000.0, false)] {
        let set = Overrides { receive_window: Some(window), ..set() };
        let config = presets::config(Variant::Bbr, Profile::Linux, &set);
        let is_lost = |end, count: u64, _: &TcpHeader| end == OPENER && count % 50 == 30;
        let mut pipe = Pipe::with_losses(&config, DELAY, is_lost);
        pipe.ends[OPENER].write(2_000_000);
        pipe.pump(OPENER);
        pipe.run(ms(8_000));
        let usage = pipe.ends[OPENER].usage();
        let share = |time: Duration| time.as_secs_f64() / usage.busy().as_secs_f64();
        let times = Limit::ALL.map(|limit| share(usage.bounded_by(limit)));
        assert!((times.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let by_window = share(usage.bounded_by(Limit::ReceiveWindow));
        let of_kernel = share(usage.limited_by(Limit::ReceiveWindow));
        assert!(of_kernel < 0.5, "{window}: {of_kernel}");
        assert_eq!(by_window > 0.5, is_bound, "{window}: {times:?}");
        assert_eq!(by_window == 0.0, !is_bound, "{window}: {times:?}");
    }
}
