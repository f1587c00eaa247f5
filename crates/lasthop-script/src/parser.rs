//! Parser: converts the text of a script to events. It does not run them.

use super::ScriptError;
use super::defines::{define, replace};
use super::segments::{Message, Segment, packet};
use std::collections::BTreeMap;

/// A parsed script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    pub(super) events: Vec<Event>,
    /// Options from the lines `--NAME=VALUE` at the beginning.
    pub(super) options: BTreeMap<String, String>,
}

/// One event of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub line: u32,
    pub time: Time,
    /// Allowed delay after `time`, nanoseconds: `0.1~0.2`.
    pub span: u64,
    /// Time for which a system call blocks, nanoseconds: `0.1...0.2`.
    pub blocks: Option<u64>,
    pub what: What,
}

/// Time of an event, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    /// Since the start of the script.
    At(u64),
    /// Since the previous event.
    After(u64),
    /// Any time.
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// `<`: a segment for the connection under test.
    Incoming(Segment),
    /// `< icmp …`: a router or the peer's host reports that a segment was not delivered.
    Message(Message),
    /// `>`: a segment that it must send.
    Outgoing(Segment),
    /// A system call: its name, its arguments, its result.
    Call { name: String, arguments: Vec<String>, result: String },
    /// `%{ … }%`: statements.
    Code(String),
    /// `` `…` ``: a shell command.
    Shell(String),
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError::Syntax`] with the line; [`ScriptError::NotModelled`] for flags and options that
    /// no connection here has.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        Script::parse_with(text, &[])
    }

    /// Like [`Self::parse`], with definitions `NAME=VALUE` from the command line. They take
    /// precedence over those of the script.
    pub fn parse_with(text: &str, defined: &[String]) -> Result<Script, ScriptError> {
        let text = blank_comments(text);
        let mut reader = Reader { rest: &text, line: 1 };
        let mut options = BTreeMap::new();
        let mut defines = Vec::new();
        reader.skip_space();
        while let Some(option) = reader.rest.strip_prefix("--") {
            let line = reader.line;
            let end = option_length(option);
            let (name, value) = option[..end].split_once('=').unwrap_or((&option[..end], ""));
            match name {
                "define" => defines.push(define(line, value)?),
                _ => drop(options.insert(name.to_owned(), value.to_owned())),
            }
            reader.take(2 + end);
            reader.skip_space();
        }
        for one in defined {
            defines.push(define(1, one)?);
        }
        let replaced =
            if defines.is_empty() { String::new() } else { replace(reader.rest, &defines) };
        if !defines.is_empty() {
            reader.rest = &replaced;
        }
        let mut events = Vec::new();
        loop {
            reader.skip_space();
            if reader.rest.is_empty() {
                return Ok(Script { events, options });
            }
            let line = reader.line;
            // A shell command or statements without a time follow the previous event immediately.
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

/// Length of an option after `--`: up to the first space outside quotes.
fn option_length(option: &str) -> usize {
    let mut quote = None;
    for (place, character) in option.char_indices() {
        match quote {
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character.is_whitespace() => return place,
            None => quote = Some(character).filter(|mark| "\"`".contains(*mark)),
        }
    }
    option.len()
}

/// Replaces comments by spaces, so that line numbers are unchanged. Quoted text, statements and
/// shell commands have no comments.
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
                // Statements have their own comments and may contain divisions.
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

    /// Takes `length` bytes, which must end at a character boundary.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    /// Takes the rest of the line.
    fn take_line(&mut self) -> &'a str {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.take(end).trim()
    }

    /// Takes a segment: the rest of the line, and the following lines that continue it with
    /// acknowledgment, window or options.
    fn packet_text(&mut self) -> String {
        let mut text = self.take_line().to_owned();
        loop {
            let next = self.rest.trim_start();
            let goes_on =
                ["<", "{", "ack ", "win ", "urg "].iter().any(|word| next.starts_with(word));
            let is_open = text.contains('<') && !text.contains('>') && !next.is_empty();
            if !goes_on && !is_open {
                return text;
            }
            self.skip_space();
            text = format!("{text} {}", self.take_line());
        }
    }

    fn error(&self, expected: &'static str) -> ScriptError {
        let line = self.rest.lines().next().unwrap_or_default().trim();
        syntax(self.line, line, expected)
    }

    /// Takes the text up to `end`, and `end` itself.
    fn until(&mut self, end: &str, expected: &'static str) -> Result<&'a str, ScriptError> {
        let Some(at) = self.rest.find(end) else { return Err(self.error(expected)) };
        let taken = self.take(at);
        self.take(end.len());
        Ok(taken)
    }

    /// Length of the word at `from`. It ends at a space, a shell command or a statement.
    fn word_length(&self, from: usize) -> usize {
        let text = &self.rest[from..];
        text.find(|c: char| c.is_whitespace() || c == '`' || c == '%').unwrap_or(text.len())
    }

    /// Parses a time, the allowed delay, and the time for which a call blocks.
    fn time(&mut self) -> Result<(Time, u64, Option<u64>), ScriptError> {
        const EXPECTED: &str = "a time such as 0.5, +.1, +.1~+.2, 0.1...0.2 or *";
        let line = self.line;
        let mut end = self.word_length(0);
        // Space is allowed around the separator of two times: `+.1 ... 0.2`.
        let mark = self.rest[end..].trim_start();
        let after = mark.strip_prefix("...").or_else(|| mark.strip_prefix('~'));
        if let Some(after) = after.filter(|after| after.starts_with([' ', '\t'])) {
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
            return packet(line, incoming, &self.packet_text());
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
        if !self.rest.trim_start().starts_with('=') {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            return Err(self.error("= and the result of the system call"));
        }
        self.skip_space();
        self.take(1);
        let mut result = self.take_line().to_owned();
        if self.rest.trim_start().starts_with('(') {
            // The description of the error may be on a separate line.
            self.skip_space();
            result = format!("{result} {}", self.take_line());
        }
        Ok(What::Call { name: name.to_owned(), arguments, result })
    }

    /// Takes the arguments of a system call up to its closing parenthesis. Only commas on the
    /// outermost level separate arguments.
    fn arguments(&mut self) -> Result<Vec<String>, ScriptError> {
        let (mut depth, mut start) = (0, 0);
        let mut arguments = Vec::new();
        let mut is_quoted = false;
        for (at, character) in self.rest.char_indices() {
            match character {
                '"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
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

pub(super) fn syntax(line: u32, found: &str, expected: &'static str) -> ScriptError {
    let found = if found.is_empty() { "the end".to_owned() } else { format!("\"{found}\"") };
    ScriptError::Syntax { line, found, expected }
}

/// Maximum time of a script: 31 years, in nanoseconds.
pub(super) const LONGEST: u64 = 1_000_000_000_000_000_000;

/// Parses seconds with up to nine decimal places, and returns nanoseconds.
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

#[cfg(test)]
mod tests {
    use super::*;
    use lasthop_base::packet::flags;

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
    }

    /// Features of the language that are not modelled cause another error than unknown words.
    #[test]
    fn what_belongs_to_the_language_is_named() {
        for (text, what) in [
            ("0 < U. 1:1(0) ack 1", "urgent data"),
            ("0 < . 1:1(0) ack 1 urg 5", "urgent data"),
            ("0 < icmp echo_reply", "ICMP message echo_reply"),
            ("0 < [ect0] icmp unreachable port_unreachable [udp (100)]", "datagram"),
            ("0 > icmp echo_reply id 5", "outgoing"),
            ("0 < S 0:0(0) <FO>", "option FO"),
            ("0 < S 0:0(0) <mss 1460,exp-fastopen 1234>", "option exp-fastopen"),
            ("0 < S 0:0(0) <mp_capable v1 flags[flag_h] nokey>", "option mp_capable"),
            ("0 < [ect0] S.5 0:0(0)", "accurate ECN"),
            ("0 < ipv4 192.0.2.1 > 192.0.2.2: S 0:0(0)", "tunnel"),
            ("0 < gre: S 0:0(0)", "tunnel"),
            ("0 < GREv0, flags [none], sum 0 : S 0:0(0)", "tunnel"),
            ("0 < mpls (label 0, tc 0, [S], ttl 0): S 0:0(0)", "tunnel"),
            ("0 < udp (100)", "datagram"),
            ("0 < S 0:0(0) win 9 <mss 1000> { mut tcp mss }", "random mutation"),
        ] {
            match Script::parse(text) {
                Err(ScriptError::NotModelled { line: 1, what: found }) => {
                    assert!(found.contains(what), "{text}: {found}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        for text in [
            "0 < S 0:0(0) <msss 9>",
            "0 < [ect2] S 0:0(0)",
            "0 < [ect01] S 0:0(0)",
            "0 < 40 S 0:0(0)",
            "0 < 40 > S 0:0(0)",
            "0 < 40 > 65536 S 0:0(0)",
        ] {
            assert!(
                matches!(Script::parse(text), Err(ScriptError::Syntax { line: 1, .. })),
                "{text}"
            );
        }
    }

    #[test]
    fn events_may_go_on_in_the_next_line() {
        let text = "0 setsockopt(3, SOL_TCP, TCP_CONGESTION, \"a, b)\", 4)\n = -1 ENOENT\n (No such file)\n\
            +.1 ~ +.2 > (tos 0x2, flowlabel 0x1) S. 0:0(0) ack 1\n win 9 <mss 1000,\n sackOK>\n\
            * > [ect01] . 1:1(0) ack 1\n+0 read(3, ..., 9) = 9\n";
        let events = Script::parse(text).unwrap().events;
        let lines: Vec<_> = events.iter().map(|event| event.line).collect();
        assert_eq!(lines, [1, 4, 7, 8]);
        let What::Call { arguments, result, .. } = &events[0].what else { panic!("a call") };
        assert_eq!(arguments.len(), 5);
        assert!(result.contains("ENOENT (No such file)"));
        assert_eq!((events[1].time, events[1].span), (Time::After(100_000_000), 100_000_000));
        let What::Outgoing(segment) = &events[1].what else { panic!("a segment") };
        assert_eq!(
            (segment.window, segment.options.mss, segment.ecn),
            (Some(9), Some(1000), Some(2))
        );
        assert!(segment.options.sack_permitted);
        let What::Outgoing(segment) = &events[2].what else { panic!("a segment") };
        assert!(segment.is_ect && segment.ecn.is_none());
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
