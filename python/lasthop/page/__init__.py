"""The page of `lasthop explore`: move a slider, see what the link does.

`server` has the routes, `safety` what every request must pass, `cores` who may compute when;
`question` reads what a page asks for, `play` answers it with intervals that shrink, `inside` with
the events of one replication, `browse` with what campaigns hold; `take` writes what is taken away.
The front end is in `static`: ES modules as they are, and `vendor`, libraries with their licences.
"""
