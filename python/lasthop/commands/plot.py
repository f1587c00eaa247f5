"""The command `lasthop plot`."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from lasthop.commands.codes import DONE, INTERRUPTED
from lasthop.commands.common import Changes, Jobs, load, note, print_line, running
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import as_path, as_picture, seconds, with_options
from lasthop.running.live.recording import is_recording
from lasthop.running.replications import run
from lasthop.running.tracing import trace
from lasthop.scenarios.arguments import ArgumentError, invalid, unknown
from lasthop.scenarios.files import open_regular
from lasthop.showing import figures
from lasthop.showing.figures import KINDS, OF_TRACES, PlotError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot"]

Kind = StrEnum("Kind", {name: name for name in KINDS})  # type: ignore[misc]


class Size(StrEnum):
    """Widths of figures."""

    column = "column"
    full = "full"


class FigureStyle(StrEnum):
    """Uses of figures."""

    screen = "screen"
    paper = "paper"


def plot(
    source: Annotated[
        Path,
        Argument(
            parser=as_path,
            metavar="SOURCE",
            help="Scenario file (which is run), Parquet or CSV file, or folder written by "
            "run --out, run --store or trace, or recording of a live run.",
        ),
    ],
    *,
    x: Annotated[str | None, Option("--x", metavar="KEY", help="Swept key on the x-axis.")] = None,
    y: Annotated[
        list[str] | None,
        Option(
            "--y",
            metavar="METRIC",
            help="Metric: full name, last component, or a pattern with *; of a trace: cwnd, queue "
            "or a flow. Repeatable.",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        Option("--by", metavar="KEY", help="Swept key that distinguishes curves. Repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        Option("--where", metavar="KEY=VALUE", help="Select points. Repeatable."),
    ] = None,
    kind: Annotated[Kind | None, Option(help="Kind of figure.")] = None,
    log: Annotated[
        str,
        Option(
            metavar="x|y|xy|none",
            help="Logarithmic axes; default: axes whose values span two decades.",
        ),
    ] = "",
    size: Annotated[Size, Option(help="Width of the figure: 3.4 or 7 inches.")] = Size.column,
    style: Annotated[
        FigureStyle,
        Option(
            help="Notes below the axis, or for a paper in the metadata and a text file next to the "
            "picture."
        ),
    ] = FigureStyle.screen,
    xlabel: Annotated[
        str | None,
        Option("--x-label", metavar="TEXT", help="Label of the x-axis; default: by the key."),
    ] = None,
    ylabel: Annotated[
        str | None,
        Option("--y-label", metavar="TEXT", help="Label of the y-axis; default: by the metric."),
    ] = None,
    title: Annotated[str | None, Option(help="Title of the figure.")] = None,
    order: Annotated[
        list[str] | None,
        Option(metavar="LABEL", help="Label of a curve, in the order of the legend. Repeatable."),
    ] = None,
    rename: Annotated[
        list[str] | None,
        Option(metavar="LABEL=TEXT", help="Replace a label of the figure. Repeatable."),
    ] = None,
    link: Annotated[
        str | None, Option(metavar="NAME", help="Link of a time-sequence diagram.")
    ] = None,
    start: Annotated[
        str | None, Option("--from", metavar="TIME", help="Of a trace: start time.")
    ] = None,
    end: Annotated[str | None, Option("--to", metavar="TIME", help="Of a trace: end time.")] = None,
    out: Annotated[
        Path,
        Option(parser=as_picture, metavar="PICTURE", help="Output file: .png, .pdf or .svg."),
    ] = Path("plot.pdf"),
    replications: Annotated[
        int | None, Option(min=1, help="Of a scenario: replications per point.")
    ] = None,
    seed: Annotated[int | None, Option(min=0, help="Of a scenario: master seed.")] = None,
    jobs: Jobs = 0,
    replication: Annotated[int, Option(min=0, help="Of a trace: replication.")] = 0,
    point: Annotated[
        list[int] | None,
        Option(
            min=0,
            help="Of a trace: point of the sweep, default 0; repeatable with sequence and ladder, "
            "which share one time axis.",
        ),
    ] = None,
    changes: Changes = None,
) -> int:
    """Plot results over a parameter, their distribution, or one replication over time."""
    from lasthop.showing.figures.style import save

    times = [seconds("--from", start), seconds("--to", end)]
    if is_recording(source):
        return _recording(source, link, out, size=size.value, title=title)
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
                    raise PlotError(f"`{name}` requires a scenario file: `{source}` has results")
        figure: Figure = figures.plot(
            data,
            x=x,
            y=y or None,
            by=by or None,
            where=dict(_pair(text, "where", "KEY=VALUE") for text in where or []),
            kind=None if kind is None else kind.value,
            log=log,
            size=size.value,
            paper=style is FigureStyle.paper,
            xlabel=xlabel,
            ylabel=ylabel,
            title=title,
            order=order or None,
            rename=dict(_pair(text, "rename", "LABEL=TEXT") for text in rename or []),
            link=link,
            start=times[0],
            end=times[1],
        )
    for path in save(figure, out.with_suffix(""), out.suffix.lower().lstrip(".")):
        print_line(str(path))
    return DONE if complete else INTERRUPTED


def _recording(source: Path, link: str | None, out: Path, *, size: str, title: str | None) -> int:
    """Draws the timeline of each link of a recording, or of one link."""
    from lasthop.running.live.recording import outcome_of
    from lasthop.running.live.session import links_of
    from lasthop.showing.figures.style import save
    from lasthop.showing.live_timeline import draw, timelines

    result, outcome, tables = outcome_of(source)
    links = links_of(tables)
    if link is not None and link not in links:
        raise PlotError(unknown("link", link, list(links), "--link"))
    drawn = [one for one in timelines(links, outcome) if link in (None, one["name"])]
    for one in drawn:
        name = (
            out.with_suffix("") if len(drawn) == 1 else out.with_name(f"{out.stem}-{one['name']}")
        )
        figure = draw(one, size=size, title=title)
        for path in save(figure, name, out.suffix.lower().lstrip(".")):
            print_line(str(path))
    if not result["complete"]:
        note(f"lasthop: {source}: truncated recording; the figure ends at {result['time']:.3f} s")
    return DONE


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """Replaces the arguments that messages name with command-line options."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        # Otherwise, the name given by the user is invalid.
        name = error.filename or "SOURCE"
        raise PlotError(f"cannot read `{name}`: {error.strerror or error}") from None
    except (PlotError, ArgumentError) as error:
        raise PlotError(
            with_options(
                str(error), {"paper": "style", "xlabel": "x-label", "ylabel": "y-label"}, OPTIONS
            )
        ) from None


OPTIONS = (
    *("x", "y", "by", "where", "kind", "log", "size", "link", "from", "set"),
    *(
        "to",
        "x-label",
        "y-label",
        "point",
        "replication",
        "replications",
        "seed",
        "order",
        "rename",
        "style",
    ),
)


def _pair(text: str, name: str, form: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise PlotError(invalid(name, text, form))
    return key.strip(), value.strip()
