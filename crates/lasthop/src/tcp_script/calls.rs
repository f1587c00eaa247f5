//! The system calls of the application.

use super::ScriptError;
use super::constants::{errno, number, value};
use super::options::{send_buffer, unsent_limit, user_timeout};
use super::player::Player;
use super::readiness::Watched;
use super::show::seconds;
use crate::tcp::socket::{Socket, SocketError, State, WriteOptions};
use crate::units::{Duration, Instant};

/// What a file descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptor {
    /// A socket that neither listens nor connects yet.
    Fresh,
    /// One that waits for a connection.
    Listener,
    /// The connection under test.
    Connection,
    /// What watches others (`epoll`).
    Watcher,
}

/// A system call that waits.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    line: u32,
    call: Call,
    expected: String,
    /// When the script has it return.
    pub end: Instant,
}

/// A call that may have to wait, and what it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Accept,
    Connect,
    Read(Reading),
    Write(Writing),
    /// The files of `poll`.
    Poll(String),
    /// The descriptor of `epoll`, and what the script says of the files.
    Events(i64, String),
}

/// What a read is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    bytes: u64,
    /// Bytes that it waits for.
    least: u64,
    /// Does it leave what it reads (`MSG_PEEK`)?
    peeks: bool,
    /// What is to be unread afterwards, if the script says so (`TCP_CM_INQ`).
    left: Option<u64>,
}

/// What a write is asked, and how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writing {
    bytes: u64,
    done: u64,
    options: WriteOptions,
    /// Has it found the buffer full?
    has_waited: bool,
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Value(i64),
    Error(&'static str),
    /// Nothing yet.
    Waits,
}

impl std::fmt::Display for Returned {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Returned::Value(value) => write!(out, "{value}"),
            Returned::Error(name) => write!(out, "-1 {name}"),
            Returned::Waits => write!(out, "a call that blocks"),
        }
    }
}

impl Player {
    pub(super) fn differs<T>(line: u32, expected: String, found: String) -> Result<T, ScriptError> {
        Err(ScriptError::Differs { line, expected, found })
    }

    pub(super) fn missing<T>(line: u32, what: &str) -> Result<T, ScriptError> {
        Err(ScriptError::NotModelled { line, what: what.to_owned() })
    }

    pub(super) fn call(
        &mut self,
        line: u32,
        name: &str,
        arguments: &[String],
        result: &str,
        blocks: Option<Duration>,
    ) -> Result<(), ScriptError> {
        if let Some(blocked) = &self.blocked {
            let expected = format!("the call of line {} to have returned", blocked.line);
            return Self::differs(line, expected, "one that still blocks".to_owned());
        }
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let descriptor = value(argument(0));
        let kind = descriptor.and_then(|file| self.descriptors.get(&file)).copied();
        let is_connection = kind == Some(Descriptor::Connection);
        if let Some(error) = self.refused(name, kind) {
            return compare(line, result, &Returned::Error(error));
        }
        let returned = match name {
            "socket" => self.open(line, result)?,
            "bind" | "fcntl" => return Ok(()),
            "listen" => {
                let mut socket = self.make_socket();
                socket.listen();
                self.socket = Some(socket);
                self.descriptors.extend(descriptor.map(|file| (file, Descriptor::Listener)));
                Returned::Value(0)
            }
            "connect" => {
                if self.socket.is_none() {
                    let mut socket = self.make_socket();
                    socket.connect(self.now);
                    self.socket = Some(socket);
                }
                self.descriptors.extend(descriptor.map(|file| (file, Descriptor::Connection)));
                return self.wait(line, Call::Connect, result, blocks);
            }
            "accept" | "accept4" => return self.wait(line, Call::Accept, result, blocks),
            "write" | "send" | "sendto" | "sendmsg" | "writev" if is_connection => {
                let writing = Self::writing(line, name, arguments)?;
                return self.wait(line, Call::Write(writing), result, blocks);
            }
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" if is_connection => {
                let reading = self.reading(line, name, arguments)?;
                return self.wait(line, Call::Read(reading), result, blocks);
            }
            "close" => {
                let gone = descriptor.and_then(|file| self.descriptors.remove(&file));
                let (now, resets) = (self.now, self.resets_on_close);
                let is_alone = !self.descriptors.values().any(|&kind| kind != Descriptor::Fresh);
                if let Some(socket) = self.socket.as_mut()
                    && (gone == Some(Descriptor::Connection)
                        || gone == Some(Descriptor::Listener) && is_alone)
                {
                    if resets && socket.state().is_synchronized() {
                        socket.abort(now, None);
                    } else {
                        socket.close(now);
                    }
                }
                Returned::Value(0)
            }
            "shutdown" if is_connection => self.shut_down(argument(1)),
            "setsockopt" => self.set_option(line, argument(2), argument(3))?,
            "getsockopt" => self.get_option(line, argument(2), argument(3))?,
            "ioctl" if is_connection => self.ioctl(line, argument(1), argument(2))?,
            "poll" => {
                let waits = value(argument(2)) != Some(0);
                let blocks = blocks.filter(|_| waits);
                return self.wait(line, Call::Poll(argument(0).to_owned()), result, blocks);
            }
            "epoll_create" | "epoll_create1" => {
                let file = number_of(result).unwrap_or(0) as i64;
                self.descriptors.insert(file, Descriptor::Watcher);
                self.watched.insert(file, Watched::new());
                Returned::Value(file)
            }
            "epoll_ctl" => self.watch(arguments),
            "epoll_wait" | "epoll_pwait" => {
                let waits = value(argument(3)) != Some(0);
                let (set, wanted) = (descriptor.unwrap_or(-1), argument(1).to_owned());
                let blocks = blocks.filter(|_| waits);
                return self.wait(line, Call::Events(set, wanted), result, blocks);
            }
            "nanosleep" | "usleep" | "sleep" => return Ok(()),
            _ if kind.is_none() && descriptor.is_some() && KNOWN_CALLS.contains(&name) => {
                Returned::Error("EBADF")
            }
            _ => return Self::missing(line, &format!("the system call {name}")),
        };
        compare(line, result, &returned)
    }

    fn make_socket(&self) -> Socket {
        let option = |name: &str| self.socket_options.get(name).copied();
        let size = |name: &str| option(name).map(|value| value.max(1) as u64);
        let mut settings = self.environment.settings(size("SO_RCVBUF"), size("TCP_MAXSEG"));
        settings.keep_alive = self.keep_alive();
        settings.user_timeout = option("TCP_USER_TIMEOUT").and_then(user_timeout);
        if let Some(asked) = option("SO_SNDBUF") {
            settings.send_buffer = (send_buffer(asked), true);
        }
        if let Some(limit) = option("TCP_NOTSENT_LOWAT") {
            settings.unsent_limit = unsent_limit(limit);
        }
        if let Some(retries) = option("TCP_SYNCNT") {
            settings.syn_retries = [retries as u32; 2];
        }
        let configure = self.environment.configure(self.environment.law());
        let mut socket = Socket::new(settings, configure);
        socket.set_nodelay(option("TCP_NODELAY").unwrap_or(0) != 0);
        socket
    }

    /// What a call may not do in the state that the connection is in.
    fn refused(&self, name: &str, kind: Option<Descriptor>) -> Option<&'static str> {
        let state = self.socket.as_ref().map(Socket::state);
        let is_reading = matches!(name, "read" | "recv" | "recvfrom" | "readv" | "recvmsg");
        let is_writing = matches!(name, "write" | "send" | "sendto" | "sendmsg" | "writev");
        match (kind?, name) {
            (Descriptor::Fresh | Descriptor::Listener, _) if is_reading => Some("ENOTCONN"),
            (Descriptor::Fresh | Descriptor::Listener, _) if is_writing => Some("EPIPE"),
            (Descriptor::Fresh, "shutdown") => Some("ENOTCONN"),
            (Descriptor::Fresh | Descriptor::Connection, "accept" | "accept4") => Some("EINVAL"),
            (Descriptor::Connection, "listen") if state != Some(State::Closed) => Some("EINVAL"),
            (Descriptor::Listener, "connect") => Some("EISCONN"),
            (Descriptor::Connection, "connect") => match state? {
                State::SynSent | State::SynReceived => Some("EALREADY"),
                // The first call after the handshake tells of its end.
                State::Established if self.has_connected => Some("EISCONN"),
                _ => None,
            },
            _ => None,
        }
    }

    fn open(&mut self, line: u32, result: &str) -> Result<Returned, ScriptError> {
        let is_second = self.descriptors.values().any(|&kind| kind != Descriptor::Listener);
        if is_second || self.socket.is_some() {
            return Self::missing(line, "a second connection");
        }
        match number_of(result) {
            Some(file) => {
                self.descriptors.insert(file as i64, Descriptor::Fresh);
                Ok(Returned::Value(file as i64))
            }
            None => Self::missing(line, "a socket call that fails"),
        }
    }

    /// Makes a call that may wait; one that does blocks if the script says so.
    fn wait(
        &mut self,
        line: u32,
        call: Call,
        expected: &str,
        blocks: Option<Duration>,
    ) -> Result<(), ScriptError> {
        let mut call = call;
        let returned = self.attempt(line, &mut call, expected, blocks.is_some())?;
        let Some(time) = blocks else {
            let now = match (returned, call) {
                // A call that does not block says that it would.
                (Returned::Waits, Call::Connect) => Returned::Error("EINPROGRESS"),
                (Returned::Waits, Call::Poll(_) | Call::Events(..)) => Returned::Value(0),
                (Returned::Waits, Call::Write(Writing { done: done @ 1.., .. })) => {
                    Returned::Value(done as i64)
                }
                (Returned::Waits, _) => Returned::Error("EAGAIN"),
                (returned, _) => returned,
            };
            return compare(line, expected, &now);
        };
        let end = self.now + time;
        let blocked = Blocked { line, call, expected: expected.to_owned(), end };
        if returned == Returned::Waits {
            self.blocked = Some(blocked);
            return Ok(());
        }
        self.returned(&blocked, &returned)
    }

    /// What the call would return now.
    fn attempt(
        &mut self,
        line: u32,
        call: &mut Call,
        expected: &str,
        blocks: bool,
    ) -> Result<Returned, ScriptError> {
        match call {
            Call::Poll(files) => return self.poll(line, files, blocks),
            Call::Events(set, wanted) => {
                let (set, wanted) = (*set, wanted.clone());
                return self.wait_for_events(line, set, &wanted, blocks);
            }
            _ => {}
        }
        let (now, is_linux) = (self.now, self.environment.is_linux());
        let is_second = self.descriptors.values().any(|&kind| kind == Descriptor::Connection);
        let Some(socket) = &mut self.socket else { return Ok(Returned::Error("ENOTCONN")) };
        let failed = |error: SocketError| Returned::Error(errno(error).0);
        Ok(match call {
            Call::Poll(_) | Call::Events(..) => unreachable!("handled above"),
            Call::Accept if is_second && expected.starts_with("-1") => Returned::Waits,
            Call::Accept if is_second => {
                return Self::missing(line, "a second connection");
            }
            Call::Write(writing) => {
                let opens = matches!(socket.state(), State::SynSent | State::SynReceived);
                if is_linux && opens && socket.connection().is_none() {
                    return Ok(Returned::Waits);
                }
                let returned = write(socket, now, writing);
                self.awaits_room |= returned == Returned::Waits;
                returned
            }
            Call::Accept => match socket.state() {
                State::Listen | State::SynReceived => Returned::Waits,
                _ => {
                    let file = number_of(expected).unwrap_or(4) as i64;
                    self.descriptors.insert(file, Descriptor::Connection);
                    Returned::Value(file)
                }
            },
            Call::Connect => match socket.state() {
                _ if socket.state().is_synchronized() => {
                    self.has_connected = true;
                    Returned::Value(0)
                }
                State::SynSent | State::SynReceived => Returned::Waits,
                State::Closed => socket.take_error().map_or(Returned::Value(0), failed),
                _ => Returned::Value(0),
            },
            Call::Read(reading) => {
                let Reading { bytes, least, peeks, left } = *reading;
                let there = bytes.min(socket.unread());
                let is_over = socket.is_at_end() || socket.is_receiving_over();
                if there > 0 && there < least && blocks && !is_over && !socket.has_error() {
                    return Ok(Returned::Waits);
                }
                let taken = if peeks { there } else { socket.read(bytes) };
                let unread = socket.unread();
                if let Some(left) = left.filter(|&left| left != unread) {
                    let expected = format!("{left} bytes unread");
                    return Self::differs(line, expected, unread.to_string());
                }
                if taken > 0 || bytes == 0 || socket.is_at_end() {
                    Returned::Value(taken as i64)
                } else if let Some(error) = socket.take_error() {
                    failed(error)
                } else if socket.state() == State::Closed {
                    Returned::Value(0)
                } else if socket.state() == State::Listen {
                    Returned::Error("ENOTCONN")
                } else {
                    Returned::Waits
                }
            }
        })
    }

    /// A call that blocks may return; `must` it?
    pub(super) fn check_blocked(&mut self, must: bool) -> Result<(), ScriptError> {
        let Some(mut blocked) = self.blocked.take() else { return Ok(()) };
        let returned = self.attempt(blocked.line, &mut blocked.call, &blocked.expected, true)?;
        let is_late = self.now > blocked.end + self.tolerance;
        if returned == Returned::Waits && !must && !is_late {
            self.blocked = Some(blocked);
            return Ok(());
        }
        self.returned(&blocked, &returned)
    }

    fn returned(&mut self, blocked: &Blocked, returned: &Returned) -> Result<(), ScriptError> {
        compare(blocked.line, &blocked.expected, returned)?;
        if self.now + self.tolerance < blocked.end || self.now > blocked.end + self.tolerance {
            let expected = format!("a return at {} s", seconds(blocked.end));
            return Self::differs(blocked.line, expected, format!("{} s", seconds(self.now)));
        }
        Ok(())
    }

    /// What a call that reads is asked.
    fn reading(&self, line: u32, name: &str, arguments: &[String]) -> Result<Reading, ScriptError> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (bytes, bits) = match name {
            "readv" => (Some(vector_bytes(argument(1))), ""),
            "recvmsg" => (Some(vector_bytes(argument(1))), argument(2)),
            "read" => (number_of(argument(2)), ""),
            _ => (number_of(argument(2)), argument(3)),
        };
        let Some(bytes) = bytes else { return Self::missing(line, "a read of unknown length") };
        let bits = value(if bits.is_empty() { "0" } else { bits }).unwrap_or(0);
        let has = |name: &str| number(name).is_some_and(|bit| bits & bit != 0);
        for (name, what) in [("MSG_ERRQUEUE", "the error queue"), ("MSG_OOB", "urgent data")] {
            if has(name) {
                return Self::missing(line, what);
            }
        }
        let least = if has("MSG_WAITALL") { bytes } else { self.least_read().min(bytes) };
        let inquiry = argument(1).split_once("TCP_CM_INQ").map(|(_, rest)| rest);
        let left = inquiry.and_then(|rest| rest.split_once("cmsg_data=")).map(|(_, data)| data);
        let left = left.and_then(|data| number_of(data.split(['}', ',']).next()?));
        Ok(Reading { bytes, least, peeks: has("MSG_PEEK"), left })
    }

    /// What a call that writes is asked.
    fn writing(line: u32, name: &str, arguments: &[String]) -> Result<Writing, ScriptError> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (bytes, bits) = match name {
            "sendmsg" => (Some(vector_bytes(argument(1))), argument(2)),
            "writev" => (Some(vector_bytes(argument(1))), ""),
            "write" => (number_of(argument(2)), ""),
            _ => (number_of(argument(2)), argument(3)),
        };
        let Some(bytes) = bytes else { return Self::missing(line, "a write of unknown length") };
        let bits = value(if bits.is_empty() { "0" } else { bits }).unwrap_or(0);
        let has = |name: &str| number(name).is_some_and(|bit| bits & bit != 0);
        for (name, what) in [("MSG_FASTOPEN", "Fast Open"), ("MSG_OOB", "urgent data")] {
            if has(name) {
                return Self::missing(line, what);
            }
        }
        let options = WriteOptions { more: has("MSG_MORE"), end_of_record: has("MSG_EOR") };
        Ok(Writing { bytes, done: 0, options, has_waited: false })
    }

    fn shut_down(&mut self, how: &str) -> Returned {
        let now = self.now;
        let Some(socket) = &mut self.socket else { return Returned::Error("ENOTCONN") };
        if matches!(socket.state(), State::Closed | State::Listen | State::TimeWait) {
            return Returned::Error("ENOTCONN");
        }
        let how = value(how).unwrap_or(2);
        if how != 1 {
            socket.shut_down_reads();
        }
        if how != 0 {
            socket.shut_down_writes(now);
        }
        Returned::Value(0)
    }
}

/// Calls of a descriptor that is closed fail.
const KNOWN_CALLS: &[&str] =
    &["write", "send", "sendto", "sendmsg", "writev", "read", "recv", "recvfrom", "shutdown"];

/// Writes as much as the send buffer has room for; what is left waits.
fn write(socket: &mut Socket, now: Instant, writing: &mut Writing) -> Returned {
    let left = writing.bytes - writing.done;
    let is_refused = socket.has_error() || !socket.state().may_write();
    let room = if is_refused { left } else { socket.room(left, !writing.has_waited) };
    if room < left {
        writing.has_waited = true;
        if room == 0 {
            return Returned::Waits;
        }
    }
    let is_last = room == left;
    let options = WriteOptions {
        // The rest follows as soon as there is room.
        more: writing.options.more,
        end_of_record: writing.options.end_of_record && is_last,
    };
    match socket.write(now, room, options) {
        Ok(()) => writing.done += room,
        Err(_) if writing.done > 0 => return Returned::Value(writing.done as i64),
        Err(error) => return Returned::Error(errno(error).0),
    }
    if is_last { Returned::Value(writing.bytes as i64) } else { Returned::Waits }
}

/// The first number of an argument or a result.
fn number_of(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    value(word).and_then(|value| u64::try_from(value).ok())
}

/// `[104]` may be written as `[ECONNRESET]`.
pub(super) fn errno_number(text: &str) -> Option<i64> {
    use SocketError::{BrokenPipe, NotConnected, Refused, Reset, TimedOut};
    let name = text.trim_matches(['[', ']']);
    [Reset, Refused, TimedOut, BrokenPipe, NotConnected]
        .into_iter()
        .map(errno)
        .find(|(known, _)| *known == name)
        .map(|(_, number)| number)
}

/// Bytes of a vector: `[{..., 40}, {..., 20}]`, alone or within a message.
fn vector_bytes(text: &str) -> u64 {
    let inside = text.split_once("msg_iov").map_or(text, |(_, rest)| rest);
    let pieces = inside.split("...,").skip(1);
    pieces.filter_map(|piece| number_of(piece.split('}').next().unwrap_or_default())).sum()
}

/// Does a call return what the script says?
fn compare(line: u32, expected: &str, returned: &Returned) -> Result<(), ScriptError> {
    let mut words = expected.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_same = match returned {
        _ if first == "?" => true,
        Returned::Value(found) => value(first) == Some(*found),
        Returned::Error(name) => {
            let error = words.next();
            // Linux has two names for one number.
            first == "-1"
                && (error == Some(name) || *name == "EAGAIN" && error == Some("EWOULDBLOCK"))
        }
        Returned::Waits => false,
    };
    if is_same {
        return Ok(());
    }
    let expected = format!("a call that returns {expected}");
    Err(ScriptError::Differs { line, expected, found: returned.to_string() })
}
