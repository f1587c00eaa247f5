//! The sockets of a script, and the assignment of segments to them.
//!
//! ```text
//!   socket --connect--> the socket under test
//!      |
//!      +----listen----> the listener under test --SYN--> a child, the socket under test
//!                                                           |
//!                                                           +--handshake--> accept
//! ```
//!
//! Segments without ports belong to the socket under test, as in packetdrill: the one that was
//! connected last or received a SYN last. Once that connection is over, a SYN is delivered to the
//! listener. Ports as in `4000 > 8080` select another socket, and a SYN with new ports opens
//! another connection. Other sockets remain active. Their segments are compared only if the script
//! specifies their ports.

use super::player::Player;
use super::stamps::Stamps;
use lasthop_base::units::Instant;
use lasthop_tcp::host::{Segment, Socket, State};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

/// Index of a socket of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndpointId(usize);

/// Ports of a connection: the peer's and ours.
pub(super) type Ports = (u16, u16);

/// A socket with additional state.
#[derive(Default)]
pub(super) struct Endpoint {
    /// The socket, once it listens or connects.
    pub socket: Option<Socket>,
    /// Socket options that were set, by name.
    pub options: BTreeMap<String, i64>,
    /// Name of its congestion control algorithm, if chosen by the application.
    pub law: Option<String>,
    /// Timestamps of writes.
    pub stamps_of_writes: Stamps,
    /// Number of events that wake a waiting call.
    pub happened: u64,
    /// Whether a call waits for room in the send buffer.
    pub awaits_room: bool,
    /// Whether a call has reported the end of the handshake.
    pub has_connected: bool,
    /// Whether a call has reported the failure of the handshake.
    pub has_failed: bool,
    /// `SO_LINGER` with zero time: a close resets the connection.
    pub resets_on_close: bool,
    /// `SO_LINGER` with a positive time: a close blocks.
    pub lingers: bool,
    /// Segments that were sent and have not been compared with the script yet.
    pub sent: VecDeque<(Instant, Segment)>,
    /// Timestamps of the script, each with the corresponding one of the connection.
    pub stamps: Vec<(u32, u32)>,
    /// Ports specified by the script.
    ports: Option<Ports>,
    /// The listener that created it.
    listener: Option<EndpointId>,
    /// For a listener: connections that can be accepted, in the order in which they were
    /// established.
    ready: VecDeque<EndpointId>,
}

impl Endpoint {
    fn state(&self) -> Option<State> {
        self.socket.as_ref().map(Socket::state)
    }

    /// Time of the next timeout.
    pub fn next_timeout(&self) -> Instant {
        self.socket.as_ref().map_or(Instant::NEVER, |socket| socket.next_timeout())
    }

    /// Returns `true` if a connection can be accepted.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Collects all segments that it sends now.
    pub fn pump(&mut self, now: Instant) {
        if let Some(socket) = &mut self.socket {
            while let Some(segment) = socket.poll_transmit(now) {
                self.sent.push_back((now, segment));
            }
            let (unacknowledged, unsent) = socket.unacknowledged();
            self.stamps_of_writes.look(now, unacknowledged, unsent);
        }
    }
}

/// All sockets. Dereferences to the focused one: the socket of the current call, segment or
/// statement.
pub(super) struct Endpoints {
    all: Vec<Endpoint>,
    focus: usize,
    under_test: usize,
}

impl Deref for Endpoints {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.all[self.focus]
    }
}

impl DerefMut for Endpoints {
    fn deref_mut(&mut self) -> &mut Endpoint {
        &mut self.all[self.focus]
    }
}

impl Endpoints {
    /// Creates the list. Before the first call it has one entry without a socket.
    pub fn new() -> Self {
        Endpoints { all: vec![Endpoint::default()], focus: 0, under_test: 0 }
    }

    /// Adds a socket and focuses it.
    pub fn open(&mut self) -> EndpointId {
        self.focus = self.all.len();
        self.all.push(Endpoint::default());
        EndpointId(self.focus)
    }

    pub fn get(&self, id: EndpointId) -> &Endpoint {
        &self.all[id.0]
    }

    pub fn get_mut(&mut self, id: EndpointId) -> &mut Endpoint {
        &mut self.all[id.0]
    }

    pub fn focused(&self) -> EndpointId {
        EndpointId(self.focus)
    }

    pub fn focus(&mut self, id: EndpointId) {
        self.focus = id.0;
    }

    pub fn focus_on_tested(&mut self) {
        self.focus = self.under_test;
    }

    /// Makes the focused socket the one under test, which receives all further segments.
    pub fn test_focused(&mut self) {
        self.under_test = self.focus;
    }

    /// Time of the next timeout of any socket.
    pub fn next_timeout(&self) -> Instant {
        self.all.iter().map(Endpoint::next_timeout).min().unwrap_or(Instant::NEVER)
    }

    /// Handles the timers that are due at `now` and collects all segments sent.
    pub fn handle_timeouts(&mut self, now: Instant) {
        for one in &mut self.all {
            if one.next_timeout() <= now
                && let Some(socket) = &mut one.socket
            {
                socket.handle_timeout(now);
            }
        }
        self.pump(now);
    }

    pub fn pump(&mut self, now: Instant) {
        for one in &mut self.all {
            one.pump(now);
        }
    }

    /// Accepts a connection from the focused listener, if any.
    pub fn accept(&mut self) -> Option<EndpointId> {
        let child = self.ready.pop_front()?;
        self.all[child.0].has_connected = true;
        Some(child)
    }

    /// Records that a connection is established, so that its listener can return it.
    fn note_open(&mut self, id: EndpointId) {
        if let Some(EndpointId(listener)) = self.all[id.0].listener {
            self.all[listener].ready.push_back(id);
            self.all[listener].happened += 1;
        }
    }

    /// Closes the focused listener and resets its connections that were not accepted.
    pub fn close_listener(&mut self, now: Instant) {
        self.socket = None;
        let listener = self.focused();
        self.ready.clear();
        for one in self.all.iter_mut().filter(|one| one.listener == Some(listener)) {
            let is_accepted = one.has_connected;
            if let Some(socket) = one.socket.as_mut().filter(|_| !is_accepted) {
                match socket.state().is_synchronized() {
                    true => socket.abort(now, None),
                    false => one.socket = None,
                }
            }
        }
    }

    /// Children of the focused listener whose handshake is in progress, and which share its
    /// settings.
    pub fn unfinished(&self) -> Vec<EndpointId> {
        let listener = Some(self.focused());
        let waits =
            |one: &Endpoint| one.listener == listener && one.state() == Some(State::SynReceived);
        (0..self.all.len()).filter(|&place| waits(&self.all[place])).map(EndpointId).collect()
    }

    /// The listener that is the socket under test or created it.
    fn listener(&self) -> Option<usize> {
        let tested = &self.all[self.under_test];
        let place = tested.listener.map_or(self.under_test, |listener| listener.0);
        (self.all[place].state() == Some(State::Listen)).then_some(place)
    }

    /// Returns `true` if the socket at `place` has no connection that a SYN could affect.
    fn is_over(&self, place: usize) -> bool {
        matches!(self.all[place].state(), None | Some(State::Listen | State::Closed))
    }
}

impl Player {
    /// Focuses the socket that receives or sends a segment with `ports`. A SYN that opens a
    /// connection creates one.
    pub(super) fn route(&mut self, ports: Option<Ports>, is_syn: bool) {
        let ends = &mut self.ends;
        let known = ends.all.iter().rposition(|one| ports.is_some() && one.ports == ports);
        let tested = ends.under_test;
        let listener = ends.listener();
        let opens_another = is_syn && listener.is_some();
        let is_free = ports.is_none() || ends.all[tested].ports.is_none() && !opens_another;
        let place = known.or_else(|| is_free.then_some(tested));
        // The listener itself rejects segments that open no connection.
        if let Some(listener) = listener.filter(|_| place.is_none_or(|place| ends.is_over(place))) {
            ends.focus = if is_syn { listener } else { place.unwrap_or(listener) };
            if is_syn {
                self.open_child(EndpointId(listener));
                self.ends.ports = ports;
            }
            return;
        }
        ends.focus = place.unwrap_or(tested);
        if place.is_none() {
            // No socket has these ports.
            ends.open();
            self.ends.socket = Some(self.make_socket());
        }
        self.ends.ports = ports.or(self.ends.ports);
    }

    /// Creates the socket that answers a SYN to a listener.
    fn open_child(&mut self, listener: EndpointId) {
        let parent = self.ends.get(listener);
        let (options, law) = (parent.options.clone(), parent.law.clone());
        let (resets_on_close, lingers) = (parent.resets_on_close, parent.lingers);
        self.ends.open();
        let child = Endpoint {
            options,
            law,
            resets_on_close,
            lingers,
            listener: Some(listener),
            ..Endpoint::default()
        };
        *self.ends = child;
        self.ends.test_focused();
        let mut socket = self.make_socket();
        socket.listen();
        self.ends.socket = Some(socket);
    }

    /// Delivers a segment to the focused connection, and wakes calls that wait for its effect.
    pub(super) fn deliver(&mut self, segment: &Segment) -> Result<(), super::ScriptError> {
        let now = self.now;
        let observe = |socket: &Socket| {
            (socket.unread(), socket.state(), socket.has_error(), socket.is_receiving_over())
        };
        let is_child = self.ends.listener.is_some();
        let Some(socket) = &mut self.ends.socket else { return Ok(()) };
        let before = observe(socket);
        let was_open = socket.is_open();
        socket.receive(now, segment);
        let has_changed = observe(socket) != before;
        let opens = is_child && !was_open && socket.is_open();
        if opens {
            let id = self.ends.focused();
            self.ends.note_open(id);
        }
        self.pump()?;
        let has_room = self.ends.socket.as_ref().is_some_and(Socket::is_writable);
        if has_changed || self.ends.awaits_room && has_room {
            self.ends.happened += 1;
            self.ends.awaits_room &= !has_room;
        }
        Ok(())
    }
}
