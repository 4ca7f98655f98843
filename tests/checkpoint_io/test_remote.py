"""Checkpoints in stores: fsspec's memory, and an S3 server on this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

import drivetrain as dt
from drivetrain.checkpoint_io.trace import trace
from tests.loops.models import Regression, loader, quiet

STORAGE = dt.LocalCheckpointIO()


class Cut:
    """Stands before a server, and cuts the connections after some bytes from it or to it."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.most = 1 << 60
        """Bytes that pass in either direction before a connection is cut."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._server))
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        passed = 0
        try:
            while data := source.recv(4096):
                passed += len(data)
                if passed > self.most:
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[Cut]:
    """Start a server, and let fsspec's s3 lead to it."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    cut = Cut(server.get_host_and_port()[1])
    settings = {
        "key": "any",
        "secret": "any",
        "endpoint_url": f"http://127.0.0.1:{cut.port}",
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 3, "read_timeout": 3},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "s3", settings)
        patch.setattr("s3fs.S3FileSystem.retries", 1)
        fsspec.filesystem("s3").call_s3("create_bucket", Bucket="runs")
        yield cut
    cut.close()
    server.stop()


@pytest.fixture(
    params=[
        "memory://runs",
        pytest.param("s3://runs", marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")]),
    ]
)
def place(request: pytest.FixtureRequest) -> str:
    """Return a folder of a store; the packages that speak to S3 have warnings of their own."""
    if request.param.startswith("s3"):
        request.getfixturevalue("s3")
    return request.param


def test_a_run_saves_keeps_the_best_and_goes_on(place: str) -> None:
    folder = f"{place}/kept"
    saves = dt.ModelCheckpoint(folder, monitor="val", save_top_k=2, save_last=True, mode="max")
    settings: dict[str, Any] = {"callbacks": [saves], "enable_progress_bar": False}
    trainer = quiet(max_epochs=4, **settings)
    trainer.fit(Regression(), loader(12), loader(8))
    system, inner = fsspec.core.url_to_fs(folder)
    system.invalidate_cache()
    names = sorted(path.rpartition("/")[2] for path in system.ls(inner, detail=False))
    assert names == ["epoch=0-step=3.ckpt", "epoch=1-step=6.ckpt", "last.ckpt"]
    assert saves.best_model_path == f"{folder}/epoch=0-step=3.ckpt"
    assert STORAGE.load(f"{folder}/last.ckpt")["global_step"] == 12
    more = quiet(max_epochs=5, plugins=[dt.AsyncCheckpointIO()], **settings)
    assert more.fit(Regression(), loader(12), loader(8), ckpt_path="last").steps_here == 3
    assert STORAGE.load(f"{folder}/last.ckpt")["global_step"] == 15
    module = Regression.load_from_checkpoint(f"{folder}/last.ckpt")
    assert module.hparams.lr == 0.01


def test_a_write_that_breaks_off_leaves_what_was_there(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = f"{place}/whole/a.ckpt", torch.save
    STORAGE.save({"n": 1}, path)
    before = trace(path)

    def half(checkpoint, file):
        real(checkpoint, file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.write\] cannot write .*No space left"):
        STORAGE.save({"n": 2}, path)
    assert STORAGE.load(path) == {"n": 1}
    assert trace(path) == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_connection_that_is_cut_is_said(s3: Cut, tmp_path: Path) -> None:
    path, weights = "s3://runs/cut/a.ckpt", {"w": torch.rand(200_000)}
    STORAGE.save(weights, path)
    s3.most = 100_000
    try:
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.read\] cannot read s3://runs/cut/a.ckpt"):
            STORAGE.load(path)
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.write\] cannot write"):
            STORAGE.save({"w": torch.zeros(200_000)}, path)
        s3.most = 0
        for call in (lambda: STORAGE.load(path), lambda: STORAGE.remove(path), lambda: trace(path)):
            with pytest.raises(dt.CheckpointError, match=r"checkpoint.(read|write)\]"):
                call()
    finally:
        s3.most = 1 << 60
    assert torch.equal(STORAGE.load(path)["w"], weights["w"])
    STORAGE.remove(path)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.missing"):
        STORAGE.load(path)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.(missing|write)\]"):
        STORAGE.save({"n": 1}, "s3://no-such-bucket/a.ckpt")


def test_a_protocol_that_nobody_knows_is_said() -> None:
    for call in (lambda: STORAGE.load("nosuch://a/b"), lambda: trace("nosuch://a/b")):
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.read\].*nosuch"):
            call()
    for call in (lambda: STORAGE.save({}, "nosuch://a/b"), lambda: STORAGE.remove("nosuch://a/b")):
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.write\].*nosuch"):
            call()


def test_a_folder_of_a_store_is_no_checkpoint() -> None:
    STORAGE.save({"n": 1}, "memory://folders/x/a.ckpt")
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.not-a-file\] memory://folders/x is a folder"):
        STORAGE.load("memory://folders/x")
