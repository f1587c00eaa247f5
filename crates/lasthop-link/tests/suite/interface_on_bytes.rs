//! Two interfaces on real bytes over a pipe with losses and delay, without the simulator, as used
//! by a live driver.

use crate::common::*;
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::units::{Bytes, Duration, Instant, Rate};
use lasthop_link::interface::{Interface, Transmission};
use lasthop_link::link::{AtLimit, LinkEndpoint, Release, RlcParameters, RlpParameters};
use lasthop_link::queue::{Fifo, Limit, Queue, Red, RedDetector, RedParameters, Transmitter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const STREAMS: Streams = Streams { seed: 12, replication: 0 };
const RATE: Rate = Rate::from_bps(2_000_000);
const DELAY: Duration = Duration::from_millis(10);

type End = Interface<LinkEndpoint<Vec<u8>>, Vec<u8>>;

/// Numbered packets of 4 to 303 B.
fn packets(count: u32, sizes: &mut Stream) -> VecDeque<Vec<u8>> {
    let packet = |number: u32| {
        let mut packet = number.to_be_bytes().to_vec();
        packet.resize(4 + sizes.bits() as usize % 300, number as u8);
        packet
    };
    (0..count).map(packet).collect()
}

/// A pipe with an interface at each end and its own clock.
struct Pipe {
    ends: [End; 2],
    /// Frames in transit, by arrival time and frame number, with the receiving end.
    on_air: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    losses: Stream,
    loss: f64,
    sent: u64,
    up: [Vec<Vec<u8>>; 2],
}

impl Pipe {
    /// Collects the delivered packets of an end and sends its frames.
    fn drain(&mut self, now: Instant, side: usize) {
        self.up[side].extend(std::iter::from_fn(|| self.ends[side].poll_deliver()));
        while self.ends[side].poll_event().is_some() {}
        while let Some(Transmission { frame, airtime }) = self.ends[side].poll_transmit(now) {
            let mut bytes = Vec::new();
            self.ends[1 - side].endpoint.encode(&frame, &mut bytes).expect("a byte form");
            assert_eq!(bytes.len() as u32, frame.bytes, "the length that is charged: {frame:?}");
            let airtime = airtime.expect("no ideal feedback");
            assert_eq!(airtime.start, now);
            self.sent += 1;
            if !self.losses.bernoulli(self.loss) {
                self.on_air.insert((airtime.end + DELAY, self.sent), (1 - side, bytes));
            }
        }
    }

    /// Runs until no events are left, or until `stop`. Packets are offered as the queues accept
    /// them.
    fn run(&mut self, mut offers: [VecDeque<Vec<u8>>; 2], stop: Instant) {
        let mut now = Instant::ZERO;
        while now < stop {
            for (side, offers) in offers.iter_mut().enumerate() {
                while let Some(packet) = offers.front() {
                    let admitted = self.ends[side].enqueue(now, packet.clone());
                    self.drain(now, side);
                    if !admitted {
                        break;
                    }
                    offers.pop_front();
                }
            }
            let timers = self.ends.each_ref().map(Interface::next_timeout);
            let arrival = self.on_air.keys().next().map_or(Instant::NEVER, |&(at, _)| at);
            let next = arrival.min(timers[0]).min(timers[1]);
            if next == Instant::NEVER {
                return;
            }
            assert!(next >= now, "time runs backwards");
            now = next;
            for side in [0, 1] {
                self.ends[side].handle_timeout(now);
                self.drain(now, side);
            }
            while let Some(entry) = self.on_air.first_entry()
                && entry.key().0 <= now
            {
                let (side, bytes) = entry.remove();
                let frame = self.ends[side].endpoint.decode(&bytes).expect("a correct peer");
                self.ends[side].receive(now, frame);
                self.drain(now, side);
            }
        }
    }
}

/// Sends packets in both directions. Returns the pipe and the offered packets.
fn carry(protocol: &Protocol, loss: f64) -> (Pipe, [VecDeque<Vec<u8>>; 2]) {
    let queue = || Queue::drop_tail(Limit::Packets(20), Bytes::default());
    let interface = |endpoint| Interface::new(endpoint, queue(), Transmitter::new(RATE));
    let mut pipe = Pipe {
        ends: protocol.ends().map(interface),
        on_air: BTreeMap::new(),
        losses: STREAMS.stream("pipe", "losses"),
        loss,
        sent: 0,
        up: [Vec::new(), Vec::new()],
    };
    let mut sizes = STREAMS.stream("pipe", "sizes");
    let offers = [packets(600, &mut sizes), packets(400, &mut sizes)];
    pipe.run(offers.clone(), Instant::from_nanos(600_000_000_000));
    (pipe, offers)
}

/// Checks that all packets are delivered in order.
fn transfer(protocol: &Protocol, loss: f64) -> Pipe {
    let (pipe, offers) = carry(protocol, loss);
    for (side, offers) in offers.iter().enumerate() {
        let up = &pipe.up[1 - side];
        assert!(up.iter().eq(offers), "{} of {} packets: {protocol:?}", up.len(), offers.len());
    }
    pipe
}

#[test]
fn packets_cross_every_reliable_link_in_order() {
    for window in [1, 7, 100] {
        for protocol in every_reliable_protocol(window, Duration::from_millis(70)) {
            transfer(&protocol, 0.1);
        }
    }
}

/// Protocols with a retry limit lose packets, but neither modify, invent nor duplicate them.
/// Protocols with immediate release may reorder them.
#[test]
fn packets_cross_links_that_give_up_unharmed_or_not_at_all() {
    let ms = Duration::from_millis;
    let rlp = karn_rlp(2, ms(70), Duration::from_nanos(1_220_000));
    let rlp = RlpParameters { keepalive: Some(ms(30)), keepalives: Some(20), ..rlp };
    let rlc = RlcParameters { max_transmissions: Some(2), ..rlc(80, RATE, DELAY) };
    let in_order = [
        Protocol::Raw,
        Protocol::Rlp(rlp),
        Protocol::Rlc(RlcParameters { at_limit: AtLimit::Discard, ..rlc }),
        Protocol::Rlc(RlcParameters { at_limit: AtLimit::Reset, ..rlc }),
        Protocol::StopAndWait(stop_and_wait(Some(1), ms(70))),
    ];
    let out_of_order = [
        Protocol::Rlp(RlpParameters { release: Release::Immediate, ..rlp }),
        Protocol::XorFec(xor_fec(8, ms(20))),
    ];
    // Maximum fractions of lost packets. A reset discards all outstanding data.
    for (protocol, most) in in_order.iter().zip([0.2, 0.1, 0.2, 0.9, 0.1]) {
        let (pipe, offers) = carry(protocol, 0.1);
        for (side, offers) in offers.iter().enumerate() {
            let up = &pipe.up[1 - side];
            let mut sent = offers.iter();
            assert!(up.iter().all(|packet| sent.any(|other| other == packet)), "{protocol:?}");
            assert!(
                up.len() as f64 > offers.len() as f64 * (1.0 - most),
                "{}: {protocol:?}",
                up.len()
            );
        }
    }
    for protocol in &out_of_order {
        let (pipe, offers) = carry(protocol, 0.1);
        for (side, offers) in offers.iter().enumerate() {
            let up = &pipe.up[1 - side];
            let unique: BTreeSet<_> = up.iter().collect();
            assert_eq!(unique.len(), up.len(), "{protocol:?}");
            let offered: BTreeSet<_> = offers.iter().collect();
            assert!(unique.is_subset(&offered), "{protocol:?}");
            assert!(up.len() as f64 > offers.len() as f64 * 0.9, "{}: {protocol:?}", up.len());
        }
    }
}

/// With more traffic than the link can carry, RED marks packets of transports that support ECN,
/// drops those of others, and keeps the queue well below its limit in both cases.
#[test]
fn early_detection_keeps_a_queue_short() {
    for (class, knows_marks) in [(0x02, true), (0x00, false)] {
        let [endpoint, _] = Protocol::Raw.ends::<Vec<u8>>();
        let stream = STREAMS.stream("queue", "early detection");
        let parameters = RedParameters { weight: 0.02, ..RedParameters::recommended(5.0) };
        let fifo = Fifo::new(Limit::Packets(1000), Bytes::default());
        let red = Red::new(fifo, RedDetector::new(parameters, stream), true);
        let mut end = Interface::new(endpoint, Queue::Red(Box::new(red)), Transmitter::new(RATE));
        let mut packet = vec![0u8; 500];
        (packet[0], packet[1]) = (0x60, class << 4);
        let (mut marks, mut sent, mut longest, mut clock) = (0, 0, 0, Instant::ZERO);
        // 2 ms per packet at 2 Mbps; one arrives every 1.9 ms.
        for number in 0..20_000 {
            let now = Instant::from_nanos(number * 1_900_000);
            while end.next_timeout() <= now {
                clock = end.next_timeout().max(clock);
                let Some(Transmission { frame, .. }) = end.poll_transmit(clock) else { break };
                sent += 1;
                marks += u64::from(frame.payload.is_some_and(|packet| packet[1] == 0x30));
            }
            clock = now;
            end.enqueue(now, packet.clone());
            longest = longest.max(end.queued());
        }
        assert!(sent > 18_000, "{sent}");
        assert_eq!(marks > 0, knows_marks, "{marks}");
        let counters = end.queue().counters();
        let drops = counters.early_drops;
        assert!(drops > 500 && drops < 1_500, "{drops}");
        // Packets that are queued at the end may be marked, too.
        let seen = marks..=marks + end.queued() as u64;
        assert!(counters.tail_drops == 0 && seen.contains(&counters.marks), "{counters:?}");
        assert!(longest < if knows_marks { 100 } else { 30 }, "{longest} packets");
    }
}

#[test]
fn a_full_queue_drops_and_says_so() {
    let protocol = &every_reliable_protocol(7, Duration::from_millis(70))[0];
    let pipe = transfer(protocol, 0.0);
    assert!(pipe.ends.iter().all(|end| end.queue().counters().tail_drops > 0 && end.queued() == 0));
}
