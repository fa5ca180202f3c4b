"""Serves the scorers of a file to another process: requests on standard input, replies on file descriptor 3, a line each.

    python3 sagemaker_inference_monitor_scorers my_scorers.py

A line is a number and JSON. The first is answered with the scorers.
"""

import importlib.util
import json
import os
import sys
import traceback
from typing import Callable

# Python puts the folder of this file first. Code that the scorers' file imports from its own folder comes first instead.
_path = os.path.abspath(sys.argv[1])
sys.path[:1] = [os.path.dirname(_path), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

from sagemaker_inference_monitor_scorers import Scorer, adapters, serve  # noqa: E402

#: Packages whose name differs from the module's.
_PACKAGES = {"sklearn": "scikit-learn", "phoenix": "arize-phoenix-evals", "langchain_community": "langchain-community<0.4"}


def _scorers() -> "list[Scorer]":
    name = os.path.splitext(os.path.basename(_path))[0]
    spec = importlib.util.spec_from_file_location(name, _path)
    if spec is None or spec.loader is None:
        raise ImportError("expected: a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    found = {id(one): one for one in vars(module).values() if isinstance(one, Scorer)}.values()
    if not found or len({one.name for one in found}) < len(found):
        raise ValueError("expected: a function with @scorer, and no two of the same name")
    return list(found)


def _fault(error: BaseException) -> str:
    """Returns one line about a file that cannot be loaded, with the place."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"{error.filename}:{error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _path]
    place = f"{_path}:{lines[-1]}" if lines else _path
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        return f"{place}: {package} is not installed: {sys.executable} -m pip install '{_PACKAGES.get(package, package)}'"
    return f"{place}: {type(error).__name__}: {error}"


def main() -> None:
    # What the scorers print, read or start uses neither of the two.
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.set_inheritable(3, False)
    replies = os.fdopen(3, "w", encoding="utf-8")

    def reply(line: str, answer: "Callable[[str], object]") -> None:
        number, _, request = line.partition(" ")
        replies.write(f"{number} {json.dumps(answer(request), allow_nan=False)}\n")
        replies.flush()

    scorers: "list[Scorer]" = []

    def hello(_: str) -> object:
        try:
            scorers.extend(_scorers())
            return {"scorers": [{"name": one.name, "values": one.values, "needs": one.needs} for one in scorers]}
        except (Exception, SystemExit) as error:
            return {"error": " ".join(_fault(error).split())}

    reply(requests.readline(), hello)
    handler = serve(*scorers)
    for line in requests:
        reply(line, lambda request: handler(json.loads(request)))


main()
