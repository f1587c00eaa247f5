"""Random pages over random links: every page is loaded, or fails with its connection."""

import random
from typing import Any

import pytest

import lasthop

SEED = 20261126
LINKS = ("raw", "selective-repeat", "harq", "xor-fec", "rlc-am")
ERRORS = (
    {"kind": "none"},
    {"kind": "uniform", "loss": "3 %"},
    {"kind": "on-off", "up": "2 s", "down": "3 s"},
)


def tables(draws: random.Random) -> dict[str, Any]:
    """Returns a scenario with one flow of pages."""
    app: dict[str, Any] = {
        "kind": "page",
        "objects": draws.choice([1, 2, 5, 71, 150, 400]),
        "depth": draws.choice([1, 2, 3]),
        "size": draws.choice(["1 kB", "50 kB", "500 kB"]),
        "sizes": draws.choice(["constant", "lognormal"]),
        "server_time": draws.choice(["0 s", "50 ms"]),
        "pages": draws.choice([1, 3]),
        "priorities": draws.random() < 0.5,
    }
    if draws.random() < 0.5:
        transport: dict[str, Any] = {
            "kind": "quic",
            "variant": draws.choice(["cubic", "newreno", "bbr"]),
            "resumption": draws.choice(["none", "1-rtt", "0-rtt"]),
            "idle_timeout": draws.choice(["1 s", "30 s"]),
            "send_buffer": draws.choice(["20 kB", "10 MB"]),
            "stream_window": draws.choice(["20 kB", "10 MB"]),
        }
        if draws.random() < 0.3:
            transport["connection_window"] = "50 kB"
    else:
        transport = {
            "kind": "tcp",
            "variant": draws.choice(["cubic", "newreno", "bbr", "sack"]),
            "profile": draws.choice(["rfc", "linux"]),
        }
        app["http"] = draws.choice(["1.1", "2"])
        app["connections"] = draws.choice([1, 6, 64])
        app["certificate"] = draws.choice(["0 B", "3 kB", "20 kB"])
    link = {
        "between": ["server", "browser"],
        "rate": "10 Mbps",
        "delay": "10 ms",
        "queue": "100 kB",
        "protocol": draws.choice(LINKS),
        "errors": draws.choice(ERRORS),
    }
    flow = {"from": "server", "to": "browser", "transport": transport, "app": app}
    run = {"max_time": "1000 s", "replications": 1}
    return {"name": "pages", "link": {"air": link}, "flow": {"f": flow}, "run": run}


@pytest.mark.parametrize("part", range(3))
def test_every_page_ends(part: int) -> None:
    draws = random.Random(SEED + part)
    for _ in range(25):
        scenario = tables(draws)
        row = lasthop.run(lasthop.Scenario(scenario)).frame.filter(name="f").row(0, named=True)
        ended = row["pages_loaded"] + row["pages_failed"]
        assert ended == scenario["flow"]["f"]["app"]["pages"], scenario
        if row["pages_loaded"] > 0:
            assert row["head_of_line_s"] >= 0.0, scenario
            assert 0.0 < row["first_object_s"] <= row["page_load_s"], scenario
        # Only QUIC aborts connections here, and only during outages.
        is_cut = scenario["link"]["air"]["errors"]["kind"] == "on-off"
        is_quic = scenario["flow"]["f"]["transport"]["kind"] == "quic"
        assert row["pages_failed"] == 0.0 or (is_cut and is_quic), scenario
