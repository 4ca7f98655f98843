"""The work that other ranks do, as bytes: cloudpickle, so that the user's script is not run again.

Functions and classes of ``__main__`` travel by value. In the other process they are also set on its
``__main__``, so that plain pickle (torch.save, a data loader's workers) finds them there.
"""

from __future__ import annotations

import io
import pickle
import sys
import types
from typing import Any

from drivetrain.base.errors import LaunchError
from drivetrain.launchers.unpicklable import find_unpicklable

_BLANKED = "<dynamic-code>"


def pack(work: object) -> bytes:
    """Return the work as bytes.

    Raises:
        LaunchError [launch.unpicklable]: something in it does not pickle; names the path to it.
    """
    import cloudpickle

    main = sys.modules.get("__main__")
    used: dict[str, object] = {}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def reducer_override(self, obj: Any) -> Any:  # noqa: ANN401 - pickle's own signature
            name = getattr(obj, "__name__", None)
            if (
                name
                and getattr(obj, "__module__", None) == "__main__"
                and getattr(main, str(name), None) is obj
            ):
                used[str(name)] = obj
            if isinstance(obj, types.CodeType):
                # Cloudpickle blanks the file's name; tracebacks of other ranks shall show their lines.
                make, parts = self.dispatch_table[types.CodeType](obj)
                return make, tuple(obj.co_filename if part == _BLANKED else part for part in parts)
            return super().reducer_override(obj)

    buffer = io.BytesIO()
    pickler = Pickler(buffer)
    try:
        pickler.dump(work)
        # The same pickler remembers what it wrote: this adds names, not copies.
        pickler.dump(dict(used))
    except Exception as error:
        raise _refused(work, error) from error
    return buffer.getvalue()


def unpack(data: bytes) -> Any:  # noqa: ANN401 - whatever was packed
    """Return the work; define on ``__main__`` what it brought from the script."""
    unpickler = pickle.Unpickler(io.BytesIO(data))  # noqa: S301 - from our parent, over a pipe of our own
    work = unpickler.load()
    vars(sys.modules["__main__"]).update(unpickler.load())
    return work


def _refused(work: object, error: Exception) -> LaunchError:
    path, value, reason = find_unpicklable(work)
    return LaunchError(
        "launch.unpicklable",
        f"{path or 'the work'} cannot be sent to another process: {reason or error}",
        values={"path": path, "value": value, "type": type(value).__name__},
        because="launcher 'subprocess', 'spawn' and 'forkserver' send the work to the other ranks by pickle",
        hint="create it in setup(), which runs on each rank, or leave it out in __getstate__",
    )
