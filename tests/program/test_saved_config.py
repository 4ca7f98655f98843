from __future__ import annotations

import pickle
from pathlib import Path

import fsspec

import drivetrain as dt
from drivetrain.callbacks.claims import Claims
from tests.program.net import Data, Net

QUIET = [
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.accelerator=cpu",
]


class Elsewhere(dt.SaveConfigCallback):
    def save_config(self, trainer, module, stage) -> None:
        Path("elsewhere.txt").write_text(f"{stage} {self.config['model']['width']}")


def test_it_overwrites_where_that_is_said_and_takes_free_names_else(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for width in (1, 2):
        dt.CLI(Net, Data, args=["validate", *QUIET, f"--model.width={width}"])
    over = {"overwrite": True, "config_filename": "config.yaml"}
    dt.CLI(Net, Data, args=["validate", *QUIET, "--model.width=3"], save_config_kwargs=over)
    assert "width: 3" in Path("config.yaml").read_text()
    assert "width: 2" in Path("config-v1.yaml").read_text()
    assert sorted(path.name for path in Path().glob("*.yaml")) == ["config-v1.yaml", "config.yaml"]


def test_a_store_has_the_file_and_no_folder_of_its_name_is_made(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = f"memory://{tmp_path.name}"
    for width in (1, 2):
        said = [f"--trainer.default_root_dir={there}", f"--model.width={width}"]
        dt.CLI(Net, Data, args=["validate", *QUIET, *said])
    assert [*Path().iterdir()] == []
    store = fsspec.filesystem("memory")
    for name, width in (("config.yaml", 1), ("config-v1.yaml", 2)):
        assert f"width: {width}" in store.cat_file(f"/{tmp_path.name}/{name}").decode()


def test_a_name_that_another_run_is_taking_is_left_to_it(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = Claims()
    assert other.take(str(tmp_path / "config.yaml"))
    dt.CLI(Net, Data, args=["validate", *QUIET, f"--trainer.default_root_dir={tmp_path}"])
    assert [path.name for path in tmp_path.glob("*.yaml")] == ["config-v1.yaml"]
    other.release()


def test_a_subclass_saves_elsewhere_instead(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = {"save_config_callback": Elsewhere, "save_config_kwargs": {"save_to_log_dir": False}}
    cli = dt.CLI(Net, Data, args=["validate", *QUIET], **kept)
    assert Path("elsewhere.txt").read_text() == "validate 8"
    assert [path.name for path in Path().iterdir()] == ["elsewhere.txt"]
    cli.trainer.test(cli.model, datamodule=cli.datamodule)
    assert Path("elsewhere.txt").read_text() == "validate 8"


def test_it_may_be_left_out(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    dt.CLI(Net, Data, args=["validate", *QUIET], save_config_callback=None)
    assert [*Path().iterdir()] == []


def test_the_parser_stays_where_it_is() -> None:
    there = pickle.loads(pickle.dumps(dt.SaveConfigCallback(lambda: 1, object(), "a.yaml")))  # noqa: S301 - our own
    assert there.config_filename == "a.yaml"
    assert there.parser is None
