"""The notebook and the examples run, and the notebook prints the lecture's figures."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec

import pytest

from conftest import SOURCE

EXAMPLES = SOURCE / "python" / "examples"


def test_the_cells_of_the_notebook_run_and_print_the_lectures_figures():
    notebook = json.loads((EXAMPLES / "step4.ipynb").read_text(encoding="utf-8"))
    printed, names = io.StringIO(), {}
    with redirect_stdout(printed):
        for cell in notebook["cells"]:
            assert cell.get("outputs", []) == []
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    text = printed.getvalue()
    place = 0
    for figure in ("6.09e-02", " 16 ", "4.01 ", "4.0 ", "1.00 ", "0.993 ", "0.600\n", " 64 ", "8.06 ",
                   "8.0 ", "1.01 ", "1.000 ", "0.522\n", " 256 ", "17.84 ", "16.0 ", "1.11 ",
                   "1.000 ", "0.596\n", "1.000 to 1.000\n", "0.016 to 1.000\n", "8.2e-01",
                   "rank is 8\n"):
        found = text.find(figure, place)
        assert found >= 0, f"{figure!r} is missing in {text[place:]}"
        place = found + len(figure) - 1


@pytest.mark.skipif(not (find_spec("nbclient") and find_spec("ipykernel")),
                    reason="there is no nbclient or no ipykernel here")
@pytest.mark.filterwarnings("ignore")
def test_jupyter_runs_the_notebook_and_gets_frames_and_pictures(tmp_path):
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / "step4.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output.data for cell in notebook.cells if cell.cell_type == "code"
             for output in cell.outputs if output.output_type == "execute_result"]
    assert len(shown) == 3
    assert all("<iframe sandbox" in data["text/html"] for data in shown)
    assert all("image/png" in data for data in shown[:2])


def test_the_version_is_that_of_cmake():
    import headproof

    assert f'\nversion = "{headproof.__version__}"\n' in (SOURCE / "pyproject.toml").read_text()


def test_the_first_example_runs():
    ended = subprocess.run([sys.executable, str(EXAMPLES / "first.py")], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "out (2, 4, 100, 64) float32" in ended.stdout and "bytes of PNG" in ended.stdout
