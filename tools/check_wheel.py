"""Installs the newest wheel of a folder into a fresh environment without Rust, and runs it.

Usage: python tools/check_wheel.py FOLDER
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(folder: str) -> None:
    """Runs `lasthop run examples/first.toml`, and checks that it delivers."""
    wheel = max(Path(folder).glob("lasthop-*.whl"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        programs = Path(place) / ("Scripts" if os.name == "nt" else "bin")
        # Only the environment and the system's own programs: no cargo, no rustc.
        env = {"PATH": f"{programs}{os.pathsep}{os.defpath}", "HOME": place}
        if os.name == "nt":
            env |= {key: os.environ[key] for key in ("SYSTEMROOT", "TEMP") if key in os.environ}
        env |= {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
        config = Path.home() / ".config" / "pip" / "pip.conf"
        if config.exists() and "PIP_CONFIG_FILE" not in env:
            env["PIP_CONFIG_FILE"] = str(config)

        def run(*command: str) -> str:
            done = subprocess.run(  # noqa: S603 - our own commands
                command, env=env, cwd=place, check=True, stdout=subprocess.PIPE, text=True
            )
            return done.stdout

        run(
            str(programs / "pip"),
            "install",
            "--quiet",
            "--disable-pip-version-check",
            str(wheel.resolve()),
        )
        command = str(programs / "lasthop")
        version = run(command, "--version").strip()
        first = str(ROOT / "examples" / "first.toml")
        results = json.loads(run(command, "run", first, "--format", "json"))
        goodput = results["points"][0]["metrics"]["flow.transfer.goodput_bps"]
        if not 0.0 < goodput["mean"] < 2e6 or goodput["n"] != 30:
            raise SystemExit(f"check_wheel: invalid goodput {goodput}: expected up to 2 Mbps")
        # `make wheel` adds man pages; wheels of other platforms have none.
        if sys.platform == "linux":
            for page in ("man1/lasthop.1", "man5/lasthop-scenario.5"):
                if not (Path(place) / "share" / "man" / page).is_file():
                    raise SystemExit(f"check_wheel: missing share/man/{page}: run `make wheel`")
        for study in ("multilayer", "arq-and-tcp"):
            run(command, "reproduce", study, "--dry-run", "--format", "json")
    sys.stdout.write(f"{wheel.name}: {version}, goodput {goodput['mean'] / 1e6:.3f} Mbps\n")


if __name__ == "__main__":
    main(sys.argv[1])
