"""Runs of `lasthop live`: follows them, writes their results and checks expectations."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lasthop.commands.codes import DONE, FAILURE, INTERRUPTED, NOT_MET, TIMED_OUT
from lasthop.commands.common import note, write
from lasthop.running.live.control import Control
from lasthop.running.live.expect import Expectation, Finding, find, shown
from lasthop.running.live.junit import junit
from lasthop.running.live.outcome import Outcome
from lasthop.running.live.repeated import differences, statistics, table
from lasthop.running.live.session import LiveError, Session
from lasthop.running.live.words import second, summary
from lasthop.scenarios.arguments import ArgumentError

if TYPE_CHECKING:
    from types import FrameType

    from lasthop.running.live.page import Page

__all__ = ["Results", "Runs"]


@dataclass
class Results:
    """Files and pages for the results of one or more runs.

    Attributes:
        scenario: Tables of the scenario.
        command: Command line.
        out: File for all metrics at the end.
        lines: File for a line per second and a summary, of every run.
        report: File for the report.
        junit: File for JUnit XML.
        baseline: Summaries of earlier runs, for paired differences.
        page: Web page.
        quiet: Whether to print only errors.
    """

    scenario: Mapping[str, Any]
    command: str = ""
    out: Path | None = None
    lines: Path | None = None
    report: Path | None = None
    junit: Path | None = None
    baseline: Sequence[Mapping[str, Any]] | None = None
    page: Page | None = None
    quiet: bool = False
    failed: bool = False
    _lines: TextIO | None = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Opens the file of `lines`; errors before the first run are raised."""
        if self.lines is None:
            yield
            return
        with self.lines.open("w", encoding="utf-8") as self._lines:
            yield

    def line(self, value: Mapping[str, Any]) -> None:
        """Writes a line of JSON, which is on the disk after the call."""
        if self._lines is None:
            return
        try:
            self._lines.write(json.dumps(value) + "\n")
            self._lines.flush()
        except OSError as error:
            self._fail(self.lines, error)
            # The unwritten rest is discarded.
            with contextlib.suppress(OSError):
                self._lines.close()
            self._lines = None

    def file(self, path: Path | None, text: Callable[[], str]) -> None:
        """Writes a file; an error is reported and does not prevent the others."""
        if path is not None:
            try:
                write(path, text())
            except OSError as error:
                self._fail(path, error)

    def _fail(self, path: Path | None, error: OSError) -> None:
        self.failed = True
        note(f"lasthop: cannot write `{path}`: {error.strerror or error}")


@dataclass
class Runs:
    """One run or several of the same programs.

    Attributes:
        session: Creates the session of a run, from its replication.
        results: Files and pages.
        replications: Replications whose random numbers the runs use.
        expectations: Conditions.
        timeout: Maximum duration of a run in seconds.
        marks: Changes by `--timeline`, for reports.
        control: File name of the socket for changes during a run; by default an abstract name.
        summaries: Summary of each run so far.
        outcomes: Results of each run so far.
    """

    session: Callable[[int], Session]
    results: Results
    replications: Sequence[int] = (0,)
    expectations: Sequence[Expectation] = ()
    timeout: float | None = None
    marks: Sequence[Mapping[str, Any]] = ()
    control: Path | None = None
    summaries: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    interrupts: int = 0

    def run(self) -> int:
        """Runs all, writes the results and returns the exit code."""
        codes: list[int] = []
        problem = ""
        with self.results.opened():
            try:
                for replication in self.replications:
                    codes.append(self._one(replication))
                    if self.interrupts:
                        break
            except LiveError as error:
                problem = str(error)
                note(f"lasthop: {problem}")
                codes.append(FAILURE)
            finally:
                self._finish()
        if self.results.page is not None and not self.interrupts:
            self._stay(self.results.page)
        if self.results.failed and not self.interrupts:
            return FAILURE
        return self._code(codes, problem)

    def _stay(self, page: Page) -> None:
        """Keeps the page available until Ctrl-C, if standard error is a terminal."""
        if sys.stderr.isatty():
            note(f"lasthop: {page.address} remains available; Ctrl-C ends it")
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait()

    def _code(self, codes: Sequence[int], problem: str) -> int:
        if problem:
            return FAILURE
        missed = [finding for finding in self.findings if not finding.met]
        if self.interrupts:
            return codes[-1] or INTERRUPTED
        if TIMED_OUT in codes and any("timeout" in one for one in self.summaries):
            return TIMED_OUT
        if missed:
            return NOT_MET
        if any(one.name == "exit" for one in self.expectations):
            return DONE
        return next((code for code in codes if code), DONE)

    def _one(self, replication: int) -> int:
        """Follows one run to its end; returns its exit code."""
        session, results, outcome = self.session(replication), self.results, Outcome()
        outcome.changes.extend(self.marks)
        about: dict[str, Any] = {"replication": replication}
        if len(self.replications) > 1 and not results.quiet:
            note(f"run {len(self.summaries) + 1} of {len(self.replications)}")
        code, problem = INTERRUPTED, ""
        try:
            control = Control(session, self.control)
            with (
                contextlib.closing(control),
                self._handled(session),
                self._limited(session, about),
                contextlib.closing(session.run()) as messages,
            ):
                for message in messages:
                    outcome.add(message)
                    if results.page is not None:
                        results.page.tell(message)
                    match message["kind"]:
                        case "tick":
                            if not results.quiet and not message["is_last"]:
                                note(second(message, outcome.before))
                            results.line({**outcome.line(), "replication": replication})
                        case "change" | "refused":
                            control.tell(message)
                            if message["kind"] == "change":
                                results.line(message)
                                if not results.quiet:
                                    note(f"{message['time']:6.1f} s  {message['text']}")
                        case "end":
                            code = int(message["code"])
                            if keep_partial(session, message):
                                results.failed = True
        except Exception as error:
            problem = str(error)
            raise
        finally:
            one = {**outcome.summary(), **about, "seed": session.seed_used}
            if problem:
                one["failure"] = problem
            elif "timeout" in about:
                one["failure"] = f"the run did not end within {self.timeout:g} s"
                code = TIMED_OUT
            elif code and not any(one.name == "exit" for one in self.expectations):
                one["failure"] = f"exit code {code}"
            self.summaries.append(one)
            self.outcomes.append(outcome)
            results.line(one)
        if outcome.end is not None and not results.quiet:
            note(summary(outcome.end))
        if "timeout" in about:
            note(f"lasthop: {one['failure']}")
        return code

    def _finish(self) -> None:
        """Checks the expectations and writes what the runs so far have yielded."""
        results = self.results
        self.findings = [find(one, self.summaries) for one in self.expectations if self.summaries]
        for finding in self.findings:
            if not finding.met or not results.quiet:
                note(f"lasthop: {finding}" if not finding.met else str(finding))
        ended = next((one.end for one in reversed(self.outcomes) if one.end is not None), None)
        if ended is not None:
            whole = {**ended, "metrics": dict(ended["metrics"])}
            results.file(results.out, lambda: json.dumps(whole, indent=1) + "\n")
        if len(self.replications) > 1 and self.summaries:
            results.line({"kind": "runs", "values": statistics(self.summaries)})
            if not results.quiet:
                note(f"{len(self.summaries)} runs: mean ± 95 % confidence interval")
                for name, mean, width in table(self.summaries)["rows"]:
                    note(f"  {name}: {mean} ± {width}")
        if results.baseline is not None:
            self._compare(results.baseline)
        if self.summaries:
            results.file(results.report, self._report)
            results.file(results.junit, self._junit)

    def _compare(self, baseline: Sequence[Mapping[str, Any]]) -> None:
        """Prints paired differences from earlier runs."""
        try:
            found = differences(self.summaries, baseline)
        except ArgumentError as error:
            note(f"lasthop: {error}")
            self.results.failed = True
            return
        self.results.line({"kind": "differences", "values": found})
        note(f"difference from the earlier runs, {found[0]['n']} pairs" if found else "no values")
        for one in found:
            width = "" if one["ci95"] is None else f" ± {shown(one['name'], one['ci95'])}"
            sign = "-" if one["mean"] < 0 else "+"
            gap = f"{sign}{shown(one['name'], abs(one['mean']))}{width}"
            note(f"  {one['name']}: {gap} (before: {shown(one['name'], one['baseline'])})")

    def _report(self) -> str:
        from lasthop.showing.live_report import page

        results = self.results
        return page(
            results.scenario,
            self.outcomes,
            self.summaries,
            findings=self.findings,
            command=results.command,
        )

    def _junit(self) -> str:
        name = str(self.results.scenario["name"])
        return junit(name, self.summaries, self.findings)

    @contextlib.contextmanager
    def _handled(self, session: Session) -> Iterator[None]:
        """Ends the programs at the second Ctrl-C, and at SIGTERM; the results are kept.

        The terminal sends the first Ctrl-C to the last program, which runs in the foreground.
        Without a terminal, this process forwards it.
        """

        def interrupted(_number: int, _frame: FrameType | None) -> None:
            if not session.programs:
                # The usual end of a run without programs.
                session.stop()
                return
            self.interrupts += 1
            if self.interrupts > 1:
                session.send({"kill": True})
            elif not sys.stdin.isatty():
                session.send({"interrupt": True})

        def terminated(_number: int, _frame: FrameType | None) -> None:
            self.interrupts += 1
            session.stop()

        handlers = {signal.SIGINT: interrupted, signal.SIGTERM: terminated}
        previous = {number: signal.getsignal(number) for number in handlers}
        for number, handler in handlers.items():
            if previous[number] is not signal.SIG_IGN:
                signal.signal(number, handler)
        try:
            yield
        finally:
            for number, before in previous.items():
                signal.signal(number, before)

    @contextlib.contextmanager
    def _limited(self, session: Session, about: dict[str, Any]) -> Iterator[None]:
        """Ends the programs after the timeout."""
        if self.timeout is None:
            yield
            return

        def expired() -> None:
            if session.programs:
                about["timeout"] = self.timeout
            session.stop()

        timer = threading.Timer(self.timeout, expired)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def keep_partial(session: Session, end: Mapping[str, Any]) -> bool:
    """Renames incomplete output files to FILE.partial; returns `True` if any exist."""
    found = False
    for option, path in (("--record", session.record), ("--pcap", session.pcap)):
        reason = next((text for text in end["notes"] if text.startswith(f"{option}: ")), None)
        if path is None or reason is None:
            continue
        found = True
        kept = ""
        if path.is_file() and not path.is_symlink():
            partial = path.with_name(f"{path.name}.partial")
            with contextlib.suppress(OSError):
                path.replace(partial)
                kept = f" in {partial}"
        note(f"lasthop: {option} {path}: {reason.removeprefix(f'{option}: ')}{kept}")
    return found
