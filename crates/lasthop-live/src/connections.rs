//! Which TCP connection a packet belongs to, as a small number: what a simulator knows from a packet's
//! path, a live link learns from addresses and ports.
//!
//! Packets come from anywhere, so the table is bounded: where it is full, the connection that was idle
//! longest makes place for one that opens (SYN), whose agents then begin anew; a packet in the middle
//! of a connection that the table does not hold belongs to none.

use lasthop_sim::agent::{Segment, tcp_of};
use std::collections::HashMap;

/// Connections that the agents of a link follow at a time.
pub const MOST_CONNECTIONS: usize = 1024;

/// Two ends of a connection, the lesser first, so that both directions have the same key.
type Key = [[u8; 18]; 2];

/// The connections of a link.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Do all connections between two hosts count as one?
    by_hosts: bool,
    numbers: HashMap<Key, usize>,
    /// By number: the key, and when it was last asked for, in packets.
    used: Vec<(Key, u64)>,
    packets: u64,
}

impl Connections {
    /// None yet; `by_hosts`: all connections between two hosts count as one.
    pub fn new(by_hosts: bool) -> Self {
        Connections { by_hosts, numbers: HashMap::new(), used: Vec::new(), packets: 0 }
    }

    /// The connection that a packet belongs to; `None` if it is no whole TCP segment, or of a
    /// connection that the table has no room for.
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
