"""Results that are drawn in tests, and the contents of their figures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lasthop.evaluating.results import Point, Results
from lasthop.evaluating.statistics import Floats

DELAY = "link.radio.delay"
VARIANT = "flow.transfer.transport.variant"
GOODPUT = "flow.transfer.goodput_bps"


def made(
    delays: Sequence[object] = ("10 ms", "100 ms"), variants: Sequence[object] = ("reno", "sack")
) -> Results:
    """Normal samples with means of 100 kbps and 200 kbps, 12 replications each."""
    settings = list(itertools.product(delays, variants))
    random = np.random.default_rng(1)
    means = [1e5 * (1 + index % 2) for index in range(len(settings))]
    values = np.concatenate([random.normal(mean, 5e3, 12) for mean in means])
    return Results(
        scenario={"name": "made"},
        points=[
            Point({DELAY: delay, VARIANT: variant}, str(index))
            for index, (delay, variant) in enumerate(settings)
        ],
        metrics=[GOODPUT, "link.radio.forward.frame_loss"],
        point=np.repeat(np.arange(len(settings), dtype=np.uint32), 12),
        replication=np.tile(np.arange(12, dtype=np.uint64), len(settings)),
        values=np.stack([values, np.full(values.size, 0.05)], axis=-1),
        seed=1,
    )


def bars(axes: Axes) -> dict[str, ErrorbarContainer]:
    return {
        str(one.get_label()): one for one in axes.containers if isinstance(one, ErrorbarContainer)
    }


def xs(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_xdata(), dtype=np.float64)


def ys(line: Line2D | None) -> Floats:
    assert line is not None
    return np.asarray(line.get_ydata(), dtype=np.float64)


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for one in figure.legends for text in one.get_texts()]
