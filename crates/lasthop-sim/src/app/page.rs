//! Pages of today's web: objects that depend on each other, over HTTP/1.1, HTTP/2 or HTTP/3.
//!
//! ```text
//!   document --> style sheets, scripts --> fonts, images, others
//!   a lane, over TCP:  ClientHello --> certificate --> request ... --> server time --> response ...
//!   HTTP/1.1  a lane per connection, an object at a time on each
//!   HTTP/2    one lane; the server writes frames of the responses in turn, as far as TCP sends them
//!   HTTP/3    a lane per object: a stream of one QUIC connection, which orders them by urgency
//! ```
//!
//! The numbers and sizes of objects are the medians of desktop pages in October 2024 (HTTP Archive,
//! Web Almanac 2024, chapter Page Weight): 71 requests and 2652 kB, of which 24 scripts (613 kB), 18
//! images (1054 kB), fonts (131 kB), style sheets (78 kB) and the document (18 kB). Our choice: 8
//! style sheets and 4 fonts; the difference to the whole as others. An object is discovered when
//! its parent is complete. Parents are assigned in turn.
//!
//! *Not modelled*: rendering and execution, several servers, caches, server push, header
//! compression, control streams of HTTP/2 and HTTP/3, TLS records.

mod objects;

use super::family::{SourceSite, StreamKeys};
use super::{Action, StreamApplication, Write};
use crate::transport::{End, TransportFeatures};
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::error::ScenarioError;
use lasthop_base::schema::keys::{Limits, choice, table};
use lasthop_base::schema::metrics::{Metric, Ratio, Report, metrics};
use lasthop_base::units::{Bytes, Duration, Instant};
use objects::{Object, objects};
use std::collections::VecDeque;

table! {
    /// Pages of today's web, one after the other, each over new connections; needs tcp or quic.
    pub struct PageKeys as "page" {
        /// Version of HTTP; default: "3" over quic, otherwise "2".
        http: Option<HttpVersion>;
        /// Number of pages.
        pages: u32 = "1", Limits::range(1, 1_000_000);
        /// Objects of a page, including the document.
        objects: u32 = "71", Limits::range(1, 1_000);
        /// Mean size of all objects of a page together.
        size: Bytes = "2652 kB", Limits::range(1_000, 1_000_000_000);
        /// Distribution of the sizes of objects of a type.
        sizes: Sizes = "lognormal";
        /// Number of levels: 1, all objects are known from the start; 2, the document refers to all
        /// others; 3, style sheets and scripts refer to further objects.
        depth: u32 = "3", Limits::range(1, 3);
        /// Time from the arrival of a request until the response is available.
        server_time: Duration = "50 ms";
        /// Maximum number of parallel connections; with HTTP/1.1 only.
        connections: u32 = "6", Limits::range(1, 64);
        /// Size of the server's TLS messages over TCP, which cost a round trip; 0 B: no TLS. QUIC has
        /// its own key.
        certificate: Bytes = "3 kB", Limits::range(0, 1_000_000);
        /// Whether responses are ordered by urgency: documents, style sheets and fonts first, then
        /// scripts. Otherwise all objects share the connection.
        priorities: bool = "true";
    }
}

choice! {
    /// Versions of HTTP.
    pub enum HttpVersion {
        /// Parallel connections, with one object at a time on each (RFC 9112).
        One = "1.1",
        /// Multiplexing over one TCP connection (RFC 9113).
        Two = "2",
        /// A stream of one QUIC connection for each object (RFC 9114).
        Three = "3",
    }
}

choice! {
    /// Distributions of the sizes of objects.
    pub enum Sizes {
        /// Lognormal; the standard deviation of the logarithm is 1.
        Lognormal = "lognormal",
        /// All objects of a type have the same size.
        Constant = "constant",
    }
}

metrics! {
    /// Pages with dependent objects.
    pub struct PageMetrics {
        /// Pages that were loaded completely.
        pages_loaded: "Pages loaded", Count, Higher, Sum;
        /// Pages whose connection was aborted.
        pages_failed: "Pages failed", Count, Lower, Sum;
        /// Mean time from the start of a page until the last byte of its last object arrives.
        page_load_s: "Page load time", Seconds, Lower, Mean, Ratio;
        /// Mean time from the start of a page until its first object is complete.
        first_object_s: "Time to first object", Seconds, Lower, Mean, Ratio;
        /// Mean time that a byte waits at the browser for earlier bytes: of its connection with TCP,
        /// of its stream with QUIC.
        head_of_line_s: "Head-of-line delay", Seconds, Lower, Mean, Ratio;
    }
}

/// The state machine.
pub type Machine = Page;

impl StreamKeys for PageKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = PageMetrics::METRICS;
    const ENDS: bool = true;
    const SENDS_BACK: bool = true;

    fn check_transport(&self, path: &str, has: TransportFeatures) -> Result<(), ScenarioError> {
        let TransportFeatures { is_multiplexed, is_simplex, .. } = has;
        if is_simplex {
            let found = "\"page\" over one-way connections".to_owned();
            let allowed = "\"web\", or a TCP that sends data in both directions".to_owned();
            return Err(ScenarioError::new(format!("{path}.kind"), found, allowed));
        }
        match self.http {
            Some(http) if (http == HttpVersion::Three) != is_multiplexed => {
                let transport = if is_multiplexed { "quic" } else { "tcp" };
                let found = format!("{:?} over {transport}", http.word());
                let allowed = "\"1.1\" or \"2\" over tcp, \"3\" over quic";
                Err(ScenarioError::new(format!("{path}.http"), found, allowed.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        Page::new(self, site.streams, site.component)
    }
}

/// First request of a connection, and further ones, whose headers are compressed except with
/// HTTP/1.1, in bytes.
const REQUEST: [u64; 2] = [500, 100];
/// Header of a response.
const RESPONSE_HEADER: u64 = 200;
/// ClientHello with an X25519 key share, and Finished: as in `transport/quic`.
const CLIENT_HELLO: u64 = 300;
const FINISHED: u64 = 36;
/// HTTP/2: maximum payload and header of a frame (RFC 9113, sections 4.1 and 4.2).
const FRAME: u64 = 16_384;
const FRAME_HEADER: u64 = 9;
/// HTTP/2: the server writes frames while less than this is unsent, so that urgent responses
/// overtake others.
const UNSENT: u64 = 2 * FRAME;

/// Meaning of bytes.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// Messages of TLS.
    Hello,
    /// The request for an object, or a part of its response.
    Object(u32),
}

/// The bytes that one end writes to a lane.
#[derive(Clone, Debug, Default)]
struct Pipe {
    written: u64,
    /// Each message, its last byte, and its part of a response.
    messages: VecDeque<(Message, u64, u64)>,
}

/// A byte stream between browser and server.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Whether the browser has written to it.
    is_open: bool,
    /// Whether requests can be sent.
    is_ready: bool,
    /// Whether an object is requested.
    is_busy: bool,
    requests: u32,
    /// Urgency of the latest request.
    urgency: u8,
    /// Written by the browser and by the server.
    pipes: [Pipe; 2],
    /// HTTP/2: responses at the server and the bytes of each that are not written.
    responses: Vec<(u32, u64)>,
    /// Bytes at the browser that wait for earlier ones.
    waiting: u64,
}

/// A browser and its server.
#[derive(Clone, Debug)]
pub struct Page {
    keys: PageKeys,
    http: HttpVersion,
    sizes: Stream,
    objects: Vec<Object>,
    lanes: Vec<Lane>,
    /// Number of lanes in use, with HTTP/3.
    used: u32,
    /// Start of the page in progress.
    started: Option<Instant>,
    /// Objects that are not complete.
    incomplete: u32,
    /// Time until the first object was complete.
    first: Option<f64>,
    /// Bytes of the bodies of all objects.
    bytes: u64,
    /// Objects that wait for a lane.
    queue: Vec<u32>,
    /// Responses that the server prepares: time, lane, object.
    preparing: VecDeque<(Instant, u32, u32)>,
    /// Bytes that wait at the browser since a time, and their integral in byte-seconds.
    waiting: (u64, Instant),
    byte_seconds: f64,
    totals: Totals,
    /// Time at which the latest page was complete.
    last_page: Option<Instant>,
    actions: VecDeque<Action>,
}

/// Sums over pages.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    loaded: u32,
    failed: u32,
    bytes: u64,
    load: f64,
    first: f64,
    head_of_line: f64,
}

impl Page {
    /// Creates a browser. Sizes are sampled from a stream of `component`.
    pub fn new(keys: &PageKeys, streams: &Streams, component: &str) -> Self {
        Page {
            http: keys.http.unwrap_or(HttpVersion::Two),
            sizes: streams.stream(component, "object sizes"),
            objects: objects(keys),
            lanes: Vec::new(),
            used: 0,
            started: None,
            incomplete: 0,
            first: None,
            bytes: 0,
            queue: Vec::new(),
            preparing: VecDeque::new(),
            waiting: (0, Instant::ZERO),
            byte_seconds: 0.0,
            totals: Totals::default(),
            last_page: None,
            actions: VecDeque::new(),
            keys: keys.clone(),
        }
    }

    /// Starts the next page, if any.
    fn start_page(&mut self, now: Instant) {
        self.started = None;
        self.preparing.clear();
        self.queue.clear();
        if self.totals.loaded + self.totals.failed == self.keys.pages {
            return;
        }
        self.started = Some(now);
        self.lanes = vec![Lane::default(); self.streams() as usize];
        (self.used, self.first, self.bytes) = (0, None, 0);
        (self.waiting, self.byte_seconds) = ((0, now), 0.0);
        self.incomplete = self.objects.len() as u32;
        for object in &mut self.objects {
            let factor = match self.keys.sizes {
                Sizes::Constant => 1.0,
                Sizes::Lognormal => {
                    let normal = libm::sqrt(2.0 * self.sizes.exponential())
                        * libm::cos(2.0 * std::f64::consts::PI * self.sizes.uniform());
                    libm::exp(normal - 0.5)
                }
            };
            let bytes = (object.mean * factor).max(1.0) as u64;
            self.bytes += bytes;
            object.missing = RESPONSE_HEADER + bytes;
        }
        self.discover(None);
    }

    /// Requests the objects to which `parent` refers.
    fn discover(&mut self, parent: Option<u32>) {
        for object in 0..self.objects.len() as u32 {
            if self.objects[object as usize].parent == parent {
                self.queue.push(object);
            }
        }
        self.assign();
    }

    /// Sends the requests for which a lane is free.
    fn assign(&mut self) {
        while !self.queue.is_empty() {
            let Some(lane) = self.free_lane() else { return };
            let urgency = |&place: &usize| self.objects[self.queue[place] as usize].urgency;
            let place = (0..self.queue.len()).min_by_key(urgency).unwrap_or_default();
            let object = self.queue.remove(place);
            self.request(lane, object);
        }
    }

    /// Returns a lane on which a request can be sent now, and opens further ones.
    fn free_lane(&mut self) -> Option<u32> {
        if self.http == HttpVersion::Three {
            self.used += 1;
            return Some(self.used - 1);
        }
        let is_free =
            |lane: &Lane| lane.is_ready && !(lane.is_busy && self.http == HttpVersion::One);
        let free = self.lanes.iter().position(is_free);
        if free.is_some() {
            return free.map(|lane| lane as u32);
        }
        let opening = self.lanes.iter().filter(|lane| lane.is_open && !lane.is_ready).count();
        let closed = self.lanes.iter().position(|lane| !lane.is_open);
        if let Some(lane) = closed.filter(|_| opening < self.queue.len()) {
            if self.keys.certificate.get() == 0 {
                self.lanes[lane].is_ready = true;
                return Some(lane as u32);
            }
            self.write(lane as u32, End::Opener, Message::Hello, CLIENT_HELLO, 0);
            return self.free_lane();
        }
        None
    }

    fn request(&mut self, lane: u32, object: u32) {
        let urgency = self.objects[object as usize].urgency;
        let this = &mut self.lanes[lane as usize];
        let is_first = if self.http == HttpVersion::Three { lane == 0 } else { this.requests == 0 };
        let mut bytes = REQUEST[usize::from(!is_first && self.http != HttpVersion::One)];
        if this.is_open && this.requests == 0 {
            bytes += FINISHED;
        }
        this.requests += 1;
        (this.is_busy, this.urgency) = (true, urgency);
        self.write(lane, End::Opener, Message::Object(object), bytes, 0);
    }

    /// Writes a message, or a part of a response with `part` bytes that are not frame headers.
    fn write(&mut self, lane: u32, end: End, message: Message, bytes: u64, part: u64) {
        let is_shared = self.shares_connection();
        let this = &mut self.lanes[lane as usize];
        let opens = end == End::Opener && !this.is_open && (!is_shared || lane == 0);
        this.is_open = true;
        let pipe = &mut this.pipes[end.index()];
        pipe.written += bytes;
        pipe.messages.push_back((message, pipe.written, part));
        let write = Write { stream: lane, end, bytes, opens, closes: is_shared };
        match self.actions.back_mut() {
            // One send call, as separate ones would be separate segments.
            Some(Action::Write(last)) if !is_shared && (last.stream, last.end) == (lane, end) => {
                last.bytes += bytes;
            }
            _ => self.actions.push_back(Action::Write(write)),
        }
    }

    /// Sends a response that the server has prepared.
    fn respond(&mut self, lane: u32, object: u32) {
        let bytes = self.objects[object as usize].missing;
        match self.http {
            HttpVersion::Two => self.lanes[lane as usize].responses.push((object, bytes)),
            HttpVersion::One | HttpVersion::Three => {
                self.write(lane, End::Acceptor, Message::Object(object), bytes, bytes);
            }
        }
    }

    /// Handles a part of a response that has arrived.
    fn on_part(&mut self, now: Instant, lane: u32, object: u32, part: u64) {
        let missing = &mut self.objects[object as usize].missing;
        *missing -= part;
        let Some(started) = self.started.filter(|_| *missing == 0) else { return };
        self.lanes[lane as usize].is_busy = false;
        self.incomplete -= 1;
        let since = now.saturating_since(started).as_secs_f64();
        let first = *self.first.get_or_insert(since);
        if self.incomplete > 0 {
            return self.discover(Some(object));
        }
        self.on_waiting(now, lane, 0);
        let all: u64 =
            self.lanes.iter().map(|lane| lane.pipes[End::Acceptor.index()].written).sum();
        self.totals.head_of_line += self.byte_seconds / all as f64;
        self.totals.load += since;
        self.totals.first += first;
        self.totals.bytes += self.bytes;
        self.totals.loaded += 1;
        self.last_page = Some(now);
        self.start_page(now);
    }
}

impl StreamApplication for Page {
    fn choose(&mut self, is_multiplexed: bool) {
        if is_multiplexed {
            self.http = HttpVersion::Three;
        }
    }

    fn streams(&self) -> u32 {
        match self.http {
            HttpVersion::One => self.keys.connections,
            HttpVersion::Two => 1,
            HttpVersion::Three => self.keys.objects,
        }
    }

    fn shares_connection(&self) -> bool {
        self.http == HttpVersion::Three
    }

    fn is_followed(&self) -> bool {
        true
    }

    fn urgency(&self, stream: u32) -> u8 {
        self.lanes.get(stream as usize).map_or(0, |lane| lane.urgency)
    }

    fn start(&mut self, now: Instant) {
        self.start_page(now);
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn on_delivered(&mut self, _now: Instant, _stream: u32, _writer: End) {}

    fn on_received(&mut self, now: Instant, stream: u32, writer: End, received: u64) {
        loop {
            let Some(lane) = self.lanes.get_mut(stream as usize) else { return };
            let messages = &mut lane.pipes[writer.index()].messages;
            let Some(&(message, _, part)) = messages.front().filter(|one| one.1 <= received) else {
                return;
            };
            messages.pop_front();
            match (writer, message) {
                (End::Opener, Message::Hello) => {
                    let bytes = self.keys.certificate.get();
                    self.write(stream, End::Acceptor, Message::Hello, bytes, 0);
                }
                (End::Acceptor, Message::Hello) => {
                    lane.is_ready = true;
                    self.assign();
                }
                (End::Opener, Message::Object(object)) => {
                    self.preparing.push_back((now + self.keys.server_time, stream, object));
                }
                (End::Acceptor, Message::Object(object)) => {
                    self.on_part(now, stream, object, part);
                }
            }
        }
    }

    fn on_waiting(&mut self, now: Instant, stream: u32, bytes: u64) {
        let Some(lane) = self.lanes.get_mut(stream as usize) else { return };
        let (all, since) = self.waiting;
        self.byte_seconds += all as f64 * now.saturating_since(since).as_secs_f64();
        let before = std::mem::replace(&mut lane.waiting, bytes);
        self.waiting = (all + bytes - before, now);
    }

    fn on_unsent(&mut self, stream: u32, mut unsent: u64) -> bool {
        let mut has_written = false;
        while unsent < UNSENT
            && let Some(lane) = self.lanes.get_mut(stream as usize)
            && !lane.responses.is_empty()
        {
            let urgency = |&place: &usize| self.objects[lane.responses[place].0 as usize].urgency;
            let place = (0..lane.responses.len()).min_by_key(urgency).unwrap_or_default();
            // Responses of equal urgency take turns.
            let (object, left) = lane.responses.remove(place);
            let part = left.min(FRAME);
            if left > part {
                lane.responses.push((object, left - part));
            }
            let bytes = part + FRAME_HEADER;
            self.write(stream, End::Acceptor, Message::Object(object), bytes, part);
            unsent += bytes;
            has_written = true;
        }
        has_written
    }

    /// The page counts as failed; the next one follows.
    fn on_failure(&mut self, now: Instant, _stream: u32) {
        if self.started.is_some() {
            self.totals.failed += 1;
            self.start_page(now);
        }
    }

    fn has_timers(&self) -> bool {
        true
    }

    fn next_timeout(&self) -> Instant {
        self.preparing.front().map_or(Instant::NEVER, |&(at, ..)| at)
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, lane, object)) = self.preparing.front()
            && at <= now
        {
            self.preparing.pop_front();
            self.respond(lane, object);
        }
    }

    fn is_complete(&self) -> bool {
        self.totals.loaded + self.totals.failed == self.keys.pages
    }

    /// Only loaded pages count.
    fn delivered_bytes(&self, _acknowledged: u64) -> u64 {
        self.totals.bytes
    }

    fn measured_until(&self, _now: Instant) -> Option<Instant> {
        self.last_page
    }

    fn metrics(&self, report: &mut Report<'_>) {
        let Totals { loaded, failed, load, first, head_of_line, .. } = self.totals;
        let mean = |sum: f64| Ratio::new(sum, loaded.into());
        let metrics = PageMetrics {
            pages_loaded: loaded.into(),
            pages_failed: failed.into(),
            page_load_s: mean(load),
            first_object_s: mean(first),
            head_of_line_s: mean(head_of_line),
        };
        metrics.report(report);
    }
}

#[cfg(test)]
mod tests;
