//! Simulated transfers, recorded as scripts and run: the socket of scripts behaves like a simulated
//! connection.

use lasthop_base::packet::TcpHeader;
use lasthop_base::units::{Bytes, Duration, Instant};
use lasthop_script::{Recorder, play};
use lasthop_tcp::{Connection, Overrides, Profile, Role, Variant, presets};

const HZ: u64 = 250;
const DELAY: Duration = Duration::from_millis(40);
const TOLERANCE: Duration = Duration::from_nanos(500_000);

/// Random generator of losses.
struct Losses(u64);

impl Losses {
    /// Returns `true` if the next segment is lost, with a probability of `percent`.
    fn next(&mut self, percent: u64) -> bool {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % 100 < percent
    }
}

/// Records a transfer between two simulated hosts over a link of 2 Mbps that loses `percent` of the
/// segments: returns the script of the host that opens. `writes`: its own writes and those of its
/// peer, by time in milliseconds.
fn record(
    sack: bool,
    timestamps: bool,
    percent: u64,
    seed: u64,
    writes: &[(u64, usize, u64)],
) -> String {
    let set = Overrides {
        segment: Some(Bytes::new(if timestamps { 1448 } else { 1460 })),
        sack: Some(sack),
        timestamps: Some(timestamps),
        ..Overrides::default()
    };
    let config = presets::config(Variant::Cubic, Profile::Linux, &set);
    let phase = 100 + seed;
    let tick = Duration::from_nanos(1_000_000_000 / HZ);
    let mut ends =
        [Role::Opener, Role::Acceptor].map(|role| Connection::new(&config, role, tick * phase));
    let recorder = Recorder::new(&config, Role::Opener, tick * phase);
    let mut recorder = recorder.expect("a script sets all parameters");
    let mut losses = Losses(seed);
    let mut flying: Vec<(Instant, usize, TcpHeader)> = Vec::new();
    let mut free_at = [Instant::ZERO; 2];
    let mut now = Instant::ZERO;
    let mut writes = writes.iter().copied().peekable();
    ends[0].open();
    let end = Instant::from_nanos(30_000_000_000);
    while now < end {
        for side in [0, 1] {
            let mut header = TcpHeader::default();
            while let Some(bytes) = ends[side].poll_transmit(now, &mut header) {
                if side == 0 {
                    recorder.sent(now, &header);
                }
                let begins = free_at[side].max(now);
                free_at[side] = begins + Duration::from_nanos(u64::from(bytes) * 4_000);
                if !losses.next(percent) {
                    flying.push((free_at[side] + DELAY, 1 - side, header));
                }
                header = TcpHeader::default();
            }
        }
        let arrival = flying.iter().map(|flying| flying.0).min().unwrap_or(Instant::NEVER);
        let timeout = ends[0].next_timeout().min(ends[1].next_timeout());
        let write =
            writes.peek().map_or(Instant::NEVER, |&(at, ..)| Instant::from_nanos(at * 1_000_000));
        now = arrival.min(timeout).min(write);
        if now == write {
            let Some((_, side, bytes)) = writes.next() else { break };
            if bytes == 0 {
                ends[side].close();
            } else {
                ends[side].write(bytes);
            }
            match (side, bytes) {
                (0, 0) => recorder.closed(now),
                (0, _) => recorder.written(now, bytes),
                _ => {}
            }
        } else if now == arrival {
            let place = flying.iter().position(|flying| flying.0 == now).unwrap();
            let (_, side, header) = flying.remove(place);
            if side == 0 {
                recorder.received(now, &header);
            }
            let before = ends[side].delivered_bytes();
            ends[side].receive(now, &header);
            let read = ends[side].delivered_bytes() - before;
            if side == 0 && read > 0 {
                recorder.read(now, read);
            }
        } else if now < end {
            for end in &mut ends {
                if end.next_timeout() <= now {
                    end.handle_timeout(now);
                }
            }
        }
    }
    recorder.script()
}

/// Responses to requests, as in browsing, and a file that fits into the send buffer.
const WEB: [(u64, usize, u64); 7] = [
    (3_000, 0, 400),
    (3_300, 1, 9_000),
    (4_000, 0, 500),
    (4_500, 1, 30_000),
    (6_000, 0, 2_000),
    (7_000, 0, 700),
    (12_000, 0, 0),
];
const FILE: [(u64, usize, u64); 2] = [(3_000, 0, 40_000), (12_000, 0, 0)];

#[test]
fn simulated_transfers_hold_as_scripts() {
    let mut failures = Vec::new();
    let mut count = 0;
    for (name, writes) in [("web", &WEB[..]), ("file", &FILE[..])] {
        for sack in [true, false] {
            for timestamps in [true, false] {
                for seed in 0..50 {
                    let script = record(sack, timestamps, 5, seed, writes);
                    count += 1;
                    if let Some(folder) = std::env::var_os("LASTHOP_RECORDED") {
                        let name = format!("{name}-{sack}-{timestamps}-{seed}.pkt");
                        std::fs::write(std::path::Path::new(&folder).join(name), &script).unwrap();
                    }
                    if let Err(error) = play(&script, Profile::Linux, TOLERANCE).outcome {
                        failures
                            .push(format!("{name} sack {sack} ts {timestamps} {seed}: {error}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} fail\n{}", failures.len(), failures.join("\n"));
}
