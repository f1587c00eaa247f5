"""Records the actions of the running kernel and of its peer, as the lines of a script."""

from __future__ import annotations

from play import Player
from script import FLAGS, Event, Segment, parse_segment

CODEPOINTS = {1: "[ect1] ", 2: "[ect0] ", 3: "[ce] "}


class Scribe(Player):
    """A conversation with the kernel whose script is being written."""

    def __init__(self, tolerance_usecs: int) -> None:
        super().__init__({}, tolerance_usecs / 1e6, verbose=False)
        self.lines: list[str] = []
        #: Whether segments of the peer have timestamps.
        self.timestamps = False
        self.latest_stamp = 0

    def own(self, name: str, arguments: list[str], result: str) -> None:
        """Makes a call of the application now, and records it."""
        self.lines.append(f"{self.now():.6f} {name}({', '.join(arguments)}) = {result}")
        event = Event(0, 0, True, 0, None, "call", (name, arguments, result))
        self.call(event, name, arguments, result)

    def options(self, more: list[str]) -> str:
        """Options of a segment of the peer."""
        if self.timestamps:
            more = [f"TS val {100 + int(self.now() * 1000)} ecr {self.latest_stamp}", *more]
        return f" <{','.join(more)}>" if more else ""

    def send(self, text: str) -> None:
        """Sends a segment of the peer to the kernel, and records it."""
        self.lines.append(f"{self.now():.6f} < {text}")
        self.inject(parse_segment(text, comes_in=True))

    def written(self, one: Segment) -> str:
        """A segment of the kernel, in the language of scripts."""
        options = []
        for name, value in one.options.items():
            if name == "TS":
                # The first timestamp is written as 100 in the script.
                first = self.stamps[0] if self.stamps else (100, value[0])
                stamp = first[0] + value[0] - first[1]
                self.stamps.append((stamp, value[0]))
                self.latest_stamp = stamp
                options.append(f"TS val {stamp} ecr {value[1]}")
            elif name == "sack":
                blocks = " ".join(f"{start}:{end}" for start, end in value)
                options.append(f"sack {blocks}")
            else:
                options.append(name if value is True else f"{name} {value}")
        flags = "".join(letter for letter, bit in FLAGS.items() if one.flags & bit)
        text = f"{CODEPOINTS.get(one.ecn or 0, '')}{flags} {one.seq}:{one.seq + one.payload}"
        text += f"({one.payload})" + (f" ack {one.ack}" if one.ack is not None else "")
        return text + (f" <{','.join(options)}>" if options else "")
