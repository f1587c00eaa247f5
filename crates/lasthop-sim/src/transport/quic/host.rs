//! One end of a connection: an endpoint of quinn-proto, at most one connection, and its streams.

use super::controller::Shared;
use crate::transport::{Arrival, Datagram};
use bytes::{Bytes, BytesMut};
use lasthop_base::units::{Bytes as Size, Instant};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint,
    Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent, StreamId,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// Bytes that are written to the stack in one call.
const CHUNK: usize = 1 << 16;
/// Datagrams of the application that wait for the handshake.
const MOST_UNSENT: usize = 10_000;
/// Bytes of an allocation for arriving UDP datagrams and for DATAGRAM frames.
const ARRIVALS: usize = 1 << 16;
/// Bytes of a DATAGRAM frame that the application reads: number and time.
pub(super) const STAMP: usize = 16;

/// Configuration of one end.
pub(super) struct Setup {
    pub endpoint: Arc<EndpointConfig>,
    /// With the client only.
    pub client: Option<ClientConfig>,
    /// With the server only.
    pub server: Option<Arc<ServerConfig>>,
    pub shared: Arc<Shared>,
}

/// A bidirectional stream, at one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    id: Option<StreamId>,
    /// Bytes written by the application, and those of them that the stack has accepted.
    written: u64,
    accepted: u64,
    /// Bytes received in order.
    pub received: u64,
    /// 0 is sent first.
    urgency: u8,
    is_finishing: bool,
    /// Whether [`Host::poll_received`] returns it.
    is_reported: bool,
}

/// Bytes of all streams of an end together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Written by the application, and accepted by the stack.
    pub written: u64,
    pub accepted: u64,
    /// Received in order.
    pub received: u64,
    /// Received in order by the peer when it sent the latest packet that has arrived.
    pub acknowledged: u64,
}

/// One end.
pub(super) struct Host {
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    connection: Option<(ConnectionHandle, Connection)>,
    pub shared: Arc<Shared>,
    pub streams: Vec<Stream>,
    pub progress: Progress,
    /// Whether data or the end of a stream has not been passed to the stack.
    has_writes: bool,
    /// Streams with data that [`Self::poll_received`] has not returned.
    reported: VecDeque<u32>,
    /// Datagrams of the application that the stack has not accepted, and those that have arrived.
    unsent: VecDeque<(Datagram, Instant)>,
    arrived: VecDeque<Arrival>,
    /// Whether the application has sent datagrams.
    pub has_datagrams: bool,
    /// Memory for datagrams of the application.
    outgoing: BytesMut,
    /// Memory for arriving datagrams. The stack keeps slices of it until their data is read.
    arrivals: BytesMut,
    /// Datagrams that the stack has already written, with their ECN field.
    ready: VecDeque<(Vec<u8>, Option<EcnCodepoint>)>,
    /// Origin of the stack's clock. Its value has no effect.
    origin: std::time::Instant,
    send_buffer: u64,
    deadline: Instant,
    /// Time at which datagrams were received that may be answered once all datagrams of this
    /// instant have been received; never without such datagrams.
    reads_at: Instant,
    /// Whether input was processed since the stack last had nothing to send.
    has_input: bool,
    pub opened_at: Option<Instant>,
    pub connected_at: Option<Instant>,
    /// Error with which the connection has ended.
    pub error: Option<u64>,
    /// Whether the driver has yet to be woken because of the error.
    is_ending: bool,
    pub probes: u64,
    pub timeouts: u64,
}

/// Returns zeros, the contents of all streams.
fn zeros() -> &'static Bytes {
    static ZEROS: OnceLock<Bytes> = OnceLock::new();
    ZEROS.get_or_init(|| Bytes::from(vec![0; CHUNK]))
}

/// The address of the server or of the client. Both have one port and never change it.
fn address(is_server: bool) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + u8::from(is_server))), 443)
}

/// Returns the QUIC error code of an error; 0 (NO_ERROR) for an idle timeout.
fn code(error: &ConnectionError) -> u64 {
    match error {
        ConnectionError::TransportError(error) => error.code.into(),
        ConnectionError::ConnectionClosed(close) => close.error_code.into(),
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        // VERSION_NEGOTIATION_ERROR of RFC 9368.
        ConnectionError::VersionMismatch => 0x11,
        ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => 0,
    }
}

impl Host {
    pub fn new(setup: Setup, send_buffer: u64) -> Self {
        let Setup { endpoint, client, server, shared } = setup;
        Host {
            endpoint: Endpoint::new(endpoint, server, false, None),
            client,
            connection: None,
            shared,
            streams: Vec::new(),
            progress: Progress::default(),
            has_writes: false,
            reported: VecDeque::new(),
            unsent: VecDeque::new(),
            arrived: VecDeque::new(),
            has_datagrams: false,
            outgoing: BytesMut::new(),
            arrivals: BytesMut::new(),
            ready: VecDeque::new(),
            origin: std::time::Instant::now(),
            send_buffer,
            deadline: Instant::NEVER,
            reads_at: Instant::NEVER,
            has_input: false,
            opened_at: None,
            connected_at: None,
            error: None,
            is_ending: false,
            probes: 0,
            timeouts: 0,
        }
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.origin + std::time::Duration::from_nanos(now.as_nanos())
    }

    fn is_server(&self) -> bool {
        self.client.is_none()
    }

    /// Returns the connection, if it exists.
    pub fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref().map(|(_, connection)| connection)
    }

    /// Returns a stream, which need not exist at the stack yet.
    fn stream(&mut self, number: u32) -> &mut Stream {
        let length = self.streams.len().max(number as usize + 1);
        self.streams.resize(length, Stream::default());
        &mut self.streams[number as usize]
    }

    /// Appends bytes to a stream.
    pub fn write(&mut self, number: u32, urgency: u8, bytes: u64) {
        let stream = self.stream(number);
        stream.written += bytes;
        stream.urgency = urgency;
        self.progress.written += bytes;
        (self.has_input, self.has_writes) = (true, true);
    }

    /// Ends a stream after the bytes written so far.
    pub fn finish(&mut self, number: u32) {
        self.stream(number).is_finishing = true;
        (self.has_input, self.has_writes) = (true, true);
    }

    /// Resets all streams (RFC 9000, section 3.1): their data is neither sent nor repaired from now
    /// on.
    pub fn stop(&mut self) {
        for stream in &mut self.streams {
            self.progress.written -= stream.written - stream.accepted;
            (stream.written, stream.is_finishing) = (stream.accepted, false);
            if let (Some(id), Some((_, connection))) = (stream.id, &mut self.connection) {
                // A stream that is finished or reset needs no reset.
                let _ = connection.send_stream(id).reset(0u32.into());
            }
        }
        self.has_input = true;
    }

    /// Sends a datagram of the application, whose size includes `header` bytes of UDP and IP.
    pub fn send(&mut self, now: Instant, datagram: Datagram, header: u64) {
        let size = Size::new(datagram.size.get().saturating_sub(header));
        self.unsent.push_back((Datagram { size, ..datagram }, now));
        // The stack limits its own buffer; before the handshake is complete it accepts nothing.
        if self.unsent.len() > MOST_UNSENT {
            self.unsent.pop_front();
        }
        (self.has_input, self.has_datagrams) = (true, true);
    }

    /// Returns the next datagram that has arrived.
    pub fn read_datagram(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }

    /// Passes datagrams to the stack, if the handshake is complete.
    fn pass_datagrams(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        while let Some(&(Datagram { number, size }, sent_at)) = self.unsent.front() {
            let size = (size.get() as usize).max(STAMP);
            if self.outgoing.capacity() < size {
                self.outgoing.reserve(ARRIVALS.max(size));
            }
            self.outgoing.extend_from_slice(&number.to_be_bytes());
            self.outgoing.extend_from_slice(&sent_at.as_nanos().to_be_bytes());
            self.outgoing.resize(size, 0);
            let bytes = self.outgoing.split().freeze();
            if connection.datagrams().send(bytes, true).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Records how many bytes the peer has received in order.
    pub fn on_progress_of_peer(&mut self, received: u64) {
        let known = &mut self.progress.acknowledged;
        *known = received.max(*known);
    }

    /// Returns a stream that has received data since the last call, and its bytes in order.
    pub fn poll_received(&mut self) -> Option<(u32, u64)> {
        let number = self.reported.pop_front()?;
        let stream = &mut self.streams[number as usize];
        stream.is_reported = false;
        Some((number, stream.received))
    }

    /// Opens the connection if the client has data to send.
    fn connect(&mut self, now: Instant) {
        if self.connection.is_none()
            && self.opened_at.is_none()
            && let Some(client) = &self.client
            && (self.progress.written > 0 || self.has_datagrams)
        {
            let (at, client) = (self.at(now), client.clone());
            self.opened_at = Some(now);
            self.connection = self.endpoint.connect(at, client, address(true), "server").ok();
        }
    }

    /// Passes data of the application to the stack, as far as its buffer has room.
    fn fill(&mut self) {
        let Some((_, connection)) = self.connection.as_mut().filter(|_| self.has_writes) else {
            return;
        };
        let is_client = self.client.is_some();
        let all = &mut self.progress;
        self.has_writes = false;
        for stream in &mut self.streams {
            if stream.id.is_none() && is_client {
                // The stack numbers streams in the order in which they are opened.
                stream.id = connection.streams().open(Dir::Bi);
                if stream.id.is_none() {
                    self.has_writes = true;
                    break;
                }
            }
            let Some(id) = stream.id else { continue };
            if stream.urgency > 0 && stream.accepted < stream.written {
                // A stream that the peer has stopped needs no priority.
                let _ = connection.send_stream(id).set_priority(-i32::from(stream.urgency));
            }
            while stream.accepted < stream.written {
                let chunk = (stream.written - stream.accepted).min(CHUNK as u64);
                let outstanding = all.accepted - all.acknowledged.min(all.accepted);
                // Small writes would fragment the buffer of the stack.
                if outstanding > 0 && outstanding + chunk > self.send_buffer {
                    break;
                }
                let mut chunks = [zeros().slice(..chunk as usize)];
                let Ok(written) = connection.send_stream(id).write_chunks(&mut chunks) else {
                    break;
                };
                stream.accepted += written.bytes as u64;
                all.accepted += written.bytes as u64;
            }
            self.has_writes |= stream.accepted < stream.written;
            if stream.is_finishing && stream.accepted == stream.written {
                stream.is_finishing = false;
                // A stream that the peer has stopped is already finished.
                let _ = connection.send_stream(id).finish();
            }
        }
    }

    /// Writes the next datagram into `buffer`, which is empty. Returns its ECN field; `None` if
    /// nothing is to be sent.
    pub fn poll(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Option<EcnCodepoint>> {
        if self.reads_at < Instant::NEVER {
            return None;
        }
        if let Some((bytes, ecn)) = self.ready.pop_front() {
            buffer.extend_from_slice(&bytes);
            return Some(ecn);
        }
        if !self.has_input {
            return None;
        }
        self.connect(now);
        self.fill();
        self.pass_datagrams();
        let at = self.at(now);
        let (_, connection) = self.connection.as_mut()?;
        if let Some(transmit) = connection.poll_transmit(at, 1, buffer) {
            return Some(transmit.ecn);
        }
        self.has_input = false;
        self.advance(now);
        self.schedule(now);
        None
    }

    /// Reads the deadline of the stack. The end of the connection is due immediately.
    fn schedule(&mut self, now: Instant) {
        if self.is_ending {
            self.deadline = now;
            return;
        }
        let deadline = self.connection.as_mut().and_then(|(_, one)| one.poll_timeout());
        self.deadline = deadline.map_or(Instant::NEVER, |at| {
            let nanos = at.saturating_duration_since(self.origin).as_nanos();
            Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).max(now)
        });
    }

    /// Processes a datagram. Its answer waits for other datagrams that arrive at this instant: see
    /// [`Self::handle_timeout`].
    pub fn receive(&mut self, now: Instant, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        self.has_input = true;
        self.reads_at = now;
        let (at, peer) = (self.at(now), address(!self.is_server()));
        let mut answer = Vec::new();
        if self.arrivals.capacity() < datagram.len() {
            self.arrivals.reserve(ARRIVALS);
        }
        self.arrivals.extend_from_slice(datagram);
        let bytes = self.arrivals.split();
        match self.endpoint.handle(at, peer, None, ecn, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, at, &mut answer, None) {
                    Ok(connection) => {
                        self.opened_at = Some(now);
                        self.connection = Some(connection);
                    }
                    Err(error) => {
                        self.error = Some(code(&error.cause));
                        if error.response.is_some() {
                            self.ready.push_back((answer, None));
                        }
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) => self.ready.push_back((answer, None)),
            None => {}
        }
        self.advance(now);
    }

    /// Returns the next deadline. All datagrams that arrive at an instant are read before an answer
    /// is sent, as by a host that empties its socket: the deadline then is this instant.
    pub fn next_timeout(&self) -> Instant {
        self.deadline.min(self.reads_at)
    }

    /// Handles a deadline. Returns `true` if a probe timeout has occurred: then its packets are
    /// ready to be sent.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.reads_at <= now {
            // Like an event loop on a socket: datagrams are sent before timers are handled.
            self.reads_at = Instant::NEVER;
            return false;
        }
        if now < self.deadline {
            return false;
        }
        let at = self.at(now);
        let Some((_, connection)) = &mut self.connection else { return false };
        self.has_input = true;
        connection.handle_timeout(at);
        self.shared.close(true);
        let before = self.probes;
        loop {
            let mut bytes = Vec::new();
            let Some(transmit) = connection.poll_transmit(at, 1, &mut bytes) else { break };
            let is_eliciting = |packet: super::frames::QuicPacket<'_>| packet.is_ack_eliciting();
            self.probes += u64::from(super::frames::packets(&bytes).any(is_eliciting));
            self.ready.push_back((bytes, transmit.ecn));
        }
        self.shared.close(false);
        self.timeouts += u64::from(self.probes > before);
        self.advance(now);
        self.is_ending = false;
        // The deadline has passed even if nothing is to be sent.
        self.schedule(now);
        self.probes > before
    }

    /// Processes the events of the stack.
    fn advance(&mut self, now: Instant) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            match event {
                Event::Connected => self.connected_at = Some(now),
                Event::ConnectionLost { reason } => {
                    (self.error, self.is_ending) = (Some(code(&reason)), true);
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = connection.streams().accept(Dir::Bi) {
                        let index = id.index() as usize;
                        let length = self.streams.len().max(index + 1);
                        self.streams.resize(length, Stream::default());
                        self.streams[index].id = Some(id);
                        let all = (&mut self.progress, &mut self.reported);
                        read(connection, &mut self.streams[index], id, all);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    if let Some(stream) = self.streams.get_mut(id.index() as usize) {
                        read(connection, stream, id, (&mut self.progress, &mut self.reported));
                    }
                }
                Event::DatagramReceived => {
                    while let Some(bytes) = connection.datagrams().recv() {
                        let number = |at: usize| {
                            let bytes = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
                            bytes.map_or(0, u64::from_be_bytes)
                        };
                        let sent_at = Instant::from_nanos(number(8));
                        self.arrived.push_back(Arrival { number: number(0), sent_at });
                    }
                }
                Event::HandshakeDataReady | Event::Stream(_) | Event::DatagramsUnblocked => {}
            }
        }
    }
}

/// Reads all data in order.
fn read(
    connection: &mut Connection,
    stream: &mut Stream,
    id: StreamId,
    (all, reported): (&mut Progress, &mut VecDeque<u32>),
) {
    let mut receiver = connection.recv_stream(id);
    let Ok(mut chunks) = receiver.read(true) else { return };
    while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
        stream.received += chunk.bytes.len() as u64;
        all.received += chunk.bytes.len() as u64;
        if !std::mem::replace(&mut stream.is_reported, true) {
            reported.push_back(id.index() as u32);
        }
    }
    // The driver polls for packets in any case.
    let _ = chunks.finalize();
}
