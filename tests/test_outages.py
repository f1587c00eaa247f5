"""Recorded outages: their use in runs, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lasthop

LINK = """
name = "recorded outages"

[link.air]
between = ["a", "b"]
rate = "1 Mbps"
delay = "1 ms"
protocol = "raw"
errors = { kind = "outages", file = "outages.csv", KEYS }
reverse = { errors = "none" }

[flow.probe]
from = "a"
to = "b"
transport = { kind = "udp" }
app = { kind = "on-off", rate = "800 kbps", on = "1000 s", off = "0 s", packet = "100 B" }

[run]
duration = "20 s"
replications = 8
"""


def run(folder: Path, text: str, keys: str, link: str = LINK) -> lasthop.Results:
    (folder / "outages.csv").write_text(text)
    (folder / "path.toml").write_text(link.replace("KEYS", keys))
    return lasthop.run(folder / "path.toml")


def lost(results: lasthop.Results) -> np.ndarray:
    return results.samples("link.air.forward.frames_lost", 0)


def test_frames_are_lost_at_the_times_of_the_file(tmp_path: Path) -> None:
    """A frame of 0.8 ms is sent every millisecond from 0 s: those of 100 ms are lost, or one more.

    Without `repeat`, all replications have the same outages.
    """
    text = "# times\ntime,state\n0,up\n2,down\n2.1,up\n"
    assert set(lost(run(tmp_path, text, 'start = "0 s"'))) <= {100.0, 101.0}
    assert set(lost(run(tmp_path, text, 'after = "2.05 s"'))) <= {50.0, 51.0}


def test_replications_begin_at_times_of_their_own(tmp_path: Path) -> None:
    """An outage of 0.1 s every 2 s: ten in 20 s, for any start of the replication.

    With one outage in a recording of 40 s, only some replications of 20 s have an outage.
    """
    found = lost(run(tmp_path, "0,up\n1,down\n1.1,up\n", 'repeat = "2 s"'))
    assert np.all(np.abs(found - 1000.0) <= 11.0)
    keys = 'repeat = "40 s"'
    some = lost(run(tmp_path, "0,up\n9,down\n9.4,up\n", keys))
    # All eight replications are equal with probability 2^-7; the seed is fixed.
    assert set(some) <= {0.0, 400.0, 401.0}
    assert len(set(some)) > 1
    other = LINK.replace('protocol = "raw"', 'protocol = { kind = "stop-and-wait" }')
    again = lost(run(tmp_path, "0,up\n9,down\n9.4,up\n", keys, other))
    assert np.array_equal(some > 0, again > 0), "every protocol meets the same outages"


def test_gaps_of_a_mahimahi_recording_are_outages(tmp_path: Path) -> None:
    times = [*range(1, 1001), *range(1301, 2001)]
    text = "".join(f"{time}\n" for time in times)
    found = lost(run(tmp_path, text, 'format = "mahimahi", gap = "50 ms"'))
    assert np.all(np.abs(found - 3000.0) <= 301.0)
    assert not lost(run(tmp_path, text, 'format = "mahimahi", gap = "400 ms"')).any()


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("1,up\n", 'start = "0 s"', "file: found text that is not a number in line 1"),
        (
            "0,up\n1,gone\n",
            'start = "0 s"',
            'in line 2 of "outages.csv"; expected a time in seconds',
        ),
        ("", 'start = "0 s"', "found no line"),
        ("0,up\n5,down\n", 'repeat = "5 s"', 'repeat: found "5 s"; expected more than the last'),
        ("0,up\n1,down\n", 'repeat = "5 s", start = "5 s"', 'start: found "5 s"; expected below'),
        ("1\n2\n", 'format = "mahimahi", repeat = "5 s"', "expected no repeat"),
        ("2\n1\n", 'format = "mahimahi"', "in line 2"),
        ("0,up\n", 'gap = "0 s"', "gap: found"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, keys: str, message: str) -> None:
    with pytest.raises(lasthop.ScenarioError) as error:
        run(tmp_path, text, keys)
    assert message in str(error.value)
