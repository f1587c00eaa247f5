"""Export: the scenario as TOML, Python or one command line, and figures for print."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lasthop.page.question import Question, Refused
from lasthop.scenarios.scenario import Scenario, _key, inline_toml

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lasthop.evaluating.results import Results
    from lasthop.running.tracing import Trace

__all__ = ["draw", "draw_trace", "to_command", "to_python", "to_toml"]

WIDTH = 96


def combined(question: Question, replications: int) -> dict[str, Any]:
    """One scenario of all alternatives: each is a case of its sweep."""
    tables = dict(question.tables)
    run = {**tables.pop("run", {}), "replications": replications, "seed": question.seed}
    if len(question.alternatives) == 1:
        tables = dict(question.alternatives[0].scenario.to_dict())
        return {**tables, "run": run}
    cases = {
        name: dict(one.changes)
        for name, one in zip(_names(question), question.alternatives, strict=True)
    }
    return {**tables, "sweep": {"case": cases}, "run": run}


def _names(question: Question) -> list[str]:
    """Labels as names that a scenario may have, each once."""
    names: list[str] = []
    for one in question.alternatives:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", one.label).strip("-") or "case"
        name, number = plain, 2
        while name in names:
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names


def to_toml(question: Question, replications: int) -> str:
    """The scenario with its alternatives as a file; it runs as `lasthop run FILE`."""
    tables = combined(question, replications)
    text = "\n".join(_document(tables)) + "\n"
    # Check that the engine accepts the exported text.
    Scenario.from_toml(text, base=question.alternatives[0].scenario._base)
    return text


def _document(tables: Mapping[str, Any]) -> Iterator[str]:
    for name, value in tables.items():
        if not isinstance(value, Mapping):
            yield f"{_key(name)} = {inline_toml(value)}"
    for name, value in tables.items():
        if not isinstance(value, Mapping):
            continue
        if name in ("link", "radio", "flow"):
            for entity, table in value.items():
                yield from _section(f"{_key(name)}.{_key(entity)}", table)
        elif name == "sweep":
            rest = {key: one for key, one in value.items() if key != "case"}
            if rest:
                yield from _section("sweep", rest)
            for case, table in value.get("case", {}).items():
                yield from _section(f"sweep.case.{_key(case)}", table)
        else:
            yield from _section(_key(name), value)


def _section(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{name}]"
    for key, value in table.items():
        yield f"{_key(key)} = {inline_toml(value)}"


def to_python(question: Question, replications: int) -> str:
    """A program that runs the same and prints the same means."""
    import pprint

    tables = combined(question, replications)
    text = pprint.pformat(tables, width=WIDTH, sort_dicts=False)
    return (
        "import lasthop\n\n"
        f"scenario = lasthop.Scenario(\n{_indented(text)}\n)\n"
        "results = lasthop.run(scenario)\n"
        "print(results.summary())\n"
    )


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def to_command(question: Question, replications: int) -> str:
    """One line for a shell that runs the same."""
    tables = combined(question, replications)
    lines = [f"{_key(name)} = {inline_toml(value)}" for name, value in tables.items()]
    quoted = " ".join(shlex.quote(line) for line in lines)
    return f"printf '%s\\n' {quoted} | lasthop run /dev/stdin"


def draw(wanted: Mapping[str, Any], values: Results) -> bytes:
    """A figure in the look of `lasthop plot`.

    Args:
        wanted: `metric`, `kind` (`line` or `cdf`), `format` (`svg`, `pdf` or `png`), `size`.
        values: The results of all alternatives, each at a value of the key `alternative`.

    Raises:
        Refused: If there is no such figure.
    """
    from lasthop.showing.figures import plot

    kind, size = wanted.get("kind", "line"), wanted.get("size", "column")
    if kind not in ("line", "cdf"):
        raise Refused(f"invalid value `{kind}` for `kind`: expected line, cdf")
    if not isinstance(size, str):
        raise Refused(f"invalid value `{size}` for `size`: expected the name of a size")
    if not isinstance(wanted.get("metric"), str):
        raise Refused("missing `metric`: expected the full name of a metric")
    figure = plot(
        values,
        y=wanted["metric"],
        x="alternative" if kind == "line" else None,
        kind=kind,
        size=size,
        xlabel="" if kind == "line" else None,
    )
    return picture(figure, wanted.get("format", "svg"))


def draw_trace(found: Trace, wanted: Mapping[str, Any]) -> bytes:
    """A figure of one replication; `wanted` as for `draw`, with `link`, `start` and `end`.

    Raises:
        Refused: If there is no such figure.
    """
    from lasthop.showing.figures import plot

    kind = wanted.get("kind")
    if kind not in ("series", "sequence", "ladder"):
        raise Refused(f"invalid value `{kind}` for `kind`: expected series, sequence, ladder")
    times: dict[str, float | None] = {}
    for name in ("start", "end"):
        value = wanted.get(name)
        if value is not None and not isinstance(value, (int, float)):
            raise Refused(f"invalid value `{value}` for `{name}`: expected seconds")
        times[name] = None if value is None else max(float(value), 0.0)
    figure = plot(
        found,
        kind=kind,
        size=str(wanted.get("size", "full")),
        link=wanted.get("link") if kind == "ladder" else None,
        start=times["start"],
        end=times["end"],
    )
    return picture(figure, wanted.get("format", "svg"))


def picture(figure: Figure, suffix: Any) -> bytes:
    """A figure as the bytes of a file.

    Raises:
        Refused: If there is no such format.
    """
    from matplotlib import rc_context

    from lasthop.showing.figures import style

    if not isinstance(suffix, str) or suffix not in style.FORMATS:
        raise Refused(f"invalid value `{suffix}` for `format`: expected {', '.join(style.FORMATS)}")
    body = io.BytesIO()
    with rc_context({"svg.hashsalt": "lasthop", "pdf.fonttype": 42}):
        figure.savefig(
            body,
            format=suffix,
            dpi=max(figure.get_dpi(), 150),
            metadata=style.FORMATS[suffix],
        )
    return body.getvalue()
