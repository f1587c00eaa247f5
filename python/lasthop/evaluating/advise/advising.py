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
    """Selects the best link protocol and its parameters for a link and its traffic.

    Args:
        scenario: Link and traffic, without a sweep.
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
        raise ArgumentError(
            "the scenario has a sweep: expected one point, because the race varies the protocol"
        )
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
