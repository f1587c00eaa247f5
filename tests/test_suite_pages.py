"""Each evaluation suite has a page with its families, criteria, bounds and gaps."""

from pathlib import Path

import pytest

from lasthop.evaluating.suite import Suite, suites

FOLDER = Path(__file__).parent.parent / "docs" / "suites"


def rows(suite: Suite) -> list[str]:
    """Returns the table of a suite, one line per criterion."""
    return [
        f"| `{one.family}` | {suite.families[one.family].title} | {one.question} "
        f"| {one.bound or 'number'} |"
        for one in suite.criteria
    ]


@pytest.mark.parametrize("key", sorted(suites()))
def test_the_page_has_the_criteria_and_gaps_of_the_suite(key: str) -> None:
    suite = suites()[key]
    lines = (FOLDER / f"{key}.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("| `")]
    assert table == rows(suite)
    assert {one.family for one in suite.criteria} == set(suite.families)
    gaps = lines[lines.index("## Not tested") :]
    assert [line[2:] for line in gaps if line.startswith("- ")] == suite.not_tested


def test_every_page_belongs_to_a_suite() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} - {"index"} == set(suites())
