"""The command `lasthop evaluate`."""

from __future__ import annotations

import functools
import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from lasthop.commands.codes import NOT_MET
from lasthop.commands.common import (
    AcceptVersion,
    ClusterOption,
    DryRun,
    Folder,
    Jobs,
    campaign_of,
    cluster_of,
    ended,
    note,
    note_campaign,
    options,
    planning,
    print_line,
    print_plan,
    running,
    writable,
    write,
)
from lasthop.commands.declarations import Argument, Option
from lasthop.commands.values import BadInput, as_path
from lasthop.evaluating.suite import prepare, suites
from lasthop.evaluating.verdicts import judge, observe
from lasthop.running.replications import run_points
from lasthop.scenarios.arguments import unknown
from lasthop.showing.evaluation import markdown, pages

__all__ = ["evaluate"]


class Output(StrEnum):
    """Output formats of `evaluate`."""

    html = "html"
    json = "json"
    md = "md"


def evaluate(
    senders: Annotated[
        list[str],
        Argument(
            metavar="SENDER...",
            help="TCP's VARIANT, FILE.py:CLASS (a congestion control in Python), both also with "
            "@PROFILE (default: linux), quic, or quic:VARIANT; with --suite aqm: kind of a queue.",
        ),
    ],
    *,
    suite: Annotated[
        str, Option(metavar="NAME", help="Evaluation suite; see `lasthop list suites`.")
    ] = "wireless",
    against: Annotated[
        str | None,
        Option(
            metavar="SENDER,...",
            help="Baselines; the first one is the reference of the bounds. Default: those of the "
            "suite, cubic,reno or, for queues, drop-tail,codel.",
        ),
    ] = None,
    family: Annotated[
        list[str] | None,
        Option(metavar="NAME", help="Run only this family of scenarios. Repeatable."),
    ] = None,
    replications: Annotated[int, Option(min=2, help="Replications per point.")] = 10,
    seed: Annotated[int, Option(min=0, help="Master seed.")] = 1,
    jobs: Jobs = 0,
    cluster: ClusterOption = None,
    store: Folder = None,
    dry_run: DryRun = False,
    accept_version: AcceptVersion = False,
    output: Annotated[
        Output,
        Option(
            "--format",
            help="html: a page for each sender and one comparison, in --out; json, md: printed.",
        ),
    ] = Output.html,
    out: Annotated[
        Path | None,
        Option(
            parser=as_path, metavar="DIR", help="Folder of the pages; default: results/evaluate."
        ),
    ] = None,
) -> int:
    """Evaluate senders by a suite of scenarios, in comparison with baselines.

    Prints the criteria that fail; the exit code is 5 if any.
    """
    if suite not in suites():
        raise BadInput(unknown("suite", suite, suites(), "--suite"))
    with options():
        chosen = suites()[suite].only(family or [])
    against = against or ",".join(chosen.baselines)
    with options():
        baselines = [chosen.tested(text.strip()) for text in against.split(",")]
        tested = [chosen.tested(text) for text in dict.fromkeys(senders)]
    prepared = prepare(chosen, tested, baselines)
    campaign = campaign_of(store, accept_version=accept_version)
    if dry_run:
        with options(), planning(campaign) as planned:
            request = planned.plan_points(
                prepared.points, replications=replications, seed=seed, jobs=jobs
            )
        return print_plan(request, as_json=output is Output.json)
    folder = writable(out or Path("results/evaluate")) if output is Output.html else None
    with options(), cluster_of(cluster, jobs) as workers, running(suite) as progress:
        if workers is not None:
            campaign = campaign_of(store, accept_version=accept_version, cluster=workers)
        run = (
            functools.partial(run_points, cluster=workers)
            if campaign is None
            else campaign.run_points
        )
        results = run(
            prepared.points,
            replications=replications,
            seed=seed,
            parameters=prepared.labels,
            jobs=jobs,
            progress=progress,
        )
    note_campaign(campaign)
    observed = observe(prepared, seed=seed) if chosen.observes else None
    found = judge(prepared, results, observed)
    for (key, name), reason in prepared.refused.items():
        note(f"lasthop: {name} is not run in family {key}: {reason}")
    match output:
        case Output.json:
            print_line(json.dumps(found.to_dict(), allow_nan=False, ensure_ascii=False, indent=2))
        case Output.md:
            print_line(markdown(found))
        case Output.html if folder is not None:
            words = ["lasthop", "evaluate", *senders, "--suite", suite, "--against", against]
            words += [f"--family={one}" for one in family or []]
            words += ["--replications", str(replications), "--seed", str(seed)]
            for name, text in pages(found, shlex.join(words)).items():
                path = folder / f"{name}.html"
                write(path, text)
                print_line(f"{path}")
        case _:
            pass
    for cell in found.cells:
        if cell.verdict == "fail":
            found_value = f"{cell.ratio:.3g} × {cell.baseline}"
            if cell.criterion.absolute:
                found_value = cell.criterion.in_words(cell.value.mean)
            note(
                f"{cell.sender} fails {cell.criterion.id} at {cell.name}: {found_value}, expected "
                f"{cell.criterion.bound}"
            )
    code = ended(complete=results.complete, finished=results.rows, campaign=campaign)
    return code or (NOT_MET if found.failed else code)
