"""Figures: of results, of one replication, of theory, of studies.

`selection` decides what `lasthop.plot` shows; `results`, `traces` and `ladder` draw it. `studies`,
`overview` and `analysis` draw what their commands ask for; `style` is the look of all. Only
`selection` can be imported without matplotlib.
"""

from lasthop.figures.selection import (
    KINDS,
    OF_TRACES,
    PlotError,
    have_scale,
    key_label,
    plot,
    point_words,
    read_table,
    short_keys,
)

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
