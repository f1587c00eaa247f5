"""The commands of the tutorial and of the notebook work as their text describes."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def environment(folder: Path) -> dict[str, str]:
    """An environment whose command `lasthop` is the package under test."""
    command = folder / "bin" / "lasthop"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lasthop "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "MPLBACKEND": "Agg"}


@pytest.mark.slow
def test_the_tutorial_runs_from_its_first_command_to_its_figure(tmp_path: Path) -> None:
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(page)
    assert len(blocks) == page.count("```") // 2 >= 6
    known = environment(tmp_path)
    outputs = []
    for language, block in blocks:
        shell = ["bash", "-euo", "pipefail", "-c", block]
        command = shell if language == "sh" else [sys.executable, "-W", "error", "-c", block]
        done = subprocess.run(
            command, cwd=tmp_path, env=known, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, block + done.stdout + done.stderr
        outputs.append(done.stdout)
    for name in ("my-link.png", "sequence.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "my-link.pcapng").stat().st_size > 10_000
    # Statements of the text about the output.
    assert re.search(r"largest frame 552 B: .* loss probability 2\.61 %", outputs[0])
    assert re.search(r"\(radio\) .* 9\.0 full packets", outputs[0])
    assert "TCP cubic, profile linux: " in outputs[0]
    assert "8 points" in outputs[0]
    assert "my-link.toml: valid, 8 points" in outputs[2]


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    pytest.importorskip("marimo", reason="marimo is not installed: see pyproject.toml, dev")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/notebook.py")],
        cwd=tmp_path,
        env={**environment(tmp_path), "LASTHOP_REPLICATIONS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_jupyter_notebook_runs_and_shows_tables_and_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LASTHOP_REPLICATIONS", "2")
    notebook = json.loads((ROOT / "examples/notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict[str, object] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        body = ast.parse("".join(cell["source"]))
        # Like Jupyter, displays the value of the last expression.
        last = body.body.pop()
        assert isinstance(last, ast.Expr)
        exec(compile(body, "cell", "exec"), names)
        shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    for one in shown:
        assert hasattr(one, "_repr_html_") or hasattr(one, "_repr_png_")
    assert sum(hasattr(one, "_repr_png_") for one in shown) == 2


def test_pages_can_be_read_without_a_build() -> None:
    """Every object that autodoc documents on a page is also described there in Markdown."""
    for page in (ROOT / "docs" / f"{name}.md" for name in ("python", "campaigns", "reports")):
        text = page.read_text(encoding="utf-8")
        built = re.findall(r"```{eval-rst}(.*?)```", text, re.DOTALL)
        rest = re.sub(r"```{eval-rst}.*?```", "", text, flags=re.DOTALL)
        for name in re.findall(r"\.\. auto\w+:: ([\w.]+)", "".join(built)):
            assert name.rpartition(".")[2] in rest, f"{page.name}: {name}"
