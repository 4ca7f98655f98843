"""Hostile files: nothing of them is run, and neither time nor memory is theirs to take."""

from __future__ import annotations

import io
import os
import pickle
import resource
import socket
import struct
import sys
import time
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.checkpoint_io.scan import Torn, scan

LOAD = dt.LocalCheckpointIO().load


def archive(path: Path, content: bytes, records: dict[str, bytes] | None = None, **options: Any) -> Path:
    """Write an archive as torch does, around a pickle of one's own."""
    with zipfile.ZipFile(path, "w", **options) as file:
        file.writestr("archive/data.pkl", content)
        for name, data in {"version": b"3\n", "byteorder": b"little", **(records or {})}.items():
            file.writestr(f"archive/{name}", data)
    return path


def call(module: str, name: str, arguments: bytes) -> bytes:
    """Return a pickle that calls a function; arguments are opcodes."""
    return b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"(" + arguments + b"tR."


MARKED = "exploded"
HARMLESS = b"(X\x08\x00\x00\x00" + MARKED.encode() + b"t"


class Bomb:
    def __reduce__(self):
        return os.mkdir, (MARKED,)


class Getattr:
    def __reduce__(self):
        return getattr, (Path, "mkdir")


def hostile_pickles() -> list[bytes]:
    made = [
        pickle.dumps({"state_dict": one}, protocol) for one in (Bomb(), Getattr()) for protocol in (0, 2, 4)
    ]
    text = b"X\x08\x00\x00\x00" + MARKED.encode()
    return [
        *made,
        call("os", "mkdir", text),
        call("posix", "mkdir", text),
        call("builtins", "eval", b"X\x13\x00\x00\x00__import__('os').ab"),
        call("torch", "load", text),
        call("torch.hub", "load", text),
        call("torch._utils", "_rebuild_wrapper_subclass", text),
        call("torch.storage", "_load_from_bytes", text),
        call("torch._dynamo", "x", text),
        call("torch", "float32", text),
        b"\x80\x02(ios\nmkdir\n.",
        b"\x80\x02cos\nmkdir\n(" + text + b"to.",
        b"\x80\x02(cos\nmkdir\n" + text + b"o.",
        b"\x80\x02\x82\x01.",
        b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93" + text + b"\x85R.",
    ]


@pytest.mark.parametrize("content", hostile_pickles())
def test_code_in_a_pickle_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw.ckpt").write_bytes(content)
    for path in (archive(tmp_path / "a.ckpt", content), tmp_path / "raw.ckpt"):
        with pytest.raises(dt.CheckpointError, match=r"checkpoint\.(unsafe|torn)"):
            LOAD(path)
    assert not Path(MARKED).exists()


def test_what_was_asked_for_is_named(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", call("os", "system", b"X\x01\x00\x00\x00a"))
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.unsafe\].*\n.*\n  asks for = 'os.system'"):
        LOAD(path)


def bombs() -> dict[str, tuple[bytes, dict[str, bytes]]]:
    text = b"X\xe8\x03\x00\x00" + b"x" * 1000
    latin = b"X\x06\x00\x00\x00latin1"
    twice = b"\x80\x02]q\x00(c_codecs\nencode\nq\x01" + text + b"q\x02" + latin + b"q\x03"
    twice += b"(h\x02h\x03tRh\x01" * 2000 + b"e."
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ%stQ"
    tensor = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00K\x01\x85K\x01\x85\x89}tR."
    huge = b"\x8a\x08" + struct.pack("<q", 10**15)
    return {
        "a text that is copied": (twice, {}),
        "a bytearray of a size": (call("builtins", "bytearray", huge), {}),
        "a tensor of a size": (call("torch", "FloatTensor", huge), {}),
        "a storage of a size": (call("torch", "FloatStorage", huge), {}),
        "a storage that the file lacks": (tensor % struct.pack("<i", 2**31 - 1), {"data/0": b"1234"}),
        "no storage at all": (tensor % struct.pack("<i", 1), {}),
        "a negative storage": (tensor % struct.pack("<i", -4), {"data/0": b"1234"}),
        "a quantized tensor": (
            b"\x80\x02ctorch._utils\n_rebuild_qtensor\n("
            + storage % struct.pack("<i", 1)
            + b"K\x00"
            + huge
            + b"\x85K\x01\x85)\x89}tR.",
            {"data/0": b"1234"},
        ),
        "a place far away in the memo": (b"\x80\x02]r\xff\xff\xff\xff.", {}),
        "a key that is nested": (b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.", {}),
        "a set of what is nested": (b"\x80\x02cbuiltins\nset\n(](" + b")" + b"\x85" * 200_000 + b"etR.", {}),
        "a long text that is not there": (b"\x80\x02X\xff\xff\xff\x7f.", {}),
        "nothing": (b"", {}),
        "no stop": (b"\x80\x02}", {}),
        "an item of nothing": (b"\x80\x02K\x01K\x02s.", {}),
    }


@pytest.mark.parametrize("name", bombs())
def test_a_pickle_takes_no_more_than_it_has(tmp_path: Path, name: str) -> None:
    content, records = bombs()[name]
    path = archive(tmp_path / "a.ckpt", content, records)
    tracemalloc.start()
    began = time.monotonic()
    with pytest.raises(dt.CheckpointError, match=r"checkpoint\.(unsafe|torn)"):
        LOAD(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6
    assert time.monotonic() - began < 5


def test_an_archive_that_grows_is_not_unpacked(tmp_path: Path) -> None:
    whole = io.BytesIO()
    torch.save({"w": torch.zeros(4)}, whole)
    content = zipfile.ZipFile(whole).read("archive/data.pkl")
    small = archive(
        tmp_path / "a.ckpt", content, {"data/0": bytes(50_000_000)}, compression=zipfile.ZIP_DEFLATED
    )
    assert small.stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(dt.CheckpointError, match=r"compressed, from"):
        LOAD(small)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (
        1 if sys.platform == "darwin" else 1024
    )
    assert grown < 40e6


def lying(change: Callable[[bytearray, int], None]) -> bytes:
    """Return a checkpoint with its directory changed; ``change`` gets the bytes and the directory's place."""
    file = io.BytesIO()
    torch.save({"w": torch.zeros(4)}, file)
    data = bytearray(file.getvalue())
    change(data, data.index(b"PK\x01\x02"))
    return bytes(data)


def _sizes(data: bytearray, place: int) -> None:
    struct.pack_into("<II", data, place + 20, 2**31, 2**31)


def _method(data: bytearray, place: int) -> None:
    struct.pack_into("<H", data, place + 10, 8)


def _offset(data: bytearray, place: int) -> None:
    struct.pack_into("<I", data, place + 42, 1)


def _length(data: bytearray, place: int) -> None:
    struct.pack_into("<H", data, place + 30, 60_000)


def _count(data: bytearray, place: int) -> None:
    struct.pack_into("<Q", data, len(data) - 98 + 32, 10**9)


def _start(data: bytearray, place: int) -> None:
    struct.pack_into("<Q", data, len(data) - 98 + 48, 2**40)


def _locator(data: bytearray, place: int) -> None:
    struct.pack_into("<Q", data, len(data) - 42 + 8, 5)


@pytest.mark.parametrize("change", [_sizes, _method, _offset, _length, _count, _start, _locator])
def test_a_directory_that_lies_is_found_out(tmp_path: Path, change: Callable[[bytearray, int], None]) -> None:
    path = tmp_path / "a.ckpt"
    path.write_bytes(lying(change))
    with pytest.raises(dt.CheckpointError, match=r"checkpoint\.torn"):
        LOAD(path)


def test_two_records_of_one_name_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.ckpt", pickle.dumps({}, 2), {"DATA.pkl": pickle.dumps({}, 2)})
    with pytest.raises(dt.CheckpointError, match="is not a whole checkpoint"):
        LOAD(path)


def test_a_file_cut_anywhere_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    dt.LocalCheckpointIO().save({"w": torch.arange(100.0), "x": [1, "a", OrderedDict(k=2)]}, path)
    whole = path.read_bytes()
    cuts = {*range(0, len(whole), 41), *range(len(whole) - 100, len(whole))}
    for size in sorted(cuts):
        path.write_bytes(whole[:size])
        with pytest.raises(dt.CheckpointError, match=r"checkpoint\.torn"):
            LOAD(path)
    for more in (b"\0", b"x" * 200, whole):
        path.write_bytes(whole + more)
        with pytest.raises(dt.CheckpointError, match=r"checkpoint\.torn"):
            LOAD(path)


def test_a_file_with_a_byte_changed_anywhere_runs_nothing_and_raises_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    dt.LocalCheckpointIO().save({"w": torch.arange(10.0), "x": [1, "a", OrderedDict(k=2)]}, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        try:
            LOAD(path)  # the bytes of a tensor, or of padding, may be any
        except dt.CheckpointError as error:
            assert error.code in ("checkpoint.torn", "checkpoint.unsafe")  # noqa: PT017 - the other right answer


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.mkdir(), "not-a-file"),
        (os.mkfifo, "not-a-file"),
        (bound, "not-a-file"),
        (lambda path: path.symlink_to("/dev/zero"), "not-a-file"),
        (lambda path: path.symlink_to(path.parent), "not-a-file"),
        (lambda path: path.symlink_to(path), "read"),
        (lambda path: path.symlink_to("gone"), "missing"),
        (lambda path: path.write_bytes(b""), "torn"),
        (lambda path: path.write_bytes(bytes(100_000)), "torn"),
        (lambda path: path.write_text("hello"), "torn"),
    ],
)
def test_what_is_no_file_of_a_checkpoint_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any], code: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    path = Path("a.ckpt") if code != "read" else tmp_path / "a.ckpt"
    make(path)
    with pytest.raises(dt.CheckpointError, match=rf"checkpoint\.{code}\]"):
        LOAD(path)


@pytest.mark.parametrize("path", ["", "memory://nowhere/a.ckpt", "nosuch://a/b.ckpt", "a.ckpt/b.ckpt"])
def test_a_path_that_leads_nowhere_is_said(tmp_path: Path, monkeypatch, path: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.ckpt").touch()
    with pytest.raises(dt.CheckpointError, match=r"checkpoint\.(missing|not-a-file|read)\]"):
        LOAD(path)


def test_a_link_to_a_checkpoint_is_read(tmp_path: Path) -> None:
    dt.LocalCheckpointIO().save({"a": 1}, tmp_path / "a.ckpt")
    (tmp_path / "last.ckpt").symlink_to("a.ckpt")
    assert LOAD(tmp_path / "last.ckpt") == {"a": 1}


class Trusted:
    pass


def test_what_the_user_trusts_is_read(tmp_path: Path) -> None:
    torch.save({"mine": Trusted()}, tmp_path / "a.ckpt")
    with pytest.raises(dt.CheckpointError, match=r"checkpoint\.unsafe"):
        LOAD(tmp_path / "a.ckpt")
    assert isinstance(LOAD(tmp_path / "a.ckpt", weights_only=False)["mine"], Trusted)
    with torch.serialization.safe_globals([Trusted]):
        assert isinstance(LOAD(tmp_path / "a.ckpt")["mine"], Trusted)


# pickle looks for torch.strided in every loaded module; jsonargparse warns of each name it is asked for.
@pytest.mark.filterwarnings("ignore::jsonargparse._deprecated.JsonargparseDeprecationWarning")
@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quantize", "ignore:The PyTorch API of nested")
def test_every_kind_of_value_that_torch_reads_is_let_through() -> None:
    bases = [torch.arange(6.0), torch.zeros(0, 3), torch.tensor(1j), torch.ones(2, dtype=torch.bfloat16)]
    kinds = [torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), torch.zeros(3).expand(1000, 3)]
    kinds += [torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), torch.zeros(9)[3:5].conj()]
    kinds += [
        torch.zeros(2, dtype=torch.float8_e4m3fn),
        torch.zeros(2, dtype=torch.uint16),
        torch.ones(2) > 0,
    ]
    kinds += [torch.nn.Parameter(torch.ones(2)), torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])]
    others = [
        torch.float16,
        torch.device("cuda", 1),
        torch.Size([2]),
        torch.strided,
        Counter("aab"),
        {(1, 2): 3},
    ]
    others += [
        b"bytes" * 100,
        bytearray(b"x"),
        {1, 2},
        1j,
        OrderedDict(a=1),
        2**100,
        None,
        torch.nn.ReLU().state_dict(),
    ]
    other = torch.zeros(2)
    other.note = "kept"
    file = io.BytesIO()
    torch.save({"all": [*bases, *kinds, *others, other]}, file)
    scan(file)


def test_a_large_checkpoint_is_looked_through_in_little_time() -> None:
    state = {f"layer.{number}.weight": torch.zeros(2) for number in range(3000)}
    file = io.BytesIO()
    torch.save({"state_dict": state, "rng": list(range(20_000))}, file)
    began = time.monotonic()
    scan(file)
    assert time.monotonic() - began < 3
    file.seek(0)
    torch.load(file, weights_only=True)


def test_an_archive_of_something_else_is_no_checkpoint(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("readme.txt", "hello")
    with (tmp_path / "a.zip").open("rb") as opened, pytest.raises(Torn, match="and not one"):
        scan(opened)


def test_classes_of_other_libraries_become_plain_data(tmp_path: Path) -> None:
    path = b"cpathlib\nPosixPath\n(X\x01\x00\x00\x00/X\x01\x00\x00\x00at\x52"
    stage = b"cpytorch_lightning.trainer.states\nRunningStage\n(X\x05\x00\x00\x00traint\x52"
    kept = b"cpytorch_lightning.utilities.parsing\nAttributeDict\n)\x81X\x01\x00\x00\x00kK\x01s"
    key = b"cpytorch_lightning.callbacks.early_stopping\nEarlyStopping\n"
    pairs = b"K\x01" + path + b"K\x02" + stage + b"K\x03" + kept + key + b"K\x04"
    found = LOAD(archive(tmp_path / "a.ckpt", b"\x80\x02}(" + pairs + b"u."))
    assert found == {1: Path("/a"), 2: "train", 3: {"k": 1}, "EarlyStopping": 4}
    bomb = b"\x80\x02](cpathlib\nPosixPath\nq\x00(X\xe8\x03\x00\x00" + b"x" * 1000 + b"q\x01tR"
    with pytest.raises(dt.CheckpointError, match="makes more of its texts"):
        LOAD(archive(tmp_path / "b.ckpt", bomb + b"h\x00(h\x01tR" * 100 + b"e."))


def test_a_bit_that_was_turned_anywhere_in_a_part_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.ckpt"
    dt.LocalCheckpointIO().save({"state_dict": {"weight": torch.arange(64.0)}, "text": "abc"}, path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        parts = [(one.filename, one.header_offset, file.read(one)) for one in file.infolist()]
    for name, header, content in parts:
        place = whole.index(content, header + 30 + len(name)) + len(content) // 2
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(dt.CheckpointError) as caught:
            LOAD(path)
        assert caught.value.code in ("checkpoint.torn", "checkpoint.unsafe"), name
    assert parts


def test_a_file_for_which_torch_was_told_to_compute_no_checksums_is_read(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"a": torch.arange(4)}, tmp_path / "a.ckpt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert LOAD(tmp_path / "a.ckpt")["a"].tolist() == [0, 1, 2, 3]
