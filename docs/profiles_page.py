"""Writes the page of all profiles, from their scenario files."""

from lasthop.scenarios.profiles import Profile, profiles

HEAD = """# Profiles

A profile is a scenario file with the name of a link, its published values and their sources.
Every command that takes a scenario file also takes the name of a profile:

```sh
lasthop run lte-train
lasthop explain leo
lasthop explore wifi-busy
lasthop advise geo
lasthop live --profile lte -- curl -O http://server:8000/page.html
lasthop new train --template lte-train      # a file to change
```

`lasthop list profiles` lists them. A file of the same name in the current folder has precedence.
The link to vary is `radio`, as in `--set "link.radio.rate=5 Mbps"`. Profiles of cellular networks
also have a wired link, `core`. The default
traffic is a download by CUBIC; a [live run](../live.md) replaces it by programs. The page of
`lasthop explore` offers the links of all profiles.

Names that begin with `chrome-` and `nlc-` have the values of the throttling profiles of Chrome
DevTools and of Apple's Network Link Conditioner, for comparison with measurements under these
tools.

The values marked as chosen are ours. They are plausible, but not measurements of a network; to
model a network of yours, [fit](../fit.md) its losses.
"""


def page() -> str:
    """Returns the page in Markdown."""
    return HEAD + "".join(_section(one) for one in profiles().values())


def _section(one: Profile) -> str:
    _, _, body = one.text.partition("\n\n")
    link = body[body.index("[link.") : body.index("[flow.")].strip()
    return (
        f"\n## {one.name}\n\n{one.about}.\n\n```toml\n{link}\n```\n\n"
        f"Source: {one.source}. Chosen: {one.chosen}.\n"
    )
