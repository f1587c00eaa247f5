"""A live run as its user sees it: what it is asked for, and what it tells while it lasts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lasthop import _lasthop
from lasthop.scenarios.scenario import Scenario

__all__ = ["LiveError", "Program", "Session", "client", "point_of", "with_flow"]

# The flow that stands for the programs where a scenario has none.
NO_FLOW = "programs"


class LiveError(RuntimeError):
    """A live run that cannot start, or was ended from outside."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run.

    Attributes:
        host: Where.
        argv: The program and its arguments.
    """

    host: str
    argv: Sequence[str]


def point_of(scenario: Scenario) -> _lasthop.Point:
    """The one parameter point of a scenario.

    Raises:
        lasthop.ScenarioError: If it sweeps something, or has no form on real packets.
    """
    points = scenario.points()
    if len(points) != 1:
        raise _lasthop.ScenarioError(
            f"sweep: found {len(points)} points; allowed: one, by --set KEY=VALUE of each swept key"
        )
    return points[0]


def client(scenario: Mapping[str, Any]) -> str | None:
    """Where a program runs by default: where the first flow leads to, else the host `client`."""
    flows = scenario.get("flow") or {}
    for name, flow in flows.items():
        if name != NO_FLOW:
            return str(flow["to"])
    hosts = [host for link in scenario["link"].values() for host in link["between"]]
    return "client" if "client" in hosts else None


def with_flow(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a scenario without flows, with one that is never sent: the model wants one.

    The programs of a live run are its traffic, and its links do not look at flows.
    """
    sender, receiver = next(iter(tables["link"].values()))["between"]
    app = {"kind": "on-off", "rate": "1 kbps", "on": "1 s", "off": "1 s", "packet": "60 B"}
    flow = {"from": sender, "to": receiver, "transport": {"kind": "udp"}, "app": app}
    return {
        **tables,
        "flow": {NO_FLOW: flow},
        "run": {"duration": "1 s", **tables.get("run", {})},
    }


@dataclass
class Session:
    """One live run.

    Attributes:
        scenario: Its links.
        programs: What runs, in this order; the run ends with the last one.
        seed: Master seed; by default the scenario's.
        replication: The links meet the losses of this replication.
        mtu: The largest packet in bytes; by default 1500, or what a link takes.
        sysctls: Parameters of the kernel in all hosts.
        outside: The host that is the machine itself.
        record: Where arrivals and what came of them are written.
        pcap: Where the packets at both ends of each link are written.
        output: Where programs write: files of the operating system, by default as this process.
    """

    scenario: Scenario
    programs: Sequence[Program]
    seed: int | None = None
    replication: int = 0
    mtu: int | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    outside: str | None = None
    record: Path | None = None
    pcap: Path | None = None
    output: int | None = None
    _process: subprocess.Popen[bytes] | None = None
    _control: int | None = None

    def request(self) -> dict[str, Any]:
        """What the launcher is asked for.

        Raises:
            lasthop.ScenarioError: If something in the scenario has no form on real packets.
        """
        point = point_of(self.scenario)
        _lasthop.live_check(point, self.mtu)
        return {
            "scenario": json.loads(point.to_json()),
            "base": str(Path(self.scenario.base).resolve()),
            "seed": point.seed if self.seed is None else self.seed,
            "replication": self.replication,
            "mtu": self.mtu,
            "programs": [{"host": one.host, "argv": list(one.argv)} for one in self.programs],
            "sysctls": dict(self.sysctls),
            "outside": self.outside,
            "record": None if self.record is None else str(self.record.resolve()),
            "pcap": None if self.pcap is None else str(self.pcap.resolve()),
        }

    def run(self) -> Generator[dict[str, Any]]:
        """Starts it, and yields what it tells: `start`, a `tick` a second, `end`.

        Raises:
            LiveError: If the system does not allow it, or its driver was killed.
        """
        if sys.platform != "linux":
            raise LiveError(f"live: found {sys.platform}; allowed: Linux, which has namespaces")
        request = self.request()
        asked = os.memfd_create("lasthop-request")
        control, self._control = os.pipe()
        told, status = os.pipe()
        files = f"{asked},{control},{status}"
        interpreter = [sys.executable, "-P", "-m", "lasthop.running.live.process", files]
        os.write(asked, json.dumps({**request, "interpreter": interpreter}).encode())
        os.lseek(asked, 0, os.SEEK_SET)
        has_ended = False
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                interpreter,
                pass_fds=(asked, control, status),
                stdout=self.output,
                stderr=self.output,
            )
            os.close(status)
            status = -1
            with os.fdopen(told, "rb", closefd=False) as lines:
                for line in lines:
                    message = json.loads(line)
                    if message["kind"] == "error":
                        raise LiveError(message["message"])
                    has_ended |= message["kind"] == "end"
                    yield message
            code = self._process.wait()
            if not has_ended:
                raise LiveError(
                    f"the driver of the links was killed (exit code {code}): its hosts, devices "
                    "and programs are gone"
                )
        finally:
            self.stop()
            for number in (asked, control, told, status):
                if number >= 0:
                    os.close(number)
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=10)
                self._process.kill()
                self._process.wait()

    def stop(self) -> None:
        """Ends all programs, and with them the run."""
        if self._control is not None:
            os.close(self._control)
            self._control = None
