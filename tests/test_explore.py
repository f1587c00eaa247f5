"""`lasthop explore`: access control, computed answers, exports."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import lasthop
from explorer import QUESTION, Explorer, explorer
from lasthop.page import connections, play, safety
from lasthop.page.cores import Cores
from lasthop.page.inside import UNITS, delays, inside, trace_most
from lasthop.page.question import Refused, check_files, read_question
from lasthop.page.server import colours
from lasthop.showing.figures import style


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the server, with a campaign; its parent folder contains a secret file."""
    outer = tmp_path_factory.mktemp("outer")
    (outer / "secret.txt").write_text("1\n0\n1\n")
    found = outer / "inner"
    found.mkdir()
    (found / "losses.txt").write_text("0\n0\n1\n")
    (found / "link").symlink_to(outer / "secret.txt")
    scenario = lasthop.Scenario(QUESTION["scenario"]).sweep(
        {
            "link.radio.errors.loss": ["1 %", "5 %"],
            "flow.download.transport.variant": ["reno", "sack"],
        }
    )
    lasthop.Campaign(found / "results").run(scenario, replications=3)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Explorer]:
    with explorer(folder, "--jobs", "2") as found:
        yield found


def test_colours_are_those_of_figures() -> None:
    assert colours() == list(dict.fromkeys(one[0] for one in style.SPARE))[:6]


@pytest.mark.slow
def test_an_interrupt_ends_it_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lasthop", "explore", "--no-browser"]
    pipe = subprocess.PIPE
    # The interrupt arrives while an answer is being sent.
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = urlsplit(process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=30)
        token = parse_qs(address.query)["token"][0].strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/api/play", json.dumps(QUESTION), headers)
        connection.getresponse().readline()
        process.send_signal(signal.SIGINT)
        code = process.wait(20)
        connection.close()
        output = process.stderr.read()
    assert code in (0, 130, -signal.SIGINT)
    assert "Traceback" not in output


# Safety.


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": None}, 400),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": None}, 415),
    ],
)
def test_others_are_refused(server: Explorer, headers: dict[str, str | None], status: int) -> None:
    found, _, text = server.request("/api/play", QUESTION, headers=headers)
    assert found == status
    assert b"estimate" not in text


def test_its_own_origin_is_let_in(server: Explorer) -> None:
    headers: dict[str, str | None] = {
        "Origin": f"http://127.0.0.1:{server.port}",
        "Sec-Fetch-Site": "same-origin",
    }
    status, _, _ = server.request("/api/check", QUESTION, headers=headers)
    assert status == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/begin", "/absent", "/api/absent"])
def test_every_answer_carries_the_headers(server: Explorer, path: str) -> None:
    for asked in (server.request(path), server.request(path, headers={"Authorization": None})):
        _, headers, _ = asked
        for name, value in safety.HEADERS.items():
            assert headers[name] == value
        assert "server" not in headers
    policy = safety.HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "*" not in policy


def test_it_listens_on_this_machine_alone(server: Explorer) -> None:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A" and int(local.split(":")[1], 16) == server.port:
            # 127.0.0.1 in the byte order of this machine.
            assert local.split(":")[0] == f"{struct.unpack('=I', bytes([127, 0, 0, 1]))[0]:08X}"
            return
    pytest.fail("no socket listens")


def test_bodies_are_bounded(server: Explorer) -> None:
    large = b" " * (safety.LARGEST_BODY + 1)
    status, _, _ = server.request("/api/check", large)
    assert status == 413
    # A body without a length is limited, too.
    headers: dict[str, str | None] = {"Transfer-Encoding": "chunked"}
    status, _, _ = server.request(
        "/api/check", b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large), headers=headers
    )
    assert status in (400, 413)


def test_a_body_in_chunks_is_bounded(server: Explorer) -> None:
    large = b" " * (safety.LARGEST_BODY + 1)
    head = (
        f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as there:
        there.sendall(head.encode() + b"%x\r\n%s\r\n0\r\n\r\n" % (len(large), large))
        assert there.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
def test_clients_without_the_token_do_not_exhaust_it(server: Explorer) -> None:
    begun = b"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1"
    body = (
        f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: 9\r\n\r\n{"
    ).encode()
    with contextlib.ExitStack() as opened:
        start = time.monotonic()
        silent = []
        for sent in [begun] * 65 + [b""] * 65 + [body] * 4:
            one = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            opened.enter_context(one)
            one.sendall(sent)
            silent.append(one)
        for _ in range(3):
            assert server.request("/api/check", QUESTION)[0] == 200
        # All are closed: the oldest to make room, the others by the timeout.
        for one in silent:
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
        assert time.monotonic() - start < connections.REQUEST_S + 10
    # A client that sends a whole request after that is answered.
    assert server.request("/api/begin")[0] == 200


def test_a_pipe_in_the_folder_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "campaign").mkdir()
    os.mkfifo(tmp_path / "campaign" / "ledger.sqlite")
    question = copy.deepcopy(QUESTION)
    question["scenario"]["link"]["radio"]["errors"] = {"kind": "trace", "file": "pipe"}
    with explorer(tmp_path) as server:
        for path, body in (("check", question), ("campaign", {"folder": "campaign"})):
            status, _, text = server.request(f"/api/{path}", body)
            assert (status, b"regular file" in text) == (422, True), text
        assert server.request("/api/campaigns")[0] == 200


@pytest.mark.parametrize("odd", [b"{}", b"[[]]", b"1e999", b"9" * 400])
@pytest.mark.parametrize(
    ("path", "places"),
    [
        ("inside", "alternative replication until_s"),
        ("figure", "figure replications figure.kind figure.metric figure.format figure.size"),
        ("take", "replications"),
        ("curves", "folder run kind x y by facet where"),
        ("point", "point metric"),
    ],
)
def test_odd_values_are_refused(server: Explorer, path: str, places: str, odd: bytes) -> None:
    figure = {"kind": "cdf", "metric": "flow.download.goodput_bps", "format": "svg"}
    for place in places.split():
        sent = copy.deepcopy({**QUESTION, "folder": "results", "figure": figure})
        table, _, key = place.rpartition(".")
        (sent[table] if table else sent)[key] = "ODD"
        body = json.dumps(sent).encode().replace(b'"ODD"', odd)
        status, _, text = server.request(f"/api/{path}", body)
        # Empty tables are valid in the selection of a run.
        assert status == 422 or (status, place, odd) == (200, "where", b"{}"), (place, text)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"{}", b'{"scenario": 1}', b'{"a":' * 5000, b"\xff\xfe"]
)
@pytest.mark.parametrize("path", ["play", "check", "inside", "figure", "take", "curves", "point"])
def test_what_is_no_question_is_told_in_a_line(server: Explorer, path: str, body: bytes) -> None:
    status, _, text = server.request(f"/api/{path}", body)
    assert status == 422, text
    assert "\n" not in json.loads(text)["error"]


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/passwd", "link", "a/../../secret.txt", "\0"]
)
def test_no_file_outside_the_folder_is_read(server: Explorer, folder: Path, name: str) -> None:
    question = copy.deepcopy(QUESTION)
    question["alternatives"][1]["changes"] = {"link.radio.errors": {"kind": "trace", "file": name}}
    for path in ("play", "check", "take", "inside"):
        status, _, text = server.request(f"/api/{path}", question)
        assert status == 422
        assert "expected a file in inner/" in json.loads(text)["error"]
    status, _, text = server.request("/api/campaign", {"folder": "../outer"})
    assert status == 422
    for path in ("/../secret.txt", "/%2e%2e/secret.txt", "//etc/passwd", "/vendor/../../server.py"):
        status, _, _ = server.request(path)
        assert status == 404
    with pytest.raises(Refused):
        check_files({"link": {"a": {"errors": {"file": name}}}}, folder)


def test_a_file_in_the_folder_is_read(server: Explorer) -> None:
    question = copy.deepcopy(QUESTION)
    errors = {"kind": "trace", "file": "losses.txt"}
    question["alternatives"] = [{"label": "traced", "changes": {"link.radio.errors": errors}}]
    last = server.play(question)[-1]
    assert last["event"] in ("estimate", "delay")


def test_nothing_is_written(server: Explorer, folder: Path) -> None:
    def listing() -> list[str]:
        return sorted(str(path) for path in folder.parent.rglob("*"))

    before = listing()
    server.play(QUESTION)
    server.ask("/api/take", {**QUESTION, "replications": 5})
    server.request("/api/figure", {**QUESTION, "replications": 2, "figure": {"kind": "sequence"}})
    server.ask("/api/campaigns")
    assert listing() == before


# Playing.


def test_answers_are_those_of_a_run_and_intervals_shrink(server: Explorer) -> None:
    events = server.play(QUESTION)
    estimates = [event for event in events if event["event"] == "estimate"]
    counts = [event["n"] for event in estimates]
    assert counts[0] == play.FIRST
    assert counts == sorted(set(counts))
    assert counts[-1] == play.MOST
    assert [bool(event["done"]) for event in estimates] == [False] * (len(counts) - 1) + [True]
    metric = "flow.download.goodput_bps"
    widths = [event["estimates"][0][metric][1] for event in estimates if event["n"] >= 8]
    assert widths[-1] < widths[0]
    # The numbers equal those of the command, including paired differences.
    cases = {one["label"]: one["changes"] for one in QUESTION["alternatives"]}
    scenario = lasthop.Scenario(QUESTION["scenario"]).sweep(case=cases)
    results = lasthop.run(scenario, replications=play.MOST, seed=1)
    for index in range(2):
        expected = results.point_intervals(index)[metric]
        assert estimates[-1]["estimates"][index][metric] == [
            pytest.approx(expected.mean),
            pytest.approx(expected.ci95),
            play.MOST,
        ]
    gap = results.differences(metric, by="case", baseline="raw").row(0, named=True)
    difference = estimates[-1]["differences"][0][metric]
    assert difference == [pytest.approx(gap[name]) for name in ("mean", "ci95", "p_value")]


def test_delays_of_each_alternative_are_told(server: Explorer) -> None:
    delays = [event for event in server.play(QUESTION) if event["event"] == "delay"]
    assert [event["alternative"] for event in delays] == [0, 1]
    for event in delays:
        quantiles = event["flows"]["flow.download"]["quantiles_s"]
        assert quantiles == sorted(quantiles)
        # Data arrives only after it has crossed the link.
        assert quantiles[0] > 0.020


def test_a_refusal_names_key_and_alternative(server: Explorer) -> None:
    question = copy.deepcopy(QUESTION)
    question["alternatives"][1]["changes"] = {"link.radio.rate": "fast"}
    status, _, text = server.request("/api/play", question)
    found = json.loads(text)
    assert status == 422
    assert found["key"] == "link.radio.rate"
    assert found["alternative"] == 1
    question["alternatives"] = [{"label": f"{n}", "changes": {}} for n in range(7)]
    status, _, text = server.request("/api/play", question)
    assert status == 422
    assert "at most 6" in json.loads(text)["error"]


def test_a_page_that_leaves_stops_its_work() -> None:
    """Closing the answer ends its thread and releases the cores."""

    async def leave_early() -> None:
        cores = Cores(2)
        tables = copy.deepcopy(QUESTION)
        tables["scenario"]["flow"]["download"]["app"]["size"] = "20 MB"
        question = read_question(tables, Path())
        events = play.answer(question, cores)
        task = asyncio.ensure_future(anext(events))
        while cores.busy == 0:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await events.aclose()
        assert cores.busy == 0

    asyncio.run(leave_early())
    assert not [one for one in threading.enumerate() if one.name == "replications"]


def test_no_more_cores_are_lent_than_there_are_and_in_turn() -> None:
    async def share() -> tuple[int, list[int]]:
        cores, most, order = Cores(3), 0, []

        async def page(number: int) -> None:
            nonlocal most
            async with cores.lend(3) as lent:
                order.append(number)
                most = max(most, cores.busy)
                assert lent >= 1
                await asyncio.sleep(0.001)

        await asyncio.gather(*(page(number) for number in range(8)))
        assert cores.busy == 0
        # A page that is cancelled while it waits holds no cores.
        async with cores.lend(3):
            waiting = asyncio.ensure_future(page(9))
            await asyncio.sleep(0)
            waiting.cancel()
        (result,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(result, asyncio.CancelledError)
        assert cores.busy == 0
        return most, order

    most, order = asyncio.run(share())
    assert most == 3
    assert order == list(range(8))


# Trace view.


def unpack(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    length = int.from_bytes(body[:8], "little")
    head = json.loads(body[8 : 8 + length])
    columns = {
        name: np.frombuffer(body, dtype=f"<{kind}", count=count, offset=8 + length + at)
        for name, kind, at, count in head["columns"]
    }
    return head, columns


def test_columns_are_those_of_the_trace(server: Explorer) -> None:
    status, _, body = server.request("/api/inside", {**QUESTION, "alternative": 1})
    assert status == 200
    head, columns = unpack(body)
    changes = QUESTION["alternatives"][1]["changes"]
    trace = lasthop.trace(lasthop.Scenario(QUESTION["scenario"]).with_(changes), seed=1)
    assert head["transfers"] == ["flow.download"]
    assert columns["event.time"].tolist() == trace.frame["time_s"].to_list()
    own = trace.frame.filter(entity="flow.download")
    assert len(columns["sack.time.0"]) == own.filter(event="sack_block").height
    assert [link["from"] for link in head["links"]] == ["server", "phone"]
    forward = trace.transmissions.filter(entity="link.radio.forward")
    assert len(columns["frame.start.0"]) == forward.height
    assert np.isnan(columns["frame.arrival.0"]).sum() == forward["arrival_s"].null_count()


def test_events_have_units() -> None:
    """Values without an entry count bytes; every value that counts something else has an entry."""
    example = Path(__file__).parent.parent / "examples" / "wifi6.toml"
    tables = lasthop.load(example).to_dict()
    tables["run"] = {"duration": "50 ms"}
    tables.pop("sweep", None)
    about, columns = inside(lasthop.trace(tables))
    units = dict(zip(about["events"], about["units"], strict=True))
    assert units["backoff"] == ("slots", "slots")
    assert units["nav"] == ("s", "s")
    assert units["queue"] == ("", "packets")
    frames = columns["event.what"] == about["events"].index("frame_sent")
    assert units["frame_sent"] == ("", "B")
    assert columns["event.value"][frames].max() == 1538
    tables = copy.deepcopy(QUESTION["scenario"])
    about, columns = inside(lasthop.trace(tables))
    valued = set(columns["event.what"][np.isfinite(columns["event.value"])].tolist())
    in_bytes = {name for code, name in enumerate(about["events"]) if code in valued} - set(UNITS)
    assert in_bytes == {"segment_sent", "segment_received", "sack_block"}


def test_lost_segments_are_those_that_the_link_lost() -> None:
    """On a link without a protocol, each lost frame is a lost copy of a segment."""
    scenario = lasthop.Scenario(QUESTION["scenario"]).set("flow.download.app.size", "1 MB")
    trace = lasthop.trace(scenario)
    _, columns = inside(trace)
    air = trace.transmissions.filter(entity="link.radio.forward").drop_nulls("segment")
    lost = air.filter(air["arrival_s"].is_null())["segment"].to_list()
    assert lost
    marked = columns["sent.sequence.0"][columns["sent.lost.0"] == 1]
    # The SYN has no data.
    assert sorted(marked.tolist()) == sorted(float(one) for one in lost if one > 0)
    for start, end in zip(columns["phase.start.0"], columns["phase.end.0"], strict=True):
        assert start < end
    assert delays(trace)["flow.download"].min() > 0.02


def test_a_long_replication_is_recorded_as_far_as_it_can_be_shown() -> None:
    """Background traffic that generates no events does not count towards the limit."""
    example = Path(__file__).parent.parent / "examples" / "sr-file-transfer.toml"
    point = lasthop.Scenario(json.loads(lasthop.load(example).points()[0].to_json()))
    row = lasthop.run(point, replications=1)
    metrics = dict(zip(row.metrics, row.values[0].tolist(), strict=True))
    found, until = trace_most(point, metrics, seed=1, replication=0, most=20_000)
    assert until is not None
    assert 20_000 / 3 < found.frame.height < 2 * 20_000
    assert found.frame["time_s"].max() == pytest.approx(until, rel=0.05)


def test_modules_have_a_type_that_browsers_run(server: Explorer) -> None:
    for path in ("/app.js", "/vendor/preact-11.2.0.mjs"):
        status, headers, _ = server.request(path)
        assert status == 200
        assert headers["content-type"].startswith("text/javascript")


# Export.


def test_what_is_taken_away_gives_the_same_numbers(server: Explorer, tmp_path: Path) -> None:
    found = server.ask("/api/take", {**QUESTION, "replications": 5})
    expected = lasthop.run(
        lasthop.Scenario(QUESTION["scenario"]).sweep(
            case={one["label"]: one["changes"] for one in QUESTION["alternatives"]}
        ),
        replications=5,
        seed=1,
    ).summary()
    assert tomllib.loads(found["toml"])["run"] == {"replications": 5, "seed": 1}
    file = tmp_path / "taken.toml"
    file.write_text(found["toml"])
    assert lasthop.run(file).summary().equals(expected)
    tables: dict[str, Any] = {}
    program = found["python"].replace("print(results.summary())", "")
    exec(program, tables)
    assert tables["results"].summary().equals(expected)
    command = found["command"].replace("| lasthop", "| python -m lasthop")
    assert "\n" not in command
    out = subprocess.run(
        [
            "sh",
            "-c",
            f"PATH={Path(sys.executable).parent}:$PATH; {command} --format json",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(out.stdout)["points"][0]["metrics"]["flow.download.goodput_bps"]["mean"]
    row = expected.filter(point=0, metric="flow.download.goodput_bps").row(0, named=True)
    assert printed == pytest.approx(row["mean"])


@pytest.mark.parametrize(
    ("figure", "start"),
    [
        ({"kind": "line", "metric": "flow.download.goodput_bps", "format": "svg"}, b"<?xml"),
        ({"kind": "cdf", "metric": "flow.download.goodput_bps", "format": "pdf"}, b"%PDF"),
        ({"kind": "sequence", "format": "png"}, b"\x89PNG"),
        ({"kind": "ladder", "link": "radio", "start": 0.0, "end": 0.3, "format": "svg"}, b"<?xml"),
    ],
)
def test_figures_are_files(server: Explorer, figure: dict[str, Any], start: bytes) -> None:
    body = {**QUESTION, "replications": 3, "figure": figure}
    status, _, picture = server.request("/api/figure", body)
    assert status == 200, picture
    assert picture.startswith(start)


# Browsing.


def test_a_campaign_is_browsed(server: Explorer) -> None:
    found = server.ask("/api/campaigns")["campaigns"]
    assert [one["folder"] for one in found] == ["results"]
    where = {"folder": "results", "run": found[0]["runs"][0]["id"]}
    about = server.ask("/api/campaign", where)
    assert [key["key"] for key in about["keys"]] == [
        "link.radio.errors.loss",
        "flow.download.transport.variant",
    ]
    asked = {**where, "x": "link.radio.errors.loss", "y": "flow.download.goodput_bps"}
    panels = server.ask("/api/curves", asked)["panels"]
    labels = [curve["label"].lower() for curve in panels[0]["curves"]]
    assert labels == ["reno", "sack"]
    assert panels[0]["curves"][0]["n"] == [3, 3]
    faceted = server.ask("/api/curves", {**asked, "facet": "flow.download.transport.variant"})
    assert len(faceted["panels"]) == 2
    number = panels[0]["curves"][1]["points"][0]
    point = server.ask("/api/point", {**where, "point": number, "metric": asked["y"]})
    assert point["parameters"]["flow.download.transport.variant"] == "sack"
    assert np.mean(point["values"]) == pytest.approx(panels[0]["curves"][1]["mean"][0])
    # The scenario of a point can be traced.
    status, _, _ = server.request("/api/inside", {"scenario": point["scenario"]})
    assert status == 200


def test_a_point_of_a_run_that_differs_in_words_is_not_found(server: Explorer) -> None:
    for body in ({"point": 99, "metric": "x"}, {"point": 0, "metric": "x"}, {"point": True}):
        status, _, _ = server.request("/api/point", {"folder": "results", **body})
        assert status == 422
