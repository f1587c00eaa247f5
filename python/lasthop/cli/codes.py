"""Exit codes of the command `lasthop`."""

DONE, FAILURE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
