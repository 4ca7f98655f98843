"""Floor 3: who started the ranks, and what their variables say.

::

    environment.py   the interface, and the errors that its leaves share
    torchrun.py slurm.py mpi.py lsf.py kubeflow.py
"""
