"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import logging
import os
import queue
import threading

from ._batch import Spool, encode
from ._memory import Memory

_log = logging.getLogger("sagemaker_inference_monitor_capture")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self.settings, self._make_s3 = settings, make_s3
        self._spool = settings.spool_folder and Spool(settings.spool_folder, settings.spool_bytes)
        self._start_anew()
        # Here, since making it takes long: not while requests run. A forked child must not use its parent's connections.
        self._s3 = settings.s3 or make_s3()
        atexit.register(self._finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self):
        """Also in a forked child, without its parent's captures and connections: the parent writes them itself."""
        self.memory = Memory(self.settings.memory_bytes, self.settings.max_body_bytes)
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "last_error": None}
        self._s3 = self._batch = self._thread = None
        self._ended_bytes = self._failures = self._dropped_since_line = 0
        self._warned = set()
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
        if self._start():
            done.wait(seconds and min(seconds, threading.TIMEOUT_MAX))
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
        without_content: contents that were too large, not readable twice, or over the memory's bound.
        last_error: the last failure of the capture, which is not one of the application's requests.
        """
        batch, waiting = self._batch, len(self._ended())
        return {
            "open": len(self.memory.sizes) - waiting,
            "waiting": waiting + (batch.lines if batch else 0),
            "without_content": self.memory.without_content,
            **self._sums,
        }

    def begin(self, call):
        """Takes a call whose request was sent. Returns whether there is memory for it."""
        if self.memory.is_full():
            self.lose(1)
            return False
        self.memory.add(call, call.request, call.take_request(self.settings.max_body_bytes))
        self._start()
        return True

    def end(self, call):
        """Writes a call, soon. The garbage collector may call it."""
        self._ended_bytes += self.memory.sizes.get(call, 0)
        if self._ended_bytes >= self.settings.batch_bytes and not self._failures:
            self._ended_bytes = 0
            self._wake.put(None)

    def lose(self, count, error=None):
        """Counts captures that are lost, and warns of the first error of its kind."""
        with self._lock:
            self._sums["dropped"] += count
            self._dropped_since_line += count
        name = type(error).__name__
        if error is not None:
            self._sums["last_error"] = f"{name}: {error}"[:500]
            if name not in self._warned:
                self._warned.add(name)
                _log.warning("Captures of SageMaker calls are not written: %s", self._sums["last_error"])

    def _ended(self):
        return [call for call in list(self.memory.sizes) if call.ended]

    def _start(self):
        """Returns whether the thread runs: there may be too many, or the interpreter ends."""
        try:
            with self._lock:
                if self._thread is None:
                    thread = threading.Thread(target=self._run, name="sagemaker-captures", daemon=True)
                    thread.start()
                    self._thread = thread
        except RuntimeError as error:
            self.lose(0, error)
        return self._thread is not None

    def _run(self):
        while True:
            wait = min(_FIRST_WAIT * 2 ** min(self._failures - 1, 9), _LONGEST_WAIT)
            wait = wait if self._failures else min(self.settings.batch_seconds, threading.TIMEOUT_MAX)
            try:
                done = self._wake.get(timeout=wait)
            except queue.Empty:
                done = None
            try:
                self._write_ended()
                for batch in self._spool.batches(self.settings.bucket) if self._spool else ():
                    self._write_ended()
                    self._put(batch)
            except Exception as error:
                self._failures += 1
                self.lose(0, error)
                self._spool_all()
            if done is not None:
                done.set()

    def _write_ended(self):
        self._ended_bytes = 0
        for batch in self._batches():
            self._put(batch)

    def _put(self, batch):
        self._s3 = self._s3 or self._make_s3()
        self._s3.put_object(Bucket=batch.bucket, Key=batch.key, Body=bytes(batch.body))
        self._failures = 0
        self._sums["written"] += batch.lines

    def _batches(self):
        """Yields batches of the calls that have ended. One that could not be written comes again."""
        while True:
            with self._encoding:
                # At the end of the process, the other one may have taken what waited.
                batch = self._batch = self._batch or (self._ended() and self._encode())
            if not batch:
                break
            yield batch
            if self._batch is batch:
                self.memory.release((), -len(batch.body))
                self._batch = None

    def _encode(self):
        dropped = self._dropped_since_line
        batch = encode(self._ended(), self.settings, dropped)
        self.memory.release(batch.calls, len(batch.body))
        with self._lock:
            self._dropped_since_line -= dropped
        return batch

    def _spool_all(self):
        """Without a folder, captures wait in memory."""
        for batch in self._batches() if self._spool else ():
            try:
                self._spool.write(batch)
                self._sums["spooled"] += batch.lines
            except OSError as error:
                self.lose(batch.lines, error)

    def _finish(self):
        """At a normal end of the process: what remains is spooled, or dropped and counted."""
        for call in list(self.memory.sizes):
            call.end("left")
        # The thread may be sending a batch: then both write the same object.
        self._spool_all()
        self.lose(self.stats()["waiting"])
