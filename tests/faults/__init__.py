"""The fault table lives here: what the sink promises when collectors, processes, disks and records misbehave.

Each row has a long form, `python -m faults.run ROW` with `tests` on the path (all of them: `make faults`), which prints the
figures of the sink beside those of the plain SDK and a verdict, and a short cut of a few seconds as a test marked `faults`.
"""
