"""The process of a live run: launcher and driver.

Started as `python -m lasthop.running.live.process FILES`.

Imports only the engine: a process with threads cannot create a user namespace.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import sys

from lasthop import _lasthop


def main(arguments: list[str]) -> int:
    """Runs the launcher, or the role given by the second argument."""
    request, control, status = (int(number) for number in arguments[0].split(","))
    role = arguments[1] if len(arguments) > 1 else "launcher"
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Ctrl-C is meant for the program, which would inherit an ignored signal, but no handler.
        signal.signal(signal.SIGINT, lambda _number, _frame: None)
    return _lasthop.live_process(role, (request, control, status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
