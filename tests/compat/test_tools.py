from __future__ import annotations

import random
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from drivetrain.compat import tools
from drivetrain.compat.boring import BoringModel, RandomDataset, RandomIterableDataset


@pytest.fixture(autouse=True)
def unseeded():
    yield
    tools._SEEDS.clear()


def test_a_seed_is_what_numbers_follow_from(monkeypatch):
    assert tools.seed_everything(5) == tools.last_seed() == 5
    first = (torch.rand(1), random.random())
    tools.reset_seed()
    assert (torch.rand(1), random.random()) == first
    monkeypatch.setenv("PL_GLOBAL_SEED", "9")
    assert tools.seed_everything(None, workers=True) == 9
    with pytest.raises(ValueError, match=r"data\.seed"):
        tools.seed_everything(-1)


def test_a_block_leaves_random_states_as_they_were():
    torch.manual_seed(1)
    random.seed(1)
    expected = (torch.rand(1), random.random())
    torch.manual_seed(1)
    random.seed(1)
    with tools.isolate_rng():
        torch.rand(3)
        random.random()
    assert (torch.rand(1), random.random()) == expected
    torch.manual_seed(1)
    tools.pl_worker_init_function(0, 0)
    first = torch.rand(1)
    torch.manual_seed(1)
    tools.pl_worker_init_function(1, 0)
    assert torch.rand(1) != first


def test_nested_containers():
    nested = {"a": [torch.ones(2, requires_grad=True)], "b": 1}
    assert tools.move_data_to_device(nested, "cpu")["a"][0] is nested["a"][0]
    assert not tools.recursive_detach(nested, to_cpu=True)["a"][0].requires_grad
    assert tools.convert_to_tensors({"a": 1.5, "b": "x"}, "cpu") == {"a": torch.tensor(1.5), "b": "x"}
    assert tools.convert_tensors_to_scalars({"a": torch.tensor(1.5)}) == {"a": 1.5}
    assert tools.extract_batch_size(nested) == 2
    assert tools.extract_batch_size([torch.tensor(1)]) == 1
    with pytest.raises(ValueError, match="no tensor"):
        tools.extract_batch_size({"a": "text"})


def test_loaders_are_asked_for_their_length():
    known, stream = DataLoader(RandomDataset(2, 6), 2), DataLoader(RandomIterableDataset(2, 6))
    assert (tools.sized_len(known), tools.has_len(known), tools.has_iterable_dataset(known)) == (
        3,
        True,
        False,
    )
    assert (tools.has_len(stream), tools.has_iterable_dataset(stream)) == (False, True)
    assert tools.suggested_max_num_workers(1) >= 1
    with pytest.raises(ValueError, match="1 rank or more"):
        tools.suggested_max_num_workers(0)


def test_the_norms_of_gradients():
    layer = torch.nn.Linear(2, 1)
    assert tools.grad_norm(layer, 2) == {}
    layer.weight.grad, layer.bias.grad = torch.tensor([[3.0, 4.0]]), torch.tensor([12.0])
    found = {name: float(value) for name, value in tools.grad_norm(layer, 2).items()}
    assert found == {"grad_2.0_norm/weight": 5.0, "grad_2.0_norm/bias": 12.0, "grad_2.0_norm_total": 13.0}
    assert float(tools.grad_norm(layer, "inf")["grad_inf_norm_total"]) == 12.0
    with pytest.raises(ValueError, match="above 0"):
        tools.grad_norm(layer, 0)


def test_shared_parameters_are_found_and_shared_again():
    module = torch.nn.Module()
    module.a, module.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    module.b.weight = module.a.weight
    found = tools.find_shared_parameters(module)
    assert found == [["a.weight", "b.weight"]]
    module.b.weight = torch.nn.Parameter(module.a.weight.clone())
    assert tools.set_shared_parameters(module, found).b.weight is module.a.weight


def test_questions_about_objects():
    assert tools.is_overridden("training_step", BoringModel())
    assert not tools.is_overridden("on_train_start", BoringModel())
    assert tools.is_overridden("loss", BoringModel(), dt.Module)
    assert not tools.is_overridden("nothing", BoringModel())
    assert tools.is_picklable(3)
    assert not tools.is_picklable(lambda: 3)
    assert tools.is_oom_error(MemoryError())
    assert tools.is_oom_error(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not tools.is_oom_error(RuntimeError("other"))
    assert tools.is_cuda_available() == (tools.num_cuda_devices() > 0)
    assert 0 < tools.find_free_network_port() < 65536
    assert tools.multiplicative(3) == 2.0
    assert tools.do_nothing_closure() is None


def test_hyperparameters_go_to_a_file_and_back(tmp_path):
    tools.save_hparams_to_yaml(tmp_path / "a.yaml", {"lr": 0.1})
    assert tools.load_hparams_from_yaml(tmp_path / "a.yaml") == {"lr": 0.1}
    with pytest.warns(UserWarning, match="no such file"):
        assert tools.load_hparams_from_yaml(tmp_path / "b.yaml") == {}
    assert tools.get_filesystem(tmp_path).exists(str(tmp_path / "a.yaml"))


def test_warnings_of_what_could_be_better_are_silenced():
    with warnings.catch_warnings():
        tools.disable_possible_user_warnings()
        warnings.warn("x", dt.DrivetrainWarning, stacklevel=1)


def test_devices_that_can_be_used_are_found_by_using_them(monkeypatch):
    assert tools.find_usable_cuda_devices() == list(range(tools.num_cuda_devices()))
    held = {1}

    def zeros(*_, device):
        if device.index in held:
            message = "CUDA error: all CUDA-capable devices are busy or unavailable"
            raise RuntimeError(message)

    monkeypatch.setattr(tools, "num_cuda_devices", lambda: 4)
    monkeypatch.setattr(torch, "zeros", zeros)
    assert tools.find_usable_cuda_devices(2) == [0, 2]
    assert tools.find_usable_cuda_devices() == [0, 2, 3]
    assert tools.find_usable_cuda_devices(0) == []
    with pytest.raises(RuntimeError, match=r"4 CUDA devices are wanted, and of 4 only \[0, 2, 3\]"):
        tools.find_usable_cuda_devices(4)
    for wrong in (5, -2):
        with pytest.raises(ValueError, match=f"num_devices is {wrong}"):
            tools.find_usable_cuda_devices(wrong)


def shared(engine, folders):
    return tools.is_shared_filesystem(engine.strategy, folders[engine.global_rank], timeout=1)


@pytest.mark.ranks
def test_a_folder_is_shared_where_every_rank_sees_what_rank_zero_writes(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    engine = dt.Engine(accelerator="cpu", devices=2, launcher="fork")
    assert engine.launch(shared, [one, one]) is True
    assert engine.launch(shared, [one, other]) is False
    assert engine.launch(shared, ["s3://bucket/a", "s3://bucket/a"]) is True
    assert [*one.iterdir(), *other.iterdir()] == []
