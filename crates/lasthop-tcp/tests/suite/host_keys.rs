//! Parameters of hosts: reports of duplicates, compressed ACKs, GSO segments, timeouts of a SYN.

use crate::tcp_pipe::{ACCEPTOR, OPENER, Pipe, ms};
use crate::tcp_traces::{DELAY, at_once, losing};
use lasthop_base::packet::{TcpHeader, flags};
use lasthop_base::units::{Bytes, Duration};
use lasthop_tcp::{Config, Overrides, Profile, Variant, presets};

fn config(variant: Variant, profile: Profile, set: Overrides) -> Config {
    presets::config(variant, profile, &Overrides { segment: Some(Bytes::new(1000)), ..set })
}

/// Opens the connection, writes `bytes` after 500 ms, and runs until 5 s.
fn transfer(pipe: &mut Pipe, bytes: u64) {
    pipe.ends[OPENER].open();
    pipe.pump(OPENER);
    pipe.run(ms(500));
    pipe.ends[OPENER].write(bytes);
    pipe.pump(OPENER);
    pipe.run(ms(5_000));
}

/// The ACK of a segment is lost, so its timeout is spurious. With DSACK, the ACK of the second copy
/// reports it (RFC 2883, section 4).
#[test]
fn a_duplicate_is_reported() {
    for (profile, dsack, blocks) in [
        (Profile::Rfc, None, vec![]),
        (Profile::Rfc, Some(true), vec![(1, 1001)]),
        (Profile::Linux, None, vec![(1, 1001)]),
        (Profile::Linux, Some(false), vec![]),
    ] {
        let config = config(Variant::Sack, profile, Overrides { dsack, ..at_once() });
        let mut acks = 0;
        let mut pipe = Pipe::with_losses(&config, DELAY, |end, _, header: &TcpHeader| {
            let is_ack = end == ACCEPTOR && header.ack == 1001;
            acks += u32::from(is_ack);
            is_ack && acks == 1
        });
        transfer(&mut pipe, 1000);
        let last = pipe.log.iter().rfind(|one| one.end == ACCEPTOR).unwrap().header;
        let found = &last.sack_blocks()[..last.sack_blocks.into()];
        assert_eq!(found, blocks, "{profile:?}, {dsack:?}");
    }
}

/// The first of 40 segments that arrive simultaneously is lost. The 39 others are acknowledged
/// immediately without compression. With it, three are, and the further ACKs are replaced by one
/// each time 44, or the given number of them, are held back or the delay expires.
#[test]
fn acks_above_a_hole_are_compressed() {
    for (count, acks) in [(Some(0), 39), (None, 4), (Some(8), 7)] {
        let set = Overrides {
            initial_window: Some(40.0),
            sack_compression_count: count,
            ..Overrides::default()
        };
        let config = config(Variant::Cubic, Profile::Linux, set);
        let mut pipe = losing(&config, &[(20_001, 1)]);
        pipe.ends[OPENER].open();
        pipe.pump(OPENER);
        pipe.run(ms(500));
        // The first segments of a connection are acknowledged immediately.
        pipe.ends[OPENER].write(20_000);
        pipe.pump(OPENER);
        pipe.run(ms(1_000));
        pipe.ends[OPENER].write(40_000);
        pipe.pump(OPENER);
        pipe.run(ms(5_000));
        let duplicates = pipe.log.iter().filter(|one| {
            one.end == ACCEPTOR && one.header.ack == 20_001 && one.header.sack_blocks > 0
        });
        assert_eq!(duplicates.count(), acks, "{count:?}");
    }
}

/// The last segment of a GSO segment has PSH: every second one of the initial window by default.
#[test]
fn a_gso_segment_has_at_least_the_given_number_of_segments() {
    for (least, pushed) in [(None, vec![2, 4, 6, 8, 10]), (Some(5), vec![5, 10])] {
        let set = Overrides { min_tso_segments: least, ..Overrides::default() };
        let mut pipe = losing(&config(Variant::Cubic, Profile::Linux, set), &[]);
        pipe.ends[OPENER].open();
        pipe.pump(OPENER);
        pipe.run(ms(500));
        pipe.ends[OPENER].write(50_000);
        pipe.pump(OPENER);
        let first = pipe.log.iter().filter(|one| one.end == OPENER && one.header.payload > 0);
        let found: Vec<_> = first
            .filter(|one| one.header.flags & flags::PSH != 0)
            .map(|one| (one.header.seq - 1) / 1000 + 1)
            .collect();
        assert_eq!(found, pushed, "{least:?}");
    }
}

/// RFC 6298, section 5.5: each timeout doubles the next one, except as many timeouts of a SYN as
/// `syn_linear_timeouts` specifies.
#[test]
fn timeouts_of_a_syn_are_linear_at_first() {
    for (profile, linear, times) in [
        (Profile::Rfc, None, vec![0, 1, 3, 7, 15]),
        (Profile::Rfc, Some(2), vec![0, 1, 2, 3, 5, 9, 17]),
        (Profile::Linux, None, vec![0, 1, 2, 3, 4, 5, 7, 11, 19]),
        (Profile::Linux, Some(0), vec![0, 1, 3, 7, 15]),
    ] {
        let set = Overrides {
            syn_linear_timeouts: linear,
            timer_tick: Some(Duration::ZERO),
            ..Overrides::default()
        };
        let config = config(Variant::Cubic, profile, set);
        let mut pipe = Pipe::with_losses(&config, DELAY, |_, _, _| true);
        pipe.ends[OPENER].open();
        pipe.pump(OPENER);
        pipe.run(ms(20_000));
        let found: Vec<_> = pipe.log.iter().map(|one| one.at.as_nanos() / 1_000_000_000).collect();
        assert_eq!(found, times, "{profile:?}, {linear:?}");
    }
}
