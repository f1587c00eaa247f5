"""What people call keys of scenarios and their values: words of papers, not paths.

An axis says `Mean fade (ms)` instead of `link.radio.errors.bad`, a legend `Selective repeat`
instead of `selective-repeat`. What a user named stays as it is. A key without an entry here is told
by its own words. This is presentation only: what keys mean, the engine alone knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["key_labels", "key_words", "value_name"]

KEYS = {
    # Links and radios, after the link's name.
    "rate": "Link rate",
    "delay": "Link delay",
    "queue": "Queue limit",
    "header": "Frame header",
    "max_payload": "Largest payload",
    "preset": "Link",
    "agent": "Agent",
    "protocol": "Link protocol",
    "protocol.window": "ARQ window",
    "protocol.timeout": "ARQ timeout",
    "protocol.retransmissions": "Retransmissions of a frame",
    "protocol.retries": "Retransmissions of a frame",
    "protocol.max_transmissions": "Transmissions of a frame",
    "protocol.nack_timeout": "NACK timeout",
    "protocol.block": "FEC block",
    "protocol.payload": "PDU payload",
    "errors": "Error process",
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
    "transport.variant": "TCP",
    "transport.profile": "TCP profile",
    "transport.segment": "Segment size",
    "transport.receive_window": "Receive window",
    "transport.initial_window": "Initial window",
    "transport.delayed_ack": "Delayed ACK",
    "transport.min_rto": "Minimum RTO",
    "transport.max_rto": "Maximum RTO",
    "transport.initial_rto": "Initial RTO",
    "transport.clock_granularity": "Clock granularity",
    "transport.dupack_threshold": "Duplicate ACK threshold",
    "app": "Application",
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
    "snoop": "Snoop",
    "adaptive-persistence": "Adaptive persistence",
    "tahoe": "Tahoe",
    "reno": "Reno",
    "newreno": "NewReno",
    "sack": "SACK",
    "cubic": "CUBIC",
    "vegas": "Vegas",
    "westwood": "Westwood",
    "bbr": "BBR",
    "tcp": "TCP",
    "udp": "UDP",
    "two-state": "Two-state",
    "uniform": "Uniform",
    "bit": "Bit errors",
    "exponential-bits": "Exponential bit errors",
    "gilbert-elliott": "Gilbert–Elliott",
    "slotted-gilbert-elliott": "Slotted Gilbert–Elliott",
    "cellular": "Cellular",
    "wlan": "WLAN",
}


def value_name(value: str) -> str:
    """A kind or variant as papers write it; anything else as it is."""
    return NAMES.get(value, value)


def key_words(key: str) -> tuple[str, str]:
    """A dotted key in words, and the name of the link or flow that it is of (or nothing)."""
    parts = key.split(".")
    if parts[0] not in ("link", "flow", "radio") or len(parts) < 3:
        text = " ".join(parts).replace("_", " ")
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
        text = " ".join(rest[-2:] if rest[0] == "errors" else rest[-1:]).replace("_", " ")
    if side:
        text = f"{side} {text if text[:2].isupper() else text[:1].lower() + text[1:]}"
    text = text[:1].upper() + text[1:]
    return (f"{text}, {service}" if service else text), name


def key_labels(keys: Sequence[str]) -> list[str]:
    """Keys in words; with the name of the link or flow where the words alone are not enough."""
    found = [key_words(key) for key in keys]
    texts = [text for text, _ in found]
    return [f"{text} of {name}" if name and texts.count(text) > 1 else text for text, name in found]
