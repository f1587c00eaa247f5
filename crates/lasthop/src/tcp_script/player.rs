//! Plays the events of a script against one end of a connection.

use super::ScriptError;
use super::expression::{Trouble, evaluate};
use super::parser::{Event, Script, Segment, Time, What};
use crate::packet::{MAX_SACK_BLOCKS, TcpHeader, flags};
use crate::tcp::{Config, Connection, Role};
use crate::units::{Duration, Instant};
use std::collections::VecDeque;
use std::fmt::Write as _;

/// What the two SYN of a script agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The smaller of the two maximum segment sizes, bytes.
    pub segment: u32,
    /// Both permit selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Both offer timestamps (RFC 7323).
    pub timestamps: bool,
}

/// How to play a script.
pub struct Setup<'a> {
    /// The connection under test, from what its SYN and the peer's say.
    pub config: &'a dyn Fn(Negotiated) -> Config,
    /// How much earlier or later than the script says a segment may leave.
    pub tolerance: Duration,
}

/// Maximum segment size of a SYN that names none (RFC 9293, section 3.7.1).
const DEFAULT_SEGMENT: u32 = 536;

/// `tcpi_snd_ssthresh` before the first reduction (Linux's `TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: f64 = 2_147_483_647.0;

/// Plays `script`.
///
/// # Errors
/// The first line at which the connection behaves otherwise, or that needs what is not modelled.
pub fn play(script: &Script, setup: &Setup<'_>) -> Result<(), ScriptError> {
    let mut player = Player::new(script, setup);
    script.events.iter().try_for_each(|event| player.event(event))
}

struct Player {
    end: Connection,
    now: Instant,
    /// When the event before was to happen.
    last: Instant,
    tolerance: Duration,
    /// What was sent and no line of the script has asked for yet.
    sent: VecDeque<(Instant, TcpHeader)>,
    /// Bytes that the application has read.
    read: u64,
    /// How far the peer's windows are shifted (RFC 7323), once both SYN said so.
    peer_window_shift: u32,
    /// The script's timestamps less the connection's.
    clock_offset: Option<u32>,
}

impl Player {
    fn new(script: &Script, setup: &Setup<'_>) -> Self {
        let is_opener = script
            .events
            .iter()
            .any(|event| matches!(&event.what, What::Call { name, .. } if name == "connect"));
        let syn = |of: fn(&What) -> Option<&Segment>| {
            let mut segments = script.events.iter().filter_map(|event| of(&event.what));
            segments.find(|segment| segment.flags & flags::SYN != 0).cloned().unwrap_or_default()
        };
        let ours =
            syn(|what| if let What::Outgoing(segment) = what { Some(segment) } else { None });
        let theirs =
            syn(|what| if let What::Incoming(segment) = what { Some(segment) } else { None });
        let (ours, theirs) = (ours.options, theirs.options);
        let size = |mss: Option<u32>| mss.unwrap_or(DEFAULT_SEGMENT);
        let config = (setup.config)(Negotiated {
            segment: size(theirs.mss).min(ours.mss.unwrap_or(u32::MAX)),
            sack: ours.sack_permitted && theirs.sack_permitted,
            timestamps: ours.timestamps.is_some() && theirs.timestamps.is_some(),
        });
        let role = if is_opener { Role::Opener } else { Role::Acceptor };
        Player {
            end: Connection::new(&config, role, Duration::ZERO),
            now: Instant::ZERO,
            last: Instant::ZERO,
            tolerance: setup.tolerance,
            sent: VecDeque::new(),
            read: 0,
            peer_window_shift: ours.window_scale.and(theirs.window_scale).unwrap_or(0),
            clock_offset: None,
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), ScriptError> {
        let at = match event.time {
            Time::At(nanos) => Some(Instant::from_nanos(nanos)),
            Time::After(nanos) => Some(self.last + Duration::from_nanos(nanos)),
            Time::Any => None,
        };
        if let What::Outgoing(segment) = &event.what {
            self.last = self.expect(event.line, at, segment)?;
            return Ok(());
        }
        let at = at.unwrap_or(self.now);
        self.last = at;
        self.run_until(at);
        match &event.what {
            What::Incoming(segment) => {
                let header = self.header(segment);
                self.end.receive(self.now, &header);
            }
            What::Call { name, arguments, result } => {
                self.call(event.line, name, arguments, result)?;
            }
            What::Code(text) => self.assert(event.line, text)?,
            // What they set is the caller's to read.
            What::Shell(_) => {}
            What::Outgoing(_) => unreachable!("handled above"),
        }
        self.pump();
        Ok(())
    }

    /// Takes from the connection all that it wants to send now.
    fn pump(&mut self) {
        let mut header = TcpHeader::default();
        while self.end.poll_transmit(self.now, &mut header).is_some() {
            self.sent.push_back((self.now, header));
        }
    }

    /// Turns the clock to `at`, with all deadlines on the way.
    fn run_until(&mut self, at: Instant) {
        while self.end.next_timeout() <= at {
            self.now = self.now.max(self.end.next_timeout());
            self.end.handle_timeout(self.now);
            self.pump();
        }
        self.now = self.now.max(at);
    }

    /// The connection sends `expected`, as one segment or several in a row. Returns the time that the
    /// next event is relative to.
    fn expect(
        &mut self,
        line: u32,
        at: Option<Instant>,
        expected: &Segment,
    ) -> Result<Instant, ScriptError> {
        let latest = at.map_or(Instant::NEVER, |at| at + self.tolerance);
        let mut seq = expected.seq;
        let mut left = expected.payload;
        let mut found = Found::default();
        loop {
            while self.sent.is_empty() && self.end.next_timeout() <= latest {
                let next = self.end.next_timeout();
                if next == Instant::NEVER {
                    break;
                }
                self.run_until(next);
            }
            let Some((sent, header)) = self.sent.pop_front() else {
                found.nothing_more(latest);
                return Err(found.differs(line, expected));
            };
            let is_last = header.payload >= left;
            found.add(sent, &header);
            let in_time = at.is_none_or(|at| sent + self.tolerance >= at && sent <= latest);
            let fits = header.seq == seq && header.payload <= left;
            if !in_time || !fits || !self.has_fields(&header, expected, is_last) {
                found.wanted(at);
                return Err(found.differs(line, expected));
            }
            if is_last {
                // An event of its own time sets the clock of those that follow.
                return Ok(at.unwrap_or(sent));
            }
            seq = seq.wrapping_add(header.payload);
            left -= header.payload;
        }
    }

    /// Do flags, acknowledgment and options agree? A FIN stands on the last of several segments.
    fn has_fields(&mut self, header: &TcpHeader, expected: &Segment, is_last: bool) -> bool {
        let flags = if is_last { expected.flags } else { expected.flags & !flags::FIN };
        let blocks = header.sack_blocks();
        let blocks = &blocks[..usize::from(header.sack_blocks)];
        let echo = match expected.options.timestamps {
            None => !header.has_timestamps,
            Some((value, echo)) => {
                let offset =
                    *self.clock_offset.get_or_insert(value.wrapping_sub(header.timestamps.0));
                header.has_timestamps
                    && header.timestamps.0.wrapping_add(offset) == value
                    && header.timestamps.1 == echo
            }
        };
        header.flags == flags
            && expected.ack.is_none_or(|ack| header.flags & flags::ACK != 0 && header.ack == ack)
            && blocks == expected.options.sack
            && echo
    }

    /// An incoming segment as the connection sees it.
    fn header(&self, segment: &Segment) -> TcpHeader {
        let shift = if segment.flags & flags::SYN != 0 { 0 } else { self.peer_window_shift };
        let mut header = TcpHeader {
            seq: segment.seq,
            ack: segment.ack.unwrap_or(0),
            payload: segment.payload,
            window: segment.window.unwrap_or(0) << shift,
            flags: segment.flags,
            ..TcpHeader::default()
        };
        if let Some((value, echo)) = segment.options.timestamps {
            header.has_timestamps = true;
            header.timestamps = (value, echo.wrapping_sub(self.clock_offset.unwrap_or(0)));
        }
        let blocks = &segment.options.sack;
        header.set_sack_blocks(&blocks[..blocks.len().min(MAX_SACK_BLOCKS)]);
        header
    }

    fn call(
        &mut self,
        line: u32,
        name: &str,
        arguments: &[String],
        result: &str,
    ) -> Result<(), ScriptError> {
        let differs =
            |expected: String, found: String| Err(ScriptError::Differs { line, expected, found });
        let returned = result.split_whitespace().next().unwrap_or_default();
        let number = |text: &str| text.trim_matches(['[', ']']).parse::<u64>().ok();
        let missing = |what: &str| ScriptError::NotModelled { line, what: what.to_owned() };
        match name {
            "socket" | "bind" | "listen" | "setsockopt" | "fcntl" | "accept" => {}
            "connect" => self.end.open(),
            "write" | "send" | "sendto" => {
                let bytes = arguments.get(2).and_then(|bytes| number(bytes));
                let Some(bytes) = bytes else { return Err(missing("a write of unknown length")) };
                if number(returned) != Some(bytes) {
                    return Err(missing("a write that is not taken whole"));
                }
                self.end.write(bytes);
            }
            "read" | "recv" | "recvfrom" => {
                let waiting = self.end.delivered_bytes() - self.read;
                let wanted = arguments.get(2).and_then(|bytes| number(bytes)).unwrap_or(u64::MAX);
                let Some(bytes) = number(returned) else {
                    return Err(missing("a read that fails"));
                };
                if bytes != waiting.min(wanted) {
                    return differs(format!("{bytes} bytes to read"), waiting.to_string());
                }
                self.read += bytes;
            }
            "close" | "shutdown" => self.end.close(),
            "ioctl" if arguments.get(1).is_some_and(|request| request == "SIOCINQ") => {
                let waiting = self.end.delivered_bytes() - self.read;
                let bytes = arguments.get(2).and_then(|bytes| number(bytes));
                if bytes != Some(waiting) {
                    let expected = arguments.get(2).cloned().unwrap_or_default();
                    return differs(format!("{expected} bytes to read"), waiting.to_string());
                }
            }
            _ => return Err(missing(&format!("the system call {name}"))),
        }
        Ok(())
    }

    /// `assert CONDITION[, MESSAGE]`, one a line.
    fn assert(&self, line: u32, text: &str) -> Result<(), ScriptError> {
        for (below, statement) in text.lines().enumerate() {
            let line = line + below as u32;
            for statement in statement.split(';').map(str::trim).filter(|text| !text.is_empty()) {
                let Some(condition) = statement.strip_prefix("assert ") else {
                    let what = format!("the statement \"{statement}\"");
                    return Err(ScriptError::NotModelled { line, what });
                };
                // The message behind the comma is for people.
                let condition = condition.split(',').next().unwrap_or_default().trim();
                match evaluate(condition, &|name| self.state(name)) {
                    Ok(value) if value != 0.0 => {}
                    Ok(_) => {
                        return Err(ScriptError::Differs {
                            line,
                            expected: condition.to_owned(),
                            found: self.describe(condition),
                        });
                    }
                    Err(Trouble::UnknownName(name)) => {
                        return Err(ScriptError::NotModelled { line, what: name });
                    }
                    Err(Trouble::Syntax(found)) => {
                        let found = format!("\"{found}\"");
                        let expected = "a condition on tcpi_* names and numbers";
                        return Err(ScriptError::Syntax { line, found, expected });
                    }
                }
            }
        }
        Ok(())
    }

    /// The state under the name that Linux's `tcp_info` gives it.
    fn state(&self, name: &str) -> Option<f64> {
        let sender = self.end.sender();
        let counters = self.end.counters();
        let micros = |duration: Duration| (duration.as_nanos() / 1_000) as f64;
        Some(match name {
            "tcpi_snd_cwnd" => sender.congestion_window().floor(),
            "tcpi_snd_ssthresh" => sender.slow_start_threshold().floor().min(INFINITE_SSTHRESH),
            "tcpi_unacked" => sender.outstanding_segments() as f64,
            "tcpi_rtt" => micros(self.end.srtt()),
            "tcpi_rto" => micros(sender.rto()),
            "tcpi_total_retrans" => counters.retransmissions as f64,
            "tcpi_segs_out" => counters.segments_sent as f64,
            "tcpi_bytes_acked" => self.end.acked_bytes() as f64,
            "tcpi_bytes_received" => self.end.delivered_bytes() as f64,
            _ => return None,
        })
    }

    /// The values of the names in a condition.
    fn describe(&self, condition: &str) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut text = String::new();
        for word in condition.split(|c| !is_word(c)) {
            if let Some(value) = self.state(word) {
                let _ = write!(text, "{}{word} = {value}", if text.is_empty() { "" } else { ", " });
            }
        }
        text
    }
}

/// What was seen instead of what a line expects.
#[derive(Default)]
struct Found(String);

impl Found {
    fn add(&mut self, at: Instant, header: &TcpHeader) {
        if !self.0.is_empty() {
            self.0.push_str(", ");
        }
        let _ = write!(
            self.0,
            "{}",
            show(&Segment {
                flags: header.flags,
                seq: header.seq,
                payload: header.payload,
                ack: (header.flags & flags::ACK != 0).then_some(header.ack),
                window: None,
                options: super::parser::Options {
                    sack: header.sack_blocks()[..usize::from(header.sack_blocks)].to_vec(),
                    timestamps: header.has_timestamps.then_some(header.timestamps),
                    ..Default::default()
                },
            })
        );
        let _ = write!(self.0, " at {} s", seconds(at));
    }

    fn wanted(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            let _ = write!(self.0, " (asked for at {} s)", seconds(at));
        }
    }

    fn nothing_more(&mut self, latest: Instant) {
        let more = if self.0.is_empty() { "nothing" } else { ", then nothing" };
        self.0.push_str(more);
        if latest != Instant::NEVER {
            let _ = write!(self.0, " until {} s", seconds(latest));
        }
    }

    fn differs(self, line: u32, expected: &Segment) -> ScriptError {
        ScriptError::Differs { line, expected: show(expected), found: self.0 }
    }
}

fn seconds(at: Instant) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// A segment in the language of scripts.
fn show(segment: &Segment) -> String {
    let mut text = String::from("> ");
    let letters = [(flags::FIN, 'F'), (flags::SYN, 'S'), (flags::ACK, '.')];
    text.extend(letters.iter().filter(|(bit, _)| segment.flags & bit != 0).map(|(_, c)| c));
    if segment.flags == 0 {
        text.push('-');
    }
    let end = segment.seq.wrapping_add(segment.payload);
    let _ = write!(text, " {}:{end}({})", segment.seq, segment.payload);
    if let Some(ack) = segment.ack {
        let _ = write!(text, " ack {ack}");
    }
    let mut options = Vec::new();
    if let Some((value, echo)) = segment.options.timestamps {
        options.push(format!("TS val {value} ecr {echo}"));
    }
    if !segment.options.sack.is_empty() {
        let blocks: Vec<_> =
            segment.options.sack.iter().map(|(left, right)| format!("{left}:{right}")).collect();
        options.push(format!("sack {}", blocks.join(" ")));
    }
    if !options.is_empty() {
        let _ = write!(text, " <{}>", options.join(","));
    }
    text
}
