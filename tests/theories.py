"""Helpers for tests of theory: scenarios with one flow, rows of a comparison."""

import json
from typing import Any

import polars as pl

import lasthop
from conftest import ROOT
from lasthop.evaluating.theory.network import Network, Prediction
from lasthop.evaluating.theory.rules import predict

CLEAN_BACK = {"errors": {"kind": "none"}}
UNIFORM = {"kind": "uniform", "loss": 0.05}
ERRORS: list[dict[str, Any]] = [
    {"kind": "none"},
    UNIFORM,
    {"kind": "uniform", "loss": 1.0},
    {"kind": "bit", "ber": 2e-5},
    {"kind": "exponential-bits", "mean": "32768 bits"},
    {"kind": "two-state", "good": "1 s", "bad": "100 ms", "good_ber": 1e-6, "bad_ber": 1e-2},
    {"kind": "two-state", "good": "1 s", "bad": "100 ms", "good_ber": 0.0, "bad_ber": 1.0},
    {"kind": "gilbert-elliott", "mean_loss": 0.05, "mean_burst": 4},
    {"kind": "gilbert-elliott", "p_good_to_bad": 0.0, "p_bad_to_good": 1.0},
    {
        "kind": "markov-chain",
        "transitions": [[0.9, 0.07, 0.03], [0.24, 0.7, 0.06], [0.1, 0.02, 0.88]],
        "loss": [0.001, 0.95, 0.2],
    },
]
PROTOCOLS: list[dict[str, Any]] = [
    {"kind": "raw"},
    {"kind": "xor-fec", "block": 8},
    {"kind": "stop-and-wait", "retries": 2},
    {"kind": "stop-and-wait"},
    {"kind": "go-back-n", "window": 8},
    {"kind": "go-back-n", "window": 40, "timeout": "350 ms", "reject": True},
    {"kind": "selective-repeat", "window": 100, "timeout": "3 s"},
    {"kind": "karn-rlp", "retransmissions": 1},
    {"kind": "oos-rlp", "retransmissions": 0},
    {"kind": "ideal-sr", "max_transmissions": 3},
    {"kind": "ideal-sr", "payload": "50 B"},
    {"kind": "rlc-am", "max_transmissions": 3},
    {"kind": "rlc-am", "payload": "50 B"},
    {"kind": "services", "service": {"one": {"protocol": {"kind": "xor-fec"}}, "two": {}}},
]
UDP = {"kind": "udp"}
FAST = {"kind": "on-off", "rate": "100 kbps", "on": "10 s", "off": "0 s", "packet": "250 B"}
MEDIA = {"kind": "media", "rate": "8 kbps", "packet": "100 B", "silence": "0 s"}


def scenario(
    app: dict[str, Any],
    *,
    transport: dict[str, Any] | None = None,
    duration: str = "400 s",
    replications: int = 12,
    **link: Any,
) -> dict[str, Any]:
    """One flow over one link of 64 kbps and 50 ms."""
    run: dict[str, Any] = {"seed": 1, "replications": replications}
    if app["kind"] != "file":
        run["duration"] = duration
    return {
        "name": "theory",
        "link": {"radio": {"between": ["a", "b"], "rate": "64 kbps", "delay": "50 ms", **link}},
        "flow": {"f": {"from": "a", "to": "b", "transport": transport or UDP, "app": app}},
        "run": run,
    }


def row(table: pl.DataFrame, rule: str, metric: str | None = None) -> dict[str, Any]:
    wanted = table.filter(pl.col("rule") == rule)
    if metric is not None:
        wanted = wanted.filter(pl.col("metric") == metric)
    return wanted.row(0, named=True)


def predictions(tables: dict[str, Any]) -> dict[tuple[str, str], Prediction]:
    point = lasthop.Scenario(tables).points()[0]
    sent = {name: 1e4 for name in point.metrics() if name.endswith(".data_frames")}
    found = predict(Network(json.loads(point.resolved()), sent))
    return {(one.rule, one.metric): one for one in found}


def tcp(**keys: Any) -> dict[str, Any]:
    return {
        "kind": "tcp",
        "variant": "reno",
        "profile": "ns-2",
        "segment": "1000 B",
        "receive_window": "1000 segments",
        **keys,
    }


def radio(
    app: dict[str, Any], duration: str, kind: str = "ideal-sr", **protocol: Any
) -> dict[str, Any]:
    """The paper's radio with b = g = 0.9: 25 slots per 10 ms, one station, packets of 1000 B."""
    return {
        "name": "radio",
        "radio": {
            "cell": {
                "base": "b",
                "stations": ["m"],
                "slot": "42 B",
                "protocol": {"kind": kind, **protocol},
                "errors": {
                    "kind": "slotted-gilbert-elliott",
                    "stay_good": 0.9,
                    "stay_bad": 0.9,
                    "loss_good": 0.01,
                    "loss_bad": 0.9,
                },
            }
        },
        "flow": {"f": {"from": "m", "to": "b", "transport": UDP, "app": app}},
        "run": {"seed": 1, "replications": 12, "duration": duration},
    }


def over_radio(limit: int | str, loss: float) -> lasthop.Scenario:
    """The study's file over its radio and a wire of 550 ms each way."""
    base = lasthop.load(ROOT / "papers/arq-and-tcp/radio.toml")
    return base.with_(
        {
            "radio.cell.protocol.max_transmissions": limit,
            "link.wired.errors": {"kind": "uniform", "loss": loss},
            "run.duration": "2000 s",
        }
    )
