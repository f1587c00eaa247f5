"""Power and false positives of the tests of `lasthop fit`, over all tests of a fit together.

    .venv/bin/python benches/fit_misfits.py [--records 500] [--frames 300000] [--jobs 2]

Fits logs of three kinds as the command does, with the choice of the model by BIC, and prints the
fraction of fits in which a test rejects the chosen model: `right` has the six families in turn,
with the parameters of fit_coverage.py; `pareto` has bursts with Pareto lengths (shape 1.2) and
geometric gaps; `oscillating` has independent losses whose rate oscillates by 90 % over 2,000
frames. Losses are 1 to 20 % on average, uniform on a logarithmic scale.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
from fit_coverage import KNOWN, drawn_parameters, drawn_record

from lasthop.evaluating.fit.checks import checks
from lasthop.evaluating.fit.estimate import estimate
from lasthop.evaluating.fit.models import MODELS
from lasthop.evaluating.fit.records import Record

KINDS = ("right", "pareto", "oscillating")
# Bounds of the mean loss by which results are grouped.
CLASSES = (0.01, 0.02, 0.04, 0.2)


def pareto(random: np.random.Generator, loss: float, frames: int, shape: float = 1.2) -> Record:
    """Bursts of floor(X), X Pareto distributed with minimum 1; geometric gaps."""
    lengths = np.arange(1.0, 1e6)
    mean_burst = float((lengths**-shape).sum() + 1e6 ** (1.0 - shape) / (shape - 1.0))
    count = 2 * int(frames * loss / mean_burst) + 1000
    gaps = random.geometric(loss / mean_burst / (1.0 - loss), count)
    bursts = np.minimum((1.0 - random.random(count)) ** (-1.0 / shape), frames).astype(np.int64)
    lost = np.repeat(np.arange(2 * count) % 2 == 1, np.column_stack([gaps, bursts]).ravel())
    return Record(lost[:frames])


def oscillating(random: np.random.Generator, loss: float, frames: int) -> Record:
    """Independent losses at loss · (1 + 0.9 sin(2π n / 2000 + phase))."""
    phase = 2.0 * np.pi * (np.arange(frames) / 2000.0 + random.random())
    return Record(random.random(frames) < loss * (1.0 + 0.9 * np.sin(phase)))


def one(kind: str, frames: int, number: int) -> tuple[float, list[str]]:
    """The requested mean loss, and the tests that reject the model selected by BIC."""
    random = np.random.default_rng([3, KINDS.index(kind), number])
    if kind == "right":
        family = list(KNOWN)[number % len(KNOWN)]
        record = drawn_record(family, drawn_parameters(family, random), frames, 50_000 + number)
        loss = record.loss
    else:
        loss = 10.0 ** random.uniform(-2.0, np.log10(0.2))
        record = globals()[kind](random, loss, frames)
    fits = [estimate(model, record) for model in MODELS if not model.applies(record)]
    fits.sort(key=lambda fit: fit.bic)
    chain = next(fit for fit in fits if fit.model.name != "two-state")
    found = checks(record, fits[0], chain)
    is_known = fits[0].model.name == "two-state"
    failed = [check.name for check in found if check.failed]
    return loss, [name for name in failed if not (is_known and "length" in name)]


def main() -> None:
    """Prints a line per kind, every 50 records."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--frames", type=int, default=300_000)
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        for kind in options.kind or KINDS:
            rows: list[tuple[float, bool]] = []
            tests: Counter[str] = Counter()
            work = partial(one, kind, options.frames)
            for loss, failed in pool.map(work, range(options.records)):
                rows.append((loss, bool(failed)))
                tests.update(failed)
                if len(rows) % 50 == 0 or len(rows) == options.records:
                    sys.stdout.write(f"{kind}: {summary(rows)}; by test {dict(tests)}\n")
                    sys.stdout.flush()


def summary(rows: list[tuple[float, bool]]) -> str:
    """Rejected fits, in total and by mean loss."""
    parts = [f"{sum(failed for _, failed in rows)} of {len(rows)} rejected"]
    for low, high in pairwise(CLASSES):
        own = [failed for loss, failed in rows if low <= loss < high]
        parts.append(f"{sum(own)} of {len(own)} at {100 * low:g} to {100 * high:g} %")
    return ", ".join(parts)


if __name__ == "__main__":
    main()
