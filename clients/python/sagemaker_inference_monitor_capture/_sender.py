"""Collects finished calls, and writes them to S3 in batches: a thread, which lets others run between slices of its work."""

import atexit
import collections
import logging
import os
import queue
import re
import threading
import time
import uuid
import weakref

from ._line import iso, line_of
from ._spool import Spool

_log = logging.getLogger("sagemaker_inference_monitor_capture")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
#: A thread that waits for the interpreter gets it within this time, in seconds.
_PAUSE = 0.0005
_JOINED_BYTES = 8 * 1024

_senders = weakref.WeakSet()


class Sender:
    def __init__(self, *, make_s3, memory, facts, place, batch, spool):
        self.memory = memory
        self._make_s3, self._facts = make_s3, facts
        (self._bucket, self._prefix), (self._batch_bytes, self._batch_seconds) = place, batch
        self._spool = Spool(*spool) if spool[0] is not None else None
        # Here, since making it takes long: not while requests run.
        self._s3 = make_s3()
        self._sums = {"written": 0, "spooled": 0, "dropped": 0, "without_content": 0, "last_error": None}
        self._warned = set()
        self.start_anew()
        _senders.add(self)
        if self._spool is not None and self._spool.list():
            self._start()

    def start_anew(self):
        """Also in a forked child: the parent writes what it has captured."""
        self.memory.__init__(self.memory.most)
        self.forgotten = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open, self._waiting, self._waiting_bytes = {}, collections.deque(), 0
        self._encoding, self._batch, self._flushes = [], None, []
        self._failures = self._dropped_since_line = 0
        self._has_spooled = self._spool is not None
        self._wake, self._thread = threading.Event(), None

    def forked(self):
        self.start_anew()
        self._s3 = None
        self._sums.update(written=0, spooled=0, dropped=0, without_content=0)

    def stats(self):
        batch = self._batch
        waiting = len(self._waiting) + len(self._encoding) + (batch["lines"] if batch else 0)
        without = self._sums["without_content"] + self.memory.stripped
        return {"open": len(self._open), "waiting": waiting, **self._sums, "without_content": without}

    def begin(self, call):
        """Takes a call whose request was sent."""
        data = call.take_request()
        if data is None:
            call.request.left = "unreadable"
        with self._lock:
            self._open[call] = True
        self.memory.add(call, call.request, data or b"")

    def finish(self, call):
        """Takes a call that has ended."""
        try:
            self.memory.count(call)
            with self._lock:
                if self._open.pop(call, None) is None:
                    return
                if "too-large" in (call.request.left, call.reply.left) or call.request.left == "unreadable":
                    self._sums["without_content"] += 1
                self._waiting.append(call)
                self._waiting_bytes += len(call.request.data) + len(call.reply.data) + 1024
                while self.memory.is_over() and self._waiting:
                    self.memory.release(self._waiting.popleft())
                    self._lose(1)
            self._start()
            if self._waiting_bytes >= self._batch_bytes and self._failures == 0:
                self._wake.set()
        except Exception as error:
            self.failed(error)

    def lose(self, count):
        with self._lock:
            self._lose(count)

    def _lose(self, count):
        self._sums["dropped"] += count
        self._dropped_since_line += count

    def failed(self, error):
        """Keeps an error for `stats`, and warns of the first of its kind."""
        name = type(error).__name__
        self._sums["last_error"] = f"{name}: {error}"[:500]
        if name not in self._warned:
            self._warned.add(name)
            _log.warning("Captures of SageMaker calls are not written: %s", self._sums["last_error"])

    def flush(self, seconds):
        done = threading.Event()
        self._flushes.append(done)
        self._start()
        self._wake.set()
        done.wait(seconds)

    def _start(self):
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    thread = threading.Thread(target=self._run, name="sagemaker-captures", daemon=True)
                    thread.start()
                    self._thread = thread

    def _run(self):
        while True:
            wait = min(_FIRST_WAIT * 2**self._failures, _LONGEST_WAIT) if self._failures else self._batch_seconds
            self._wake.wait(wait)
            self._wake.clear()
            flushes, self._flushes = self._flushes, []
            try:
                self._send_all()
            except Exception as error:
                self._put_failed(error)
            for done in flushes:
                done.set()

    def _put_failed(self, error):
        self._failures = min(self._failures + 1, 10)
        self.failed(error)

    def _end_forgotten(self):
        while True:
            try:
                call, at = self.forgotten.get_nowait()
            except queue.Empty:
                return
            if call.ended is None:
                call.end("left")
                call.end_ms = at or call.end_ms
                self.finish(call)

    def _send_all(self):
        self._end_forgotten()
        if self._batch is not None:
            self._send(self._batch)
        while self._waiting:
            self._batch = self._encode(pause=True)
            self._send(self._batch)
        if self._has_spooled:
            for path in self._spool.list():
                batch = self._spool.read(path)
                if batch["bucket"] == self._bucket:
                    self._put(batch)
                    self._spool.remove(path)
            self._has_spooled = False

    def _encode(self, pause):
        """Makes a batch of the calls that wait for the folder of the first, as many as fit in one."""
        with self._lock:
            folder = self._folder(self._waiting[0])
            calls, others, size = self._encoding, [], 0
            while self._waiting and size < self._batch_bytes:
                call = self._waiting.popleft()
                fits = self._folder(call) == folder
                (calls if fits else others).append(call)
                size += (len(call.request.data) + len(call.reply.data) + 1024) if fits else 0
            self._waiting.extendleft(reversed(others))
            self._waiting_bytes = max(0, self._waiting_bytes - size) if self._waiting else 0
            dropped, self._dropped_since_line = self._dropped_since_line, 0
        body, small = bytearray(), 0
        for number, call in enumerate(calls):
            for part in line_of(call, self._facts, dropped if number == 0 else 0):
                body += part
                small += len(part)
                if pause and small >= _JOINED_BYTES:
                    time.sleep(_PAUSE)
                    small = 0
        time_of = iso(calls[0].start)
        key = f"{folder}/{time_of[14:16]}-{time_of[17:19]}-{time_of[20:23]}-{uuid.uuid4()}.jsonl"
        batch = {"bucket": self._bucket, "key": key, "body": bytes(body), "lines": len(calls)}
        for call in calls:
            self.memory.release(call)
        self.memory.hold(len(body))
        self._encoding = []
        return batch

    def _folder(self, call):
        """SageMaker's layout: endpoint, variant, hour."""
        names = [re.sub(r"[^\w.-]", "_", name) for name in (call.endpoint, call.variant or call.target or "unknown")]
        hour = re.sub("[-T]", "/", iso(call.start)[:13])
        return "/".join(part for part in (self._prefix, *names, hour) if part)

    def _send(self, batch):
        try:
            self._put(batch)
        except Exception as error:
            if self._spool is None:
                raise
            self._put_failed(error)
            self._to_spool(batch)
            self._has_spooled = True
        self._batch = None
        self.memory.hold(-len(batch["body"]))

    def _to_spool(self, batch):
        try:
            if self._spool is None:
                raise OSError("the process ended, and there is no spool folder")
            self._spool.write(batch)
            self._sums["spooled"] += batch["lines"]
        except OSError as error:
            self.failed(error)
            self.lose(batch["lines"])

    def _put(self, batch):
        if self._s3 is None:
            self._s3 = self._make_s3()
        self._s3.put_object(Bucket=batch["bucket"], Key=batch["key"], Body=batch["body"])
        self._failures = 0
        self._sums["written"] += batch["lines"]

    def finish_process(self):
        """At a normal end of the process: what remains is spooled, or dropped and counted."""
        self._end_forgotten()
        for call in list(self._open):
            call.end("left")
            self.finish(call)
        self._waiting.extendleft(reversed(self._encoding))
        self._encoding = []
        if self._batch is not None:
            self._to_spool(self._batch)
        while self._waiting:
            self._to_spool(self._encode(pause=False))


def _at_end():
    for sender in list(_senders):
        try:
            sender.finish_process()
        except Exception as error:
            sender.failed(error)


def _in_child():
    for sender in list(_senders):
        sender.forked()


atexit.register(_at_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
