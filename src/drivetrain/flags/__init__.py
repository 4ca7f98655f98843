"""Floor 1: one grammar per flag, from text or a Python value to plain data.

::

    problem.py    what a grammar raises: a message, the rule, and what to pass instead
    devices.py    2, "auto", -1, "0,2", "2-5", [0, 2]
    calls.py      ddp(static_graph=true)+tp(size=2), for strategies
    scalars.py    counts, switches and names
    pairs.py      cuda=8,tpu=0 and K=V, for the command line
"""
