//! Access categories of hosts with positions: hosts that are all in range of each other send the frames of hosts
//! without positions, to the nanosecond.

use lasthop_base::rng::Streams;
use lasthop_base::units::{Bytes, Distance, Duration, Instant, Probability, Rate};
use lasthop_link::channel::{Channel, Uniform};
use lasthop_link::queue::{Limit, Queue};
use lasthop_wlan::dcf::{
    Aggregation, AirFate, AirFrame, Capture, Category, MacParameters, Medium, MediumEvent,
    MissedBlockAck, PairId, Position, Propagation,
};
use lasthop_wlan::phy::{
    Band, Coding, Form, Format, GuardInterval, Mode, PacketExtension, PpduTiming, Width,
};

/// AIFSN, CWmin, CWmax and TXOP limit in us of background, best effort, video and voice.
const CATEGORIES: [(u32, u32, u32, u64); 4] =
    [(7, 15, 1023, 0), (3, 15, 1023, 0), (2, 7, 15, 4_096), (2, 3, 7, 2_080)];
const HOSTS: u64 = 3;

/// Pair, kind, start and end in ns, and fate of a frame.
type Frame = (usize, AirFrame, u64, u64, AirFate);

fn rate(kbps: u64) -> Rate {
    Rate::from_bps(kbps * 1_000)
}

/// The hosts of a case.
struct Case {
    max_ampdu: u64,
    loss: f64,
    rts_threshold: u64,
    txop_best_effort: u64,
    control_errors: bool,
}

impl Case {
    /// Returns the block-ack agreement of all directions.
    fn aggregation(&self) -> Aggregation {
        let mode =
            Mode::new(Format::Ht, 7, 1, Width::Mhz20, GuardInterval::Ns800).expect("defined");
        let timing = PpduTiming {
            band: Band::Ghz5,
            form: Form::Standard,
            coding: Coding::Bcc,
            packet_extension: PacketExtension::Us0,
        };
        let window = if self.max_ampdu > 0 { 64 } else { 1 };
        Aggregation {
            timing,
            mode,
            control_rate: rate(24_000),
            max_ampdu: Bytes::new(self.max_ampdu),
            max_mpdus: window.into(),
            max_amsdu: Bytes::default(),
            window,
            attempts: 10,
            lifetime: Duration::from_secs(1_000),
            reorder_timeout: Duration::from_secs(1_000),
            missed: MissedBlockAck::Retransmit,
        }
    }
}

/// Returns hosts with a station for each category, the last one a receiver, and the pairs that lead to it.
fn hosts(case: &Case, are_placed: bool) -> (Medium<Vec<u8>>, Vec<PairId>) {
    let mut access = Band::Ghz5.timing(Form::Standard);
    access.aifsn = 2;
    let mut medium = Medium::new(Band::Ghz5.non_ht(), access, case.control_errors);
    let streams = Streams { seed: 7, replication: 0 };
    let header = Bytes::new(38);
    let mut pairs = Vec::new();
    let mut ends = Vec::new();
    for host in 0..=HOSTS {
        let first = host as u16 * 4;
        let own = (0..).zip(CATEGORIES).map(|(priority, (aifsn, cw_min, cw_max, limit))| {
            let parameters = MacParameters {
                header,
                rts_threshold: Bytes::new(case.rts_threshold),
                short_retry_limit: 7,
                long_retry_limit: 7,
                cw_min,
                cw_max,
                retry_delay: Duration::ZERO,
                rate: rate(65_000),
            };
            let backoff = streams.stream(&format!("{host} {priority}"), "back-off");
            let queue = Queue::drop_tail(Limit::Packets(1_000), header);
            let station = medium.add_station(parameters, queue, backoff);
            let limit = if priority == 1 { case.txop_best_effort } else { limit };
            let txop_limit = Duration::from_nanos(limit * 1_000);
            let extra_slots = aifsn - access.aifsn;
            medium
                .set_category(station, Category { host: first, priority, extra_slots, txop_limit });
            station
        });
        ends.push(own.collect::<Vec<_>>());
    }
    if are_placed {
        let metres = Distance::from_metres;
        let propagation = Propagation {
            transmission: metres(250),
            carrier_sense: metres(550),
            interference: metres(550),
            capture_threshold: None,
            capture: Capture::First,
            exponent: 4.0,
            crossover: metres(86),
        };
        medium.place(&propagation, &[Position::default(); HOSTS as usize + 1]);
    }
    let receiver = ends.pop().expect("a receiver");
    let rates = [rate(65_000), rate(24_000)];
    let p = Probability::new(case.loss).expect("a probability");
    for host in &ends {
        for (&from, &to) in host.iter().zip(&receiver) {
            for ends in [[from, to], [to, from]] {
                let name = format!("{ends:?}");
                let pair = medium.add_pair(
                    ends,
                    rates,
                    Channel::Uniform(Uniform::new(p, &streams, &name)),
                );
                medium.aggregate(pair, case.aggregation());
                if ends[0] == from {
                    pairs.push(pair);
                }
            }
        }
    }
    (medium, pairs)
}

/// Runs saturated hosts that send packets of 1500 B in all categories to a receiver; returns the frames of 900 ms,
/// with the numbers of collisions and of internal collisions in a second.
fn frames(case: &Case, are_placed: bool) -> (Vec<Frame>, [u64; 2]) {
    let (mut medium, pairs) = hosts(case, are_placed);
    medium.report_events();
    let fill = |medium: &mut Medium<Vec<u8>>, now: Instant, pair: PairId, most: u64| {
        while medium.queued(now, pair) < most {
            medium.enqueue(now, pair, vec![0; 1_500]);
        }
    };
    pairs.iter().for_each(|&pair| fill(&mut medium, Instant::ZERO, pair, 200));
    let (mut now, mut found) = (Instant::ZERO, Vec::new());
    while now < Instant::from_nanos(1_000_000_000) {
        now = medium.next_timeout();
        medium.handle_timeout(now);
        while medium.poll_deliver().is_some() {}
        while let Some(event) = medium.poll_event() {
            if let MediumEvent::Frame { pair, kind, start, end, fate, .. } = event {
                found.push((pair.index(), kind, start.as_nanos(), end.as_nanos(), fate));
            }
        }
        pairs.iter().for_each(|&pair| fill(&mut medium, now, pair, 100));
    }
    let collisions = |&pair: &PairId| {
        let counters = medium.pair_counters(pair);
        [counters.collisions, counters.internal_collisions]
    };
    let sum =
        pairs.iter().map(collisions).fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    found.retain(|&(_, _, _, end, _)| end < 900_000_000);
    found.sort_by_key(|&(pair, _, start, end, _)| (start, end, pair));
    (found, sum)
}

#[test]
fn hosts_in_range_send_the_frames_of_hosts_without_positions() {
    let plain = Case {
        max_ampdu: 65_535,
        loss: 0.0,
        rts_threshold: 65_535,
        txop_best_effort: 0,
        control_errors: false,
    };
    for case in [
        Case { ..plain },
        Case { loss: 0.2, ..plain },
        Case { loss: 0.4, max_ampdu: 3_100, control_errors: true, ..plain },
        Case { max_ampdu: 0, txop_best_effort: 2_528, ..plain },
        Case { max_ampdu: 0, loss: 0.3, rts_threshold: 0, ..plain },
    ] {
        let [(cell, sum), (space, other)] =
            [false, true].map(|are_placed| frames(&case, are_placed));
        for (number, (one, other)) in cell.iter().zip(&space).enumerate() {
            let before = &cell[number.saturating_sub(8)..number];
            assert_eq!(one, other, "frame {number} after {before:#?}");
        }
        assert_eq!((cell.len(), sum[1]), (space.len(), other[1]));
        // A collision at the end of the run is counted at its start or at its end.
        assert!(sum[0].abs_diff(other[0]) <= HOSTS, "{sum:?} {other:?}");
        assert!(sum[0] > 20 && sum[1] > 20 && cell.len() > 300, "{sum:?} {}", cell.len());
    }
}
