"""The command `lasthop doctor`: installed and missing parts, and how to install them."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from rich.table import Table

from lasthop.commands.codes import DONE, FAILURE
from lasthop.commands.common import note, print_line
from lasthop.commands.declarations import Option
from lasthop.commands.values import TableOrJson
from lasthop.showing import terminal

__all__ = ["Finding", "doctor", "findings"]

# Module of an extra, the extra, and the use of it.
EXTRAS = (
    ("optuna", "advise", "search of parameters in `lasthop advise`"),
    ("gymnasium", "gym", "environments of `lasthop.gym`"),
    ("distributed", "cluster", "`--cluster`"),
    ("dpkt", "pcap", "captures in `lasthop fit`"),
    ("pandas", "pandas", "`Results.to_pandas`"),
)
# Programs, their Debian packages, and the use of them.
PROGRAMS = (("tshark", "tshark", "captures in Wireshark"),)

LINK = """
name = "doctor"

[link.wireless]
between = ["server", "client"]
rate = "10 Mbps"
delay = "1 ms"
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one part.

    Attributes:
        part: The part.
        use: Feature that needs it.
        present: Whether it is installed.
        detail: Its version, or the reason and the remedy.
    """

    part: str
    use: str
    present: bool
    detail: str


def findings() -> list[Finding]:
    """Returns the state of the package, its extras and the requirements of live links."""
    from lasthop import _lasthop

    found = [
        Finding("lasthop", "everything", True, _lasthop.__version__),
        Finding("Python", "everything", True, platform.python_version()),
    ]
    for module, extra, use in EXTRAS:
        present = importlib.util.find_spec(module) is not None
        remedy = f"run `pip install 'lasthop[{extra}]'`"
        found.append(Finding(module, use, present, "" if present else remedy))
    for program, package, use in PROGRAMS:
        where = shutil.which(program)
        found.append(Finding(program, use, where is not None, where or f"package {package}"))
    return [*found, *_live()]


def _live() -> list[Finding]:
    """Returns the state of the kernel features for `lasthop live`, then of a run of `true`."""
    if sys.platform != "linux":
        return [Finding("Linux", "`lasthop live`", False, f"this system is {sys.platform}")]
    found = []
    tun = Path("/dev/net/tun")
    remedy = "run `modprobe tun`; in a container add `--device /dev/net/tun`"
    found.append(Finding(str(tun), "`lasthop live`", tun.exists(), "" if tun.exists() else remedy))
    if os.geteuid() != 0:
        found.append(_user_namespaces())
    problem = _live_run()
    found.append(Finding("live link", "`lasthop live`", not problem, problem))
    return found


def _user_namespaces() -> Finding:
    """Returns whether an unprivileged user may create user namespaces."""
    for name, refused in (
        ("user/max_user_namespaces", "0"),
        ("kernel/unprivileged_userns_clone", "0"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1"),
    ):
        path = Path("/proc/sys") / name
        if path.exists() and path.read_text(encoding="utf-8").strip() == refused:
            key = name.replace("/", ".")
            value = {"0": "15000" if name.startswith("user") else "1", "1": "0"}[refused]
            remedy = f"{key} is {refused}: run `sysctl -w {key}={value}` as root"
            return Finding("user namespaces", "`lasthop live`", False, remedy)
    return Finding("user namespaces", "`lasthop live`", True, "")


def _live_run() -> str:
    """Runs `true` over a live link; returns the reason of a failure, otherwise nothing."""
    import lasthop
    from lasthop.running.live.session import LiveError, Program, Session, with_flow

    scenario = lasthop.Scenario(with_flow(tomllib.loads(LINK)))
    session = Session(scenario, [Program("client", ["true"])])
    try:
        codes = [message["code"] for message in session.run() if message["kind"] == "end"]
    except LiveError as error:
        return str(error)
    return "" if codes == [0] else f"`true` ended with {codes}"


def live_doctor() -> int:
    """Prints the requirements of live links, with the remedy for each that is not met."""
    found = _live()
    for one in found:
        note(
            f"{'ok' if one.present else 'missing'}: {one.part}"
            + (f": {one.detail}" if one.detail else "")
        )
    return DONE if all(one.present for one in found) else FAILURE


def doctor(
    *,
    output: Annotated[
        TableOrJson, Option("--format", help="Output format of the result.")
    ] = TableOrJson.table,
) -> int:
    """Report installed and missing parts."""
    found = findings()
    if output is TableOrJson.json:
        print_line(json.dumps([asdict(one) for one in found], indent=2))
        return DONE
    table = Table("part", "needed by", "state", "detail")
    for one in found:
        table.add_row(one.part, one.use, "present" if one.present else "missing", one.detail)
    terminal.console().print(table)
    return DONE
