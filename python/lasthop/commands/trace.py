"""The commands for one replication: `lasthop trace`, `lasthop steady`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

from lasthop.commands.codes import DONE
from lasthop.commands.common import (
    Changes,
    File,
    Format,
    Seed,
    TimelineFile,
    load,
    not_input,
    options,
    print_line,
    writable,
)
from lasthop.commands.declarations import Option
from lasthop.commands.values import BadInput, as_path, seconds
from lasthop.running import tracing
from lasthop.running.qlog import write_qlog
from lasthop.running.steady import steady_state
from lasthop.running.writing import IS_FULL
from lasthop.scenarios.arguments import invalid
from lasthop.showing import terminal

__all__ = ["steady", "trace"]

Replication = Annotated[int, Option(min=0, help="Index of the replication.")]
Point = Annotated[int, Option(min=0, help="Point of the sweep.")]


def trace(
    file: File,
    *,
    seed: Seed = None,
    replication: Replication = 0,
    point: Point = 0,
    changes: Changes = None,
    timeline: TimelineFile = None,
    link: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Also draw a time-sequence diagram of this link: its frames as arrows, around the "
            "first loss. With --pcap: capture only this link.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        Option("--from", metavar="TIME", help='Start of the diagram, such as "1.5 s".'),
    ] = None,
    end: Annotated[str | None, Option("--to", metavar="TIME", help="End of the diagram.")] = None,
    out: Annotated[
        Path,
        Option(
            parser=as_path,
            metavar="DIR|PICTURE",
            help="Output folder; with --link also a single picture (.png, .svg or .pdf).",
        ),
    ] = Path("trace"),
    pcap: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Write only the packets, to this pcapng file for Wireshark; each direction of a "
            "link is an interface, comments mark losses.",
        ),
    ] = None,
    qlog: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Write only the events of the sender of a flow over QUIC, as qlog (JSON text "
            "sequence) for qvis.",
        ),
    ] = None,
    tcp_script: Annotated[
        Path | None,
        Option(
            parser=as_path,
            metavar="FILE",
            help="Write only one end of a TCP connection, to this file as a conformance script "
            "for `lasthop tcp-script`.",
        ),
    ] = None,
    flow: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="With --qlog: flow; default: the only one over QUIC. With --tcp-script: flow "
            "whose first connection is recorded; default: the only one over TCP.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        Option(
            "--at",
            metavar="HOST",
            help="With --pcap: capture at this host; default: on the medium. With --tcp-script: "
            "host of the recorded end; default: the one that opens the connection.",
        ),
    ] = None,
    snap: Annotated[
        int | None,
        Option(min=1, max=65_535, help="With --pcap: bytes per packet; default: all."),
    ] = None,
) -> int:
    """Record one replication: windows, queues and frames as CSV and figures, or packets."""
    from lasthop.showing.figures import style

    scenario = load(file, changes, timeline)
    if pcap is not None:
        if start or end:
            raise BadInput(
                "cannot use `--from` or `--to` with `--pcap`: they select frames to draw"
            )
        not_input("--pcap", pcap, file)
        try:
            with options(host="at"):
                packets = tracing.capture(
                    scenario,
                    pcap,
                    link=link,
                    host=host,
                    snap=snap,
                    seed=seed,
                    replication=replication,
                    point=point,
                )
        except OSError as error:
            if error.errno in IS_FULL:
                raise OSError(error.errno, os.strerror(error.errno), str(pcap)) from None
            raise BadInput(f"cannot write `{pcap}`: {error.strerror or error}") from None
        print_line(f"{pcap}: {packets} packets")
        return DONE
    if qlog is not None:
        if link or start or end or host or snap:
            raise BadInput(
                "cannot use `--link`, `--from`, `--to`, `--at` or `--snap` with `--qlog`"
            )
        not_input("--qlog", qlog, file)
        with options():
            events = write_qlog(
                scenario, qlog, flow=flow, seed=seed, replication=replication, point=point
            )
        print_line(f"{qlog}: {events} events")
        return DONE
    if tcp_script is not None:
        if link or start or end or snap:
            raise BadInput("cannot use `--link`, `--from`, `--to` or `--snap` with `--tcp-script`")
        not_input("--tcp-script", tcp_script, file)
        with options(host="at"):
            segments = tracing.write_script(
                scenario,
                tcp_script,
                flow=flow,
                host=host,
                seed=seed,
                replication=replication,
                point=point,
            )
        print_line(f"{tcp_script}: {segments} segments")
        return DONE
    if flow:
        raise BadInput("`--flow` requires `--qlog FILE` or `--tcp-script FILE`")
    if host:
        raise BadInput("`--at` requires `--pcap FILE` or `--tcp-script FILE`")
    if snap:
        raise BadInput("`--snap` requires `--pcap FILE`")
    is_picture = out.suffix.lower().removeprefix(".") in style.FORMATS and not out.is_dir()
    if is_picture and link is None:
        raise BadInput(invalid("--out", out, "a folder, or a picture with `--link`"))
    if link is None and (start or end):
        raise BadInput("`--from` and `--to` require `--link NAME`")
    times = [seconds(option, text) for option, text in (("--from", start), ("--to", end))]
    folder = writable(out.parent if is_picture else out)
    with options():
        recorded = tracing.trace(scenario, seed=seed, replication=replication, point=point)
        ladder = link and recorded.plot_link(link, start=times[0], end=times[1])
    written = []
    if not is_picture:
        written += recorded.write(folder)
        written += style.save(recorded.plot(), folder / "trace", "png")
    if ladder:
        target = out.with_suffix("") if is_picture else folder / "sequence"
        written += style.save(ladder, target, out.suffix.lower()[1:] if is_picture else "png")
    for path in written:
        print_line(str(path))
    return DONE


def steady(
    file: File,
    *,
    seed: Seed = None,
    replication: Replication = 0,
    point: Point = 0,
    changes: Changes = None,
    step: Annotated[
        str | None,
        Option(metavar="TIME", help="Averaging interval; default: 1/2000 of the run."),
    ] = None,
    output: Annotated[
        Format, Option("--format", help="Output format of the table.")
    ] = Format.table,
) -> int:
    """Estimate steady-state means from one long replication, excluding the warm-up."""
    scenario = load(file, changes)
    with options():
        found = steady_state(
            scenario,
            step=seconds("--step", step),
            seed=seed,
            replication=replication,
            point=point,
        )
    match output:
        case Format.json:
            print_line(json.dumps(found.to_dicts(), indent=2))
        case Format.csv:
            sys.stdout.write(found.write_csv())
        case Format.table:
            terminal.console().print(terminal.show_steady(found))
    return DONE
