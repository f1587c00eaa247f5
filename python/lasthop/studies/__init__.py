"""Published studies: their grids, tables, figures and claims.

`study` reads the folders under `lasthop/papers` and reproduces them. `artefacts` defines tables and
figures; `claims` reads the claims of a paper, `verdicts` judges them, `report` holds the results.
`models` has the analytical models; `sensitivity` varies open choices of papers.
"""

from lasthop.studies.study import (
    Artefact,
    Change,
    Highlight,
    Quantity,
    Report,
    ReportCell,
    Sensitivity,
    Study,
    StudyError,
    studies,
)

__all__ = [
    "Artefact",
    "Change",
    "Highlight",
    "Quantity",
    "Report",
    "ReportCell",
    "Sensitivity",
    "Study",
    "StudyError",
    "studies",
]
