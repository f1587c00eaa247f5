//! The system calls of the application.

use super::ScriptError;
use super::constants::{errno, number, value};
use super::environment::{self, Environment};
use super::player::Player;
use super::show::seconds;
use crate::tcp::socket::{KeepAlive, Socket, SocketError, State, WriteOptions};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Accept,
    Connect,
    Read(u64),
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Returned {
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

/// Options that a socket has.
const TIMELY: &[&str] = &[
    "TCP_NODELAY",
    "TCP_CORK",
    "TCP_QUICKACK",
    "TCP_MAXSEG",
    "TCP_USER_TIMEOUT",
    "TCP_KEEPIDLE",
    "TCP_KEEPINTVL",
    "TCP_KEEPCNT",
    "SO_KEEPALIVE",
    "SO_RCVBUF",
];

/// Options that change nothing here.
const WITHOUT_EFFECT: &[&str] = &[
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_ZEROCOPY",
    "SO_PRIORITY",
    "SO_MARK",
    "SO_RCVLOWAT",
    "SO_SNDBUF",
    "SO_RCVTIMEO",
    "SO_SNDTIMEO",
    "IP_TOS",
    "IP_MTU_DISCOVER",
    "IP_RECVERR",
    "TCP_DEFER_ACCEPT",
    "TCP_SYNCNT",
    "TCP_LINGER2",
    "TCP_NOTSENT_LOWAT",
    "TCP_THIN_LINEAR_TIMEOUTS",
];

impl Player {
    fn differs<T>(line: u32, expected: String, found: String) -> Result<T, ScriptError> {
        Err(ScriptError::Differs { line, expected, found })
    }

    fn missing<T>(line: u32, what: &str) -> Result<T, ScriptError> {
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
                if blocks.is_some_and(|time| time > Duration::ZERO) {
                    return Self::missing(line, "a write that waits for room in the send buffer");
                }
                self.write(line, name, arguments, result)?
            }
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" if is_connection => {
                let bytes = match name {
                    "readv" | "recvmsg" => Some(vector_bytes(argument(1))),
                    _ => number_of(argument(2)),
                };
                let Some(bytes) = bytes else {
                    return Self::missing(line, "a read of unknown length");
                };
                return self.wait(line, Call::Read(bytes), result, blocks);
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
            "poll" => self.poll(line, argument(0))?,
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
        let configure = self.environment.configure(self.environment.law());
        let mut socket = Socket::new(settings, configure);
        socket.set_nodelay(option("TCP_NODELAY").unwrap_or(0) != 0);
        socket
    }

    /// The parameters that an application may have set one by one.
    fn keep_alive(&self) -> Option<KeepAlive> {
        let option = |name: &str| self.socket_options.get(name).map(|&value| value.max(1) as u64);
        (self.socket_options.get("SO_KEEPALIVE").copied().unwrap_or(0) != 0).then(|| {
            let default = self.environment.keep_alive();
            KeepAlive {
                idle: option("TCP_KEEPIDLE").map_or(default.idle, environment::seconds),
                interval: option("TCP_KEEPINTVL").map_or(default.interval, environment::seconds),
                probes: option("TCP_KEEPCNT").map_or(default.probes, |count| count as u32),
            }
        })
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
        let returned = self.attempt(line, call, expected)?;
        let Some(time) = blocks else {
            let now = match returned {
                // A call that does not block says that it would.
                Returned::Waits if call == Call::Connect => Returned::Error("EINPROGRESS"),
                Returned::Waits => Returned::Error("EAGAIN"),
                returned => returned,
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
    fn attempt(&mut self, line: u32, call: Call, expected: &str) -> Result<Returned, ScriptError> {
        let Some(socket) = &mut self.socket else { return Ok(Returned::Error("ENOTCONN")) };
        let failed = |error: SocketError| Returned::Error(errno(error).0);
        Ok(match call {
            Call::Accept
                if self.descriptors.values().any(|&kind| kind == Descriptor::Connection) =>
            {
                return Self::missing(line, "a second connection");
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
                State::SynSent | State::SynReceived => Returned::Waits,
                State::Closed => socket.take_error().map_or(Returned::Value(0), failed),
                _ => Returned::Value(0),
            },
            Call::Read(bytes) => {
                let taken = socket.read(bytes);
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
        let Some(blocked) = self.blocked.take() else { return Ok(()) };
        let returned = self.attempt(blocked.line, blocked.call, &blocked.expected)?;
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

    fn write(
        &mut self,
        line: u32,
        name: &str,
        arguments: &[String],
        result: &str,
    ) -> Result<Returned, ScriptError> {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (bytes, bits) = match name {
            "sendmsg" => (Some(vector_bytes(argument(1))), argument(2)),
            "writev" => (Some(vector_bytes(argument(1))), ""),
            _ => (number_of(argument(2)), argument(3)),
        };
        let Some(bytes) = bytes else { return Self::missing(line, "a write of unknown length") };
        let bits = value(if bits.is_empty() { "0" } else { bits }).unwrap_or(0);
        let has = |name: &str| number(name).is_some_and(|bit| bits & bit != 0);
        let taken = number_of(result);
        let is_short = taken.is_some_and(|taken| taken < bytes) || result.contains("EAGAIN");
        if is_short {
            return Self::missing(line, "a write for which the send buffer has no room");
        }
        let options = WriteOptions { more: has("MSG_MORE"), end_of_record: has("MSG_EOR") };
        let now = self.now;
        let Some(socket) = &mut self.socket else { return Ok(Returned::Error("ENOTCONN")) };
        Ok(match socket.write(now, bytes, options) {
            Ok(()) => Returned::Value(bytes as i64),
            Err(error) => Returned::Error(errno(error).0),
        })
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

    fn set_option(&mut self, line: u32, name: &str, text: &str) -> Result<Returned, ScriptError> {
        if name == "TCP_CONGESTION" {
            let law = text.trim_matches(['[', ']', '"']).to_owned();
            if !Environment::has_law(&law) {
                return Self::missing(line, &format!("the congestion law {law}"));
            }
            let has_connection = self.socket.as_ref().is_some_and(|one| one.connection().is_some());
            if has_connection {
                return Self::missing(line, "another congestion law for an open connection");
            }
            self.environment.set_law(&law);
            let configure = self.environment.configure(&law);
            if let Some(socket) = &mut self.socket {
                socket.set_configure(configure);
            }
            return Ok(Returned::Value(0));
        }
        if name == "SO_LINGER" {
            let says = |field: &str| text.replace(' ', "").contains(field);
            self.resets_on_close = says("onoff=1") && says("linger=0");
            return Ok(Returned::Value(0));
        }
        let Some(to) = value(text) else {
            if WITHOUT_EFFECT.contains(&name) {
                return Ok(Returned::Value(0));
            }
            return Self::missing(line, &format!("the socket option {name}"));
        };
        self.socket_options.insert(name.to_owned(), to);
        let keep_alive = self.keep_alive();
        let now = self.now;
        let is_known = TIMELY.contains(&name) || WITHOUT_EFFECT.contains(&name);
        if !is_known {
            return Self::missing(line, &format!("the socket option {name}"));
        }
        // Before there is a socket, they count when it is made.
        let Some(socket) = &mut self.socket else { return Ok(Returned::Value(0)) };
        match name {
            "TCP_NODELAY" => socket.set_nodelay(to != 0),
            "TCP_CORK" => socket.set_corked(to != 0),
            "TCP_QUICKACK" => socket.set_quick_acks(to != 0),
            "SO_RCVBUF" => socket.set_receive_buffer(to.max(1) as u32),
            "TCP_USER_TIMEOUT" => socket.set_user_timeout(now, user_timeout(to)),
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                socket.set_keep_alive(now, keep_alive);
            }
            _ => {}
        }
        Ok(Returned::Value(0))
    }

    fn get_option(&mut self, line: u32, name: &str, text: &str) -> Result<Returned, ScriptError> {
        let set = self.socket_options.get(name).copied();
        let keep_alive = self.environment.keep_alive();
        let whole = |time: Duration| (time.as_nanos() / 1_000_000_000) as i64;
        let found = match name {
            "SO_ERROR" => {
                let error = self.socket.as_mut().and_then(Socket::take_error);
                error.map_or(0, |error| errno(error).1)
            }
            // Linux doubles what is asked for.
            "SO_SNDBUF" | "SO_RCVBUF" if set.is_some() => 2 * set.unwrap_or(0),
            "TCP_MAXSEG" => {
                let info = self.socket.as_ref().map(Socket::info).unwrap_or_default();
                if info.segment > 0 { info.segment as i64 } else { set.unwrap_or(536) }
            }
            "TCP_KEEPIDLE" => set.unwrap_or(whole(keep_alive.idle)),
            "TCP_KEEPINTVL" => set.unwrap_or(whole(keep_alive.interval)),
            "TCP_KEEPCNT" => set.unwrap_or(keep_alive.probes.into()),
            "TCP_NODELAY" | "TCP_CORK" | "SO_KEEPALIVE" | "TCP_USER_TIMEOUT" | "SO_REUSEADDR" => {
                set.unwrap_or(0)
            }
            _ => match set {
                Some(set) => set,
                None => return Self::missing(line, &format!("the socket option {name}")),
            },
        };
        let wanted = value(text).or_else(|| errno_number(text));
        if wanted != Some(found) {
            let expected = format!("{name} {text}");
            return Self::differs(line, expected, format!("[{found}]"));
        }
        Ok(Returned::Value(0))
    }

    fn ioctl(&mut self, line: u32, request: &str, text: &str) -> Result<Returned, ScriptError> {
        let Some(socket) = &self.socket else { return Ok(Returned::Error("ENOTCONN")) };
        let (unacknowledged, unsent) = socket.unacknowledged();
        let found = match request {
            "SIOCINQ" | "FIONREAD" => socket.unread(),
            "SIOCOUTQ" | "TIOCOUTQ" => unacknowledged,
            "SIOCOUTQNSD" => unsent,
            _ => return Self::missing(line, &format!("the request {request}")),
        };
        if value(text) != Some(found as i64) {
            let expected = format!("{request} {text}");
            return Self::differs(line, expected, format!("[{found}]"));
        }
        Ok(Returned::Value(0))
    }

    /// `[{fd=4, events=POLLIN|POLLOUT, revents=POLLIN}]`, without waiting.
    fn poll(&mut self, line: u32, files: &str) -> Result<Returned, ScriptError> {
        let mut ready = 0;
        for file in files.split('{').skip(1) {
            let file = file.split('}').next().unwrap_or_default();
            let field = |name: &str| {
                let fields = file.split(',').filter_map(|field| field.split_once('='));
                let mut fields = fields.map(|(name, value)| (name.trim(), value.trim()));
                fields.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
            };
            let events = value(field("events")).unwrap_or(0);
            let wanted = value(field("revents")).unwrap_or(0);
            let is_listener = value(field("fd")).and_then(|file| self.descriptors.get(&file))
                == Some(&Descriptor::Listener);
            let bit = |name: &str| number(name).unwrap_or(0);
            let always = bit("POLLERR") | bit("POLLHUP") | bit("POLLNVAL");
            let found = self.readiness(is_listener) & (events | always);
            if found != wanted {
                let expected = format!("revents {:#x}", wanted);
                return Self::differs(line, expected, format!("{found:#x}"));
            }
            ready += i64::from(found != 0);
        }
        Ok(Returned::Value(ready))
    }

    /// What `poll` says of the connection, or of its listener.
    fn readiness(&self, is_listener: bool) -> i64 {
        let Some(socket) = &self.socket else { return 0 };
        let bit = |name: &str| number(name).unwrap_or(0);
        let state = socket.state();
        if is_listener {
            let is_waiting = !matches!(state, State::Listen | State::SynReceived);
            let is_taken = self.descriptors.values().any(|&kind| kind == Descriptor::Connection);
            return if is_waiting && !is_taken { bit("POLLIN") | bit("POLLRDNORM") } else { 0 };
        }
        let mut bits = 0;
        let is_closed = state == State::Closed;
        if socket.has_error() {
            bits |= bit("POLLERR");
        }
        let is_over = socket.is_receiving_over();
        if is_closed || is_over && !state.may_write() {
            bits |= bit("POLLHUP");
        }
        if is_over || is_closed {
            bits |= bit("POLLIN") | bit("POLLRDNORM") | bit("POLLRDHUP");
        }
        if socket.unread() > 0 {
            bits |= bit("POLLIN") | bit("POLLRDNORM");
        }
        if state.is_synchronized() || is_closed {
            bits |= bit("POLLOUT") | bit("POLLWRNORM");
        }
        bits
    }
}

/// Calls of a descriptor that is closed fail.
const KNOWN_CALLS: &[&str] =
    &["write", "send", "sendto", "sendmsg", "writev", "read", "recv", "recvfrom", "shutdown"];

/// Milliseconds, 0 for none.
fn user_timeout(millis: i64) -> Option<Duration> {
    (millis > 0).then(|| environment::span(millis as u64, 1_000_000))
}

/// The first number of an argument or a result.
fn number_of(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    value(word).and_then(|value| u64::try_from(value).ok())
}

/// `[104]` may be written as `[ECONNRESET]`.
fn errno_number(text: &str) -> Option<i64> {
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
