"""Modules that a command may import: imports take most of the time of a short command.

These lists and numbers enforce budgets in multiples of the processor time of `python -c pass`:
`--help` 6, `check` 8, `run` with one replication 12, `import lasthop` 1.5. `benches/start.py`
measures them.
"""

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from lasthop import commands as cli
from lasthop.commands.app import COMMANDS, command
from lasthop.commands.declarations import Group

HEAVY = {"numpy", "polars", "scipy", "matplotlib", "jinja2", "rich", "pandas", "pydantic", "typer"}
REPORT = """
import json, sys
try:
    {statement}
except SystemExit:
    pass
loaded = {{name.partition(".")[0] for name in sys.modules}} | set(sys.modules)
print(json.dumps(sorted(loaded)), file=sys.stderr)
"""


def loaded_by(statement: str) -> set[str]:
    code = REPORT.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def run_of(*arguments: str | Path) -> str:
    words = ["lasthop", *map(str, arguments)]
    return f"import lasthop.commands; sys.argv = {words!r}; lasthop.commands.main()"


def test_importing_the_package_imports_nothing_that_takes_time() -> None:
    loaded = loaded_by("import lasthop")
    assert not loaded & HEAVY
    assert "lasthop._lasthop" not in loaded


def test_names_of_the_package_are_there_when_they_are_used() -> None:
    import lasthop

    for name in lasthop.__all__:
        assert getattr(lasthop, name) is not None
    assert set(lasthop.__all__) <= set(dir(lasthop))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lasthop.nothing  # noqa: B018


def test_no_name_of_the_package_is_a_module_of_it() -> None:
    """Importing a module would replace the name in the package."""
    import lasthop

    modules = {one.name for one in pkgutil.iter_modules(lasthop.__path__)}
    assert "evaluating" in modules
    assert not modules & set(lasthop.__all__)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--version"], []),
        (["--help"], []),
        (["check", "FILE"], []),
        (["schema"], []),
        (["new", "--help"], []),
        (["list", "links"], ["rich"]),
        (["run", "FILE", "--replications", "1"], ["rich"]),
        # With an interval of Student's t.
        (["run", "FILE", "--replications", "3"], ["rich"]),
    ],
    ids=" ".join,
)
def test_a_command_imports_only_what_it_needs(
    arguments: list[str], allowed: list[str], small: Path
) -> None:
    words = [small if word == "FILE" else word for word in arguments]
    loaded = loaded_by(run_of(*words))
    assert loaded & HEAVY <= set(allowed)


def test_an_interval_of_skewed_samples_needs_no_scipy_and_no_table(small: Path) -> None:
    loaded = loaded_by(run_of("run", small, "--replications", "30"))
    assert not loaded & {"scipy", "polars"}
    assert "numpy" in loaded  # for the bootstrap


def test_the_list_of_commands_says_what_their_modules_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = [one.name for one in COMMANDS]
    assert len(set(names)) == len(names)
    for one in COMMANDS:
        found = command(one.name)
        about = found.about if isinstance(found, Group) else found.__doc__
        assert about is not None
        assert " ".join(about.split("\n\n")[0].split()) == one.about
    assert cli._main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name in names:
        assert f" {name} " in printed


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (["--help"], 70),
        (["check", "FILE"], 100),
        (["run", "FILE", "--replications", "1"], 180),
    ],
    ids=["help", "check", "run"],
)
def test_a_short_command_imports_few_modules(arguments: list[str], most: int, small: Path) -> None:
    words = [small if word == "FILE" else word for word in arguments]
    without = loaded_by("pass")
    assert len(loaded_by(run_of(*words)) - without) <= most
