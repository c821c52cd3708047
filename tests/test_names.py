"""The package's own names: all there, and imported only when used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import admil


def test_every_name_is_there_and_listed() -> None:
    assert sorted(admil.__all__) == admil.__all__
    assert set(admil.__all__) <= set(dir(admil))
    for name in admil.__all__:
        assert getattr(admil, name).__name__ == name


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'admil' has no attribute 'Bag'"):
        admil.__getattr__("Bag")


def test_the_package_and_its_version_need_no_torch() -> None:
    code = "import sys\nsys.argv = ['admil', '--version']\nfrom admil.cli import main\ntry: main()\n"
    code += "except SystemExit: sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"admil {admil.__version__}\n")
