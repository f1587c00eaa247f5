"""The process of a live run: launcher and driver.

Started as `python -m lasthop.running.live.process FILES`.

Imports the engine alone: a process with threads gets no user namespace.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import sys

from lasthop import _lasthop


def main(arguments: list[str]) -> int:
    """Becomes the launcher, or the driver where the second argument says so."""
    request, control, status = (int(number) for number in arguments[0].split(","))
    role = arguments[1] if len(arguments) > 1 else "launcher"
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Ctrl-C is for the program. A handler, since it would inherit that the signal is ignored.
        signal.signal(signal.SIGINT, lambda _number, _frame: None)
    return _lasthop.live_process(role, (request, control, status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
