"""Runs `mlflow server` with fewer of the seconds that its start takes, most of which are imports.

1. `mlflow server` imports MLflow to check its options and its database, then starts uvicorn, which imports MLflow again.
   Here uvicorn runs in the process that has imported it. Versions that start gunicorn, which forks, do so as ever.
2. The garbage collector rests during the imports, whose objects all stay.
3. A new database passes through every migration since MLflow 1.0. The first server keeps a copy of the empty result in
   the file that EMPTY_DATABASE names, and later ones start from it.

The tests set SQLITE_SYNCHRONOUS=OFF: what a power cut may take is theirs to lose, and every write waits for the disk.

Usage: mlflow_server.py DATABASE [options of `mlflow server`]
"""

import gc
import os
import runpy
import shutil
import sys

gc.disable()

import mlflow.server  # noqa: E402
from mlflow.cli import cli  # noqa: E402
from sqlalchemy import event  # noqa: E402
from sqlalchemy.engine import Engine  # noqa: E402


def copy_database(source, target):
    """Copies under the final name in one step: a server that is killed, or two at a time, leave no half of a database."""
    part = f"{target}.{os.getpid()}"
    shutil.copyfile(source, part)
    os.replace(part, target)


def wait_for_disk(synchronous):
    """Sets SQLite's pragma for every connection to come, if a value is given."""
    if synchronous:
        event.listen(Engine, "connect", lambda connection, _: connection.execute(f"PRAGMA synchronous = {synchronous}"))


def main():
    database, *options = sys.argv[1:]
    empty = os.environ.pop("EMPTY_DATABASE", "")
    is_new = bool(empty) and not os.path.exists(database)
    if is_new and os.path.exists(empty):
        copy_database(empty, database)
        is_new = False
    start_process = mlflow.server._exec_cmd

    def serve(command, *, extra_env=None, **others):
        """Called once the database is ready, instead of starting `python -m uvicorn …`."""
        if is_new:
            # No statement is open, so the file is whole.
            copy_database(database, empty)
        if "uvicorn" not in command:
            gc.enable()
            return start_process(command, extra_env=extra_env, **others)
        os.environ.update(extra_env or {})
        wait_for_disk(os.environ.get("SQLITE_SYNCHRONOUS"))
        sys.argv = command[command.index("uvicorn") :]
        import mlflow.server.fastapi_app  # noqa: F401

        # What is imported is not searched for garbage again, which took a tenth of a second each time.
        gc.freeze()
        gc.enable()
        return runpy.run_module("uvicorn", run_name="__main__")

    mlflow.server._exec_cmd = serve
    cli(["server", "--backend-store-uri", f"sqlite:///{database}", *options])


if __name__ == "__main__":
    main()
