"""The fault table lives here: what the sink promises when collectors, processes, disks and records misbehave.

Each row has a long form, `python -m faults.run ROW` with `tests` on the path (all of them: `make faults`), which prints
figures of the sink beside those of the plain SDK and a verdict, and a short cut of seconds as a test marked `faults`
(`make faults-short`). `make soak` runs all of them at random for 20 minutes.

    run ──> row_*: start receivers and hosts, hurt them, hold what arrived against what was ended ──> report
                       └─ host: a process with one pipeline (ours or the plain SDK's), does a kind of work_*
"""
