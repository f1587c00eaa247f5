"""The lessons of the course run, and their answers agree with the computed numbers."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from conftest import ROOT

COURSE = ROOT / "docs" / "course"
LESSONS = ("errors", "arq", "fec", "tcp", "wifi", "measuring")
CELL = re.compile(r"^```\{code-cell\}\n(?::tags: .*\n\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBERED = re.compile(r"^(\d)\. ((?:.+\n)+?)(?=\d\. |\n)", re.MULTILINE)


def test_the_course_has_six_lessons_in_order() -> None:
    index = (COURSE / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[\d\. .*?\]\((\w+)\.md\)", index, re.MULTILINE) == list(LESSONS)
    assert {page.stem for page in COURSE.glob("*.md")} == {"index", *LESSONS}


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_has_three_questions_with_answers(name: str) -> None:
    """Three questions after the figure, and an answer to each, with the number that is checked."""
    text = (COURSE / f"{name}.md").read_text(encoding="utf-8")
    figure, questions, answers = parts(text)
    assert "figure" in figure
    assert [number for number, _ in NUMBERED.findall(questions)] == ["1", "2", "3"]
    assert questions.count("?") >= 3
    assert [number for number, _ in NUMBERED.findall(answers)] == ["1", "2", "3"]


@pytest.mark.slow
@pytest.mark.parametrize("name", LESSONS)
def test_the_answers_of_a_lesson_are_those_that_it_computes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number in bold type is the computed one, rounded to its last digit."""
    monkeypatch.chdir(tmp_path)
    text = (COURSE / f"{name}.md").read_text(encoding="utf-8")
    names = run(text)
    names["figure"].savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    stated = re.findall(r"\*\*([\d.]+)\*\*", parts(text)[2])
    assert 1 <= len(stated) <= len(names["answers"])
    for number, value in zip(stated, names["answers"], strict=False):
        digits = len(number.partition(".")[2])
        # Half a unit of the last digit.
        assert float(number) == pytest.approx(float(value), abs=0.501 * 10.0**-digits), number


def parts(text: str) -> tuple[str, str, str]:
    """The cell of the figure, the questions and the answers of a lesson."""
    _, _, rest = text.partition("\n## Figure\n")
    figure, _, rest = rest.partition("\n## Questions\n")
    questions, _, rest = rest.partition("<details><summary>Answers</summary>\n")
    return figure, questions, rest.partition("</details>")[0]


def run(text: str) -> dict[str, Any]:
    """The variables of a lesson after all its cells."""
    names: dict[str, Any] = {}
    with mpl.rc_context({"backend": "agg"}):
        for cell in CELL.findall(text):
            exec(compile(ast.parse(cell), "lesson", "exec"), names)
    return names
