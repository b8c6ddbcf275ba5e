"""The example runs, at a small size, and draws what it says."""

import os
import pathlib
import subprocess
import sys

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "bits_and_rates.py"


def test_bits_and_rates(tmp_path):
    environment = {**os.environ, "MPLBACKEND": "Agg", "KEYS": "3000,20000", "OUT": str(tmp_path)}
    ran = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, check=True)
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith("RESULT")]
    assert {(row[1], row[2]) for row in rows} == {
        (f"table={table}", f"keys={keys}") for table in ("SetSep", "Othello", "Cuckoo", "dict") for keys in (3000, 20000)
    }
    numbers = [dict(part.split("=") for part in row[1:]) for row in rows]
    assert all(float(row["lookups_per_s"]) > 0 for row in numbers)
    bits = {row["table"]: float(row["bits_per_key"]) for row in numbers if row["keys"] == "20000"}
    assert bits["SetSep"] < bits["Othello"] < bits["Cuckoo"] < bits["dict"]
    for name in ("bits.png", "rates.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_readme():
    text = (EXAMPLE.parents[1] / "README.md").read_text()
    (program,) = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    exec(compile(program, "README.md", "exec"), {})
