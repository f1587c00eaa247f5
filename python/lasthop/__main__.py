"""`python -m lasthop`: the command line."""

from lasthop.commands import main

main()
