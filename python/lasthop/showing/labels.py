"""Labels of keys, values, metrics and units, as used in papers.

An axis is labelled `Mean fade (ms)` instead of `link.radio.errors.bad`, a legend `Selective repeat`
instead of `selective-repeat`. Names chosen by the user are unchanged. A key without an entry is
labelled by its own words. The labels are for presentation only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lasthop.evaluating.cells import plus_minus

__all__ = [
    "Unit",
    "bars_note",
    "interval_note",
    "key_labels",
    "key_words",
    "measured",
    "measured_row",
    "point_label",
    "scaled",
    "value_name",
]

KEYS = {
    # Links and radios, after the link's name.
    "rate": "Link rate",
    "delay": "Link delay",
    "queue": "Queue limit",
    "header": "Frame header",
    "mtu": "MTU",
    "preset": "Link",
    "agent": "Agent",
    "agent.kind": "Agent",
    "protocol": "Link protocol",
    "protocol.kind": "Link protocol",
    "protocol.window": "ARQ window",
    "protocol.timeout": "ARQ timeout",
    "protocol.retransmissions": "Retransmissions per frame",
    "protocol.retries": "Retransmissions per frame",
    "protocol.max_transmissions": "Transmissions per frame",
    "protocol.nack_timeout": "NACK timeout",
    "protocol.block": "FEC block",
    "protocol.payload": "PDU payload",
    "errors": "Error process",
    "errors.kind": "Error process",
    "errors.loss": "Frame loss rate",
    "errors.ber": "Bit error rate",
    "errors.mean": "Mean time between bit errors",
    "errors.good": "Mean time between fades",
    "errors.bad": "Mean fade",
    "errors.good_ber": "Bit error rate between fades",
    "errors.bad_ber": "Bit error rate in fades",
    "errors.p_good_to_bad": "Probability good to bad",
    "errors.p_bad_to_good": "Probability bad to good",
    "errors.loss_good": "Frame loss rate in the good state",
    "errors.loss_bad": "Frame loss rate in the bad state",
    "errors.mean_loss": "Mean frame loss rate",
    "errors.mean_burst": "Mean loss burst",
    "errors.stay_good": "Probability good to good",
    "errors.stay_bad": "Probability bad to bad",
    # Flows, after the flow's name.
    "transport": "Transport",
    "transport.kind": "Transport",
    "transport.variant": "TCP",
    "transport.profile": "TCP profile",
    "transport.segment": "Segment size",
    "transport.receive_window": "Receive window",
    "transport.send_buffer": "Send buffer",
    "transport.autotuning": "Growing buffers",
    "transport.segmentation_offload": "Segmentation offload",
    "transport.timer_tick": "Timer tick",
    "transport.initial_window": "Initial window",
    "transport.delayed_ack": "Delayed ACK",
    "transport.min_rto": "Minimum RTO",
    "transport.max_rto": "Maximum RTO",
    "transport.initial_rto": "Initial RTO",
    "transport.clock_granularity": "Clock granularity",
    "transport.dupack_threshold": "Duplicate ACK threshold",
    "app": "Application",
    "app.kind": "Application",
    "app.size": "File size",
    "app.rate": "Source rate",
    "app.packet": "Packet size",
    "app.on": "On period",
    "app.off": "Off period",
    "app.talk": "Talk spurt",
    "app.silence": "Silence",
    "app.deadline": "Deadline",
    "start": "Start",
}
SIDES = {"reverse": "Reverse", "downlink_errors": "Downlink"}

NAMES = {
    "raw": "Raw link",
    "go-back-n": "Go-Back-N",
    "selective-repeat": "Selective repeat",
    "stop-and-wait": "Stop-and-wait",
    "karn-rlp": "Karn RLP",
    "oos-rlp": "Out-of-sequence RLP",
    "xor-fec": "XOR FEC",
    "ideal-sr": "Ideal SR",
    "rlc-am": "RLC AM",
    "harq": "HARQ",
    "snoop": "Snoop",
    "split-connection": "Split connection (PEP)",
    "adaptive-persistence": "Adaptive persistence",
    "lt-tcp": "LT-TCP",
    "fq-codel": "FQ-CoDel",
    "dualpi2": "DualPI2",
    "tahoe": "Tahoe",
    "reno": "Reno",
    "newreno": "NewReno",
    "sack": "SACK",
    "cubic": "CUBIC",
    "vegas": "Vegas",
    "westwood": "Westwood",
    "westwood-plus": "Westwood+",
    "veno": "Veno",
    "hybla": "Hybla",
    "bic": "BIC",
    "htcp": "H-TCP",
    "illinois": "Illinois",
    "tibet": "TIBET",
    "jersey": "Jersey",
    "newreno-ff": "NewReno-FF",
    "bbr": "BBR",
    "bbr3": "BBR v3",
    "jtcp": "JTCP",
    "santa-cruz": "Santa Cruz",
    "ideal-bandwidth": "Ideal bandwidth",
    "dctcp": "DCTCP",
    "prague": "Prague",
    "tcp-dcr": "TCP-DCR",
    "ncr": "NCR",
    "esack": "ESACK",
    "hack": "HACK",
    "hack-fixed": "HACK-fixed",
    "ewln": "EWLN",
    "tcp-eln": "TCP-ELN",
    "lhp": "LHP",
    "casablanca": "Casablanca",
    "ifrane": "Ifrane",
    "balakrishnan-eln": "Balakrishnan ELN",
    "tcp": "TCP",
    "quic": "QUIC",
    "udp": "UDP",
    "udp-lite": "UDP-Lite",
    "two-state": "Two-state",
    "uniform": "Uniform",
    "bit": "Bit errors",
    "exponential-bits": "Exponential bit errors",
    "gilbert-elliott": "Gilbert–Elliott",
    "markov-chain": "Markov chain",
    "slotted-gilbert-elliott": "Slotted Gilbert–Elliott",
    "listed": "Listed frames",
    "outages": "Recorded outages",
    "cellular": "Cellular",
    "wlan": "WLAN",
}


def value_name(value: str) -> str:
    """Returns a kind or variant as written in papers; other values are unchanged."""
    return NAMES.get(value, value)


def spaced(key: str) -> str:
    """Returns the last component of a key as words: `good_ber` is "good BER"."""
    return re.sub(r"\bber\b", "BER", key.replace("_", " "))


def key_words(key: str) -> tuple[str, str]:
    """Returns the label of a dotted key, and the name of its link or flow, if any."""
    parts = key.split(".")
    if parts[0] not in ("link", "flow", "radio", "wlan") or len(parts) < 3:
        text = spaced(" ".join(parts))
        return text[:1].upper() + text[1:], ""
    name, rest = parts[1], parts[2:]
    side = service = ""
    if rest[0] in SIDES:
        side = SIDES[rest[0]]
        rest = ["errors", *rest[1:]] if rest[0] == "downlink_errors" else rest[1:]
    of_service = re.match(r"protocol\.service\.([^.]+)\.(.*)", ".".join(rest))
    if of_service:
        service, rest = of_service[1], of_service[2].split(".")
    if ".".join(rest) in KEYS:
        text = KEYS[".".join(rest)]
    else:
        text = spaced(" ".join(rest[-2:] if rest[0] == "errors" else rest[-1:]))
    if side:
        text = f"{side} {text if text[:2].isupper() else text[:1].lower() + text[1:]}"
    text = text[:1].upper() + text[1:]
    return (f"{text}, {service}" if service else text), name


def key_labels(keys: Sequence[str]) -> list[str]:
    """Returns the labels of keys, with the name of the link or flow if ambiguous."""
    found = [key_words(key) for key in keys]
    texts = [text for text, _ in found]
    return [f"{text} of {name}" if name and texts.count(text) > 1 else text for text, name in found]


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit of numbers on an axis.

    Attributes:
        name: Name, shown in brackets after the label; empty for counts.
        per: Value of one unit in the base unit.
    """

    name: str
    per: float

    def label(self, text: str) -> str:
        """Returns a label with the unit."""
        return f"{text} ({self.name})" if self.name else text


PREFIXES: Mapping[str, tuple[Unit, ...]] = {
    "bps": (Unit("bps", 1.0), Unit("kbps", 1e3), Unit("Mbps", 1e6), Unit("Gbps", 1e9)),
    "s": (Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s", 1.0)),
    "bytes": (Unit("B", 1.0), Unit("kB", 1e3), Unit("MB", 1e6), Unit("GB", 1e9)),
    "m": (Unit("m", 1.0), Unit("km", 1e3)),
    "%": (Unit("%", 0.01),),
}


def scaled(kind: str, values: Iterable[float]) -> Unit:
    """Returns a suitable unit for the largest of the values.

    Args:
        kind: `bps`, `s`, `bytes`, `m`, `%` (values are fractions), or any other for no unit.
        values: In bit/s, seconds, bytes, metres.
    """
    units = PREFIXES.get(kind, (Unit(kind, 1.0),))
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    fitting = [unit for unit in units if unit.per <= most * (1.0 + 1e-9)]
    # Long times are in seconds; zero is in the base unit.
    base = next((unit for unit in units if unit.per == 1.0), units[0])
    return fitting[-1] if fitting else units[0] if most > 0.0 else base


def point_label(parameters: Mapping[str, Any]) -> str:
    """Returns the label of a point: `TCP SACK, Mean fade 1 s`."""
    labels = key_labels(list(parameters))
    texts = []
    for label, value in zip(labels, parameters.values(), strict=True):
        if isinstance(value, dict):
            rest = [f"{spaced(k)} {v}" for k, v in value.items() if k != "kind"]
            said = ", ".join([value_name(str(value.get("kind", ""))), *rest])
        else:
            said = value_name(str(value))
        texts.append(f"{label} {said}")
    return "; ".join(texts)


SKEWED = {
    "t, corrected for skewness": "t corrected for skewness",
    "percentile-t bootstrap": "percentile-t bootstrap",
}
"""Labels of the interval methods for skewed samples."""


def interval_note(methods: Iterable[str | None]) -> str:
    """Returns the caption of a table of means: the intervals and their methods."""
    found = set(methods)
    if not found - {None, ""}:
        return "one replication: means have no interval"
    if found & set(SKEWED):
        return (
            "mean and 95 % confidence interval: ± by Student's t; asymmetric − and + for skewed "
            "samples, by the percentile-t bootstrap or t corrected for skewness"
        )
    return "mean ± half-width of the 95 % confidence interval (Student's t)"


def bars_note(intervals: Iterable[tuple[str, int]], what: str = "bars") -> str:
    """Returns the note on error bars: `bars: 95 % intervals, Student t over 30 replications`.

    Args:
        intervals: Method, as in `statistics.Confidence`, and replications of each interval.
        what: Representation of the intervals: bars or a band.

    Returns:
        The note; empty if no point has an interval.
    """
    known = [(method, n) for method, n in intervals if method]
    if not known:
        return ""
    counts = {n for _, n in known}
    least, most = min(counts), max(counts)
    over = f"{least}" if least == most else f"{least} to {most}"
    skewed = [name for name in SKEWED if name in {method for method, _ in known}]
    by = "Student t"
    if skewed:
        by += f" (of skewed samples {' or '.join(SKEWED[name] for name in skewed)})"
    return f"{what}: 95 % intervals, {by} over {over} replications"


def measured_row(row: Mapping[str, Any], unit: Unit) -> str:
    """Formats a row of `Results.summary` like `measured`."""
    ends = None if row["low"] is None else (row["low"], row["high"])
    return measured(row["mean"], row["ci95"], unit, ends)


def measured(
    mean: float, ci95: float | None, unit: Unit, ends: tuple[float, float] | None = None
) -> str:
    """Formats a mean and its interval in a unit, with the decimal places of the interval.

    Args:
        mean: The mean; NaN if undefined.
        ci95: Half the length of the interval; None if undefined, as for one replication.
        unit: The unit.
        ends: Ends of the interval; shown separately if the interval is asymmetric.

    Returns:
        `0.32 ± 0.22`, `0.32 −0.12 +0.32`, or for one replication `0.32`.
    """
    value = mean / unit.per
    if math.isnan(value):
        return "–"
    width = None if ci95 is None else ci95 / unit.per
    if ends is not None and width and math.isfinite(width):
        below, above = (mean - ends[0]) / unit.per, (ends[1] - mean) / unit.per
        if abs(above - below) > 1e-6 * width:
            places = max(1 - math.floor(math.log10(max(min(below, above), 1e-3 * width))), 0)
            return f"{value:.{places}f} −{below:.{places}f} +{above:.{places}f}"
    return plus_minus(value, width)
