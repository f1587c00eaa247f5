"""Parts of self-contained HTML pages: the style of reports, pictures and templates."""

from __future__ import annotations

import base64
import io
import re
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
import markupsafe
from matplotlib import rc_context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["picture", "style", "template", "text"]


def text(name: str, folder: str = "lasthop.showing") -> str:
    """Returns the text of a file of the package."""
    return (resources.files(folder) / name).read_text(encoding="utf-8")


def template(name: str) -> jinja2.Template:
    """Returns a compiled template of this folder, which escapes all texts."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["code"] = _code
    return environment.from_string(text(name))


def _code(text: str) -> markupsafe.Markup:
    """Returns a text as HTML, with the parts in backquotes as code."""
    parts = re.split(r"`([^`]+)`", text)
    code = markupsafe.Markup("<code>{}</code>")
    return markupsafe.Markup("").join(
        code.format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def style() -> str:
    """Returns the style of the report of a campaign."""
    return text("report.html.jinja").partition("<style>")[2].partition("{%")[0]


def picture(figure: Figure) -> tuple[str, int, int]:
    """Returns a figure as a data URI of an SVG, with its width and height in pixels."""
    data = io.BytesIO()
    with rc_context({"svg.hashsalt": "lasthop"}):
        figure.savefig(data, format="svg", metadata={"Date": None})
    width, height = figure.get_size_inches() * 96
    uri = "data:image/svg+xml;base64," + base64.b64encode(data.getvalue()).decode("ascii")
    return uri, round(width), round(height)
