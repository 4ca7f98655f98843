"""The mirror's modules and names; what is absent is a list that shrinks."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import types
from pathlib import Path

import pytest

import drivetrain
import drivetrain.compat.fabric as ours_fabric
import drivetrain.compat.lightning as ours
from drivetrain.compat import mirror
from drivetrain.compat.table import FABRIC, LIGHTNING, OWN
from drivetrain.launchers.worker import PRELUDES

DATA = Path(__file__).with_name("data")
ABSENT = DATA / "absent.txt"
UPDATE = "UPDATE_ABSENT"


@pytest.fixture
def installed():
    mirror.install()
    yield
    mirror.uninstall()


def absent() -> list[str]:
    """Return every public name of Lightning, with its module, that has no object here."""
    surface: dict[str, list[str]] = json.loads((DATA / "surface.json").read_text(encoding="utf-8"))
    tables = {"lightning.pytorch": LIGHTNING, "lightning.fabric": FABRIC}
    found = []
    for path, names in surface.items():
        root = next((root for root in tables if f"{path}.".startswith(f"{root}.")), None)
        if root is None:
            continue
        row = mirror.read(tables[root].get(path[len(root) + 1 :], ""))
        found += [f"{path} {name}" for name in names if name not in row or not mirror.is_there(row[name])]
    return sorted(found)


def test_what_is_absent_is_known():
    now = absent()
    if os.environ.get(UPDATE):
        ABSENT.write_text("\n".join(now) + "\n", encoding="utf-8")
    known = ABSENT.read_text(encoding="utf-8").splitlines()
    gone, new = sorted(set(known) - set(now)), sorted(set(now) - set(known))
    how = f"{UPDATE}=1 ./scripts/test tests/compat/test_mirror.py"
    assert not new, f"names of Lightning that had an object and have none now; if it is meant: {how}"
    assert not gone, f"names that have an object now: well done; take them off the list: {how}"


def test_every_name_that_is_there_loads(installed):
    for root, table in ((ours, LIGHTNING), (ours_fabric, FABRIC)):
        for path, row in table.items():
            module = importlib.import_module(f"{root.__name__}.{path}".rstrip("."))
            for name, target in mirror.read(row).items():
                if mirror.is_there(target):
                    assert getattr(module, name) is not None
                    assert name in module.__all__


def test_every_own_name_is_in_the_table():
    targets = {
        one for table in (LIGHTNING, FABRIC) for row in table.values() for one in mirror.read(row).values()
    }
    assert sorted(set(OWN) - targets) == []


def test_a_name_that_is_absent_says_what_to_use():
    with pytest.raises(
        drivetrain.CompatError, match=r"compat.absent.*\n(.*\n)*hint: use WandbLogger"
    ) as found:
        from drivetrain.compat.lightning.loggers import NeptuneLogger  # noqa: F401 - the import is the test
    assert isinstance(found.value, ImportError)
    with pytest.raises(AttributeError, match="no attribute 'Trainor'"):
        ours.Trainor  # noqa: B018 - reading it is the test
    assert "NeptuneLogger" not in dir(ours.loggers)


def test_installed_names_are_one_mirror(installed):
    import lightning as L  # noqa: N812 - as its users write it
    import lightning.pytorch as pl
    import lightning_fabric
    import pytorch_lightning
    from lightning.fabric.plugins.environments import SLURMEnvironment
    from lightning.pytorch.callbacks.early_stopping import EarlyStopping
    from pytorch_lightning import callbacks
    from pytorch_lightning.utilities.types import STEP_OUTPUT

    assert pl is pytorch_lightning is ours
    assert lightning_fabric is L.fabric is ours_fabric
    assert L.Trainer is pl.Trainer is ours.Trainer
    assert issubclass(L.Trainer, drivetrain.Trainer)
    assert issubclass(L.LightningModule, drivetrain.Module)
    assert issubclass(L.LightningDataModule, drivetrain.DataModule)
    assert issubclass(L.Fabric, drivetrain.Engine)
    assert EarlyStopping is callbacks.EarlyStopping is drivetrain.EarlyStopping
    assert SLURMEnvironment is drivetrain.SLURMEnvironment
    assert STEP_OUTPUT
    assert L.__version__ == pl.__version__ == "2.6.1"
    assert importlib.util.find_spec("lightning.pytorch.callbacks") is not None
    assert pickle.loads(pickle.dumps(L)) is L  # noqa: S301 - our own
    with pytest.raises(ModuleNotFoundError):
        import lightning.pytorch.nothing  # noqa: F401 - the import is the test


def test_install_again_is_once_and_uninstall_leaves_nothing(installed):
    before = len(PRELUDES)
    mirror.install()
    assert len(PRELUDES) == before
    mirror.uninstall()
    assert not [one for one in sys.modules if one.partition(".")[0] in ("lightning", "pytorch_lightning")]
    assert not PRELUDES


def test_lightning_itself_is_not_replaced(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", types.ModuleType("lightning_fabric"))
    with pytest.raises(ImportError, match=r"compat\.imported"):
        mirror.install()


def test_importing_drivetrain_imports_no_mirror_and_the_mirror_no_torch():
    text = (
        "import sys, drivetrain, drivetrain.cli.main\n"
        "print([one for one in sys.modules if 'compat' in one and 'drivetrain' in one])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    text = "import sys, drivetrain.compat.lightning as L; L.install(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
