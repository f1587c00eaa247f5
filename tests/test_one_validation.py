"""What `check` accepts, `explain`, `run`, `trace`, `report` and theory take."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lasthop
from lasthop import report
from lasthop.explain import explain

SHARES = st.sampled_from([0.0, 0.1, 1.0])
TIMES = st.sampled_from(["0 s", "1 us", "10 ms", "1 s"])
LENGTHS = st.sampled_from(["1 ms", "100 ms", "1 s", "exp 1 s"])


def kind(name: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Tables of a kind with some of these keys."""
    return st.fixed_dictionaries({"kind": st.just(name)}, optional=keys)


def whole(name: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Tables of a kind with all of these keys."""
    return st.fixed_dictionaries({"kind": st.just(name), **keys})


SIMPLE_ERRORS = st.one_of(
    kind("none"),
    whole("uniform", loss=SHARES),
    whole("bit", ber=SHARES),
    whole("gilbert-elliott", p_good_to_bad=SHARES, p_bad_to_good=SHARES),
    whole("gilbert-elliott", mean_loss=SHARES, mean_burst=st.sampled_from([1, 3.5])),
    whole("two-state", good=LENGTHS, bad=LENGTHS, good_ber=SHARES, bad_ber=SHARES),
    whole("on-off", up=LENGTHS, down=LENGTHS),
    whole("listed", lose=st.lists(st.integers(1, 40), min_size=1, max_size=12, unique=True)),
)
ERRORS = st.one_of(SIMPLE_ERRORS, whole("product", first=SIMPLE_ERRORS, second=SIMPLE_ERRORS))
WINDOWS = st.sampled_from([1, 8, 200, 32768, 32769, 65535])
PROTOCOLS = st.one_of(
    kind("raw"),
    kind("go-back-n", window=WINDOWS, reject=st.booleans()),
    kind("selective-repeat", window=WINDOWS),
    kind("stop-and-wait"),
    kind("karn-rlp"),
    kind("oos-rlp"),
    kind("xor-fec", block=st.integers(1, 12)),
    kind("rlc-am"),
    kind("ideal-sr"),
)
LINKS = st.fixed_dictionaries(
    {
        "rate": st.sampled_from(["64 kbps", "2 Mbps", "unlimited"]),
        "delay": TIMES,
        "protocol": PROTOCOLS,
        "errors": ERRORS,
    },
    optional={
        "queue": st.sampled_from(["1 packets", "20 packets", "300 B", "10 kB"]),
        "agent": st.sampled_from(
            [
                {"kind": "snoop", "at": "b"},
                {"kind": "snoop", "at": "c"},
                {
                    "kind": "adaptive-persistence",
                    "at": "b",
                    "stay_good": 0.9,
                    "stay_bad": 0.5,
                    "loss_good": 0.0,
                    "loss_bad": 1.0,
                },
            ]
        ),
        "reverse": st.fixed_dictionaries({"errors": ERRORS}),
    },
)
TCP = st.fixed_dictionaries(
    {
        "kind": st.just("tcp"),
        "variant": st.sampled_from(["reno", "newreno", "sack", "cubic"]),
    },
    optional={
        "profile": st.sampled_from(["rfc", "ns-2"]),
        "segment": st.sampled_from(["100 B", "1460 B"]),
        "undo": st.just("eifel"),
        "pacing": st.booleans(),
        "hystart": st.booleans(),
    },
)
FLOWS = st.one_of(
    st.tuples(
        st.just({"kind": "udp"}),
        st.one_of(
            whole(
                "on-off",
                rate=st.sampled_from(["8 kbps", "300 kbps"]),
                on=LENGTHS,
                off=TIMES,
                packet=st.just("100 B"),
            ),
            whole(
                "media",
                rate=st.sampled_from(["9.6 kbps", "500 kbps"]),
                packet=st.sampled_from(["60 B", "1 kB"]),
            ),
        ),
    ),
    st.tuples(TCP, st.one_of(whole("file", size=st.sampled_from(["1 B", "20 kB"])), kind("web"))),
)


@given(LINKS, LINKS, FLOWS)
@settings(max_examples=120, deadline=None)
def test_what_check_accepts_the_others_take(
    first: dict[str, Any], second: dict[str, Any], flow: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    transport, app = flow
    first.pop("agent", None)
    tables = {
        "name": "x",
        "link": {
            "l": {**first, "between": ["a", "b"]},
            "m": {**second, "between": ["b", "c"]},
        },
        "flow": {"f": {"from": "a", "to": "c", "transport": transport, "app": app}},
        "run": {"duration": "1 s", "replications": 2},
    }
    try:
        scenario = lasthop.Scenario(tables)
    except lasthop.ScenarioError:
        return
    assert explain(scenario)
    results = lasthop.run(scenario)
    lasthop.trace(scenario)
    lasthop.compare_theory(scenario)
    assert "</html>" in report.page(results)


def test_the_property_meets_every_kind() -> None:
    """Of what is drawn most kinds are accepted; none is always refused."""
    accepted: dict[str, int] = {}

    @given(LINKS, FLOWS)
    @settings(max_examples=400, deadline=None, database=None)
    def draw(link: dict[str, Any], flow: tuple[dict[str, Any], dict[str, Any]]) -> None:
        transport, app = flow
        agent = link.pop("agent", None)
        tables = {
            "name": "x",
            "link": {"l": {**link, "between": ["b", "c"]} | ({"agent": agent} if agent else {})},
            "flow": {"f": {"from": "b", "to": "c", "transport": transport, "app": app}},
            "run": {"duration": "1 s"},
        }
        names = [link["errors"]["kind"], link["protocol"]["kind"], app["kind"]]
        names += [agent["kind"]] if agent else []
        for name in names:
            accepted.setdefault(name, 0)
        try:
            lasthop.Scenario(tables)
        except lasthop.ScenarioError:
            return
        for name in names:
            accepted[name] += 1

    draw()
    assert [name for name, count in accepted.items() if not count] == []
    assert len(accepted) >= 20
