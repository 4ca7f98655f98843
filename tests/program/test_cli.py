from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fsspec
import pytest
import torch
import yaml

import drivetrain as dt
from tests.program.net import Adamic, Data, Net, make_net

QUIET = [
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
    "--trainer.accelerator=cpu",
]
TWO = ["--trainer.max_epochs=2"]
SGD = ["--optimizer=SGD", "--optimizer.lr=0.1"]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fit_trains_as_the_same_calls_in_python_do() -> None:
    schedule = ["--lr_scheduler=StepLR", "--lr_scheduler.step_size=1", "--lr_scheduler.gamma=0.5"]
    cli = dt.CLI(
        Net, Data, args=["fit", *SGD, *schedule, *QUIET, "--trainer.max_epochs=2", "--model.width=5"]
    )
    assert cli.result.steps == 8
    assert isinstance(cli.result, dt.FitResult)

    dt.seed_everything(0)

    class Same(Net):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    module = Same(5)
    off = {"enable_progress_bar": False, "enable_model_summary": False}
    dt.Trainer(accelerator="cpu", max_epochs=2, **off).fit(module, datamodule=Data())
    for one, other in zip(cli.model.parameters(), module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_other_verbs_give_their_result() -> None:
    assert set(dt.CLI(Net, Data, args=["validate", *QUIET]).result[0]) == {"val_loss"}
    assert set(dt.CLI(Net, Data, args=["test", *QUIET]).result[0]) == {"test_loss"}
    assert len(dt.CLI(Net, Data, args=["predict", *QUIET]).result) == 4
    assert dt.CLI(Net, Data, args=["predict", "--return_predictions=false", *QUIET]).result is None


def test_the_saved_file_says_all_and_is_read_back(here: Path) -> None:
    said = ["--model.activation=torch.nn.Tanh", "--trainer.callbacks=EarlyStopping"]
    said += ["--trainer.callbacks.monitor=loss", "--trainer.max_epochs=1"]
    dt.CLI(Net, Data, args=["fit", *SGD, *QUIET, *said])
    kept = yaml.safe_load((here / "config.yaml").read_text())
    assert kept["seed_everything"] == 0
    assert kept["trainer"]["devices"] == "auto"
    assert kept["trainer"]["callbacks"]["class_path"] == "drivetrain.EarlyStopping"
    assert kept["optimizer"]["init_args"]["lr"] == 0.1
    again = dt.CLI(Net, Data, args=["fit", "--config=config.yaml", "--trainer.max_epochs=2"])
    assert isinstance(again.model.net[1], torch.nn.Tanh)
    assert again.trainer.early_stopping_callback.monitor == "loss"
    assert again.result.steps == 8
    assert (here / "config-v1.yaml").exists()


@pytest.mark.parametrize("folder", [".", "memory://nothing-said"])
def test_nothing_that_was_said_in_place_of_a_default_is_read_back(folder: str) -> None:
    said = ["--trainer.check_val_every_n_epoch=null", "--trainer.val_check_interval=2"]
    said += [f"--trainer.default_root_dir={folder}"]
    dt.CLI(Net, Data, args=["validate", *QUIET, *said])
    with fsspec.open(f"{folder}/config.yaml") as file:
        kept = yaml.safe_load(file)
    assert kept["trainer"]["check_val_every_n_epoch"] is None
    assert kept["trainer"]["logger"] is None  # the whole configuration: also what is None by default
    Path("again.yaml").write_text(yaml.safe_dump(kept))
    again = dt.CLI(Net, Data, args=["validate", "--config=again.yaml"])
    assert again.config["validate"]["trainer"]["check_val_every_n_epoch"] is None


def test_a_default_of_the_trainer_is_not_said() -> None:
    cli = dt.CLI(Net, Data, args=["--trainer.devices=1"], run=False)
    plan = cli.trainer.plan
    assert not plan.sources["strategy"].origin.is_said
    assert plan.sources["devices"].origin.is_said


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "ddp", "static_graph": true}',
        "ddp(static_graph=true)",
        '{"class_path": "drivetrain.DDPStrategy", "init_args": {"static_graph": true}}',
    ],
)
def test_a_strategy_is_a_text_a_mapping_or_an_object(said: str) -> None:
    cli = dt.CLI(Net, Data, args=["--trainer.devices=2", "--trainer.strategy", said], run=False)
    assert str(cli.trainer.plan.strategy) == "ddp(static_graph=true)"


def test_plugins_are_objects() -> None:
    said = '[{"class_path": "drivetrain.MixedPrecision", "init_args": {"name": "bf16-mixed"}}]'
    cli = dt.CLI(Net, Data, args=["--trainer.plugins", said], run=False)
    assert cli.trainer.plan.precision == "bf16-mixed"


class Program(dt.CLI):
    calls: tuple[str, ...] = ()

    def add_arguments_to_parser(self, parser) -> None:
        parser.add_class_args(dt.EarlyStopping, "stop")
        parser.set_defaults({"stop.monitor": "loss"})
        parser.link_arguments("data.batch_size", "model.width")

    def before_fit(self) -> None:
        self.calls += ("before",)

    def after_fit(self) -> None:
        self.calls += ("after",)


def test_a_program_adds_callbacks_links_and_calls_around_verbs() -> None:
    defaults = {"max_epochs": 1, "callbacks": dt.LearningRateMonitor(), "logger": dt.CSVLogger(".")}
    cli = Program(Net, Data, trainer_defaults=defaults, args=["fit", *SGD, *QUIET, "--data.batch_size=8"])
    assert cli.calls == ("before", "after")
    assert cli.model.net[0].out_features == 8
    kinds = [type(one).__name__ for one in cli.trainer.callbacks]
    assert {"EarlyStopping", "LearningRateMonitor", "SaveConfigCallback"} <= set(kinds)
    assert cli.result.steps == 2
    assert Path(cli.trainer.log_dir, "config.yaml").exists()


def test_without_classes_the_command_line_chooses_them() -> None:
    args = ["--model=tests.program.net.Net", "--model.width=6", "--data=tests.program.net.Data"]
    cli = dt.CLI(args=args, run=False)
    assert type(cli.model).__name__ == "Net"
    assert cli.model.net[0].out_features == 6
    assert type(cli.datamodule).__name__ == "Data"
    assert dt.CLI(args=args[:1], run=False).datamodule is None


def test_a_function_that_makes_the_module() -> None:
    assert dt.CLI(make_net, args=["--model.width=7"], run=False).model.net[0].out_features == 7


def test_args_may_be_a_mapping() -> None:
    cli = dt.CLI(Net, Data, args={"model": {"width": 9}, "trainer": {"max_epochs": 3}}, run=False)
    assert cli.model.net[0].out_features == 9


def test_the_command_line_replaces_the_modules_optimizer_with_a_warning() -> None:
    with pytest.warns(dt.DrivetrainWarning, match=r"cli.optimizer-replaced.*Adamic.configure_optimizers"):
        cli = dt.CLI(Adamic, Data, args=SGD, run=False)
    assert isinstance(cli.model.configure_optimizers(), torch.optim.SGD)
    assert isinstance(dt.CLI(Adamic, Data, args=[], run=False).model.configure_optimizers(), torch.optim.Adam)


def test_an_optimizer_may_go_to_an_argument_of_the_module() -> None:
    class Two(dt.CLI):
        def add_arguments_to_parser(self, parser) -> None:
            parser.add_optimizer_args(torch.optim.Adam, "critic", link_to="model.critic")

    cli = Two(Adamic, Data, args=["--critic.lr=0.25"], run=False)
    assert cli.model.critic["class_path"] == "torch.optim.adam.Adam"
    made = dt.instantiate_class(cli.model.net.parameters(), cli.model.critic)
    assert isinstance(made, torch.optim.Adam)
    assert made.param_groups[0]["lr"] == 0.25


def test_two_optimizers_of_the_modules_own_are_refused() -> None:
    class Two(dt.CLI):
        def add_arguments_to_parser(self, parser) -> None:
            parser.add_optimizer_args(torch.optim.Adam, "one")
            parser.add_optimizer_args(torch.optim.SGD, "other")

    with pytest.raises(dt.TrainerError, match=r"2 optimizers and 0 schedulers(.|\n)*link_to"):
        Two(Net, Data, args=[], run=False)


@pytest.mark.parametrize(
    ("said", "seed"), [(["--seed_everything=3"], 3), ([], 0), (["--seed_everything=false"], False)]
)
def test_the_seed_is_set_before_anything_is_made(said: list[str], seed: int | bool) -> None:
    torch.manual_seed(7)
    cli = dt.CLI(Net, Data, args=said, run=False)
    assert cli.config["seed_everything"] is seed if seed is False else cli.config["seed_everything"] == seed
    torch.manual_seed(7 if seed is False else seed)
    assert torch.equal(cli.model.net[0].weight, torch.nn.Linear(4, 8).weight)


def test_variables_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("DT_MODEL__WIDTH", "11")
    cli = dt.CLI(Net, Data, args=[], run=False, parser_kwargs={"default_env": True})
    assert cli.model.net[0].out_features == 11
    assert dt.CLI(Net, Data, args=[], run=False).model.net[0].out_features == 8


def test_one_subcommands_parser_has_options_of_its_own(here: Path) -> None:
    (here / "fit.yaml").write_text("model: {width: 13}")
    kept = {"fit": {"default_config_files": [str(here / "fit.yaml")]}}
    cli = dt.CLI(Net, Data, args=["fit", *SGD, *QUIET, "--trainer.fast_dev_run=true"], parser_kwargs=kept)
    assert cli.model.net[0].out_features == 13
    assert not (here / "config.yaml").exists()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["fit", "--model.widht=3"], "--model.widht=3"),
        (["fit", "--model.width=wide"], "model.width"),
        (["fit", "--trainer.strategy=nosuch"], "[plan.strategy-value]"),
        (["test", "--ckpt_path=nowhere.ckpt"], "[checkpoint.missing]"),
        (
            ["fit", *SGD, "--trainer.callbacks=Timer", "--trainer.callbacks.duration=soon"],
            "[callback.bad-argument]",
        ),
        (
            ["fit", *SGD, "--trainer.plugins", '[{"class_path": "a.B"}]'],
            "[trainer.bad-argument] there is no class 'a.B'",
        ),
    ],
)
def test_what_is_wrong_ends_the_program_with_one_message(said, told, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *said])
    with pytest.raises(SystemExit) as stopped:
        dt.CLI(Net, Data)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_an_error_of_the_modules_own_lines_keeps_its_traceback(monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "fit", *QUIET])
    with pytest.raises(dt.ModuleError, match=r"module\.no-step"):
        dt.CLI(Net, Data)


LIMITS = [f"limit_{verb}_batches" for verb in ("train", "val", "test", "predict")]


@pytest.mark.parametrize("name", [*LIMITS, "overfit_batches", "val_check_interval"])
@pytest.mark.parametrize(("said", "value"), [("1", 1), ("1.0", 1.0), ("0.5", 0.5), ("3", 3)])
def test_a_number_of_batches_is_no_part_of_them(name: str, said: str, value: float) -> None:
    cli = dt.CLI(Net, Data, args=[f"--trainer.{name}={said}"], run=False)
    found = cli.config["trainer"][name]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(("said", "steps"), [("1", 1), ("3", 3), ("0.5", 2), ("1.0", 4)])
def test_the_limit_that_was_said_is_the_runs(said: str, steps: int) -> None:
    limit = f"--trainer.limit_train_batches={said}"
    assert (
        dt.CLI(Net, Data, args=["fit", *SGD, *QUIET, "--trainer.max_epochs=1", limit]).result.steps == steps
    )


def test_with_args_errors_are_raised() -> None:
    with pytest.raises(dt.PlanError, match="strategy-value"):
        dt.CLI(Net, Data, args=["fit", "--trainer.strategy=nosuch"])


PROGRAM = """
import drivetrain as dt
from tests.program.net import Data, Net

if __name__ == "__main__":
    cli = dt.CLI(Net, Data)
    print("steps", cli.result.steps, cli.trainer.plan.launcher)
"""


@pytest.mark.ranks
@pytest.mark.slow
def test_a_program_of_two_processes(here: Path) -> None:
    (here / "train.py").write_text(PROGRAM)
    root = Path(dt.__file__).parents[2]
    environment = {"PYTHONPATH": f"{root}:{root / 'src'}", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    said = [
        "fit",
        *SGD,
        *QUIET,
        "--trainer.devices=2",
        "--trainer.max_epochs=1",
        "--trainer.launcher=subprocess",
    ]
    done = subprocess.run(
        [sys.executable, "train.py", *said],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "steps 2 subprocess" in done.stdout
    assert [path.name for path in here.glob("*.yaml")] == ["config.yaml"]
