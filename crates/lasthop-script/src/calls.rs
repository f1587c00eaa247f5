//! The system calls of the application.

use super::ScriptError;
use super::constants::{errno, number, value};
use super::endpoints::EndpointId;
use super::player::Player;
use super::readiness::Watched;
use super::show::seconds;
use super::transfers::{Reading, Writing, write};
use lasthop_base::units::{Duration, Instant};
use lasthop_tcp::host::{Socket, SocketError, State, WriteOptions};

/// Object of a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Descriptor {
    /// A socket that neither listens nor connects yet.
    Fresh(EndpointId),
    /// A listening socket.
    Listener(EndpointId),
    /// A connection.
    Connection(EndpointId),
    /// An `epoll` instance.
    Watcher,
    /// A file, whose contents are ignored.
    File,
    /// An end of a pipe, whose contents are ignored.
    Pipe,
}

impl Descriptor {
    /// The socket of the descriptor, if any.
    pub fn endpoint(self) -> Option<EndpointId> {
        match self {
            Descriptor::Fresh(id) | Descriptor::Listener(id) | Descriptor::Connection(id) => {
                Some(id)
            }
            Descriptor::Watcher | Descriptor::File | Descriptor::Pipe => None,
        }
    }
}

/// A blocked system call.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    line: u32,
    endpoint: EndpointId,
    call: Call,
    expected: String,
    /// Time at which it returns according to the script.
    pub end: Instant,
}

/// A call that may block, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Call {
    Accept,
    Connect,
    Read(Reading),
    Write(Writing),
    /// A close that blocks until all data is acknowledged (`SO_LINGER`).
    Close,
    /// `poll` with its files.
    Poll(String),
    /// `epoll_wait` with the descriptor and the events expected by the script.
    Events(i64, String),
}

/// A system call of a script, with the file that is its first argument.
#[derive(Clone, Copy)]
struct Request<'a> {
    line: u32,
    name: &'a str,
    arguments: &'a [String],
    /// The result that the script expects.
    result: &'a str,
    file: Option<i64>,
    kind: Option<Descriptor>,
}

impl<'a> Request<'a> {
    fn argument(&self, at: usize) -> &'a str {
        self.arguments.get(at).map_or("", |text| text.as_str())
    }
}

/// Consequence of a call.
enum Outcome {
    /// The call has no effect, and its result is not compared.
    Unchecked,
    Returns(Returned),
    /// The call blocks if the script specifies so.
    Waits(Call),
    /// The call has a timeout of 0.
    Polls(Call),
}

impl Outcome {
    fn within(timeout: Option<i64>, call: Call) -> Self {
        if timeout == Some(0) { Outcome::Polls(call) } else { Outcome::Waits(call) }
    }
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Returned {
    Value(i64),
    Error(&'static str),
    /// The call blocks.
    Waits,
}

impl std::fmt::Display for Returned {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Returned::Value(value) => write!(out, "{value}"),
            Returned::Error(name) => write!(out, "-1 {name}"),
            Returned::Waits => write!(out, "a blocked call"),
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
            return Self::differs(line, expected, "a call that is still blocked".to_owned());
        }
        let file = arguments.first().and_then(|text| value(text));
        let kind = file.and_then(|file| self.descriptors.get(&file)).copied();
        if let Some(endpoint) = kind.and_then(Descriptor::endpoint) {
            self.ends.focus(endpoint);
        }
        if let Some(error) = self.refused(name, kind) {
            return compare(line, result, &Returned::Error(error));
        }
        let request = Request { line, name, arguments, result, file, kind };
        match self.perform(&request)? {
            Outcome::Unchecked => Ok(()),
            Outcome::Returns(returned) => compare(line, result, &returned),
            Outcome::Waits(call) => self.wait(line, call, result, blocks),
            Outcome::Polls(call) => self.wait(line, call, result, None),
        }
    }

    /// Makes a call, or returns the one that may block.
    fn perform(&mut self, request: &Request<'_>) -> Result<Outcome, ScriptError> {
        let Request { line, name, file, kind, .. } = *request;
        let argument = |at: usize| request.argument(at);
        let is_connection = matches!(kind, Some(Descriptor::Connection(_)));
        let returned = match name {
            "socket" => self.open(line, request.result)?,
            "open" | "creat" | "memfd_create" => self.open_file(request.result, Descriptor::File),
            "pipe" | "pipe2" => {
                self.open_pipe(argument(0));
                Returned::Value(0)
            }
            "dup" if kind.is_some() => {
                self.open_file(request.result, kind.unwrap_or(Descriptor::File))
            }
            "bind" | "fcntl" | "unlink" | "nanosleep" | "usleep" | "sleep" => {
                return Ok(Outcome::Unchecked);
            }
            "listen" => self.listen(file),
            "connect" => return Ok(Outcome::Waits(self.connect(file))),
            "accept" | "accept4" => return Ok(Outcome::Waits(Call::Accept)),
            "write" if matches!(kind, Some(Descriptor::File | Descriptor::Pipe)) => {
                Returned::Value(number_of(argument(2)).unwrap_or(0) as i64)
            }
            "sendfile" | "sendfile64" if is_connection => {
                let bytes = number_of(argument(3)).unwrap_or(0);
                let writing = Writing::of(bytes, WriteOptions::default());
                return Ok(Outcome::Waits(Call::Write(writing)));
            }
            "splice" => return self.splice(request),
            "write" | "send" | "sendto" | "sendmsg" | "writev" if is_connection => {
                return self.send(request);
            }
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" if is_connection => {
                return self.receive(request);
            }
            "close" | "setsockopt" | "getsockopt" if kind.is_none() && file.is_some() => {
                Returned::Error("EBADF")
            }
            "getsockname" | "getpeername" if kind.is_some() => Returned::Value(0),
            "close" => return Ok(self.close(file)),
            "shutdown" if is_connection => self.shut_down(argument(1)),
            "setsockopt" => self.set_option(line, argument(2), argument(3))?,
            "getsockopt" => self.get_option(line, argument(2), argument(3))?,
            "ioctl" if is_connection => self.ioctl(line, argument(1), argument(2))?,
            "poll" => {
                let call = Call::Poll(argument(0).to_owned());
                return Ok(Outcome::within(value(argument(2)), call));
            }
            "epoll_create" | "epoll_create1" => {
                let file = number_of(request.result).unwrap_or(0) as i64;
                self.watched.insert(file, Watched::new());
                self.open_file(request.result, Descriptor::Watcher)
            }
            "epoll_ctl" => self.watch(request.arguments),
            "epoll_wait" | "epoll_pwait" => {
                let call = Call::Events(file.unwrap_or(-1), argument(1).to_owned());
                return Ok(Outcome::within(value(argument(3)), call));
            }
            _ if kind.is_none() && file.is_some() && KNOWN_CALLS.contains(&name) => {
                Returned::Error("EBADF")
            }
            _ => return Self::missing(line, &format!("the system call {name}")),
        };
        Ok(Outcome::Returns(returned))
    }

    fn listen(&mut self, file: Option<i64>) -> Returned {
        let mut socket = self.make_socket();
        socket.listen();
        self.ends.socket = Some(socket);
        self.ends.test_focused();
        let listener = Descriptor::Listener(self.ends.focused());
        self.descriptors.extend(file.map(|file| (file, listener)));
        Returned::Value(0)
    }

    fn connect(&mut self, file: Option<i64>) -> Call {
        let is_new = self.ends.socket.as_ref().is_none_or(|one| {
            one.state() == State::Closed && self.ends.has_failed && !one.has_error()
        });
        if is_new {
            self.ends.has_failed = false;
            let mut socket = self.make_socket();
            socket.connect();
            self.ends.socket = Some(socket);
        }
        self.ends.test_focused();
        let connection = Descriptor::Connection(self.ends.focused());
        self.descriptors.extend(file.map(|file| (file, connection)));
        Call::Connect
    }

    /// `splice` between a connection and a pipe.
    fn splice(&mut self, request: &Request<'_>) -> Result<Outcome, ScriptError> {
        let target = value(request.argument(2));
        let target = target.and_then(|file| self.descriptors.get(&file)).copied();
        let bytes = number_of(request.argument(4)).unwrap_or(0);
        match (request.kind, target) {
            (Some(Descriptor::Connection(_)), Some(Descriptor::Pipe)) => {
                let reading = Reading { bytes, least: 1, peeks: false, left: None };
                Ok(Outcome::Waits(Call::Read(reading)))
            }
            (kind, Some(Descriptor::Connection(endpoint)))
                if !matches!(kind, Some(Descriptor::Connection(_))) =>
            {
                self.ends.focus(endpoint);
                let more = request.argument(5).contains("SPLICE_F_MORE");
                let options = WriteOptions { more, end_of_record: false };
                Ok(Outcome::Waits(Call::Write(Writing::of(bytes, options))))
            }
            _ => Self::missing(request.line, "a splice between these files"),
        }
    }

    fn send(&mut self, request: &Request<'_>) -> Result<Outcome, ScriptError> {
        let data = request.argument(1);
        let is_nowhere =
            data == "NULL" && number_of(request.argument(2)) != Some(0) || data.contains("{NULL");
        if is_nowhere {
            return Ok(Outcome::Returns(Returned::Error("EFAULT")));
        }
        let writing = self.writing(request.line, request.name, request.arguments)?;
        Ok(Outcome::Waits(Call::Write(writing)))
    }

    fn receive(&mut self, request: &Request<'_>) -> Result<Outcome, ScriptError> {
        let Request { line, name, .. } = *request;
        let data = request.argument(1);
        let bits = value(request.argument(if name == "recvmsg" { 2 } else { 3 })).unwrap_or(0);
        if bits & number("MSG_ERRQUEUE").unwrap_or(0) != 0 {
            return self.read_report(line, data).map(Outcome::Returns);
        }
        let has_data = self.ends.socket.as_ref().is_some_and(|one| one.unread() > 0);
        if data == "NULL" && number_of(request.argument(2)) != Some(0) && has_data {
            return Ok(Outcome::Returns(Returned::Error("EFAULT")));
        }
        let reading = self.reading(line, name, request.arguments)?;
        Ok(Outcome::Waits(Call::Read(reading)))
    }

    fn close(&mut self, file: Option<i64>) -> Outcome {
        let gone = file.and_then(|file| self.descriptors.remove(&file));
        let (now, resets, lingers) = (self.now, self.ends.resets_on_close, self.ends.lingers);
        // `dup` has created another descriptor.
        let is_kept = gone.is_some_and(|one| self.descriptors.values().any(|&kind| kind == one));
        match gone.filter(|_| !is_kept) {
            Some(Descriptor::Listener(_)) => self.ends.close_listener(now),
            Some(Descriptor::Connection(_)) => {
                if let Some(socket) = &mut self.ends.socket {
                    if resets && socket.state().is_synchronized() {
                        socket.abort(now, None);
                    } else {
                        socket.close(now);
                        if lingers {
                            return Outcome::Waits(Call::Close);
                        }
                    }
                }
            }
            _ => {}
        }
        Outcome::Returns(Returned::Value(0))
    }

    /// Returns the error of a call that is invalid in the current state of the connection.
    fn refused(&self, name: &str, kind: Option<Descriptor>) -> Option<&'static str> {
        let state = self.ends.socket.as_ref().map(Socket::state);
        let is_reading = matches!(name, "read" | "recv" | "recvfrom" | "readv" | "recvmsg");
        let is_writing = matches!(name, "write" | "send" | "sendto" | "sendmsg" | "writev");
        match (kind?, name) {
            (Descriptor::Fresh(_) | Descriptor::Listener(_), _) if is_reading => Some("ENOTCONN"),
            (Descriptor::Fresh(_) | Descriptor::Listener(_), _) if is_writing => Some("EPIPE"),
            (Descriptor::Fresh(_), "shutdown") => Some("ENOTCONN"),
            (Descriptor::Fresh(_) | Descriptor::Connection(_), "accept" | "accept4") => {
                Some("EINVAL")
            }
            (Descriptor::Connection(_), "listen") if state != Some(State::Closed) => Some("EINVAL"),
            (Descriptor::Listener(_), "connect") => Some("EISCONN"),
            (Descriptor::Connection(_), "connect") => match state? {
                State::SynSent | State::SynReceived => Some("EALREADY"),
                // The first call after the handshake returns its result.
                State::Established if self.ends.has_connected => Some("EISCONN"),
                _ => None,
            },
            _ => None,
        }
    }

    fn open(&mut self, line: u32, result: &str) -> Result<Returned, ScriptError> {
        if number_of(result).is_none() {
            return Self::missing(line, "a socket call that fails");
        }
        let fresh = self.ends.open();
        Ok(self.open_file(result, Descriptor::Fresh(fresh)))
    }

    /// Adds the descriptor that the script returns, of the given kind.
    fn open_file(&mut self, result: &str, kind: Descriptor) -> Returned {
        let file = number_of(result).unwrap_or(0) as i64;
        self.descriptors.insert(file, kind);
        Returned::Value(file)
    }

    /// `pipe([5, 6])`.
    fn open_pipe(&mut self, files: &str) {
        let files = files.trim_matches(['[', ']']).split(',').filter_map(value);
        self.descriptors.extend(files.map(|file| (file, Descriptor::Pipe)));
    }

    /// Makes a call that may block. It blocks only if the script specifies so.
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
                // A non-blocking call returns the error for a call that would block.
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
        let endpoint = self.ends.focused();
        let blocked = Blocked { line, endpoint, call, expected: expected.to_owned(), end };
        if returned == Returned::Waits {
            self.blocked = Some(blocked);
            return Ok(());
        }
        self.returned(&blocked, &returned)
    }

    /// Returns the result that the call has now.
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
        let Some(socket) = &mut self.ends.socket else { return Ok(Returned::Error("ENOTCONN")) };
        let failed = |error: SocketError| Returned::Error(errno(error).0);
        Ok(match call {
            Call::Poll(_) | Call::Events(..) => unreachable!("handled above"),
            Call::Close => match socket.state() {
                State::FinWait1 | State::Closing | State::LastAck if blocks => Returned::Waits,
                _ => Returned::Value(0),
            },
            Call::Write(writing) => {
                let opens = matches!(socket.state(), State::SynSent | State::SynReceived);
                if is_linux && opens && !socket.is_open() {
                    return Ok(Returned::Waits);
                }
                let done = writing.done;
                let returned = write(socket, now, writing);
                let (_, unsent) = socket.unacknowledged();
                self.ends.stamps_of_writes.on_written(writing.done - done, unsent);
                if writing.is_uncopied && writing.done > done {
                    self.ends.stamps_of_writes.on_uncopied();
                }
                self.ends.awaits_room |= returned == Returned::Waits;
                returned
            }
            Call::Accept => match self.ends.accept() {
                None => Returned::Waits,
                Some(child) => {
                    let file = number_of(expected).unwrap_or(4) as i64;
                    self.descriptors.insert(file, Descriptor::Connection(child));
                    Returned::Value(file)
                }
            },
            Call::Connect => match socket.state() {
                _ if socket.state().is_synchronized() => {
                    self.ends.has_connected = true;
                    Returned::Value(0)
                }
                State::SynSent | State::SynReceived => Returned::Waits,
                State::Closed => {
                    let error = socket.take_error();
                    self.ends.has_failed = true;
                    error.map_or(Returned::Error("ECONNABORTED"), failed)
                }
                _ => Returned::Value(0),
            },
            Call::Read(reading) => {
                let Reading { bytes, least, peeks, left } = *reading;
                let there = bytes.min(socket.unread());
                let is_over = socket.is_at_end() || socket.is_receiving_over();
                if there > 0 && there < least && blocks && !is_over && !socket.has_error() {
                    return Ok(Returned::Waits);
                }
                let taken = if peeks { there } else { socket.read(now, bytes) };
                // Linux counts an unread FIN as a byte (`tcp_inq_hint`).
                let is_fin_counted = is_linux && socket.has_peer_closed();
                let unread = socket.unread() + u64::from(is_fin_counted);
                if let Some(left) = left.filter(|&left| left != unread) {
                    let expected = format!("{left} bytes unread");
                    return Self::differs(line, expected, unread.to_string());
                }
                let is_over =
                    socket.is_at_end() && (socket.has_peer_closed() || !socket.has_error());
                if taken > 0 || bytes == 0 || is_over {
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

    /// Lets a blocked call return, if possible. `must`: whether it has to return now.
    pub(super) fn check_blocked(&mut self, must: bool) -> Result<(), ScriptError> {
        let Some(mut blocked) = self.blocked.take() else { return Ok(()) };
        let before = self.ends.focused();
        self.ends.focus(blocked.endpoint);
        let returned = self.attempt(blocked.line, &mut blocked.call, &blocked.expected, true);
        self.ends.focus(before);
        let returned = returned?;
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

    fn shut_down(&mut self, how: &str) -> Returned {
        let (now, how) = (self.now, value(how).unwrap_or(2));
        if !(0..=2).contains(&how) {
            return Returned::Error("EINVAL");
        }
        let Some(socket) = &mut self.ends.socket else { return Returned::Error("ENOTCONN") };
        if matches!(socket.state(), State::Closed | State::Listen | State::TimeWait) {
            return Returned::Error("ENOTCONN");
        }
        if how != 1 {
            socket.shut_down_reads();
        }
        if how != 0 {
            socket.shut_down_writes(now);
        }
        Returned::Value(0)
    }
}

/// Calls that fail on a closed descriptor.
const KNOWN_CALLS: &[&str] =
    &["write", "send", "sendto", "sendmsg", "writev", "read", "recv", "recvfrom", "shutdown"];

/// The first number of an argument or a result.
pub(super) fn number_of(text: &str) -> Option<u64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    value(word).and_then(|value| u64::try_from(value).ok())
}

/// Returns the number of an error name: `[ECONNRESET]` is equivalent to `[104]`.
pub(super) fn errno_number(text: &str) -> Option<i64> {
    use SocketError::{
        BrokenPipe, Forbidden, HostDown, HostUnreachable, NetworkUnreachable, NoNetwork,
        NoProtocol, NotConnected, NotSupported, Refused, Reset, TimedOut,
    };
    let name = text.trim_matches(['[', ']']);
    let all = [
        Reset,
        Refused,
        TimedOut,
        BrokenPipe,
        NotConnected,
        NetworkUnreachable,
        HostUnreachable,
        NoProtocol,
        HostDown,
        NoNetwork,
        NotSupported,
        Forbidden,
    ];
    all.into_iter().map(errno).find(|(known, _)| *known == name).map(|(_, number)| number)
}

/// Checks the result of a call against the script.
fn compare(line: u32, expected: &str, returned: &Returned) -> Result<(), ScriptError> {
    let mut words = expected.split_whitespace();
    let first = words.next().unwrap_or_default();
    let is_same = match returned {
        _ if first == "?" => true,
        Returned::Value(found) => value(first) == Some(*found),
        Returned::Error(name) => {
            let error = words.next();
            // Both names have the same number in Linux.
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
