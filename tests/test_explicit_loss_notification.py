"""Transfers by TCP variants with loss notification, compared with the variants they are based on.

The expected values were written down before the first run. Data segments are damaged at random with
a readable header, so that the receiver reports each of them; ACKs are not damaged.
"""

from typing import Any

import pytest

import lasthop

#: Each variant and the recovery that it extends by notifications.
BASES = {"hack": "sack", "hack-fixed": "sack", "ewln": "reno", "tcp-eln": "newreno"}
REPLICATIONS = 20


def means(variant: str, segments: int, delay: str, loss: str, window: int) -> dict[str, float]:
    """Mean duration and timeouts of a file over 1 Mbps, 12 ms per segment, in 20 replications."""
    scenario: dict[str, Any] = {
        "name": "explicit loss notification",
        "link": {
            "path": {
                "between": ["server", "client"],
                "rate": "1 Mbps",
                "delay": delay,
                "queue": "200 packets",
                "errors": {"kind": "uniform", "loss": loss, "readable_headers": "100 %"},
                "reverse": {"errors": "none"},
            }
        },
        "flow": {
            "transfer": {
                "from": "server",
                "to": "client",
                "transport": {
                    "kind": "tcp",
                    "variant": variant,
                    "profile": "rfc",
                    "receive_window": f"{window} segments",
                    "delayed_ack": "off",
                },
                "app": {"kind": "file", "size": f"{1460 * segments} B"},
            }
        },
        "run": {"duration": "1 h", "replications": REPLICATIONS},
    }
    results = lasthop.run(scenario)
    return {
        name: float(results.samples(f"flow.transfer.{name}", 0).mean())
        for name in ("duration_s", "timeouts")
    }


@pytest.mark.parametrize(("variant", "base"), BASES.items())
def test_in_a_small_window_only_news_repairs_without_the_timer(variant: str, base: str) -> None:
    """500 segments, 3 % damaged, a window of three: never a third duplicate ACK.

    On average, 15 original segments are damaged. The base variant waits for its timer of at least 1
    s each time, except if two segments of a window share a timeout (6 %). The number of timeouts is
    15 +- 0.9 by the Poisson distribution, 12 to 17.5 with four standard errors. Three segments in
    52 ms take 8.7 s, and each timeout 1 s: 21 to 28 s in total.

    With notifications, a segment is retransmitted immediately. The timer is only needed for a
    retransmission that is damaged again within SRTT of the first notification (0.45 of 15): at most
    one per transfer, and at most 12 s in total.
    """
    alone = means(base, 500, "20 ms", "3 %", 3)
    notified = means(variant, 500, "20 ms", "3 %", 3)
    assert 12.0 < alone["timeouts"] < 17.5
    assert 21.0 < alone["duration_s"] < 28.0
    assert notified["timeouts"] < 1.0
    assert notified["duration_s"] < 12.0


def test_in_a_large_window_only_duplicates_that_do_not_count_help() -> None:
    """2000 segments, 1 % damaged, a window of 100 over 412 ms; 34 segments fill the path.

    SACK's window is 1.22 / sqrt(p) = 12 segments, 30 segments per second: 67 s. HACK retransmits
    damaged segments, but the duplicate ACKs of the other segments reduce its window like SACK's:
    equal within 15 %. HACK-fixed keeps its window and fills the path, with 83 segments per second
    after the start: at least 1.8 times as fast as SACK.
    """
    sack, hack, fixed = (
        means(name, 2000, "200 ms", "1 %", 100)["duration_s"]
        for name in ("sack", "hack", "hack-fixed")
    )
    assert 50.0 < sack < 84.0
    assert hack == pytest.approx(sack, rel=0.15)
    assert sack / fixed > 1.8
