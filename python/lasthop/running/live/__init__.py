"""Live links: real programs behind the links of a scenario, on Linux.

- `session`: starts a run and tells what its links do.
- `process`: the launcher and the driver, which the engine is.
"""
