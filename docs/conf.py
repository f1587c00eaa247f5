"""Sphinx configuration. The scenario reference is generated from the model that reads scenarios."""

from pathlib import Path

import lasthop
from lasthop import _lasthop

HERE = Path(__file__).parent
(HERE / "scenario-reference.md").write_text(_lasthop.reference_markdown(), encoding="utf-8")

project = "Lasthop"
author = "the Lasthop authors"
copyright = "2026, the Lasthop authors"
version = release = lasthop.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
]
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = f"Lasthop {version}"
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
