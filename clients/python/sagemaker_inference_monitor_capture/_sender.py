"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import contextlib
import logging
import os
import pathlib
import queue
import threading

from botocore.exceptions import ClientError

from ._line import encode
from ._spool import spool, spooled


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self.settings, self._make_s3 = settings, make_s3
        #: Without one, a path where no file can be.
        self._folder = pathlib.Path(settings.spool_folder or os.devnull, settings.bucket)
        # A client takes long to make: not while requests run.
        self._start_anew(settings.s3 or make_s3())
        atexit.register(self._finish)
        # Windows has no forks.
        getattr(os, "register_at_fork", lambda **_: None)(after_in_child=self._start_anew)

    def _start_anew(self, s3=None):
        """Also in a forked child, without its parent's connections, and its captures, which the parent writes itself."""
        #: Calls until they are in a batch; the lines of batches by their keys.
        self._s3, self._calls, self._batches, self._is_full = s3, {}, {}, False
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "without_content": 0, "last_error": None}
        self._added_bytes = self._told_dropped = 0
        #: Whoever makes or spools batches has `_batching`: the thread, and in the end the process itself.
        self._losing, self._batching = threading.Lock(), threading.Lock()
        #: Wakes the thread; an event is set when it is done.
        self._wake = queue.SimpleQueue()
        with self.losing(0):
            threading.Thread(target=self._run, name="sagemaker-captures", daemon=True).start()

    def flush(self, seconds=10.0):
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        done = threading.Event()
        self._wake.put(done)
        done.wait(seconds and min(seconds, threading.TIMEOUT_MAX))
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
        without_content: contents that were left out of captures: too large, not readable twice, or over the memory's bound.
        last_error: the last failure of the capture, which is not one of the application's requests.
        """
        ended = len(self._ended())
        batched = sum(lines.count(b"\n") for lines in list(self._batches.values()))
        return {"open": len(self._calls) - ended, "waiting": ended + batched, **self._sums}

    def begin(self, call):
        """Takes a call whose request was sent. Raises MemoryError if there is no room for it."""
        if self._is_full:
            raise MemoryError(f"captures are over their bound; expected: at most {self.settings.memory_bytes} bytes")
        self._calls[call] = True
        self.grow(call.overhead + len(call.request))

    def grow(self, size=float("inf")):
        """Bounds the memory, and wakes the thread, when the sizes have added up, since both look at all calls.

        Threads that add at once may lose a size, but none that the bound counts.
        """
        most, self._added_bytes = self.settings.memory_bytes, self._added_bytes + size
        if self._added_bytes > min(most / 32, self.settings.batch_bytes):
            self._added_bytes, calls = 0, list(self._calls)
            sides = sorted((side for call in calls for side in call.sides), key=len)
            used = sum(map(len, [*sides, *list(self._batches.values())])) + sum(call.overhead for call in calls)
            while used > most and sides and sides[-1]:
                used -= len(sides[-1])
                sides.pop().leave_out("memory")
            self._is_full = used > most
            ended = sum(call.overhead + sum(map(len, call.sides)) for call in calls if call.ended)
            if ended >= self.settings.batch_bytes and self._wake.empty():
                self._wake.put(threading.Event())

    @contextlib.contextmanager
    def losing(self, count, call=None, errors=Exception):
        """No error of its block reaches the application. It costs these captures, and is told."""
        try:
            yield
        except errors as error:
            told = f"{type(error).__name__}: {error}"[:500]
            self._calls.pop(call, None)
            with self._losing:
                self._sums["dropped"] += count
                is_first, self._sums["last_error"] = self._sums["last_error"] is None, told
            if is_first:
                logging.getLogger(__name__).warning("Captures of SageMaker calls are not written: %s", told)

    def _ended(self):
        return [call for call in list(self._calls) if call.ended]

    def _run(self):
        while True:
            done = threading.Event()
            with contextlib.suppress(queue.Empty):
                done = self._wake.get(timeout=min(self.settings.batch_seconds, threading.TIMEOUT_MAX))
            with self.losing(0):
                self._write()
            if self.settings.spool_folder:
                self._keep()
            done.set()

    def _write(self):
        """Tries once to write the calls that have ended, and what was spooled. Raises an error that is no answer of S3."""
        refused = set()
        for old in [None, *(key for key, _ in spooled(self._folder))]:
            self._make_batches()
            for key in filter(None, [*self._batches, old]):
                # What S3 refuses of one endpoint and variant holds up no other.
                place = key.rsplit("/", 6)[0]
                if place not in refused:
                    refused.add(place)
                    with self.losing(0, errors=ClientError):
                        self._put(key)
                        refused.remove(place)

    def _put(self, key):
        self._s3 = self._s3 or self._make_s3()
        # Another process may have sent a file. A batch may have become one at the end of the process.
        with contextlib.suppress(FileNotFoundError):
            lines = self._batches.get(key) or (self._folder / key).read_bytes()
            self._s3.put_object(Bucket=self.settings.bucket, Key=key, Body=lines)
            if not self._batches.pop(key, None):
                (self._folder / key).unlink()
            self._sums["written"] += lines.count(b"\n")
        self.grow()

    def _make_batches(self):
        with self._batching:
            while calls := self._ended():
                dropped = self._sums["dropped"]
                key, lines, taken = encode(calls, self.settings, dropped - self._told_dropped)
                self._told_dropped, self._batches[key] = dropped, lines
                for call in taken:
                    self._sums["without_content"] += bool(call.request.left) + bool(call.reply.left)
                    self._calls.pop(call, None)
                    # The application may hold its stream for long.
                    for side in call.sides:
                        side.clear()

    def _keep(self):
        """Moves batches to the folder. What finds no room in it is lost."""
        with self._batching:
            for key, lines in list(self._batches.items()):
                with self.losing(lines.count(b"\n")):
                    if not self.settings.spool_folder:
                        raise OSError("captures remained at the end of the process, and there is no spool folder")
                    spool(self._folder, key, lines, self.settings.spool_bytes)
                    self._sums["spooled"] += lines.count(b"\n")
                self._batches.pop(key, None)
        self.grow()

    def _finish(self):
        """At a normal end of the process. The thread may be sending a batch: then both write the same object."""
        for call in list(self._calls):
            call.end("left")
        self._make_batches()
        self._keep()
