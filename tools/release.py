"""Checks that a version can be released, and writes its checksums and notes.

Usage: python tools/release.py check|write X.Y.Z

`check` fails unless Cargo.toml (also in the dependencies between crates), CITATION.cff and
CHANGELOG.md name the version and the work tree is clean. `write` adds `SHA256SUMS` and `NOTES.md`
(the section of the changelog) to `dist`. Nothing is uploaded or tagged.
"""

import hashlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def section(version: str) -> str:
    """Returns the section of the changelog on a version, without its heading; empty if missing."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\].*?$(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1].strip() if found else ""


def problems(version: str) -> list[str]:
    """Returns the reasons why a version cannot be released."""
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(
            f"VERSION: found {version!r}; expected X.Y.Z, as in `make release VERSION=0.1.0`"
        )
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    if (own := cargo["workspace"]["package"]["version"]) != version:
        found.append(f"Cargo.toml: found version {own}; expected {version}")
    crates = cargo["workspace"]["dependencies"]
    for name, crate in crates.items():
        if name.startswith("lasthop") and crate["version"] != version:
            found.append(f"Cargo.toml: found {name} {crate['version']}; expected {version}")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if not re.search(rf"^version: \"?{re.escape(version)}\"?$", citation, re.M):
        found.append(f"CITATION.cff: no line `version: {version}`")
    if not section(version):
        found.append(f"CHANGELOG.md: no section `## [{version}]`")
    status = ["git", "-C", str(ROOT), "status", "--porcelain"]
    if subprocess.run(status, check=True, capture_output=True).stdout:  # noqa: S603
        found.append("the work tree has changes that are not committed")
    return found


def write(version: str) -> None:
    """Writes `dist/SHA256SUMS` and `dist/NOTES.md`."""
    dist = ROOT / "dist"
    packages = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in packages]
    (dist / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (dist / "NOTES.md").write_text(f"# Lasthop {version}\n\n{section(version)}\n", encoding="utf-8")
    sys.stdout.write(
        f"dist: {len(packages)} packages, SHA256SUMS, NOTES.md. To publish: "
        f"git tag v{version}, push the tag, upload dist.\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "write"):
        sys.exit("usage: release.py check|write X.Y.Z")
    if sys.argv[1] == "write":
        write(sys.argv[2])
    elif found := problems(sys.argv[2]):
        sys.exit("\n".join(f"release: {line}" for line in found))
