"""Properties of all studies: defined words, complete results, recorded changes of wording."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics import Estimate
from lasthop.running.campaign import Campaign
from lasthop.studies import studies
from lasthop.studies.claims import Claim, Rule
from lasthop.studies.record import original_tally
from lasthop.studies.runs import in_groups
from lasthop.studies.verdicts import judge, tally

PAPERS = Path(__file__).parent.parent / "python" / "lasthop" / "papers"


def test_results_have_no_empty_cells() -> None:
    """A missing number is printed as `–`; only the published half of a cell may be missing."""
    for study in studies().values():
        text = (PAPERS / study.key / "results.md").read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            assert "– ± –" not in line, f"{study.key}, line {number}"
            if not line.startswith("| ") or line.startswith("| id "):
                continue
            cells = [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]
            if cells[0].rstrip("0123456789abcdefghijklmnopqrstuvwxyz") in "SCVWMQ":
                continue
            for cell in cells:
                assert cell, f"{study.key}, line {number}: an empty cell"
                assert not cell.startswith("–"), f"{study.key}, line {number}: {line}"


def test_words_are_defined_once_and_tests_use_them() -> None:
    """Each vague word has one number, and expressions use only defined words."""
    tables = tomllib.loads((PAPERS / "words.toml").read_text(encoding="utf-8"))
    every = [word for table in tables.values() for word in table["words"]]
    assert len(every) == len(set(every))
    assert {name: table["value"] for name, table in tables.items()} == {
        "much": 2.0,
        "slight": 0.1,
        "rough": 0.03,
    }
    for study in studies().values():
        assert study.rule.words == {name: table["value"] for name, table in tables.items()}
        assert study.rule.about in (0.0, study.rule.words["rough"])
    claims = {
        study.key: (PAPERS / study.key / "claims.toml").read_text() for study in studies().values()
    }
    assert "much *" in claims["link-status-notification"]
    assert "slight" in claims["disruption"]


def test_ends_of_ranges_may_be_named_by_words() -> None:
    test = {
        "left": "this",
        "relation": "between",
        "low": "1 - slight",
        "high": "much",
    }
    table = {"id": "X", "text": "x", "where": "x", "test": [test]}
    claim = Claim.from_table(table, words={"slight": 0.1, "much": 2.0})
    (comparison,) = claim.comparisons
    assert (comparison.low, comparison.high) == (0.9, 2.0)


def test_original_wordings_are_counted() -> None:
    """The verdict before a change of wording counts for the original wording, unconditionally."""
    test = {"left": "this", "relation": "greater", "right": "1"}
    plain = {"id": "X", "text": "x", "where": "x", "test": [test]}
    was = {"was": "y", "verdict": "in part (where it holds)", "why": "z"}
    claims = [Claim.from_table(plain), Claim.from_table(plain | {"id": "Y", "reworded": was})]
    rule = Rule(about=0.0, level=0.95, losses=())
    verdicts = list(judge(claims, lambda cell, quantity: Estimate.constant(2.0), {}, rule))
    assert tally(verdicts) == {"reproduced": 2}
    assert original_tally(verdicts) == {"reproduced": 1, "in part": 1}


def test_cells_may_have_replications_of_their_own() -> None:
    """20 runs as in the paper, and 50 if the link retransmits; missing replications are skipped."""
    study = studies()["link-status-notification"]
    figure = {one.name: one for one in study.artefacts}["Figure 17, Reno"]
    counts = {study.replications_of(cell) for cell in study.cells([figure])}
    assert counts == {20, 50}
    points = [Point({"n": number}, "0") for number in range(3)]
    calls = []

    def run(chosen: Sequence[int], count: int) -> Results:
        calls.append((list(chosen), count))
        point = np.repeat(np.arange(len(chosen), dtype=np.uint32), count)
        replication = np.tile(np.arange(count, dtype=np.uint64), len(chosen))
        names = ["a"] if count == 2 else ["b", "a"]
        values = np.full((len(point), len(names)), float(count))
        return Results({}, [points[n] for n in chosen], names, point, replication, values, 1)

    joined = in_groups(points, [2, 4, 2], run)
    assert calls == [([0, 2], 2), ([1], 4)]
    assert joined.complete
    np.testing.assert_array_equal(joined.samples("a", 1), [4, 4, 4, 4])
    np.testing.assert_array_equal(joined.samples("a", 2), [2, 2, np.nan, np.nan])
    assert np.isnan(joined.samples("b", 0)).all()
    assert Estimate.of(joined.samples("a", 2)).n == 2


def test_a_plan_counts_the_replications_of_each_cell(tmp_path: Path) -> None:
    """Figure 17 has 20 replications per cell, and 50 if the link retransmits."""
    study = studies()["link-status-notification"]
    cells = study.cells(study.find(["Figure 17, Reno"]))
    plan = study.plan(Campaign(tmp_path / "c"), ["Figure 17, Reno"])
    assert plan.replications == sum(map(study.replications_of, cells))
    plan = study.plan(Campaign(tmp_path / "c"), ["Figure 17, Reno"], replications=3)
    assert plan.replications == 3 * len(cells)


def test_every_page_that_mentions_lt_tcp_calls_it_a_reconstruction() -> None:
    """Table II of the disruption study is not reproduced within a tenth."""
    root = Path(__file__).parent.parent
    generated = {"scenario-reference.md", "commands.md", "metrics.md"}
    pages = [root / "README.md", *root.glob("docs/**/*.md"), PAPERS / "disruption" / "README.md"]
    mentioned = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if page.name in generated or "_build" in page.parts or "lt-tcp" not in text.lower():
            continue
        mentioned += 1
        assert "reconstruction" in text, page
    assert mentioned > 5


def test_stored_results_have_the_wording_of_claims_and_captions() -> None:
    """A wording that changes in the data of a study must also change in its results.md."""
    for study in studies().values():
        text = (PAPERS / study.key / "results.md").read_text(encoding="utf-8").replace("\\|", "|")
        cells = {cell.strip() for line in text.splitlines() for cell in line.split(" | ")}
        lines = set(text.splitlines())
        for claim in study.claims:
            wording = "<br>".join((claim.text, *(f"*{remark}*" for remark in claim.remarks)))
            assert wording in cells, f"{study.key}, {claim.id}"
        for artefact in study.artefacts:
            assert f"## {artefact.title}" in lines, f"{study.key}, {artefact.name}"
            headings = " | ".join((artefact.axis.heading or artefact.axis.label, *artefact.columns))
            assert f"| {headings} |" in lines, f"{study.key}, {artefact.name}"
        for sentence in study.untested:
            row = f"| {sentence.where} | {sentence.text} | {sentence.reason} |"
            assert row in lines, f"{study.key}, {sentence.text}"
        for choice in study.provenance:
            assert f"| {choice.choice} | {choice.known} |" in lines, f"{study.key}, {choice.choice}"


def test_claims_with_vague_words_have_no_factors_of_their_own() -> None:
    """A claim that says `much` or `slightly` takes its number from words.toml."""
    tables = tomllib.loads((PAPERS / "words.toml").read_text(encoding="utf-8"))
    factors = {
        "much": r"(?<![\w.])(1\.5|2|3) \*|/ 2(?![\w.])",
        "slight": r"(?<![\w.])(0\.9|1\.1|0\.1) \*|/ 10(?![\w.])",
    }
    for study in studies().values():
        for claim in study.claims:
            # "half as much" compares numbers.
            text = claim.text.replace("as much", "").lower()
            for name, factor in factors.items():
                words = "|".join(map(re.escape, tables[name]["words"]))
                if not re.search(rf"\b({words})\b", text):
                    continue
                for one in claim.comparisons:
                    found = re.search(factor, f"{one.left} {one.right}")
                    assert found is None, f"{study.key}, {claim.id}: {found}"
