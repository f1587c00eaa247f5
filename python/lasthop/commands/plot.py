"""The command `lasthop plot`."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lasthop.commands.codes import DONE, INTERRUPTED
from lasthop.commands.common import Changes, Jobs, load, print_line, running
from lasthop.commands.values import as_path, as_picture, seconds
from lasthop.running.replications import run
from lasthop.running.tracing import trace
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.files import open_regular
from lasthop.showing import figures
from lasthop.showing.figures import KINDS, OF_TRACES, PlotError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot"]

Kind = StrEnum("Kind", {name: name for name in KINDS})  # type: ignore[misc]


class Size(StrEnum):
    """How wide a figure is."""

    column = "column"
    full = "full"


def plot(
    source: Annotated[
        Path,
        typer.Argument(
            parser=as_path,
            metavar="SOURCE",
            help="Scenario file (is run), Parquet or CSV file, or folder that run --out, "
            "a campaign or trace wrote.",
        ),
    ],
    *,
    x: Annotated[str | None, typer.Option("--x", metavar="KEY", help="Swept key.")] = None,
    y: Annotated[
        list[str] | None,
        typer.Option(
            "--y",
            metavar="METRIC",
            help="Metric, the end of its name, or a pattern with *; of a trace cwnd, queue or a "
            "flow. Repeatable.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="KEY", help="Swept key of the curves. Repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="KEY=VALUE", help="Only these points. Repeatable."),
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="What to draw.")] = None,
    log: Annotated[
        str,
        typer.Option(
            metavar="x|y|xy|none",
            help="Logarithmic axes; by default where values span two decades.",
        ),
    ] = "",
    size: Annotated[Size, typer.Option(help="3.4 or 7 inches wide.")] = Size.column,
    xlabel: Annotated[str | None, typer.Option(help="Instead of what the key says.")] = None,
    ylabel: Annotated[str | None, typer.Option(help="Instead of what the metric says.")] = None,
    title: Annotated[str | None, typer.Option(help="Above the figure.")] = None,
    link: Annotated[str | None, typer.Option(metavar="NAME", help="Of a ladder.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Of a trace: from when.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Of a trace: until when.")
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            parser=as_picture, metavar="PICTURE", help="What to write: .png, .pdf or .svg."
        ),
    ] = Path("plot.pdf"),
    replications: Annotated[
        int | None, typer.Option(min=1, help="Of a scenario: replications per point.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of a scenario: master seed.")] = None,
    jobs: Jobs = 0,
    replication: Annotated[int, typer.Option(min=0, help="Of a trace: which one.")] = 0,
    point: Annotated[
        list[int] | None,
        typer.Option(
            min=0,
            help="Of a trace: which point, by default 0; of sequence and ladder repeatable: on one "
            "time axis.",
        ),
    ] = None,
    changes: Changes = None,
) -> int:
    """Draw results over a parameter, their distribution, or the course of one replication."""
    from lasthop.showing.figures import style

    times = [seconds("--from", start), seconds("--to", end)]
    data: Any = source
    complete = True
    with _named():
        if not source.is_dir():
            open_regular(source).close()
        if source.suffix.lower() in (".toml", ".json") and not source.is_dir():
            scenario = load(source, changes)
            if kind is not None and kind.value in OF_TRACES:
                data = [
                    trace(scenario, seed=seed, replication=replication, point=one)
                    for one in point or [0]
                ]
                complete = all(one.complete for one in data)
            else:
                with running(scenario.name or source.name) as progress:
                    data = run(
                        scenario,
                        replications=replications,
                        seed=seed,
                        jobs=jobs,
                        progress=progress,
                    )
                complete = data.complete
        else:
            for name, value in (("set", changes), ("replications", replications), ("seed", seed)):
                if value is not None:
                    raise PlotError(f"{name}: found results; allowed: of a scenario")
        figure: Figure = figures.plot(
            data,
            x=x,
            y=y or None,
            by=by or None,
            where=dict(_pair(text) for text in where or []),
            kind=None if kind is None else kind.value,
            log=log,
            size=size.value,
            xlabel=xlabel,
            ylabel=ylabel,
            title=title,
            link=link,
            start=times[0],
            end=times[1],
        )
    for path in style.save(figure, out.with_suffix(""), out.suffix.lower().lstrip(".")):
        print_line(str(path))
    return DONE if complete else INTERRUPTED


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Messages name arguments as Python does; on the command line these are options."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        # Else it is a name that the user gave.
        raise PlotError(f"{error.filename or 'SOURCE'}: {error.strerror or error}") from None
    except (PlotError, ArgumentError) as error:
        text = str(error)
        is_option = text.partition(":")[0] in OPTIONS
        raise PlotError(f"--{text}" if is_option else text) from None


OPTIONS = (
    *("x", "y", "by", "where", "kind", "log", "size", "link", "from", "set"),
    *("to", "xlabel", "ylabel", "point", "replication", "replications", "seed"),
)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise PlotError(f"where: found {text!r}; allowed: KEY=VALUE")
    return key.strip(), value.strip()
