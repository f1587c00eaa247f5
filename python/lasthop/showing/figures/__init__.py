"""Figures of results, of one replication, of analytical models and of studies.

`sources` reads the argument of `lasthop.plot`, `selection` selects the data; `results`, `traces`,
`sequence` and `ladder` draw it. `studies`, `overview` and `analysis` draw the figures of their
commands; `style` defines the common style. Only `sources` and `selection` can be imported without
matplotlib.
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
