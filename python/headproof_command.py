"""The command `headproof` of an installed package: the program that lies in it."""

import os
import sys
from importlib.util import find_spec


def main() -> None:
    # Found without being imported: NumPy need not be loaded for it.
    package = find_spec("headproof").submodule_search_locations[0]
    program = os.path.join(package, "bin", "headproof")
    # Python callables are asked by the interpreter that has this package.
    os.environ.setdefault("HEADPROOF_PYTHON", sys.executable)
    os.execv(program, [program, *sys.argv[1:]])
