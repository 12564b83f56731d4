"""What researchers do in a notebook, in a real Jupyter kernel."""

import re
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

import sim

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"

pytestmark = pytest.mark.proof


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder beside the scenarios, as that of the notebook is; and no settings of whoever runs the tests."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs"


def test_the_notebook_runs(folder):
    """Each cell of the notebook works, and shows something; its outputs are not kept in the file."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)

    NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()

    shown = ["".join(output.get("data", {}).get("text/html", "") for output in cell.outputs) for cell in cells]
    assert len(shown) == 14
    assert all(text.startswith(("<div", "<table", "<svg")) for text in shown), shown
    assert not any(output.output_type in ("error", "stream") for cell in cells for output in cell.outputs)
    assert "finished, stopped by count" in shown[0]
    assert "<progress" not in shown[0]  # it is removed at the end
    assert shown[4].startswith("<div><p><b>person-3 in contagion-1-")
    assert "equal events before the first difference: 1,851" in shown[7]
    assert "not complete" not in shown[10]
    assert "differences from the baseline" in shown[12]
    assert [info.status for info in sim.runs(folder.parent / "runs")] == ["finished"] * 2


def test_the_notebook_about_causes_runs(folder):
    """Each cell of the notebook about an outbreak works, and shows a table or a picture.

    The seed case is found as what decided, and the curve ends as the run came out.
    """
    notebook = nbformat.read(ROOT / "docs" / "why_notebook.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)

    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()

    shown = ["".join(output.get("data", {}).get("text/html", "") for output in cell.outputs) for cell in cells]
    assert len(shown) == 8
    assert all(text.startswith(("<div", "<table", "<svg")) for text in shown), shown
    assert not any(output.output_type in ("error", "stream") for cell in cells for output in cell.outputs)
    assert "2d16h: next iteration" in shown[1]
    told = re.search(r"what led to event ([\d,]+), without \d+ more steps", shown[4])
    assert told
    assert f'aria-label="{told[0]}"' in shown[5]
    assert "as it came out" in shown[6]
    assert "person-1.status = " in shown[7]


ENDLESS = "name: endless\nuntil: null\nexecution: {clock: wall}\nagents: [{name: a, loop: {min_loop_delay: 0.05}}]\n"


def test_a_cell_shows_progress_and_can_be_interrupted(folder):
    """A bar is shown below the cell. The button that interrupts the cell interrupts its run.

    The run of a cell is suspended, its record closed; the cell ends with KeyboardInterrupt, the kernel goes on.
    """
    (folder / "endless.yaml").write_text(ENDLESS)
    manager, client = start_new_kernel(cwd=str(folder))
    try:
        asked = client.execute("import sim; sim.run('endless.yaml', out='runs', progress=True)")
        deadline = time.monotonic() + 60
        while not list(folder.glob("runs/*/run.db-wal")) and time.monotonic() < deadline:
            time.sleep(0.05)
        while (message := client.get_iopub_msg(timeout=60))["msg_type"] != "update_display_data":
            pass
        shown = message["content"]["data"]["text/html"]
        assert shown.startswith("<div><progress max=")
        assert "endless: " in shown
        manager.interrupt_kernel()
        while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != asked:
            pass  # an answer to a question whether the kernel is ready, which is put more than once on a slow machine
        told = reply["content"]
        assert (told["status"], told.get("ename")) == ("error", "KeyboardInterrupt")
        assert "can be resumed" in told["evalue"]
        (info,) = sim.runs(folder / "runs")
        assert info.status == "interrupted"
        assert client.execute_interactive("sim.open('endless')", timeout=60)["content"]["status"] == "ok"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
