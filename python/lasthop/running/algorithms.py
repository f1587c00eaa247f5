"""Congestion control algorithms in Python: classes that scenarios name, and their errors."""

from __future__ import annotations

import linecache
import os
import random
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop._lasthop import Ack, Delivery, Signal, cbrt

__all__ = [
    "Ack",
    "AlgorithmError",
    "CongestionControl",
    "Delivery",
    "Signal",
    "allow_code",
    "cbrt",
]

PERMISSION = "LASTHOP_ALLOW_CODE"
"""Environment variable with the files that scenarios may execute."""

MARKS = ("classic", "share", "scalable")
"""Values of the attribute `marks`."""


class AlgorithmError(ValueError):
    """A congestion control algorithm in Python is invalid."""


class CongestionControl(ABC):
    """Base class of congestion control algorithms; optional, as methods are found by name.

    The engine creates one instance for each end of a connection that sends data. It sets `mss`,
    `cwnd` and `random` before it calls `__init__` without arguments, and reads `cwnd`, `ssthresh`
    and `pacing_rate` after each call. Loss recovery may change `cwnd` and `ssthresh` between calls.

    Attributes:
        mss: Payload of a full segment in bytes.
        cwnd: Congestion window in segments, with fraction; at first the initial window.
        ssthresh: Slow-start threshold in segments. None: the window after the latest `on_loss` or
            `on_ecn`, to which loss recovery reduces the window.
        pacing_rate: Pacing rate in bit/s. None: derived from window and smoothed RTT. Segments are
            paced if `paces` is true or the scenario sets `pacing`.
        random: Random numbers with a seed that follows from that of the run.
        paces: Whether pacing is on by default.
        controls_recovery: Whether the class controls the window in loss recovery, too. Otherwise
            loss recovery does, and `on_ack` is not called meanwhile.
        marks: Use of congestion marks: `classic` (RFC 3168; `on_ecn`), `share` (each mark is
            echoed, RFC 8257; `Delivery.is_marked`), or `scalable` (like `share`, with ECT(1)).
    """

    mss: int
    cwnd: float
    # Without values of the class: the interpreter reads attributes of an instance faster if its
    # class has none of the same name.
    ssthresh: float | None
    pacing_rate: float | None
    random: random.Random
    paces: bool = False
    controls_recovery: bool = False
    marks: str = "classic"

    @abstractmethod
    def on_ack(self, ack: Ack) -> None:
        """Handles an ACK for new data outside loss recovery."""

    @abstractmethod
    def on_loss(self, loss: Signal) -> None:
        """Handles lost segments, once per window of data."""

    @abstractmethod
    def on_timeout(self, timeout: Signal) -> None:
        """Handles an expiry of the retransmission timer."""

    def on_ecn(self, mark: Signal) -> None:
        """Handles congestion marks, once per window of data."""
        self.on_loss(mark)


def allow_code(file: str | os.PathLike[str]) -> None:
    """Permits scenarios of this process and its children to execute a Python file.

    Args:
        file: File with classes that scenarios name as congestion control.
    """
    known = [one for one in os.environ.get(PERMISSION, "").split(os.pathsep) if one]
    path = str(Path(file).resolve())
    if path not in known:
        os.environ[PERMISSION] = os.pathsep.join([*known, path])


def _is_permitted(file: Path) -> bool:
    named = os.environ.get(PERMISSION, "").split(os.pathsep)
    return file.resolve() in {Path(one).resolve() for one in named if one}


@dataclass(frozen=True)
class Algorithm:
    """A loaded class.

    Attributes:
        file: Name of its file, for messages.
        code: Name of the file in tracebacks.
        of: The class.
        source: Text of the file.
    """

    file: str
    code: str
    of: type[Any]
    source: str

    @property
    def reads_rates(self) -> bool:
        """Whether the class handles `on_delivery`, with delivery rates."""
        return callable(getattr(self.of, "on_delivery", None))

    @property
    def paces(self) -> bool:
        """Whether pacing is on by default."""
        return bool(getattr(self.of, "paces", False))

    @property
    def controls_recovery(self) -> bool:
        """Whether the class controls the window in loss recovery."""
        return bool(getattr(self.of, "controls_recovery", False))

    @property
    def marks(self) -> str:
        """Use of congestion marks."""
        return str(getattr(self.of, "marks", MARKS[0]))

    def start(self, mss: int, cwnd: float, seed: int) -> object:
        """Creates an instance for one end of a connection."""
        instance: Any = object.__new__(self.of)
        instance.mss = mss
        instance.cwnd = cwnd
        instance.random = random.Random(seed)  # noqa: S311
        for name in ("ssthresh", "pacing_rate"):
            if not hasattr(instance, name):
                setattr(instance, name, None)
        instance.__init__()
        return instance

    def describe(self, error: BaseException, method: str) -> str:
        """Returns place and reason of an error in a method, in one line."""
        frames = []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.code:
                frames.append(trace.tb_lineno)
            trace = trace.tb_next
        code = getattr(getattr(self.of, method or "__init__", None), "__code__", None)
        if not frames and code is not None and code.co_filename == self.code:
            frames.append(code.co_firstlineno)
        line = f":{frames[-1]}" if frames else ""
        where = f"{self.of.__name__}.{method or '__init__'}"
        return f"{self.file}{line}: {_reason(error)} in {where}"


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def load(file: str | Path, name: str) -> Algorithm:
    """Executes a file and returns a class of it.

    Raises:
        AlgorithmError: If the file is not permitted or not valid, or has no such class.
    """
    path = Path(file)
    shown = path.name
    if not _is_permitted(path):
        raise AlgorithmError(
            f"its code is not permitted to run; to permit it: {PERMISSION}={path}, or in Python "
            f"lasthop.allow_code({str(path)!r})"
        )
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise AlgorithmError(f"cannot read {path}: {_reason(error)}") from None
    module = types.ModuleType(f"lasthop_algorithm_{path.stem}")
    module.__file__ = str(path)
    code = str(path)
    sys.modules[module.__name__] = module
    # Files next to it can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        # The user has permitted this file.
        exec(compile(source, code, "exec"), module.__dict__)  # noqa: S102
    except SyntaxError as error:
        line = error.lineno if error.filename == code else None
        raise AlgorithmError(f"{shown}:{line or 1}: {error.msg}") from None
    except Exception as error:
        described = Algorithm(shown, code, types.ModuleType, source).describe(error, "")
        raise AlgorithmError(described.removesuffix(" in module.__init__")) from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    # Tracebacks and debuggers show the text that was executed.
    linecache.cache[code] = (len(source), None, source.splitlines(keepends=True), code)
    return _checked(Algorithm(shown, code, _class_of(module, shown, name), source))


def _class_of(module: types.ModuleType, shown: str, name: str) -> type[Any]:
    found = getattr(module, name, None)
    if isinstance(found, type):
        return found
    own = [
        key
        for key, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__
    ]
    listed = f"; its classes: {', '.join(own)}" if own else ""
    raise AlgorithmError(f"{shown} has no class {name}{listed}")


def _checked(algorithm: Algorithm) -> Algorithm:
    own = algorithm.of
    for name in ("on_ack", "on_loss", "on_timeout"):
        method = getattr(own, name, None)
        if not callable(method) or method is getattr(CongestionControl, name):
            raise AlgorithmError(f"{algorithm.file}: class {own.__name__} has no method {name}")
    if algorithm.marks not in MARKS:
        raise AlgorithmError(
            f"{algorithm.file}: {own.__name__}.marks: found {algorithm.marks!r}; expected one of "
            f"{', '.join(MARKS)}"
        )
    return algorithm
