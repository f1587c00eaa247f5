"""The command `lasthop` in a separate process."""

import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "lasthop"]


def lasthop(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )
