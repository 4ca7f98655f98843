"""Floor 8: real handwritten digits, trained on two processes, killed midway and resumed.

::

    digits.py   the data, the net, and what watches them
    picture.py  the loss curve and a grid of predictions as a PNG
    show.py     run: the whole story, on the terminal
"""

from drivetrain.demo.show import run

__all__ = ["run"]
