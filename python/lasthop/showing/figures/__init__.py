"""Figures: of results, of one replication, of theory, of studies.

`sources` reads what `lasthop.plot` is given, `selection` decides what is shown; `results`,
`traces`, `sequence` and `ladder` draw it. `studies`,
`overview` and `analysis` draw what their commands ask for; `style` is the look of all. Only
`sources` and `selection` can be imported without matplotlib.
"""

from lasthop.showing.figures.selection import plot
from lasthop.showing.figures.sources import KINDS, OF_TRACES, PlotError, read_table

__all__ = [
    "KINDS",
    "OF_TRACES",
    "PlotError",
    "plot",
    "read_table",
]
