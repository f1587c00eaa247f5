"""Reno (RFC 5681) in Python: the same windows as the built-in algorithm under profile "rfc"."""

import math

from lasthop import Ack, CongestionControl, Signal


class Reno(CongestionControl):
    """Additive increase, multiplicative decrease; windows in segments."""

    def __init__(self):
        self.ssthresh = math.inf

    def on_ack(self, ack: Ack):
        """Grows the window by one segment per ACK, later per round trip."""
        if self.cwnd >= self.ssthresh:
            self.cwnd += 1 / self.cwnd
        else:
            # At most one segment per ACK, as a defence against ACK division (section 3.1).
            self.cwnd += min(ack.acked, self.mss) / self.mss

    def on_loss(self, loss: Signal):
        """Halves the flight size."""
        self.ssthresh = self.cwnd = max(loss.in_use / 2, 2.0)

    def on_timeout(self, timeout: Signal):
        """Returns to slow start."""
        # The threshold is reduced once per segment, not by every timeout.
        if timeout.in_use is not None:
            self.ssthresh = max(timeout.in_use / 2, 2.0)
        self.cwnd = 1.0
