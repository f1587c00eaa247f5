"""Messages of a live run as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

__all__ = ["rate", "second", "summary"]

# Length of the command line of a program in the summary.
LONGEST = 60

# Number of directions in the line of a second, the busiest first.
SHOWN = 4


def rate(bps: float) -> str:
    """Returns a rate in a suitable unit."""
    for size, unit in ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")):
        if bps >= size:
            return f"{bps / size:.2f} {unit}"
    return f"{bps:.0f} bps"


def second(tick: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """Returns the line of a second: differences from the previous message."""
    old = {} if before is None else {_key(one): one for one in before["links"]}
    length = tick["time"] - (0.0 if before is None else before["time"])
    parts = []
    for one in tick["links"]:
        known = old.get(_key(one), {})
        new = {
            name: one[name] - known.get(name, 0)
            for name in ("delivered_bytes", "frames", "lost", "drops", "retransmissions")
        }
        if not new["frames"] and not new["drops"]:
            continue
        text = f"{one['link']} {one['direction']} {rate(new['delivered_bytes'] * 8 / length)}"
        text += f", queue {one['queue']}"
        for name, word in (
            ("drops", "dropped"),
            ("lost", "lost"),
            ("retransmissions", "retransmitted"),
        ):
            if new[name]:
                text += f", {new[name]} {word}"
        parts.append((new["delivered_bytes"], text))
    parts.sort(key=lambda part: -part[0])
    more = f"; {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    shown = "; ".join(text for _, text in parts[:SHOWN]) or "idle"
    return f"{tick['time']:6.1f} s  {shown}{more}"


def shortened(text: str) -> str:
    """Returns a command line in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _key(one: Mapping[str, Any]) -> tuple[str, str]:
    return one["link"], one["direction"]


def summary(end: Mapping[str, Any]) -> str:
    """Returns the summary of a run: a line per direction, lateness, warnings."""
    metrics = dict(end["metrics"])
    lines = [f"{end['time']:.3f} s"]
    for one in end["programs"]:
        code = "killed" if one["code"] is None else f"exit code {one['code']}"
        lines.append(f"  {one['host']}: {shortened(shlex.join(one['argv']))}: {code}")
    delays = {
        f"link.{one['link']}.{one['direction']}": one["delay"]
        for one in end["summary"]["directions"]
    }
    directions = [
        name.removesuffix(".frames_sent") for name in metrics if name.endswith(".frames_sent")
    ]
    for name in directions:
        of = {
            key.rpartition(".")[2]: value or 0.0
            for key, value in metrics.items()
            if key.rpartition(".")[0] == name
        }
        # A WLAN has retries.
        retransmissions = of.get("retransmissions", of.get("retries", 0.0))
        lines.append(
            f"  {name}: {rate(of['goodput_bps'])}, {of['packets_delivered']:.0f} packets; "
            f"{of['frames_sent']:.0f} frames, {of['frames_lost']:.0f} lost, "
            f"{retransmissions:.0f} retransmitted; {of['queue_drops']:.0f} dropped by the queue"
        )
        if part := delays.get(name):
            lines[-1] += (
                f"; delay {part['p50_s'] * 1e3:.1f} ms, 95 % {part['p95_s'] * 1e3:.1f} ms, "
                f"maximum {part['max_s'] * 1e3:.1f} ms"
            )
    late = end["lateness"]
    if late["deliveries"]:
        lines.append(
            f"  lateness: p50 {late['p50_s'] * 1e6:.0f} us, p90 {late['p90_s'] * 1e6:.0f} us, "
            f"p99 {late['p99_s'] * 1e6:.0f} us, maximum {late['max_s'] * 1e6:.0f} us; processor "
            f"time {end['processor_per_packet_s'] * 1e6:.1f} us per packet"
        )
    lines += [f"  warning: {text}" for text in end["notes"]]
    return "\n".join(lines)
