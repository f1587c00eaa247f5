"""Values that tests compare with the pages of a study: stored means, its advice, its claims."""

import re
from pathlib import Path

from lasthop.studies import Study

PAPERS = Path(__file__).parent.parent / "python" / "lasthop" / "papers"

#: Means by table, first cell of the row and column.
Means = dict[tuple[str, int, str], float]


def means(study: str) -> Means:
    """The means in the results.md of a study."""
    found: Means = {}
    table, columns = "", []
    for line in (PAPERS / study / "results.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.replace("\\|", "¦").strip("|").split("|")]
        if line.startswith("## "):
            table = line[3:].split(". ")[0]
        elif re.match(r"\| (loss|Stations|period)", line):
            columns = cells[1:]
        elif re.match(r"\| \d+ \|", line):
            for column, cell in zip(columns, cells[1:], strict=True):
                found[table, int(cells[0]), column] = float(cell.split(" ")[0])
    return found


def advice(study: str) -> str:
    """The section Advice of a study's README.md."""
    text = (PAPERS / study / "README.md").read_text(encoding="utf-8")
    return text.split("## Advice")[1].split("## Limitations")[0]


def check_claims(study: Study, letter: str) -> None:
    """Checks 12 claims, each written with its refutation and not reworded."""
    assert [claim.id for claim in study.claims] == [f"{letter}{n}" for n in range(1, 13)]
    assert all(claim.refuted_by and claim.reworded is None for claim in study.claims)
