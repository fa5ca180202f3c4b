"""Collects calls that have ended, and writes them to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import json
import logging
import os
import queue
import re
import threading
import time
import uuid
import weakref

from ._line import iso, line_of
from ._memory import Memory

_log = logging.getLogger("sagemaker_inference_monitor_capture")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
#: Bytes that are encoded before a pause, and the pause in seconds: who waits for the interpreter gets it.
_WORK_BYTES, _PAUSE = 8 * 1024, 0.0005
_SPOOLED = ".capture-batch"

_senders = weakref.WeakSet()


class Sender:
    """The captures of one client: `flush` and `stats` are for the application."""

    def __init__(self, settings, make_s3):
        self._settings, self._make_s3 = settings, make_s3
        # Here, since making it takes long: not while requests run.
        self._s3 = make_s3()
        self._folder = settings["spool_folder"]
        if self._folder is not None:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self.start_anew()
        _senders.add(self)

    def start_anew(self):
        """Also in a forked child, without the captures of its parent, which writes them itself."""
        self.memory = Memory(self._settings["memory_bytes"])
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "last_error": None}
        #: Calls that have ended, and requests for a flush. Whatever the garbage collector calls may put something.
        self._ended = queue.SimpleQueue()
        self._waiting, self._bytes, self._batch = [], 0, None
        self._failures = self._dropped_since_line = 0
        self._warned = set()
        #: Whoever makes batches has `_encoding`: the thread, and in the end the process itself.
        self._lock, self._encoding, self._thread = threading.Lock(), threading.RLock(), None

    def flush(self, seconds=10.0):
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        done = threading.Event()
        self._ended.put(done)
        self._start()
        done.wait(seconds)
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
        without_content: contents that were too large, not readable twice, or over the memory's bound.
        last_error: the last failure of the capture, which is not one of the application's requests.
        """
        calls = list(self.memory.sizes)
        is_open = sum(call.ended is None for call in calls)
        waiting = len(calls) - is_open + (self._batch["lines"] if self._batch else 0)
        without = self.memory.without_content
        return {"open": is_open, "waiting": waiting, **self._sums, "without_content": without}

    def begin(self, call):
        """Takes a call whose request was sent. Returns whether there is memory for it."""
        if self.memory.is_full():
            self.lose(1)
            return False
        data = call.take_request()
        if data is None:
            call.request.left = "unreadable"
        self.memory.add(call, call.request, data or b"")
        self._start()
        return True

    def end(self, call, ended):
        """Ends a call. May be called several times, and by the garbage collector."""
        if call.ended is None:
            call.end(ended)
            self._ended.put(call)

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

    def _start(self):
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="sagemaker-captures", daemon=True)
                    self._thread.start()

    def _run(self):
        while True:
            seconds = min(_FIRST_WAIT * 2 ** min(self._failures - 1, 9), _LONGEST_WAIT)
            flush = self._collect(self._settings["batch_seconds"] if self._failures == 0 else seconds)
            try:
                self._send_all()
            except Exception as error:
                self._put_failed(error)
            if flush is not None:
                flush.set()

    def _collect(self, seconds):
        """Takes ended calls until they are a batch, the time is over, or a flush is wanted, which it returns."""
        until = time.monotonic() + seconds
        while self._bytes < self._settings["batch_bytes"] or self._failures > 0:
            try:
                call = self._ended.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                break
            if isinstance(call, threading.Event):
                return call
            self._waiting.append(call)
            self._bytes += self.memory.sizes.get(call, 0)
        return None

    def _send_all(self):
        for batch in self._batches(_PAUSE):
            self._send(batch)
        for path in self._spooled():
            with open(path, "rb") as file:
                batch = {**json.loads(file.readline()), "body": file.read()}
            if batch["bucket"] == self._settings["bucket"]:
                self._put(batch)
                os.unlink(path)

    def _batches(self, pause):
        """Yields the batch that could not be written, and batches of the calls that wait."""
        batch = self._batch
        while batch is not None or self._waiting:
            yield batch or self._encode(pause)
            batch = None

    def _encode(self, pause):
        """Makes a batch of the calls that wait for the place of the first, as many as fit in one."""
        with self._encoding:
            place, calls, body, worked = self._place(self._waiting[0]), [], bytearray(), 0
            dropped = self._dropped_since_line
            for call in self._waiting:
                if self._place(call) == place and len(body) < self._settings["batch_bytes"]:
                    for part in line_of(call, self._settings, dropped if not calls else 0):
                        body += part
                        worked += len(part)
                        if worked >= _WORK_BYTES:
                            time.sleep(pause)
                            worked = 0
                    calls.append(call)
            at = iso(calls[0].start)
            key = f"{place}/{at[14:16]}-{at[17:19]}-{at[20:23]}-{uuid.uuid4()}.jsonl"
            batch = {"bucket": self._settings["bucket"], "key": key, "body": bytes(body), "lines": len(calls)}
            done = set(calls)
            self._waiting = [call for call in self._waiting if call not in done]
            self._bytes = 0
            self.memory.release(calls, len(body))
            with self._lock:
                self._dropped_since_line -= dropped
            self._batch = batch
            return batch

    def _place(self, call):
        """SageMaker's layout: endpoint, variant, hour."""
        names = (re.sub(r"[^\w.-]", "_", name) for name in (call.endpoint, call.variant))
        hour = re.sub("[-T]", "/", iso(call.start)[:13])
        return "/".join(part for part in (self._settings["prefix"], *names, hour) if part)

    def _send(self, batch):
        try:
            self._put(batch)
        except Exception as error:
            if self._folder is None:
                raise
            self._put_failed(error)
            self._spool(batch)
        self._batch = None
        self.memory.release((), -len(batch["body"]))

    def _put(self, batch):
        if self._s3 is None:
            self._s3 = self._make_s3()
        self._s3.put_object(Bucket=batch["bucket"], Key=batch["key"], Body=batch["body"])
        self._failures = 0
        self._sums["written"] += batch["lines"]

    def _put_failed(self, error):
        self._failures += 1
        self.lose(0, error)

    def _spooled(self):
        names = sorted(os.listdir(self._folder)) if self._folder else ()
        return [os.path.join(self._folder, name) for name in names if name.endswith(_SPOOLED)]

    def _spool(self, batch):
        """Writes a batch to the folder, where it keeps the key of its object."""
        try:
            about = {"bucket": batch["bucket"], "key": batch["key"], "lines": batch["lines"], "bytes": len(batch["body"])}
            if sum(os.path.getsize(path) for path in self._spooled()) + about["bytes"] > self._settings["spool_bytes"]:
                raise OSError(f"the spool folder is full; expected: at most {self._settings['spool_bytes']} bytes")
            path = os.path.join(self._folder, f"{int(time.time() * 1000):014d}-{uuid.uuid4()}{_SPOOLED}")
            # Requests and replies are personal: only the application's own user may read them.
            with os.fdopen(os.open(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(json.dumps(about).encode() + b"\n" + batch["body"])
            os.replace(path + ".part", path)
            self._sums["spooled"] += batch["lines"]
        except OSError as error:
            self.lose(batch["lines"], error)

    def finish(self):
        """At a normal end of the process: what remains is spooled, or dropped and counted."""
        for call in list(self.memory.sizes):
            self.end(call, "left")
        # The thread may be about to make a batch, or to send one: then both write the same object.
        with self._encoding:
            self._failures = 1
            self._collect(0)
            if self._folder is None:
                self.lose(self.stats()["waiting"])
                return
            for batch in self._batches(0):
                self._spool(batch)


def _at_end():
    for sender in list(_senders):
        try:
            sender.finish()
        except Exception as error:
            sender.lose(0, error)


def _in_child():
    for sender in list(_senders):
        sender.start_anew()
        # The parent's connections are its own.
        sender._s3 = None


atexit.register(_at_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
