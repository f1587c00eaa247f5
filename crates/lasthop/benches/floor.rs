//! The case `raw` of `study.rs` as a single function, without state machines, builder, probes or metrics: a
//! lower bound of the cost of a replication. `benches/instructions.py` compares the two.
//!
//! Server -- 10 Mbps, 1 ms -- access point -- 63.5 kbps, 50 ms -- client; 40,000 segments of Reno
//! with a window of 20; each frame of the second link is lost with probability 2.5 %; one event per packet and hop.
//! The run differs from the engine's: random numbers, clock and retransmission timer are simpler. Its figures
//! are not results.

const SEGMENTS: u32 = 40_000;
const WINDOW: f64 = 20.0;
const LOSS: f64 = 0.025;
/// Capacity of a link in packets: more than a window and its ACKs.
const PLACES: usize = 64;
const NEVER: u64 = u64::MAX;

/// xoshiro256++, seeded by SplitMix64.
struct Generator([u64; 4]);

impl Generator {
    fn new(mut seed: u64) -> Self {
        Generator(std::array::from_fn(|_| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = seed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        }))
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        let Generator([a, b, c, d]) = self;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }
}

#[derive(Clone, Copy, Default)]
struct Packet {
    arrival: u64,
    number: u32,
}

/// A link of fixed transmission time and delay, in nanoseconds, with its packets in transit.
struct Link {
    packets: [Packet; PLACES],
    head: usize,
    length: usize,
    free_at: u64,
    transmission: u64,
    delay: u64,
}

impl Link {
    fn new(transmission: u64, delay: u64) -> Self {
        let packets = [Packet::default(); PLACES];
        Link { packets, head: 0, length: 0, free_at: 0, transmission, delay }
    }

    #[inline(always)]
    fn push(&mut self, now: u64, number: u32) {
        self.free_at = self.free_at.max(now) + self.transmission;
        let place = (self.head + self.length) % PLACES;
        self.packets[place] = Packet { arrival: self.free_at + self.delay, number };
        self.length += 1;
    }

    #[inline(always)]
    fn next_arrival(&self) -> u64 {
        if self.length == 0 { NEVER } else { self.packets[self.head].arrival }
    }

    #[inline(always)]
    fn pop(&mut self) -> u32 {
        let number = self.packets[self.head].number;
        self.head = (self.head + 1) % PLACES;
        self.length -= 1;
        number
    }
}

/// A Reno sender that counts segments and times one segment at a time.
struct Sender {
    next: u32,
    unacknowledged: u32,
    highest: u32,
    duplicates: u32,
    recover: u32,
    in_recovery: bool,
    cwnd: f64,
    ssthresh: f64,
    srtt: f64,
    rttvar: f64,
    rto: f64,
    backoff: f64,
    deadline: u64,
    /// Number and transmission time of the timed segment.
    timed: Option<(u32, u64)>,
}

impl Sender {
    fn new() -> Self {
        Sender {
            next: 0,
            unacknowledged: 0,
            highest: 0,
            duplicates: 0,
            recover: 0,
            in_recovery: false,
            cwnd: 1.0,
            ssthresh: WINDOW,
            srtt: 0.0,
            rttvar: 0.0,
            rto: 3.0,
            backoff: 1.0,
            deadline: NEVER,
            timed: None,
        }
    }

    #[inline(always)]
    fn arm(&mut self, now: u64) {
        self.deadline = now + ((self.rto * self.backoff).min(60.0) * 1e9) as u64;
    }

    #[inline(always)]
    fn send(&mut self, now: u64, link: &mut Link, number: u32) {
        if number >= self.highest {
            self.highest = number + 1;
            if self.timed.is_none() {
                self.timed = Some((number, now));
            }
        }
        link.push(now, number);
    }

    #[inline(always)]
    fn pump(&mut self, now: u64, link: &mut Link) {
        let inflation = if self.in_recovery { f64::from(self.duplicates) } else { 0.0 };
        let window = (self.cwnd + inflation).min(WINDOW) as u32;
        while self.next < SEGMENTS && self.next < self.unacknowledged + window {
            let number = self.next;
            self.next += 1;
            self.send(now, link, number);
            if self.deadline == NEVER {
                self.arm(now);
            }
        }
    }

    #[inline(always)]
    fn on_ack(&mut self, now: u64, link: &mut Link, ack: u32) {
        if ack > self.unacknowledged {
            if let Some((number, sent_at)) = self.timed
                && ack > number
            {
                self.timed = None;
                let sample = (now - sent_at) as f64 * 1e-9;
                if self.srtt == 0.0 {
                    (self.srtt, self.rttvar) = (sample, sample / 2.0);
                } else {
                    self.rttvar += 0.25 * ((sample - self.srtt).abs() - self.rttvar);
                    self.srtt += 0.125 * (sample - self.srtt);
                }
                self.rto = (self.srtt + 4.0 * self.rttvar).max(1.0);
                self.backoff = 1.0;
            }
            self.unacknowledged = ack;
            self.next = self.next.max(ack);
            self.in_recovery = false;
            self.duplicates = 0;
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
            self.arm(now);
        } else {
            self.duplicates += 1;
            if self.duplicates == 3 && !self.in_recovery && self.unacknowledged >= self.recover {
                self.in_recovery = true;
                self.recover = self.highest;
                self.ssthresh = (self.cwnd.min(WINDOW) / 2.0).floor().max(2.0);
                self.cwnd = self.ssthresh;
                self.timed = None;
                self.send(now, link, self.unacknowledged);
                self.arm(now);
            }
        }
        self.pump(now, link);
    }

    #[inline(always)]
    fn on_timeout(&mut self, now: u64, link: &mut Link) {
        let outstanding = f64::from(self.next - self.unacknowledged);
        self.ssthresh = (self.cwnd.min(outstanding) / 2.0).floor().max(2.0);
        self.cwnd = 1.0;
        self.in_recovery = false;
        self.duplicates = 0;
        self.next = self.unacknowledged;
        self.recover = self.highest;
        self.timed = None;
        self.backoff = (self.backoff * 2.0).min(64.0);
        self.arm(now);
        self.pump(now, link);
    }
}

/// Runs one transfer; returns its end in nanoseconds and the number of events.
fn transfer(replication: u64) -> (u64, u64) {
    let threshold = (LOSS * 2f64.powi(64)) as u64;
    let mut data_losses = Generator::new(2 * replication + 1);
    let mut ack_losses = Generator::new(2 * replication + 2);
    let mut wired = Link::new(200_000, 1_000_000);
    let mut wireless = Link::new(31_500_000, 50_000_000);
    let mut wireless_back = Link::new(5_000_000, 50_000_000);
    let mut wired_back = Link::new(32_000, 1_000_000);
    let mut sender = Sender::new();
    // The receiver: next expected segment, and a bit for each later segment received.
    let (mut expected, mut ahead) = (0u32, 0u64);
    let mut events = 0;
    sender.pump(0, &mut wired);
    loop {
        let arrivals = [
            wired.next_arrival(),
            wireless.next_arrival(),
            wireless_back.next_arrival(),
            wired_back.next_arrival(),
        ];
        let now = arrivals[0].min(arrivals[1]).min(arrivals[2].min(arrivals[3]));
        let now = now.min(sender.deadline);
        events += 1;
        if now == arrivals[1] {
            let number = wireless.pop();
            if data_losses.next() >= threshold {
                if number == expected {
                    let run = (ahead >> 1).trailing_ones();
                    expected += 1 + run;
                    ahead = if run >= 63 { 0 } else { ahead >> (run + 1) };
                } else if number > expected {
                    ahead |= 1 << (number - expected).min(63);
                }
                wireless_back.push(now, expected);
            }
        } else if now == arrivals[0] {
            let number = wired.pop();
            wireless.push(now, number);
        } else if now == arrivals[2] {
            let ack = wireless_back.pop();
            if ack_losses.next() >= threshold {
                wired_back.push(now, ack);
            }
        } else if now == arrivals[3] {
            let ack = wired_back.pop();
            sender.on_ack(now, &mut wired, ack);
            if sender.unacknowledged >= SEGMENTS {
                return (now, events);
            }
        } else {
            sender.on_timeout(now, &mut wired);
        }
    }
}

fn main() {
    let (end, events) = transfer(0);
    // The comparison requires a similar amount of work.
    assert!((1e12..4e12).contains(&(end as f64)) && events > 150_000, "{end} ns, {events} events");
}
