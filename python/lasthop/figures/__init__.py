"""Figures: of results, of one replication, of theory, of studies.

`sources` reads what `lasthop.plot` is given, `selection` decides what is shown; `results`,
`traces`, `sequence` and `ladder` draw it. `studies`,
`overview` and `analysis` draw what their commands ask for; `style` is the look of all. Only
`sources` and `selection` can be imported without matplotlib.
"""

from lasthop.figures.selection import have_scale, key_label, plot, point_words, short_keys
from lasthop.figures.sources import KINDS, OF_TRACES, PlotError, read_table

__all__ = [
    "KINDS",
    "OF_TRACES",
    "PlotError",
    "have_scale",
    "key_label",
    "plot",
    "point_words",
    "read_table",
    "short_keys",
]
