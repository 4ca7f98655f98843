"""Floor 2: flags and a machine in, a Plan out. Pure: no torch, no environment, no clock.

::

    facts.py      what parts declare about themselves        known/        what ships, one file each
    spec.py       a strategy as a value                      catalogue.py  the facts in force
    aliases.py    other spellings of strategies              legacy.py     old flags, translated
    fill.py       each flag's value, origin and reason       rules/        one rule, one code, one page
    resolve.py    fill, check, prove the hints               ranks.py      a process's place in a run
    plan.py       Plan                                       explain.py    a plan as text
"""
