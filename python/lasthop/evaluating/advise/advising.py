"""Advice on a link: the front of the race."""

from __future__ import annotations

from collections.abc import Callable

from lasthop.evaluating.advise.advice import Advice, Options
from lasthop.evaluating.advise.race import Race
from lasthop.evaluating.advise.space import PROTOCOLS, kind_of
from lasthop.running.campaign import Campaign
from lasthop.scenarios.arguments import ArgumentError
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
    """Says which protocol, with which parameters, serves a link and its traffic best.

    Args:
        scenario: Link and traffic, without a sweep.
        want: Objectives and constraints; see `lasthop.advise.wants`.
        campaign: Where replications are kept.
        link: The link to treat; the only one that loses frames if None.
        options: How to search.
        progress: Called with (replications done, replications certain) now and then.

    Raises:
        ArgumentError: If what is wanted, the link or an option is not right.
        lasthop.ScenarioError: If the scenario is refused.
        lasthop.RunError: If a replication cannot be finished.
    """
    options = options or Options()
    if len(scenario.points()) != 1:
        raise ArgumentError(
            "scenario: found a sweep; allowed: one point, as the race varies the protocol"
        )
    link = _link(scenario, link)
    unknown = [kind for kind in options.protocols if kind not in PROTOCOLS]
    if unknown:
        raise ArgumentError(f"protocol: found {unknown[0]!r}; allowed: {', '.join(PROTOCOLS)}")
    return Race(scenario, link, want, campaign, options, progress).run()


def _link(scenario: Scenario, link: str | None) -> str:
    links = scenario.to_dict().get("link", {})
    if link is not None:
        if link not in links:
            raise ArgumentError(f"link: found {link!r}; allowed: {', '.join(links)}")
        return link
    lossy = [name for name, one in links.items() if kind_of(one.get("errors")) != "none"]
    if len(lossy) != 1:
        raise ArgumentError(
            f"link: found {len(lossy)} links that lose frames; allowed: one of {', '.join(links)}"
        )
    return str(lossy[0])
