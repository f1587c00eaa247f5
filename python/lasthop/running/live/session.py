"""A live run: its request and its messages."""

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

__all__ = [
    "LiveError",
    "Program",
    "Session",
    "client",
    "links_of",
    "point_of",
    "with_flow",
    "without_flow",
]

# Name of the placeholder flow of a scenario without flows.
NO_FLOW = "programs"


class LiveError(RuntimeError):
    """A live run cannot start, or was killed."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program to run.

    Attributes:
        host: Host that runs the program.
        argv: Program and arguments.
    """

    host: str
    argv: Sequence[str]


def point_of(scenario: Scenario) -> _lasthop.Point:
    """Returns the only point of a scenario.

    Raises:
        lasthop.ScenarioError: If the scenario has a sweep, or cannot process real packets.
    """
    points = scenario.points()
    if len(points) != 1:
        raise _lasthop.ScenarioError(
            f"the sweep has {len(points)} points: expected one; use `--set KEY=VALUE` for each "
            "swept key"
        )
    return points[0]


def links_of(tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the links of a scenario by name, those of the stations of WLANs last.

    Each has its hosts as `between`; other links have all their keys.
    """
    links = dict(tables.get("link", {}))
    for name, wlan in tables.get("wlan", {}).items():
        for station in wlan["stations"]:
            links[f"{name}.{station}"] = {"between": [station, wlan["access_point"]]}
    return links


def client(scenario: Mapping[str, Any]) -> str | None:
    """Returns the default host of programs: the first flow's receiver, or the host `client`."""
    flows = scenario.get("flow") or {}
    for name, flow in flows.items():
        if name != NO_FLOW:
            return str(flow["to"])
    hosts = [host for link in links_of(scenario).values() for host in link["between"]]
    return "client" if "client" in hosts else None


def with_flow(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Adds a placeholder flow, which the scenario format requires, to a scenario without flows.

    The flow is never sent: the traffic of a live run consists of its programs.
    """
    sender, receiver = next(iter(links_of(tables).values()))["between"]
    app = {"kind": "on-off", "rate": "1 kbps", "on": "1 s", "off": "1 s", "packet": "60 B"}
    flow = {"from": sender, "to": receiver, "transport": {"kind": "udp"}, "app": app}
    return {
        **tables,
        "flow": {NO_FLOW: flow},
        "run": {"duration": "1 s", **tables.get("run", {})},
    }


def without_flow(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Removes the placeholder flow of `with_flow`, and the duration, which only simulations use."""
    if list(tables.get("flow", {})) != [NO_FLOW]:
        return dict(tables)
    rest = {name: table for name, table in tables.items() if name != "flow"}
    run = {key: value for key, value in tables.get("run", {}).items() if key != "duration"}
    return {**rest, "run": run}


@dataclass
class Session:
    """One live run.

    Attributes:
        scenario: Scenario with the links.
        programs: Programs in order of start; the run ends with the last one.
        seed: Master seed; default: the scenario's.
        replication: Replication whose random numbers the links use.
        mtu: Maximum packet size in bytes; default: 1500, or the maximum of a link.
        sysctls: Kernel parameters of all hosts.
        outside: Host that is this machine itself.
        netns: Network namespaces of existing hosts: file of the namespace by host.
        between: Network interfaces of this machine that are the ends of the only link, in the order
            of its hosts, instead of hosts with programs.
        routes: Networks behind hosts, such as `("client", "192.168.7.0/24")`.
        record: File for arriving packets and their outcomes.
        pcap: File for the packets at both ends of each link.
        samples: Whether the state of the links is reported every 0.1 s, too.
        spin_s: Time before a delivery in which the driver polls instead of sleeping, in seconds.
        offload: Whether hosts pass several segments to fast links at a time, and receive several.
        environment: Variables added to the environment of programs.
        output: File descriptor for the programs' output; default: inherited.
        seed_used: The seed, after the start.
    """

    scenario: Scenario
    programs: Sequence[Program]
    seed: int | None = None
    replication: int = 0
    mtu: int | None = None
    sysctls: Mapping[str, str] = field(default_factory=dict)
    outside: str | None = None
    netns: Mapping[str, Path] = field(default_factory=dict)
    between: tuple[str, str] | None = None
    routes: Sequence[tuple[str, str]] = ()
    record: Path | None = None
    pcap: Path | None = None
    samples: bool = False
    spin_s: float = 0.0
    offload: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    output: int | None = None
    seed_used: int | None = None
    _process: subprocess.Popen[bytes] | None = None
    _control: int | None = None

    def check(self) -> _lasthop.Point:
        """Returns the point of the scenario.

        Raises:
            lasthop.ScenarioError: If a part of the scenario cannot process real packets.
        """
        point = point_of(self.scenario)
        _lasthop.live_check(self.scenario._document, point, self.mtu)
        return point

    def request(self) -> dict[str, Any]:
        """Returns the request to the launcher.

        Raises:
            lasthop.ScenarioError: If a part of the scenario cannot process real packets.
        """
        point = self.check()
        self.seed_used = point.seed if self.seed is None else self.seed
        return {
            "scenario": json.loads(point.to_json()),
            "base": str(Path(self.scenario.base).resolve()),
            "seed": self.seed_used,
            "replication": self.replication,
            "mtu": self.mtu,
            "programs": [{"host": one.host, "argv": list(one.argv)} for one in self.programs],
            "sysctls": dict(self.sysctls),
            "outside": self.outside,
            "between": self.between,
            "record": None if self.record is None else str(self.record.resolve()),
            "pcap": None if self.pcap is None else str(self.pcap.resolve()),
            "samples": self.samples,
            "spin_ns": round(1e9 * self.spin_s),
            "offload": self.offload,
            "routes": [{"host": host, "network": network} for host, network in self.routes],
        }

    def run(self) -> Generator[dict[str, Any]]:
        """Starts the run and yields its messages: `start`, `tick` every second, `end`.

        With `samples`, also `sample` every 0.1 s.

        Raises:
            LiveError: If the system does not permit it, or the driver was killed.
        """
        if sys.platform != "linux":
            raise LiveError(
                f"live links require the network namespaces of Linux: this system is {sys.platform}"
            )
        request = self.request()
        asked = os.memfd_create("lasthop-request")
        control, self._control = os.pipe()
        messages, status = os.pipe()
        files = f"{asked},{control},{status}"
        interpreter = [sys.executable, "-P", "-m", "lasthop.running.live.process", files]
        has_ended = False
        namespaces: dict[str, int] = {}
        try:
            for host, path in self.netns.items():
                namespaces[host] = os.open(path, os.O_RDONLY)
            whole = {**request, "netns": namespaces, "interpreter": interpreter}
            os.write(asked, json.dumps(whole).encode())
            os.lseek(asked, 0, os.SEEK_SET)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
                interpreter,
                pass_fds=(asked, control, status, *namespaces.values()),
                stdout=self.output,
                stderr=self.output,
                env={**os.environ, **self.environment},
            )
            os.close(status)
            status = -1
            with os.fdopen(messages, "rb", closefd=False) as lines:
                for line in lines:
                    message = json.loads(line)
                    if message["kind"] == "error":
                        raise LiveError(message["message"])
                    has_ended |= message["kind"] == "end"
                    yield message
            code = self._process.wait()
            if not has_ended:
                raise LiveError(
                    f"the driver of the links was killed (exit code {code}): hosts, devices and "
                    "programs are removed"
                )
        finally:
            self.stop()
            for number in (asked, control, messages, status, *namespaces.values()):
                if number >= 0:
                    os.close(number)
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=10)
                self._process.kill()
                self._process.wait()

    def send(self, command: Mapping[str, Any]) -> None:
        """Sends a request to the driver, unless the run has ended."""
        if self._control is not None:
            with contextlib.suppress(OSError):
                os.write(self._control, json.dumps(command).encode() + b"\n")

    def stop(self) -> None:
        """Ends all programs and the run: SIGTERM, after 2 s SIGKILL."""
        control, self._control = self._control, None
        if control is not None:
            os.close(control)
