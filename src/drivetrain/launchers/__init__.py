"""Floor 5: who starts the ranks, for one call, and what happens when one of them fails.

::

    launcher.py         the interface          here.py             no process is started
    subprocess.py       fresh Pythons          multiprocessing.py  spawn, fork, forkserver
    conduct.py          one launch: start, send the work, run as rank 0, end everything
    watch.py            the caller's eye on the other ranks
    peer.py             one started process    verdict.py          which failure came first
    worker.py           the other side: what a started process does
    lifeline.py         a started process ends with its parent
    payload.py          work as bytes          unpicklable.py      what in it does not pickle
    report.py           how a rank ended       threads.py          cores shared among ranks
    nodes.py            several machines       interrupts.py       Ctrl-C inside a collective
    torch_settings.py   the caller's torch settings, for every rank
"""
