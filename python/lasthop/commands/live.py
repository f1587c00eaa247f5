"""The command `live`: real programs behind the links of a scenario."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

# typer 0.29 bundles click, without a public name.
from typer._click import Context
from typer.core import TyperCommand

from lasthop import _lasthop
from lasthop.commands.codes import DONE, FAILURE, INTERRUPTED
from lasthop.commands.common import Changes, Seed, key_and_value, load, note, print_line, write
from lasthop.commands.values import BadInput, as_path
from lasthop.running.live.session import LiveError, Program, Session, client, with_flow
from lasthop.running.live.words import second, summary
from lasthop.scenarios.files import LARGEST_TEXT, read_bytes
from lasthop.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from lasthop.running.live.page import Page

__all__ = ["live"]

# Where the arguments of programs wait for the command.
PROGRAMS = "lasthop.programs"


class LiveCommand(TyperCommand):
    """Keeps what follows `--at HOST --` and `--` out of the options."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Takes the programs off first."""
        end = next((index for index, word in enumerate(args) if word in ("--", "--at")), len(args))
        ctx.meta[PROGRAMS] = args[end:]
        return super().parse_args(ctx, args[:end])


def programs(words: list[str], default: str | None) -> list[Program]:
    """What to run where: `[--at HOST] -- COMMAND`, several times.

    The last one takes all words that are left; one word alone is split as a shell would.
    """
    found: list[Program] = []
    while words:
        host = default
        if words[0] == "--at":
            if len(words) < 2:
                raise BadInput("--at: found nothing; allowed: --at HOST -- COMMAND")
            host, words = words[1], words[2:]
        if not words or words[0] != "--" or len(words) < 2:
            raise BadInput(f"--at {host}: found no command; allowed: -- and a command behind it")
        if host is None:
            raise BadInput(
                "--at: found nothing, and the scenario has neither a flow nor a host client; "
                "allowed: --at HOST -- COMMAND"
            )
        # One quoted word, and another program behind it.
        is_one = words[2:3] == ["--at"] and words[4:5] == ["--"]
        argv, words = (words[1:2], words[2:]) if is_one else (words[1:], [])
        if len(argv) == 1:
            try:
                argv = shlex.split(argv[0])
            except ValueError as error:
                raise BadInput(
                    f"--at {host}: found {argv[0]!r}, {error}; allowed: what a shell takes"
                ) from None
        if not argv:
            raise BadInput(f"--at {host}: found an empty command; allowed: a program")
        found.append(Program(host, argv))
    return found


def live(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            parser=as_path,
            metavar="FILE [[--at HOST] -- COMMAND]...",
            help="Scenario file (TOML or JSON), and the programs to run: by default at the client "
            "of the first flow. The run ends with the last one, and has its exit code.",
        ),
    ] = None,
    *,
    seed: Seed = None,
    replication: Annotated[
        int, typer.Option(min=0, help="The links lose what they lose in this replication.")
    ] = 0,
    changes: Changes = None,
    mtu: Annotated[
        int | None, typer.Option(min=68, max=65_535, help="Largest packet in bytes; else 1500.")
    ] = None,
    sysctl: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Set a parameter of the kernel in all hosts, such as "
            "net.ipv4.tcp_congestion_control=reno. Repeatable.",
        ),
    ] = None,
    outside: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="This host is the machine itself (needs CAP_NET_ADMIN)."),
    ] = None,
    record: Annotated[
        Path | None,
        typer.Option(parser=as_path, metavar="FILE", help="Write arrivals and what came of them."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            parser=as_path,
            metavar="FILE",
            help="Instead turn the links of a recording again, in virtual time, and compare.",
        ),
    ] = None,
    pcap: Annotated[
        Path | None,
        typer.Option(
            parser=as_path,
            metavar="FILE",
            help="Write the packets at both ends of each link as pcapng, for Wireshark.",
        ),
    ] = None,
    page: Annotated[
        bool, typer.Option("--page", help="Show the links in a browser, on 127.0.0.1.")
    ] = False,
    compare: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Instead send the first flow's file N times by the kernel's TCP at every point, "
            "and compare with N replications under profile linux.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="With --compare: live transfers at a time.")] = 4,
    out: Annotated[
        Path | None,
        typer.Option(parser=as_path, metavar="FILE", help="Write all numbers as JSON at the end."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
) -> int:
    """Run real programs behind the links of a scenario, in namespaces of their own.

    The packets of any program cross the very link protocols, queues, agents and losses that are
    simulated elsewhere. Linux only; no root needed where the kernel lets users make namespaces.
    """
    words = context.meta.get(PROGRAMS, [])
    if replay is not None:
        if file is not None or words:
            raise BadInput("--replay: found a scenario or a program too; allowed: the file alone")
        return _replay(replay, quiet=quiet)
    if file is None:
        raise BadInput("FILE: found nothing; allowed: a scenario file, or --replay FILE")
    scenario = _load(file, changes)
    if compare is not None:
        if words:
            raise BadInput("--compare: found a program too; allowed: the file alone")
        return _compare(scenario, compare, seed=seed, jobs=jobs, out=out, quiet=quiet)
    tables = scenario.to_dict()
    session = Session(
        scenario,
        programs(words, client(tables)),
        seed=seed,
        replication=replication,
        mtu=mtu,
        sysctls=dict(key_and_value(change) for change in sysctl or []),
        outside=outside,
        record=record,
        pcap=pcap,
    )
    hosts = {host for link in tables.get("link", {}).values() for host in link["between"]}
    for option, host in [("--outside", outside), *(("--at", one.host) for one in session.programs)]:
        if host is not None and host not in hosts:
            raise BadInput(f"{option}: found {host!r}; allowed: {', '.join(sorted(hosts))}")
    if not session.programs:
        raise BadInput("COMMAND: found nothing; allowed: -- COMMAND, or --at HOST -- COMMAND")
    try:
        return _watch(session, _page(tables) if page else None, out=out, quiet=quiet)
    except LiveError as error:
        note(f"lasthop: {error}")
        return FAILURE


def _load(file: Path, changes: list[str] | None) -> Scenario:
    """The scenario; one without flows is fine."""
    tables: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        text = read_bytes(file, LARGEST_TEXT).decode("utf-8")
        tables = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    added = None
    # Of anything else that is wrong the engine reports the line.
    with contextlib.suppress(AttributeError, KeyError, TypeError, ValueError):
        added = None if "flow" in tables or not tables["link"] else with_flow(tables)
    if added is None:
        scenario = load(file, changes)
    else:
        scenario = Scenario(added, base=file.parent)
        scenario = scenario.with_(dict(key_and_value(change) for change in changes or []))
    scenario.points()  # refuses what is no scenario, before its tables are used
    return scenario


live.command_class = LiveCommand  # type: ignore[attr-defined]


def _page(tables: Mapping[str, Any]) -> Page:
    """The page of a run, and its address on standard error."""
    from lasthop.running.live.page import Page

    page = Page(tables)
    note(f"lasthop: {page.address}")
    return page


def _watch(session: Session, page: Page | None, *, out: Path | None, quiet: bool) -> int:
    """Follows a run to its end; the first Ctrl-C is for the program, the second ends everything."""
    interrupts = 0

    def interrupted(_number: int, _frame: Any) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts > 1:
            session.stop()

    code, last, before = INTERRUPTED, None, None
    previous = signal.getsignal(signal.SIGINT)
    if previous is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupted)
    try:
        with contextlib.closing(session.run()) as messages:
            for message in messages:
                if page is not None:
                    page.tell(message)
                if message["kind"] == "tick":
                    if not quiet:
                        note(second(message, before))
                    before = message
                elif message["kind"] == "end":
                    code, last = int(message["code"]), message
                    if _keep_partial(session, message):
                        code = FAILURE
    finally:
        signal.signal(signal.SIGINT, previous)
    if last is not None:
        if not quiet:
            note(summary(last))
        if out is not None:
            last["metrics"] = dict(last["metrics"])
            write(out, json.dumps(last, indent=1) + "\n")
    return code


def _keep_partial(session: Session, end: Mapping[str, Any]) -> bool:
    """Renames files that the driver could not finish to FILE.partial; whether there are any."""
    found = False
    for option, path in (("--record", session.record), ("--pcap", session.pcap)):
        reason = next((text for text in end["notes"] if text.startswith(f"{option}: ")), None)
        if path is None or reason is None:
            continue
        found = True
        kept = ""
        if path.is_file() and not path.is_symlink():
            partial = path.with_name(f"{path.name}.partial")
            with contextlib.suppress(OSError):
                path.replace(partial)
                kept = f" in {partial}"
        note(f"lasthop: {option} {path}: {reason.removeprefix(f'{option}: ')}{kept}")
    return found


def _compare(
    scenario: Scenario, count: int, *, seed: int | None, jobs: int, out: Path | None, quiet: bool
) -> int:
    """Transfers by the kernel beside simulated ones."""
    from lasthop.running.live.compare import compare, table

    def progress(done: int, total: int) -> None:
        if not quiet and (done == total or done % 10 == 0):
            note(f"{done} of {total} transfers")

    result = compare(scenario, replications=count, seed=seed, jobs=jobs, progress=progress)
    if out is not None:
        write(out, json.dumps(result, indent=1) + "\n")
    print_line(table(result))
    agreeing = sum(point["summary"]["goodput_bps"]["agrees"] for point in result["points"])
    note(
        f"goodput agrees (within 5 %, or each mean in the other's interval) in {agreeing} of "
        f"{len(result['points'])} points; Linux {result['kernel']}, {result['date']}, load "
        f"{result['load']:.1f} on {result['processors']} processors, {jobs} at a time"
    )
    failures = result["failures"]
    if failures:
        note(f"lasthop: {len(failures)} transfers failed; the first: {failures[0]}")
    return FAILURE if failures else DONE


def _replay(path: Path, *, quiet: bool) -> int:
    """Turns a recording again."""
    told = json.loads(_lasthop.live_replay(str(path)))
    if not told["complete"]:
        note(f"lasthop: {path}: the recording is truncated, after {told['same']} equal outputs")
        return FAILURE
    if told["difference"] is not None:
        note(f"lasthop: {path}: the outputs differ: {told['difference']}")
        return FAILURE
    if not quiet:
        print_line(
            f"{path}: {told['arrivals']} packets in {told['time']:.3f} s; all {told['same']} "
            "outputs are the same to the byte and nanosecond"
        )
    return DONE
