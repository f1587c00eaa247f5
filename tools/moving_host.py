"""The outages of a moving host, replayed by the study `disruption`.

Usage: python3 tools/moving_host.py > papers/disruption/moving-host.csv

The rule: a host moves at 15 m/s through a street with log-normal shadowing of the received power.
The standard deviation is 4.3 dB, the correlation 0.3 at 10 m (M. Gudmundson, Electronics Letters
27(23), 1991: a microcell in a city, 1.7 GHz). In time, this is a Gaussian process with correlation
exp(-t / 0.554 s), sampled every 10 ms. The link goes down when the shadowing exceeds 6 dB, and
comes up when it is less than 4 dB: a margin of 5 dB with a hysteresis of 1 dB on either side. 400
s, one seed; no other seed was tried.
"""

import math
import random
import sys

SPEED = 15.0  # m/s
DEVIATION = 4.3  # dB
CORRELATION_TIME = -10.0 / math.log(0.3) / SPEED  # s
STEP = 0.01  # s
LENGTH = 400.0  # s
DOWN, UP = 6.0, 4.0  # dB
SEED = 1


def states() -> list[tuple[float, bool]]:
    """Times in seconds at which the state of the link changes, with the new state: down if true."""
    numbers = random.Random(SEED)  # noqa: S311
    keeps = math.exp(-STEP / CORRELATION_TIME)
    fresh = DEVIATION * math.sqrt(1.0 - keeps * keeps)
    depth = numbers.gauss(0.0, DEVIATION)
    is_down = depth > DOWN
    found = [(0.0, is_down)]
    for step in range(1, round(LENGTH / STEP)):
        depth = keeps * depth + numbers.gauss(0.0, fresh)
        if (depth < UP) if is_down else (depth > DOWN):
            is_down = not is_down
            found.append((step * STEP, is_down))
    return found


def text() -> str:
    """The contents of the file."""
    lines = [f"{time:.2f},{'down' if is_down else 'up'}\n" for time, is_down in states()]
    head = "# Outages of a moving host; tools/moving_host.py has the rule and wrote it.\n"
    return "".join([head, "time,state\n", *lines])


if __name__ == "__main__":
    sys.stdout.write(text())
