"""Runs a campaign repeatedly and kills it each time; see test_campaign_faults.py.

Usage: python killed_campaign.py SCENARIO FOLDER REPLICATIONS KILLS SEED

Prints a line `kill STORED` for each kill, with the number of replications in the ledger. Prints
`done` for each sweep that finished before it was killed; the next sweep has a new folder.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from lasthop.running.campaign import CampaignError, campaign, planning, store

# Parts are written as often as possible, so that most kills interrupt a write.
planning.TICK_S, campaign.PART_S, campaign.PART_SHARE = 0.002, 0.0, 0.0
store.FAN = 4
# Linux has a clock for the processor time of each process: its number is ~process << 3 | 2.
SCHEDULED = 2


def stored(folder: Path) -> int:
    one = store.Store(folder)
    if not one.ledger.is_there:
        return 0
    try:
        with one.ledger.read() as ledger:
            return int(ledger.execute("SELECT coalesce(sum(count), 0) FROM span").fetchone()[0])
    except CampaignError:
        # The process was killed before the first transaction.
        return 0


def spent_s(child: int) -> float:
    """Processor time of a process in seconds; 0 if it has ended."""
    try:
        return time.clock_gettime(~child << 3 | SCHEDULED)
    except OSError:
        return 0.0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    scenario, base, replications, kills, seed = sys.argv[1:]
    draw = random.Random(int(seed))
    sweeps, killed = 0, 0
    while killed < int(kills):
        folder = Path(base) / str(sweeps)
        # Forked, because starting Python takes longer than the sweep. Neither Polars nor the engine
        # has started threads here.
        child = os.fork()
        if child == 0:
            campaign.Campaign(folder).run(scenario, replications=int(replications))
            os._exit(0)
        # Its life is limited in processor time: with wall-clock time, it could not write anything
        # on a busy machine.
        life, status = draw.uniform(0.0, 0.3), 0
        while status == 0 and spent_s(child) < life:
            time.sleep(0.0005)
            status = os.waitpid(child, os.WNOHANG)[0]
        if status == 0:
            os.kill(child, signal.SIGKILL)
            _, how = os.waitpid(child, 0)
            if os.WIFSIGNALED(how):
                killed += 1
                say(f"kill {stored(folder)}")
                continue
        say("done")
        sweeps += 1


if __name__ == "__main__":
    main()
