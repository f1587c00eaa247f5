//! DNS over TCP (RFC 7766): the server's side of connections, with at most one segment in reply to each.
//!
//! States of a connection (RFC 9293): open between the SYN and the FIN of the client, or else unknown. The
//! server ends a connection together with the client.
//!
//! *Not modelled*: retransmission, as neither side loses segments; flow and congestion control, as responses
//! are shorter than the initial windows; options; urgent data.

use std::collections::VecDeque;

/// Length of a TCP header without options, in bytes.
pub(super) const HEADER: usize = 20;

/// Place of the checksum in the header.
pub(super) const CHECKSUM: usize = 16;

/// Control bits (RFC 9293, section 3.1).
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Initial sequence number of the server. A host connects to it by its own device only.
const INITIAL: u32 = 0;

/// Window of the server, in bytes.
const WINDOW: u16 = u16::MAX;

/// Maximum number of open connections; a further one replaces the oldest.
const MOST_CONNECTIONS: usize = 256;

/// Maximum length of a query with its length, in bytes.
const LONGEST: usize = 4_096;

/// An open connection.
#[derive(Clone, Debug)]
struct Connection {
    /// Address and port of the client.
    client: ([u8; 4], u16),
    /// Next sequence numbers of the client and of the server.
    next: u32,
    own: u32,
    /// The start of a query.
    received: Vec<u8>,
}

/// Connections of all hosts.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(VecDeque<Connection>);

impl Connections {
    /// Returns the segment, without a checksum, in reply to a segment from address `from`. `answer` returns
    /// the response to a query.
    pub fn reply(
        &mut self,
        from: [u8; 4],
        segment: &[u8],
        answer: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let header = segment.first_chunk::<HEADER>()?;
        let data = Some(4 * usize::from(header[12] >> 4)).filter(|&length| length >= HEADER)?;
        let data = segment.get(data..)?;
        let [from_port, to_port] =
            [0, 2].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        let number = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (sequence, acknowledged, flags) = (number(4), number(8), header[13]);
        let reply = |own: u32, next: u32, flags: u8, data: &[u8]| {
            let mut segment = Vec::with_capacity(HEADER + data.len());
            segment.extend(to_port.to_be_bytes());
            segment.extend(from_port.to_be_bytes());
            segment.extend(own.to_be_bytes());
            segment.extend(next.to_be_bytes());
            segment.extend([(HEADER as u8 / 4) << 4, flags]);
            segment.extend(WINDOW.to_be_bytes());
            segment.extend([0; 4]);
            segment.extend(data);
            Some(segment)
        };
        let client = (from, from_port);
        let place = self.0.iter().position(|one| one.client == client);
        if flags & (SYN | RST) != 0 {
            place.map(|place| self.0.remove(place));
            if flags & RST != 0 {
                return None;
            }
            if self.0.len() == MOST_CONNECTIONS {
                self.0.pop_front();
            }
            let (next, own) = (sequence.wrapping_add(1), INITIAL.wrapping_add(1));
            self.0.push_back(Connection { client, next, own, received: Vec::new() });
            return reply(INITIAL, next, SYN | ACK, &[]);
        }
        let is_ack_only = data.is_empty() && flags & FIN == 0;
        let Some(place) = place else {
            // The acknowledgment of a FIN needs no reply.
            return if is_ack_only { None } else { reply(acknowledged, 0, RST, &[]) };
        };
        let connection = &mut self.0[place];
        if sequence != connection.next {
            // Received before, or a probe.
            return reply(connection.own, connection.next, ACK, &[]);
        }
        if is_ack_only {
            return None;
        }
        connection.received.extend_from_slice(data);
        let responses = connection.responses(answer);
        let own = connection.own;
        connection.next = sequence.wrapping_add(data.len() as u32);
        connection.own = own.wrapping_add(responses.len() as u32);
        if connection.received.len() > LONGEST {
            self.0.remove(place);
            return reply(own, 0, RST, &[]);
        }
        let next = connection.next;
        if flags & FIN != 0 {
            self.0.remove(place);
            return reply(own, next.wrapping_add(1), FIN | PSH | ACK, &responses);
        }
        reply(own, next, PSH | ACK, &responses)
    }
}

impl Connection {
    /// Takes the complete queries; returns their responses, each after its length (RFC 1035, section 4.2.2).
    fn responses(&mut self, answer: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
        let mut responses = Vec::new();
        while let Some((length, rest)) = self.received.split_first_chunk() {
            let length = usize::from(u16::from_be_bytes(*length));
            let Some(query) = rest.get(..length) else { break };
            if let Some(response) = answer(query) {
                responses.extend((response.len() as u16).to_be_bytes());
                responses.extend(response);
            }
            self.received.drain(..2 + length);
        }
        responses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: [u8; 4] = [10, 71, 0, 1];

    /// A segment of the client.
    fn segment(port: u16, sequence: u32, acknowledged: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut segment = Vec::new();
        segment.extend(port.to_be_bytes());
        segment.extend(53_u16.to_be_bytes());
        segment.extend(sequence.to_be_bytes());
        segment.extend(acknowledged.to_be_bytes());
        segment.extend([0x50, flags, 1, 0, 0, 0, 0, 0]);
        segment.extend(data);
        segment
    }

    /// The response to a query is the query in reverse order; there is none to an empty query.
    fn reversed(query: &[u8]) -> Option<Vec<u8>> {
        (!query.is_empty()).then(|| query.iter().rev().copied().collect())
    }

    /// Sequence and acknowledgment number, control bits and data of the reply to a segment.
    fn replied(connections: &mut Connections, segment: &[u8]) -> Option<(u32, u32, u8, Vec<u8>)> {
        let reply = connections.reply(FROM, segment, reversed)?;
        assert_eq!((&reply[..2], &reply[2..4]), (&segment[2..4], &segment[..2]));
        let number = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().expect("four"));
        assert_eq!(reply[12], 0x50);
        Some((number(4), number(8), reply[13], reply[HEADER..].to_vec()))
    }

    #[test]
    fn a_connection_carries_queries_in_parts_and_together() {
        let own = &mut Connections::default();
        let start = u32::MAX - 1;
        let at = |place: u32| start.wrapping_add(place);
        let opened = replied(own, &segment(9, start, 0, SYN, &[]));
        assert_eq!(opened, Some((0, at(1), SYN | ACK, vec![])));
        assert_eq!(replied(own, &segment(9, at(1), 1, ACK, &[])), None);
        // The length, then the query; then two queries, an empty one and the start of a fourth.
        let part = replied(own, &segment(9, at(1), 1, PSH | ACK, &[0, 2]));
        assert_eq!(part, Some((1, at(3), PSH | ACK, vec![])));
        let whole = replied(own, &segment(9, at(3), 1, PSH | ACK, b"ab"));
        assert_eq!(whole, Some((1, at(5), PSH | ACK, b"\0\x02ba".to_vec())));
        let several = b"\0\x01x\0\x03xyz\0\0\0";
        let both = replied(own, &segment(9, at(5), 5, PSH | ACK, several));
        assert_eq!(both, Some((5, at(16), PSH | ACK, b"\0\x01x\0\x03zyx".to_vec())));
        // A repeated segment, then the end with the last query.
        let again = replied(own, &segment(9, at(5), 13, PSH | ACK, several));
        assert_eq!(again, Some((13, at(16), ACK, vec![])));
        let end = replied(own, &segment(9, at(16), 13, FIN | PSH | ACK, b"\x01c"));
        assert_eq!(end, Some((13, at(19), FIN | PSH | ACK, b"\0\x01c".to_vec())));
        assert_eq!(replied(own, &segment(9, at(19), 17, ACK, &[])), None);
        assert!(own.0.is_empty());
    }

    #[test]
    fn connections_are_separate_and_bounded() {
        let own = &mut Connections::default();
        for port in 1..=300 {
            replied(own, &segment(port, 100, 0, SYN, &[])).expect("a reply");
        }
        assert_eq!(own.0.len(), MOST_CONNECTIONS);
        let query = |port| segment(port, 101, 1, PSH | ACK, b"\0\x01a");
        let answered = Some((1, 104, PSH | ACK, b"\0\x01a".to_vec()));
        assert_eq!(replied(own, &query(300)), answered);
        assert_eq!(replied(own, &query(299)), answered);
        // The first ones are forgotten, and reset.
        assert_eq!(replied(own, &query(1)), Some((1, 0, RST, vec![])));
        // A reset is not answered, and ends the connection.
        assert_eq!(replied(own, &segment(299, 104, 0, RST, &[])), None);
        assert_eq!(replied(own, &query(299)), Some((1, 0, RST, vec![])));
        // A query longer than the maximum.
        let long = segment(300, 104, 4, ACK, &[0xff; LONGEST + 1]);
        assert_eq!(replied(own, &long), Some((4, 0, RST, vec![])));
        assert_eq!(own.0.len(), MOST_CONNECTIONS - 2);
    }
}
