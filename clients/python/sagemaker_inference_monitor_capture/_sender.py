"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import contextlib
import logging
import os
import queue
import threading

from botocore.exceptions import ClientError

from ._line import encode
from ._memory import Memory
from ._spool import Spool

_log = logging.getLogger("sagemaker_inference_monitor_capture")


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self.settings, self._make_s3 = settings, make_s3
        self._spool = settings.spool_folder and Spool(settings)
        self._start_anew()
        # Here, since making it takes long: not while requests run.
        self._s3 = settings.s3 or make_s3()
        atexit.register(self._finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self):
        """Also in a forked child, without its parent's connections, and its captures, which the parent writes itself."""
        self.memory = Memory(self.settings)
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "last_error": None}
        self._s3 = self._thread = None
        #: Endpoint, key and lines of what is being written, or could not be: at most one of an endpoint, which holds up no other.
        self._batches = []
        self._ended_bytes = self._told_dropped = 0
        #: Whoever makes batches has `_encoding`: the thread, and in the end the process itself.
        self._lock, self._encoding = threading.Lock(), threading.Lock()
        #: Wakes the thread; an event is set when it is done. What the garbage collector calls may put something.
        self._wake = queue.SimpleQueue()

    def flush(self, seconds=10.0):
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        done = threading.Event()
        self._wake.put(done)
        with contextlib.suppress(RuntimeError):
            self._start()
            done.wait(seconds and min(seconds, threading.TIMEOUT_MAX))
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
        without_content: contents that were too large, not readable twice, or over the memory's bound.
        last_error: the last failure of the capture, which is not one of the application's requests.
        """
        ended = len(self._ended())
        waiting = ended + sum(lines.count(b"\n") for _, _, lines in list(self._batches))
        counts = {"open": len(self.memory.sizes) - ended, "waiting": waiting, "without_content": self.memory.without_content}
        return {**counts, **self._sums}

    def begin(self, call):
        """Takes a call whose request was sent. Raises MemoryError if there is no room for it."""
        self.memory.add(call, call.request, call.body)
        call.body = None
        self._start()

    def end(self, call):
        """Writes a call, soon. The garbage collector may call it."""
        self._ended_bytes += self.memory.sizes.get(call, 0)
        # A round that writes takes what ends meanwhile.
        if self._ended_bytes >= self.settings.batch_bytes and not self._batches:
            self._ended_bytes = 0
            self._wake.put(None)

    def lose(self, count, error=None):
        """Counts captures that are lost, and warns of the first error."""
        with self._lock:
            self._sums["dropped"] += count
        if error is not None:
            told = f"{type(error).__name__}: {error}"[:500]
            if self._sums["last_error"] is None:
                _log.warning("Captures of SageMaker calls are not written: %s", told)
            self._sums["last_error"] = told

    def _ended(self):
        return [call for call in list(self.memory.sizes) if call.ended]

    def _start(self):
        """Raises RuntimeError if there are too many threads, or the interpreter ends."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="sagemaker-captures", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self):
        while True:
            done = None
            with contextlib.suppress(queue.Empty):
                done = self._wake.get(timeout=min(self.settings.batch_seconds, threading.TIMEOUT_MAX))
            try:
                self._write_ended(self._send)
                for key, lines in self._spool.batches() if self._spool else ():
                    self._write_ended(self._send)
                    self._put(key, lines)
            except Exception as error:
                self.lose(0, error)
                if self._spool:
                    self._write_ended(self._keep)
            if done is not None:
                done.set()

    def _send(self, key, lines):
        """What S3 refuses goes to the folder, if there is one, and holds up no other."""
        try:
            self._put(key, lines)
        except ClientError as error:
            if not self._spool or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
                raise
            self.lose(0, error)
            self._keep(key, lines)

    def _put(self, key, lines):
        self._s3 = self._s3 or self._make_s3()
        self._s3.put_object(Bucket=self.settings.bucket, Key=key, Body=lines)
        self._sums["written"] += lines.count(b"\n")

    def _write_ended(self, write):
        """Makes batches of the calls that have ended, and writes them. One that could not be written comes again."""
        self._ended_bytes = 0
        while True:
            with self._encoding:
                self._encode()
                if not self._batches:
                    return
                _, key, lines = batch = self._batches[-1]
            write(key, lines)
            with self._encoding:
                # At the end of the process, the other one may have written it, too.
                if batch in self._batches:
                    self.memory.release((), -len(lines))
                    self._batches.remove(batch)

    def _encode(self):
        """Puts the batch that is next at the end of the list: a new one, or the one that could not be written first."""
        held, dropped = [endpoint for endpoint, _, _ in self._batches], self._sums["dropped"]
        calls = [call for call in self._ended() if call.endpoint not in held]
        if calls:
            key, lines, taken = encode(calls, self.settings, dropped - self._told_dropped)
            self.memory.release(taken, len(lines))
            self._told_dropped = dropped
            self._batches.append((calls[0].endpoint, key, lines))
        elif held:
            self._batches.append(self._batches.pop(0))

    def _keep(self, key, lines):
        """Spools a batch. Without a folder, or with one that takes no more, it is lost."""
        count = lines.count(b"\n")
        try:
            if not self._spool:
                raise OSError("captures remained at the end of the process, and there is no spool folder")
            self._spool.write(key, lines)
            self._sums["spooled"] += count
        except OSError as error:
            self.lose(count, error)

    def _finish(self):
        """At a normal end of the process. The thread may be sending a batch: then both write the same object."""
        for call in list(self.memory.sizes):
            call.end("left")
        self._write_ended(self._keep)
