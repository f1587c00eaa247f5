"""Campaigns on Dask workers: bit-identical to local runs, even if workers are killed.

The workers are processes of this machine. No test waits for a fixed time; each waits for a
condition, up to a generous limit.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop import cluster as clusters
from lasthop.commands import _main
from lasthop.running.engine import Engine

pytestmark = pytest.mark.filterwarnings("ignore")

distributed: Any = importlib.import_module("distributed")
# Type of a TLS record that contains an alert.
ALERT = b"\x15"
CERTIFICATES = Path("docs/cluster/certificates.sh").resolve()

SWEEP = """
name = "sweep"
[link.radio]
between = ["a", "b"]
rate = "2 Mbps"
delay = "20 ms"
errors = { kind = "uniform", loss = "2 %" }
[flow.transfer]
from = "a"
to = "b"
transport = { kind = "tcp", variant = "reno", profile = "rfc" }
app = { kind = "file", size = "200 kB" }
[sweep]
"link.radio.errors.loss" = ["1 %", "5 %"]
"flow.transfer.transport.variant" = ["reno", "sack"]
"""


def rows(results: lasthop.Results) -> str:
    return results.frame.write_csv()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def two() -> Iterator[clusters.Cluster]:
    with clusters.connect("local:2") as cluster:
        yield cluster


@pytest.fixture
def scenario() -> lasthop.Scenario:
    return lasthop.Scenario.from_toml(SWEEP)


def test_results_are_the_same_bytes_as_here(
    two: clusters.Cluster, scenario: lasthop.Scenario, tmp_path: Path
) -> None:
    here = lasthop.run(scenario, replications=25)
    there = lasthop.run(scenario, replications=25, cluster=two.client)
    assert rows(there) == rows(here)
    assert there.complete
    stored = lasthop.Campaign(tmp_path / "c", cluster=two).run(scenario, replications=25)
    assert rows(stored) == rows(here)
    # A campaign can switch between a cluster and the local machine.
    more = lasthop.Campaign(tmp_path / "c").run(scenario, replications=30)
    assert rows(more) == rows(lasthop.run(scenario, replications=30))
    again = lasthop.Campaign(tmp_path / "c", cluster=two).run(scenario, replications=35)
    assert rows(again) == rows(lasthop.run(scenario, replications=35))


def test_workers_are_told_to_leave_their_time_to_the_engine(two: clusters.Cluster) -> None:
    def settings(keys: list[str]) -> list[object]:
        import dask

        return [dask.config.get(key) for key in keys]

    keys = list(clusters.WORKER_CONFIG)
    found = two.client.run(settings, keys)
    assert set(map(tuple, found.values())) == {tuple(clusters.WORKER_CONFIG.values())}
    # Workers started by batch systems get these settings from the environment.
    program = (
        "import dask, json, sys\nprint(json.dumps([dask.config.get(k) for k in sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *keys],
        env=os.environ | clusters.worker_environment(),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == list(clusters.WORKER_CONFIG.values())


@pytest.mark.parametrize("name", ["lasthop.sbatch", "lasthop.pbs"])
def test_the_batch_files_are_shell_and_name_the_variables(name: str) -> None:
    file = Path("docs/cluster") / name
    assert subprocess.run(["bash", "-n", str(file)], check=False).returncode == 0
    for variable, value in clusters.worker_environment().items():
        assert f"{variable}={value}" in file.read_text()


def servers(cluster: clusters.Cluster) -> list[str]:
    """Addresses at which processes of a local cluster accept connections, except HTTP."""
    about = cluster.client.scheduler_info()
    return [about["address"], *about["workers"], *(w["nanny"] for w in about["workers"].values())]


def refuses(address: str, context: ssl.SSLContext | None) -> bool:
    """Whether a server rejects a client with these certificates, or without TLS."""
    host, port = address.removeprefix("tls://").rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            if context is None:
                plain.sendall(bytes(64))
                return plain.recv(64)[:1] in (b"", ALERT)
            # A Dask server sends first. TLS 1.3 reports a missing certificate only at this point.
            return context.wrap_socket(plain).recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_only_holders_of_the_certificate_of_a_local_cluster_connect(two: clusters.Cluster) -> None:
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    other = distributed.Security.temporary()
    stranger = other.get_connection_args("client")["ssl_context"]
    stranger.verify_mode = ssl.CERT_NONE
    own = two.client.security.get_connection_args("client")["ssl_context"]
    addresses = servers(two)
    assert len(addresses) == 5
    for address in addresses:
        assert address.startswith("tls://127.0.0.1:")
        assert [refuses(address, one) for one in (None, anonymous, stranger)] == [True] * 3
        assert not refuses(address, own)
    with pytest.raises(OSError, match="TLS certificate does not match"):
        distributed.Client(addresses[0], security=other, timeout=2)
    with pytest.raises(clusters.ClusterError, match="cannot connect to the scheduler at `tcp://"):
        clusters.connect(addresses[0].replace("tls", "tcp"))


def page(cluster: clusters.Cluster, path: str) -> int:
    """HTTP status with which the scheduler's server answers."""
    link = cluster.client.dashboard_link
    assert link.startswith("http://127.0.0.1:")
    try:
        with urllib.request.urlopen(link.removesuffix("status") + path) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.slow
def test_a_local_cluster_serves_pages_on_request_only(two: clusters.Cluster) -> None:
    paths = ["status", "info/main/workers.html", "health"]
    assert [page(two, path) for path in paths] == [404] * 3
    with clusters.connect("local:1", dashboard=True) as cluster:
        assert [page(cluster, path) for path in paths] == [200] * 3


@pytest.mark.slow
def test_the_batch_files_certificates_admit_the_job_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    script = """
    set -euo pipefail
    . "$1" "$PWD/tls"
    dask scheduler --protocol tls --host 127.0.0.1 --port 0 --no-dashboard \
        --dashboard-address 127.0.0.1:0 --scheduler-file s.json 2>/dev/null &
    scheduler=$!
    dask worker --nthreads 1 --no-dashboard --scheduler-file s.json 2>/dev/null &
    trap 'kill $scheduler $!' EXIT
    while [ ! -s s.json ]; do sleep 0.1; done
    lasthop run sweep.toml --replications 2 --format json --cluster file:s.json >there.json
    unset ${!DASK_DISTRIBUTED__COMM*}
    python -c "
import distributed, json
try: distributed.Client(json.load(open('s.json'))['address'].replace('tls', 'tcp'), timeout=2)
except OSError: print('refused')"
    """
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(CERTIFICATES)],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "refused\n", done.stderr
    assert _main(["run", str(tmp_path / "sweep.toml"), "--replications=2", "--format=json"]) == 0
    assert (tmp_path / "there.json").read_text() == capsys.readouterr().out
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "tls").iterdir()}
    assert modes == {"key.pem": 0o600, "certificate.pem": 0o600}


def test_until_runs_on_it_too(two: clusters.Cluster, scenario: lasthop.Scenario) -> None:
    wanted = {"until": "flow.transfer.goodput_bps=10%", "max_replications": 60}
    here = lasthop.run(scenario, **wanted)  # type: ignore[arg-type]
    there = lasthop.run(scenario, cluster=two, **wanted)  # type: ignore[arg-type]
    assert rows(here) == rows(there)
    assert here.stopped == there.stopped


def test_points_with_other_metrics_share_a_task(two: clusters.Cluster, tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(SWEEP).sweep(
        {
            "link.radio.protocol": [
                {"kind": "raw"},
                {"kind": "selective-repeat"},
                {"kind": "xor-fec"},
            ]
        }
    )
    there = lasthop.Campaign(tmp_path / "c", cluster=two).run(scenario, replications=3)
    assert rows(there) == rows(lasthop.Campaign(tmp_path / "d").run(scenario, replications=3))


def test_tasks_are_of_about_a_second_and_the_dearest_first(
    two: clusters.Cluster, scenario: lasthop.Scenario
) -> None:
    points = scenario.points()
    work = [(0, 0, 1000, 0.01), (1, 0, 1000, 0.04), (2, 5, 3, 2.5)]
    stream = clusters.ClusterStream(two, points, work, seed=1)
    first, second, third = (stream._next_work() for _ in range(3))
    assert first == [(2, 5, 1)]
    assert second == [(2, 6, 1)]
    assert third == [(2, 7, 1)]
    assert stream._next_work() == [(1, 0, 25)]
    for _ in range(39):
        stream._next_work()
    assert stream._next_work() == [(0, 0, 100)]
    unknown = clusters.ClusterStream(two, points, [(p, 0, 9, -1.0) for p in range(4)], seed=1)
    assert unknown._next_work() == [(place, 0, 1) for place in range(4)]
    assert unknown._next_work() == []  # until one result has been received


@pytest.mark.slow
def test_killed_workers_lose_nothing(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(SWEEP)
    count = 400
    with clusters.connect("local:2") as cluster:
        killed: list[int] = []

        def progress(done: int, total: int) -> None:
            # After each sixth of the replications, one worker is killed by SIGKILL.
            if done > (len(killed) + 1) * total / 6 and len(killed) < 4:
                alive = list(cluster.client.run(os.getpid).values())
                if alive:
                    killed.append(alive[len(killed) % len(alive)])
                    os.kill(killed[-1], signal.SIGKILL)

        campaign = lasthop.Campaign(tmp_path / "c", cluster=cluster)
        there = campaign.run(scenario, replications=count, progress=progress)
    assert killed
    assert rows(there) == rows(lasthop.run(scenario, replications=count))


@pytest.mark.slow
def test_a_local_worker_that_dask_gives_up_starts_again() -> None:
    import dask

    # Dask waits for this time for a killed worker to return; 1 ms is too short.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}),
        clusters.connect("local:1") as cluster,
    ):
        (process,) = cluster.client.run(os.getpid).values()
        assert cluster._local is not None
        local, _ = cluster._local
        os.kill(process, signal.SIGKILL)
        until(lambda: not local.workers)
        until(lambda: cluster.threads() == 1)


def stored(store: Path) -> int:
    """Number of replications in the ledger."""
    try:
        return len(lasthop.Campaign(store).frame("*goodput_bps").collect())
    except lasthop.CampaignError:
        return 0  # the ledger does not exist yet


COORDINATOR = """
import sys, lasthop
from lasthop import cluster
if __name__ == "__main__":
    with cluster.connect(sys.argv[1]) as there:
        lasthop.Campaign(sys.argv[2], cluster=there).record(
            lasthop.load(sys.argv[3]), replications=int(sys.argv[4]))
"""


@pytest.mark.slow
def test_a_killed_coordinator_leaves_a_campaign_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "coordinator.py").write_text(COORDINATOR)
    store = tmp_path / "store"
    # Two processes connect to this cluster, so that its certificate is not bound to one process.
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as own,
        distributed.Client(own) as client,
    ):
        cluster = clusters.connect(client)
        address = own.scheduler_address
        command = [
            sys.executable,
            str(tmp_path / "coordinator.py"),
            address,
            str(store),
            str(tmp_path / "sweep.toml"),
            "100000",
        ]
        process = subprocess.Popen(command)
        try:
            until(lambda: stored(store) > 0)
        finally:
            process.kill()
            process.wait()
        assert stored(store) > 0
        # The scheduler drops the requests of the killed process; the next process resumes the
        # campaign.
        there = lasthop.Campaign(store, cluster=cluster).run(
            tmp_path / "sweep.toml", replications=60
        )
    assert rows(there) == rows(lasthop.run(tmp_path / "sweep.toml", replications=60))


@pytest.mark.slow
def test_workers_with_another_engine_are_refused_by_name(scenario: lasthop.Scenario) -> None:
    with clusters.connect("local:2") as cluster:
        before = list(cluster.client.nthreads())
        odd = before[0]

        def become_another() -> None:
            from lasthop import cluster as module
            from lasthop.running.engine import Engine

            module.engine = lambda: Engine("0.0.1", "another")  # type: ignore

        cluster.client.run(become_another, workers=[odd])
        there = lasthop.run(scenario, replications=10, cluster=cluster)
        assert rows(there) == rows(lasthop.run(scenario, replications=10))
        # The worker may not have had a task; `check` queries all workers.
        if not cluster.refused:
            cluster.check()
        assert cluster.refused == {odd: str(Engine("0.0.1", "another"))}
        until(lambda: odd not in cluster.client.nthreads())
        cluster.client.run(become_another)
        with pytest.raises(clusters.ClusterError, match=r"another engine, tls://.* with 0\.0\.1"):
            clusters.connect(cluster.client)


def test_a_stop_keeps_what_is_finished(two: clusters.Cluster, scenario: lasthop.Scenario) -> None:
    stream = two.stream(scenario.points(), [(p, 0, 10**6, 0.005) for p in range(4)], seed=1)
    batch = None
    while batch is None or not batch.rows:
        batch = stream.next(0.1)
    stream.stop()
    while stream.next(0.1) is not None:
        pass
    assert not stream._out


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("local:0", "invalid value `local:0` for `--cluster`: expected local:N, tcp://HOST:PORT"),
        ("somewhere", "invalid value `somewhere` for `--cluster`: expected local:N"),
    ],
)
def test_what_is_no_cluster_is_refused(
    where: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    assert _main(["run", str(file), "--cluster", where]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_runs_on_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(SWEEP)
    common = ["run", str(file), "--replications", "5", "--format", "json"]
    assert _main([*common, "--cluster", "local:1", "--store", str(tmp_path / "s")]) == 0
    there: Any = json.loads(capsys.readouterr().out)
    assert _main(common) == 0
    assert json.loads(capsys.readouterr().out) == there
    assert _main([*common, "--cluster", "local:1", "--jobs", "2"]) == 2
    assert "cannot use `--jobs` with `--cluster`" in capsys.readouterr().err
    assert _main(["reproduce", "multilayer", "--cluster", "local:1"]) == 2
    assert "`--cluster` requires `--store DIR`" in capsys.readouterr().err
