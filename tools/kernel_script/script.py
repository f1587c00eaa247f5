"""Scripts in packetdrill's language: events, segments, and names of Linux constants."""

from __future__ import annotations

import fcntl
import os
import re
import select
import socket
from dataclasses import dataclass, field
from typing import Any

FLAGS = {"F": 1, "S": 2, "R": 4, "P": 8, ".": 16, "U": 32, "E": 64, "W": 128, "A": 256}
ECN = {"noecn": 0, "ect1": 1, "ect0": 2, "ce": 3}
#: Names of constants that Python's own modules do not define.
NAMES = {
    "TCP_CA_Open": 0, "TCP_CA_Disorder": 1, "TCP_CA_CWR": 2, "TCP_CA_Recovery": 3,
    "TCP_CA_Loss": 4, "TCP_ESTABLISHED": 1, "TCP_SYN_SENT": 2, "TCP_SYN_RECV": 3,
    "TCP_TIME_WAIT": 6, "TCP_CLOSE": 7, "TCP_CLOSE_WAIT": 8, "TCP_LAST_ACK": 9, "TCP_LISTEN": 10,
    "TCP_CLOSING": 11, "TCPI_OPT_TIMESTAMPS": 1, "TCPI_OPT_SACK": 2, "TCPI_OPT_WSCALE": 4,
    "TCPI_OPT_ECN": 8, "TCPI_OPT_ECN_SEEN": 16, "TCPI_OPT_SYN_DATA": 32,
    "TCP_INFINITE_SSTHRESH": 0x7FFF_FFFF, "SIOCINQ": 0x541B, "FIONREAD": 0x541B,
    "SIOCOUTQ": 0x5411, "TIOCOUTQ": 0x5411, "SIOCOUTQNSD": 0x894B, "SOL_TCP": 6, "SOL_IP": 0,
    "TCP_USER_TIMEOUT": 18, "TCP_NOTSENT_LOWAT": 25, "TCP_THIN_LINEAR_TIMEOUTS": 16,
    "TCP_THIN_DUPACK": 17, "MSG_ZEROCOPY": 0x4000000, "SO_ZEROCOPY": 60, "IP_MTU_DISCOVER": 10,
    "IP_PMTUDISC_DONT": 0, "IP_RECVERR": 11, "TCP_INQ": 36, "SO_MAX_PACING_RATE": 47,
    "SO_TIMESTAMPING": 37, "SOF_TIMESTAMPING_TX_SOFTWARE": 2, "SOF_TIMESTAMPING_SOFTWARE": 16,
    "SOF_TIMESTAMPING_OPT_ID": 128, "SOF_TIMESTAMPING_TX_SCHED": 256,
    "SOF_TIMESTAMPING_TX_ACK": 512, "SOF_TIMESTAMPING_OPT_TSONLY": 2048,
    "SO_SNDBUFFORCE": 32, "SO_RCVBUFFORCE": 33, "TCP_RTO_MAX_MS": 44, "TCP_RTO_MIN_US": 45,
    "TCP_DELACK_MAX_US": 46,
}  # fmt: skip


class Differs(Exception):
    """The kernel's behaviour differs from the script."""


class Closed(Exception):
    """The script reads the state of a socket that it has closed."""


class Unknown(Exception):
    """The script uses a feature that is not supported here."""


@dataclass
class Segment:
    """A segment with the numbers of a script."""

    flags: int = 0
    seq: int = 0
    payload: int = 0
    ack: int | None = None
    window: int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    any_options: bool = False
    ecn: int | None = None
    #: The kernel's port and the peer's, if the script specifies them.
    ports: tuple[int, int] | None = None

    def __str__(self) -> str:
        text = (
            "".join(letter for letter, bit in FLAGS.items() if self.flags & bit and letter != "P")
            or "-"
        )
        if self.ecn:
            text = f"[{['', 'ect1', 'ect0', 'ce'][self.ecn]}] {text}"
        text += f" {self.seq}:{(self.seq + self.payload) % 2**32}({self.payload})"
        if self.ack is not None:
            text += f" ack {self.ack}"
        if self.window is not None:
            text += f" win {self.window}"
        known = {key: value for key, value in self.options.items() if value not in (None, [])}
        return text + (f" {known}" if known else "")


def number(text: str) -> int:
    """The value of a number, a name, or several joined by `|`."""
    total = 0
    for part in text.strip().strip("[]").split("|"):
        word = part.strip()
        if re.fullmatch(r"-?\d+|0x[0-9a-fA-F]+", word):
            total |= int(word, 0)
        elif word in NAMES:
            total |= NAMES[word]
        else:
            for module in (socket, select, os, fcntl):
                if hasattr(module, word):
                    total |= int(getattr(module, word))
                    break
            else:
                raise Unknown(f"the name {word}")
    return total


#: Types and codes of ICMP (RFC 792), by their names in scripts.
ICMP = {
    "net_unreachable": 0, "host_unreachable": 1, "protocol_unreachable": 2, "port_unreachable": 3,
    "frag_needed": 4, "source_route_failed": 5, "net_unknown": 6, "host_unknown": 7,
    "source_host_isolated": 8, "net_prohibited": 9, "host_prohibited": 10,
    "net_unreachable_for_tos": 11, "host_unreachable_for_tos": 12, "packet_filtered": 13,
}  # fmt: skip


@dataclass
class Message:
    """An ICMP message about a segment of the kernel, with the reason for its rejection."""

    code: int
    mtu: int
    seq: int
    payload: int


def parse_message(text: str) -> Message:
    """`icmp unreachable NAME [mtu N] [SEQ:END(LENGTH)]`."""
    match = re.fullmatch(
        r"icmp unreachable (\w+)(?: mtu (\d+))? \[(\d+):\d+\((\d+)\)\]", text.strip()
    )
    if not match or match[1] not in ICMP:
        raise Unknown(text)
    return Message(ICMP[match[1]], int(match[2] or 0), int(match[3]), int(match[4]))


def parse_segment(text: str, *, comes_in: bool) -> Segment | Message:
    """`[FIELDS] [PORT > PORT] FLAGS SEQ:END(LENGTH) [ack N] [win N] [<OPTIONS>]`."""
    one = Segment()
    if text.startswith(("[", "(")):
        fields, text = re.split(r"[])]", text[1:], maxsplit=1)
        text = text.strip()
        for words in (field.split() for field in fields.split(",")):
            if words[0] in ECN:
                one.ecn = ECN[words[0]]
            elif words[0] == "tos":
                one.ecn = int(words[1], 16) & 3
            elif words[0] not in ("flowlabel", "ttl", "ect01"):
                raise Unknown(f"the field {words[0]}")
    if text.startswith("icmp "):
        return parse_message(text)
    named = re.match(r"(\d+)\s*>\s*(\d+)\s+", text)
    if named:
        source, target = int(named[1]), int(named[2])
        one.ports = (target, source) if comes_in else (source, target)
        text = text[named.end() :]
    head, angle, options = text.partition("<")
    if angle:
        options = options.rstrip().removesuffix(">").strip()
        one.any_options = options == "..."
        for option in [] if one.any_options else options.split(","):
            words = option.split()
            if not words or words[0] in ("nop", "eol"):
                continue
            if words[0] == "sack":
                one.options["sack"] = [
                    tuple(int(end) for end in block.split(":")) for block in words[1:]
                ]
            elif words[0] == "TS":
                one.options["TS"] = (int(words[2]), int(words[4]))
            elif words[0] == "sackOK":
                one.options["sackOK"] = True
            elif words[0] in ("mss", "wscale"):
                one.options[words[0]] = int(words[1])
            else:
                raise Unknown(f"the option {words[0]}")
    words = head.split()
    for letter in words[0]:
        one.flags |= 0 if letter == "-" else FLAGS[letter]
    match = re.fullmatch(r"(\d+):(\d+)\((\d+)\)", words[1])
    if not match:
        raise Unknown(head)
    one.seq, one.payload = int(match[1]), int(match[3])
    for name, value in zip(words[2::2], words[3::2], strict=True):
        if name == "ack":
            one.ack = int(value)
        elif name == "win":
            one.window = int(value)
        else:
            raise Unknown(name)
    return one


@dataclass
class Event:
    """An event: its line, its time, and its contents."""

    line: int
    at: float | None
    relative: bool
    span: float
    blocks: float | None
    kind: str
    body: Any
    #: Text of the event in the script, without its time.
    source: str = ""


#: `0.5`, `+.1`, `*`, `+.1~+.2`, `0.1...0.2`: the part before three dots has at most one dot.
TIME = re.compile(
    r"(\*|\+?\d*\.?\d*(?=\.\.\.)|\+?\d*(?:\.\d+)?)"
    r"(?:\s*(~|\.\.\.)\s*(\+?\d*(?:\.\d+)?))?\s*"
)


def segment_length(text: str) -> int:
    """Length of a segment: its line, and the following lines with further fields or options."""
    end = 0
    while True:
        end += len(text[end:].partition("\n")[0])
        following = text[end:].lstrip()
        is_open = "<" in text[1:end] and ">" not in text[1:end].partition("<")[2]
        goes_on = re.match(r"<\s*\w|<\.\.\.|ack |win |urg ", following)
        # `< S 0:0(0)` without a time is not an event: such a line is a continuation with options.
        if not following or not (is_open or goes_on):
            return end
        end = len(text) - len(following)


def strip_comments(text: str) -> str:
    """Replaces comments by spaces; line numbers do not change."""
    pattern = re.compile(r"%\{.*?\}%|`.*?`|//[^\n]*|/\*.*?\*/|#[^\n]*|\"[^\"]*\"", re.S)

    def blank(match: re.Match[str]) -> str:
        kept = match[0]
        return kept if kept[0] in '%`"' else "\n" * kept.count("\n") + " "

    return pattern.sub(blank, text)


def parse(text: str) -> tuple[dict[str, str], list[Event]]:
    """The options and the events of a script."""
    text = strip_comments(text)
    options, events = {}, []
    at = 0

    def line() -> int:
        return text.count("\n", 0, at) + 1

    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if at >= len(text):
            return options, events
        rest = text[at:]
        if rest.startswith("--") and not events:
            word = rest.split()[0]
            name, _, value = word[2:].partition("=")
            options[name] = value
            at += len(word)
            continue
        here = line()
        when, relative, span, blocks = 0.0, True, 0.0, None
        start: float | None = 0.0
        if not rest.startswith(("`", "%{")):
            match = TIME.match(rest)
            if not match or not match[0].strip():
                raise Unknown(f"line {here}: {rest.splitlines()[0]}")
            relative = match[1].startswith("+")
            start = None if match[1] == "*" else float(match[1].lstrip("+") or 0)
            if match[2]:
                later = float(match[3].lstrip("+")) - (start or 0)
                if match[2] == "~":
                    span = later
                else:
                    blocks = later
            at += match.end()
            rest = text[at:]
        when = start
        begin = at
        if rest.startswith("%{"):
            end = rest.index("}%")
            events.append(Event(here, when, relative, span, blocks, "code", rest[2:end]))
            at += end + 2
        elif rest.startswith("`"):
            end = rest.index("`", 1)
            events.append(Event(here, when, relative, span, blocks, "shell", rest[1:end]))
            at += end + 1
        elif rest[0] in "<>":
            end = segment_length(rest)
            one = parse_segment(" ".join(rest[1:end].split()), comes_in=rest[0] == "<")
            events.append(Event(here, when, relative, span, blocks, rest[0], one))
            at += end
        else:
            depth, end = 0, rest.index("(")
            name, parts, current = rest[:end].strip(), [], ""
            quoted = False
            for place in range(end + 1, len(rest)):
                character = rest[place]
                quoted ^= character == '"'
                if quoted:
                    pass
                elif character in "([{":
                    depth += 1
                elif character in ")]}":
                    if depth == 0:
                        parts.append(current.strip())
                        end = place + 1
                        break
                    depth -= 1
                if character == "," and depth == 0 and not quoted:
                    parts.append(current.strip())
                    current = ""
                else:
                    current += character
            # The result, and the description of an error, may be on separate lines.
            match = re.match(r"\s*=[^\n]*(\n\s*\([^\n]*)?|[^\n]*", rest[end:])
            stop = end + (match.end() if match else 0)
            result = " ".join(rest[end:stop].split()).removeprefix("=").strip()
            events.append(Event(here, when, relative, span, blocks, "call", (name, parts, result)))
            at += stop
        events[-1].source = text[begin:at].strip()
