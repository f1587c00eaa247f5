//! Two hosts with a path between them that loses segments.

use super::*;
use crate::presets::{Overrides, Profile, Variant, config};
use lasthop_base::units::{Bytes, Duration};
use std::sync::Arc;

fn settings(initial_sequence: u32, pacing_rate: Option<u64>, limit: Option<Duration>) -> Settings {
    Settings {
        mss: 1460,
        mtu: 1500,
        window_scale: Some(7),
        sack: true,
        timestamps: true,
        ecn: EcnOffer::Never,
        initial_sequence,
        receive_buffer: 60_000,
        receive_memory: None,
        send_buffer: (200_000, false),
        unsent_limit: None,
        syn_retries: [5, 5],
        retries: 15,
        orphan_retries: 8,
        longest_rto: Duration::from_secs(60),
        time_wait: Duration::from_secs(60),
        fin_wait: Duration::from_secs(60),
        ack_delay: Duration::from_millis(40),
        user_timeout: limit,
        keep_alive: None,
        deferred_accept: 0,
        delays_first_ack: false,
        mtu_probing: None,
        limits: Limits { pacing_rate, ..Limits::default() },
        boot_offset: Duration::ZERO,
    }
}

fn socket(profile: Profile, settings: Settings) -> Socket {
    let configure = move |negotiated: Negotiated| {
        let set = Overrides {
            segment: Some(Bytes::new(negotiated.segment.into())),
            timestamps: Some(negotiated.timestamps),
            timer_tick: Some(Duration::ZERO),
            autotuning: (profile == Profile::Linux).then_some(false),
            ..Overrides::default()
        };
        config(Variant::Sack, profile, &set)
    };
    Socket::new(settings, Arc::new(configure))
}

/// Runs a transfer between two hosts; each segment is lost with a probability of `percent`. The one
/// that connects writes `bytes` and closes. Returns the number of bytes read by the other one.
fn transfer(mut ends: [Socket; 2], bytes: u64, percent: u64, mut seed: u64) -> u64 {
    let mut flying: Vec<(Instant, usize, Segment)> = Vec::new();
    let (mut now, mut written, mut read) = (Instant::ZERO, 0, 0);
    ends[1].listen();
    ends[0].connect();
    while now < Instant::ZERO + Duration::from_secs(3_000) {
        for from in 0..2 {
            if from == 0 && written < bytes && ends[0].state() == State::Established {
                let options = WriteOptions::default();
                written += ends[0].write_some(now, bytes - written, options, true).unwrap_or(bytes);
                if written >= bytes {
                    ends[0].close(now);
                }
            }
            while let Some(segment) = ends[from].poll_transmit(now) {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                if (seed >> 33) % 100 >= percent {
                    flying.push((now + Duration::from_millis(20), 1 - from, segment));
                }
            }
            assert!(ends[from].next_timeout() > now, "a deadline that has passed, end {from}");
        }
        let arrival = flying.first().map_or(Instant::NEVER, |first| first.0);
        let timeout = ends[0].next_timeout().min(ends[1].next_timeout());
        now = timeout.min(arrival);
        if now == Instant::NEVER {
            break;
        }
        if timeout == now {
            for end in &mut ends {
                end.handle_timeout(now);
            }
        } else {
            let (_, to, segment) = flying.remove(0);
            ends[to].receive(now, &segment);
            read += ends[1].read(now, u64::MAX);
        }
    }
    read
}

/// Written data arrives over a path with losses, and each deadline that was handled is in the past.
/// This includes data paced at any rate.
#[test]
fn hosts_transfer_over_losses_and_each_deadline_lies_ahead() {
    for profile in [Profile::Rfc, Profile::Linux] {
        for pacing_rate in [None, Some(200_000), Some(u64::MAX)] {
            for (percent, seed) in [(0, 1), (5, 2), (5, 3), (20, 4)] {
                let ends = [7, u32::MAX - 3]
                    .map(|first| socket(profile, settings(first, pacing_rate, None)));
                let row = format!("{profile:?} {pacing_rate:?} {percent} {seed}");
                assert_eq!(transfer(ends, 300_000, percent, seed), 300_000, "{row}");
            }
        }
    }
}

/// All segments are lost from some time onwards: a user timeout ends the connection.
#[test]
fn a_user_timeout_ends_a_connection() {
    for profile in [Profile::Rfc, Profile::Linux] {
        for (limit, seed) in [(1, 5), (300, 6), (5_000, 7)] {
            let limit = Some(Duration::from_millis(limit));
            let ends = [7, 8].map(|first| socket(profile, settings(first, None, limit)));
            assert!(transfer(ends, 500_000, 60, seed) < 500_000, "{profile:?} {limit:?}");
        }
    }
}

/// The peer shrinks its window, outstanding data is retransmitted as a probe, and the application
/// sets a user timeout that has already expired. The next expiry ends the connection, and no
/// deadline remains at its time.
#[test]
fn a_user_timeout_that_is_over_has_one_deadline() {
    let mut ends = [7, 8].map(|first| socket(Profile::Linux, settings(first, None, None)));
    let mut now = Instant::ZERO;
    ends[1].listen();
    ends[0].connect();
    let mut latest = Segment::default();
    for round in 0..4 {
        let from = round % 2;
        while let Some(segment) = ends[from].poll_transmit(now) {
            ends[1 - from].receive(now, &segment);
            latest = if from == 1 { segment } else { latest };
        }
        now += Duration::from_millis(10);
    }
    assert_eq!(ends[0].write(now, 10_000, WriteOptions::default()), Ok(()));
    while ends[0].poll_transmit(now).is_some() {}
    latest.header =
        TcpHeader { flags: flags::ACK, window: 0, seq: 9, ack: 8 + 1448, ..latest.header };
    ends[0].receive(now, &latest);
    for expiry in 0..5 {
        now = ends[0].next_timeout();
        ends[0].handle_timeout(now);
        while ends[0].poll_transmit(now).is_some() {}
        assert!(ends[0].next_timeout() > now, "expiry {expiry}");
        if expiry == 3 {
            ends[0].set_user_timeout(now, Some(Duration::from_millis(1)));
        }
    }
    assert_eq!(ends[0].take_error(), Some(SocketError::TimedOut));
}

/// The peer's SYN arrives before ours was polled: a SYN/ACK is sent, as in a simultaneous open (RFC
/// 9293, section 3.5), and the FIN of a later `close` follows it.
#[test]
fn a_syn_that_crosses_an_unsent_syn_is_answered() {
    for profile in [Profile::Rfc, Profile::Linux] {
        let mut socket = socket(profile, settings(1_000, None, None));
        let now = Instant::from_nanos(1_000_000);
        socket.connect();
        let syn = TcpHeader { seq: 500, window: 20_000, flags: flags::SYN, ..TcpHeader::default() };
        socket.receive(now, &Segment { header: syn, options: SynOptions::default() });
        socket.close(now);
        let sent = socket.poll_transmit(now).expect("a SYN-ACK").header;
        let flags = sent.flags & (flags::SYN | flags::ACK | flags::FIN);
        assert_eq!(
            (sent.seq, sent.ack, flags),
            (1_000, 501, flags::SYN | flags::ACK),
            "{profile:?}"
        );
        assert!(socket.poll_transmit(now).is_none());
        let ack = TcpHeader { seq: 501, ack: 1_001, flags: flags::ACK, ..syn };
        socket.receive(now, &Segment { header: ack, options: SynOptions::default() });
        let fin = socket.poll_transmit(now).expect("a FIN").header;
        assert_eq!((fin.seq, fin.payload, fin.flags & flags::FIN), (1_001, 0, flags::FIN));
    }
}

/// Returns an open connection of an active opener with `profile`.
fn connected(profile: Profile, now: Instant) -> Socket {
    let mut socket = socket(profile, settings(1_000, None, None));
    socket.connect();
    assert!(socket.poll_transmit(now).is_some());
    let header = TcpHeader {
        seq: 500,
        ack: 1_001,
        window: 20_000,
        flags: flags::SYN | flags::ACK,
        ..TcpHeader::default()
    };
    socket.receive(now, &Segment { header, options: SynOptions::default() });
    while socket.poll_transmit(now).is_some() {}
    socket
}

/// The timer sends a corked segment. The end of the receive window far above it has no effect.
#[test]
fn a_fin_after_a_corked_segment_has_no_payload() {
    let now = Instant::from_nanos(1_000_000);
    let mut socket = connected(Profile::Linux, now);
    let options = WriteOptions { more: true, end_of_record: true };
    for (bytes, options) in [(59, options), (0, WriteOptions::default())] {
        socket.write(now, bytes, options).expect("the connection is open");
    }
    assert!(socket.poll_transmit(now).is_none());
    let later = socket.next_timeout();
    socket.handle_timeout(later);
    assert_eq!(socket.poll_transmit(later).expect("59 bytes").header.payload, 59);
    socket.close(later);
    let fin = socket.poll_transmit(later).expect("a FIN").header;
    assert_eq!((fin.seq, fin.payload, fin.flags & flags::FIN), (1_060, 0, flags::FIN));
}

/// A full segment and a corked byte wait for a window of 128 B: the timer sends the part that fits, as Linux does.
#[test]
fn corked_data_does_not_delay_what_fits_a_small_window() {
    let now = Instant::from_nanos(1_000_000);
    let mut socket = connected(Profile::Linux, now);
    let header =
        TcpHeader { seq: 501, ack: 1_001, window: 128, flags: flags::ACK, ..TcpHeader::default() };
    socket.receive(now, &Segment { header, options: SynOptions::default() });
    let more = WriteOptions { more: true, ..WriteOptions::default() };
    for (bytes, options) in [(5_000, WriteOptions::default()), (1, more)] {
        socket.write(now, bytes, options).expect("the connection is open");
    }
    assert!(socket.poll_transmit(now).is_none());
    let later = socket.next_timeout();
    socket.handle_timeout(later);
    assert_eq!(socket.poll_transmit(later).expect("128 bytes").header.payload, 128);
}
