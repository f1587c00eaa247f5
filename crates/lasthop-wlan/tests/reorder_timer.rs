//! The timer of the reorder buffer of 802.11n, ac and ax, which ends the wait for a missing MPDU.

use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::channel::{Channel, Clean, LossRecord, Trace, TraceEnd};
use lasthop_link::queue::{Limit, Queue};
use lasthop_wlan::dcf::{Aggregation, MacParameters, Medium, MissedBlockAck};
use lasthop_wlan::phy::{
    Band, Coding, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming, Width,
};

fn rate(kbps: u64) -> Rate {
    Rate::from_bps(kbps * 1_000)
}

/// Sends packets 0 to 4, of which MPDUs are `lost` in this order of attempts, and returns the times in ns at
/// which packets are delivered. No deadline may precede the time of the call before it.
fn deliveries(reorder_timeout: Duration, lost: &[bool]) -> Vec<(u8, u64)> {
    let mode = Mode::new(Format::Ht, 7, 1, Width::Mhz20, GuardInterval::Ns800).expect("defined");
    let timing = PpduTiming {
        band: Band::Ghz5,
        form: Form::Standard,
        coding: Coding::Bcc,
        packet_extension: PacketExtension::Us0,
    };
    let aggregation = Aggregation {
        timing,
        mode,
        control_rate: rate(24_000),
        max_ampdu: Bytes::new(65_535),
        max_mpdus: 64,
        max_amsdu: Bytes::default(),
        window: 64,
        attempts: 10,
        lifetime: Duration::from_nanos(1_000_000_000),
        reorder_timeout,
        missed: MissedBlockAck::Retransmit,
    };
    let access = Band::Ghz5.timing(Form::Standard);
    let mut medium = Medium::new(Band::Ghz5.non_ht(), access, false);
    let streams = Streams { seed: 1, replication: 0 };
    let stations = ["sender", "receiver"].map(|name| {
        let header = Bytes::new(38);
        let parameters = MacParameters {
            header,
            rts_threshold: Bytes::new(65_535),
            short_retry_limit: 7,
            long_retry_limit: 7,
            cw_min: access.cw_min,
            cw_max: access.cw_max,
            retry_delay: Duration::ZERO,
            rate: rate(65_000),
        };
        let queue = Queue::drop_tail(Limit::Packets(50), header);
        medium.add_station(parameters, queue, streams.stream(name, "back-off"))
    });
    let record = LossRecord::new(lost.to_vec()).expect("not empty");
    let errors = Channel::Trace(Trace::new(record, TraceEnd::Clean, 0));
    let rates = [rate(65_000), rate(24_000)];
    let pair = medium.add_pair(stations, rates, errors);
    let [sender, receiver] = stations;
    let back = medium.add_pair([receiver, sender], rates, Channel::Clean(Clean {}));
    for direction in [pair, back] {
        medium.aggregate(direction, aggregation);
    }
    for number in 0..5 {
        assert!(medium.enqueue(Instant::ZERO, pair, vec![number; 1_500]));
    }
    let (mut now, mut found) = (Instant::ZERO, Vec::new());
    while medium.next_timeout() < Instant::from_nanos(100_000_000) {
        let next = medium.next_timeout();
        assert!(next >= now, "a deadline at {next:?} after a call at {now:?}");
        now = next;
        medium.handle_timeout(now);
        while let Some(delivery) = medium.poll_deliver() {
            found.push((delivery.packet[0], now.as_nanos()));
        }
    }
    found
}

/// Packet 0 is sent alone, 1 to 4 in an A-MPDU of which only 4 is received. The second attempt delivers 2, the
/// third one 1. The buffer has then waited for 3 since the arrival of 4, the first of them, longer than its
/// timeout, and releases 4 immediately. Until then the lowest held MPDU was 2, which had waited for less.
#[test]
fn a_wait_that_is_over_when_a_lower_hole_is_filled_ends_immediately() {
    let lost = [false, true, true, true, false, true, false, true, false, true, false];
    let all = deliveries(Duration::from_nanos(1_000_000_000), &lost);
    let [(0, _), (1, third), (2, together), (3, last), (4, at_once)] = all[..] else {
        panic!("five packets in order, found {all:?}")
    };
    assert!(together == third && at_once == last && last > third);
    // The second attempt: everything that it does not lose is delivered as soon as 1 is.
    let early = [&lost[..5], &[false, true, true]].concat();
    let second = deliveries(Duration::from_nanos(1_000_000_000), &early)[1].1;
    let first = deliveries(Duration::from_nanos(1_000_000_000), &lost[..1])[1].1;
    assert!(first < second && second < third);
    let timeout = Duration::from_nanos(third - second + (second - first) / 2);
    let found = deliveries(timeout, &lost);
    assert_eq!(found, [(0, all[0].1), (1, third), (2, third), (4, third)]);
}
