"""The command `lasthop analyse`: analytical models as tables and figures."""

from __future__ import annotations

import functools
import json
import math
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import polars as pl
from rich.table import Table

from lasthop import _lasthop
from lasthop.commands.common import Format, options
from lasthop.commands.declarations import Group, Option
from lasthop.commands.values import BadInput, Plot, save_picture
from lasthop.evaluating import analysis
from lasthop.scenarios.arguments import invalid

__all__ = ["app"]

app = Group("Compute analytical models: closed forms and Markov chains, without simulation.")


class Counting(StrEnum):
    """Slots that a backoff counts."""

    idle = "idle"
    always = "always"


def _quantity(kind: str) -> Callable[[str], float]:
    """Returns a parser of quantities such as `2.5 %` or `50 ms`; it returns SI units."""
    return functools.partial(_lasthop.quantity, kind)


PROBABILITY, DURATION, RATE, SIZE = map(_quantity, ("probability", "duration", "rate", "size"))

Output = Annotated[Format, Option("--format", help="Output format of the table.")]


@app.command
def arq(
    *,
    good_to_bad: Annotated[
        float,
        Option(
            parser=PROBABILITY,
            metavar="PROBABILITY",
            help="Transition from the good state to the bad one, per frame.",
        ),
    ],
    bad_to_good: Annotated[
        float,
        Option(
            parser=PROBABILITY,
            metavar="PROBABILITY",
            help="Transition from the bad state to the good one, per frame.",
        ),
    ],
    loss_in_good: Annotated[
        float,
        Option(parser=PROBABILITY, metavar="PROBABILITY", help="PDU loss rate in the good state."),
    ] = 0.0,
    loss_in_bad: Annotated[
        float,
        Option(parser=PROBABILITY, metavar="PROBABILITY", help="PDU loss rate in the bad state."),
    ] = 1.0,
    pdus: Annotated[int, Option(min=1, help="PDUs per SDU.")] = 1,
    spacing: Annotated[int, Option(min=1, help="Frames between transmissions of a PDU.")] = 1,
    frame: Annotated[
        float | None,
        Option(parser=DURATION, metavar="DURATION", help="Frame duration, to print delays."),
    ] = None,
    limit: Annotated[
        list[int] | None,
        Option(min=1, help="Maximum transmissions per PDU. Repeatable; default: 1, 2, 3, …, 30."),
    ] = None,
    target: Annotated[
        float | None,
        Option(
            parser=PROBABILITY,
            metavar="PROBABILITY",
            help="Also compute the smallest limit for this residual loss.",
        ),
    ] = None,
    plot: Plot = None,
    output: Output = Format.table,
) -> int:
    """Residual loss and delay of truncated selective repeat on a two-state channel."""
    with options():
        channel = analysis.Channel(good_to_bad, bad_to_good, loss_in_good, loss_in_bad)
        size = {"pdus": pdus, "spacing": spacing}
        facts = _arq_facts(channel, pdus, spacing)
        found = None
        limits = sorted(set(limit or (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30)))
        if target is not None:
            found = {
                method: analysis.smallest_limit(
                    channel, target, pdus=pdus, spacing=spacing, method=method
                )
                for method in ("exact", "approximate")
            }
            limits = sorted({*limits, *found.values()})
            facts["target"] = target
            facts["smallest limit"] = found["exact"]
            facts["limit by the eigenvalue"] = found["approximate"]
            facts["loss at that limit"] = analysis.residual_loss(
                channel, found["approximate"], pdus=pdus, spacing=spacing
            )
        frame_table = analysis.arq(channel, limits, pdus=pdus, spacing=spacing)
        if frame is not None:
            frame_table = frame_table.with_columns(
                (pl.col("delay_frames") * frame).alias("delay_s")
            )
        _show(frame_table, facts, output)
        if plot is not None:
            from lasthop.showing.figures.analysis import draw_arq

            figure = draw_arq(channel, max(limits), target=target, frame_s=frame, **size)
            save_picture(figure, plot)
    return 0


def _arq_facts(channel: analysis.Channel, pdus: int, spacing: int) -> dict[str, float | None]:
    def if_any(value: Callable[[], float]) -> float | None:
        try:
            return value()
        except analysis.AnalysisError:
            return None

    return {
        "PDU loss rate": channel.loss_rate,
        "mean burst (frames)": if_any(lambda: channel.mean_burst),
        "mean transmissions per PDU, no limit": if_any(
            lambda: analysis.transmissions_per_pdu(channel, spacing=spacing)
        ),
        "mean transmissions per SDU, no limit": if_any(
            lambda: analysis.mean_attempts(channel, pdus=pdus, spacing=spacing)
        ),
        "99th percentile of SDU delay (frames)": if_any(
            lambda: analysis.arq_quantile(channel, 0.99, pdus=pdus, spacing=spacing)
        ),
    }


@app.command
def tcp(
    *,
    loss: Annotated[
        list[float],
        Option(parser=PROBABILITY, metavar="PROBABILITY", help="Packet loss rate. Repeatable."),
    ],
    rtt: Annotated[
        float,
        Option(parser=DURATION, metavar="DURATION", help="Round-trip time without queueing."),
    ],
    segment: Annotated[
        float, Option(parser=SIZE, metavar="SIZE", help="Payload per segment.")
    ] = 1000.0,
    timeout: Annotated[
        float | None,
        Option(
            parser=DURATION,
            metavar="DURATION",
            help="First retransmission timeout; default: 2 RTT, at least 200 ms.",
        ),
    ] = None,
    segments_per_ack: Annotated[
        int, Option(min=1, help="Segments per ACK; 2 with delayed ACKs.")
    ] = 1,
    window: Annotated[
        int | None, Option(min=1, help="Maximum window in segments; default: no limit.")
    ] = None,
    rate: Annotated[
        float | None,
        Option(parser=RATE, metavar="RATE", help="Bottleneck rate; default: no limit."),
    ] = None,
    good_to_bad: Annotated[
        float | None,
        Option(
            parser=PROBABILITY,
            metavar="PROBABILITY",
            help="With ARQ on a two-state radio: transition from good to bad, per frame.",
        ),
    ] = None,
    bad_to_good: Annotated[
        float,
        Option(
            parser=PROBABILITY,
            metavar="PROBABILITY",
            help="Transition from the bad state to the good one, per frame.",
        ),
    ] = 0.1,
    loss_in_good: Annotated[
        float,
        Option(parser=PROBABILITY, metavar="PROBABILITY", help="PDU loss rate in the good state."),
    ] = 0.0,
    loss_in_bad: Annotated[
        float,
        Option(parser=PROBABILITY, metavar="PROBABILITY", help="PDU loss rate in the bad state."),
    ] = 1.0,
    pdus: Annotated[int, Option(min=1, help="PDUs per packet.")] = 1,
    spacing: Annotated[int, Option(min=1, help="Frames between transmissions of a PDU.")] = 1,
    frame: Annotated[
        float,
        Option(
            parser=DURATION,
            metavar="DURATION",
            help="Radio frame duration.",
            show_default="10 ms",
        ),
    ] = 0.01,
    limit: Annotated[
        list[int] | None,
        Option(
            min=0,
            help="Maximum transmissions per PDU; 0: no limit. Repeatable; default: 1, …, 20, 0.",
        ),
    ] = None,
    plot: Plot = None,
    output: Output = Format.table,
) -> int:
    """TCP throughput at a given loss rate and RTT, by formulas and by a Markov chain of cwnd.

    With `--good-to-bad`, the path includes a radio link with ARQ. The combined model (Vacirca et
    al., equations 6 to 8) is computed for each loss rate of the wired path and each limit, where
    `--rtt` is the RTT of the wired path and `--rate` the rate of the radio.
    """
    if good_to_bad is not None:
        if rate is None:
            raise BadInput("`--good-to-bad` requires `--rate`, the rate of the radio")
        if plot is not None:
            raise BadInput("cannot use `--plot` with `--good-to-bad`")
        with options(wired_round_trip_s="rtt", wired_loss="loss", frame_s="frame"):
            channel = analysis.Channel(good_to_bad, bad_to_good, loss_in_good, loss_in_bad)
            found = [
                analysis.tcp_over_arq(
                    channel,
                    [one or None for one in limit or (1, 2, 3, 5, 10, 20, 0)],
                    pdus=pdus,
                    frame_s=frame,
                    capacity_per_s=rate / (8.0 * segment),
                    wired_loss=wired,
                    wired_round_trip_s=rtt,
                    spacing=spacing,
                ).insert_column(0, pl.Series("wired_loss", [wired] * len(limit or range(7))))
                for wired in loss
            ]
            radio: dict[str, float | None] = {
                "RTT of the wired path (s)": rtt,
                "segment (bytes)": segment,
                "radio rate (bit/s)": rate,
                "PDU loss rate": channel.loss_rate,
                "PDUs per packet": pdus,
            }
            _show(pl.concat(found), radio, output)
        return 0
    wait = timeout if timeout is not None else max(0.2, 2.0 * rtt)
    with options(round_trip="rtt", max_window="window"):
        if segment <= 0.0:
            raise analysis.AnalysisError(invalid("segment", "0 B", "at least 1 B"))

        def table(losses: list[float]) -> pl.DataFrame:
            return _tcp_table(losses, rtt, segment, wait, segments_per_ack, window, rate)

        facts: dict[str, float | None] = {
            "RTT (s)": rtt,
            "first timeout (s)": wait,
            "segment (bytes)": segment,
            "maximum window (segments)": window,
            "bottleneck (bit/s)": rate,
        }
        _show(table(loss), facts, output)
        if plot is not None:
            from lasthop.showing.figures.analysis import draw_tcp

            # The curves cover the given loss rates, which are marked.
            first = math.log10(min([1e-4, *filter(None, loss)]))
            last = math.log10(max(0.5, *loss))
            sweep = [10.0 ** (first + (last - first) * step / 60) for step in range(61)]
            figure = draw_tcp(table(sweep), table(loss), rtt)
            save_picture(figure, plot)
    return 0


def _tcp_table(
    losses: list[float],
    round_trip: float,
    segment: float,
    timeout: float,
    segments_per_ack: int,
    window: int | None,
    rate: float | None,
) -> pl.DataFrame:
    """Returns the throughput in bit/s: payload only, at most the bottleneck rate."""
    bits = 8.0 * segment
    most = math.inf if rate is None else rate
    formulas = analysis.tcp_formulas(
        losses,
        round_trip,
        timeout_s=timeout,
        segments_per_ack=segments_per_ack,
        window=math.inf if window is None else window,
    )
    chain = [
        bits
        * analysis.tcp_chain(
            loss,
            round_trip,
            capacity_per_s=math.inf if rate is None else rate / bits,
            max_window=window,
        )
        for loss in losses
    ]
    return formulas.select(
        "loss",
        *(
            pl.min_horizontal(pl.col(name) * bits, pl.lit(most)).alias(f"{name}_bps")
            for name in ("mathis", "mathis_independent", "padhye_simplified", "padhye")
        ),
        pl.Series("window_chain_bps", chain, dtype=pl.Float64),
    )


@app.command
def dcf(
    *,
    stations: Annotated[
        list[int] | None,
        Option(min=1, help="Saturated stations. Repeatable; default: 1, 2, 5, 10, 20, 50."),
    ] = None,
    standard: Annotated[str, Option(help="802.11b, 802.11a or 802.11g.")] = "802.11b",
    rate: Annotated[
        float | None,
        Option(parser=RATE, metavar="RATE", help="Data rate; default: highest of the standard."),
    ] = None,
    control_rate: Annotated[
        float | None,
        Option(
            parser=RATE,
            metavar="RATE",
            help="Rate of MAC ACK, RTS and CTS frames; default: highest basic rate.",
        ),
    ] = None,
    packet: Annotated[
        float,
        Option(parser=SIZE, metavar="SIZE", help="Packet size.", show_default="1000 B"),
    ] = 1000.0,
    header: Annotated[
        float,
        Option(
            parser=SIZE,
            metavar="SIZE",
            help="Header of a data frame.",
            show_default="36 B",
        ),
    ] = 36.0,
    rts: Annotated[bool, Option("--rts", help="Use RTS and CTS.")] = False,
    short_preamble: Annotated[
        bool, Option("--short-preamble", help="Use the short preamble of 802.11b.")
    ] = False,
    cw_min: Annotated[int | None, Option(min=1, help="Minimum contention window in slots.")] = None,
    cw_max: Annotated[int | None, Option(min=1, help="Maximum contention window in slots.")] = None,
    limit: Annotated[
        int | None, Option(min=0, help="Maximum attempts per frame; 0: no limit.")
    ] = 7,
    counting: Annotated[
        Counting,
        Option(help="Backoff counts idle slots (DCF), or all slots (EDCA, Bianchi's first model)."),
    ] = Counting.idle,
    output: Output = Format.table,
) -> int:
    """Throughput, collisions and delay of saturated 802.11 stations: Bianchi's model."""
    with options(rate_bps="rate", control_rate_bps="control-rate"):
        table = analysis.dcf_saturation(
            stations or (1, 2, 5, 10, 20, 50),
            standard=standard,
            short_preamble=short_preamble,
            rate_bps=rate,
            control_rate_bps=control_rate,
            packet=round(packet),
            header=round(header),
            rts=rts,
            cw_min=cw_min,
            cw_max=cw_max,
            limit=limit or None,
            counting=counting.value,
        )
        facts: dict[str, float | None] = {
            "packet (bytes)": packet,
            "frame header (bytes)": header,
            "maximum attempts per frame": limit or None,
        }
        _show(table, facts, output)
    return 0


@app.command
def loss_notification(
    *,
    loss: Annotated[
        list[float] | None,
        Option(
            parser=PROBABILITY,
            metavar="P",
            help="Loss rate per wireless transmission attempt. Repeatable; default: 0.01, 0.05, "
            "0.1, 0.2, 0.3.",
        ),
    ] = None,
    limit: Annotated[
        list[int] | None,
        Option(min=1, help="Maximum attempts per frame. Repeatable; default: 1, 2, 3, 4, 7."),
    ] = None,
    ratio: Annotated[float, Option(help="Ratio of message length to frame length.")] = 0.2,
    delays: Annotated[
        bool,
        Option("--delays", help="Print the notification delay instead of the load."),
    ] = False,
    wire: Annotated[
        float,
        Option(
            parser=DURATION,
            metavar="TIME",
            help="With --delays: one-way delay of the wired path.",
            show_default="20 ms",
        ),
    ] = 0.02,
    data: Annotated[
        float,
        Option(
            parser=DURATION,
            metavar="TIME",
            help="With --delays: duration of a wireless attempt of a data frame.",
            show_default="1.53 ms",
        ),
    ] = 1.53e-3,
    ack: Annotated[
        float,
        Option(
            parser=DURATION,
            metavar="TIME",
            help="With --delays: duration of a wireless attempt of an ACK, with the same loss rate "
            "as data.",
            show_default="0.8 ms",
        ),
    ] = 0.80e-3,
    plot: Plot = None,
    output: Output = Format.table,
) -> int:
    """Load and delay of explicit loss notification: Yun (2009), equations 1 to 4, figure 3."""
    with options(losses="loss", wire_s="wire", data_s="data", ack_s="ack"):
        losses = loss or [0.01, 0.05, 0.1, 0.2, 0.3]
        limits = limit or [1, 2, 3, 4, 7]
        if delays:
            tables = [
                analysis.notification_delay(
                    wire, data_s=data, ack_s=ack, data_loss=one, ack_loss=one
                ).select(pl.lit(one).alias("loss"), pl.all())
                for one in losses
            ]
            facts: dict[str, float | None] = {
                "one-way wired delay (s)": wire,
                "wireless attempt of data (s)": data,
                "wireless attempt of an ACK (s)": ack,
            }
            _show(pl.concat(tables), facts, output)
        else:
            table = analysis.notification_load(losses, limits, ratio=ratio)
            rows = [analysis.losses_in_a_row(p, n) for p, n in table.select("loss", "limit").rows()]
            facts = {"ratio of message length to frame length": ratio}
            _show(table.with_columns(pl.Series("losses_in_a_row", rows)), facts, output)
        if plot is not None:
            from lasthop.showing.figures.analysis import draw_notification_load

            save_picture(draw_notification_load(limits, ratio), plot)
    return 0


def _show(table: pl.DataFrame, facts: dict[str, float | None], output: Format) -> None:
    if output is Format.csv:
        sys.stdout.write(table.write_csv())
        return
    if output is Format.json:
        text = {"facts": facts, "rows": table.to_dicts()}
        sys.stdout.write(json.dumps(text, indent=2, ensure_ascii=False) + "\n")
        return
    from lasthop.showing import terminal

    console = terminal.console()
    about = Table(show_header=False, box=None, pad_edge=False)
    about.add_column()
    about.add_column(justify="right")
    for name, value in facts.items():
        about.add_row(name, "none" if value is None else _number(value))
    console.print(about)
    console.print()
    shown = Table()
    for column in table.columns:
        shown.add_column(column, justify="right", overflow="fold")
    for row in table.iter_rows():
        shown.add_row(
            *(
                value if isinstance(value, str) else "–" if value is None else _number(value)
                for value in row
            )
        )
    console.print(shown)


def _number(value: float) -> str:
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e9):
        return f"{int(value)}"
    return f"{value:.0f}" if abs(value) >= 1e5 else f"{value:.5g}"
