"""Archives of campaigns for publications: scenarios, seeds, results, figures and their check.

manifest.json       versions, and the runs with their points, seeds and files
scenarios/*.json    the points, with all defaults
recordings/*        files that the scenarios name
results/run-N.*     every replication (Parquet), means and intervals (CSV)
figures/run-N.*     the figure of a sweep, the report
reproduce.py        runs the points again and compares every value
README.md           for reviewers
SHA256SUMS          checksums of all other files
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import platform
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import polars as pl

from lasthop.running.campaign import Campaign, CampaignError, StoredRun
from lasthop.running.engine import engine
from lasthop.running.replications import run as run_replications
from lasthop.running.writing import write_file
from lasthop.scenarios.arguments import Refused
from lasthop.scenarios.files import LARGEST_DATA, read_bytes
from lasthop.scenarios.scenario import Scenario

__all__ = ["ArchiveError", "Verdict", "archive", "reproduce"]

FORMAT = 1
MANIFEST, CHECKSUMS = "manifest.json", "SHA256SUMS"

# Fixed time of all entries: the same campaign gives the same archive.
TIME = (1980, 1, 1, 0, 0, 0)

# Maximum size in bytes of an extracted archive.
MOST_BYTES = 8 * LARGEST_DATA

SCRIPT = '''"""Checks this archive: checksums, then every value of every replication."""

import sys
from pathlib import Path

from lasthop.running.archive import reproduce

sys.exit(0 if all(run.is_equal for run in reproduce(Path(__file__).parent, tell=print)) else 1)
'''


class ArchiveError(Refused):
    """An archive cannot be written, or is refused."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of a run with its repetition.

    Attributes:
        run: Number of the run.
        name: Name of its scenario.
        replications: Number of repeated replications.
        different: Number of replications with a different value.
        example: First different value, as text; empty without one.
    """

    run: int
    name: str
    replications: int
    different: int
    example: str

    @property
    def is_equal(self) -> bool:
        """Whether every value is equal."""
        return self.different == 0

    def __str__(self) -> str:
        count = f"{self.replications} replication{'s' if self.replications != 1 else ''}"
        if self.is_equal:
            return f"run {self.run}, {self.name}: {count}, all values equal"
        return f"run {self.run}, {self.name}: {self.different} of {count} differ: {self.example}"


def archive(folder: Path, out: Path, *, base: Path = Path()) -> list[str]:
    """Writes an archive of all finished runs of a campaign.

    Args:
        folder: Folder of the campaign.
        out: The ZIP file to write.
        base: Folder to which names of recordings in scenarios are relative.

    Returns:
        The names of the files in the archive.

    Raises:
        CampaignError: If the folder is not a campaign.
        ArchiveError: If a run is not complete, or a recording cannot be read.
        OSError: If the archive cannot be written.
    """
    campaign = Campaign(folder)
    runs = campaign.runs()
    if not runs:
        raise CampaignError(f"{folder}: the campaign has no runs")
    for run in runs:
        if run.state != "complete":
            raise ArchiveError(
                f"{folder}: run {run.id}, `{run.name}`, is {run.state}: expected complete runs; "
                "repeat its command with `--store`"
            )
    files: dict[str, bytes] = {}
    tables = campaign.scenarios()
    described = [_run_files(campaign, run, files) for run in runs]
    for name in dict.fromkeys(point.scenario_hash for run in runs for point in run.points):
        scenario = _with_recordings(tables[name], base, files)
        files[f"scenarios/{name}.json"] = _json(scenario)
    engines = sorted({str(one) for run in runs for one in campaign.results(run=run.id).engines})
    manifest = {
        "format": FORMAT,
        "engines": engines,
        "written_by": str(engine()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "runs": described,
    }
    files[MANIFEST] = _json(manifest)
    files["reproduce.py"] = SCRIPT.encode()
    files["README.md"] = _readme(manifest).encode()
    sums = [f"{hashlib.sha256(data).hexdigest()}  {name}" for name, data in sorted(files.items())]
    files[CHECKSUMS] = ("\n".join(sums) + "\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            packed.writestr(entry, data)
    write_file(out, buffer.getvalue())
    return sorted(files)


def _run_files(campaign: Campaign, run: StoredRun, files: dict[str, bytes]) -> dict[str, Any]:
    """Adds the files of a run; returns its entry in the manifest."""
    from lasthop.showing import report as pages
    from lasthop.showing.figures import PlotError, plot
    from lasthop.studies import studies

    results = campaign.results(run=run.id)
    head = f"run-{run.id}"
    rows = io.BytesIO()
    results.wide.write_parquet(rows)
    files[f"results/{head}.parquet"] = rows.getvalue()
    files[f"results/{head}.csv"] = results.summary().write_csv().encode()
    is_study = dict(run.scenario) == {"name": run.name} and run.name in studies()
    made = studies()[run.name].report_on(results) if is_study else None
    files[f"figures/{head}.html"] = pages.page(results, made).encode()
    if len(results.points) > 1 and not is_study:
        # A sweep without a suitable axis has no figure, but a report.
        with contextlib.suppress(PlotError):
            figure = plot(results)
            for suffix in ("png", "pdf"):
                picture = io.BytesIO()
                dated = {"CreationDate": None} if suffix == "pdf" else {}
                figure.savefig(picture, format=suffix, metadata=dated)
                files[f"figures/{head}.{suffix}"] = picture.getvalue()
    return {
        "run": run.id,
        "name": run.name,
        "seed": run.seed,
        "started": run.started,
        "ended": run.ended,
        "results": f"results/{head}.parquet",
        "points": [
            {
                "scenario": f"scenarios/{point.scenario_hash}.json",
                "parameters": dict(point.parameters),
                "replications": int((results.point == index).sum()),
            }
            for index, point in enumerate(run.points)
        ],
    }


def _with_recordings(tables: Any, base: Path, files: dict[str, bytes]) -> Any:
    """Returns tables in which recordings have names in the archive; adds the recordings."""
    if isinstance(tables, list):
        return [_with_recordings(one, base, files) for one in tables]
    if not isinstance(tables, Mapping):
        return tables
    found = {}
    for key, value in tables.items():
        if key != "file" or not isinstance(value, str):
            found[key] = _with_recordings(value, base, files)
            continue
        try:
            data = read_bytes(base / value)
        except OSError as error:
            raise ArchiveError(
                f"cannot read `{value}`: {error.strerror or error}: expected the recording of a "
                "scenario; `--base DIR` sets the folder of the scenario file"
            ) from None
        digest = hashlib.sha256(data).hexdigest()[:12]
        name = f"recordings/{digest}-{Path(value).name}"
        files[name] = data
        # Scenarios are in the folder `scenarios`, but are read relative to the archive.
        found[key] = name
    return found


def _json(tables: Any) -> bytes:
    return (json.dumps(tables, indent=2, ensure_ascii=False) + "\n").encode()


def _readme(manifest: Mapping[str, Any]) -> str:
    """Returns the text for reviewers."""
    version = engine().version
    lines = [
        "# Archive of simulations",
        "",
        f"Results of {len(manifest['runs'])} run(s) of Lasthop, with everything needed to repeat "
        "them. To check the archive:",
        "",
        "```sh",
        f"pip install lasthop=={version}",
        "lasthop reproduce ARCHIVE.zip     # or, in the extracted folder: python reproduce.py",
        "```",
        "",
        "The check verifies the checksums, runs every replication again, and compares every value. "
        "The same version gives the same values on every machine with 64-bit floating-point "
        "numbers of IEEE 754.",
        "",
        "| run | scenario | points | replications | seed | results | figures |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in manifest["runs"]:
        total = sum(point["replications"] for point in run["points"])
        lines.append(
            f"| {run['run']} | {run['name']} | {len(run['points'])} | {total} | {run['seed']} | "
            f"`{run['results']}` | `figures/run-{run['run']}.html` |"
        )
    lines += [
        "",
        f"Computed by {', '.join(manifest['engines'])}; archived with Python "
        f"{manifest['python']} on {manifest['platform']}.",
        "",
        "| file | contents |",
        "|---|---|",
        "| `manifest.json` | versions; runs with their points, seeds and files |",
        "| `scenarios/` | each point with all keys, readable by `lasthop run` in this folder |",
        "| `recordings/` | recorded losses, rates and delays that scenarios name |",
        "| `results/` | each replication (Parquet); means and 95 % intervals (CSV) |",
        "| `figures/` | report of each run, and the figure of each sweep |",
        "| `SHA256SUMS` | checksums: `sha256sum --check SHA256SUMS` |",
        "",
    ]
    return "\n".join(lines)


def reproduce(
    source: Path, *, jobs: int = 0, tell: Callable[[object], object] | None = None
) -> list[Verdict]:
    """Verifies an archive and runs its replications again.

    Args:
        source: ZIP file or its extracted folder.
        jobs: Number of threads; 0: all cores.
        tell: Receives the verdict on each run when it is known.

    Raises:
        ArchiveError: If it is not an archive, or a file is missing or changed.
        OSError: If it cannot be read.
    """
    with _extracted(source) as folder:
        _verify(folder)
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if manifest.get("format") != FORMAT:
            raise ArchiveError(
                f"{source}: format {manifest.get('format')}: expected {FORMAT}; use the version "
                f"that wrote it, {manifest.get('written_by')}"
            )
        verdicts = []
        for run in manifest["runs"]:
            verdicts.append(_repeat(folder, run, jobs))
            if tell is not None:
                tell(verdicts[-1])
    return verdicts


@contextlib.contextmanager
def _extracted(source: Path) -> Iterator[Path]:
    """Yields the folder of an archive, extracted if it is a ZIP file."""
    if source.is_dir():
        yield source
        return
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(source))) as packed:
            if sum(one.file_size for one in packed.infolist()) > MOST_BYTES:
                raise ArchiveError(f"{source}: larger than {MOST_BYTES / 1e9:.0f} GB extracted")
            with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
                for name in packed.namelist():
                    parts = PurePosixPath(name).parts
                    if name.startswith("/") or ".." in parts:
                        raise ArchiveError(f"{source}: entry outside of the archive: {name}")
                packed.extractall(folder)
                yield Path(folder)
    except zipfile.BadZipFile:
        raise ArchiveError(f"{source}: not a ZIP file: expected an archive") from None


def _verify(folder: Path) -> None:
    """Verifies the checksums of all files."""
    listed = folder / CHECKSUMS
    if not listed.is_file():
        raise ArchiveError(f"{folder.name}: missing {CHECKSUMS}: expected an archive")
    for line in listed.read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        try:
            data = read_bytes(folder / name)
        except OSError as error:
            raise ArchiveError(f"{name}: {error.strerror or error}") from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise ArchiveError(f"{name}: changed since the archive was written")


def _repeat(folder: Path, run: Mapping[str, Any], jobs: int) -> Verdict:
    """Runs the points of a run again and compares their values."""
    stored = pl.read_parquet(folder / run["results"])
    count, different, example = 0, 0, ""
    for index, point in enumerate(run["points"]):
        tables = json.loads((folder / point["scenario"]).read_text("utf-8"))
        scenario = Scenario(tables, base=folder)
        results = run_replications(
            scenario, replications=point["replications"], seed=run["seed"], jobs=jobs
        )
        own = stored.filter(point=index).sort("replication")
        metrics = [name for name in results.metrics if name in own.columns]
        before = own.select(metrics).fill_null(np.nan).to_numpy()
        columns = [results.index_of(name) for name in metrics]
        after = results.values[:, columns]
        count += len(after)
        if before.shape != after.shape:
            different += len(after)
            example = example or f"{len(before)} replications are stored, {len(after)} were run"
            continue
        equal = (before == after) | (np.isnan(before) & np.isnan(after))
        different += int((~equal.all(axis=1)).sum())
        if not equal.all() and not example:
            row, column = np.argwhere(~equal)[0]
            example = (
                f"{metrics[column]} of point {index}, replication {row}, was "
                f"{float(before[row, column])!r}, is {float(after[row, column])!r}"
            )
    return Verdict(run["run"], run["name"], count, different, example)
