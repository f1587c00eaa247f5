"""The page of `lasthop explore`: interactive simulation of a link.

`server` has the routes, `safety` the checks of requests, `cores` the scheduling of computations.
`question` parses requests; `play` returns estimates, `inside` the events of one replication,
`browse` results of campaigns; `export` writes scenarios and figures. The front end is in `static`:
ES modules without a build step, and `vendor`, libraries with their licences.
"""
