"""Self-contained HTML report of advice: recommendation, reasons, risks, figure, candidates."""

from __future__ import annotations

import functools
import json
import math
from typing import TYPE_CHECKING, Any

from lasthop import _lasthop
from lasthop.evaluating.cells import plus_minus, rounded, value_text
from lasthop.evaluating.metric import metric_label, metric_unit
from lasthop.scenarios.explain import explain
from lasthop.scenarios.scenario import Scenario
from lasthop.showing import embedded
from lasthop.showing.figures.advice import draw_advice
from lasthop.showing.labels import Unit, scaled

if TYPE_CHECKING:
    import jinja2

    from lasthop.evaluating.advise import Advice, Constraint
    from lasthop.evaluating.advise.intervals import Interval

__all__ = ["page"]

LIMITS = (
    "The result applies to this link model, this traffic and these metrics. Energy, memory and "
    "implementation cost are not considered."
)


def page(advice: Advice, scenario: Scenario, *, command: str = "", run: str = "") -> str:
    """Returns the page.

    Args:
        advice: Result of `lasthop.advise.advise`.
        scenario: The scenario of the race, with its traffic.
        command: Command that repeats the comparison; empty: omitted.
        run: Command that runs the recommended configuration; empty: omitted.

    Returns:
        HTML that needs neither network nor script.
    """
    figure = draw_advice(advice)
    uri, width, height = embedded.picture(figure)
    is_alone = len(advice.wants.objectives) == 1 and not advice.wants.constraints
    caption = (
        "Each candidate's objective with its confidence interval, the best at the top. "
        if is_alone
        else "First objective over each bound and further objective. Dashed lines are bounds; the "
        "grey line is the Pareto front of a panel. "
    )
    return _template().render(
        title=f"Advice: {scenario.name or advice.link}",
        version=_lasthop.__version__,
        style=embedded.style(),
        facts=_facts(advice),
        recommendation=_recommendation(advice),
        settings=_settings(advice, scenario),
        measures=_measures(advice),
        reasons=_reasons(advice),
        risks=[*(_sentence(one) for one in advice.warnings), *_margins(advice), LIMITS],
        figure={
            "title": "Comparison" if is_alone else "Pareto front",
            "uri": uri,
            "width": width,
            "height": height,
            "caption": caption + "Hollow candidates were eliminated.",
        },
        candidates=_candidates(advice),
        refused=[_row(name, why) for name, why in advice.refused],
        command=command,
        run=run,
        explained=explain(scenario),
        scenario=json.dumps(scenario.to_dict(), indent=2, ensure_ascii=False),
    )


@functools.cache
def _template() -> jinja2.Template:
    """Compiles the template once per process."""
    return embedded.template("advice_report.html.jinja")


def _row(*cells: str, kind: str = "") -> dict[str, Any]:
    return {"cells": cells, "kind": kind}


def _sentence(text: str) -> str:
    """A line of the terminal as a sentence; names of metrics and protocols are unchanged."""
    begin = text[0].upper() if text.split(maxsplit=1)[0].isalpha() else text[0]
    return f"{begin}{text[1:]}{'' if text.endswith('.') else '.'}"


def _reasons(advice: Advice) -> list[str]:
    """The reasons, without those that the recommendation contains."""
    lines = advice.reasons[1:] if advice.choice is not None else advice.reasons
    found = [_sentence(one) for one in lines if not one.startswith("none is better")]
    return found or ["No candidate was eliminated or close to another."]


def _facts(advice: Advice) -> list[tuple[str, str]]:
    wants = advice.wants
    facts = [
        ("Link", advice.link),
        (
            "Objectives" if len(wants.objectives) > 1 else "Objective",
            ", ".join(
                f"{'maximum' if one.sign > 0 else 'minimum'} {one.word}" for one in wants.objectives
            ),
        ),
    ]
    if wants.constraints:
        facts.append(("Bounds", ", ".join(one.word for one in wants.constraints)))
    return [
        *facts,
        ("Candidates", str(len(advice.standings))),
        ("Replications", f"{advice.replications} (all: {advice.exhaustive})"),
        ("lasthop", _lasthop.__version__),
    ]


def _recommendation(advice: Advice) -> str:
    if advice.choice is None:
        return "No candidate satisfies the bounds: relax one, or change the link."
    protocol, _, setting = advice.choice.candidate.name.partition(" ")
    text = f"Use {protocol}{f' ({setting})' if setting else ''} on link {advice.link}."
    if math.isfinite(advice.within):
        first = advice.wants.objectives[0].word
        text += (
            f" No other candidate is better in {first} by more than "
            f"{rounded(100 * advice.within)} %, with 95 % confidence."
        )
    if advice.wants.constraints and not advice.choice.is_sure:
        text += " It is not certain that it satisfies all bounds."
    return text


def _settings(advice: Advice, scenario: Scenario) -> list[dict[str, Any]]:
    """Rows of the keys that the choice sets, with the present values."""
    if advice.choice is None:
        return []
    resolved = Scenario(json.loads(scenario.points()[0].to_json()))
    rows = []
    for key, value in advice.choice.candidate.changes.items():
        try:
            now = value_text(resolved[key])
        except KeyError:
            now = "default"
        rows.append(_row(key, now, str(value)))
    return rows


def _measures(advice: Advice) -> list[dict[str, Any]]:
    """Rows of the metrics of the choice."""
    if advice.choice is None:
        return []
    bounds = {one.metric: one for one in advice.wants.constraints}
    rows = []
    for name in advice.wants.metrics:
        interval = advice.choice.metrics[name]
        mean, ends = _texts(name, interval)
        bound = bounds.get(name)
        if bound is None:
            rows.append(_row(name, mean, ends, "–", "objective"))
        else:
            sign = "<" if bound.is_upper else ">"
            rows.append(_row(name, mean, ends, f"{sign} {bound.text}", _kept(bound, interval)))
    return rows


def _kept(bound: Constraint, interval: Interval) -> str:
    worst = interval.high if bound.is_upper else -interval.low
    limit = bound.limit if bound.is_upper else -bound.limit
    return "satisfied with 95 % confidence" if worst < limit else "uncertain"


def _texts(name: str, interval: Interval) -> tuple[str, str]:
    """Mean, and interval, in the same unit and with the same number of decimals."""
    ends = [interval.mean, interval.low, interval.high]
    unit = scaled(metric_unit(name), [value for value in ends if math.isfinite(value)])
    suffix = f" {unit.name}" if unit.name else ""
    if math.isnan(interval.mean):
        return "–", "–"
    mean = interval.mean / unit.per
    if not math.isfinite(interval.low) or not math.isfinite(interval.high):
        return f"{rounded(mean)}{suffix}", "–"
    low, high = max(interval.low, 0.0) / unit.per, interval.high / unit.per
    # Two digits of the width.
    decimals = max(1 - math.floor(math.log10(high - low)), 0) if high > low else 2
    return f"{mean:.{decimals}f}{suffix}", f"{low:.{decimals}f} to {high:.{decimals}f}{suffix}"


def _margins(advice: Advice) -> list[str]:
    """Sentences about bounds that the choice satisfies by less than a tenth."""
    lines: list[str] = []
    if advice.choice is None:
        return lines
    for bound in advice.wants.constraints:
        mean = advice.choice.metrics[bound.metric].mean
        if bound.limit > 0.0 and abs(mean - bound.limit) < 0.1 * bound.limit:
            lines.append(
                f"The margin of {bound.word} is {rounded(100 * abs(1 - mean / bound.limit))} % of "
                "the bound: a link that is slightly worse than the model violates it."
            )
    return lines


def _candidates(advice: Advice) -> dict[str, Any]:
    """Headings and rows of all candidates, with one unit per column."""
    metrics = advice.wants.metrics
    units = {
        name: scaled(
            metric_unit(name),
            [
                one.metrics[name].mean
                for one in advice.standings
                if math.isfinite(one.metrics[name].mean)
            ],
        )
        for name in metrics
    }
    rows = []
    for one in advice.standings:
        name = f"{one.candidate.name}{' *' if one.is_front else ''}"
        cells = [_cell(one.metrics[metric], units[metric]) for metric in metrics]
        kind = "choice" if one is advice.choice else "out" if one.ruled_out else ""
        result = "choice" if one is advice.choice else one.ruled_out
        rows.append(_row(name, str(one.replications), *cells, result, kind=kind))
    headings = [units[name].label(f"{metric_label(name)}, {_owner(name)}") for name in metrics]
    return {"headings": ["candidate", "n", *headings, "result"], "rows": rows}


def _owner(name: str) -> str:
    """The flow or link of a metric."""
    return name.partition(".")[2].rpartition(".")[0]


def _cell(interval: Interval, unit: Unit) -> str:
    if math.isnan(interval.mean):
        return "–"
    width = interval.half_width / unit.per if math.isfinite(interval.low) else None
    return plus_minus(interval.mean / unit.per, width)
