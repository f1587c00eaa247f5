"""Self-contained HTML report of live runs, or of a recording.

Like the report of a campaign, the page needs no network and shows pictures without script.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import platform
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2

from lasthop import _lasthop
from lasthop.running.live.outcome import Outcome
from lasthop.running.live.repeated import table
from lasthop.running.live.session import links_of, without_flow
from lasthop.running.live.words import rate
from lasthop.showing import embedded
from lasthop.showing.live_timeline import conversation_name, draw, timelines

if TYPE_CHECKING:
    from lasthop.running.live.expect import Finding

__all__ = ["page"]

# Runs with timelines; the table contains all runs.
MOST_TIMELINES = 20
DELAY_COLUMNS = ("mean", "p50", "p95", "p99", "max")


def page(
    scenario: Mapping[str, Any],
    outcomes: Sequence[Outcome],
    summaries: Sequence[Mapping[str, Any]],
    *,
    findings: Sequence[Finding] = (),
    command: str = "",
) -> str:
    """Returns the page.

    Args:
        scenario: Tables of the scenario.
        outcomes: Results of each run, with samples.
        summaries: Summary of each run.
        findings: Results of expectations.
        command: Command line.

    Returns:
        HTML.
    """
    first = summaries[0]
    facts = [
        (
            "Duration",
            ", ".join(f"{one['time']:.1f} s" for one in summaries[:3])
            + (" …" if len(summaries) > 3 else ""),
        ),
        ("Seed", str(first.get("seed", "–"))),
        ("Replications", _ranges([one.get("replication", 0) for one in summaries])),
        ("lasthop", _lasthop.__version__),
        ("Kernel", f"{platform.system()} {platform.release()}"),
    ]
    runs = [
        _run(scenario, outcome, summary)
        for outcome, summary in list(zip(outcomes, summaries, strict=True))[:MOST_TIMELINES]
    ]
    return _template().render(
        title=str(scenario.get("name", "Live run")),
        version=_lasthop.__version__,
        facts=facts,
        complete=all(one["complete"] for one in summaries),
        findings=findings,
        repeated=table(summaries) if len(summaries) > 1 else None,
        runs=runs,
        command=command,
        scenario=json.dumps(without_flow(scenario), indent=2, ensure_ascii=False),
        style=embedded.style(),
        charts=_charts(),
    )


def _ranges(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


@functools.cache
def _template() -> jinja2.Template:
    """Compiles the template once per process."""
    return embedded.template("live_report.html.jinja")


def _charts() -> dict[str, str]:
    """Returns the script of the charts, its hash for the content security policy, and the style."""
    vendor = resources.files("lasthop.page") / "static" / "vendor"
    library = (vendor / "uplot-1.6.32.iife.min.js").read_text(encoding="utf-8")
    script = f"{library.strip()}\n{embedded.text('timeline.js').strip()}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    style = (vendor / "uplot-1.6.32.min.css").read_text(encoding="utf-8")
    return {"script": script, "hash": f"sha256-{digest}", "style": style}


def _run(
    scenario: Mapping[str, Any], outcome: Outcome, summary: Mapping[str, Any]
) -> dict[str, Any]:
    pictures = []
    for data in timelines(links_of(scenario), outcome) if outcome.samples else []:
        uri, width, height = embedded.picture(draw(data))
        pictures.append({"data": data, "uri": uri, "width": width, "height": height})
    times = [sample["time"] for sample in outcome.samples]
    gap = times[-1] / len(times) if times else 0.0
    name = f"replication {summary.get('replication', 0)}, {summary['time']:.1f} s"
    if "failure" in summary:
        name += f", {summary['failure']}"
    return {
        "name": name,
        "timelines": pictures,
        "interval": f"{gap:.1f} s",
        "tables": list(_tables(outcome, summary)),
        "notes": summary.get("notes", []),
    }


def _tables(outcome: Outcome, summary: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yields the tables of a run: programs, packets, delays, conversations."""
    directions = summary["directions"]
    rows: list[tuple[str, ...]]
    names: tuple[str, ...]
    heads: tuple[str, ...]
    if summary.get("programs"):
        rows = [
            (one["host"], shlex.join(one["argv"]), "–" if one["code"] is None else str(one["code"]))
            for one in summary["programs"]
        ]
        yield _table("Programs", ("host", "program", "exit code"), rows)

    def place(one: Mapping[str, Any]) -> tuple[str, str]:
        ends = f"{one['from']} → {one['to']}" if "from" in one else ""
        return one["link"], f"{one['direction']} {ends}".strip()

    names = ("offered", "delivered", "drops", "discarded", "frames", "lost", "repaired")
    names = (*names, "retransmissions")
    rows = [
        (
            *place(one),
            rate(one["delivered_bytes"] * 8 / summary["time"]) if summary["time"] else "–",
            *(str(one.get(name, "–")) for name in names),
        )
        for one in directions
    ]
    heads = ("link", "direction", "goodput", "packets offered", "delivered", "dropped by the queue")
    heads = (*heads, "discarded by the link", "frames", "lost on the air", "repaired")
    yield _table(
        "Packets",
        (*heads, "link retransmissions"),
        rows,
        "Repaired: frames lost on the air without loss of a packet. Discarded: packets that the "
        "link neither delivered nor still held at the end.",
    )
    rows = []
    for one in directions:
        for name, title in (("delay", "one-way delay"), ("queueing", "time in the queue")):
            if one.get(name):
                rows.append((*place(one), title, *_milliseconds(one[name])))
    for link, part in summary["round_trips"].items():
        if part:
            rows.append((link, "both", "RTT under load", *_milliseconds(part)))
    if rows:
        titles = ("mean", "median", "95 %", "99 %", "maximum")
        yield _table("Delays in ms", ("link", "direction", "delay", *titles), rows)
    rows = [
        (
            one["link"],
            conversation_name(talk, outcome.addresses),
            f"{talk['bytes'] / 1e3:.1f}",
            rate(talk["bytes"] * 8 / summary["time"]),
        )
        for one in directions
        for talk in sorted(one.get("conversations", []), key=lambda talk: -talk["bytes"])[:10]
    ]
    if rows:
        yield _table("Traffic of programs", ("link", "conversation", "kB", "mean rate"), rows)
    if summary["changes"]:
        rows = [
            (one["text"], str(number), f"{one['time']:.3f} s")
            for number, one in enumerate(summary["changes"], 1)
        ]
        yield _table("Changes during the run", ("change", "number", "time"), rows)


def _milliseconds(part: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(f"{part[f'{name}_s'] * 1e3:.1f}" for name in DELAY_COLUMNS)


def _table(
    title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> dict[str, Any]:
    # Columns of text before those of numbers.
    texts = 1 if title.startswith("Changes") else 3 if title.startswith("Delays") else 2
    return {"title": title, "headings": headings, "rows": rows, "note": note, "texts": texts}
