"""The page of published measurements has the numbers that the tool computes."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "published.md").read_text(encoding="utf-8").splitlines()


def _tool() -> Any:
    path = ROOT / "tools" / "compare_published.py"
    spec = importlib.util.spec_from_file_location("compare_published", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
QUICK = [("ware-cubic", 0), ("ware-cubic", 5), ("ware-reno", 2)]
QUICK += [("loss-cubic", 3), ("window-cubic", 1)]
SLOW = [("prague", 2), ("marking", 1), ("several", 2), ("standing", 0)]


@pytest.mark.parametrize(
    ("key", "place"), [*QUICK, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)]
)
def test_a_row_of_the_page_is_computed_again(key: str, place: int) -> None:
    (row,) = TOOL.rows(TOOL.tables()[key], place)
    assert row in PAGE


@pytest.mark.parametrize("key", sorted(TOOL.tables()))
def test_every_published_value_is_on_the_page(key: str) -> None:
    table = TOOL.tables()[key]
    start = PAGE.index(f"## {table['title']}")
    rows = [line for line in PAGE[start:] if line.startswith("| ")]
    heads = [row.split(" | ")[:2] for row in rows[1 : 1 + len(table["points"])]]
    expected = zip(table["points"], table["published"], strict=True)
    assert heads == [
        [f"| {point}", value if isinstance(value, str) else f"{value:g}"]
        for point, value in expected
    ]
