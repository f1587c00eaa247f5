"""The command `lasthop live`: programs over the emulated links of a scenario."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lasthop import _lasthop
from lasthop.commands.codes import DONE, FAILURE
from lasthop.commands.common import (
    Changes,
    Seed,
    TimelineFile,
    key_and_value,
    load_for_live,
    note,
    options,
    print_line,
    write,
)
from lasthop.commands.declarations import Argument, Option, Rest
from lasthop.commands.live_run import Results, Runs
from lasthop.commands.values import BadInput, as_path, seconds
from lasthop.running.live.control import ENVIRONMENT, ask
from lasthop.running.live.expect import parse
from lasthop.running.live.repeated import read_summaries
from lasthop.running.live.session import LiveError, Program, Session, client, links_of
from lasthop.scenarios import profiles
from lasthop.scenarios.arguments import unknown
from lasthop.scenarios.scenario import Scenario
from lasthop.scenarios.timeline import joined, read

if TYPE_CHECKING:
    from lasthop.running.live.page import Page

__all__ = ["live"]


def programs(words: list[str], default: str | None) -> list[Program]:
    """Parses the programs and their hosts: `[--at HOST] -- COMMAND`, repeated.

    The last command consists of all remaining words. A command of one word is split as in a shell.
    """
    found: list[Program] = []
    while words:
        host = default
        if words[0] == "--at":
            if len(words) < 2:
                raise BadInput("missing value for `--at`: expected `--at HOST -- COMMAND`")
            host, words = words[1], words[2:]
        if not words or words[0] != "--" or len(words) < 2:
            raise BadInput(f"missing command for `--at {host}`: expected `--at {host} -- COMMAND`")
        if host is None:
            raise BadInput(
                "missing host: the scenario has neither a flow nor a host named client; use "
                "`--at HOST -- COMMAND`"
            )
        # One quoted word, followed by another program.
        is_one = words[2:3] == ["--at"] and words[4:5] == ["--"]
        if not is_one and "--at" in words[2:]:
            _check_quotes(host, words)
        argv, words = (words[1:2], words[2:]) if is_one else (words[1:], [])
        if len(argv) == 1:
            try:
                argv = shlex.split(argv[0])
            except ValueError as error:
                raise BadInput(
                    f"invalid command `{argv[0]}` for `--at {host}`: {error}: expected the syntax "
                    "of a shell"
                ) from None
        if not argv:
            raise BadInput(f"empty command for `--at {host}`: expected a program")
        found.append(Program(host, argv))
    return found


def _check_quotes(host: str, words: list[str]) -> None:
    """Refuses a command of several words that is followed by another program."""
    end = words.index("--at", 2)
    if words[end + 2 : end + 3] == ["--"]:
        command = shlex.join(words[1:end])
        quoted = shlex.quote(command)
        raise BadInput(
            f"invalid command `{command}` for `--at {host}`, followed by another `--at`: expected "
            f"quotes around each command except the last: `-- {quoted} --at {words[end + 1]} -- …`"
        )


def live(
    file: Annotated[
        Path | None,
        Argument(
            parser=as_path,
            metavar="FILE [[--at HOST] -- COMMAND]...",
            help="Scenario file (TOML or JSON) and programs to run, by default at the client of "
            "the first flow. The run ends with the last program and returns its exit code.",
        ),
    ] = None,
    *,
    words: Annotated[list[str], Rest(("--", "--at", "ctl"))],
    profile: Annotated[
        str | None,
        Option(metavar="NAME", help="Use a profile (`lasthop list profiles`) as FILE."),
    ] = None,
    seed: Seed = None,
    replication: Annotated[
        int, Option(min=0, help="Replication whose random numbers the links use.")
    ] = 0,
    changes: Changes = None,
    timeline: TimelineFile = None,
    mtu: Annotated[
        int | None,
        Option(min=68, max=65_535, help="Maximum packet size in bytes; default: 1500."),
    ] = None,
    sysctl: Annotated[
        list[str] | None,
        Option(
            metavar="KEY=VALUE",
            help="Set a kernel parameter in all hosts, such as "
            "net.ipv4.tcp_congestion_control=reno. Repeatable.",
        ),
    ] = None,
    outside: Annotated[
        str | None,
        Option(metavar="HOST", help="Host that is this machine itself (requires CAP_NET_ADMIN)."),
    ] = None,
    netns: Annotated[
        list[str] | None,
        Option(
            metavar="HOST=NAMESPACE",
            help="Existing network namespace of a host: name, process ID or file (requires "
            "CAP_NET_ADMIN). Repeatable.",
        ),
    ] = None,
    between: Annotated[
        tuple[str, str] | None,
        Option(
            metavar="INTERFACE",
            help="Ethernet interfaces of this machine at the two ends of the only link, in the "
            "order of its hosts: a bridge that behaves like the link (requires root).",
        ),
    ] = None,
    route: Annotated[
        list[str] | None,
        Option(
            metavar="HOST=NETWORK",
            help="Network behind a host, such as client=192.168.7.0/24, which the other hosts "
            "reach through it. Repeatable.",
        ),
    ] = None,
    record: Annotated[
        Path | None,
        Option(parser=as_path, metavar="FILE", help="Record arriving packets and their outcomes."),
    ] = None,
    replay: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Replay a recording in virtual time and compare the outputs; run no program.",
        ),
    ] = None,
    pcap: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Write the packets at both ends of each link as pcapng for Wireshark.",
        ),
    ] = None,
    control: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Socket for changes during the run by `lasthop live ctl`; default: found by "
            "itself.",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        Option(metavar="TIME", help="End each run after this time, with exit code 124."),
    ] = None,
    spin: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="Poll instead of sleeping during this time before a delivery, for less delay and "
            "more processor time, such as 50us.",
        ),
    ] = None,
    no_offload: Annotated[
        bool,
        Option(
            "--no-offload",
            help="Pass packets one by one between hosts and links of 500 Mbps or more, too.",
        ),
    ] = False,
    expect: Annotated[
        list[str] | None,
        Option(
            metavar="CONDITION",
            help="Condition on the results, such as 'delay_p95 < 200 ms' or 'exit = 0'; exit code "
            "5 if it is not met. Repeatable.",
        ),
    ] = None,
    repeat: Annotated[
        int,
        Option(
            min=1, metavar="N", help="Run the programs N times, with replications K to K + N - 1."
        ),
    ] = 1,
    baseline: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="File of --json: print paired differences from its runs with the same seed and "
            "replication.",
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        Option(parser=as_path, metavar="FILE", help="Write JUnit XML for CI services."),
    ] = None,
    doctor: Annotated[
        bool,
        Option("--doctor", help="Check whether this machine permits live links; run no program."),
    ] = False,
    page: Annotated[
        bool, Option("--page", help="Show the links in the browser, on 127.0.0.1.")
    ] = False,
    compare: Annotated[
        int | None,
        Option(
            min=1,
            metavar="N",
            help="Transfer the first flow's file N times with the kernel's TCP at every point and "
            "compare with N replications of profile linux; run no program.",
        ),
    ] = None,
    jobs: Annotated[int, Option(min=1, help="With --compare: concurrent live transfers.")] = 4,
    retry_disturbed: Annotated[
        int,
        Option(
            min=0,
            metavar="N",
            help="With --compare: repeat a transfer up to N times if the driver was too late.",
        ),
    ] = 0,
    out: Annotated[
        Path | None,
        Option(parser=as_path, metavar="FILE", help="Write all metrics as JSON at the end."),
    ] = None,
    lines: Annotated[
        Path | None,
        Option(
            "--json",
            parser=as_path,
            metavar="FILE",
            help="Write a line of JSON every second, and a summary at the end.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Write an HTML report with a timeline; also with --replay.",
        ),
    ] = None,
    quiet: Annotated[bool, Option("--quiet", help="Print only errors.")] = False,
) -> int:
    """Run programs over the emulated links of a scenario, in separate network namespaces.

    Packets pass through the same link protocols, queues, agents and error models as in a
    simulation. Linux only; requires no root if the kernel permits user namespaces. `lasthop live
    ctl set KEY=VALUE` and `lasthop live ctl down TIME` change the links of a run.
    """
    if doctor:
        from lasthop.commands.doctor import live_doctor

        return live_doctor()
    if words[:1] == ["ctl"]:
        return _ctl(words[1:])
    if profile is not None:
        if file is not None:
            raise BadInput("cannot use `--profile` with a scenario file")
        with options():
            file = profiles.path(profile)
    for_programs: dict[str, object] = {"--mtu": mtu, "--sysctl": sysctl, "--outside": outside}
    for_programs |= {"--between": between, "--netns": netns, "--route": route}
    for_programs |= {"--record": record, "--pcap": pcap}
    for_programs |= {"--control": control, "--timeout": timeout, "--no-offload": no_offload}
    for_programs |= {"--expect": expect, "--repeat": repeat > 1, "--baseline": baseline}
    for_programs |= {"--junit": junit, "--page": page, "--json": lines}
    for_programs |= {"--replication": replication}
    if replay is not None:
        if file is not None or words:
            raise BadInput("cannot use `--replay` with a scenario or a program")
        for_programs |= {"--compare": compare, "--retry-disturbed": retry_disturbed, "--out": out}
        for_programs |= {"--seed": seed, "--set": changes, "--timeline": timeline, "--spin": spin}
        _refuse(for_programs, "--replay")
        return _replay(replay, report=report, quiet=quiet)
    if file is None:
        raise BadInput("missing `FILE`: expected a scenario file, or `--replay FILE`")
    scenario, _ = load_for_live(file, changes, timeline)
    if compare is not None:
        if words:
            raise BadInput("cannot use `--compare` with a program: it runs its own transfers")
        _refuse({**for_programs, "--report": report}, "--compare")
        return _compare(
            scenario,
            compare,
            seed=seed,
            jobs=jobs,
            spin_s=seconds("--spin", spin) or 0.0,
            retries=retry_disturbed,
            out=out,
            quiet=quiet,
        )
    if retry_disturbed:
        raise BadInput("cannot use `--retry-disturbed` without `--compare`")
    tables = scenario.to_dict()
    session = Session(
        scenario,
        programs(words, client(tables)),
        seed=seed,
        replication=replication,
        mtu=mtu,
        sysctls=dict(key_and_value(change) for change in sysctl or []),
        outside=outside,
        netns=dict(_namespace(text) for text in netns or []),
        between=between,
        routes=[_route(text) for text in route or []],
        record=record,
        pcap=pcap,
        samples=report is not None,
        spin_s=seconds("--spin", spin) or 0.0,
        offload=not no_offload,
        environment={} if control is None else {ENVIRONMENT: str(control.resolve())},
    )
    session.check()
    links = _checked_links(session, tables)
    with options():
        expectations = [parse(text, links) for text in expect or []]
        earlier = None if baseline is None else _earlier(baseline)
    for option, path in (("--record", record), ("--pcap", pcap)):
        if repeat > 1 and path is not None:
            raise BadInput(
                f"cannot use `{option}` with `--repeat`: each run would overwrite `{path}`"
            )
    results = Results(
        tables,
        command=shlex.join(["lasthop", *sys.argv[1:]]),
        out=out,
        lines=lines,
        report=report,
        junit=junit,
        baseline=earlier,
        page=_page(tables) if page else None,
        quiet=quiet,
    )
    runs = Runs(
        lambda number: replace(session, replication=number),
        results,
        range(replication, replication + repeat),
        expectations=expectations,
        timeout=seconds("--timeout", timeout),
        control=control,
        marks=[]
        if timeline is None
        else [
            {"kind": "change", "time": one.time / 1e9, "text": one.text, "link": one.link}
            for one in read(timeline)
        ],
    )
    return runs.run()


def _refuse(given: Mapping[str, object], where: str) -> None:
    """Refuses options that have no effect with another option."""
    for option, value in given.items():
        if value not in (None, False, 0, []):
            raise BadInput(f"cannot use `{option}` with `{where}`")


def _checked_links(session: Session, tables: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the links of a scenario; refuses unknown hosts, and a run without programs."""
    links = links_of(tables)
    hosts = {host for link in links.values() for host in link["between"]}
    named = [("--outside", session.outside), *(("--netns", host) for host in session.netns)]
    named += [("--route", host) for host, _ in session.routes]
    for option, host in [*named, *(("--at", one.host) for one in session.programs)]:
        if host is not None and host not in hosts:
            raise BadInput(unknown("host", host, sorted(hosts), option))
    if session.between is not None:
        _check_bridge(session, links)
    elif not session.programs and not session.netns:
        raise BadInput("missing `COMMAND`: expected `-- COMMAND` or `--at HOST -- COMMAND`")
    return links


def _check_bridge(session: Session, links: Mapping[str, Any]) -> None:
    """Refuses what a run between two interfaces cannot have."""
    given = {
        "--outside": session.outside is not None,
        "--netns": bool(session.netns),
        "--route": bool(session.routes),
        "--sysctl": bool(session.sysctls),
        "--no-offload": not session.offload,
        "COMMAND": bool(session.programs),
    }
    _refuse(given, "--between")
    if len(links) != 1:
        raise BadInput(
            f"cannot use `--between` with {len(links)} links; expected a scenario with one link"
        )
    names = session.between or ()
    if len(set(names)) != len(names):
        raise BadInput(
            f"invalid value `{' '.join(names)}` for `--between`: expected two different interfaces"
        )


def _namespace(text: str) -> tuple[str, Path]:
    """Reads a value of `--netns`: a host and the file of its namespace."""
    host, name = key_and_value(text, "--netns", "HOST=NAMESPACE")
    path = Path(name)
    if name.isdigit():
        path = Path(f"/proc/{name}/ns/net")
    elif "/" not in name:
        path = Path("/run/netns") / name
    if not path.exists():
        raise BadInput(
            f"invalid value `{text}` for `--netns`: `{path}` does not exist; expected a name of "
            "`ip netns`, a process ID or a file"
        )
    return host, path


def _route(text: str) -> tuple[str, str]:
    """Reads a value of `--route`: a host and a network."""
    import ipaddress

    host, network = key_and_value(text, "--route", "HOST=NETWORK")
    try:
        return host, str(ipaddress.ip_network(network))
    except ValueError as error:
        raise BadInput(f"invalid value `{text}` for `--route`: {error}") from None


def _ctl(words: list[str]) -> int:
    """Changes the links of a run: `lasthop live ctl [--control FILE|PID] CHANGE`."""
    where = None
    if words[:1] == ["--control"]:
        if len(words) < 2:
            raise BadInput("missing value for `--control`: expected FILE or PID")
        where, words = words[1], words[2:]
    if not words:
        raise BadInput("missing change: expected `set KEY=VALUE...` or `down TIME [LINK]`")
    try:
        done = ask(joined(words), where)
    except LiveError as error:
        note(f"lasthop: {error}")
        return FAILURE
    print_line(f"{done['time']:.3f} s: {done['text']}")
    return DONE


def _earlier(path: Path) -> list[dict[str, Any]]:
    """Reads the runs of `--baseline`."""
    try:
        return read_summaries(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise BadInput(f"cannot read `{path}`: {reason}") from None


def _page(tables: Mapping[str, Any]) -> Page:
    """Starts the page of a run and prints its address on standard error."""
    from lasthop.running.live.page import Page

    page = Page(tables)
    note(f"lasthop: {page.address}")
    return page


def _compare(
    scenario: Scenario,
    count: int,
    *,
    seed: int | None,
    jobs: int,
    spin_s: float,
    retries: int,
    out: Path | None,
    quiet: bool,
) -> int:
    """Compares transfers of the kernel's TCP with simulated transfers."""
    from lasthop.running.live.compare import compare, table

    def progress(done: int, total: int) -> None:
        if not quiet and (done == total or done % 10 == 0):
            note(f"{done} of {total} transfers")

    result = compare(
        scenario,
        replications=count,
        seed=seed,
        jobs=jobs,
        spin_s=spin_s,
        retries=retries,
        progress=progress,
    )
    if out is not None:
        write(out, json.dumps(result, indent=1) + "\n")
    print_line(table(result))
    agreeing = sum(point["summary"]["goodput_bps"]["agrees"] for point in result["points"])
    note(
        f"goodput agrees (within 5 %, or each mean is in the other's 95 % confidence interval) at "
        f"{agreeing} of {len(result['points'])} points; Linux {result['kernel']}, "
        f"{result['date']}, load {result['load']:.1f} on {result['processors']} processors, "
        f"{jobs} concurrent transfers"
    )
    disturbed = sum(point["disturbed"] for point in result["points"])
    if disturbed:
        note(
            f"lasthop: {disturbed} of {count * len(result['points'])} transfers were disturbed: "
            "the driver or a program was late, so that they measure this machine, not TCP; use an "
            "idle machine, real-time priority of the driver (`chrt -f 10 lasthop live …`), "
            "`--spin 1ms` or `--jobs 1`; "
            "`--retry-disturbed N` repeats them"
        )
    failures = result["failures"]
    if failures:
        note(f"lasthop: {len(failures)} transfers failed; first failure: {failures[0]}")
    return FAILURE if failures else DONE


def _replay(path: Path, *, report: Path | None, quiet: bool) -> int:
    """Replays a recording and compares the outputs."""
    if report is None:
        result = json.loads(_lasthop.live_replay(str(path)))
    else:
        from lasthop.running.live.recording import outcome_of
        from lasthop.showing.live_report import page

        result, outcome, tables = outcome_of(path)
        command = shlex.join(["lasthop", *sys.argv[1:]])
        write(report, page(tables, [outcome], [outcome.summary()], command=command))
    if not result["complete"]:
        note(f"lasthop: {path}: truncated recording; the first {result['same']} outputs are equal")
        return FAILURE
    if result["difference"] is not None:
        note(f"lasthop: {path}: the outputs differ: {result['difference']}")
        return FAILURE
    if not quiet:
        print_line(
            f"{path}: {result['arrivals']} packets in {result['time']:.3f} s; all "
            f"{result['same']} outputs are identical in content and time (1 ns)"
        )
    return DONE
