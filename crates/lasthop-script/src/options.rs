//! Socket options, and the requests of `ioctl`.

use super::ScriptError;
use super::calls::{Returned, errno_number};
use super::constants::{errno, value};
use super::endpoints::Endpoint;
use super::environment::{self, Environment};
use super::player::Player;
use lasthop_base::units::Duration;
use lasthop_tcp::host::{EcnOffer, KeepAlive, Limits, Socket, State};

/// Socket options that are modelled, with minimum and maximum value.
const KNOWN: &[(&str, i64, i64)] = &[
    ("TCP_NODELAY", i64::MIN, i64::MAX),
    ("TCP_CORK", i64::MIN, i64::MAX),
    ("TCP_QUICKACK", i64::MIN, i64::MAX),
    ("TCP_MAXSEG", 88, 32_767),
    ("TCP_USER_TIMEOUT", 0, i64::MAX),
    ("TCP_KEEPIDLE", 1, 32_767),
    ("TCP_KEEPINTVL", 1, 32_767),
    ("TCP_KEEPCNT", 1, 127),
    ("TCP_SYNCNT", 1, 127),
    ("TCP_LINGER2", i64::MIN, i64::MAX),
    ("TCP_NOTSENT_LOWAT", i64::MIN, i64::MAX),
    ("TCP_INQ", 0, 1),
    ("SO_KEEPALIVE", i64::MIN, i64::MAX),
    ("SO_RCVBUF", i64::MIN, i64::MAX),
    ("SO_SNDBUF", i64::MIN, i64::MAX),
    ("SO_RCVLOWAT", i64::MIN, i64::MAX),
    ("TCP_DEFER_ACCEPT", i64::MIN, i64::MAX),
    ("TCP_WINDOW_CLAMP", 0, i64::MAX),
    ("SO_RCVBUFFORCE", i64::MIN, i64::MAX),
    ("SO_SNDBUFFORCE", i64::MIN, i64::MAX),
    ("SO_MAX_PACING_RATE", 0, i64::MAX),
    ("TCP_RTO_MAX_MS", 1_000, 120_000),
    ("TCP_RTO_MIN_US", 1, 200_000),
    ("TCP_DELACK_MAX_US", 1, 200_000),
    ("IP_RECVERR", i64::MIN, i64::MAX),
    ("IPV6_RECVERR", i64::MIN, i64::MAX),
];

/// Options without effect.
const WITHOUT_EFFECT: &[&str] = &[
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_ZEROCOPY",
    "SO_PRIORITY",
    "SO_MARK",
    "SO_RCVTIMEO",
    "SO_SNDTIMEO",
    "SO_BUSY_POLL",
    "SO_INCOMING_CPU",
    "IP_TOS",
    "IPV6_TCLASS",
    "IP_MTU_DISCOVER",
    "IP_FREEBIND",
    "SO_OOBINLINE",
    "SO_BINDTODEVICE",
    "SO_BROADCAST",
    "SO_DONTROUTE",
    "SO_TIMESTAMP",
    "SO_TIMESTAMPNS",
    "SO_RCVTIMEO_NEW",
    "SO_SNDTIMEO_NEW",
    "SO_PEEK_OFF",
    "SO_PREFER_BUSY_POLL",
    "SO_BUSY_POLL_BUDGET",
    "SO_TXREHASH",
    "SO_NOFCS",
    "IP_TTL",
    "IP_MINTTL",
    "IP_TRANSPARENT",
    "IP_BIND_ADDRESS_NO_PORT",
    "IP_LOCAL_PORT_RANGE",
    "IP_RECVTOS",
    "IP_RECVTTL",
    "IPV6_V6ONLY",
    "IPV6_UNICAST_HOPS",
    "IPV6_MINHOPCOUNT",
    "IPV6_MTU_DISCOVER",
    "IPV6_FLOWINFO_SEND",
    "IPV6_AUTOFLOWLABEL",
    "TCP_SAVE_SYN",
    "TCP_THIN_DUPACK",
];

/// Read-only options with their values.
const ASKED: &[(&str, i64)] = &[("SO_TYPE", 1), ("SO_PROTOCOL", 6)];

/// Congestion control algorithms of Linux that are not modelled. Any other name is unknown
/// to Linux too.
const OTHER_LAWS: &[&str] = &["cdg", "highspeed", "lp", "nv", "scalable", "yeah"];

/// Options that return a structure, whose contents scripts do not check.
const STRUCTURES: &[&str] = &["TCP_INFO", "TCP_CC_INFO", "TCP_SAVED_SYN"];

/// Minimum memory of a send buffer, bytes, before it is doubled.
const LEAST_SEND_BUFFER: i64 = 2304;
/// Maximum memory of both buffers, bytes, before it is doubled (`net.core.wmem_max`).
const LARGEST_BUFFER: i64 = 212_992;
/// Minimum memory of a receive buffer, bytes, before it is doubled.
const LEAST_RECEIVE_BUFFER: i64 = 1152;

/// Maximum delay of an ACK, microseconds (`TCP_DELACK_MAX`).
const LONGEST_ACK_DELAY_MICROS: i64 = 200_000;

/// Maximum time in FIN-WAIT-2 of a closed socket, seconds (`TCP_FIN_TIMEOUT_MAX`).
const LONGEST_FIN_WAIT: i64 = 120;

impl Endpoint {
    /// Maximum memory of a buffer that an application may set, bytes.
    fn largest(&self, name: &str) -> i64 {
        let is_forced = self.options.contains_key(&format!("{name}_FORCED"));
        if is_forced { i64::from(i32::MAX / 2) } else { LARGEST_BUFFER }
    }

    /// Memory that Linux allocates for `SO_SNDBUF`, bytes.
    pub fn send_buffer(&self, asked: i64) -> u32 {
        (2 * asked.clamp(LEAST_SEND_BUFFER, self.largest("SO_SNDBUF"))) as u32
    }

    /// Data capacity of a receive buffer for `SO_RCVBUF` in Linux, bytes: half of its memory.
    pub fn receive_buffer(&self, asked: i64) -> u64 {
        asked.clamp(LEAST_RECEIVE_BUFFER, self.largest("SO_RCVBUF")) as u64
    }

    /// Limits set by the application.
    pub fn limits(&self) -> Limits {
        let option = |name: &str| self.options.get(name).map(|&value| value.max(0) as u64);
        Limits {
            least_rto: option("TCP_RTO_MIN_US").map(|micros| environment::span(micros, 1_000)),
            greatest_rto: option("TCP_RTO_MAX_MS")
                .map(|millis| environment::span(millis, 1_000_000)),
            ack_delay: option("TCP_DELACK_MAX_US").map(|micros| environment::span(micros, 1_000)),
            pacing_rate: option("SO_MAX_PACING_RATE").filter(|&rate| rate < u32::MAX.into()),
        }
    }
}

impl Player {
    /// Creates a socket with the options that the script has set.
    pub(super) fn make_socket(&self) -> Socket {
        let option = |name: &str| self.ends.options.get(name).copied();
        let size = |name: &str| option(name).map(|value| value.max(1) as u64);
        let buffer = option("SO_RCVBUF").map(|asked| self.ends.receive_buffer(asked));
        let clamp = option("TCP_WINDOW_CLAMP").filter(|&clamp| clamp > 0).map(window_clamp);
        let law = self.ends.law.as_deref().unwrap_or(self.environment.law());
        let mut settings = self.environment.settings(buffer, size("TCP_MAXSEG"), clamp);
        settings.keep_alive = self.keep_alive();
        settings.user_timeout = option("TCP_USER_TIMEOUT").and_then(user_timeout);
        if let Some(asked) = option("SO_SNDBUF") {
            settings.send_buffer = (self.ends.send_buffer(asked), true);
        }
        if let Some(limit) = option("TCP_NOTSENT_LOWAT") {
            settings.unsent_limit = unsent_limit(limit);
        }
        if law == "dctcp" {
            // DCTCP requires ECN (Linux: TCP_CONG_NEEDS_ECN).
            settings.ecn = EcnOffer::Asks;
        }
        if self.environment.is_linux() {
            let deferred = option("TCP_DEFER_ACCEPT").unwrap_or(0);
            settings.deferred_accept = defer_accept(deferred).0;
            settings.delays_first_ack = deferred > 0 || option("TCP_QUICKACK") == Some(0);
        }
        if let Some(retries) = option("TCP_SYNCNT") {
            settings.syn_retries = [retries as u32; 2];
        }
        let configure = self.environment.configure(law);
        let mut socket = Socket::new(settings, configure);
        socket.set_limits(self.ends.limits());
        if option("TCP_LINGER2").is_some() {
            socket.set_fin_wait(environment::seconds(self.fin_wait().max(0) as u64));
        }
        socket.set_nodelay(option("TCP_NODELAY").unwrap_or(0) != 0);
        socket.set_corked(option("TCP_CORK").unwrap_or(0) != 0);
        let wants_errors = ["IP_RECVERR", "IPV6_RECVERR"].into_iter().filter_map(option);
        socket.set_hears_of_errors(wants_errors.into_iter().any(|value| value != 0));
        socket
    }

    /// Keep-alive parameters, which an application may set individually.
    pub(super) fn keep_alive(&self) -> Option<KeepAlive> {
        let option = |name: &str| self.ends.options.get(name).map(|&value| value.max(1) as u64);
        (self.ends.options.get("SO_KEEPALIVE").copied().unwrap_or(0) != 0).then(|| {
            let default = self.environment.keep_alive();
            KeepAlive {
                idle: option("TCP_KEEPIDLE").map_or(default.idle, environment::seconds),
                interval: option("TCP_KEEPINTVL").map_or(default.interval, environment::seconds),
                probes: option("TCP_KEEPCNT").map_or(default.probes, |count| count as u32),
            }
        })
    }

    /// Seconds that the focused socket stays in FIN-WAIT-2 once it is closed; -1 if it resets the
    /// connection instead.
    pub(super) fn fin_wait(&self) -> i64 {
        match self.ends.options.get("TCP_LINGER2").copied().unwrap_or(0) {
            ..0 => -1,
            0 => self.environment.setting("tcp_fin_timeout") as i64,
            seconds => seconds.min(LONGEST_FIN_WAIT),
        }
    }

    pub(super) fn set_option(
        &mut self,
        line: u32,
        name: &str,
        text: &str,
    ) -> Result<Returned, ScriptError> {
        if name == "TCP_CONGESTION" {
            return self.set_law(line, text);
        }
        if name == "SO_LINGER" {
            let says = |field: &str| text.replace(' ', "").contains(field);
            self.ends.resets_on_close = says("onoff=1") && says("linger=0");
            self.ends.lingers = says("onoff=1") && !self.ends.resets_on_close;
            return Ok(Returned::Value(0));
        }
        if let ("SO_TIMESTAMPING", Some(bits)) = (name, value(text)) {
            self.ends.stamps_of_writes.set(bits);
            return Ok(Returned::Value(0));
        }
        let is_idle = WITHOUT_EFFECT.contains(&name);
        let known = KNOWN.iter().find(|(known, ..)| *known == name);
        let Some(to) = value(text).filter(|_| known.is_some()) else {
            return match is_idle {
                true => {
                    self.ends.options.extend(value(text).map(|to| (name.to_owned(), to)));
                    Ok(Returned::Value(0))
                }
                false => Self::missing(line, &format!("the socket option {name}")),
            };
        };
        if known.is_some_and(|&(_, least, most)| to < least || to > most) {
            return Ok(Returned::Error("EINVAL"));
        }
        let has_connection =
            self.ends.socket.as_ref().is_some_and(|socket| socket.state() != State::Closed);
        if name == "TCP_WINDOW_CLAMP" && to == 0 && has_connection {
            // The clamp can be removed only without a connection.
            return Ok(Returned::Error("EINVAL"));
        }
        if let Some(name) = name.strip_suffix("FORCE") {
            // Ignores `net.core.rmem_max` and `wmem_max`.
            self.ends.options.insert(format!("{name}_FORCED"), 1);
        }
        let name = name.strip_suffix("FORCE").unwrap_or(name);
        self.ends.options.insert(name.to_owned(), to);
        self.apply_option(name, to);
        // A connection that is being accepted shares the options of the listener.
        let listener = self.ends.focused();
        for child in self.ends.unfinished() {
            self.ends.focus(child);
            self.ends.options.insert(name.to_owned(), to);
            self.apply_option(name, to);
        }
        self.ends.focus(listener);
        Ok(Returned::Value(0))
    }

    /// Applies an option to the socket, if it exists; otherwise it takes effect on creation.
    fn apply_option(&mut self, name: &str, to: i64) {
        let (now, keep_alive) = (self.now, self.keep_alive());
        let sizes = (self.ends.receive_buffer(to), self.ends.send_buffer(to));
        let (limits, fin_wait) =
            (self.ends.limits(), environment::seconds(self.fin_wait().max(0) as u64));
        let Some(socket) = &mut self.ends.socket else { return };
        match name {
            "TCP_NODELAY" => socket.set_nodelay(to != 0),
            "TCP_CORK" => socket.set_corked(to != 0),
            "TCP_QUICKACK" => socket.set_quick_acks(to != 0),
            "SO_RCVBUF" => socket.set_receive_buffer(sizes.0 as u32),
            "SO_SNDBUF" => socket.set_send_buffer(sizes.1),
            "TCP_LINGER2" => socket.set_fin_wait(fin_wait),
            "TCP_RTO_MAX_MS" | "TCP_RTO_MIN_US" | "TCP_DELACK_MAX_US" | "SO_MAX_PACING_RATE" => {
                socket.set_limits(limits);
            }
            "TCP_WINDOW_CLAMP" if to > 0 => socket.set_window_clamp(window_clamp(to) as u32),
            "IP_RECVERR" | "IPV6_RECVERR" => socket.set_hears_of_errors(to != 0),
            "TCP_NOTSENT_LOWAT" => socket.set_unsent_limit(unsent_limit(to)),
            "TCP_USER_TIMEOUT" => socket.set_user_timeout(now, user_timeout(to)),
            "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => {
                socket.set_keep_alive(now, keep_alive);
            }
            _ => {}
        }
    }

    /// Name of the congestion control algorithm.
    pub(super) fn law(&self) -> &str {
        self.ends.law.as_deref().unwrap_or(self.environment.law_or_default())
    }

    fn set_law(&mut self, line: u32, text: &str) -> Result<Returned, ScriptError> {
        let law = text.trim_matches(['[', ']', '"']).to_owned();
        if !Environment::has_law(&law) && !OTHER_LAWS.contains(&law.as_str()) {
            return Ok(Returned::Error("ENOENT"));
        }
        if !Environment::has_law(&law) {
            return Self::missing(line, &format!("the congestion control algorithm {law}"));
        }
        let is_other = law != self.law();
        let (now, configure) = (self.now, self.environment.configure(&law));
        self.ends.law = Some(law);
        if let Some(socket) = &mut self.ends.socket {
            socket.set_configure(configure);
            if is_other {
                socket.change_congestion_control(now);
            }
        }
        Ok(Returned::Value(0))
    }

    pub(super) fn get_option(
        &mut self,
        line: u32,
        name: &str,
        text: &str,
    ) -> Result<Returned, ScriptError> {
        if name == "TCP_CONGESTION" {
            let found = self.law().to_owned();
            let is_same = text.trim_matches(['[', ']', '"']) == found;
            return match is_same {
                true => Ok(Returned::Value(0)),
                false => Self::differs(line, format!("{name} {text}"), found),
            };
        }
        if STRUCTURES.contains(&name) {
            return Ok(Returned::Value(0));
        }
        let set = self.ends.options.get(name).copied();
        let asked = ASKED.iter().find(|(known, _)| *known == name).map(|&(_, value)| value);
        let keep_alive = self.environment.keep_alive();
        let whole = |time: Duration| (time.as_nanos() / 1_000_000_000) as i64;
        let found = match name {
            "SO_ERROR" => {
                let error = self.ends.socket.as_mut().and_then(Socket::take_error);
                let error =
                    error.or_else(|| self.ends.socket.as_mut().and_then(Socket::take_reason));
                error.map_or(0, |error| errno(error).1)
            }
            "SO_SNDBUF" if set.is_some() => self.ends.send_buffer(set.unwrap_or(0)).into(),
            // Linux doubles the value set.
            "SO_RCVBUF" if set.is_some() => 2 * self.ends.receive_buffer(set.unwrap_or(0)) as i64,
            "SO_RCVBUF" => {
                let now = self.ends.socket.as_ref().and_then(Socket::receive_memory);
                now.map_or(self.environment.default_receive_buffer(), |bytes| bytes as i64)
            }
            "TCP_MAXSEG" => {
                let info = self.ends.socket.as_ref().map(Socket::info).unwrap_or_default();
                if info.segment > 0 { info.segment as i64 } else { set.unwrap_or(536) }
            }
            "TCP_KEEPIDLE" => set.unwrap_or(whole(keep_alive.idle)),
            "TCP_KEEPINTVL" => set.unwrap_or(whole(keep_alive.interval)),
            "TCP_KEEPCNT" => set.unwrap_or(keep_alive.probes.into()),
            "TCP_NODELAY" | "TCP_CORK" | "SO_KEEPALIVE" => i64::from(set.unwrap_or(0) != 0),
            "TCP_USER_TIMEOUT" | "SO_REUSEADDR" | "TCP_INQ" | "SO_OOBINLINE"
            | "TCP_NOTSENT_LOWAT" => set.unwrap_or(0),
            "TCP_SYNCNT" => set.unwrap_or(self.environment.setting("tcp_syn_retries") as i64),
            "TCP_LINGER2" => self.fin_wait(),
            "TCP_RTO_MAX_MS" => set.unwrap_or(self.environment.setting("tcp_rto_max_ms") as i64),
            "TCP_RTO_MIN_US" => set.unwrap_or(self.environment.setting("tcp_rto_min_us") as i64),
            "TCP_DELACK_MAX_US" => set.unwrap_or(LONGEST_ACK_DELAY_MICROS),
            // ~0 means no limit, in any width.
            "SO_MAX_PACING_RATE" => set.unwrap_or(-1),
            "TCP_DEFER_ACCEPT" => defer_accept(set.unwrap_or(0)).1,
            "TCP_QUICKACK" => {
                let is_quick = self.ends.socket.as_ref().is_none_or(Socket::has_quick_acks);
                i64::from(is_quick && set != Some(0))
            }
            "SO_SNDBUF" => self.environment.default_send_buffer(),
            "TCP_WINDOW_CLAMP" => {
                let asked = set.filter(|&set| set > 0).map_or(0, |set| window_clamp(set) as i64);
                let open = self.ends.socket.as_ref().filter(|one| one.is_open());
                open.and_then(Socket::window_clamp).map_or(asked, |clamp| clamp as i64)
            }
            "SO_RCVLOWAT" => set.unwrap_or(1).max(1),
            _ => match set.or(asked) {
                Some(set) => set,
                None if WITHOUT_EFFECT.contains(&name) => 0,
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

    pub(super) fn ioctl(
        &mut self,
        line: u32,
        request: &str,
        text: &str,
    ) -> Result<Returned, ScriptError> {
        let Some(socket) = &self.ends.socket else { return Ok(Returned::Error("ENOTCONN")) };
        let (unacknowledged, unsent) = socket.unacknowledged_numbers();
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
}

/// Number of retransmissions of SYN/ACK while Linux waits for the first data under
/// `TCP_DEFER_ACCEPT`, and their total duration in seconds.
fn defer_accept(seconds: i64) -> (u32, i64) {
    let (mut count, mut period, mut timeout) = (0, 0, 1);
    while period < seconds && count < 255 {
        period += timeout;
        timeout = (timeout * 2).min(120);
        count += 1;
    }
    (count, period)
}

/// Maximum window for `TCP_WINDOW_CLAMP` in Linux, bytes.
fn window_clamp(bytes: i64) -> u64 {
    bytes.clamp(LEAST_RECEIVE_BUFFER, i64::from(i32::MAX)) as u64
}

/// User timeout from milliseconds; 0 for none.
fn user_timeout(millis: i64) -> Option<Duration> {
    (millis > 0).then(|| environment::span(millis as u64, 1_000_000))
}

/// Limit of unsent data, bytes; 0 for none.
fn unsent_limit(bytes: i64) -> Option<u32> {
    (bytes > 0).then_some(bytes.min(u32::MAX.into()) as u32)
}
