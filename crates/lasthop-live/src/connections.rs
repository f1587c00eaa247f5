//! Numbers of TCP connections. The simulator derives the connection of a packet from its path; a live link
//! identifies it by addresses and ports.
//!
//! Packets can have arbitrary addresses, so the table is bounded. If it is full, a new connection (SYN) replaces
//! the connection that was idle longest, and the agents restart for it. A packet in the middle of an unknown
//! connection is not assigned to a connection.

use lasthop_sim::agent::{Segment, tcp_of};
use std::collections::HashMap;

/// Maximum number of connections that the agents of a link track simultaneously.
pub const MOST_CONNECTIONS: usize = 1024;

/// Two ends of a connection, in ascending order, so that both directions have equal keys.
type Key = [[u8; 18]; 2];

/// Table of the connections of a link.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Whether all connections between two hosts share a number.
    by_hosts: bool,
    numbers: HashMap<Key, usize>,
    /// By number: the key, and the time of the last lookup, in packets.
    used: Vec<(Key, u64)>,
    packets: u64,
}

impl Connections {
    /// Creates an empty table; `by_hosts`: all connections between two hosts share a number.
    pub fn new(by_hosts: bool) -> Self {
        Connections { by_hosts, numbers: HashMap::new(), used: Vec::new(), packets: 0 }
    }

    /// Returns the connection of a packet; `None` if the packet is not a whole TCP segment, or if
    /// the table has no entry for its connection.
    pub fn of(&mut self, packet: &Vec<u8>) -> Option<usize> {
        let key = self.key(packet)?;
        self.packets += 1;
        if let Some(&number) = self.numbers.get(&key) {
            self.used[number].1 = self.packets;
            return Some(number);
        }
        let number = self.used.len();
        if number < MOST_CONNECTIONS {
            self.used.push((key, self.packets));
            self.numbers.insert(key, number);
            return Some(number);
        }
        if !packet.segment()?.syn {
            return None;
        }
        let oldest = self.used.iter().enumerate().min_by_key(|(_, (_, used))| *used);
        let number = oldest.map(|(number, _)| number)?;
        self.numbers.remove(&self.used[number].0);
        self.used[number] = (key, self.packets);
        self.numbers.insert(key, number);
        Some(number)
    }

    fn key(&self, packet: &[u8]) -> Option<Key> {
        let segment = packet.get(tcp_of(packet)?)?;
        let (addresses, length) = match packet[0] >> 4 {
            4 => (packet.get(12..20)?, 4),
            _ => (packet.get(8..40)?, 16),
        };
        let mut key: Key = [[0; 18]; 2];
        for (end, place) in key.iter_mut().enumerate() {
            place[..length].copy_from_slice(&addresses[end * length..][..length]);
            if !self.by_hosts {
                place[16..].copy_from_slice(segment.get(2 * end..2 * end + 2)?);
            }
        }
        key.sort_unstable();
        Some(key)
    }
}
