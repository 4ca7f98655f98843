"""The shape of the package, asserted; and each law shown to fail on a planted breach."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import floors

PACKAGE = Path(__file__).parents[2] / "src" / "drivetrain"

LEGAL = {
    "__init__.py": "import importlib\nfrom drivetrain._version import __version__",
    "__main__.py": "from drivetrain.cli.main import main",
    "_version.py": "__version__ = '0'",
    "base/errors.py": "import os.path",
    "machine/probe.py": "import os\nos.environ\ndef f():\n    import torch\n    torch.cuda.device_count()",
    "machine/snapshot.py": "from drivetrain.base import errors\nfrom . import probe",
    "resolver/__init__.py": "",
    "resolver/plan.py": "from ..machine.snapshot import Machine\nfrom drivetrain.resolver import facts",
    "resolver/facts.py": "from drivetrain.base.errors import Conflict",
    "accelerators/cuda.py": "import torch\ntorch.cuda.set_device(0)\ntorch.cuda.memory_stats()",
    "strategies/ddp.py": "from torch import distributed\ndistributed.is_available()",
    "loops/fit.py": "def run():\n    import numpy",
    "cli/main.py": "import drivetrain as dt",
}

BREACHES = {
    "sibling": ({"machine/a.py": "from drivetrain.flags import calls"}, "floor 1 (machine) imports floor 1"),
    "upward": ({"base/a.py": "import drivetrain.resolver.plan"}, "floor 0 (base) imports floor 2 (resolver)"),
    "relative": ({"strategies/a.py": "from ..loops import fit"}, "floor 4 (strategies) imports floor 5"),
    "relative, of a package": (
        {"sim/__init__.py": "from .. import trainer"},
        "floor 4 (sim) imports floor 6",
    ),
    "for types": (
        {"data/a.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import drivetrain.trainer"},
        "floor 3 (data) imports floor 6 (trainer)",
    ),
    "public face": (
        {"loops/a.py": "import drivetrain as dt"},
        "below floor 8, import from rooms",
    ),
    "public name": ({"loops/a.py": "from drivetrain import plan"}, "no such room"),
    "unknown room": ({"utils/a.py": ""}, "room 'utils' is on no floor"),
    "unknown file": ({"helpers.py": ""}, "room 'helpers' is on no floor"),
    "eager face": ({"__init__.py": "from drivetrain.base import errors"}, "the package's face imports"),
    "face with torch": ({"__init__.py": "import torch"}, "the package's face imports torch"),
    "hidden": ({"loops/a.py": "def f():\n    from drivetrain.base import errors"}, "hidden in a function"),
    "hidden, relative": (
        {"loops/a.py": "async def f():\n    from ..base import errors"},
        "hidden in a function",
    ),
    "hidden in a method": (
        {"loops/a.py": "class A:\n    def f(self):\n        import drivetrain.base"},
        "hidden in a function",
    ),
    "by name": ({"loops/a.py": "import importlib\nimportlib.import_module('drivetrain.base')"}, "hidden in"),
    "ring": (
        {"data/a.py": "from . import b", "data/b.py": "from drivetrain.data.a import x"},
        "import cycle",
    ),
    "ring of three": (
        {"data/a.py": "from . import b", "data/b.py": "from . import c", "data/c.py": "from . import a"},
        "drivetrain.data.a",
    ),
    "ring through a package": (
        {"data/__init__.py": "from drivetrain.data.a import x", "data/a.py": "from drivetrain.data import y"},
        "import cycle",
    ),
    "ring through another package": (
        {
            "data/a/__init__.py": "from drivetrain.data.b.x import z",
            "data/a/x.py": "",
            "data/b/__init__.py": "",
            "data/b/x.py": "import drivetrain.data.a.x",
        },
        "import cycle",
    ),
    "torch below": ({"resolver/a.py": "import torch.nn"}, "imports torch.nn below floor 3"),
    "torch below, in a function": (
        {"flags/a.py": "def f():\n    from torch import nn"},
        "imports torch.nn below",
    ),
    "torch below, by name": (
        {"events/a.py": "import importlib\nimportlib.import_module('torch')"},
        "below floor 3",
    ),
    "environ": (
        {"launchers/a.py": "import os\nos.environ['A'] = 'b'"},
        "os.environ outside of machine/probe.py",
    ),
    "environ, renamed": ({"launchers/a.py": "import os as o\no.getenv('A')"}, "os.getenv outside of"),
    "environ, by from": ({"machine/a.py": "from os import environ"}, "os.environ outside of"),
    "environ, by path": ({"base/a.py": "import os.path\nos.putenv('A', 'b')"}, "os.putenv outside of"),
    "cuda": ({"loops/a.py": "import torch\ntorch.cuda.is_available()"}, "torch.cuda.is_available asks"),
    "cuda, renamed": (
        {"loops/a.py": "from torch import cuda\ncuda.mem_get_info()"},
        "torch.cuda.mem_get_info",
    ),
    "cuda, by from": (
        {"precision/a.py": "from torch.cuda import is_bf16_supported as y"},
        "is_bf16_supported asks",
    ),
    "cuda, counted by its accelerator": (
        {"accelerators/a.py": "import torch\ntorch.cuda.device_count()"},
        "torch.cuda.device_count asks",
    ),
    "mps": (
        {"accelerators/a.py": "import torch\ntorch.backends.mps.is_available()"},
        "torch.backends.mps.is_av",
    ),
    "accelerator": (
        {"loops/a.py": "import torch\ntorch.accelerator.current_accelerator()"},
        "current_accelerator",
    ),
}


def breaches(root: Path) -> list[str]:
    package = floors.files(root)
    return [text for law in floors.LAWS for text in law(package)]


def plant(folder: Path, sources: dict[str, str]) -> Path:
    root = folder / "drivetrain"
    for name, text in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize("law", floors.LAWS, ids=lambda law: law.__name__)
def test_the_package_keeps_the_law(law):
    package = floors.files(PACKAGE)
    assert package
    found = list(law(package))
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def test_a_legal_tree_has_no_breach(tmp_path):
    assert breaches(plant(tmp_path, LEGAL)) == []


@pytest.mark.parametrize("name", BREACHES)
def test_a_planted_breach_is_found(tmp_path, name):
    sources, text = BREACHES[name]
    found = breaches(plant(tmp_path, LEGAL | sources))
    assert any(text in one for one in found), found


def test_every_law_has_a_planted_breach(tmp_path):
    unproven = {law.__name__ for law in floors.LAWS}
    for number, (sources, _) in enumerate(BREACHES.values()):
        package = floors.files(plant(tmp_path / str(number), LEGAL | sources))
        unproven -= {law.__name__ for law in floors.LAWS if list(law(package))}
    assert not unproven


def test_the_lower_floors_load_without_torch():
    lower = set().union(*floors.FLOORS[: floors.TORCH_FLOOR])
    names = [file.module for file in floors.files(PACKAGE) if file.room in lower]
    code = (
        "import importlib, json, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print(json.dumps([name for name in ('torch', 'numpy') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_the_architecture_page_lists_every_room_on_its_floor():
    page = (PACKAGE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| `(\w+)` \|", page, re.MULTILINE)}
    there = {file.room for file in floors.files(PACKAGE)} - {"__init__", "__main__", "_version"}
    assert listed == {room: floors.FLOOR.get(room) for room in there}
