"""Public function for advice on a link."""

from __future__ import annotations

from collections.abc import Callable

from lasthop.evaluating.advise.advice import Advice, Options
from lasthop.evaluating.advise.race import Race
from lasthop.evaluating.advise.space import PROTOCOLS, kind_of
from lasthop.running.campaign import Campaign
from lasthop.scenarios.arguments import ArgumentError
from lasthop.scenarios.arguments import unknown as unknown_name
from lasthop.scenarios.scenario import Scenario

__all__ = ["advise"]


def advise(
    scenario: Scenario,
    want: str,
    campaign: Campaign,
    *,
    link: str | None = None,
    options: Options | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Advice:
    """Selects the best link protocol and its parameters, or the best point of a sweep.

    Args:
        scenario: Link and traffic. The points of a sweep, if any, are the candidates instead of
            link protocols.
        want: Objectives and constraints; see `lasthop.advise.objectives`.
        campaign: Campaign that stores the replications.
        link: Link to optimise; None: the only one that loses frames.
        options: Options of the race.
        progress: Called regularly with (finished replications, minimum total replications).

    Raises:
        ArgumentError: If an objective, the link or an option is invalid.
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If a replication cannot be finished.
    """
    options = options or Options()
    if len(scenario.points()) != 1:
        if link is not None or options.protocols or options.transports:
            raise ArgumentError(
                "the scenario has a sweep, whose points are the candidates: expected no link, "
                "protocol or transport"
            )
        return Race(scenario, None, want, campaign, options, progress).run()
    link = _link(scenario, link)
    for kind in options.protocols:
        if kind not in PROTOCOLS:
            raise ArgumentError(unknown_name("protocol", kind, PROTOCOLS))
    return Race(scenario, link, want, campaign, options, progress).run()


def _link(scenario: Scenario, link: str | None) -> str:
    links = scenario.to_dict().get("link", {})
    if link is not None:
        if link not in links:
            raise ArgumentError(unknown_name("link", link, links))
        return link
    lossy = [name for name, one in links.items() if kind_of(one.get("errors")) != "none"]
    if len(lossy) != 1:
        raise ArgumentError(
            f"missing `link`: {len(lossy)} links lose frames: expected one of {', '.join(links)}"
        )
    return str(lossy[0])
