//! Live links under arbitrary packets at arbitrary times: no panic, and no packet that did not go in.
//!
//! Input: protocol, then for each packet a pause in 64 µs, a side, a length, bytes.

#![no_main]

mod common;

use lasthop::live::Side;
use lasthop::units::Instant;
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let mut network = common::network(choice);
    let (mut now, mut known) = (0u64, HashSet::new());
    while let [pause, side, high, low, more @ ..] = rest {
        now += u64::from(*pause) << 16;
        let length = (usize::from(*high) << 8 | usize::from(*low)).min(more.len());
        let (packet, after) = more.split_at(length);
        rest = after;
        let side = Side::BOTH[usize::from(side & 1)];
        if network.input(Instant::from_nanos(now), 0, side, packet.to_vec()) {
            known.insert(packet.to_vec());
        }
    }
    network.advance(Instant::from_nanos(now + 20_000_000_000));
    while let Some(delivery) = network.poll_delivery() {
        assert!(known.contains(&delivery.packet), "a packet that did not go in");
    }
});
