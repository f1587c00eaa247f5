"""Captures as Wireshark's dissectors read them."""

import csv
import io
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import lasthop
from conftest import ROOT
from lasthop import commands as cli

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark (Wireshark on the command line) is not installed"
)

CHECKS = [
    option
    for protocol in ("ip", "tcp", "udp")
    for option in ("-o", f"{protocol}.check_checksum:TRUE")
]

HOPS = """
name = "two hops"

[link.access]
between = ["server", "ap"]
rate = "2 Mbps"
delay = "20 ms"
queue = "8 packets"
errors = { kind = "uniform", loss = "1 %" }

[link.wireless]
between = ["ap", "client"]
rate = "3 Mbps"
delay = "5 ms"
protocol = { kind = "selective-repeat" }
errors = { kind = "uniform", loss = "5 %" }

[flow.transfer]
from = "server"
to = "client"
transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }
app = { kind = "file", size = "1 MB" }

[run]
replications = 1
"""


def hops(**keys: object) -> lasthop.Scenario:
    changes = {f"flow.transfer.transport.{key}": value for key, value in keys.items()}
    return lasthop.Scenario.from_toml(HOPS).with_(changes)


def read(
    path: Path, *fields: str, only: str = "", options: tuple[str, ...] = ()
) -> list[dict[str, str]]:
    """The fields of each packet that matches a display filter, as tshark reads them."""
    command = ["tshark", "-r", str(path), *CHECKS, *options, "-T", "fields", "-E", "header=y"]
    command += ["-E", "separator=,", "-E", "quote=d", "-E", "occurrence=a"]
    command += [word for field in fields for word in ("-e", field)]
    command += ["-Y", only] if only else []
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def count(path: Path, only: str) -> int:
    return len(read(path, "frame.number", only=only))


def assert_sound(path: Path) -> None:
    """Checks that every packet is consistent: length, options, checksums (status 0 is bad)."""
    bad = "_ws.malformed || _ws.expert.severity == error || tcp.checksum.status == 0"
    bad += " || ip.checksum.status == 0 || udp.checksum.status == 0"
    assert count(path, bad) == 0
    assert count(path, "tcp.checksum.status == 1 || udp.checksum.status == 1") > 0
    assert count(path, "!(tcp || udp)") == 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["reno", "newreno", "sack"])
@pytest.mark.parametrize("profile", ["rfc", "ns-2"])
def test_wireshark_counts_the_retransmissions_of_the_sender(
    tmp_path: Path, variant: str, profile: str
) -> None:
    scenario = hops(variant=variant, profile=profile)
    path = tmp_path / "server.pcapng"
    packets = lasthop.capture(scenario, path, host="server")
    assert_sound(path)
    metrics = lasthop.trace(scenario).metrics
    # tshark classifies each retransmission under one of these names; no other packet is out of
    # order.
    again = "tcp.analysis.retransmission || tcp.analysis.fast_retransmission"
    again += " || tcp.analysis.spurious_retransmission"
    assert count(path, again) == metrics["flow.transfer.retransmissions"] > 0
    assert count(path, "tcp.analysis.out_of_order") == 0
    # The answer to the SYN is counted, too.
    sent = count(path, "ip.src == 10.0.0.1 || tcp.flags.syn == 1 && ip.src == 10.0.0.3")
    assert sent == metrics["flow.transfer.segments_sent"]
    assert count(path, "ip") == packets
    assert (count(path, "tcp.options.sack_le") > 0) == (variant == "sack")
    # Comments mark the lost packets and those dropped by the queue.
    forward = 'frame.interface_name == "access.forward"'
    lost = metrics["link.access.forward.frames_lost"]
    assert count(path, f'{forward} && frame.comment contains "lost on the air"') == lost > 0
    drops = metrics["link.access.forward.queue_drops"]
    assert count(path, 'frame.comment contains "dropped by the queue"') == drops > 0


@pytest.mark.slow
def test_retransmissions_can_pass_for_out_of_order(tmp_path: Path) -> None:
    """With a long queue, they follow the newest data by less than the RTT of the handshake."""
    scenario = hops(receive_window="200 segments").with_(
        {
            "link.access.queue": "60 packets",
            "link.access.errors.loss": "0.5 %",
            "link.access.rate": "20 Mbps",
        }
    )
    path = tmp_path / "server.pcapng"
    lasthop.capture(scenario, path, host="server", snap=80)
    early = count(path, "tcp.analysis.out_of_order")
    again = count(path, "tcp.analysis.retransmission || tcp.analysis.out_of_order")
    assert early > 0
    assert again == lasthop.trace(scenario).metrics["flow.transfer.retransmissions"]


@pytest.mark.slow
def test_a_handshake_agrees_on_what_is_used(tmp_path: Path) -> None:
    path = tmp_path / "all.pcapng"
    lasthop.capture(hops(timestamps=True), path, host="client")
    fields = ["tcp.flags.ack", "tcp.options.mss_val", "tcp.options.sack_perm"]
    fields += ["tcp.options.timestamp.tsval", "tcp.dstport", "tcp.srcport"]
    syns = read(path, *fields, only="tcp.flags.syn == 1")
    assert [syn["tcp.flags.ack"] for syn in syns] in (["0", "1"], ["False", "True"])
    for syn in syns:
        assert syn["tcp.options.mss_val"] == "1000"
        assert syn["tcp.options.sack_perm"]
        assert syn["tcp.options.timestamp.tsval"]
    assert (syns[0]["tcp.dstport"], syns[0]["tcp.srcport"]) == ("40000", "49152")
    assert count(path, "!tcp.options.timestamp.tsval") == 0
    # The file is complete: its last byte has PSH set, and all of it is acknowledged.
    (last,) = read(path, "tcp.nxtseq", only="tcp.flags.push == 1 && tcp.nxtseq == 1000001")[:1]
    assert last["tcp.nxtseq"] == "1000001"
    assert count(path, "tcp.ack == 1000001 && ip.src == 10.0.0.3") > 0


@pytest.mark.slow
def test_the_air_shows_copies_of_the_link_and_a_host_does_not(tmp_path: Path) -> None:
    scenario = hops()
    trace = lasthop.trace(scenario)
    metrics = trace.metrics
    air, host = tmp_path / "air.pcapng", tmp_path / "host.pcapng"
    lasthop.capture(scenario, air, link="wireless")
    lasthop.capture(scenario, host, link="wireless", host="client")
    assert_sound(air)
    sides = ("forward", "reverse")
    copies = sum(metrics[f"link.wireless.{side}.retransmissions"] for side in sides)
    assert count(air, 'frame.comment contains "copy of link frame"') == copies > 0
    assert count(host, 'frame.comment contains "copy"') == 0
    # The host's capture contains the packets that its TCP receives.
    received = trace.frame.filter(
        pl.col("event").is_in(["segment_received", "ack_received"]),
        entity="flow.transfer.receiver",
    ).height
    assert count(host, "ip.dst == 10.0.0.3 && frame.packet_flags_direction == 1") == received
    assert {row["frame.interface_name"] for row in read(air, "frame.interface_name")} == {
        "wireless.forward",
        "wireless.reverse",
    }
    described = read(air, "frame.interface_description", only="frame.number == 1")
    assert described == [
        {
            "frame.interface_description": "ap to client: 3 Mbps, 5 ms, selective-repeat, "
            "errors uniform"
        }
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "docs/links/scenarios").glob("*.toml")))
def test_every_link_protocol_can_be_captured(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.pcapng"
    assert lasthop.capture(path, target) > 0
    assert_sound(target)
    recorded = lasthop.trace(path)
    comments = "".join(row["frame.comment"] for row in read(target, "frame.comment"))
    # If a link protocol segments packets, the losses of segments are not shown.
    expected = "segmented" if path.stem == "rlc" else "lost on the air"
    assert expected in comments
    if recorded.agents:
        # A proxy sends its segments on a separate connection.
        again = 0 if path.stem == "split-connection" else 1
        assert count(target, 'frame.comment contains "retransmitted by the agent"') == again


def test_times_are_those_of_the_simulation(tmp_path: Path) -> None:
    """In nanoseconds: 250 bytes at 64 kbps take 31.25 ms."""
    path = tmp_path / "voice.pcapng"
    scenario = ROOT / "docs/links/scenarios/selective-repeat.toml"
    lasthop.capture(scenario, path)
    rows = read(path, "frame.time_epoch", only='frame.interface_name == "radio.forward"')
    air = lasthop.trace(scenario).transmissions.filter(kind="data")
    starts = [float(row["frame.time_epoch"]) for row in rows]
    assert starts == pytest.approx(sorted(air["start_s"]), abs=1e-9)
    assert count(path, "udp.dstport == 40000 && udp.length == 228") == len(rows)


@pytest.mark.slow
def test_a_snap_length_keeps_headers_and_true_lengths(tmp_path: Path) -> None:
    whole, short = tmp_path / "whole.pcapng", tmp_path / "short.pcapng"
    assert lasthop.capture(hops(), whole) == lasthop.capture(hops(), short, snap=80)
    assert short.stat().st_size < whole.stat().st_size / 4
    for name in ("frame.len", "tcp.len", "tcp.checksum"):
        assert read(short, name) == read(whole, name)
    assert max(int(row["frame.cap_len"]) for row in read(short, "frame.cap_len")) == 80


@pytest.mark.slow
@pytest.mark.parametrize(("header", "shown"), [("20 B", "40"), ("52 B", "52"), ("90 B", "80")])
def test_headers_are_padded_to_what_the_scenario_charges(
    tmp_path: Path, header: str, shown: str
) -> None:
    path = tmp_path / "headers.pcapng"
    lasthop.capture(hops(header=header), path, host="server", snap=100)
    assert count(path, "_ws.malformed || tcp.checksum.status == 0") == 0
    rows = read(path, "tcp.len", "frame.len", only="tcp.len == 1000")
    assert {int(row["frame.len"]) - 1000 for row in rows} == {int(shown)}


def test_one_way_web_pages_have_connections_of_their_own(tmp_path: Path) -> None:
    scenario = hops(profile="ns-2").with_({"run.duration": "20 s"})
    tables = scenario.to_dict()
    tables["flow"]["transfer"]["app"] = {"kind": "web"}
    path = tmp_path / "web.pcapng"
    lasthop.capture(tables, path, host="client", snap=80)
    assert count(path, "_ws.malformed || ip.checksum.status == 0") == 0
    syns = read(path, "tcp.stream", "ip.src", "tcp.srcport", only="tcp.flags.syn == 1")
    assert len({row["tcp.srcport"] for row in syns}) == len({row["tcp.stream"] for row in syns})
    # The browser opens connections for requests; the server sends the replies.
    assert {row["ip.src"] for row in syns} == {"10.0.0.1", "10.0.0.3"}


def test_the_command_writes_a_capture_and_refuses_what_is_not_there(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.pcapng"

    def lines(*arguments: str) -> list[str]:
        code = cli._main(["trace", str(small), *arguments])
        captured = capsys.readouterr()
        return [str(code), *(captured.out + captured.err).splitlines()]

    code, line = lines("--pcap", str(target), "--link", "wireless", "--at", "client")
    assert code == "0"
    assert line == f"{target}: {count(target, 'ip')} packets"
    for arguments, words in [
        (["--link", "x"], "invalid value `x` for `--link`: expected wireless"),
        (["--at", "x"], "invalid value `x` for `--at`: expected server, client"),
        (["--from", "1 s"], "cannot use `--from` or `--to` with `--pcap`"),
    ]:
        code, line = lines("--pcap", str(target), *arguments)
        assert code == "2"
        assert words in line
    code, line = lines("--at", "client")
    assert code == "2"
    assert "--pcap" in line
    code, line = lines("--pcap", str(tmp_path / "no" / "out.pcapng"))
    assert code == "2"
    assert "No such file" in line


@pytest.mark.slow
def test_packets_that_a_link_cuts_up_are_whole_in_a_capture(tmp_path: Path) -> None:
    """One packet per second, in 25 segments, over the framed radio."""
    scenario = lasthop.load(ROOT / "python/lasthop/papers/arq-and-tcp/alone.toml").with_(
        {"run.duration": "20 s"}
    )
    air, host = tmp_path / "air.pcapng", tmp_path / "host.pcapng"
    packets = lasthop.capture(scenario, air)
    lasthop.capture(scenario, host, host="station")
    assert_sound(air)
    metrics = lasthop.trace(scenario).metrics
    assert packets == metrics["flow.packets.packets_sent"] == 20
    assert count(air, 'frame.comment == "segmented" && frame.len == 1000') == packets
    assert count(host, "frame.len == 1000") == metrics["flow.packets.packets_delivered"]


def test_a_packet_given_up_half_way_does_not_hide_its_retransmission(tmp_path: Path) -> None:
    """TCP sends a segment twice in a row; the last frames of the first copy are never sent."""
    scenario = hops(variant="reno", segment="536 B").with_(
        {
            "link.access.errors.loss": "0 %",
            "link.wireless.rate": "200 kbps",
            "link.wireless.protocol": {
                "kind": "rlc-am",
                "payload": "20 B",
                "max_transmissions": 1,
            },
            "flow.transfer.app.size": "200 kB",
            "run.duration": "100 s",
        }
    )
    path = tmp_path / "pieces.pcapng"
    lasthop.capture(scenario, path, link="wireless", snap=80)
    finished = lasthop.trace(scenario).metrics["link.wireless.forward.packets"]
    assert count(path, 'frame.interface_name == "wireless.forward"') == finished > 0


def test_what_an_agent_sends_again_is_told_from_other_connections(tmp_path: Path) -> None:
    """Connections of web pages have equal sequence numbers; SYNs are retransmitted, too."""
    scenario = hops(variant="reno").with_(
        {
            "link.wireless.protocol": {"kind": "selective-repeat"},
            "link.wireless.agent": {"kind": "snoop", "at": "ap"},
            "link.wireless.rate": "200 kbps",
            "run.duration": "60 s",
        }
    )
    tables = scenario.to_dict()
    tables["flow"]["transfer"]["app"] = {"kind": "web"}
    path = tmp_path / "agent.pcapng"
    lasthop.capture(tables, path, link="wireless", snap=80)
    forward = 'frame.interface_name == "wireless.forward" && !(frame.comment contains "copy")'
    seen: set[tuple[str, ...]] = set()
    again = 0
    for row in read(path, "tcp.dstport", "tcp.seq_raw", "tcp.len", "frame.comment", only=forward):
        packet = (row["tcp.dstport"], row["tcp.seq_raw"], row["tcp.len"])
        if "retransmitted by the agent" in row["frame.comment"]:
            assert packet in seen
            again += 1
        seen.add(packet)
    assert again == lasthop.trace(tables).metrics["agent.wireless.local_retransmissions"] > 5


WLAN = """
name = "cell"

[wlan.cell]
access_point = "ap"
stations = ["laptop", "phone"]
rts_threshold = "800 B"
errors = { kind = "bit", ber = 3e-5 }

[link.wire]
between = ["server", "ap"]
rate = "10 Mbps"
delay = "2 ms"

[flow.down]
from = "server"
to = "laptop"
transport = { kind = "tcp", variant = "sack", profile = "rfc", segment = "1000 B" }
app = { kind = "file", size = "300 kB" }

[flow.up]
from = "phone"
to = "ap"
transport = { kind = "udp" }
app = { kind = "on-off", rate = "2 Mbps", on = "100 s", off = "0 s", packet = "500 B" }

[run]
replications = 1
"""


def test_the_air_of_a_wlan_is_802_11(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(WLAN)
    air = tmp_path / "air.pcapng"
    lasthop.capture(scenario, air)
    assert count(air, "_ws.malformed") == 0
    fields = ("wlan.fc.type_subtype", "wlan.fc.retry", "wlan.fcs.status", "wlan.duration")
    # If tshark checks frame check sequences, it does not dissect a frame with an incorrect one.
    checked = ("-o", "wlan.check_checksum:TRUE")
    found = pl.DataFrame(
        read(air, *fields, "frame.interface_name", "frame.comment", options=checked)
    )
    of_cell = found.filter(pl.col("frame.interface_name").str.starts_with("cell"))
    names = {"0x001b": "rts", "0x001c": "cts", "0x001d": "ack", "0x0020": "data"}
    kinds = of_cell["wlan.fc.type_subtype"].replace_strict(names)
    assert set(kinds) == {"rts", "cts", "ack", "data"}
    # Only the frames that no receiver could read have an incorrect check sequence; 0 is bad.
    is_bad = of_cell["wlan.fcs.status"] == "0"
    is_lost = of_cell["frame.comment"].is_in(["damaged on the air", "collided"])
    assert is_bad.any()
    assert (is_bad == is_lost).all()
    # An ACK frame reserves no time; a data frame reserves its ACK: SIFS and 248 us.
    assert set(of_cell.filter(kinds == "ack")["wlan.duration"]) == {"0"}
    assert set(of_cell.filter(kinds == "data")["wlan.duration"]) == {"258"}
    (result,) = (
        lasthop.run(scenario, replications=1).frame.filter(pl.col("kind") == "wlan").to_dicts()
    )
    retried = of_cell.filter((kinds == "data") & of_cell["wlan.fc.retry"].is_in(["1", "True"]))
    assert 0 < retried.height <= result["retries"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "kinds", "mode"),
    [
        ('standard = "802.11n"\nmax_amsdu = "3839 B"\nmcs = 5', {"block-ack", "ack"}, "mcs.index"),
        ('standard = "802.11ac"\nspatial_streams = 2\nmcs = 5', {"block-ack", "rts"}, "vht.mcs.0"),
        (
            'standard = "802.11ax"\nwidth = "80 MHz"\nmcs = 5\nmissed_block_ack = "request"',
            {"block-ack", "block-ack request"},
            "he.data_3.data_mcs",
        ),
        ('standard = "802.11ax"\nmax_ampdu = "0 B"\nmcs = 5', {"ack"}, "he.data_3.data_mcs"),
    ],
)
def test_the_air_of_later_standards_has_ampdus(
    tmp_path: Path, keys: str, kinds: set[str], mode: str
) -> None:
    text = WLAN.replace("[link.wire]", f"{keys}\n[link.wire]")
    scenario = lasthop.Scenario.from_toml(text.replace("ber = 3e-5", "ber = 1e-5"))
    air = tmp_path / "air.pcapng"
    lasthop.capture(scenario, air)
    assert count(air, "_ws.malformed") == 0
    fields = ("wlan.fc.type_subtype", "wlan.seq", "wlan.ba.bm", f"radiotap.{mode}")
    more = ("radiotap.ampdu.reference", "radiotap.ampdu.flags.last")
    found = pl.DataFrame(read(air, *fields, *more, "frame.interface_name"))
    of_cell = found.filter(pl.col("frame.interface_name").str.starts_with("cell"))
    names = {"0x001b": "rts", "0x001c": "cts", "0x001d": "ack", "0x0028": "data"}
    names |= {"0x0018": "block-ack request", "0x0019": "block-ack"}
    of_cell = of_cell.with_columns(
        pl.col("wlan.fc.type_subtype").replace_strict(names).alias("kind")
    )
    assert kinds <= set(of_cell["kind"])
    data = of_cell.filter(pl.col("kind") == "data")
    assert {int(mcs, 0) for mcs in data[f"radiotap.{mode}"]} == {5}
    # Each A-MPDU has one last MPDU, and one Block Ack whose bitmap is not empty if it was received.
    ampdus = data.filter(pl.col("radiotap.ampdu.reference") != "")
    last = ampdus["radiotap.ampdu.flags.last"].is_in(["1", "True"])
    assert last.sum() == ampdus["radiotap.ampdu.reference"].n_unique()
    assert (ampdus.height > 0) == ("block-ack" in kinds)
    bitmaps = of_cell.filter(pl.col("kind") == "block-ack")["wlan.ba.bm"]
    wide = 'width = "80 MHz"' in keys
    assert set(bitmaps.str.len_chars()) <= {64 if wide else 16}


@pytest.mark.slow
def test_frames_of_access_categories_have_their_tids_and_txops_end(tmp_path: Path) -> None:
    flow = """
    [flow.FLOW]
    from = "laptop"
    to = "ap"
    dscp = "DSCP"
    transport = { kind = "udp" }
    app = { kind = "on-off", rate = "9 Mbps", on = "1 s", off = "0 s", packet = "1500 B" }
    """
    codes = {"background": "CS1", "effort": "DF", "video": "AF41", "voice": "EF"}
    flows = [flow.replace("FLOW", name).replace("DSCP", code) for name, code in codes.items()]
    scenario = lasthop.Scenario.from_toml(
        """
        name = "categories"
        [wlan.cell]
        access_point = "ap"
        stations = ["laptop"]
        standard = "802.11n"
        edca = true
        durations = "ns-3"
        """
        + "".join(flows)
        + '[run]\nduration = "200 ms"'
    )
    air = tmp_path / "air.pcapng"
    lasthop.capture(scenario, air)
    assert count(air, "_ws.malformed") == 0
    tids = {row["wlan.qos.tid"] for row in read(air, "wlan.qos.tid", only="wlan.qos")}
    assert tids == {"0", "1", "4", "6"}
    # Equal numbers of different TIDs do not count as repetitions: nothing was lost.
    assert count(air, "wlan.fc.retry == 1 || tcp.analysis.retransmission") == 0
    assert count(air, "wlan.fc.type_subtype == 0x001e") > 0


def test_the_host_of_a_wlan_sees_each_packet_once(tmp_path: Path) -> None:
    scenario = lasthop.Scenario.from_toml(WLAN)
    path = tmp_path / "host.pcapng"
    lasthop.capture(scenario, path, link="cell.laptop", host="laptop")
    segments = read(path, "tcp.seq", only="tcp.len > 0")
    numbers = [int(segment["tcp.seq"]) for segment in segments]
    assert len(numbers) >= 300
    trace = lasthop.trace(scenario)
    received = trace.metrics["flow.down.duplicates_received"]
    assert len(numbers) == len(set(numbers)) + received
