//! Web browsing on Mah's distributions, as ns-2's HTTP module does it (`tcl/http/http.tcl`).
//!
//! ```text
//!   request page --> reply --> draw the number of objects --> requests on every free connection
//!        ^                                                          |  each reply frees one
//!        +------------------- last object received ----------------+
//! ```
//!
//! One page at a time, no think time. Pages and objects draw their length from the same
//! distribution; a drawn length of 0 becomes 1000 bytes. Conventions of ns-2: the count of
//! connections per page, which in Mah's data includes the page itself, is used as the number of
//! *further* objects, unless [`WebParameters::page_counts_itself`] is set.
//!
//! The machine knows neither TCP nor time: it is told that a request reached the server or a
//! reply the client, and says what to transfer next.
//!
//! *Not modelled*: think times, several servers, pipelining, caches.

use super::Empirical;
use super::family::TransferKeys;
use lasthop_base::rng::{Stream, Streams};
use lasthop_base::schema::keys::{Limits, table};
use lasthop_base::schema::metrics::{Metric, metrics};

table! {
    /// Web browsing: pages of several objects, requested one after the other; needs tcp.
    pub struct WebKeys as "web" {
        /// Connections that the browser holds open at a time.
        connections: u32 = "4", Limits::range(1, 64);
        /// Whether the page itself is one of the objects drawn for it.
        page_counts_itself: bool = "false";
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

/// The browser sends requests.
impl TransferKeys for WebKeys {
    const METRICS: &'static [Metric] = WebMetrics::METRICS;
    const SENDS_BACK: bool = true;
}

impl WebKeys {
    /// What a browser is built from.
    pub fn parameters(&self) -> WebParameters {
        let WebKeys { connections, page_counts_itself } = *self;
        WebParameters { connections, page_counts_itself }
    }
}

/// Replaces an empty request or reply, in bytes (ns-2).
const EMPTY_LENGTH: u64 = 1000;

/// Parameters of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebParameters {
    /// Connections in parallel, at least one.
    pub connections: u32,
    /// Does the drawn number of connections per page include the page itself?
    pub page_counts_itself: bool,
}

/// Always-on counters of a browser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebCounters {
    /// Pages completed, with all their objects.
    pub pages: u64,
    /// Replies received, completed page or not.
    pub replies: u64,
    /// Reply bytes of completed pages.
    pub page_bytes: u64,
}

/// A browser and its server.
#[derive(Clone, Debug)]
pub struct Web {
    parameters: WebParameters,
    request_lengths: Stream,
    reply_lengths: Stream,
    objects_per_page: Stream,
    /// Objects of the page; `None` until the page itself has been received.
    objects: Option<u64>,
    requested: u64,
    received: u64,
    bytes: u64,
    counters: WebCounters,
    /// Requests to send: connection and bytes.
    requests: Vec<(u32, u64)>,
}

impl Web {
    /// A browser whose lengths come from the streams of `component`.
    pub fn new(parameters: WebParameters, streams: &Streams, component: &str) -> Self {
        Web {
            parameters,
            request_lengths: streams.stream(component, "request length"),
            reply_lengths: streams.stream(component, "reply length"),
            objects_per_page: streams.stream(component, "objects per page"),
            objects: None,
            requested: 0,
            received: 0,
            bytes: 0,
            counters: WebCounters::default(),
            requests: Vec::with_capacity(parameters.connections as usize),
        }
    }

    /// Requests the next page.
    pub fn start_page(&mut self) {
        (self.objects, self.requested, self.received, self.bytes) = (None, 0, 0, 0);
        self.request(0);
    }

    fn request(&mut self, connection: u32) {
        let bytes = length(&Empirical::request_length(), &mut self.request_lengths);
        self.requests.push((connection, bytes));
    }

    /// The next request to send: connection and bytes.
    pub fn poll_request(&mut self) -> Option<(u32, u64)> {
        (!self.requests.is_empty()).then(|| self.requests.remove(0))
    }

    /// A request reached the server, which replies with so many bytes.
    pub fn on_request(&mut self) -> u64 {
        let bytes = length(&Empirical::reply_length(), &mut self.reply_lengths);
        self.bytes += bytes;
        bytes
    }

    /// A reply reached the client on `connection`. Returns true if it completed a page.
    pub fn on_reply(&mut self, connection: u32) -> bool {
        self.counters.replies += 1;
        let idle = match self.objects {
            None => {
                let drawn = Empirical::connections_per_page().sample(&mut self.objects_per_page);
                let itself = u64::from(self.parameters.page_counts_itself);
                self.objects = Some(drawn - itself.min(drawn));
                0..self.parameters.connections
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

fn length(table: &Empirical, stream: &mut Stream) -> u64 {
    match table.sample(stream) {
        0 => EMPTY_LENGTH,
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_of_a_page_is_fetched_once_on_at_most_n_connections() {
        let parameters = WebParameters { connections: 3, page_counts_itself: false };
        let mut web = Web::new(parameters, &Streams { seed: 1, replication: 0 }, "test");
        web.start_page();
        let mut busy: Vec<u32> = Vec::new();
        for step in 0..2000 {
            while let Some((connection, bytes)) = web.poll_request() {
                assert!(bytes > 0 && connection < 3 && !busy.contains(&connection));
                busy.push(connection);
            }
            let connection = busy.remove(step % busy.len());
            assert!(web.on_request() > 0);
            let completed = web.on_reply(connection);
            assert!(!completed || busy.is_empty(), "a page ends with its last reply");
        }
        let WebCounters { pages, replies, .. } = web.counters();
        // One page and 2.84 objects on average; the standard deviation of a page is about 4.
        let per_page = replies as f64 / pages as f64;
        assert!((per_page - 3.84).abs() < 4.5 * 4.0 / (pages as f64).sqrt(), "{per_page}");
    }

    #[test]
    fn sizes_and_counts_have_the_means_of_the_tables() {
        // 337.3, 7231 and 2.84, with 6 empty requests and 8 empty replies of 4100 made 1000 B.
        // Standard deviations 293.5, 44 066 and 4.11. Within 5 standard errors: false alarm below
        // 1e-6 each, as far as sums of so many are normal.
        let parameters = WebParameters { connections: 4, page_counts_itself: false };
        let mut web = Web::new(parameters, &Streams { seed: 5, replication: 0 }, "test");
        web.start_page();
        let (mut requests, mut request_bytes, mut reply_bytes) = (0.0, 0.0, 0.0);
        while web.counters().pages < 100_000 {
            let (connection, bytes) = web.poll_request().expect("a page in progress asks");
            requests += 1.0;
            request_bytes += bytes as f64;
            reply_bytes += web.on_request() as f64;
            web.on_reply(connection);
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
