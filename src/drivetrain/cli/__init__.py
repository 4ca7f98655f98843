"""The top floor: the ``drivetrain`` command.

::

    main.py         the commands and their options
    plan.py         drivetrain plan: the explained plan of flags on a machine, real or pretended
    doctor.py       drivetrain doctor: what this machine has, and what is missing for what
    checkpoint.py   drivetrain checkpoint: what a file holds, whether it is whole, the same in another form
"""
