"""Compare the PPDU durations of 802.11n, ac and ax with ns-3.

Usage: python tools/compare_ns3.py [--ns3 DIR]

DIR is the folder `ns3` of an installed or unpacked wheel of ns-3 3.44; without it, the wheel is
downloaded with pip to `target/ns3`. The script compiles `tools/ns3/ppdu_durations.cc` with g++
(C++23) against the headers and libraries of the wheel, runs it, and compares each duration with the
example `ppdu_durations` of the crate `lasthop-wlan`. The exit code is 1 if a duration differs.
"""

# ruff: noqa: S603, T201

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tools" / "ns3" / "ppdu_durations.cc"
TARGET = ROOT / "target" / "ns3"
REQUIREMENT = "ns3==3.44.*"
LIBRARIES = ("wifi", "network", "core")
OURS = "cargo run --quiet --profile fast -p lasthop-wlan --example ppdu_durations"
SHOWN = 10


def unpacked_wheel() -> Path:
    """Download and unpack the wheel of ns-3 unless it is there; return its folder `ns3`."""
    folder = TARGET / "ns3"
    if not folder.exists():
        TARGET.mkdir(parents=True, exist_ok=True)
        pip = shutil.which("pip") or sys.exit("missing pip; give the folder of ns-3 with `--ns3`")
        arguments = ["download", "--no-deps", "--only-binary", ":all:", REQUIREMENT]
        subprocess.run([pip, *arguments, "--dest", str(TARGET)], check=True)
        with zipfile.ZipFile(next(TARGET.glob("ns3-*.whl"))) as wheel:
            wheel.extractall(TARGET)
    return folder


def compiled(ns3: Path) -> Path:
    """Compile the program against ns-3."""
    TARGET.mkdir(parents=True, exist_ok=True)
    program = TARGET / SOURCE.stem
    libraries = ns3.resolve() / "lib64"
    flags = [f"-I{ns3 / 'include'}", f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    flags += ["-Wl,--allow-shlib-undefined", *(f"-lns3.44-{name}" for name in LIBRARIES)]
    command = ["g++", "-std=c++23", "-O0", str(SOURCE), *flags, "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def durations(command: list[str]) -> dict[str, int]:
    """Run a program; return its durations in ns by the mode and the length of the PSDU."""
    result = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    rows = (line.rsplit(" ", 1) for line in result.stdout.splitlines())
    return {mode: int(time) for mode, time in rows}


def main() -> int:
    """Compare and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ns3", type=Path, help="folder `ns3` of a wheel of ns-3 3.44")
    ns3 = parser.parse_args().ns3
    if ns3 and not (ns3 / "include").is_dir():
        parser.error(
            f"invalid value `{ns3}` for `--ns3`: expected a folder with `include` and `lib64`"
        )
    if not shutil.which("g++"):
        sys.exit("missing g++, which compiles the program against ns-3")
    ns3 = ns3 or unpacked_wheel()
    theirs = durations([str(compiled(ns3))])
    ours = durations(OURS.split())
    modes = sorted(ours.keys() | theirs.keys())
    different = [mode for mode in modes if ours.get(mode) != theirs.get(mode)]
    for mode in different[:SHOWN]:
        print(f"{mode} B: {ours.get(mode)} ns; ns-3: {theirs.get(mode)} ns")
    print(f"{len(modes) - len(different)} of {len(modes)} durations are equal to those of ns-3")
    return 1 if different or not modes else 0


if __name__ == "__main__":
    sys.exit(main())
