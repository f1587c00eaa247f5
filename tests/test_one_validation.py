"""What `check` accepts, `explain`, `run`, `trace` and the comparison with theory take."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import lasthop
from lasthop.explain import explain

SHARES = st.sampled_from([0.0, 0.1, 1.0])
ERRORS = st.one_of(
    st.fixed_dictionaries(
        {
            "kind": st.just("gilbert-elliott"),
            "p_good_to_bad": SHARES,
            "p_bad_to_good": SHARES,
        }
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("two-state"),
            "good": st.just("1 s"),
            "bad": st.just("100 ms"),
            "good_ber": SHARES,
            "bad_ber": SHARES,
        }
    ),
    st.fixed_dictionaries({"kind": st.just("bit"), "ber": SHARES}),
)
PROTOCOLS = st.one_of(
    st.just({"kind": "raw"}),
    st.fixed_dictionaries(
        {
            "kind": st.just("go-back-n"),
            "window": st.sampled_from([1, 200, 32768, 32769, 65535]),
            "reject": st.booleans(),
        }
    ),
)


@given(ERRORS, PROTOCOLS)
@settings(max_examples=60, deadline=None)
def test_what_check_accepts_the_others_take(
    errors: dict[str, Any], protocol: dict[str, Any]
) -> None:
    link = {"between": ["a", "b"], "rate": "64 kbps", "delay": "10 ms"}
    app = {"kind": "on-off", "rate": "8 kbps", "on": "1 s", "off": "0 s", "packet": "100 B"}
    tables = {
        "name": "x",
        "link": {"l": {**link, "errors": errors, "protocol": protocol}},
        "flow": {"f": {"from": "a", "to": "b", "transport": {"kind": "udp"}, "app": app}},
        "run": {"duration": "1 s", "replications": 1},
    }
    try:
        scenario = lasthop.Scenario(tables)
    except lasthop.ScenarioError:
        return
    assert explain(scenario)
    lasthop.run(scenario)
    lasthop.trace(scenario)
    lasthop.compare_theory(scenario)
