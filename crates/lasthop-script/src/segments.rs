//! Segments and messages of scripts, and their parser.

use super::ScriptError;
use super::endpoints::Ports;
use super::parser::{What, syntax};
use lasthop_base::packet::flags;
use lasthop_tcp::host::{SocketError, Unreachable};

/// A segment of a script; sequence numbers are relative to the initial ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Bits of [`flags`].
    pub flags: u8,
    pub seq: u32,
    pub payload: u32,
    pub ack: Option<u32>,
    pub window: Option<u32>,
    pub options: Options,
    /// `<...>`: any options.
    pub any_options: bool,
    /// ECN field of the IP header, if specified: 0 to 3.
    pub ecn: Option<u8>,
    /// PSH, which is used only for incoming segments.
    pub is_pushed: bool,
    /// `[ect01]`: the ECN field is ECT(0) or ECT(1).
    pub is_ect: bool,
    /// The peer's port and ours, if specified.
    pub ports: Option<Ports>,
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

fn missing<T>(line: u32, what: impl Into<String>) -> Result<T, ScriptError> {
    Err(ScriptError::NotModelled { line, what: what.into() })
}

/// Parses the text after `<` or `>`: `[IP FIELDS] SEGMENT`, or a message.
pub(super) fn packet(line: u32, is_incoming: bool, text: &str) -> Result<What, ScriptError> {
    let mut segment = Segment::default();
    let rest = ip_fields(line, text.trim(), is_incoming, &mut segment)?;
    let first = rest.split([' ', '\t', ':', ',']).next().unwrap_or_default();
    match first {
        "icmp" if is_incoming => {
            return Ok(What::Message(message(line, rest[first.len()..].trim())?));
        }
        "icmp" => return missing(line, "an outgoing ICMP message"),
        "udp" => return missing(line, "a datagram"),
        "ipv4" | "ipv6" | "gre" | "GREv0" | "mpls" => return missing(line, "a tunnel"),
        _ => {}
    }
    let (ports, rest) = self::ports(line, rest)?;
    // Source, then destination: the source is the peer for an incoming segment.
    segment.ports = ports.map(|(from, to)| if is_incoming { (from, to) } else { (to, from) });
    segment = self::segment(line, rest, segment)?;
    Ok(if is_incoming { What::Incoming(segment) } else { What::Outgoing(segment) })
}

/// Parses `[FIELD, ...]` or `(FIELD, ...)` of the IP header, if any, and returns the text after
/// them.
fn ip_fields<'a>(
    line: u32,
    text: &'a str,
    is_incoming: bool,
    segment: &mut Segment,
) -> Result<&'a str, ScriptError> {
    const EXPECTED: &str =
        "ect0, ect1, ce, noecn, tos 0x2, flowlabel 0x1, ttl 64 or, in outgoing segments, [ect01]";
    let end = match text.chars().next() {
        Some('[') => ']',
        Some('(') => ')',
        _ => return Ok(text),
    };
    let Some((fields, rest)) = text[1..].split_once(end) else {
        return Err(syntax(line, text, "] after fields of the IP header"));
    };
    for field in fields.split(',').map(str::trim) {
        let hex = |text: &str| u8::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
        segment.ecn = Some(match (field, field.split_once(' ')) {
            ("noecn", _) => 0,
            ("ect1", _) => 1,
            ("ect0", _) => 2,
            ("ce", _) => 3,
            ("ect01", _) if !is_incoming => {
                segment.is_ect = true;
                continue;
            }
            (_, Some(("tos", value))) => {
                hex(value).ok_or_else(|| syntax(line, field, EXPECTED))? & 3
            }
            // These fields do not affect the connection.
            (_, Some(("flowlabel" | "ttl", _))) => continue,
            _ => return Err(syntax(line, field, EXPECTED)),
        });
    }
    Ok(rest.trim_start())
}

/// Parses `SOURCE > DESTINATION`, if present, and returns the text after them.
fn ports(line: u32, text: &str) -> Result<(Option<Ports>, &str), ScriptError> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (from, rest) = text.split_at(digits(text));
    let Some(rest) = rest.trim_start().strip_prefix('>').filter(|_| !from.is_empty()) else {
        return Ok((None, text));
    };
    let rest = rest.trim_start();
    let (to, rest) = rest.split_at(digits(rest));
    let pair = from.parse().ok().zip(to.parse().ok());
    let wrong = || syntax(line, text, "ports such as 4000 > 8080, up to 65535");
    Ok((Some(pair.ok_or_else(wrong)?), rest.trim_start()))
}

/// Parses `unreachable NAME [mtu N] [SEQ:END(LENGTH)]` after `icmp`.
fn message(line: u32, text: &str) -> Result<Message, ScriptError> {
    const EXPECTED: &str = "a message such as unreachable frag_needed mtu 1200 [1:1001(1000)]";
    let wrong = || syntax(line, text, EXPECTED);
    let about = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(range, _)| range.trim());
    if about.is_some_and(|about| about.starts_with("udp") || about.starts_with("raw")) {
        return missing(line, "a message about a datagram");
    }
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
            // No name selects the first code.
            ""
            | "net_unreachable"
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
            | "addr_unreachable"
            | "not_neighbour" => SocketError::HostUnreachable,
            "port_unreachable" => SocketError::Refused,
            "protocol_unreachable" => SocketError::NoProtocol,
            "source_route_failed" => SocketError::NotSupported,
            "host_unknown" => SocketError::HostDown,
            "source_host_isolated" => SocketError::NoNetwork,
            "admin_prohibited" => SocketError::Forbidden,
            _ => return Err(wrong()),
        }),
        _ => return missing(line, format!("the ICMP message {kind}")),
    };
    Ok(Message { seq, what })
}

/// Parses `FLAGS SEQ:END(LENGTH) [ack N] [win N] [<OPTIONS>]` into `segment`, which has the fields
/// of the IP header.
fn segment(line: u32, text: &str, mut segment: Segment) -> Result<Segment, ScriptError> {
    if text.contains('{') {
        return missing(line, "the random mutation of segments");
    }
    let (text, options) = match text.split_once('<') {
        Some((text, options)) => {
            let inside = options.trim_end().strip_suffix('>');
            (text, inside.ok_or_else(|| syntax(line, options, "> after the options"))?)
        }
        None => (text, ""),
    };
    segment.any_options = options.trim() == "...";
    if !segment.any_options {
        segment.options = self::options(line, options)?;
    }
    let mut words = text.split_whitespace();
    let letters = words.next().unwrap_or_default();
    segment.flags = flags_of(line, letters, text)?;
    segment.is_pushed = letters.contains('P');
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
            "urg" => return missing(line, "urgent data"),
            _ => return Err(syntax(line, word, "ack N or win N")),
        }
    }
    Ok(segment)
}

fn flags_of(line: u32, letters: &str, text: &str) -> Result<u8, ScriptError> {
    let mut set = 0;
    let wrong = || Err(syntax(line, text.trim(), "flags such as S. or F. or -"));
    for flag in letters.chars() {
        set |= match flag {
            'S' => flags::SYN,
            'F' => flags::FIN,
            'R' => flags::RST,
            '.' => flags::ACK,
            'E' => flags::ECE,
            'W' => flags::CWR,
            // PSH depends on how a host segments its data.
            'P' | '-' => 0,
            'U' => return missing(line, "urgent data"),
            // The counter of accurate ECN follows the dot.
            '0'..='9' if !letters.contains('.') => return wrong(),
            'A' | 'N' | '0'..='9' => return missing(line, "accurate ECN"),
            _ => return wrong(),
        };
    }
    Ok(set)
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
            name if is_known(name) => return missing(line, format!("option {name}")),
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

/// Returns `true` for options that are not modelled: Fast Open, authentication, accurate ECN,
/// experiments and Multipath TCP.
fn is_known(name: &str) -> bool {
    const MULTIPATH: &[&str] = &[
        "dss",
        "dss4",
        "dss8",
        "add_address",
        "address_echo",
        "remove_address",
        "mpcapable",
        "mpjoin",
    ];
    matches!(name, "FO" | "FOEXP" | "md5" | "ECN" | "AO" | "exp")
        || name.starts_with("exp-")
        || name.starts_with("mp_")
        || MULTIPATH.contains(&name)
}
