"""Floor 0: what every other room may use.

::

    origin.py   a value travels with where it came from
    errors.py   the tree of errors, and the one function that renders them
    caller.py   the user's file and line, for errors and warnings
    text.py     safe representations, nearest names, calls as text
    quantity.py numbers with their units: steps, epochs, samples, tokens, times
    loading.py  modules, when a name of theirs is first used
    where.py    what this process is doing now, for the report of a failing rank
"""
