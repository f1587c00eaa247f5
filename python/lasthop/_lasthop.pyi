"""Types of the native half; see crates/lasthop-py."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__version__: str

class ScenarioError(ValueError): ...
class RunError(RuntimeError): ...
class AnalysisError(ValueError): ...

class Document:
    @staticmethod
    def from_toml(text: str, base: str) -> Document: ...
    @staticmethod
    def from_file_text(text: str, file: str, defaults: str | None = None) -> Document: ...
    @staticmethod
    def from_json(text: str, base: str) -> Document: ...
    @property
    def notes(self) -> list[str]: ...
    def place(self, key: str) -> str | None: ...
    def with_key(self, key: str, text: str) -> Document: ...
    def to_json(self) -> str: ...
    def points(self) -> list[Point]: ...

class Point:
    @property
    def parameters(self) -> str: ...
    @property
    def hash(self) -> int: ...
    @property
    def replications(self) -> int: ...
    @property
    def seed(self) -> int: ...
    def resolved(self) -> str: ...
    def to_json(self) -> str: ...
    def metrics(self) -> list[str]: ...

class Batch:
    rows: int
    point: bytes
    replication: bytes
    cost_s: bytes
    values: bytes

class Stream:
    def __init__(
        self,
        points: list[Point],
        work: list[tuple[int, int, int, float]],
        *,
        seed: int,
        jobs: int,
    ) -> None: ...
    @property
    def metrics(self) -> list[str]: ...
    def next(self, wait_s: float) -> Batch | None: ...
    def stop(self) -> None: ...

class RawResults:
    metrics: list[str]
    point: bytes
    replication: bytes
    values: bytes
    complete: bool

class RawTrace:
    entities: list[str]
    events: list[str]
    time_ns: bytes
    entity: bytes
    event: bytes
    sequence: bytes
    value: bytes
    transmissions: RawTransmissions
    metrics: list[tuple[str, float]]
    complete: bool

class RawTransmissions:
    entities: list[str]
    kinds: list[str]
    entity: bytes
    kind: bytes
    sequence: bytes
    count: bytes
    ack: bytes
    is_repeated: bytes
    connection: bytes
    incarnation: bytes
    segment: bytes
    segment_ack: bytes
    sack: list[str]
    size: bytes
    start_ns: bytes
    end_ns: bytes
    arrival_ns: bytes

class Ack:
    now: float
    now_ns: int
    acked: int
    delivered_segments: int
    is_window_limited: bool
    in_flight: int
    rtt: float | None
    rtt_ns: int | None
    srtt: float
    srtt_ns: int

class Delivery:
    now: float
    now_ns: int
    acked: int
    delivered: int
    total: int
    in_flight: int
    lost: int
    is_marked: bool
    rtt: float | None
    rtt_ns: int | None
    delivery_rate: float | None
    prior_delivered: int | None
    prior_lost: int | None
    in_flight_at_send: int | None
    is_app_limited: bool

class Signal:
    now: float
    now_ns: int
    in_use: float | None

class Controller:
    def __init__(self, paces: bool) -> None: ...

class Session:
    WINDOWS: tuple[float, float]
    RATES: tuple[float, float]
    FIRST_RATE: float
    def __init__(
        self,
        point: Point,
        flow: str,
        controller: Controller,
        seed: int,
        replication: int,
        settings: dict[str, Any],
    ) -> None: ...
    def step(self, action: float, interval_ns: int) -> tuple[list[float], bool]: ...
    def metrics(self) -> list[tuple[str, float]]: ...

def step_all(
    sessions: list[Session],
    actions: NDArray[np.float64],
    interval_ns: int,
    jobs: int,
    intervals: NDArray[np.float64],
    goes_on: NDArray[np.uint8],
) -> None: ...
def cbrt(number: float) -> float: ...
def run(
    points: list[Point],
    *,
    replications: int,
    first_replication: int,
    seed: int,
    jobs: int,
    progress: Callable[[int, int], object] | None = None,
) -> RawResults: ...
def trace(point: Point, seed: int, replication: int) -> RawTrace: ...
def capture(
    point: Point,
    path: str,
    *,
    seed: int,
    replication: int,
    link: str | None = None,
    host: str | None = None,
    snap: int | None = None,
) -> int: ...
def host_script(
    point: Point,
    *,
    seed: int,
    replication: int,
    flow: str | None = None,
    host: str | None = None,
) -> str: ...
def play_script(
    text: str, profile: str, tolerance_us: int, defined: list[str] = ...
) -> tuple[str, str, list[tuple[int, str]]]: ...
def script_profiles() -> list[str]: ...
def live_check(document: Document, point: Point, mtu: int | None = None) -> None: ...
def live_process(role: str, files: tuple[int, int, int]) -> int: ...
def live_replay(path: str, messages: bool = False) -> str: ...
def seconds(text: str) -> float: ...
def cores() -> int: ...
def schema() -> str: ...
def metrics() -> str: ...
def reference_markdown() -> str: ...

class ChannelLaw:
    def __init__(
        self, good_to_bad: float, bad_to_good: float, loss_in_good: float, loss_in_bad: float
    ) -> None: ...
    def parameters(self) -> list[float]: ...
    def spaced(self, frames: int) -> ChannelLaw: ...
    def bad_share(self) -> float: ...
    def loss_rate(self) -> float: ...
    def mean_run(self, lost: bool) -> float: ...
    def run_lengths(self, lost: bool, longest: int) -> list[float]: ...
    def losses_among(self, frames: int) -> list[float]: ...
    def loss_correlation(self, distance: int) -> float: ...
    def mds(self, n: int, k: int) -> tuple[float, float]: ...
    def parity_for(self, k: int, target: float, most: int) -> int: ...

class ArqChain:
    def __init__(self, channel: ChannelLaw, pdus: int, spacing: int) -> None: ...
    def residual_losses(self, longest: int) -> list[float]: ...
    def residual_loss(self, limit: int) -> float: ...
    def approximate_residual_loss(self, limit: int) -> float: ...
    def mean_attempts(self, limit: int | None) -> float: ...
    def mean_attempts_of_delivered(self, limit: int) -> float: ...
    def transmissions_per_pdu(self, limit: int | None) -> float: ...
    def attempts_quantile(self, quantile: float, limit: int | None) -> int: ...
    def attempts_law(self, longest: int) -> list[float]: ...
    def frames(self, attempts: int) -> int: ...
    def dominant_eigenvalue(self) -> float: ...
    def limit_for(self, target: float, exact: bool) -> int: ...
    def energy_ratio(self, limit: int, restart_after: int | None) -> float: ...

class LossRuns:
    def __init__(self, events: bytes) -> None: ...
    def likelihood(
        self, initial: list[float], matrices: list[float], derivatives: bool
    ) -> tuple[float, list[float], list[float]]: ...

def simulate_losses(
    initial: list[float],
    matrices: list[float],
    *,
    frames: int,
    seed: int,
    replication: int,
    kinds: bytes | None = None,
) -> bytes: ...
def tcp_window_chain(
    loss: float, max_window: int | None, capacity: float, round_trip: float
) -> tuple[list[float], float, float]: ...
def tcp_over_arq(
    channel: ChannelLaw,
    pdus: int,
    spacing: int,
    limit: int | None,
    frame: float,
    capacity: float,
    wired_loss: float,
    wired_round_trip: float,
) -> list[float]: ...
def tcp_formulas(
    loss: float, round_trip: float, timeout: float, segments_per_ack: int, window: float
) -> list[float]: ...
def arq_efficiency(loss: float, round_trip: float, recovery: float, window: int) -> list[float]: ...
def independent_bits_loss(ber: float, bits: int) -> float: ...
def exponential_bits_loss(mean: float, bits: int) -> float: ...
def two_state_loss(
    durations: tuple[float, float], bers: tuple[float, float], bits: int, airtime: float
) -> float: ...
def markov_chain_loss(transitions: Sequence[Sequence[float]], loss: Sequence[float]) -> float: ...
def rlp_residual_loss(loss: float, control_loss: float, rounds: int) -> float: ...
def ideal_selective_repeat(
    channel: ChannelLaw,
    pdus: int,
    spacing: int,
    limit: int | None,
    capacity: int | None,
    amount: int,
    gap: int | None,
    seed: int,
) -> tuple[list[int], list[int]]: ...
def dcf_saturation(
    stations: int,
    standard: str,
    short_preamble: bool,
    rates: list[int | None],
    sizes: tuple[int, int],
    rts: bool,
    windows: tuple[int | None, int | None],
    limit: int | None,
    freezes: bool,
) -> tuple[list[float], list[float]]: ...
def notification_intervals(p: float, limit: int) -> list[float]: ...
def notification_delays(
    attempts: tuple[float, float], failures: tuple[float, float], wire: float
) -> list[tuple[str, float, float]]: ...
def losses_in_a_row(p: float, limit: int, level: float) -> int: ...
def quantity(kind: str, text: str) -> float: ...
