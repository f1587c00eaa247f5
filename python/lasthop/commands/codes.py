"""Exit codes of the command `lasthop`."""

DONE, FAILURE, BAD_INPUT, NOT_MODELLED, INTERRUPTED = 0, 1, 2, 3, 130
# Of `lasthop live`: an expectation is not met; the run took too long, as for timeout(1).
NOT_MET, TIMED_OUT = 5, 124
