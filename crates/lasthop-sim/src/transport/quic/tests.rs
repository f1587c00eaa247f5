//! A connection over a path without losses on which a packet is replaced: protocol errors.

use super::*;
use lasthop_base::schema::files::Files;
use lasthop_base::schema::keys::{Node, Table};
use lasthop_base::units::Duration;
use std::collections::VecDeque;

/// One-way delay of the path.
const DELAY: Duration = Duration::from_millis(10);
/// Bytes that the client writes.
const FILE: u64 = 100_000;

/// A connection and its path.
struct Path {
    quic: Quic,
    now: Instant,
    in_flight: VecDeque<(Instant, End, Descriptor<()>)>,
}

impl Path {
    fn new() -> Self {
        let (value, path) = (&serde_json::json!({}), String::new());
        let keys =
            QuicKeys::read(&Node { value, path, files: &Files::new(std::path::Path::new(".")) });
        let keys = keys.unwrap_or_else(|error| panic!("{error:?}"));
        let seeds = lasthop_base::rng::Streams { seed: 1, replication: 0 }.stream("test", "quic");
        let mut quic = Quic::new(keys, seeds);
        quic.write(End::Opener, FILE);
        Path { quic, now: Instant::ZERO, in_flight: VecDeque::new() }
    }

    /// Sends what both ends have to send. `replace` may change datagrams.
    fn pump(&mut self, replace: &mut impl FnMut(End, &mut Vec<u8>)) {
        for end in End::BOTH {
            let mut packet = Descriptor::<()>::default();
            while self.quic.poll_transmit(self.now, end, &mut packet) {
                let mut bytes = Vec::new();
                assert!(self.quic.buffers.take(packet.datagram_number(), &mut bytes));
                replace(end, &mut bytes);
                let number = self.quic.buffers.put(self.now, &bytes);
                assert_eq!(slot(number), slot(packet.datagram_number()));
                let size = bytes.len() as u32 + 28;
                let sent = Descriptor::numbered(size, number);
                self.in_flight.push_back((self.now + DELAY, end.other(), sent));
            }
        }
    }

    /// Runs until an end has failed, or until all data has arrived. Returns the time.
    fn run(&mut self, mut replace: impl FnMut(End, &mut Vec<u8>)) -> Instant {
        self.pump(&mut replace);
        while !self.quic.has_failed() && self.quic.read(End::Acceptor) < FILE {
            let arrival = self.in_flight.front().map_or(Instant::NEVER, |one| one.0);
            let timeouts = End::BOTH.map(|end| self.quic.next_timeout(end));
            self.now = arrival.min(timeouts[0]).min(timeouts[1]);
            assert!(self.now < Instant::NEVER, "the connection stalls");
            if arrival == self.now
                && let Some((_, end, packet)) = self.in_flight.pop_front()
            {
                self.quic.receive(self.now, end, &packet);
            }
            for end in End::BOTH {
                self.quic.handle_timeout(self.now, end);
            }
            self.pump(&mut replace);
        }
        self.now
    }
}

/// Replaces the frames of a 1-RTT packet, and fills the packet with PADDING.
fn set_frames(datagram: &mut Vec<u8>, frames: &[u8]) {
    assert_eq!(datagram[0] & 0x80, 0, "a short header");
    let header = 1 + frames::CID_LENGTH + usize::from(datagram[0] & 3) + 1;
    datagram.truncate(header);
    datagram.extend_from_slice(frames);
    datagram.resize(datagram.len() + 20 + frames::TAG_LENGTH, 0);
}

/// Returns the error code of a connection whose tenth 1-RTT packet from the client has these frames
/// instead of its own, if any, and the time at which it ends.
fn code_after(frames: Option<&[u8]>) -> (Option<u64>, Instant) {
    let mut path = Path::new();
    let mut sent = 0;
    let end = path.run(|end, datagram| {
        if end == End::Opener && datagram[0] & 0x80 == 0 {
            sent += 1;
            if sent == 10
                && let Some(frames) = frames
            {
                set_frames(datagram, frames);
            }
        }
    });
    (path.quic.totals().error, end)
}

/// RFC 9000, section 20.1, and the sections that require each error.
#[test]
fn a_protocol_error_ends_the_connection_with_its_code() {
    let (none, whole) = code_after(None);
    assert_eq!(none, None);
    let errors: [(&str, &[u8], u64); 9] = [
        // Section 4.1: more data than the stream window of 10 MB.
        ("FLOW_CONTROL_ERROR", &[0x0e, 0x00, 0xbf, 0xff, 0xff, 0xff, 0x01, 0x00], 0x03),
        // Section 4.6: the 201st stream of a client, with a limit of 100.
        ("STREAM_LIMIT_ERROR", &[0x0a, 0x43, 0x20, 0x01, 0x00], 0x04),
        // Section 19.10: flow control of a stream that the server has not opened.
        ("STREAM_STATE_ERROR", &[0x11, 0x01, 0x10], 0x05),
        // Section 4.5: the stream ends before data that has been received.
        ("FINAL_SIZE_ERROR", &[0x0f, 0x00, 0x00, 0x00], 0x06),
        // Section 12.4: an unknown frame; section 19.7: an empty token.
        ("FRAME_ENCODING_ERROR", &[0x40, 0x42], 0x07),
        // Section 13.1: an acknowledgment of a packet that was never sent.
        ("PROTOCOL_VIOLATION", &[0x02, 0xbf, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00], 0x0a),
        // Section 19.20: a client that sends HANDSHAKE_DONE.
        ("PROTOCOL_VIOLATION", &[0x1e], 0x0a),
        // Section 19.19: the peer closes, with errors of transport and application.
        ("CRYPTO_BUFFER_EXCEEDED", &[0x1c, 0x0d, 0x00, 0x00], 0x0d),
        ("an error of the application", &[0x1d, 0x2a, 0x00], 0x2a),
    ];
    for (name, frames, code) in errors {
        let (found, at) = code_after(Some(frames));
        assert_eq!(found, Some(code), "{name}");
        assert!(at < whole, "{name}: immediately, not after a timeout");
    }
}

/// A host empties its socket before it sends: datagrams that arrive at one instant are acknowledged
/// together, and not every second one.
#[test]
fn datagrams_of_an_instant_are_read_before_an_answer() {
    let mut path = Path::new();
    path.pump(&mut |_, _| ());
    let mut bursts = 0;
    while path.quic.read(End::Acceptor) < FILE {
        let arrival = path.in_flight.front().map_or(Instant::NEVER, |one| one.0);
        let timeouts = End::BOTH.map(|end| path.quic.next_timeout(end));
        path.now = arrival.min(timeouts[0]).min(timeouts[1]);
        assert!(path.now < Instant::NEVER, "the connection stalls");
        let now = path.now;
        let mut arrived = [0; 2];
        while path.in_flight.front().is_some_and(|one| one.0 == now) {
            let Some((_, end, packet)) = path.in_flight.pop_front() else { break };
            arrived[end.index()] += 1;
            path.quic.receive(now, end, &packet);
            assert!(!path.quic.poll_transmit(now, end, &mut Descriptor::<()>::default()));
            assert_eq!(path.quic.next_timeout(end), now);
        }
        for end in End::BOTH {
            path.quic.handle_timeout(now, end);
        }
        path.pump(&mut |_, _| ());
        // The first burst also contains messages of the handshake, with answers of their own.
        if arrived[1] > 3 {
            bursts += 1;
            let answers =
                path.in_flight.iter().filter(|one| one.0 == now + DELAY && one.1 == End::Opener);
            assert!(bursts == 1 || answers.count() == 1, "burst {bursts} at {now:?}");
        }
    }
    assert!(bursts > 2, "{bursts} bursts");
}
