"""Exit codes of the command `lasthop`."""

DONE, FAILURE, BAD_INPUT, NOT_MODELLED, INTERRUPTED = 0, 1, 2, 3, 130
