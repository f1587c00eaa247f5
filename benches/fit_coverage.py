"""Intervals of `lasthop fit`: coverage; selection of the family; false positives of its tests.

Generates synthetic records from known models and fits all families to each. For each model, prints
how often each interval contains the true value, how often BIC selects the right family, and how
often a test of fit rejects the right model at its level.

    .venv/bin/python benches/fit_coverage.py [--records 500] [--frames 100000]

Parameters are sampled separately for each record, so that the results represent a population rather
than a single chain.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict

import numpy as np

from lasthop import _lasthop
from lasthop.evaluating.fit.checks import checks
from lasthop.evaluating.fit.estimate import estimate, with_intervals
from lasthop.evaluating.fit.models import MODELS
from lasthop.evaluating.fit.models.two_state import TwoState
from lasthop.evaluating.fit.records import Record

KNOWN = {model.name: model for model in MODELS}


def drawn_parameters(family: str, random: np.random.Generator) -> list[float]:
    """Typical parameters of links: losses of 1 to 20 %, bad periods of 2.5 to 50 frames."""
    loss = 10.0 ** random.uniform(-2.0, -0.7)
    burst = 10.0 ** random.uniform(0.4, 1.7)
    bad = random.uniform(0.3, 0.7)
    match family:
        case "uniform":
            return [loss]
        case "simple-gilbert":
            return [loss / burst / (1.0 - loss), 1.0 / burst]
        case "gilbert":
            share = loss / bad
            return [share / burst / (1.0 - share), 1.0 / burst, bad]
        case "gilbert-elliott":
            good = 0.2 * loss
            share = (loss - good) / (bad - good)
            return [share / burst / (1.0 - share), 1.0 / burst, good, bad]
        case "two-state":
            # Frames of 16 ms, 250 B at 125 kbps, and idle times of up to some bad periods.
            bad_s = 0.016 * burst
            return [bad_s * (1.0 - loss) / loss, bad_s, 1e-6, random.uniform(2e-4, 6e-4)]
        case _:
            return [0.01, 0.3, 0.03, 0.8, 0.2, 0.7, 0.001, 0.95, random.uniform(0.3, 0.5)]


def drawn_record(family: str, values: list[float], frames: int, number: int) -> Record:
    """A record of the given number of frames from the model."""
    model, kinds, times = KNOWN[family], None, {}
    if family == "two-state":
        random = np.random.default_rng([2, number])
        bits = random.choice([400.0, 2000.0], frames)
        air = bits / 125e3
        gaps = random.choice([0.0, 0.0, 0.02, 0.2, 1.0], frames)
        start = np.r_[0.0, np.cumsum(air + gaps)[:-1]]
        times = {"bits": bits, "air_s": air, "start_s": start}
        model = TwoState(Record(np.zeros(frames, dtype=bool), **times))
        kinds = np.ascontiguousarray(model.kinds).tobytes()
    law, matrices = model.matrices(np.array(values))
    lost = _lasthop.simulate_losses(
        law.tolist(),
        matrices.ravel().tolist(),
        frames=frames,
        seed=77,
        replication=number,
        kinds=kinds,
    )
    return Record(np.frombuffer(lost, dtype=np.uint8).astype(bool), **times)


def main() -> None:
    """Prints one line per family, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--family", action="append", choices=list(KNOWN))
    options = parser.parse_args()
    families = options.family or list(KNOWN)
    each = options.records // len(families)
    covered, total = 0, 0
    right, alarms, tests = 0, 0, 0
    for place, family in enumerate(families):
        hits: dict[str, list[bool]] = defaultdict(list)
        chosen: Counter[str] = Counter()
        own_alarms = 0
        for number in range(each):
            random = np.random.default_rng([1, place, number])
            values = drawn_parameters(family, random)
            record = drawn_record(family, values, options.frames, 1000 * place + number)
            fits = [estimate(model, record) for model in MODELS if not model.applies(record)]
            chosen[min(fits, key=lambda fit: fit.bic).model.name] += 1
            own = next(fit for fit in fits if fit.model.name == family)
            own = with_intervals(own, record)
            truth = np.r_[values, own.model.derive(np.array(values))]
            for one, true in zip(own.estimates, truth, strict=True):
                hits[one.name].append(one.low <= true <= one.high)
            chain = own if family != "two-state" else fits[3]
            found = checks(record, own, chain)[:5]
            own_alarms += sum(check.failed for check in found)
            tests += len(found)
        held = sum(sum(each_hit) for each_hit in hits.values())
        count = sum(len(each_hit) for each_hit in hits.values())
        covered, total, alarms = covered + held, total + count, alarms + own_alarms
        right += chosen[family]
        parts = ", ".join(f"{name} {100 * np.mean(h):.1f}" for name, h in hits.items())
        sys.stdout.write(
            f"{family}: intervals hold {100 * held / count:.1f} % ({parts}); "
            f"chosen {dict(chosen)}; alarms {own_alarms}\n"
        )
        sys.stdout.flush()
    sys.stdout.write(
        f"all: intervals hold {100 * covered / total:.1f} % of {total}; right family "
        f"{100 * right / (each * len(families)):.1f} % of {each * len(families)}; alarms of tests "
        f"{100 * alarms / tests:.2f} % of {tests}\n"
    )


if __name__ == "__main__":
    main()
