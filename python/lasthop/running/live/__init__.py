"""Live links: programs over the emulated links of a scenario, on Linux.

- `session`: starts a run and yields its messages.
- `process`: the processes of the launcher and the driver, which the engine implements.
"""
