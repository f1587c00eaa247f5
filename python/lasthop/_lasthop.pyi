"""Types of the native half; see crates/lasthop-py."""

from collections.abc import Callable

__version__: str

class ScenarioError(ValueError): ...
class RunError(RuntimeError): ...

class Document:
    @staticmethod
    def from_toml(text: str, base: str) -> Document: ...
    @staticmethod
    def from_json(text: str, base: str) -> Document: ...
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
    size: bytes
    start_ns: bytes
    end_ns: bytes
    arrival_ns: bytes

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
def seconds(text: str) -> float: ...
def schema() -> str: ...
def reference_markdown() -> str: ...
