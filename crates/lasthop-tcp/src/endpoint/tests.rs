use super::*;
use crate::presets::{self, Overrides, Profile, Variant};
use lasthop_base::packet::TcpOptions;

#[test]
fn a_delayed_ack_echoes_the_first_segment_it_covers() {
    let set = Overrides { timestamps: Some(true), handshake: Some(false), ..Overrides::default() };
    let config = presets::config(Variant::Reno, Profile::Rfc, &set);
    let mut end = Connection::new(&config, Role::Acceptor, Duration::ZERO);
    let mut ack = TcpHeader::default();
    let mut seq = 1;
    // The clock is in the upper half of its range when the connection starts.
    let base = 3_000_000_000;
    for round in 0..3 {
        for place in 0..2 {
            let stamp = base + 10 * round + place;
            let data = TcpHeader {
                seq,
                payload: config.segment.get() as u32,
                ack: 1,
                flags: flags::ACK,
                has_timestamps: true,
                options: TcpOptions::stamps(stamp, 0),
                ..TcpHeader::default()
            };
            end.receive(Instant::from_nanos(1_000_000), &data);
            seq += config.segment.get() as u32;
            let sent = end.poll_transmit(Instant::from_nanos(1_000_000), &mut ack);
            assert_eq!(sent.is_some(), place == 1, "every second segment");
        }
        assert_eq!((ack.ack, ack.options.timestamps.1), (seq, base + 10 * round));
    }
}

#[test]
fn data_echo_the_timestamp_of_the_latest_acknowledgment() {
    for profile in [Profile::Rfc, Profile::Ns2] {
        let set =
            Overrides { timestamps: Some(true), handshake: Some(false), ..Overrides::default() };
        let config = presets::config(Variant::Reno, profile, &set);
        let mut end = Connection::new(&config, Role::Opener, Duration::ZERO);
        end.write(100 * config.segment.get());
        let mut data = TcpHeader::default();
        for round in 0..3 {
            let now = Instant::from_nanos(1_000_000 * (1 + round));
            while end.poll_transmit(now, &mut data).is_some() {}
            // All data except the first follows an acknowledgment.
            let stamp = if round == 0 { 0 } else { 1000 + round as u32 - 1 };
            assert_eq!(data.options.timestamps.1, stamp, "{profile:?}");
            let ack = TcpHeader {
                seq: data.ack,
                ack: data.seq + data.payload,
                window: data.window,
                flags: flags::ACK,
                has_timestamps: true,
                options: TcpOptions::stamps(1000 + round as u32, data.options.timestamps.0),
                ..TcpHeader::default()
            };
            end.receive(now, &ack);
        }
    }
}

/// Time at which the first data of an opener is retransmitted, if its SYN was sent twice.
fn retransmission_after_lost_syn(profile: Profile, timestamps: bool) -> Instant {
    let set = Overrides {
        timestamps: Some(timestamps),
        initial_rto: Some(Duration::from_secs(1)),
        ..Overrides::default()
    };
    let config = presets::config(Variant::Reno, profile, &set);
    let mut end = Connection::new(&config, Role::Opener, Duration::ZERO);
    let mut sent = TcpHeader::default();
    end.write(5000);
    assert!(end.poll_transmit(Instant::ZERO, &mut sent).is_some());
    let second = Instant::from_nanos(1_000_000_000);
    assert_eq!(end.next_timeout(), second);
    end.handle_timeout(second);
    assert!(end.poll_transmit(second, &mut sent).is_some());
    let now = second + Duration::from_millis(100);
    let answer = TcpHeader {
        ack: 1,
        flags: flags::SYN | flags::ACK,
        has_timestamps: sent.has_timestamps,
        options: TcpOptions::stamps(1, sent.options.timestamps.0),
        window: 65_535,
        ..TcpHeader::default()
    };
    end.receive(now, &answer);
    assert!(end.poll_transmit(now, &mut sent).is_some_and(|_| sent.payload > 0));
    end.next_timeout()
}

#[test]
fn after_a_lost_syn_data_have_three_seconds() {
    let ms = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    assert_eq!(retransmission_after_lost_syn(Profile::Rfc, false), ms(1100 + 3000));
    // With an RTT sample of 100 ms, the RTO is the minimum of 1 s.
    assert_eq!(retransmission_after_lost_syn(Profile::Rfc, true), ms(1100 + 1000));
    // ns-2 continues its backoff.
    assert_eq!(retransmission_after_lost_syn(Profile::Ns2, false), ms(1100 + 2000));
}

/// Times at which an opener without an answer sends its SYN, in seconds, with exact timers.
fn syns(profile: Profile) -> Vec<u64> {
    let set = Overrides {
        initial_rto: Some(Duration::from_secs(1)),
        timer_tick: Some(Duration::ZERO),
        ..Overrides::default()
    };
    let config = presets::config(Variant::Reno, profile, &set);
    let mut end = Connection::new(&config, Role::Opener, Duration::ZERO);
    let (mut sent, mut now) = (TcpHeader::default(), Instant::ZERO);
    end.write(5000);
    (0..8)
        .map(|_| {
            assert!(end.poll_transmit(now, &mut sent).is_some());
            let second = now.as_nanos() / 1_000_000_000;
            now = end.next_timeout();
            end.handle_timeout(now);
            second
        })
        .collect()
}

/// Linux sends the first five retransmissions at intervals of 1 s (`tcp_syn_linear_timeouts`), then
/// backs off.
#[test]
fn the_first_syns_of_linux_come_at_even_intervals() {
    assert_eq!(syns(Profile::Rfc), [0, 1, 3, 7, 15, 31, 63, 123]);
    assert_eq!(syns(Profile::Linux), [0, 1, 2, 3, 4, 5, 7, 11]);
}

/// Linux answers a retransmitted SYN by its own SYN and restarts the timer; others acknowledge it.
#[test]
fn a_repeated_syn_is_answered() {
    for (profile, is_syn, timer) in [(Profile::Linux, true, 1_900), (Profile::Rfc, false, 1_000)] {
        let set = Overrides {
            initial_rto: Some(Duration::from_secs(1)),
            timer_tick: (profile == Profile::Linux).then_some(Duration::ZERO),
            ..Overrides::default()
        };
        let config = presets::config(Variant::Reno, profile, &set);
        let mut end = Connection::new(&config, Role::Acceptor, Duration::ZERO);
        let syn = TcpHeader { flags: flags::SYN, window: 65_535, ..TcpHeader::default() };
        let mut sent = TcpHeader::default();
        end.receive(Instant::ZERO, &syn);
        assert!(end.poll_transmit(Instant::ZERO, &mut sent).is_some());
        assert_eq!(sent.flags, flags::SYN | flags::ACK);
        let now = Instant::from_nanos(900_000_000);
        end.receive(now, &syn);
        assert!(end.poll_transmit(now, &mut sent).is_some());
        assert_eq!(sent.flags & flags::SYN != 0, is_syn, "{profile:?}");
        assert_eq!(end.next_timeout(), Instant::from_nanos(timer * 1_000_000), "{profile:?}");
        assert_eq!(end.counters().timeouts, 0);
    }
}

/// Whether a Linux sender attributes its latest rate to the application, which writes eight segments in
/// send calls of `call` segments with a window of ten. The first segment is acknowledged, and the
/// others after a retransmission.
fn is_last_rate_limited(call: u64) -> bool {
    let set = Overrides { handshake: Some(false), timestamps: Some(false), ..Overrides::default() };
    let config = presets::config(Variant::Bbr, Profile::Linux, &set);
    let mut end = Connection::new(&config, Role::Opener, Duration::ZERO);
    let mss = config.segment.get();
    let (mut now, mut segments, mut sent) = (Instant::ZERO, 0, TcpHeader::default());
    while segments < 8 {
        if segments % call == 0 {
            end.write(call * mss);
        }
        while end.poll_transmit(now, &mut sent).is_none() {
            now = end.next_timeout();
            end.handle_timeout(now);
        }
        segments += 1;
    }
    let seq = sent.ack;
    let answer = |end: &mut Connection, now: Instant, ack: u64| {
        let header = TcpHeader {
            seq,
            ack: ack as u32,
            window: 65_535,
            flags: flags::ACK,
            ..TcpHeader::default()
        };
        end.receive(now, &header);
        assert_eq!(end.sender.flight.snd_una, ack);
    };
    let first_end = end.sender.flight.snd_una + mss;
    answer(&mut end, now + Duration::from_millis(20), first_end);
    now = end.next_timeout();
    end.handle_timeout(now);
    assert!(end.poll_transmit(now, &mut sent).is_some(), "a retransmission");
    let all = end.sender.flight.snd_max;
    answer(&mut end, now + Duration::from_millis(20), all);
    end.sender.flight.delivery_rate().unwrap().1
}

/// Linux examines in send calls only whether the application limits transmission.
#[test]
fn a_linux_host_attributes_rates_to_the_application_in_send_calls() {
    assert!(!is_last_rate_limited(8));
    assert!(is_last_rate_limited(4));
}
