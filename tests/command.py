"""The command `lasthop` as a process of its own."""

import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "lasthop"]


def lasthop(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )
