//! The sockets of a script, and which of them a segment is for.
//!
//! ```text
//!   socket --connect--> the socket under test
//!      |
//!      +----listen----> the listener under test --SYN--> a child, the socket under test --handshake--> accept
//! ```
//!
//! Segments without ports are those of the socket under test, as in packetdrill: the one that was connected, or whose SYN
//! came, last. A SYN is for the listener once that is over. `4000 > 8080` names another by its ports, and a SYN from new
//! ones opens another connection. Other sockets go on beside it; what they send is compared where the script names their
//! ports, or not at all.

use super::player::Player;
use super::stamps::Stamps;
use lasthop_base::units::Instant;
use lasthop_tcp::host::{Segment, Socket, State};
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Deref, DerefMut};

/// One of the sockets of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndpointId(usize);

/// Ports of a connection: the peer's, and ours.
pub(super) type Ports = (u16, u16);

/// A socket, and what is known of it beside.
#[derive(Default)]
pub(super) struct Endpoint {
    /// There is one once it listens or connects.
    pub socket: Option<Socket>,
    /// Socket options that were set, by name.
    pub options: BTreeMap<String, i64>,
    /// Name of its congestion law, if the application has chosen it.
    pub law: Option<String>,
    /// Times of what was written.
    pub stamps_of_writes: Stamps,
    /// How often something happened that wakes who waits for it.
    pub happened: u64,
    /// Does somebody wait for room in the send buffer?
    pub awaits_room: bool,
    /// Has a call told of the end of the handshake, or that there is none?
    pub has_connected: bool,
    /// See above.
    pub has_failed: bool,
    /// `SO_LINGER` without time: a close resets.
    pub resets_on_close: bool,
    /// The same with time: a close waits.
    pub lingers: bool,
    /// What was sent and no line of the script has asked for yet.
    pub sent: VecDeque<(Instant, Segment)>,
    /// Timestamps of the script and those of the connection that they stand for.
    pub stamps: Vec<(u32, u32)>,
    /// Those that the script names.
    ports: Option<Ports>,
    /// Whose SYN it has answered.
    listener: Option<EndpointId>,
    /// Of a listener: connections that may be accepted, the first that was open first.
    ready: VecDeque<EndpointId>,
}

impl Endpoint {
    fn state(&self) -> Option<State> {
        self.socket.as_ref().map(Socket::state)
    }

    /// When something happens in it without an arrival.
    pub fn next_timeout(&self) -> Instant {
        self.socket.as_ref().map_or(Instant::NEVER, |socket| socket.next_timeout())
    }

    /// Is there a connection to accept?
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes all that it wants to send now.
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

/// All of them. It stands for the one that is in focus: that of the call, the segment or the statement in hand.
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
    /// Before the first call there is a place without a socket.
    pub fn new() -> Self {
        Endpoints { all: vec![Endpoint::default()], focus: 0, under_test: 0 }
    }

    /// Adds a socket, which is in focus from now on.
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

    /// Segments are for the one in focus from now on.
    pub fn test_focused(&mut self) {
        self.under_test = self.focus;
    }

    /// The time of the next timer of any.
    pub fn next_timeout(&self) -> Instant {
        self.all.iter().map(Endpoint::next_timeout).min().unwrap_or(Instant::NEVER)
    }

    /// Timers that are due at `now` fire, and all send what they may.
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

    /// Takes the connection that may be accepted from the listener in focus.
    pub fn accept(&mut self) -> Option<EndpointId> {
        let child = self.ready.pop_front()?;
        self.all[child.0].has_connected = true;
        Some(child)
    }

    /// A connection is open: its listener may hand it out.
    fn note_open(&mut self, id: EndpointId) {
        if let Some(EndpointId(listener)) = self.all[id.0].listener {
            self.all[listener].ready.push_back(id);
            self.all[listener].happened += 1;
        }
    }

    /// The listener in focus is closed: who has opened a connection to it and was not accepted is reset.
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

    /// Children of the listener in focus whose handshake goes on, which share what is set for it.
    pub fn unfinished(&self) -> Vec<EndpointId> {
        let listener = Some(self.focused());
        let waits =
            |one: &Endpoint| one.listener == listener && one.state() == Some(State::SynReceived);
        (0..self.all.len()).filter(|&place| waits(&self.all[place])).map(EndpointId).collect()
    }

    /// The listener that the socket under test is, or came from.
    fn listener(&self) -> Option<usize> {
        let tested = &self.all[self.under_test];
        let place = tested.listener.map_or(self.under_test, |listener| listener.0);
        (self.all[place].state() == Some(State::Listen)).then_some(place)
    }

    /// Is there nothing at `place` that a SYN could disturb?
    fn is_over(&self, place: usize) -> bool {
        matches!(self.all[place].state(), None | Some(State::Listen | State::Closed))
    }
}

impl Player {
    /// Puts the socket into focus that a segment with `ports` arrives at, or leaves from; a SYN that opens a connection
    /// makes one.
    pub(super) fn route(&mut self, ports: Option<Ports>, is_syn: bool) {
        let ends = &mut self.ends;
        let known = ends.all.iter().rposition(|one| ports.is_some() && one.ports == ports);
        let tested = ends.under_test;
        let listener = ends.listener();
        let opens_another = is_syn && listener.is_some();
        let is_free = ports.is_none() || ends.all[tested].ports.is_none() && !opens_another;
        let place = known.or_else(|| is_free.then_some(tested));
        // The socket of the listener itself refuses what opens nothing.
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
            // No connection has these ports.
            ends.open();
            self.ends.socket = Some(self.make_socket());
        }
        self.ends.ports = ports.or(self.ends.ports);
    }

    /// A SYN has come to a listener: another socket answers it.
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

    /// Hands a segment to the connection in focus, and wakes who waits for what it brings.
    pub(super) fn deliver(&mut self, segment: &Segment) -> Result<(), super::ScriptError> {
        let now = self.now;
        let news = |socket: &Socket| {
            (socket.unread(), socket.state(), socket.has_error(), socket.is_receiving_over())
        };
        let is_child = self.ends.listener.is_some();
        let Some(socket) = &mut self.ends.socket else { return Ok(()) };
        let before = news(socket);
        let was_open = socket.is_open();
        socket.receive(now, segment);
        let has_news = news(socket) != before;
        let opens = is_child && !was_open && socket.is_open();
        if opens {
            let id = self.ends.focused();
            self.ends.note_open(id);
        }
        self.pump()?;
        let has_room = self.ends.socket.as_ref().is_some_and(Socket::is_writable);
        if has_news || self.ends.awaits_room && has_room {
            self.ends.happened += 1;
            self.ends.awaits_room &= !has_room;
        }
        Ok(())
    }
}
