"""Quality of the choices of `lasthop advise` on problems with known answers.

Twenty links (loss, burst length, rate, delay) with a file transfer; the objective is its goodput.
The answers are computed from 2400 replications of every candidate of the race's grid with another
seed. Each race then runs with its own seeds. Prints how often the choice is within 1 % of the best,
and the number of replications as a fraction of 400 per candidate. Also prints how often the
difference to the best exceeds the bound that the race reports.

    .venv/bin/python benches/advise_problems.py [--problems 20] [--runs 5]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import lasthop
from lasthop.evaluating.advise import Options, advise
from lasthop.evaluating.advise.space import PROTOCOLS, candidates

# Default maximum number of replications per candidate of the command, and that of the answers.
MOST, ANSWER = 400, 2400


def problem(number: int) -> lasthop.Scenario:
    """One link, generated from the problem's number."""
    random = np.random.default_rng([5, number])
    loss = 10.0 ** random.uniform(-2.3, -0.9)
    rate = random.choice(["128 kbps", "500 kbps", "2 Mbps"])
    size = {"128 kbps": "30 kB", "500 kbps": "60 kB", "2 Mbps": "150 kB"}[str(rate)]
    return lasthop.Scenario(
        {
            "name": f"problem {number}",
            "link": {
                "radio": {
                    "between": ["base", "phone"],
                    "rate": str(rate),
                    "delay": f"{random.choice([5, 20, 60])} ms",
                    "errors": {
                        "kind": "gilbert-elliott",
                        "mean_loss": float(loss),
                        "mean_burst": float(random.uniform(1.2, 4.0)),
                    },
                }
            },
            "flow": {
                "transfer": {
                    "from": "base",
                    "to": "phone",
                    "transport": {"kind": "tcp", "variant": "newreno", "profile": "rfc"},
                    "app": {"kind": "file", "size": size},
                }
            },
        }
    )


def main() -> None:
    """Prints one line per problem, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trials", type=int, default=0)
    options = parser.parse_args()
    good, shares, runs, misses = 0, [], 0, 0
    ends: Counter[str] = Counter()
    for number in range(options.problems):
        scenario = problem(number)
        known = [
            found
            for found, _, _ in candidates(scenario, "radio", list(PROTOCOLS), ())
            if found is not None
        ]
        with tempfile.TemporaryDirectory() as folder:
            answer = lasthop.Campaign(Path(folder) / "answer").run_points(
                [one.point for one in known], replications=ANSWER, seed=1000 + number
            )
            truth = {
                one.hash: float(np.mean(answer.samples("flow.transfer.goodput_bps", index)))
                for index, one in enumerate(known)
            }
        best = max(truth.values())
        own, spent = 0, []
        for run in range(options.runs):
            with tempfile.TemporaryDirectory() as folder:
                found = advise(
                    scenario,
                    "goodput",
                    lasthop.Campaign(Path(folder) / "race"),
                    options=Options(most=MOST, trials=options.trials, seed=10 * number + run),
                )
            assert found.choice is not None  # noqa: S101 - there is no constraint
            worth = truth.get(found.choice.candidate.hash, 0.0)
            own += worth >= 0.99 * best
            misses += best > worth * (1.0 + found.within)
            ends[found.ended] += 1
            spent.append(found.replications / found.exhaustive)
        good, runs = good + own, runs + options.runs
        shares += spent
        sys.stdout.write(
            f"problem {number}: {own} of {options.runs} within 1 %; {100 * np.mean(spent):.0f} % "
            f"of {len(known)} x {MOST} replications\n"
        )
        sys.stdout.flush()
    sys.stdout.write(
        f"all: {100 * good / runs:.1f} % of {runs} choices within 1 % of the best; "
        f"{100 * np.mean(shares):.1f} % of the exhaustive replications on average, "
        f"{100 * np.max(shares):.1f} % at most; farther than certain in {misses}\n"
    )
    for ended, count in ends.most_common():
        sys.stdout.write(f"{count}: {ended}\n")


if __name__ == "__main__":
    main()
