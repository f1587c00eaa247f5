//! From the text of a script to its events. Nothing is played here.

use super::ScriptError;
use crate::packet::flags;
use crate::tcp::socket::{SocketError, Unreachable};
use std::collections::BTreeMap;

/// A script, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(super) events: Vec<Event>,
    /// What the lines `--NAME=VALUE` at the beginning say.
    pub(super) options: BTreeMap<String, String>,
}

/// One event of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub line: u32,
    pub time: Time,
    /// How much later it may happen, nanoseconds: `0.1~0.2`.
    pub span: u64,
    /// How long a system call blocks, nanoseconds: `0.1...0.2`.
    pub blocks: Option<u64>,
    pub what: What,
}

/// When an event happens, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Since the start of the script.
    At(u64),
    /// Since the event before.
    After(u64),
    /// Whenever it does.
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// `<`: a segment for the connection under test.
    Incoming(Segment),
    /// `< icmp …`: a router or the peer's host says that a segment has not arrived.
    Message(Message),
    /// `>`: a segment that it must send.
    Outgoing(Segment),
    /// A system call: its name, what stands between the parentheses, its result.
    Call { name: String, arguments: Vec<String>, result: String },
    /// `%{ … }%`: statements.
    Code(String),
    /// `` `…` ``: a shell command.
    Shell(String),
}

/// A segment as scripts write it; numbers are relative to the initial ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Bits of [`flags`].
    pub flags: u8,
    pub seq: u32,
    pub payload: u32,
    pub ack: Option<u32>,
    pub window: Option<u32>,
    pub options: Options,
    /// `<...>`: whatever they are.
    pub any_options: bool,
    /// The ECN field of the IP header, if it is named: 0 to 3.
    pub ecn: Option<u8>,
}

/// A message of ICMP (RFC 792) about a segment of the connection under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// First number of the segment.
    pub seq: u32,
    pub what: Unreachable,
}

/// The options of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub mss: Option<u32>,
    pub sack_permitted: bool,
    pub window_scale: Option<u32>,
    pub timestamps: Option<(u32, u32)>,
    pub sack: Vec<(u32, u32)>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError::Syntax`] with the line; [`ScriptError::NotModelled`] for flags and options that
    /// no connection here has.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        let text = blank_comments(text);
        let mut reader = Reader { rest: &text, line: 1 };
        let mut events = Vec::new();
        let mut options = BTreeMap::new();
        loop {
            reader.skip_space();
            if reader.rest.is_empty() {
                return Ok(Script { events, options });
            }
            let line = reader.line;
            if let Some(option) = reader.rest.strip_prefix("--")
                && events.is_empty()
            {
                let end = option.find(char::is_whitespace).unwrap_or(option.len());
                let (name, value) = option[..end].split_once('=').unwrap_or((&option[..end], ""));
                options.insert(name.to_owned(), value.to_owned());
                reader.take(2 + end);
                continue;
            }
            // A shell command or statements may stand without a time: at once.
            let (time, span, blocks) = if reader.rest.starts_with(['`', '%']) {
                (Time::After(0), 0, None)
            } else {
                reader.time()?
            };
            reader.skip_space();
            let what = reader.event()?;
            events.push(Event { line, time, span, blocks, what });
        }
    }
}

/// Comments become spaces, so that lines keep their numbers. Quoted text, statements and shell text
/// have none.
fn blank_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") || rest.starts_with('#') {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            let length = match first {
                // Statements have comments and divisions of their own.
                '%' if rest.starts_with("%{") => rest.find("}%").map_or(rest.len(), |end| end + 2),
                '`' | '"' => rest[1..].find(first).map_or(rest.len(), |end| end + 2),
                _ => first.len_utf8(),
            };
            out.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        };
        out.extend(rest[..length].chars().filter(|&character| character == '\n'));
        out.push(' ');
        rest = &rest[length..];
    }
    out
}

/// A position in the text.
struct Reader<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Reader<'a> {
    fn skip_space(&mut self) {
        let end = self.rest.find(|c: char| !c.is_whitespace()).unwrap_or(self.rest.len());
        self.take(end);
    }

    /// Takes `length` bytes, which end at a character's end.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    /// Takes what is left of the line.
    fn take_line(&mut self) -> &'a str {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.take(end).trim()
    }

    fn error(&self, expected: &'static str) -> ScriptError {
        let line = self.rest.lines().next().unwrap_or_default().trim();
        syntax(self.line, line, expected)
    }

    /// Takes text up to `end` and the end itself.
    fn until(&mut self, end: &str, expected: &'static str) -> Result<&'a str, ScriptError> {
        let Some(at) = self.rest.find(end) else { return Err(self.error(expected)) };
        let taken = self.take(at);
        self.take(end.len());
        Ok(taken)
    }

    /// Length of the word at `from`, which space, a shell command or a statement ends.
    fn word_length(&self, from: usize) -> usize {
        let text = &self.rest[from..];
        text.find(|c: char| c.is_whitespace() || c == '`' || c == '%').unwrap_or(text.len())
    }

    /// A time, how much later is as well, and how long a call blocks.
    fn time(&mut self) -> Result<(Time, u64, Option<u64>), ScriptError> {
        const EXPECTED: &str = "a time such as 0.5, +.1, +.1~+.2, 0.1...0.2 or *";
        let line = self.line;
        let mut end = self.word_length(0);
        // There may be space around the dots: `+.1 ... 0.2`.
        let dots = self.rest[end..].trim_start();
        if let Some(after) = dots.strip_prefix("...").filter(|after| after.starts_with([' ', '\t']))
        {
            let start = self.rest.len() - after.trim_start().len();
            end = start + self.word_length(start);
        }
        let written = self.rest[..end].to_owned();
        let word: String = written.split_whitespace().collect();
        let wrong = || syntax(line, &word, EXPECTED);
        let (text, later, is_call) = match (word.split_once("..."), word.split_once('~')) {
            (Some((start, end)), _) => (start, Some(end), true),
            (None, Some((start, end))) => (start, Some(end), false),
            (None, None) => (word.as_str(), None, false),
        };
        let number = |text: &str| nanos(text.strip_prefix('+').unwrap_or(text)).ok_or_else(wrong);
        let time = match text.starts_with('+') {
            _ if text == "*" => Time::Any,
            true => Time::After(number(text)?),
            false => Time::At(number(text)?),
        };
        let more = match later {
            None => 0,
            Some(later) => number(later)?.checked_sub(number(text)?).ok_or_else(wrong)?,
        };
        self.take(written.len());
        Ok(if is_call { (time, 0, Some(more)) } else { (time, more, None) })
    }

    fn event(&mut self) -> Result<What, ScriptError> {
        if self.rest.starts_with("%{") {
            self.take(2);
            return Ok(What::Code(self.until("}%", "}% after %{")?.to_owned()));
        }
        if self.rest.starts_with('`') {
            self.take(1);
            return Ok(What::Shell(self.until("`", "a closing `")?.to_owned()));
        }
        let line = self.line;
        if self.rest.starts_with(['<', '>']) {
            let incoming = self.take(1) == "<";
            let text = self.rest.trim_start();
            if let (true, Some(rest)) = (incoming, text.strip_prefix("icmp ")) {
                let message = message(line, rest.lines().next().unwrap_or_default())?;
                self.take_line();
                return Ok(What::Message(message));
            }
            let segment = segment(line, self.take_line())?;
            return Ok(if incoming { What::Incoming(segment) } else { What::Outgoing(segment) });
        }
        let Some(open) = self.rest.find('(') else {
            return Err(self.error("<, >, %{, ` or a system call"));
        };
        let name = self.rest[..open].trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(self.error("<, >, %{, ` or a system call"));
        }
        self.take(open + 1);
        let arguments = self.arguments()?;
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        if !self.rest.starts_with('=') {
            return Err(self.error("= and the result of the system call"));
        }
        self.take(1);
        let result = self.take_line().to_owned();
        Ok(What::Call { name: name.to_owned(), arguments, result })
    }

    /// The arguments of a system call up to its closing parenthesis; only the outermost commas part.
    fn arguments(&mut self) -> Result<Vec<String>, ScriptError> {
        let (mut depth, mut start) = (0, 0);
        let mut arguments = Vec::new();
        for (at, character) in self.rest.char_indices() {
            match character {
                '(' | '[' | '{' => depth += 1,
                ')' if depth == 0 => {
                    arguments.push(self.rest[start..at].trim().to_owned());
                    self.take(at + 1);
                    return Ok(arguments);
                }
                ')' | ']' | '}' => depth -= 1,
                ',' if depth == 0 => {
                    arguments.push(self.rest[start..at].trim().to_owned());
                    start = at + 1;
                }
                _ => {}
            }
        }
        Err(self.error("a closing parenthesis"))
    }
}

fn syntax(line: u32, found: &str, expected: &'static str) -> ScriptError {
    let found = if found.is_empty() { "the end".to_owned() } else { format!("\"{found}\"") };
    ScriptError::Syntax { line, found, expected }
}

/// No time of a script lies further ahead: 31 years, in nanoseconds.
pub(super) const LONGEST: u64 = 1_000_000_000_000_000_000;

/// Seconds with up to nine decimal places, as nanoseconds.
fn nanos(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if seconds.len() + fraction.len() == 0 || fraction.len() > 9 {
        return None;
    }
    if !is_digits(seconds) || !is_digits(fraction) {
        return None;
    }
    let seconds: u64 = if seconds.is_empty() { 0 } else { seconds.parse().ok()? };
    let fraction: u64 = format!("{fraction:0<9}").parse().ok()?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(fraction)?;
    (nanos <= LONGEST).then_some(nanos)
}

/// `unreachable NAME [mtu N] [SEQ:END(LENGTH)]`, behind `icmp`.
fn message(line: u32, text: &str) -> Result<Message, ScriptError> {
    const EXPECTED: &str = "a message such as unreachable frag_needed mtu 1200 [1:1001(1000)]";
    let wrong = || syntax(line, text.trim(), EXPECTED);
    let about =
        text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(range, _)| range);
    let seq = about.map_or(Some(0), |range| range.split(':').next()?.trim().parse().ok());
    let seq = seq.ok_or_else(wrong)?;
    let mut words = text.split('[').next().unwrap_or_default().split_whitespace();
    let (kind, code) = (words.next().unwrap_or_default(), words.next());
    let mtu = || {
        let mut words = text.split_whitespace().skip_while(|word| *word != "mtu");
        words.nth(1).and_then(|mtu| mtu.parse().ok())
    };
    let what = match (kind, code.unwrap_or_default()) {
        ("unreachable", "frag_needed") | ("packet_too_big", _) => {
            Unreachable::TooLarge(mtu().ok_or_else(wrong)?)
        }
        ("unreachable", code) => Unreachable::Nobody(match code {
            "net_unreachable"
            | "net_unknown"
            | "net_prohibited"
            | "net_unreachable_for_tos"
            | "no_route" => SocketError::NetworkUnreachable,
            "host_unreachable"
            | "host_prohibited"
            | "host_unreachable_for_tos"
            | "packet_filtered"
            | "host_precedence_violation"
            | "precedence_cutoff"
            | "addr_unreachable" => SocketError::HostUnreachable,
            "port_unreachable" => SocketError::Refused,
            "protocol_unreachable" => SocketError::NoProtocol,
            _ => return Err(wrong()),
        }),
        _ => {
            return Err(ScriptError::NotModelled {
                line,
                what: format!("the ICMP message {kind}"),
            });
        }
    };
    Ok(Message { seq, what })
}

/// `FLAGS SEQ:END(LENGTH) [ack N] [win N] [<OPTIONS>]`.
fn segment(line: u32, text: &str) -> Result<Segment, ScriptError> {
    let (text, options) = match text.split_once('<') {
        Some((text, options)) => {
            let inside = options.trim_end().strip_suffix('>');
            (text, inside.ok_or_else(|| syntax(line, options, "> after the options"))?)
        }
        None => (text, ""),
    };
    let mut segment = Segment { any_options: options.trim() == "...", ..Segment::default() };
    if !segment.any_options {
        segment.options = self::options(line, options)?;
    }
    let missing = |what: String| Err(ScriptError::NotModelled { line, what });
    let mut text = text.trim();
    if let Some((field, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        // Of several fields the one of ECN counts, alone or within the type of service.
        for field in field.split(',').map(str::trim) {
            let tos = field.strip_prefix("tos ").map(|tos| tos.trim().trim_start_matches("0x"));
            segment.ecn = Some(match field {
                "noecn" => 0,
                "ect1" => 1,
                "ect0" => 2,
                "ce" => 3,
                _ => match tos.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(tos) => tos & 3,
                    // They mark the way, not the connection.
                    None if field.starts_with("flowlabel ") || field.starts_with("ttl ") => {
                        continue;
                    }
                    None => return missing(format!("the IP field [{field}]")),
                },
            });
        }
        text = rest.trim();
    }
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    match first {
        "icmp" => return missing("an ICMP message that leaves".to_owned()),
        "udp" => return missing("a datagram".to_owned()),
        "ipv4" | "ipv6" | "gre" | "mpls" => return missing("a tunnel".to_owned()),
        _ => {}
    }
    for flag in first.chars() {
        segment.flags |= match flag {
            'S' => flags::SYN,
            'F' => flags::FIN,
            'R' => flags::RST,
            '.' => flags::ACK,
            'E' => flags::ECE,
            'W' => flags::CWR,
            // PSH says nothing to a model without a receive call that waits for it.
            'P' | '-' => 0,
            'U' => return missing("urgent data".to_owned()),
            'A' | 'N' | '0'..='9' => return missing("accurate ECN".to_owned()),
            _ => return Err(syntax(line, text, "flags such as S. or F. or -")),
        };
    }
    const RANGE: &str = "sequence numbers such as 1:1001(1000)";
    let range = words.next().unwrap_or_default();
    let numbers = range.strip_suffix(')').and_then(|range| {
        let (start, rest) = range.split_once(':')?;
        let (end, length) = rest.split_once('(')?;
        let number = |text: &str| text.parse::<u32>().ok();
        let (start, end, length) = (number(start)?, number(end)?, number(length)?);
        (end.wrapping_sub(start) == length).then_some((start, length))
    });
    let Some((seq, payload)) = numbers else { return Err(syntax(line, range, RANGE)) };
    (segment.seq, segment.payload) = (seq, payload);
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse::<u32>().ok());
        let Some(value) = value else { return Err(syntax(line, word, "ack N or win N")) };
        match word {
            "ack" => segment.ack = Some(value),
            "win" => segment.window = Some(value),
            "urg" => {
                return Err(ScriptError::NotModelled { line, what: "urgent data".to_owned() });
            }
            _ => return Err(syntax(line, word, "ack N or win N")),
        }
    }
    Ok(segment)
}

fn options(line: u32, text: &str) -> Result<Options, ScriptError> {
    const EXPECTED: &str = "mss, sackOK, sack, TS, wscale, nop or eol";
    let mut options = Options::default();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
        let wrong = || syntax(line, option, EXPECTED);
        match words[0] {
            "mss" => options.mss = Some(number(1).ok_or_else(wrong)?),
            "sackOK" => options.sack_permitted = true,
            "wscale" => options.window_scale = Some(number(1).ok_or_else(wrong)?),
            "TS" => {
                let pair = number(2).zip(number(4));
                options.timestamps = Some(pair.ok_or_else(wrong)?);
            }
            "sack" => {
                for block in &words[1..] {
                    let ends = block
                        .split_once(':')
                        .and_then(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)));
                    options.sack.push(ends.ok_or_else(wrong)?);
                }
            }
            "nop" | "eol" | "unknown" => {}
            "FO" | "FOEXP" | "md5" | "ECN" | "AO" | "mpcapable" | "mpjoin" | "dss" => {
                return Err(ScriptError::NotModelled {
                    line,
                    what: format!("option {}", words[0]),
                });
            }
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_comments_are_counted() {
        let script = "/* two\nlines */ 0 socket(..., SOCK_STREAM) = 3 // trailing\n# whole\n\
            %{ assert a == 1\n assert b == 2 }%\n+.1~+.2 < S. 5:6(1) ack 7 win 8\n";
        let events = Script::parse(script).unwrap().events;
        let lines: Vec<_> =
            events.iter().map(|event| (event.line, event.time, event.span)).collect();
        let later = Time::After(100_000_000);
        assert_eq!(lines, [(2, Time::At(0), 0), (4, Time::After(0), 0), (6, later, 100_000_000)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, found) in [
            ("0 < S 0:1(2)", 1, "0:1(2)"),
            ("\n+x > . 1:1(0)", 2, "+x"),
            ("0 > . 1:1(0) ack", 1, "ack"),
            ("0 > . 1:1(0) <sack 1>", 1, "sack 1"),
            ("0 > . 1:1(0) <sack 1:2", 1, "sack 1:2"),
            ("0 write(3, ..., 1000)\n", 1, "the end"),
            ("0 write 3", 1, "write 3"),
            ("%{ assert", 1, "assert"),
        ] {
            match Script::parse(text) {
                Err(ScriptError::Syntax { line: at, found: what, .. }) => {
                    assert_eq!(at, line, "{text}");
                    assert!(what.contains(found), "{text}: {what}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in ["0 < U. 1:1(0) ack 1", "0 < icmp echo_reply", "0 < S 0:0(0) <FO>"] {
            let script = Script::parse(text);
            assert!(matches!(script, Err(ScriptError::NotModelled { line: 1, .. })), "{text}");
        }
    }

    #[test]
    fn options_and_times_of_calls() {
        let text = "--tolerance_usecs=9000\n--verbose\n0.5 ... 0.7 read(3, ..., 10) = 10\n\
            +0 > [ect0] EW. 1:1(0) ack 1 <...>";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.options["tolerance_usecs"], "9000");
        assert!(script.options.contains_key("verbose"));
        assert_eq!(script.events[0].time, Time::At(500_000_000));
        assert_eq!(script.events[0].blocks, Some(200_000_000));
        let What::Outgoing(segment) = &script.events[1].what else { panic!("a segment") };
        assert!(segment.any_options && segment.ecn == Some(2));
        assert_eq!(segment.flags, flags::ACK | flags::ECE | flags::CWR);
    }
}
