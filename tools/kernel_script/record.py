"""Writes conformance scripts from the behaviour of the running Linux kernel.

    sudo python tools/kernel_script/record.py FILE... [--out FOLDER]

A `FILE` contains the calls of the application and the segments sent to the kernel, in the language
of scripts. `= ?` marks a result to be recorded; `%{ info }%` marks the fields of `tcp_info`. The
segments sent by the kernel, the results of its calls and the values of `tcp_info` are filled in,
and the script is written to `FOLDER` under the same name. Review it before adding it to
`tests/tcp-scripts`: it contains what this kernel does, not what a kernel must do.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from play import Player
from script import Closed, Differs, Event, Segment, Unknown, parse

#: Fields of `tcp_info` that do not depend on the load of the machine.
FIELDS = """
state ca_state probes backoff options snd_wscale rcv_wscale snd_mss advmss unacked sacked
lost retrans reordering snd_cwnd snd_ssthresh total_retrans bytes_acked bytes_received
segs_out segs_in notsent_bytes data_segs_in data_segs_out delivered delivered_ce bytes_sent
bytes_retrans dsack_dups reord_seen rcv_ooopack pmtu snd_wnd
"""
#: Segments sent within this time after an event are a reaction to it, in seconds.
AT_ONCE = 0.03
#: The first timestamp of a script.
FIRST_STAMP = 100


def written(one: Segment) -> str:
    """A segment in the language of scripts."""
    options = []
    for name, value in one.options.items():
        if name in ("mss", "wscale"):
            options.append(f"{name} {value}")
        elif name == "sackOK":
            options.append(name)
        elif name == "TS":
            options.append(f"TS val {value[0]} ecr {value[1]}")
        elif name == "sack":
            options.append("sack " + " ".join(f"{left}:{right}" for left, right in value))
        else:
            options.append(name)
    plain = str(Segment(**{**vars(one), "options": {}}))
    return f"> {plain}{' <' + ','.join(options) + '>' if options else ''}"


class Recorder(Player):
    """Plays one list of inputs against the kernel and records its reactions."""

    def __init__(self, options: dict[str, str], *, shows_windows: bool) -> None:
        super().__init__(options, 0.036, verbose=False)
        self.shows_windows = shows_windows
        self.lines: list[str] = []
        self.last = 0.0

    def tell(self, at: float, text: str) -> None:
        """Appends a line to the script."""
        self.lines.append(f"{f'{at:.4f}'.rstrip('0').rstrip('.')} {text}")

    def flush(self) -> None:
        """Records the segments sent since the last event."""
        while self.arrived:
            sent, one = self.arrived.pop(0)
            if "TS" in one.options:
                value, echo = one.options["TS"]
                if not self.stamps:
                    self.stamps.append((FIRST_STAMP, value))
                shown = (value - self.stamps[0][1] + FIRST_STAMP) % 2**32
                one.options["TS"] = (shown, echo)
            if not self.shows_windows:
                one.window = None
            if sent - self.last > AT_ONCE:
                self.last = round(sent, 3)
            self.tell(self.last, written(one))

    def snapshot(self) -> str:
        """The state, as conditions."""
        values = self.info()
        conditions = [f"assert tcpi_{name} == {values[f'tcpi_{name}']}" for name in FIELDS.split()]
        return "%{\n" + "\n".join(conditions) + "\n}%"

    def run(self, events: list[Event]) -> None:
        """Plays the inputs, and records the kernel's reactions."""
        if not any(event.kind == "shell" for event in events):
            self.defaults()
        started = False
        last = 0.0
        for event in events:
            if event.kind == "shell":
                self.lines.append(event.source)
                self.shell(event.body)
                continue
            if event.kind == ">":
                continue
            if not started:
                started = True
                self.start = time.monotonic()
            at = (event.at or 0.0) + (last if event.relative else 0.0)
            while self.now() < at - 0.0005:
                self.drain(at)
                self.flush()
            self.sleep_until(at)
            self.flush()
            last = self.last = at
            if event.kind == "<":
                self.tell(at, event.source)
                self.arrive(event.body)
            elif event.kind == "code":
                time.sleep(0.0005)
                if event.body.strip() != "info":
                    self.lines.append(event.source)
                    continue
                with contextlib.suppress(Closed, Unknown):
                    self.tell(at, self.snapshot())
            else:
                self.make_call(event, at)
            time.sleep(0.0003)
            self.drain(None)
            self.flush()
        self.sleep_until(self.now() + 0.05)
        self.flush()

    def make_call(self, event: Event, at: float) -> None:
        """Makes a call and records its result; blocking calls return as the inputs specify."""
        name, arguments, result = event.body
        source = event.source[: event.source.rindex("=")].strip()
        if event.blocks is not None:
            self.lines.append(f"{at:.4g}...{at + event.blocks:.4g} {event.source}")
            self.call(event, name, arguments, result)
            return
        value: int | str
        try:
            value = self.perform(name, arguments, result, blocks=False)
        except OSError as problem:
            value = "-1 " + errno_name(problem)
        except Differs as problem:
            # The script has a placeholder for a value that the call fills in; it is replaced.
            source, value = filled(source, str(problem)), 0
        shown = result if result != "?" and re.match(r"-?\w+", str(value)) is None else value
        self.tell(at, f"{source} = {shown}")


def filled(source: str, problem: str) -> str:
    """The call with the value found, from a message such as `TCP_MAXSEG is 1000`."""
    match = re.fullmatch(r"\w+ is (\S+)", problem)
    if not match:
        raise Unknown(problem)
    return re.sub(r"\[[^][]*\]", f"[{match[1]}]", source, count=1)


def errno_name(problem: OSError) -> str:
    """Symbolic name of an error."""
    import errno

    return errno.errorcode.get(problem.errno or 0, "?") + " (...)"


def record(path: Path, folder: Path, *, shows_windows: bool) -> str:
    """Writes the script of one file, in a separate process with its own namespace."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            text = path.read_text()
            options, events = parse(text)
            recorder = Recorder(options, shows_windows=shows_windows)
            recorder.run(events)
            head = [line for line in text.splitlines() if line.startswith(("//", "--"))]
            (folder / path.name).write_text("\n".join([*head, *recorder.lines]) + "\n")
            code = 0
        except Exception as problem:
            print(f"{path.name}: {problem!r}", file=sys.stderr)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return f"{path.name}: {'written' if status == 0 else 'not written'}"


def main() -> int:
    """Records the files."""
    parser = argparse.ArgumentParser(description="Writes scripts from what the kernel does.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--windows", action="store_true", help="with windows")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("files", nargs="+", type=Path)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        work = [
            pool.submit(record, path, asked.out, shows_windows=asked.windows)
            for path in asked.files
        ]
        for one in work:
            print(one.result())
    return 0


if __name__ == "__main__":
    sys.exit(main())
