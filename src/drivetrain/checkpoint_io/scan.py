"""Look through a file before anything of it is made: what it asks for, and whether it has what it declares.

torch's restricted unpickler runs no code, but believes what it is told: a storage of a size that the file
does not have, a record that grows when it is unpacked, a call that asks for memory. Nor does it compare what
it reads with the checksums that it wrote, so a bit that a disk has turned would train on. So the archive is
read here first, in time and memory that the file's own size bounds.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import IO, Any, ClassVar, NamedTuple, NoReturn, final

import torch

_CHUNK = 2**22


class Unsafe(Exception):  # noqa: N818 - it tells what was asked for; who reads a file words the error
    """The file asks for something that is no tensor and no plain container."""


class Torn(Exception):  # noqa: N818 - as above
    """The file is not whole, or not what torch.save writes."""


class Record(NamedTuple):
    """One part of the archive."""

    name: str
    offset: int
    size: int
    crc: int
    """Checksum of its bytes; 0 where torch was told to compute none."""


def scan(file: IO[bytes], also: Iterable[str] = ()) -> set[str]:
    """Read the directory, the pickle and every part's checksum; return if torch may read the file.

    ``also`` may be asked for too; what of it was, is returned.

    Raises:
        Unsafe: it asks for what is neither a tensor nor plain.
        Torn: it is cut off, declares what it does not have, or something else wrote it.
    """
    size = file.seek(0, io.SEEK_END)
    records = {record.name: record for record in read_directory(file, size)}
    pickles = [name for name in records if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1 or len({name.lower() for name in records}) != len(records):
        raise Torn("it is an archive, and not one that torch.save writes")
    folder = pickles[0].partition("/")[0]
    sizes = {
        name.removeprefix(f"{folder}/data/"): record.size
        for name, record in records.items()
        if name.startswith(f"{folder}/data/")
    }
    content = _content(file, records[pickles[0]])
    reader = _Reader(io.BytesIO(content), sizes, len(content), {*also} - _said_safe())
    try:
        reader.load()
    except (Unsafe, Torn):
        raise
    except Exception as error:
        raise Torn(f"its pickle cannot be read: {type(error).__name__}: {error}") from error
    for record in sorted(records.values(), key=lambda one: one.offset):
        _check_sum(file, record)
    return reader.asked


def read_directory(file: IO[bytes], size: int) -> list[Record]:
    """Return an archive's records, none of which is compressed, and which lie one behind the other.

    Raises:
        Torn: it is no such archive, or not whole.
    """
    file.seek(0)
    if file.read(4) != b"PK\x03\x04":
        raise Torn("it is empty" if not size else "it does not begin as a file of torch.save does")
    count, start, length = _end(file, size)
    file.seek(start)
    directory, records, place = file.read(length), [], 0
    for _ in range(count):
        header = directory[place : place + 46]
        if header[:4] != b"PK\x01\x02" or len(header) < 46:  # noqa: PLR2004 - the format's own number
            raise Torn("its directory is cut off")
        flags, method = struct.unpack_from("<HH", header, 8)
        crc, packed, whole, *lengths = struct.unpack_from("<IIIHHH", header, 16)
        (offset,) = struct.unpack_from("<I", header, 42)
        name_end = place + 46 + lengths[0]
        name = directory[place + 46 : name_end].decode("latin-1")
        extra = directory[name_end : name_end + lengths[1]]
        whole, packed, offset = _wide(extra, [whole, packed, offset])
        place = name_end + lengths[1] + lengths[2]
        if flags & 1 or method or packed != whole:
            raise Torn(
                f"its part {name!r} is compressed, from {packed} to {whole} bytes; torch.save never does it"
            )
        records.append(Record(name, offset, whole, crc))
    ends = [*(record.offset for record in sorted(records, key=lambda one: one.offset)), start]
    for record, end in zip(sorted(records, key=lambda one: one.offset), ends[1:], strict=True):
        if record.offset + 30 + len(record.name) + record.size > end:
            raise Torn(f"its part {record.name!r} declares {record.size} bytes, and has not as many")
    return records


def _end(file: IO[bytes], size: int) -> tuple[int, int, int]:
    """Return how many records there are, where their directory begins, and how long it is."""
    file.seek(max(0, size - 98))
    tail = file.read(98)
    end = tail[-22:]
    if end[:4] != b"PK\x05\x06" or len(end) < 22 or end[20:] != b"\0\0":  # noqa: PLR2004 - the format's own number
        raise Torn("it has no end")
    count, length, start = struct.unpack_from("<HII", end, 10)
    stop = size - 22
    if tail[-42:-38] == b"PK\x06\x07" and len(tail) == 98:  # noqa: PLR2004 - as above
        (place,) = struct.unpack_from("<Q", tail, 98 - 42 + 8)
        if tail[:4] != b"PK\x06\x06" or place != size - 98:
            raise Torn("its end is cut off")
        count, length, start = struct.unpack_from("<QQQ", tail, 32)
        stop = size - 98
    if start + length != stop or count * 46 > length:
        raise Torn("its directory is not where it says")
    return count, start, length


def _wide(extra: bytes, values: list[int]) -> list[int]:
    """Return sizes and offset, those of them that need 64 bits from the extra field."""
    place, wide = 0, b""
    while place + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, place)
        if kind == 1:
            wide = extra[place + 4 : place + 4 + length]
        place += 4 + length
    found = []
    for value in values:
        is_wide = value == 0xFFFFFFFF and len(wide) >= 8  # noqa: PLR2004 - bytes of 64 bits
        found.append(struct.unpack_from("<Q", wide)[0] if is_wide else value)
        wide = wide[8:] if is_wide else wide
    return found


def _content(file: IO[bytes], record: Record) -> bytes:
    _seek(file, record)
    return file.read(record.size)


def _seek(file: IO[bytes], record: Record) -> None:
    """Go to the first byte of a record's content."""
    file.seek(record.offset)
    header = file.read(30)
    if len(header) < 30 or header[:4] != b"PK\x03\x04":  # noqa: PLR2004 - the format's own number
        raise Torn(f"its part {record.name!r} is not where its directory says")
    file.seek(record.offset + 30 + sum(struct.unpack_from("<HH", header, 26)))


def _check_sum(file: IO[bytes], record: Record) -> None:
    if not record.crc:
        return
    _seek(file, record)
    found, left = 0, record.size
    while left:
        chunk = file.read(min(left, _CHUNK))
        if not chunk:
            break
        found, left = zlib.crc32(chunk, found), left - len(chunk)
    if left or found != record.crc:
        raise Torn(f"its part {record.name!r} has another checksum than when it was written")


def _said_safe() -> set[str]:
    """Return the names that the user told torch to trust."""
    found = set()
    for one in torch.serialization.get_safe_globals():
        found.add(one[1] if isinstance(one, tuple) else f"{one.__module__}.{one.__qualname__}")
    return found


class _Made:
    """What stands for an object that torch would make."""

    def __init__(self, size: float = math.inf) -> None:
        self.size = size
        """Of a storage: how many elements it has."""

    def __setstate__(self, state: object) -> None:
        """Take nothing up."""

    def __setitem__(self, key: object, value: object) -> None:
        _check_key(key)


@final
class _Asked:
    """What stands for a function or class that the pickle names; knows how it may be called."""

    def __init__(self, name: str, call: Callable[..., _Made] | None) -> None:
        self.name, self._call = name, call

    def __call__(self, *arguments: Any) -> _Made:  # noqa: ANN401 - whatever a pickle holds
        if self._call is None:
            raise Unsafe(f"a call of {self.name}")
        return self._call(*arguments)


_PYTHONS: dict[int, Any] = pickle._Unpickler.dispatch  # noqa: SLF001 - as below


class _Reader(pickle._Unpickler):  # noqa: SLF001 - Python's own unpickler, of which the compiled one is a copy
    """Reads a pickle without making anything but plain containers.

    The compiled unpickler would be faster, and sets as much memory aside as the pickle tells it to.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(_PYTHONS)
    stack: list[Any]

    def __init__(self, file: IO[bytes], sizes: dict[str, int], budget: int, also: set[str]) -> None:
        super().__init__(file)
        self._sizes, self._budget, self._also = sizes, budget, also
        self._safe = _said_safe()
        self.asked: set[str] = set()

    def find_class(self, module: str, name: str) -> _Asked:
        """Return a stand-in for what torch may make, and for nothing else."""
        whole = f"{_RENAMED.get(module, module)}.{name}"
        if whole in self._safe:
            return _Asked(whole, lambda *_: _Made())
        if whole in self._also:
            self.asked.add(whole)
            return _Asked(whole, self._copy)
        if whole in _COPIES:
            return _Asked(whole, self._copy)
        if whole not in _KNOWN:
            raise Unsafe(whole)
        return _Asked(whole, _KNOWN[whole])

    def persistent_load(self, pid: Any) -> _Made:  # noqa: ANN401 - as above
        """Return a stand-in for a storage that is in the file as it is declared."""
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":  # noqa: PLR2004 - torch's form
            raise Torn("it refers to something that is no storage")
        _, kind, key, _, count = pid
        if not isinstance(kind, _Asked) or kind.name not in _STORAGES or type(count) is not int or count < 0:
            raise Torn("it has a storage of no kind")
        needed = count * _STORAGES[kind.name]
        if key not in self._sizes or needed > self._sizes[key]:
            has = self._sizes.get(key, "no") if isinstance(key, str) else "no"
            raise Torn(f"it declares a storage of {needed} bytes, and has {has} for it")
        return _Made(count)

    def _copy(self, *arguments: Any) -> _Made:  # noqa: ANN401 - as above
        """Count what is copied: one text, written once, could be made into bytes a million times."""
        for one in arguments:
            if isinstance(one, (str, bytes, list, tuple, dict)):
                self._budget -= len(one)
                for kept in one if isinstance(one, list) else ():
                    _check_key(kept)
            elif not isinstance(one, (float, _Made, bool)):
                raise Unsafe("a call that could ask for memory")
        if self._budget < 0:
            raise Torn("it makes more of its texts than it has")
        return _Made()

    def load_setitem(self) -> None:
        """Set an entry of a dict."""
        _check_key(self.stack[-2])
        _PYTHONS[pickle.SETITEM[0]](self)

    def load_setitems(self) -> None:
        """Set entries of a dict."""
        for key in self.stack[::2]:
            _check_key(key)
        _PYTHONS[pickle.SETITEMS[0]](self)

    def load_newobj(self) -> None:
        """Make an object of a class."""
        arguments = self.stack.pop()
        self.stack[-1] = self.stack[-1](*arguments)

    def refuse(self) -> NoReturn:
        """Stop at what torch.save never writes."""
        raise Torn("its pickle has what torch.save never writes")


_Reader.dispatch[pickle.SETITEM[0]] = _Reader.load_setitem
_Reader.dispatch[pickle.SETITEMS[0]] = _Reader.load_setitems
_Reader.dispatch[pickle.NEWOBJ[0]] = _Reader.load_newobj
_STRANGE = [pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.INST, pickle.OBJ, pickle.NEWOBJ_EX, pickle.PERSID]
_STRANGE += [pickle.STACK_GLOBAL, pickle.ADDITEMS, pickle.FROZENSET, pickle.BYTEARRAY8, pickle.NEXT_BUFFER]
_Reader.dispatch |= {code[0]: _Reader.refuse for code in _STRANGE}


def _check_key(key: object, depth: int = 0) -> None:
    """Refuse a key whose hash could overflow the stack."""
    if isinstance(key, tuple):
        if depth > 8:  # noqa: PLR2004 - nobody nests keys so deep
            raise Torn("it has a key of tuples in tuples in tuples")
        for kept in key:
            _check_key(kept, depth + 1)


def _made(*_: Any) -> _Made:  # noqa: ANN401 - whatever a pickle holds
    return _Made()


def _empty(*arguments: Any) -> _Made:  # noqa: ANN401 - as above
    """An OrderedDict gets its entries afterwards, one by one."""
    if arguments:
        raise Torn("it has a dict that torch.save does not write so")
    return _Made()


def _tensor(storage: Any, *_: Any) -> _Made:  # noqa: ANN401 - as above
    if not isinstance(storage, _Made):
        raise Torn("it has a tensor without a storage")
    return _Made()


def _quantized(storage: Any, offset: Any, size: Any, *_: Any) -> _Made:  # noqa: ANN401, ARG001 - as above
    # torch sets the memory aside before it looks at the storage.
    if not isinstance(storage, _Made) or math.prod(size) > storage.size:
        raise Torn("it has a quantized tensor that is larger than its storage")
    return _Made()


def _typed(function: Any, kind: Any, arguments: Any, state: Any) -> _Made:  # noqa: ANN401, ARG001 - as above
    if not isinstance(function, _Asked) or not isinstance(kind, _Asked):
        raise Torn("it has a tensor of no kind")
    return function(*arguments)


_RENAMED = {"__builtin__": "builtins"}
_REBUILDS: dict[str, Callable[..., _Made]] = {
    **dict.fromkeys(("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"), _tensor),
    **dict.fromkeys(
        ("_rebuild_parameter", "_rebuild_parameter_with_state", "_rebuild_nested_tensor"), _tensor
    ),
    **dict.fromkeys(("_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage"), _made),
    "_rebuild_qtensor": _quantized,
}
_KINDS = [name for name, value in vars(torch).items() if isinstance(value, (torch.dtype, torch.qscheme))]
_BYTES = {
    16: ("ComplexDouble",),
    8: ("Double", "Long", "ComplexFloat"),
    4: ("Float", "Int", "QInt32"),
    2: ("Half", "BFloat16", "Short"),
    1: ("Bool", "Byte", "Char", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4"),
}
_STORAGES = {f"torch.{name}Storage": size for size, names in _BYTES.items() for name in names}
_STORAGES |= {"torch.storage.UntypedStorage": 1, "torch.UntypedStorage": 1}
"""Bytes of an element."""
_COPIES = {"_codecs.encode", "collections.Counter", "torch.Size"}
_COPIES |= {f"builtins.{name}" for name in ("bytearray", "complex", "set")}
_KNOWN: dict[str, Callable[..., _Made] | None] = {
    **{f"torch._utils.{name}": call for name, call in _REBUILDS.items()},
    **{f"torch.{name}": None for name in _KINDS},
    **dict.fromkeys(_STORAGES),
    "torch.Tensor": None,
    "torch.nn.parameter.Parameter": None,
    "torch._tensor._rebuild_from_type_v2": _typed,
    "torch.device": _made,
    "torch.serialization._get_layout": _made,
    "collections.OrderedDict": _empty,
}
"""What may be asked for, and how it may be called; None for what is only named."""
