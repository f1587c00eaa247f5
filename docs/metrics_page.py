"""Writes the page of all metrics, from the list that the engine declares."""

from lasthop.evaluating.metric import Metric, metrics

HEADINGS = {
    "flow": "Flows, `flow.NAME`",
    "flows": "All flows, `flows`",
    "link": "Directions of links, `link.NAME.forward` and `link.NAME.reverse`",
    "wlan": "Wireless LANs, `wlan.NAME`",
    "agent": "Agents, `agent.LINK`",
}
UNITS = {"%": "fraction", "": "count"}


def page() -> str:
    """The page, in Markdown."""
    parts = [
        "# Metrics\n",
        "The metrics of a replication, listed by `lasthop list metrics` and `lasthop.metrics()`. "
        "Names end with the unit. Fractions are between 0 and 1, all other values at least 0. A "
        "metric that does not apply is NaN. *Several* is the aggregation over several flows, links "
        "or agents. Those marked in *window* are also reported for [windows](windows.md).\n",
    ]
    for entity, heading in HEADINGS.items():
        parts.append(f"## {heading}\n")
        parts.append(
            "| metric | unit | better | several | window | meaning |\n|---|---|---|---|---|---|"
        )
        parts += [_row(one) for one in metrics() if one.entity == entity]
        parts.append("")
    return "\n".join(parts)


def _row(one: Metric) -> str:
    better = "" if one.preferred == "neither" else one.preferred
    unit = UNITS.get(one.unit, one.unit)
    window = "yes" if one.windowed else ""
    return f"| `{one.name}` | {unit} | {better} | {one.aggregation} | {window} | {one.about} |"
