//! Events for which an application can wait: `poll` and `epoll`.

use super::ScriptError;
use super::calls::{Descriptor, Returned};
use super::constants::{number, value};
use super::endpoints::{Endpoint, EndpointId};
use super::player::Player;
use lasthop_tcp::host::State;
use std::collections::BTreeMap;

/// The `epoll` flag for edge-triggered events.
const EDGE: &str = "EPOLLET";

/// Files watched by an `epoll` descriptor.
pub(super) type Watched = BTreeMap<i64, Watch>;

/// A watched file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    events: i64,
    /// Whether only new events are reported (edge-triggered).
    is_edge: bool,
    /// Number of events at the latest check, if any.
    seen: Option<u64>,
}

/// Value of a field such as `fd=4` of a structure, without its braces.
fn field<'a>(structure: &'a str, name: &str) -> Option<&'a str> {
    let fields = structure.split(',').filter_map(|field| field.split_once('='));
    let mut fields = fields.map(|(known, value)| (known.trim(), value.trim()));
    fields.find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn bit(name: &str) -> i64 {
    number(name).unwrap_or(0)
}

/// Contents of each pair of braces.
fn structures(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).map(|inside| inside.split('}').next().unwrap_or_default())
}

impl Player {
    /// Handles `poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLIN}], …)`. The call blocks if no
    /// file is ready and `waits` is set.
    pub(super) fn poll(
        &mut self,
        line: u32,
        files: &str,
        waits: bool,
    ) -> Result<Returned, ScriptError> {
        let mut ready = 0;
        let mut differs = None;
        for file in structures(files) {
            let one = |name: &str| value(field(file, name).unwrap_or_default());
            let wanted = one("revents").unwrap_or(0);
            let always = bit("POLLERR") | bit("POLLHUP") | bit("POLLNVAL");
            let all = self.readiness(one("fd"));
            self.note_room(one("fd"), all);
            let found = all & (one("events").unwrap_or(0) | always);
            if found != wanted {
                differs.get_or_insert((wanted, found));
            }
            ready += i64::from(found != 0);
        }
        if ready == 0 && waits {
            return Ok(Returned::Waits);
        }
        match differs {
            Some((wanted, found)) => {
                let expected = format!("revents {wanted:#x}");
                Self::differs(line, expected, format!("{found:#x}"))
            }
            None => Ok(Returned::Value(ready)),
        }
    }

    /// Handles `epoll_ctl(5, EPOLL_CTL_ADD, 4, {events=EPOLLIN, fd=4})`.
    pub(super) fn watch(&mut self, arguments: &[String]) -> Returned {
        let argument = |at: usize| arguments.get(at).map_or("", |text| text.as_str());
        let (Some(set), Some(file)) = (value(argument(0)), value(argument(2))) else {
            return Returned::Error("EBADF");
        };
        if !self.descriptors.contains_key(&file) {
            return Returned::Error("EBADF");
        }
        let Some(watched) = self.watched.get_mut(&set) else { return Returned::Error("EINVAL") };
        let structure = structures(argument(3)).next().unwrap_or_default();
        let words = field(structure, "events").unwrap_or_default();
        let is_edge = words.split('|').any(|word| word.trim() == EDGE);
        let known = words.split('|').filter(|word| word.trim() != EDGE).collect::<Vec<_>>();
        let events = value(&known.join("|")).unwrap_or(0);
        let watch = Watch { events, is_edge, seen: None };
        match (argument(1), watched.contains_key(&file)) {
            ("EPOLL_CTL_ADD", true) => return Returned::Error("EEXIST"),
            ("EPOLL_CTL_MOD" | "EPOLL_CTL_DEL", false) => return Returned::Error("ENOENT"),
            ("EPOLL_CTL_ADD" | "EPOLL_CTL_MOD", _) => drop(watched.insert(file, watch)),
            ("EPOLL_CTL_DEL", _) => drop(watched.remove(&file)),
            _ => return Returned::Error("EINVAL"),
        }
        Returned::Value(0)
    }

    /// Handles `epoll_wait(5, {events=EPOLLIN, fd=4}, 1, 0)`: compares the ready files with those
    /// in the script.
    pub(super) fn wait_for_events(
        &mut self,
        line: u32,
        set: i64,
        wanted: &str,
        waits: bool,
    ) -> Result<Returned, ScriptError> {
        let Some(watched) = self.watched.get(&set) else {
            return Ok(Returned::Error("EINVAL"));
        };
        let always = bit("POLLERR") | bit("POLLHUP");
        let mut found = Vec::new();
        let mut waits_for_room = Vec::new();
        for (&file, &watch) in watched {
            if watch.is_edge && watch.seen == Some(self.happened(file)) {
                continue;
            }
            let all = self.readiness(Some(file));
            waits_for_room.push((file, all));
            let ready = all & (watch.events | always);
            if ready != 0 {
                found.push((file, ready));
            }
        }
        let seen: Vec<_> = watched.keys().map(|&file| self.happened(file)).collect();
        for (file, bits) in waits_for_room {
            self.note_room(Some(file), bits);
        }
        let watches = self.watched.get_mut(&set).into_iter().flat_map(|all| all.values_mut());
        for (watch, seen) in watches.zip(seen) {
            watch.seen = Some(seen);
        }
        if found.is_empty() {
            return Ok(if waits { Returned::Waits } else { Returned::Value(0) });
        }
        for structure in structures(wanted) {
            let Some(events) = field(structure, "events").and_then(value) else { continue };
            let file = field(structure, "fd").or(field(structure, "ptr")).and_then(value);
            let one = found.iter().find(|(known, _)| file.is_none_or(|file| file == *known));
            let ready = one.map_or(0, |(_, ready)| *ready);
            if ready != events {
                let expected = format!("events {events:#x}");
                return Self::differs(line, expected, format!("{ready:#x}"));
            }
        }
        Ok(Returned::Value(found.len() as i64))
    }

    /// Events that `poll` reports for a file.
    fn readiness(&self, file: Option<i64>) -> i64 {
        let kind = file.and_then(|file| self.descriptors.get(&file)).copied();
        let is_fresh = matches!(kind, Some(Descriptor::Fresh(_)));
        let id = kind.and_then(Descriptor::endpoint).unwrap_or(self.ends.focused());
        let end = self.ends.get(id);
        let Some(socket) = end.socket.as_ref().filter(|_| !is_fresh) else {
            return bit("POLLOUT") | bit("POLLWRNORM") | bit("POLLHUP");
        };
        let state = socket.state();
        if state == State::Listen {
            return if end.has_ready() { bit("POLLIN") | bit("POLLRDNORM") } else { 0 };
        }
        let mut bits = 0;
        let is_closed = state == State::Closed;
        if socket.has_error() || end.stamps_of_writes.has_reports() {
            bits |= bit("POLLERR");
        }
        let is_over = socket.is_receiving_over();
        if is_closed || is_over && !state.may_write() {
            bits |= bit("POLLHUP");
        }
        if is_over || is_closed {
            bits |= bit("POLLIN") | bit("POLLRDNORM") | bit("POLLRDHUP");
        }
        if socket.unread() >= end.least_read() {
            bits |= bit("POLLIN") | bit("POLLRDNORM");
        }
        let is_shut = !state.may_write();
        if (state.is_synchronized() || is_closed) && (is_shut || socket.is_writable()) {
            bits |= bit("POLLOUT") | bit("POLLWRNORM");
        }
        bits
    }

    /// Socket of a polled file.
    fn end_of(&self, file: Option<i64>) -> Option<EndpointId> {
        file.and_then(|file| self.descriptors.get(&file)).and_then(|kind| kind.endpoint())
    }

    /// Number of events that wake a call waiting for a file.
    fn happened(&self, file: i64) -> u64 {
        self.end_of(Some(file)).map_or(0, |id| self.ends.get(id).happened)
    }

    /// Records a check of a file with events `bits`: without room in the send buffer, the caller
    /// waits for it.
    fn note_room(&mut self, file: Option<i64>, bits: i64) {
        if let Some(id) = self.end_of(file) {
            self.ends.get_mut(id).awaits_room |= bits & bit("POLLOUT") == 0;
        }
    }
}

impl Endpoint {
    /// `SO_RCVLOWAT`.
    pub fn least_read(&self) -> u64 {
        self.options.get("SO_RCVLOWAT").map_or(1, |&bytes| bytes.max(1) as u64)
    }
}
