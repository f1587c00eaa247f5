"""A notebook: load a scenario, run it, inspect its results, compare two protocols.

In the browser: `marimo edit examples/notebook.py`. As a script: `python examples/notebook.py`.
"""

import marimo

app = marimo.App(width="medium", app_title="Lasthop")


@app.cell
def _():
    import json
    import os

    import marimo as mo
    import matplotlib.pyplot as plt
    import polars as pl

    import lasthop
    from lasthop.scenarios import starter

    # Tests set a smaller number; more replications give narrower intervals.
    replications = int(os.environ.get("LASTHOP_REPLICATIONS", "20"))
    return json, lasthop, mo, pl, plt, replications, starter


@app.cell
def _(mo):
    mo.md("""
    # A file over a fading radio link

    The starter `radio` of `lasthop new`. A scenario of your own: `lasthop.load("my-link.toml")`.
    """)
    return


@app.cell
def _(lasthop, starter):
    scenario = lasthop.Scenario.from_toml(starter.starter("radio", "radio"))
    return (scenario,)


@app.cell
def _(mo, scenario):
    from lasthop.scenarios.explain import explain

    mo.plain_text(explain(scenario))
    return


@app.cell
def _(lasthop, replications, scenario):
    # Two protocols, three fade durations.
    protocols = [{"kind": "raw"}, {"kind": "selective-repeat", "window": 32}]
    results = lasthop.run(
        scenario.sweep(
            {
                "link.radio.protocol": protocols,
                "link.radio.errors.bad": ["100 ms", "200 ms", "500 ms"],
            }
        ),
        replications=replications,
    )
    return protocols, results


@app.cell
def _(results):
    # Mean and half-width of the 95 % interval.
    goodput = results.summary().filter(metric="flow.download.goodput_bps")
    goodput
    return (goodput,)


@app.cell
def _(goodput, json, pl, plt, protocols):
    figure, axes = plt.subplots()
    for _protocol in protocols:
        _curve = goodput.filter(pl.col("link.radio.protocol") == json.dumps(_protocol))
        axes.errorbar(
            _curve["link.radio.errors.bad"].to_list(),
            _curve["mean"] / 1e3,
            yerr=_curve["ci95"] / 1e3,
            label=_protocol["kind"],
            capsize=3,
        )
    axes.set(xlabel="mean fade", ylabel="goodput (kbps)", ylim=(0, None))
    axes.legend()
    figure
    return


@app.cell
def _(mo):
    mo.md("""
    Both protocols met the same fades. So the difference is taken replication by replication: its
    interval is narrower than the bars above suggest.
    """)
    return


@app.cell
def _(results):
    differences = results.differences(
        "flow.download.goodput_bps", by="link.radio.protocol", baseline={"kind": "raw"}
    )
    differences
    return


@app.cell
def _(lasthop, scenario):
    # One replication of selective repeat in detail: the radio link around its first loss.
    lasthop.trace(scenario, point=6).plot_link("radio")
    return


if __name__ == "__main__":
    app.run()
