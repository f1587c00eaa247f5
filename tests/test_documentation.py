"""Paths, names and links in the documentation refer to files, objects and headings that exist."""

from __future__ import annotations

import importlib
import re
import subprocess
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

PAGES = sorted(
    path
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "crates/*/README.md",
        "*/README.md",
        "tools/*/README.md",
        "python/lasthop/papers/*/*.md",
    )
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts and "_generated" not in path.parts
)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Sources, and files in folders of the repository. Other names are names of input or output files.
SOURCE = re.compile(r"[\w*./-]+\.(?:rs|py|pyi|pkt|tcl|patch|mjs)")
FOLDERS = (
    "benches/",
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "papers/",
    "python/",
    "tests/",
    "tools/",
)
PYTHON_NAME = re.compile(r"(lasthop(?:\.[A-Za-z_]\w*)+)(?:\(.*)?")
RUST_NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+(?:\(.*\))?")
# Names of files that a reader or a command creates, and files of other projects.
ELSEWHERE = {
    "figure.py",
    "my_cc.py",
    "my_cc.rs",
    "ns-default.tcl",
    "set_sysctls.py",
    "test_my_cc.py",
    "tcl/http/http.tcl",
    "tools/expoo.cc",
    "tools/pareto.cc",
}
CREATED = ("docs/_build",)
NOT_NAMES = (".json", ".sbatch", ".pbs", ".toml")
GENERATED = {
    *("docs/commands.md", "docs/metrics.md", "docs/scenario-reference.md"),
    "docs/links/profiles.md",
}


@cache
def files() -> list[str]:
    """Files of the repository relative to its root, including uncommitted ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


def exists(path: str, page: Path) -> bool:
    """Whether a path in backquotes names a file, relative to the root or to any folder below it.

    `undo/eifel.rs` matches `crates/lasthop-tcp/src/undo/eifel.rs`: pages name the crate only once.
    """
    if (ROOT / path).exists() or (page.parent / path).exists():
        return True
    return any(fnmatchcase(one, path) or fnmatchcase(one, f"*/{path}") for one in files())


def headings(page: Path) -> set[str]:
    """Anchors of a page, as the documentation derives them from its headings."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).replace("`", "") for one in found)
    return {re.sub(r"[^\w\- ]", "", one.strip().lower()).replace(" ", "-") for one in plain}


def spans(page: Path) -> list[str]:
    """Texts in backquotes, without code blocks."""
    return SPAN.findall(FENCE.sub("", page.read_text(encoding="utf-8")))


def resolve(name: str) -> Any:
    """The object with a dotted name: a module, or an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ModuleNotFoundError(name)


@cache
def rust_words() -> set[str]:
    """Identifiers in the Rust sources of the repository."""
    sources = (ROOT / path for path in files() if path.endswith(".rs"))
    return {word for one in sources for word in re.findall(r"[A-Za-z_]\w*", one.read_text())}


def rust_path(span: str) -> list[str]:
    """The identifiers of a path such as `LinkEndpoint::Own`; empty for other texts."""
    return span.partition("(")[0].split("::") if RUST_NAME.fullmatch(span) else []


def identity(page: Path) -> str:
    """Name of a page in messages."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_paths_of_code_exist(page: Path) -> None:
    missing = []
    for span in spans(page):
        path = span.split("#")[0].rstrip("/")
        is_path = SOURCE.fullmatch(path) or (path + "/").startswith(FOLDERS)
        if not is_path or not re.fullmatch(r"[\w*./-]+", path):
            continue
        if path in ELSEWHERE or path.startswith(CREATED) or re.search(r"\b[A-Z]{2,}\b", path):
            continue
        if not exists(path, page):
            missing.append(path)
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_names_of_the_package_can_be_imported(page: Path) -> None:
    missing = []
    for span in spans(page):
        match = PYTHON_NAME.fullmatch(span)
        if match is None or span.endswith(NOT_NAMES) or (ROOT / span).exists():
            continue
        try:
            resolve(match[1])
        except (AttributeError, ModuleNotFoundError):
            missing.append(match[1])
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_names_of_rust_items_exist(page: Path) -> None:
    found = [parts for span in spans(page) if (parts := rust_path(span))]
    assert not [parts for parts in found if not set(parts) <= rust_words()]


@pytest.mark.parametrize("page", PAGES, ids=identity)
def test_links_between_pages_lead_to_headings(page: Path) -> None:
    broken = []
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link) or "_generated/" in link:
            continue
        path, _, anchor = link.partition("#")
        # Pages of studies are included by pages in docs.
        folder = ROOT / "docs" if "papers" in page.parts else page.parent
        target = (folder / path).resolve() if path else page
        if str(target).removeprefix(f"{ROOT}/") in GENERATED:
            continue
        if not target.exists() or (anchor and anchor not in headings(target)):
            broken.append(link)
    assert not broken


def test_a_wrong_path_name_and_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A heading\n\n`crates/lasthop-tcp/src/absent.rs`, `lasthop.absent.name`\n")
    assert not exists("crates/lasthop-tcp/src/absent.rs", page)
    assert exists("undo/dsack.rs", page)
    assert exists("loss/*.rs", page)
    assert headings(page) == {"a-heading"}
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve("lasthop.absent.name")
    assert rust_path("absent::Name(x)") == ["absent", "Name"]
    assert "LinkEndpoint" in rust_words()
    assert "Absent" + "Name" not in rust_words()
    assert resolve("lasthop.statistics.batch_means").__name__ == "batch_means"
