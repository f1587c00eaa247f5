"""Sphinx configuration.

The scenario reference is generated from the model that reads scenarios, the time sequences on the
pages of link protocols from runs of the scenarios in `links/scenarios`, the figures on the page
about plotting by the commands that it shows, figures of studies by reproducing them.
"""

import contextlib
import importlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
import numpy as np
from docutils import nodes
from matplotlib.figure import Figure
from myst_nb.core.read import read_myst_markdown_notebook
from sphinx.application import Sphinx

import lasthop
from lasthop import _lasthop, advise, fit
from lasthop import commands as cli
from lasthop.evaluating.fit.models.gilbert_elliott import GilbertElliott
from lasthop.showing.figures.advice import draw_advice
from lasthop.showing.figures.fit import draw_fit
from lasthop.showing.figures.studies import draw_figure
from lasthop.showing.figures.style import save
from lasthop.studies import studies

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
(HERE / "commands.md").write_text(importlib.import_module("commands_page").page(), encoding="utf-8")
(HERE / "links" / "profiles.md").write_text(
    importlib.import_module("profiles_page").page(), encoding="utf-8"
)
(HERE / "metrics.md").write_text(importlib.import_module("metrics_page").page(), encoding="utf-8")
(HERE / "scenario-reference.md").write_text(_lasthop.reference_markdown(), encoding="utf-8")

# A picture shows the link "radio" from its first frame to the end of the run.
pages = "".join(page.read_text(encoding="utf-8") for page in (HERE / "links").glob("*.md"))
pictures = HERE / "_generated" / "links"
pictures.mkdir(parents=True, exist_ok=True)
for name in sorted(set(re.findall(r"_generated/links/([\w-]+)\.svg", pages))):
    scenario = lasthop.load(HERE / "links" / "scenarios" / f"{name}.toml")
    trace = lasthop.trace(scenario)
    start, end = trace.transmissions["start_s"].min(), _lasthop.seconds(scenario["run.duration"])
    picture = trace.plot_link("radio", start=max(start - 0.02 * (end - start), 0.0), end=end)
    save(picture, pictures / name, "svg")

# Windows of each TCP variant with the same losses.
variant_pictures = importlib.import_module("variant_pictures")
pictures = HERE / "_generated" / "tcp"
pictures.mkdir(parents=True, exist_ok=True)
pages = "".join(page.read_text(encoding="utf-8") for page in (HERE / "tcp").glob("*.md"))
pages += (HERE / "links" / "loss-notification.md").read_text(encoding="utf-8")
for name in re.findall(r"_generated/tcp/([\w-]+)\.svg", pages):
    save(variant_pictures.picture(name), pictures / name, "svg")

# The commands on the page about plotting are run.
figures = HERE / "_generated" / "plots"
figures.mkdir(parents=True, exist_ok=True)
shutil.copy(HERE / "plots" / "loss.toml", figures)
page = (HERE / "plotting.md").read_text(encoding="utf-8")
said = io.StringIO()
with (
    contextlib.chdir(figures),
    contextlib.redirect_stdout(said),
    contextlib.redirect_stderr(said),
):
    for command in re.findall(r"^lasthop (.*loss.*|.*results.*)$", page, re.MULTILINE):
        if cli._main(shlex.split(command, comments=True)) != 0:
            raise RuntimeError(f"plotting.md: lasthop {command}: {said.getvalue()}")

# The picture on the page about measured links, of a log that is drawn here.
(HERE / "_generated" / "fit").mkdir(parents=True, exist_ok=True)
law, matrices = GilbertElliott().matrices(np.array([0.005, 0.05, 0.01, 0.4]))
losses = _lasthop.simulate_losses(
    law.tolist(), matrices.ravel().tolist(), frames=100_000, seed=1, replication=0
)
picture = draw_fit(fit.fit(np.frombuffer(losses, dtype=np.uint8).astype(bool)))
save(picture, HERE / "_generated" / "fit" / "gilbert-elliott", "svg")

# The picture on the page about advice, of a race without its search.
(HERE / "_generated" / "advise").mkdir(parents=True, exist_ok=True)
with tempfile.TemporaryDirectory() as folder:
    advice = advise.advise(
        lasthop.load(HERE / "advise" / "voice-and-file.toml"),
        "transfer.goodput, delay_p99 < 300 ms, residual_loss < 1 %",
        lasthop.Campaign(Path(folder) / "race"),
        options=advise.Options(most=100, trials=0),
    )
save(draw_advice(advice), HERE / "_generated" / "advise" / "voice-and-file", "svg")

# Pictures of the lesson come from its test, which needs a browser; without one there is a note.
pictures = HERE / "_generated" / "lesson"
pictures.mkdir(parents=True, exist_ok=True)
for name in re.findall(r"_generated/lesson/([\w-]+)\.png", (HERE / "lesson.md").read_text("utf-8")):
    if not (pictures / f"{name}.png").exists():
        missing = Figure(figsize=(5.0, 0.6))
        missing.text(0.02, 0.4, "This picture is made by tests/test_lesson.py, in a browser.")
        save(missing, pictures / name, "png")

# The lessons of the course for Jupyter.
(HERE / "_generated" / "course").mkdir(parents=True, exist_ok=True)
for page in (HERE / "course").glob("*.md"):
    text = page.read_text(encoding="utf-8")
    if "file_format: mystnb" in text:
        notebook = read_myst_markdown_notebook(text, path=page)
        nbformat.write(notebook, HERE / "_generated" / "course" / f"{page.stem}.ipynb")

# Figures of studies are computed again, all of a study together, because they share cells.
pages = "".join(page.read_text(encoding="utf-8") for page in HERE.glob("*.md"))
for key, study in studies().items():
    names = set(re.findall(rf"_generated/{key}/([\w-]+)\.svg", pages))
    wanted = [artefact for artefact in study.artefacts if artefact.file_name in names]
    if len(wanted) != len(names):
        raise RuntimeError(f"figures of {key}: {names}")
    if wanted:
        (HERE / "_generated" / key).mkdir(parents=True, exist_ok=True)
        report = study.reproduce([artefact.name for artefact in wanted])
        for artefact in wanted:
            figure = draw_figure(artefact, report.cells)
            save(figure, HERE / "_generated" / key / artefact.file_name, "svg")

project = "Lasthop"
author = "the Lasthop authors"
copyright = "2026, the Lasthop authors"
version = release = lasthop.__version__

extensions = [
    "myst_nb",  # Markdown pages; those of the course are notebooks, which it runs
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas show without a network
]
myst_enable_extensions = ["deflist", "dollarmath", "colon_fence"]
# Examples are copied from the pages: straight quotes and `--` stay.
smartquotes = False
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
nb_merge_streams = True
exclude_patterns = ["_build", "_generated", "examples"]
highlight_language = "none"  # diagrams and output are not programs
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_title = f"Lasthop {version}"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
napoleon_use_ivar = True


def _caption(_app: Sphinx, page: nodes.document) -> None:
    """Shows the descriptions of figures of TCP variants as captions."""
    for image in list(page.findall(nodes.image)):
        paragraph = image.parent
        if "_generated/tcp/" not in image["uri"] or not isinstance(paragraph, nodes.paragraph):
            continue
        place = paragraph.parent.index(paragraph)
        paragraph.remove(image)
        figure = nodes.figure("", image, nodes.caption("", image["alt"]))
        figure["ids"] = [f"picture-{Path(image['uri']).stem}"]
        # Several pictures share a paragraph, with nothing between them.
        paragraph.parent.insert(place, figure)
        if not paragraph.astext().strip():
            paragraph.parent.remove(paragraph)


def setup(app: Sphinx) -> None:
    """Entry point of the Sphinx extension."""
    app.connect("doctree-read", _caption)
