"""Published studies: their grids, tables, figures and claims.

`study` reads the folders under `lasthop/papers` and reproduces them; `artefacts` lays tables and
figures out; `claims` reads what a paper claims, `verdicts` judges it, `report` holds what came out;
`models` has their theory; `sensitivity` varies what papers leave open.
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
