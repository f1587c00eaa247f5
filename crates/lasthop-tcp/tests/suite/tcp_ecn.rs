//! ECN between two endpoints: one mark causes one reduction, reported by CWR (RFC 3168, section
//! 6.1).

use lasthop_base::packet::{Ecn, TcpHeader, flags};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::config::RecoveryKind;
use lasthop_tcp::{Config, Connection, Overrides, Profile, Role, Variant, presets};

const SEGMENTS: u64 = 200;

/// Result of a transfer.
#[derive(Debug, Default)]
struct Run {
    cuts: u64,
    retransmissions: u64,
    capable: u64,
    reduced: u64,
    echoes: u64,
    /// Outstanding data before the reduction and the window after it, in segments.
    windows: Option<(f64, f64)>,
}

/// Runs a transfer in rounds of 100 ms. Segments sent in a round arrive in the next, one at a time.
/// The data segments with the numbers in `marked` are marked if they are ECN-capable.
fn transfer(config: &Config, marked: &[u64]) -> Run {
    let roles = [Role::Opener, Role::Acceptor];
    let mut ends = roles.map(|role| Connection::new(config, role, Duration::ZERO));
    ends[0].write(SEGMENTS * config.segment.get());
    let mut run = Run::default();
    let mut data = 0;
    let mut flying: Vec<(usize, TcpHeader)> = Vec::new();
    for round in 0..200u64 {
        let now = Instant::from_nanos(1_000_000 * (1 + 100 * round));
        let mut arrivals = std::mem::take(&mut flying).into_iter();
        loop {
            for from in [0, 1] {
                if ends[from].next_timeout() <= now {
                    ends[from].handle_timeout(now);
                }
                let mut header = TcpHeader::default();
                while ends[from].poll_transmit(now, &mut header).is_some() {
                    let is_data = header.payload > 0;
                    assert!(
                        is_data || header.ecn == Ecn::NotEct,
                        "only data segments are ECN-capable"
                    );
                    run.capable += u64::from(header.ecn == Ecn::Ect0);
                    let is_syn = header.flags & flags::SYN != 0;
                    run.reduced += u64::from(!is_syn && header.flags & flags::CWR != 0);
                    run.echoes += u64::from(!is_syn && header.flags & flags::ECE != 0);
                    data += u64::from(is_data);
                    if is_data && marked.contains(&data) && header.ecn != Ecn::NotEct {
                        header.ecn = Ecn::Ce;
                    }
                    flying.push((1 - from, header));
                }
            }
            let Some((to, header)) = arrivals.next() else { break };
            let sender = &ends[0];
            let before = (sender.counters().window_cuts, sender.sender().outstanding_segments());
            ends[to].receive(now, &header);
            if ends[0].counters().window_cuts > before.0 {
                run.windows = Some((before.1 as f64, ends[0].sender().congestion_window()));
            }
        }
    }
    assert!(ends[0].is_all_acked());
    let counters = ends[0].counters();
    (run.cuts, run.retransmissions) = (counters.window_cuts, counters.retransmissions);
    run
}

fn config(variant: Variant, profile: Profile, set: &Overrides) -> Config {
    let set = Overrides { delayed_ack: Some(None), fin: Some(false), ..*set };
    presets::config(variant, profile, &set)
}

#[test]
fn a_mark_reduces_the_window_once_and_nothing_is_sent_again() {
    let on = Overrides { ecn: Some(true), ..Overrides::default() };
    let rack = Overrides { recovery: Some(RecoveryKind::RackTlp), ..on };
    for (variant, profile, set) in [
        (Variant::Reno, Profile::Rfc, on),
        (Variant::NewReno, Profile::Rfc, on),
        (Variant::Sack, Profile::Rfc, on),
        (Variant::Cubic, Profile::Rfc, on),
        (Variant::Sack, Profile::Rfc, rack),
        (Variant::Reno, Profile::Linux, on),
        (Variant::Cubic, Profile::Linux, on),
    ] {
        let config = config(variant, profile, &set);
        let quiet = transfer(&config, &[]);
        let seen = (quiet.cuts, quiet.reduced, quiet.echoes, quiet.capable);
        assert_eq!(seen, (0, 0, 0, SEGMENTS), "{variant:?} {profile:?}");
        // Two marks in one window of data.
        let run = transfer(&config, &[40, 44]);
        let row = format!("{variant:?} {profile:?} {run:?}");
        assert_eq!((run.cuts, run.reduced, run.retransmissions), (1, 1, 0), "{row}");
        assert!(run.echoes > 1, "{row}");
    }
}

#[test]
fn both_ends_must_know_it() {
    let off = config(Variant::Sack, Profile::Rfc, &Overrides::default());
    let run = transfer(&off, &[40]);
    assert_eq!((run.cuts, run.capable, run.echoes), (0, 0, 0));
}

/// RFC 8511, section 3.1: a factor of 0.8 for Reno, 0.85 for CUBIC. RFC 3168: the factor of a loss.
/// Both apply to the flight size.
#[test]
fn alternative_back_off() {
    for (variant, abe, share) in [
        (Variant::Sack, false, 0.5),
        (Variant::Sack, true, 0.8),
        (Variant::Cubic, false, 0.7),
        (Variant::Cubic, true, 0.85),
    ] {
        let set = Overrides { ecn: Some(true), abe: Some(abe), ..Overrides::default() };
        let run = transfer(&config(variant, Profile::Rfc, &set), &[60]);
        let (before, after) = run.windows.expect("one cut");
        // The ACK that echoes the mark has removed its segment from the flight.
        assert_eq!(after, share * (before - 1.0), "{variant:?} {abe}");
    }
}
