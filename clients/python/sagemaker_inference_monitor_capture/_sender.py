"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import contextlib
import itertools
import logging
import os
import pathlib
import threading

from botocore.exceptions import ClientError

from ._line import encode, place_of
from ._spool import spool, spooled

#: Memory of a call without its contents.
_OVERHEAD = 4096


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self.settings, self._make_s3 = settings, make_s3
        #: Without one, nothing finds room.
        self._folder = pathlib.Path(settings.spool_folder or "(none is given)", settings.bucket).absolute()
        # A client takes long to make: not while requests run.
        self._start_anew(settings.s3 or make_s3())
        atexit.register(self._finish)
        # Windows has no forks.
        getattr(os, "register_at_fork", lambda **_: None)(after_in_child=self._start_anew)

    def _start_anew(self, s3=None):
        """Also in a forked child, without its parent's connections, and its captures, which the parent writes itself."""
        #: Calls until they are in a batch; the lines of batches by their keys.
        self._s3, self._calls, self._batches, self._timer = s3, {}, {}, None
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "without_content": 0, "last_error": None}
        self._added_bytes = self._told_dropped = 0
        #: Rounds run one after another. Whoever makes or spools batches has `_batching`: a round, or the end of the process.
        self._lock, self._rounds, self._batching = threading.Lock(), threading.Lock(), threading.RLock()

    def flush(self, seconds=10.0):
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        with contextlib.suppress(RuntimeError):
            self._start().join(seconds and min(seconds, threading.TIMEOUT_MAX))
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
        without_content: contents that were left out of captures: too large, not readable twice, or over the memory's bound.
        last_error: the last failure of the capture, which is not one of the application's requests.
        """
        ended = [call.ended is not None for call in list(self._calls)]
        batched = sum(lines.count(b"\n") for lines in list(self._batches.values()))
        return {"open": len(ended) - sum(ended), "waiting": sum(ended) + batched, **self._sums}

    def begin(self, call):
        """Takes a call whose request was sent. Raises MemoryError or RuntimeError if there is no room for it, or for a thread."""
        if len(self._calls) * _OVERHEAD > self.settings.memory_bytes:
            raise MemoryError(f"captures are over their bound; expected: at most {self.settings.memory_bytes} bytes")
        if not (self._timer and self._timer.is_alive()):
            self._timer = self._start(self.settings.batch_seconds)
        self._calls[call] = True
        body, call.body = call.body, None
        call.request.add(body)
        self.grow(_OVERHEAD + len(call.request.data))

    def grow(self, size):
        """Bounds the memory, and starts a round, when the sizes have added up to an object's: both look at all calls.

        Threads that add at once may lose a size, but none that the bound counts.
        """
        most, self._added_bytes = self.settings.memory_bytes, self._added_bytes + size
        if self._added_bytes > min(most / 8, self.settings.batch_bytes):
            self._added_bytes, calls = 0, list(self._calls)
            sides = [side for call in calls for side in call.sides]
            used = _OVERHEAD * len(calls) + sum(len(side.data) for side in sides) + sum(map(len, list(self._batches.values())))
            for side in sorted(sides, key=lambda side: len(side.data), reverse=True) if used > most else ():
                if used > most:
                    used -= len(side.data)
                    side.leave_out("memory")
            if not self._rounds.locked():
                self._start()

    @contextlib.contextmanager
    def losing(self, count, call=None, errors=Exception):
        """No error of its block reaches the application. It costs these captures, and is told."""
        try:
            yield
        except errors as error:
            told = f"{type(error).__name__}: {error}"[:500]
            self._calls.pop(call, None)
            with self._lock:
                self._sums["dropped"] += count
                is_first, self._sums["last_error"] = self._sums["last_error"] is None, told
            if is_first:
                logging.getLogger(__name__).warning("Captures of SageMaker calls are not written: %s", told)

    def _start(self, seconds=0):
        """Starts a round, in a thread that keeps no process alive. Raises RuntimeError if there is none to be had."""
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), self._round)
        timer.daemon = True
        timer.start()
        return timer

    def _round(self):
        with self._rounds:
            with self.losing(0):
                self._write()
            with self.losing(0):
                if self.settings.spool_folder:
                    self._keep()
                # Threads that began at once may have started others.
                if threading.current_thread() is self._timer:
                    self._timer = self._start(self.settings.batch_seconds)

    def _write(self):
        """Tries once to write the calls that have ended, and what was spooled. Raises an error that is no answer of S3."""
        refused = set()
        for old in itertools.chain([None], (key for key, _ in spooled(self._folder))):
            for key in itertools.chain(list(self._batches), self._made(refused), filter(None, [old])):
                # What S3 refuses of one endpoint and variant holds up no other.
                place = key.rsplit("/", 5)[0]
                if place not in refused:
                    refused.add(place)
                    with self.losing(0, errors=ClientError):
                        self._put(key)
                        refused.remove(place)
            if refused and self.settings.spool_folder:
                self._keep()

    def _put(self, key):
        self._s3 = self._s3 or self._make_s3()
        lines, file = self._batches.get(key), self._folder / key
        # Another process may have sent it. What cannot be read holds up no other.
        with contextlib.suppress(FileNotFoundError), self.losing(0, errors=(IsADirectoryError, PermissionError)):
            lines = lines or file.read_bytes()
        if lines:
            self._s3.put_object(Bucket=self.settings.bucket, Key=key, Body=lines)
            self._sums["written"] += lines.count(b"\n")
            if not self._batches.pop(key, None):
                file.unlink(missing_ok=True)

    def _made(self, refused):
        """Makes batches of the calls that have ended by now. Yields each key before the next: a batch loses no contents."""
        ended = [call for call in list(self._calls) if call.ended]
        while True:
            with self._batching:
                waiting = [call for call in ended if call in self._calls]
                calls = [call for call in waiting if not (refused and place_of(call, self.settings) in refused)]
                if not calls:
                    return
                dropped = self._sums["dropped"]
                key, lines, taken = encode(calls, self.settings, dropped - self._told_dropped)
                self._told_dropped, self._batches[key] = dropped, lines
                for call in taken:
                    self._sums["without_content"] += bool(call.request.left) + bool(call.reply.left)
                    self._calls.pop(call, None)
                    # The application may hold its stream for long.
                    for side in call.sides:
                        side.data = b""
            yield key

    def _keep(self):
        """Moves what has ended to the folder. What finds no room in it is lost."""
        with self._batching:
            for key in itertools.chain(list(self._batches), self._made(())):
                # At the end of the process, the thread may have written it meanwhile.
                if lines := self._batches.pop(key, None):
                    with self.losing(lines.count(b"\n")):
                        spool(self._folder, key, lines, self.settings.spool_bytes if self.settings.spool_folder else 0)
                        self._sums["spooled"] += lines.count(b"\n")

    def _finish(self):
        """At a normal end of the process. The thread may be sending a batch: then both write the same object."""
        for call in list(self._calls):
            call.end("left")
        self._keep()
