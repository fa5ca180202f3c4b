"""Batches in a folder, while the bucket is away: a file each, which keeps the key of the object that it becomes."""

import json
import os
import time
import uuid

_ENDING = ".capture-batch"


class Spool:
    def __init__(self, folder, most):
        self._folder, self._most = folder, most
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def write(self, batch):
        """Raises OSError if the folder is full, or the file cannot be written."""
        about = {"bucket": batch["bucket"], "key": batch["key"], "bytes": len(batch["body"]), "lines": batch["lines"]}
        used = sum(os.path.getsize(path) for path in self.list())
        if used + about["bytes"] > self._most:
            raise OSError(f"The spool is full; got: {used + about['bytes']} bytes; expected: at most {self._most}")
        path = os.path.join(self._folder, f"{int(time.time() * 1000):014d}-{uuid.uuid4()}{_ENDING}")
        # Requests and replies are personal: only the application's own user may read them.
        with os.fdopen(os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(json.dumps(about).encode() + b"\n" + batch["body"])
        os.replace(path + ".part", path)

    def list(self):
        """The paths of the files, oldest first."""
        return [os.path.join(self._folder, name) for name in sorted(os.listdir(self._folder)) if name.endswith(_ENDING)]

    def read(self, path):
        with open(path, "rb") as file:
            about = json.loads(file.readline())
            return {**about, "body": file.read()}

    def remove(self, path):
        """Another process may have sent it already."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
