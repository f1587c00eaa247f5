"""Conformance scripts run by the command: all scripts pass, and none can pass by accident."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lasthop import _lasthop
from lasthop.commands.app import run_command

SCRIPTS = Path(__file__).parent / "tcp-scripts"
OPEN = """`sysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_timestamps=0 net.ipv4.tcp_window_scaling=0`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
   +0 > S 0:0(0) <mss 1460>
  +.1 < S. 0:0(0) ack 1 win 20000 <mss 1000>
   +0 > . 1:1(0) ack 1
"""


def profiles() -> list[str]:
    return [name for name in _lasthop.script_profiles() if (SCRIPTS / name).is_dir()]


@pytest.mark.parametrize("profile", profiles())
def test_all_our_scripts_hold(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command(["tcp-script", "--quiet", "--profile", profile, str(SCRIPTS / profile)])
    output = capsys.readouterr().out
    assert code == 0, output
    count = len(list((SCRIPTS / profile).glob("*.pkt")))
    assert output == f"{count} scripts: {count} passed\n"


def test_there_are_a_hundred_scripts_and_each_says_what_it_holds() -> None:
    scripts = list(SCRIPTS.rglob("*.pkt"))
    assert len(scripts) >= 100
    for script in scripts:
        comment = re.match(r"(//.*\n)+", script.read_text())
        assert comment, script
        assert re.search(r"RFC \d{4}|Linux", comment[0]), script


def mutations(text: str) -> list[str]:
    """The script with one expectation changed: an outbound segment, or a condition."""
    changed = []
    for match in re.finditer(r"(?m)^([^<\n]*> (?:\d+ > \d+ )?[SFR.]+ +)(\d+):(\d+)(\(.*)$", text):
        head, start, end, rest = match.groups()
        line = f"{head}{int(start) + 3}:{int(end) + 3}{rest}"
        changed.append(text[: match.start()] + line + text[match.end() :])
    for match in re.finditer(r"(?m)^([^<\n]*> .*ack )(\d+)(.*)$", text):
        line = f"{match[1]}{int(match[2]) + 3}{match[3]}"
        changed.append(text[: match.start()] + line + text[match.end() :])
    changed += [
        f"{text[: match.start()]}assert not ({match[1]}){text[match.end() :]}"
        for match in re.finditer(r"assert ([^,;}\n]+)", text)
    ]
    return changed


@pytest.mark.parametrize("profile", profiles())
def test_every_expectation_can_fail(profile: str) -> None:
    survivors = []
    count = 0
    for script in sorted((SCRIPTS / profile).glob("*.pkt")):
        for changed in mutations(script.read_text()):
            count += 1
            verdict, _, _ = _lasthop.play_script(changed, profile, 4000)
            if verdict != "differs":
                survivors.append((script.name, verdict, changed))
    assert count > 4 * len(list((SCRIPTS / profile).glob("*.pkt")))
    assert not survivors, survivors[0]


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ("+0 %{ assert tcpi_snd_cwnd == 10 }%\n", 0, "1 script: 1 passed"),
        ("+0 %{ x = 9; x = x + 1; assert tcpi_snd_cwnd == x }%\n", 0, "1 script: 1 passed"),
        ("+0 %{ assert tcpi_snd_cwnd == 9 }%\n", 1, "failed: line 7: expected tcpi_snd_cwnd == 9"),
        ("+0 > . 1:2(1) ack 1\n", 1, "failed: line 7: expected > . 1:2(1) ack 1, found nothing"),
        ("+0 < . 1:2(1\n", 2, 'syntax error: line 7: found "1:2(1"'),
        ("+x close(3) = 0\n", 2, 'syntax error: line 7: found "+x"'),
        ("+0 tee(5, 6, 10, 0) = 10\n", 3, "not modelled: line 7: the system call tee"),
        ("+0 < . 1:1(0) ack 1 win 9 <FO a1>\n", 3, "not modelled: line 7: option FO"),
        ("+0 < icmp echo_reply\n", 3, "not modelled: line 7: the ICMP message echo_reply"),
        ("+0 `tc qdisc del dev tun0 root`\n", 0, 'line 7: the shell command "tc qdisc'),
    ],
)
def test_what_comes_of_a_script(
    more: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "one.pkt"
    script.write_text(OPEN + more)
    assert run_command(["tcp-script", "--profile", "rfc", str(script)]) == code
    assert said in capsys.readouterr().out


def test_the_worst_of_several_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, more in [
        ("good", ""),
        ("missing", "+0 tee(5, 6, 10, 0) = 10\n"),
        ("bad", "+0 > . 1:2(1) ack 1\n"),
    ]:
        (tmp_path / f"{name}.pkt").write_text(OPEN + more)
    assert run_command(["tcp-script", "--profile", "rfc", str(tmp_path)]) == 1
    assert "3 scripts: 1 failed, 1 not modelled, 1 passed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--profile", "bsd"], "unknown profile `bsd` for `--profile`: expected "),
        (["--tolerance-usecs", "-1"], "invalid value `-1` for `--tolerance-usecs`: expected 0 to"),
        ([], "nowhere.pkt"),
    ],
)
def test_bad_arguments(
    arguments: list[str], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["tcp-script", "nowhere.pkt", *arguments]) == 2
    assert found in capsys.readouterr().err


def test_names_are_defined_by_the_script_or_its_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "one.pkt"
    defines = '--define=LAW="reno"\n--define=BYTES=1000\n--ip_version=ipv4\n'
    script.write_text(
        f"{defines}{OPEN}+0 setsockopt(3, SOL_TCP, TCP_CONGESTION, LAW, 4) = 0\n"
        "+0 write(3, ..., BYTES) = 1000\n"
    )
    command = ["tcp-script", "--profile", "rfc", str(script)]
    assert run_command(command) == 0
    assert run_command([*command, "--define", "BYTES=2"]) == 1
    assert "line 11: expected a call that returns 1000, found 2" in capsys.readouterr().out
    assert run_command([*command, "--define", "BYTES"]) == 2
    assert "invalid value `BYTES` for `--define`: expected NAME=VALUE" in capsys.readouterr().err
    for wrong in ["--define=3", "--ip_version=ipv5"]:
        script.write_text(f"{wrong}\n{OPEN}")
        assert run_command(command) == 2


def test_an_empty_folder_and_bytes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["tcp-script", str(tmp_path)]) == 2
    assert "the folder has no scripts" in capsys.readouterr().err
    script = tmp_path / "one.pkt"
    script.write_bytes(b"\xff\xfe")
    assert run_command(["tcp-script", str(script)]) == 2
    assert "expected a script in UTF-8" in capsys.readouterr().err


TRANSFER = """
name = "recorded"
[link.air]
between = ["server", "client"]
rate = "2 Mbps"
delay = "40 ms"
queue = { kind = "drop-tail", limit = "50 packets" }
errors = { kind = "uniform", loss = "LOSS" }
[flow.f]
from = "server"
to = "client"
start = "10 ms"
transport = { kind = "tcp", variant = "VARIANT"KEYS }
app = { kind = "file", size = "SIZE" }
"""


def recorded(tmp_path: Path, *arguments: str, **values: str) -> Path:
    """Writes the script of a transfer; `values` replace the words in capitals."""
    text = TRANSFER
    for name, value in ({"KEYS": "", "VARIANT": "cubic", "SIZE": "20 kB"} | values).items():
        text = text.replace(name, value)
    scenario, script = tmp_path / "t.toml", tmp_path / "t.pkt"
    scenario.write_text(text)
    assert run_command(["trace", str(scenario), "--tcp-script", str(script), *arguments]) == 0
    return script


@pytest.mark.parametrize("variant", ["cubic", "newreno"])
@pytest.mark.parametrize("loss", ["0 %", "1 %", "5 %"])
def test_simulated_transfers_pass_as_scripts(
    variant: str, loss: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = recorded(tmp_path, VARIANT=variant, LOSS=loss, SIZE="300 kB")
    shown = capsys.readouterr().out
    text = script.read_text()
    assert shown == f"{script}: {len(re.findall(r'(?m)^[0-9.]+ [<>] ', text))} segments\n"
    assert len(re.findall(r"(?m)> .*\(1448\)", text)) >= 207, "300 kB in segments of 1448 B"
    assert run_command(["tcp-script", str(script)]) == 0
    # A segment that differs is detected.
    script.write_text(text.replace("> . 14481:15929(1448)", "> . 14481:15930(1449)"))
    assert run_command(["tcp-script", str(script)]) == 1


def test_the_receiver_of_a_transfer_and_other_keys_are_recorded(tmp_path: Path) -> None:
    keys = ', sack = false, timestamps = false, initial_window = "4 segments", min_rto = "100 ms"'
    for arguments in ([], ["--at", "client", "--flow", "f"]):
        script = recorded(tmp_path, *arguments, LOSS="5 %", KEYS=keys)
        assert ("listen(3" in script.read_text()) == bool(arguments)
        assert run_command(["tcp-script", str(script)]) == 0


def test_keys_that_are_sysctls_are_recorded(tmp_path: Path) -> None:
    keys = ", ".join(
        [
            "",
            "dsack = false",
            "frto = false",
            "tail_probes = false",
            "min_tso_segments = 4",
            "syn_linear_timeouts = 1",
            'sack_compression_delay = "2 ms"',
            'sack_compression_slack = "0 s"',
            "sack_compression_count = 8",
        ]
    )
    sysctls = ["dsack=0", "frto=0", "early_retrans=0", "min_tso_segs=4", "syn_linear_timeouts=1"]
    sysctls += ["comp_sack_delay_ns=2000000", "comp_sack_slack_ns=0", "comp_sack_nr=8"]
    for arguments in ([], ["--at", "client", "--flow", "f"]):
        script = recorded(tmp_path, *arguments, LOSS="5 %", KEYS=keys)
        lines = re.findall(r"sysctl -q net\.ipv4\.tcp_(\S+=\d+)", script.read_text())
        assert set(sysctls) <= set(lines)
        assert run_command(["tcp-script", str(script)]) == 0


@pytest.mark.parametrize("at", ["client", "server"])
@pytest.mark.parametrize("sack", ["true", "false"])
def test_web_transfers_pass_as_scripts(sack: str, at: str, tmp_path: Path) -> None:
    """Replies end with a FIN, which the application does not read as data."""
    scenario, script = tmp_path / "t.toml", tmp_path / "t.pkt"
    text = TRANSFER.replace('{ kind = "file", size = "SIZE" }', '{ kind = "web" }')
    text += '[run]\nduration = "20 s"\n'
    for name, value in {"KEYS": f", sack = {sack}", "VARIANT": "cubic", "LOSS": "5 %"}.items():
        text = text.replace(name, value)
    scenario.write_text(text)
    for replication in range(3):
        arguments = ["--at", at, "--replication", str(replication)]
        command = ["trace", str(scenario), "--tcp-script", str(script), *arguments]
        assert run_command(command) == 0
        assert re.search(r"(?m)< F\. .*\([1-9]", script.read_text()) or at == "server"
        assert run_command(["tcp-script", str(script)]) == 0


@pytest.mark.parametrize(
    ("arguments", "keys", "expected"),
    [
        (["--at", "moon"], "", "invalid value `moon` for `--at`: expected server or client"),
        (["--flow", "g"], "", "invalid value `g` for `--flow`: expected a flow over TCP: f"),
        (["--snap", "9"], "", "`--snap` with `--tcp-script`"),
        ([], ', profile = "rfc"', "a value of profile that scripts cannot set"),
        ([], ', receive_window = "20 kB"', "a value of receive_window that scripts cannot set"),
        ([], ", hystart = false", "a value of hystart that scripts cannot set"),
    ],
)
def test_a_transfer_that_a_script_cannot_describe_is_an_error(
    arguments: list[str],
    keys: str,
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = tmp_path / "t.toml"
    text = TRANSFER.replace("LOSS", "0 %").replace("VARIANT", "cubic").replace("SIZE", "20 kB")
    scenario.write_text(text.replace("KEYS", keys))
    command = ["trace", str(scenario), "--tcp-script", str(tmp_path / "t.pkt"), *arguments]
    assert run_command(command) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "t.pkt").exists()
