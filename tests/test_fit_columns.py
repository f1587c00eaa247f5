"""`lasthop fit` finds the outcome of each frame in tables with usual columns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lasthop import commands, fit

LOST = [0, 0, 1, 1, 0, 1, 0]


def rows(template: str, arrived: str, lost: str, first: int = 0) -> str:
    """Returns a line for each frame, with its number and outcome."""
    return "".join(
        template.format(number, lost if is_lost else arrived) + "\n"
        for number, is_lost in enumerate(LOST, first)
    )


RECEIVED = "".join(f"{number}\n" for number, is_lost in enumerate(LOST, 10) if not is_lost)
WINDOWS = "\nPinging 10.0.0.1 with 32 bytes of data:\n" + rows(
    "{1}", "Reply from 10.0.0.1: bytes=32 time=2ms TTL=64", "Request timed out."
)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        # Status words are preferred to sequence numbers.
        ("seq;status\n" + rows("{};{}", "ok", "timeout"), "from column `status`"),
        ("icmp_seq;result\n" + rows("{};{}", "reply", "timed out", 1), "from column `result`"),
        ('"seq";"status"\n' + rows('"{}";"{}"', "ok", "lost"), "from column `status`"),
        ("Packet Number,Status\n" + rows("{},{}", "Received", "Dropped"), "column `Status`"),
        ("seq,time,lost\n" + rows("{0},0.{0},{1}", "0", "1"), "ignored column: `time`"),
        ("Seq\tStatus\tRTT\n" + rows("{}\t{}\t1", "OK", "LOST"), "ignored column: `RTT`"),
        (",seq,lost\n" + rows("{0},{0},{1}", "0.0", "1.0"), "ignored column: 1"),
        ("# seq;status\n" + rows("{};{}", "ok", "lost"), "from column `status`"),
        ("time,status\n" + rows("2026-01-01T12:00:0{},{}", "ok", "no reply"), "column: `time`"),
        (rows('{{"seq": {}, "s": "{}"}}', "ok", "lost"), "`s`"),
        # Without a header, and separated by blanks.
        (rows("{},{}", "ok", "lost"), "from column `2`"),
        (rows("{},{}", "0", "1"), "from column `2`"),
        (rows("{} {}", "ok", "timed out"), "from column `2`"),
        (rows("{}\t{}", "ok", "lost"), "from column `2`"),
        # 1 means that the packet arrived.
        ("seq,received\n" + rows("{},{}", "1", "0"), "from column `received`"),
        # Measurements of the received packets.
        ("seq,rtt_ms\n" + rows("{},{}", "20.5", ""), "without a value in column `rtt_ms`"),
        ("seq,rtt_ms\n" + rows("{},{}", "20.5", "nan"), "without a value in column `rtt_ms`"),
        (rows("{};{}", "20.5", "*"), "without a value in column `2`"),
        # Sequence numbers of the received packets.
        ("seq\n" + RECEIVED, "column `seq` is read as sequence numbers of received packets"),
        (RECEIVED, "numbers are read as sequence numbers of received packets"),
        (
            "seqno,rssi\n" + RECEIVED.replace("\n", ",-60\n"),
            "ignored column: `rssi`",
        ),
        ("seq,status\n" + RECEIVED.replace("\n", ",ok\n"), "3 sequence numbers without a line"),
        # A word at the top of outcomes is not a header.
        (rows("{1}", "ok", "lost"), ""),
        (WINDOWS, "a loss is that of the request or of the reply"),
    ],
)
def test_the_column_of_the_outcomes_is_found(text: str, note: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    record = fit.read(path)
    assert record.lost.astype(int).tolist() == LOST
    assert note in "; ".join(record.notes)


def test_an_outcome_above_outcomes_is_not_a_name(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("lost\nok\nlost\n")
    assert fit.read(path).lost.tolist() == [True, False, True]
    path.write_text("lost\n0\n1\n")
    assert fit.read(path).lost.tolist() == [False, True]


def test_lines_are_sorted_by_sequence_number(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("seq,status,bytes\n1,ok,10\n3,ok,30\n2,timeout,20\n")
    record = fit.read(path)
    assert record.lost.tolist() == [False, True, False]
    assert record.bits is not None
    assert record.bits.tolist() == [80.0, 160.0, 240.0]
    assert "lines are sorted by column `seq`" in record.notes
    # Numbers of 16 bits wrap.
    path.write_text("icmp_seq,status\n65534,ok\n65535,lost\n0,ok\n")
    assert fit.read(path).lost.tolist() == [False, True, False]
    assert len(fit.read(path).notes) == 1
    path.write_text("seq,status\n1,ok\n3,lost\n4,ok\n")
    assert "1 sequence numbers without a line are ignored" in fit.read(path).notes
    path.write_text("seq,status\n1,ok\n1,lost\n0,ok\n")
    assert fit.read(path).lost.tolist() == [False, True, False]
    assert "duplicates" in fit.read(path).notes[-1]


def test_a_named_column_takes_precedence(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("seq,status,result\n1,ok,0\n3,lost,1\n4,ok,1\n")
    assert fit.read(path, column="result").lost.tolist() == [False, True, True]
    assert fit.read(path, column="seq").lost.tolist() == [False, True, False, False]
    path.write_text("1 ok\n2 lost\n")
    assert fit.read(path, column="2").lost.tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("up,down\nok,lost\nlost,ok\n", "2 columns have outcomes .* use `--column` with one of up"),
        ("seq,status\n1,ok\n2,odd\n", r":3: column `status`: invalid text: .* use `--column`"),
        ("seq,result\n1,0\n2,1\n", "meaning is unknown: .* use `--column` with `result`"),
        ("time_s,retry\n0,1\n1,0\n", ":2: missing `lost`: expected one of time_s, .*`--column`"),
        ("seq,rtt,delay\n1,2.5,\n2,,2.5\n", "2 columns have empty cells .* use `--column` with"),
        (
            "seq,rssi\n1,-60\n2,-61\n",
            "no loss among 2 frames: .*sequence numbers of received packets; ignored column: "
            "`rssi`; .*name the column of the losses with `--column`",
        ),
        ("PING 10.0.0.1\nno answer yet for icmp_seq=1\n", "output of ping without a reply"),
        ("# nothing\n", "no frame"),
        ("seq,status\n", "no frame"),
    ],
)
def test_an_unclear_table_is_refused_with_the_remedy(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    assert commands._main(["fit", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error), error


@pytest.mark.slow
def test_tick_labels_of_the_figure_have_no_superfluous_digits() -> None:
    from lasthop.showing.figures.fit import draw_fit

    lost = np.tile(np.array([0] * 30 + [1, 1, 0, 1], dtype=bool), 60)
    figure = draw_fit(fit.fit(lost))
    figure.canvas.draw()
    labels = [
        label.get_text()
        for axes in figure.axes
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    assert "10" in labels
    assert not {"1.0", "10.0", "100.0"} & set(labels)
    shares = [label for label in labels if "%" in label]
    assert shares
    assert all(re.fullmatch(r"−?[\d.]+ %", label) and ".0" not in label for label in shares)
