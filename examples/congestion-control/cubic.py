"""CUBIC (RFC 9438) in Python: the same windows as the built-in algorithm under profile "rfc"."""

import math

from lasthop import Ack, CongestionControl, Signal, cbrt

C = 0.4
BETA = 0.7
ALPHA = 3 * (1 - BETA) / (1 + BETA)
STATE = ("cwnd", "ssthresh", "w_max", "cwnd_prior", "start_ns")
STATE += ("k", "plateau", "w_est", "last_ack_ns")


class Cubic(CongestionControl):
    """The cubic curve, and the window of Reno where that is larger; windows in segments."""

    def __init__(self):
        self.ssthresh = math.inf
        self.w_max = None  # None: no reduction yet, or a timeout
        self.cwnd_prior = 0.0
        self.start_ns = None  # beginning of this epoch of congestion avoidance
        self.k = self.plateau = self.w_est = 0.0
        self.last_ack_ns = 0
        self.before = None

    def window_at(self, elapsed):
        """Returns the cubic curve at a time in seconds (figure 1)."""
        from_origin = elapsed - self.k
        return C * from_origin * from_origin * from_origin + self.plateau

    def on_ack(self, ack: Ack):
        """Grows the window, if it was in use."""
        waited, self.last_ack_ns = ack.now_ns - self.last_ack_ns, ack.now_ns
        in_slow_start = self.cwnd < self.ssthresh
        # An unused window does not grow; in slow start, half of it suffices (section 5.8).
        share = 2 if in_slow_start else 1
        if share * (ack.in_flight + self.mss) <= int(self.cwnd * self.mss):
            if self.start_ns is not None:
                self.start_ns = min(self.start_ns + waited, ack.now_ns)
        elif in_slow_start:
            self.cwnd += min(ack.acked, self.mss) / self.mss
        else:
            self.avoid(ack)

    def avoid(self, ack: Ack):
        """Follows the larger of the cubic curve and Reno's window (4.2 to 4.5)."""
        cwnd = self.cwnd
        if self.start_ns is None:
            self.start_ns, self.w_est = ack.now_ns, cwnd
            self.plateau = cwnd if self.w_max is None else max(self.w_max, cwnd)
            self.k = cbrt((self.plateau - cwnd) / C)
        elapsed = (ack.now_ns - self.start_ns) * 1e-9
        alpha = ALPHA if self.w_est < self.cwnd_prior else 1.0
        self.w_est += alpha * (ack.acked / self.mss) / cwnd
        if self.window_at(elapsed) < self.w_est:
            self.cwnd = max(cwnd, self.w_est)
        else:
            target = self.window_at(elapsed + ack.srtt)
            self.cwnd = cwnd + (min(max(target, cwnd), 1.5 * cwnd) - cwnd) / cwnd

    def reduce(self, in_use):
        """Computes the threshold and the next plateau (4.6, 4.7)."""
        self.before = [getattr(self, name) for name in STATE]
        # Fast convergence: release bandwidth if the previous maximum was not reached (4.7).
        is_below = self.w_max is not None and self.cwnd < self.w_max
        self.w_max = self.cwnd * (1 + BETA) / 2 if is_below else self.cwnd
        self.cwnd_prior = self.cwnd
        self.ssthresh = max(BETA * in_use, 2.0)
        self.start_ns = None

    def on_loss(self, loss: Signal):
        """Reduces the window."""
        self.reduce(loss.in_use)
        self.cwnd = self.ssthresh

    def on_timeout(self, timeout: Signal):
        """Returns to slow start (4.8)."""
        if timeout.in_use is not None:
            self.reduce(timeout.in_use)
        self.w_max = self.start_ns = None
        self.cwnd = 1.0

    def on_spurious(self):
        """Restores the state before the latest reduction, a response to no loss (4.9)."""
        if self.cwnd < self.before[0]:
            for name, value in zip(STATE, self.before, strict=True):
                setattr(self, name, value)
