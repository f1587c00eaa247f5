//! Measurements of a live link: delays of packets, time in the queue, RTT under load, and bytes per
//! conversation.
//!
//! - *Delay*: from the time at which a host passes a packet to the link until the link delivers it.
//!   Both packets are matched by a hash of their headers, so no protocol has to carry a time. A packet
//!   that equals another one in transit is not measured.
//! - *Queueing delay*: time in the queue in front of the link protocol. Departures are matched with
//!   arrivals in order, which is exact for a FIFO; for fair queueing, the mean is exact.
//! - *RTT under load*: the delay of a packet plus the latest delay in the opposite direction.
//!
//! All times are those of the links, without the lateness of the driver.
//!
//! Not measured: packets that more than [`MOST_IN_TRANSIT`] other packets of their direction follow
//! before they are delivered.

use hdrhistogram::Histogram;
use lasthop_base::units::{Duration, Instant};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of packets whose departure is remembered, by generation.
pub const MOST_IN_TRANSIT: usize = 65_536;

/// Maximum number of conversations per direction. Bytes of others are counted together.
pub const MOST_CONVERSATIONS: usize = 256;

/// Length of the start of a packet that is compared: network and transport header, with the
/// checksum over the data.
const COMPARED: usize = 64;

/// Durations since the start and since the last report, in microseconds.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Until the last report.
    earlier: Histogram<u64>,
    recent: Histogram<u64>,
}

impl Default for Durations {
    fn default() -> Self {
        let empty = || Histogram::new(3).expect("three significant digits are allowed");
        Durations { earlier: empty(), recent: empty() }
    }
}

impl Durations {
    fn record(&mut self, duration: Duration) {
        let micros = (duration.as_nanos() + 500) / 1_000;
        // It grows up to any duration.
        let _ = self.recent.record(micros);
    }

    /// Returns the percentiles since the start, in seconds.
    pub fn all(&self) -> Value {
        let mut all = self.earlier.clone();
        let _ = all.add(&self.recent);
        percentiles(&all)
    }

    /// Returns the percentiles since the last call, in seconds.
    pub fn take_recent(&mut self) -> Value {
        let value = percentiles(&self.recent);
        let _ = self.earlier.add(&self.recent);
        self.recent.reset();
        value
    }
}

/// Returns the number of samples, their mean, percentiles and maximum in seconds; null without
/// samples.
fn percentiles(of: &Histogram<u64>) -> Value {
    if of.is_empty() {
        return Value::Null;
    }
    let at = |quantile: f64| of.value_at_quantile(quantile) as f64 / 1e6;
    json!({
        "n": of.len(), "mean_s": of.mean() / 1e6, "p50_s": at(0.5), "p90_s": at(0.9),
        "p95_s": at(0.95), "p99_s": at(0.99), "max_s": of.max() as f64 / 1e6,
    })
}

/// Times at which packets entered a queue, in order.
#[derive(Clone, Debug, Default)]
pub struct Sojourns {
    entered: VecDeque<Instant>,
    /// Time in the queue of packets that have left it.
    pub durations: Durations,
}

impl Sojourns {
    /// Updates the times for a queue of `length` packets after an operation at `now`.
    pub fn update(&mut self, now: Instant, length: usize) {
        while self.entered.len() > length {
            if let Some(entered) = self.entered.pop_front() {
                self.durations.record(now - entered);
            }
        }
        while self.entered.len() < length {
            self.entered.push_back(now);
        }
    }
}

/// Packets of one direction with the same protocol, addresses and server port. The server is the
/// side with the lower port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conversation {
    /// Number of the transport protocol (IANA).
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    /// Port of the server, and whether the source is the server; 0 without ports.
    port: u16,
    is_from_server: bool,
}

impl Conversation {
    /// Returns the conversation of an IP packet; `None` if its header is truncated.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (protocol, source, destination, transport) = match packet.first()? >> 4 {
            4 => {
                let address = |at: usize| -> Option<IpAddr> {
                    let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().ok()?;
                    Some(Ipv4Addr::from(octets).into())
                };
                let is_later_fragment =
                    u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff != 0;
                let header = usize::from(packet[0] & 0xf) * 4;
                let transport = if is_later_fragment { None } else { packet.get(header..) };
                (*packet.get(9)?, address(12)?, address(16)?, transport)
            }
            6 => {
                let address = |at: usize| -> Option<IpAddr> {
                    let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
                    Some(Ipv6Addr::from(octets).into())
                };
                (*packet.get(6)?, address(8)?, address(24)?, packet.get(40..))
            }
            _ => return None,
        };
        let ports = transport.filter(|_| matches!(protocol, 6 | 17)).and_then(|transport| {
            let port =
                |at| Some(u16::from_be_bytes([*transport.get(at)?, *transport.get(at + 1)?]));
            Some((port(0)?, port(2)?))
        });
        let (from, to) = ports.unwrap_or_default();
        Some(Conversation {
            protocol,
            source,
            destination,
            port: from.min(to),
            is_from_server: ports.is_some() && from <= to,
        })
    }

    /// Returns the description for a report.
    fn to_json(self, bytes: u64) -> Value {
        let protocol = match self.protocol {
            1 | 58 => "icmp".to_owned(),
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            other => format!("protocol {other}"),
        };
        json!({
            "protocol": protocol, "from": self.source.to_string(), "to": self.destination.to_string(),
            "port": self.port, "from_server": self.is_from_server, "bytes": bytes,
        })
    }
}

/// Measurements of one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionMeter {
    /// Times at which packets in transit were sent, by hash, in two generations; `None`: several
    /// equal packets.
    sent: [HashMap<u64, Option<Instant>, BuildHasherDefault<Itself>>; 2],
    /// Packets passed to the link.
    pub offered: u64,
    /// Delays of delivered packets.
    pub delays: Durations,
    /// The latest delay.
    last: Option<Duration>,
    /// Sum in seconds and maximum of the delays since the last sample, and their number.
    sum: f64,
    maximum: Duration,
    count: u64,
    conversations: HashMap<Conversation, usize>,
    /// Conversation of the last delivered packet, and its number, if any.
    latest: Option<(Conversation, Option<usize>)>,
    /// Delivered bytes by conversation; those of further conversations.
    bytes: Vec<(Conversation, u64)>,
    other_bytes: u64,
}

/// Hash of a key that is a hash: the key.
#[derive(Clone, Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns a hash of the parts of a packet that links leave unchanged: not the traffic class, which
/// contains ECN, and not the checksum of the IPv4 header.
fn hash(packet: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let end = packet.len().min(COMPARED);
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let parts: [&[u8]; 2] = match is_v4 {
        true if end >= 12 => [&packet[2..10], &packet[12..end]],
        _ => [&packet[4.min(end)..end], &[]],
    };
    let mut hash = packet.len() as u64;
    for chunk in parts.iter().flat_map(|part| part.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash
}

impl DirectionMeter {
    /// Records a packet that a host passes to the link.
    pub fn on_offer(&mut self, now: Instant, packet: &[u8]) {
        self.offered += 1;
        let key = hash(packet);
        let is_equal = self.sent.iter().any(|generation| generation.contains_key(&key));
        if self.sent[0].len() >= MOST_IN_TRANSIT {
            self.sent.swap(0, 1);
            self.sent[0].clear();
        }
        self.sent[0].insert(key, (!is_equal).then_some(now));
    }

    /// Returns the number of a conversation; `None` for further ones, which have none.
    fn number_of(&mut self, conversation: Conversation) -> Option<usize> {
        let known = self.conversations.len();
        match self.conversations.get(&conversation) {
            Some(&number) => Some(number),
            None if known < MOST_CONVERSATIONS => {
                self.conversations.insert(conversation, known);
                self.bytes.push((conversation, 0));
                Some(known)
            }
            None => None,
        }
    }

    /// Records a delivered packet; returns its delay, if known.
    fn on_delivery(&mut self, at: Instant, packet: &[u8]) -> Option<Duration> {
        if let Some(conversation) = Conversation::of(packet) {
            let number = match self.latest {
                Some((latest, number)) if latest == conversation => number,
                _ => self.number_of(conversation),
            };
            self.latest = Some((conversation, number));
            let bytes = number.map_or(&mut self.other_bytes, |number| &mut self.bytes[number].1);
            *bytes += packet.len() as u64;
        }
        let key = hash(packet);
        let found = self.sent.iter_mut().find_map(|generation| generation.remove(&key));
        let delay = at.saturating_since(found??);
        self.delays.record(delay);
        self.last = Some(delay);
        self.sum += delay.as_secs_f64();
        self.maximum = self.maximum.max(delay);
        self.count += 1;
        Some(delay)
    }

    /// Returns the mean and the maximum delay in seconds since the last call; null without packets.
    pub fn take_sample(&mut self) -> [Value; 2] {
        let sample = match self.count {
            0 => [Value::Null, Value::Null],
            count => [json!(self.sum / count as f64), json!(self.maximum.as_secs_f64())],
        };
        (self.sum, self.maximum, self.count) = (0.0, Duration::ZERO, 0);
        sample
    }

    /// Returns the delivered bytes of each conversation since the start, in the order of
    /// [`Self::conversations`] and without the others.
    pub fn conversation_bytes(&self) -> Vec<u64> {
        self.bytes.iter().map(|&(_, bytes)| bytes).collect()
    }

    /// Returns the conversations with their delivered bytes since the start, by first packet.
    pub fn conversations(&self) -> Vec<Value> {
        let known = self.bytes.iter().map(|&(conversation, bytes)| conversation.to_json(bytes));
        let other =
            (self.other_bytes > 0).then(|| json!({"protocol": "other", "bytes": self.other_bytes}));
        known.chain(other).collect()
    }
}

/// Measurements of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkMeter {
    /// By the side that sends.
    pub directions: [DirectionMeter; 2],
    /// RTT under load.
    pub round_trips: Durations,
}

impl LinkMeter {
    /// Records a packet of direction `direction` delivered at `at`.
    pub fn on_delivery(&mut self, direction: usize, at: Instant, packet: &[u8]) {
        let delay = self.directions[direction].on_delivery(at, packet);
        let other = self.directions[1 - direction].last;
        if let (Some(delay), Some(other)) = (delay, other) {
            self.round_trips.record(delay + other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// A UDP packet over IPv4 from 10.0.0.1 to 10.0.0.2.
    fn packet(from: u16, to: u16, data: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend(from.to_be_bytes());
        packet.extend(to.to_be_bytes());
        packet.extend([0, 9, 0, 0, data]);
        packet
    }

    #[test]
    fn delays_are_matched_even_if_a_queue_marks_the_packet() {
        let mut meter = LinkMeter::default();
        meter.directions[0].on_offer(ms(0), &packet(5_000, 80, 1));
        meter.directions[0].on_offer(ms(1), &packet(5_000, 80, 2));
        let mut marked = packet(5_000, 80, 1);
        (marked[1], marked[10]) = (3, 77);
        meter.on_delivery(0, ms(30), &marked);
        meter.on_delivery(0, ms(41), &packet(5_000, 80, 2));
        let delays = meter.directions[0].delays.all();
        assert_eq!(delays["n"], 2);
        assert!((delays["p50_s"].as_f64().unwrap() - 0.030).abs() < 1e-4, "{delays}");
        assert!((delays["max_s"].as_f64().unwrap() - 0.040).abs() < 1e-4, "{delays}");
        // The RTT needs a delay of the other direction.
        assert_eq!(meter.round_trips.all(), Value::Null);
        meter.directions[1].on_offer(ms(50), &packet(80, 5_000, 1));
        meter.on_delivery(1, ms(60), &packet(80, 5_000, 1));
        let rtt = meter.round_trips.all()["max_s"].as_f64().unwrap();
        assert!((rtt - 0.050).abs() < 1e-4, "{rtt}");
    }

    #[test]
    fn percentiles_since_the_start_include_those_of_all_reports() {
        let mut durations = Durations::default();
        assert_eq!(durations.take_recent(), Value::Null);
        durations.record(Duration::from_millis(10));
        assert_eq!(durations.take_recent()["n"], 1);
        durations.record(Duration::from_millis(30));
        assert_eq!(durations.all()["n"], 2);
        let recent = durations.take_recent();
        assert_eq!((&recent["n"], &recent["max_s"]), (&json!(1), &durations.all()["max_s"]));
        assert_eq!(durations.take_recent(), Value::Null);
        assert_eq!(durations.all()["n"], 2);
    }

    #[test]
    fn equal_packets_in_transit_are_not_measured() {
        let mut meter = LinkMeter::default();
        for at in [0, 7] {
            meter.directions[0].on_offer(ms(at), &packet(5_000, 80, 1));
        }
        meter.on_delivery(0, ms(20), &packet(5_000, 80, 1));
        meter.on_delivery(0, ms(30), &packet(5_000, 80, 1));
        assert_eq!(meter.directions[0].delays.all(), Value::Null);
        assert_eq!(meter.directions[0].offered, 2);
    }

    #[test]
    fn memory_is_bounded_without_deliveries() {
        let mut meter = DirectionMeter::default();
        for number in 0..3 * MOST_IN_TRANSIT as u32 {
            let mut packet = packet(1, 2, 0);
            packet.extend(number.to_be_bytes());
            meter.on_offer(ms(0), &packet);
        }
        assert!(meter.sent.iter().all(|generation| generation.len() <= MOST_IN_TRANSIT));
    }

    #[test]
    fn conversations_share_the_port_of_the_server() {
        let mut meter = LinkMeter::default();
        for client in [50_001, 50_002] {
            meter.on_delivery(0, ms(0), &packet(80, client, 0));
        }
        let [one] = &meter.directions[0].conversations()[..] else { panic!("one conversation") };
        assert_eq!((&one["port"], &one["from_server"]), (&json!(80), &json!(true)));
        assert_eq!((&one["protocol"], &one["bytes"]), (&json!("udp"), &json!(58)));
        for port in 1_000..2_000 {
            meter.on_delivery(1, ms(0), &packet(port, 60_000, 0));
        }
        let all = meter.directions[1].conversations();
        assert_eq!(all.len(), MOST_CONVERSATIONS + 1);
        assert_eq!(all[MOST_CONVERSATIONS]["protocol"], "other");
    }

    #[test]
    fn sojourns_are_those_of_a_fifo() {
        let mut sojourns = Sojourns::default();
        sojourns.update(ms(0), 1);
        sojourns.update(ms(4), 2);
        sojourns.update(ms(10), 1);
        sojourns.update(ms(10), 0);
        let all = sojourns.durations.all();
        assert_eq!(all["n"], 2);
        assert!((all["mean_s"].as_f64().unwrap() - 0.008).abs() < 1e-4, "{all}");
        assert_eq!(sojourns.durations.take_recent()["n"], 2);
        assert_eq!(sojourns.durations.take_recent(), Value::Null);
    }
}
