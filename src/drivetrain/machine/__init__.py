"""Floor 1: what this machine has, read once, then data.

::

    snapshot.py   Machine: frozen facts, also built by hand to pretend another machine
    probe.py      the only reader of os.environ and of the devices; returns plain data
    installed.py  the only reader of installed packages' entry points
"""
