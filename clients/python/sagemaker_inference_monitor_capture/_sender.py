"""Writes calls that have ended to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import contextlib
import logging
import os
import queue
import threading

from ._batch import encode
from ._memory import Memory
from ._spool import Spool

_log = logging.getLogger("sagemaker_inference_monitor_capture")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self.settings, self._make_s3 = settings, make_s3
        self._spool = settings.spool_folder and Spool(settings.spool_folder, settings.spool_bytes)
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
        #: They are being written, or could not be: at most one of an endpoint, since what is refused for one holds up no other.
        self._batches = []
        self._ended_bytes = self._failures = self._dropped_since_line = 0
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
        waiting = ended + sum(batch.lines for batch in list(self._batches))
        counts = {"open": len(self.memory.sizes) - ended, "waiting": waiting, "without_content": self.memory.without_content}
        return {**counts, **self._sums}

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
        """Counts captures that are lost, and warns of the first error."""
        with self._lock:
            self._sums["dropped"] += count
            self._dropped_since_line += count
        if error is not None:
            is_first, told = self._sums["last_error"] is None, f"{type(error).__name__}: {error}"[:500]
            self._sums["last_error"] = told
            if is_first:
                _log.warning("Captures of SageMaker calls are not written: %s", told)

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
            wait = min(_FIRST_WAIT * 2 ** min(self._failures - 1, 9), _LONGEST_WAIT)
            wait = wait if self._failures else min(self.settings.batch_seconds, threading.TIMEOUT_MAX)
            done = None
            with contextlib.suppress(queue.Empty):
                done = self._wake.get(timeout=wait)
            try:
                self._write_ended(self._put)
                for batch in self._spool.batches(self.settings.bucket) if self._spool else ():
                    self._write_ended(self._put)
                    self._put(batch)
            except Exception as error:
                self._failures += 1
                self.lose(0, error)
                if self._spool:
                    self._write_ended(self._keep)
            if done is not None:
                done.set()

    def _put(self, batch):
        self._s3 = self._s3 or self._make_s3()
        self._s3.put_object(Bucket=batch.bucket, Key=batch.key, Body=bytes(batch.body))
        self._failures = 0
        self._sums["written"] += batch.lines

    def _write_ended(self, write):
        """Makes batches of the calls that have ended, and writes them. One that could not be written comes again."""
        self._ended_bytes = 0
        while True:
            with self._encoding:
                self._encode()
                if not self._batches:
                    return
                batch = self._batches[-1]
            write(batch)
            with self._encoding:
                # At the end of the process, the other one may have written it, too.
                if batch in self._batches:
                    self.memory.release((), -len(batch.body))
                    self._batches.remove(batch)

    def _encode(self):
        """Puts the batch that is next at the end of the list: a new one, or the one that could not be written first."""
        held = [batch.calls[0].endpoint for batch in self._batches]
        calls, dropped = [call for call in self._ended() if call.endpoint not in held], self._dropped_since_line
        if calls:
            batch = encode(calls, self.settings, dropped)
            self.memory.release(batch.calls, len(batch.body))
            with self._lock:
                self._dropped_since_line -= dropped
            self._batches.append(batch)
        elif held:
            self._batches.append(self._batches.pop(0))

    def _keep(self, batch):
        """Spools a batch. Without a folder, or with one that takes no more, it is lost."""
        try:
            if not self._spool:
                raise OSError("captures remained at the end of the process, and there is no spool folder")
            self._spool.write(batch)
            self._sums["spooled"] += batch.lines
        except OSError as error:
            self.lose(batch.lines, error)

    def _finish(self):
        """At a normal end of the process. The thread may be sending a batch: then both write the same object."""
        for call in list(self.memory.sizes):
            call.end("left")
        self._write_ended(self._keep)
