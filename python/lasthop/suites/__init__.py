"""Evaluation suites: scenarios, criteria and thresholds as data, one folder each.

`lasthop.evaluating.suite` runs them; the folder `suites` at the top of the repository is this one.
"""
