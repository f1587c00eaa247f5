//! Web browsing with Mah's distributions, like ns-2's HTTP module (`tcl/http/http.tcl`).
//!
//! ```text
//!   request page --> reply --> sample the number of objects --> requests on every free connection
//!        ^                                                            |  each reply frees one
//!        +-------------------- last object received ------------------+
//! ```
//!
//! One page at a time, without think times. The lengths of pages and objects are sampled from the
//! same distribution; a sampled length of 0 becomes 1000 B. As in ns-2, the number of connections
//! per page, which includes the page itself in Mah's data, is used as the number of *further*
//! objects, unless [`WebKeys::count_includes_page`] is set.
//!
//! Each request starts a new instance of its stream, opened by the browser. The server closes it
//! with its reply. If the connection is aborted, the browser requests the same object again over a
//! new connection.
//!
//! *Not modelled*: think times, several servers, pipelining, caches.

use super::Empirical;
use super::family::{SourceSite, StreamKeys};
use super::{Action, StreamApplication, Write};
use crate::transport::End;
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, Report, metrics};
use lasthop_base::units::Instant;
use std::collections::VecDeque;

table! {
    /// Web browsing: pages with several objects, requested in succession; needs tcp or quic.
    pub struct WebKeys as "web" {
        /// Maximum number of parallel connections of the browser.
        connections: u32 = "4", Limits::range(1, 64);
        /// Whether the page itself is one of the objects sampled for it.
        #[was = "page_counts_itself"]
        count_includes_page: bool = "false";
    }
}

metrics! {
    /// Browsing.
    pub struct WebMetrics {
        /// Pages completed.
        pages: "Pages", Count, Higher, Sum;
        /// Replies completed.
        replies: "Replies", Count, Higher, Sum;
    }
}

impl From<&WebCounters> for WebMetrics {
    fn from(counters: &WebCounters) -> Self {
        WebMetrics { pages: counters.pages as f64, replies: counters.replies as f64 }
    }
}

/// The state machine.
pub type Machine = Web;

/// The browser sends requests.
impl StreamKeys for WebKeys {
    type Machine = Machine;

    const METRICS: &'static [Metric] = WebMetrics::METRICS;
    const SENDS_BACK: bool = true;

    fn build(&self, site: &SourceSite<'_>) -> Machine {
        Web::new(self, site.streams, site.component)
    }
}

/// Length that replaces an empty request or reply, in bytes (ns-2).
const EMPTY_LENGTH: u64 = 1000;

/// Counters of a browser; always enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebCounters {
    /// Pages completed, with all their objects.
    pub pages: u64,
    /// Replies received, including those of incomplete pages.
    pub replies: u64,
    /// Reply bytes of the completed pages.
    pub page_bytes: u64,
}

/// A request and its reply.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    request: u64,
    /// Length of the reply; `None` before the request has first arrived.
    reply: Option<u64>,
}

/// A browser and its server.
#[derive(Clone, Debug)]
pub struct Web {
    /// Number of parallel connections, at least 1.
    connections: u32,
    /// Whether the sampled number of connections per page includes the page itself.
    count_includes_page: bool,
    request_lengths: Stream,
    reply_lengths: Stream,
    objects_per_page: Stream,
    /// Objects of the page; `None` until the page itself has been received.
    objects: Option<u64>,
    requested: u64,
    received: u64,
    bytes: u64,
    /// The outstanding request of each stream.
    outstanding: Vec<Option<Exchange>>,
    counters: WebCounters,
    /// Time at which the latest page was complete.
    last_page: Option<Instant>,
    actions: VecDeque<Action>,
}

impl Web {
    /// Creates a browser. The sampled lengths use the streams of `component`.
    pub fn new(keys: &WebKeys, streams: &Streams, component: &str) -> Self {
        let WebKeys { connections, count_includes_page } = *keys;
        Web {
            connections,
            count_includes_page,
            request_lengths: streams.stream(component, "request length"),
            reply_lengths: streams.stream(component, "reply length"),
            objects_per_page: streams.stream(component, "objects per page"),
            objects: None,
            requested: 0,
            received: 0,
            bytes: 0,
            outstanding: vec![None; connections as usize],
            counters: WebCounters::default(),
            last_page: None,
            actions: VecDeque::with_capacity(connections as usize + 1),
        }
    }

    /// Requests the next page.
    fn start_page(&mut self) {
        (self.objects, self.requested, self.received, self.bytes) = (None, 0, 0, 0);
        self.request(0);
    }

    fn request(&mut self, stream: u32) {
        let request = length(&Empirical::request_length(), &mut self.request_lengths);
        self.outstanding[stream as usize] = Some(Exchange { request, reply: None });
        self.open(stream, request);
    }

    fn open(&mut self, stream: u32, bytes: u64) {
        let (opens, closes) = (true, false);
        let write = Write { stream, end: End::Opener, bytes, opens, closes };
        self.actions.push_back(Action::Write(write));
    }

    /// Handles a request that has reached the server.
    fn on_request(&mut self, stream: u32) {
        let Some(exchange) = &mut self.outstanding[stream as usize] else { return };
        let bytes = exchange.reply.unwrap_or_else(|| {
            let bytes = length(&Empirical::reply_length(), &mut self.reply_lengths);
            self.bytes += bytes;
            bytes
        });
        exchange.reply = Some(bytes);
        let (opens, closes) = (false, true);
        let write = Write { stream, end: End::Acceptor, bytes, opens, closes };
        self.actions.push_back(Action::Write(write));
    }

    /// Handles a reply that has reached the client on `connection`. Returns `true` if it completed
    /// a page.
    fn on_reply(&mut self, connection: u32) -> bool {
        self.counters.replies += 1;
        self.outstanding[connection as usize] = None;
        let idle = match self.objects {
            None => {
                let drawn = Empirical::connections_per_page().sample(&mut self.objects_per_page);
                let itself = u64::from(self.count_includes_page);
                self.objects = Some(drawn - itself.min(drawn));
                0..self.connections
            }
            Some(_) => {
                self.received += 1;
                connection..connection + 1
            }
        };
        let objects = self.objects.unwrap_or(0);
        if self.received >= objects {
            self.counters.pages += 1;
            self.counters.page_bytes += self.bytes;
            self.start_page();
            return true;
        }
        for connection in idle {
            if self.requested < objects {
                self.requested += 1;
                self.request(connection);
            }
        }
        false
    }

    /// Counters since the start.
    pub fn counters(&self) -> WebCounters {
        self.counters
    }
}

impl StreamApplication for Web {
    fn streams(&self) -> u32 {
        self.connections
    }

    fn start(&mut self, _now: Instant) {
        self.start_page();
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn on_delivered(&mut self, now: Instant, stream: u32, writer: End) {
        match writer {
            End::Opener => self.on_request(stream),
            End::Acceptor => {
                self.actions.push_back(Action::Close { stream, end: End::Opener });
                if self.on_reply(stream) {
                    self.last_page = Some(now);
                }
            }
        }
    }

    fn on_failure(&mut self, _now: Instant, stream: u32) {
        if let Some(exchange) = self.outstanding[stream as usize] {
            self.open(stream, exchange.request);
        }
    }

    /// Only completed pages count.
    fn delivered_bytes(&self, _acknowledged: u64) -> u64 {
        self.counters.page_bytes
    }

    fn measured_until(&self, _now: Instant) -> Option<Instant> {
        self.last_page
    }

    fn metrics(&self, report: &mut Report<'_>) {
        WebMetrics::from(&self.counters).report(report);
    }
}

fn length(table: &Empirical, stream: &mut Stream) -> u64 {
    match table.sample(stream) {
        0 => EMPTY_LENGTH,
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the next message of `end`, and discards earlier actions.
    fn next_write(web: &mut Web, end: End) -> Option<Write> {
        std::iter::from_fn(|| web.poll_action()).find_map(|action| match action {
            Action::Write(write) if write.end == end => Some(write),
            Action::Write(_) | Action::Close { .. } => None,
        })
    }

    #[test]
    fn every_object_of_a_page_is_fetched_once_on_at_most_n_connections() {
        let keys = WebKeys { connections: 3, count_includes_page: false };
        let mut web = Web::new(&keys, &Streams { seed: 1, replication: 0 }, "test");
        web.start(Instant::ZERO);
        let mut busy: Vec<u32> = Vec::new();
        for step in 0..2000 {
            while let Some(Write { stream, bytes, .. }) = next_write(&mut web, End::Opener) {
                assert!(bytes > 0 && stream < 3 && !busy.contains(&stream));
                busy.push(stream);
            }
            let stream = busy.remove(step % busy.len());
            web.on_delivered(Instant::ZERO, stream, End::Opener);
            assert!(next_write(&mut web, End::Acceptor).is_some_and(|reply| reply.bytes > 0));
            let pages = web.counters().pages;
            web.on_delivered(Instant::ZERO, stream, End::Acceptor);
            let completed = web.counters().pages > pages;
            assert!(!completed || busy.is_empty(), "a page ends with its last reply");
        }
        let WebCounters { pages, replies, .. } = web.counters();
        // A page and 2.84 objects on average; the standard deviation per page is about 4.
        let per_page = replies as f64 / pages as f64;
        assert!((per_page - 3.84).abs() < 4.5 * 4.0 / (pages as f64).sqrt(), "{per_page}");
    }

    #[test]
    fn sizes_and_counts_have_the_means_of_the_tables() {
        // 337.3, 7231 and 2.84, with 6 empty requests and 8 empty replies of 4100 changed to 1000
        // B. Standard deviations 293.5, 44 066 and 4.11. Within 5 standard errors: false positives
        // below 1e-6 each, if sums of this many terms are normal.
        let keys = WebKeys { connections: 4, count_includes_page: false };
        let mut web = Web::new(&keys, &Streams { seed: 5, replication: 0 }, "test");
        web.start(Instant::ZERO);
        let (mut requests, mut request_bytes, mut reply_bytes) = (0.0, 0.0, 0.0);
        while web.counters().pages < 100_000 {
            let request = next_write(&mut web, End::Opener).expect("a page in progress asks");
            requests += 1.0;
            request_bytes += request.bytes as f64;
            // The reply is the last action, because other requests may be queued.
            web.on_request(request.stream);
            let Some(Action::Write(reply)) = web.actions.pop_back() else { panic!("no reply") };
            reply_bytes += reply.bytes as f64;
            web.on_reply(request.stream);
        }
        let objects = requests / web.counters().pages as f64 - 1.0;
        let near = |found: f64, mean: f64, sd: f64, n: f64| {
            assert!((found - mean).abs() < 5.0 * sd / n.sqrt(), "{found}, not {mean}");
        };
        near(request_bytes / requests, 337.3 + 6.0 / 4.1, 293.5, requests);
        near(reply_bytes / requests, 7231.0 + 8.0 / 4.1, 44_066.0, requests);
        near(objects, 2.84, 4.11, web.counters().pages as f64);
    }
}
