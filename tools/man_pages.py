"""Writes the man pages lasthop(1) and lasthop-scenario(5).

Usage: python tools/man_pages.py FOLDER

The pages are made of the commands and of the scenario model of the installed package. FOLDER gets
`man1` and `man5`. Maturin adds the files below `lasthop._lasthop.data` to wheels: `make wheel`
writes the pages to its folder `data/share/man`. Needs the extra `docs`.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from lasthop import _lasthop

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

CONFIGURATION = """
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist", "dollarmath"]
project = "Lasthop"
author = "the Lasthop authors"
release = version = {version!r}
highlight_language = "none"
# Pages of the documentation, which man pages only name.
suppress_warnings = ["myst"]
man_pages = [
    ("commands", "lasthop", "simulates error recovery over lossy links", author, 1),
    ("scenario-reference", "lasthop-scenario", "scenario files of lasthop", author, 5),
]
"""


def main(folder: str) -> None:
    """Writes the pages."""
    from commands_page import page

    out = Path(folder)
    with tempfile.TemporaryDirectory() as place:
        source, built = Path(place) / "source", Path(place) / "built"
        source.mkdir()
        (source / "conf.py").write_text(
            CONFIGURATION.format(version=_lasthop.__version__), encoding="utf-8"
        )
        # Man pages refer to each other, not to pages of the documentation.
        commands = page().replace("see [](cli.md) for their use", "scenarios: lasthop-scenario(5)")
        (source / "commands.md").write_text(commands, encoding="utf-8")
        reference = _lasthop.reference_markdown()
        (source / "scenario-reference.md").write_text(reference, encoding="utf-8")
        (source / "index.md").write_text(
            "# Lasthop\n\n```{toctree}\ncommands\nscenario-reference\n```\n", encoding="utf-8"
        )
        if build_main(["-q", "-b", "man", str(source), str(built)]) != 0:
            raise SystemExit("man_pages: sphinx-build failed")
        for name in ("lasthop.1", "lasthop-scenario.5"):
            target = out / f"man{name[-1]}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(built / name, target)
            sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
