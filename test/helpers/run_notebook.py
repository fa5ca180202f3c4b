"""Runs the cells of a notebook in the working directory, and prints the last value as rows."""

import json
import sys
from pathlib import Path

cells = [cell for cell in json.loads(Path(sys.argv[1]).read_text())["cells"] if cell["cell_type"] == "code"]
scope: dict = {}
*most, last = ["".join(cell["source"]) for cell in cells]
statements, _, value = last.rpartition("\n")
for source in [*most, statements]:
    exec(source, scope)
print(eval(value, scope).reset_index().to_json(orient="values"))
