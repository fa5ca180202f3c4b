"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import multiprocessing.util
import os
import pathlib
import sys
import threading
import time
from collections.abc import Container, Iterator
from types import SimpleNamespace
from typing import Any, cast

from botocore.exceptions import ClientError

from ._call import Call
from ._hooks import register
from ._line import encode, place_of
from ._s3 import LastCredentials, is_async, past_tracers, s3_like, untraced
from ._settings import Stats
from ._spool import spool, spooled

#: Memory of a call without its contents.
_OVERHEAD = 4096
#: What the captures may add to the end of a process.
_END_SECONDS = 3.0

_senders: list[Sender] = []


@atexit.register
def _finish() -> None:
    """At a normal end of the process. It waits for the threads that run: Python starts no others any more."""
    until = time.monotonic() + _END_SECONDS
    for sender in _senders:
        sender.end_open()
    with contextlib.suppress(RuntimeError):
        for sender, number in [(sender, sender.ask()) for sender in _senders if sender.stats()["waiting"]]:
            sender.wait(number, max(0, until - time.monotonic()))
    lost = {sender: count for sender in _senders if (count := sender.keep_rest())}
    if lost:
        errors = [f"; last error: {error}" for sender in lost if (error := sender.stats()["last_error"])]
        told = f"{sum(lost.values())} captures of SageMaker calls are lost: the process ended before S3 took them"
        # Its standard error may be closed.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            sys.stderr.write(f"{told}{''.join(errors[-1:])}\n")


class Sender:
    """The captures of one client, or of several: `flush` and `stats` are for the application."""

    _s3: Any
    _like: Any = None

    def __init__(self, settings: SimpleNamespace) -> None:
        self.settings, self.credentials = settings, LastCredentials()
        self._folder = pathlib.Path(settings.spool_folder or "(none is given)", settings.bucket).absolute()
        self._start_anew(settings.s3 and past_tracers(settings.s3))
        _senders.append(self)
        # Windows has no forks.
        getattr(os, "register_at_fork", lambda **_: None)(after_in_child=self._start_anew)

    def add(self, client: Any) -> None:
        """Captures the calls of a client from now on, which tells of it."""
        if self._like is None:
            self._like = client
            if not is_async(client):
                self.credentials.given = client._request_signer._credentials
            # A client takes long to make: not while requests run.
            self._s3 = self._s3 or self._make_s3()
        register(client, self)
        client._inference_monitor_captures = self

    def _make_s3(self) -> Any:
        return s3_like(self._like, self.settings.s3, self.credentials)

    def _start_anew(self, s3: Any = None) -> None:
        """Also in a forked child, without its parent's connections, and its captures, which the parent writes itself."""
        #: Calls until they are in a batch; the lines of batches by their keys.
        self._s3 = s3
        self._calls: dict[Call, bool] = {}
        self._batches: dict[str, bytes] = {}
        self._thread: threading.Thread | None = None
        self._last_error: str | None = None
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "without_content": 0}
        self._added_bytes, self._told_dropped, self._is_ending = 0, 0, False
        #: Numbers of rounds, which run one after another.
        self._asked = self._begun = self._ended = 0
        self._changed = threading.Condition()
        #: Whoever makes or spools batches has `_batching`: a round, or the end of the process.
        self._lock, self._batching = threading.Lock(), threading.RLock()

    def flush(self, seconds: float | None = 10.0) -> Stats:
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        with contextlib.suppress(RuntimeError):
            self.wait(self.ask(), seconds)
        return self.stats()

    def ask(self) -> int:
        """Has a round begin after the one that runs. Returns its number. Raises RuntimeError if there is no thread to be had."""
        with self._changed:
            self._start()
            self._asked = self._begun + 1
            self._changed.notify_all()
            return self._asked

    def wait(self, number: int, seconds: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ended >= number, seconds and min(seconds, threading.TIMEOUT_MAX))

    def stats(self) -> Stats:
        """Returns what became of the captures since the process started."""
        ended = [call.ended is not None for call in list(self._calls)]
        batched = sum(lines.count(b"\n") for lines in list(self._batches.values()))
        running = len(ended) - sum(ended)
        numbers = {"open": running, "waiting": sum(ended) + batched, **self._sums, "last_error": self._last_error}
        return cast(Stats, numbers)

    def begin(self, call: Call) -> None:
        """Takes a call whose request was sent. Raises MemoryError or RuntimeError if there is no room for it, or for a thread."""
        if len(self._calls) * _OVERHEAD > self.settings.memory_bytes:
            raise MemoryError(f"captures are over their bound; expected: at most {self.settings.memory_bytes} bytes")
        with self._changed:
            self._start()
        self._calls[call] = True
        body, call.body = call.body, None
        call.request.add(body)
        self.grow(_OVERHEAD + len(call.request.data))

    def grow(self, size: int) -> None:
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
            self.ask()

    @contextlib.contextmanager
    def losing(self, count: int, call: Call | None = None, errors: Any = Exception) -> Iterator[None]:
        """No error of its block reaches the application. It costs these captures, and is told."""
        try:
            yield
        except errors as error:
            told = f"{type(error).__name__}: {error}"[:500]
            if call:
                self._calls.pop(call, None)
            with self._lock:
                self._sums["dropped"] += count
                is_first, self._last_error = self._last_error is None, told
            if is_first and not self._is_ending:
                logging.getLogger(__name__).warning("Captures of SageMaker calls are not written: %s", told)

    def _start(self) -> None:
        """Starts the thread, which keeps no process alive. Raises RuntimeError if there is none to be had."""
        if not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
            if multiprocessing.parent_process():
                # Such a process ends without `atexit`.
                multiprocessing.util.Finalize(None, _finish, exitpriority=0)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked > self._begun, min(self.settings.batch_seconds, threading.TIMEOUT_MAX))
                self._begun += 1
            with self.losing(0):
                self._write()
            with self.losing(0):
                if self.settings.spool_folder:
                    self._keep()
            with self._changed:
                self._ended = self._begun
                self._changed.notify_all()

    def _write(self) -> None:
        """Tries once to write the calls that have ended, and what was spooled. Raises an error that is no answer of S3."""
        refused: set[str] = set()
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

    def _put(self, key: str) -> None:
        self._s3 = self._s3 or self._make_s3()
        lines, file = self._batches.get(key), self._folder / key
        # Another process may have sent it. What cannot be read holds up no other.
        with contextlib.suppress(FileNotFoundError), self.losing(0, errors=(IsADirectoryError, PermissionError)):
            lines = lines or file.read_bytes()
        if lines:
            with untraced():
                self._s3.put_object(Bucket=self.settings.bucket, Key=key, Body=lines)
            self._sums["written"] += lines.count(b"\n")
            if not self._batches.pop(key, None):
                file.unlink(missing_ok=True)

    def _made(self, refused: Container[str]) -> Iterator[str]:
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
                        side.data = bytearray()
            yield key

    def _keep(self) -> None:
        """Moves what has ended to the folder. What finds no room in it is lost."""
        with self._batching:
            for key in itertools.chain(list(self._batches), self._made(())):
                # At the end of the process, the thread may have written it meanwhile.
                lines = self._batches.pop(key, b"")
                count = lines.count(b"\n")
                if not self.settings.spool_folder:
                    self._sums["dropped"] += count
                elif lines:
                    with self.losing(count):
                        spool(self._folder, key, lines, self.settings.spool_bytes)
                        self._sums["spooled"] += count

    def end_open(self) -> None:
        """At the end of the process: one sentence says then what is lost."""
        self._is_ending = True
        for call in list(self._calls):
            call.end("left")

    def keep_rest(self) -> int:
        """Keeps what was not written; returns how many captures are lost. The thread may be sending one: both write the same object."""
        dropped = self._sums["dropped"]
        self._keep()
        return self._sums["dropped"] - dropped
