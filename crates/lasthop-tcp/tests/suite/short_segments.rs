//! Short segments: Nagle's algorithm.

use crate::tcp_pipe::{OPENER, Pipe, ms};
use crate::tcp_traces::{at_once, losing};
use lasthop_base::units::Bytes;
use lasthop_tcp::{Overrides, Profile, Variant, presets};

/// Time and payload of the data segments after six calls of 100 bytes: three at 1,000 ms, three at
/// 1,020 ms. A segment arrives after 50 ms.
fn small_writes(profile: Profile, nagle: Option<bool>) -> Vec<(u64, u32)> {
    let set = Overrides { segment: Some(Bytes::new(1000)), nagle, ..at_once() };
    let mut pipe = losing(&presets::config(Variant::Cubic, profile, &set), &[]);
    pipe.ends[OPENER].open();
    pipe.pump(OPENER);
    for then in [1_000, 1_020] {
        pipe.run(ms(then));
        for _ in 0..3 {
            pipe.ends[OPENER].write(100);
            pipe.pump(OPENER);
        }
    }
    pipe.run(ms(3_000));
    data(&pipe)
}

fn data(pipe: &Pipe) -> Vec<(u64, u32)> {
    let sent = pipe.log.iter().filter(|one| one.end == OPENER && one.header.payload > 0);
    sent.map(|one| (one.at.as_nanos() / 1_000_000, one.header.payload)).collect()
}

/// RFC 9293, section 3.7.4: the first segment is sent immediately, as nothing is unacknowledged. The
/// five other calls wait for its ACK at 1,100 ms, and share a segment.
#[test]
fn small_writes_wait_for_an_acknowledgment() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let each = [[(1_000, 100); 3], [(1_020, 100); 3]].concat();
        assert_eq!(small_writes(profile, None), each, "{profile:?}");
        assert_eq!(small_writes(profile, Some(true)), [(1_000, 100), (1_100, 500)], "{profile:?}");
    }
}

/// Full segments do not wait, and neither does a short one that only full ones precede (Minshall):
/// with RFC 896 it would be sent at 1,100 ms.
#[test]
fn a_short_segment_after_full_ones_does_not_wait() {
    let set = Overrides { segment: Some(Bytes::new(1000)), nagle: Some(true), ..at_once() };
    let mut pipe = losing(&presets::config(Variant::Cubic, Profile::Rfc, &set), &[]);
    pipe.ends[OPENER].open();
    pipe.pump(OPENER);
    pipe.run(ms(1_000));
    pipe.ends[OPENER].write(2_500);
    pipe.pump(OPENER);
    pipe.ends[OPENER].write(1_700);
    pipe.pump(OPENER);
    pipe.run(ms(3_000));
    let at = |time, sizes: &[u32]| sizes.iter().map(|&size| (time, size)).collect::<Vec<_>>();
    assert_eq!(data(&pipe), [at(1_000, &[1000, 1000, 500, 1000]), at(1_100, &[700])].concat());
}
