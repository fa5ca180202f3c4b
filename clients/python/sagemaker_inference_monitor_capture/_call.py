"""What is known of one call while it runs: its times, its bytes, and how it ended."""

from __future__ import annotations

import contextlib
import datetime
import re
import sys
import time
import uuid
from typing import Any


class Side:
    """Bytes of the request, the reply or the pieces' times.

    left: None, why they were left out, or False once they were taken. Another thread may leave them out at any time.
    """

    def __init__(self, most: float, kind: str | None = None) -> None:
        self.kind, self.total, self._most = kind, 0, most
        self.left: str | bool | None = None
        self.data = bytearray()

    def add(self, data: bytes | None) -> None:
        """Adds bytes; None: bytes that cannot be read."""
        self.total += len(data or b"")
        if data is None or self.total > self._most:
            self.leave_out("unreadable" if data is None else "too-large")
        elif self.left is None:
            self.data.extend(data)

    def leave_out(self, why: str) -> None:
        # Another object: one that shrinks would leave holes in the process's memory.
        self.left, self.data = why if self.left is None else self.left, bytearray()


def _traceparent() -> str | None:
    """The active span as W3C Trace Context has it, if the application has imported OpenTelemetry."""
    trace = sys.modules.get("opentelemetry.trace")
    # Nothing that goes wrong there loses the capture.
    with contextlib.suppress(Exception):
        span = trace and trace.get_current_span().get_span_context()
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & 1:02x}" if span and span.is_valid else None
    return None


class Call:
    def __init__(self, params: dict[str, Any], streamed: bool, sender: Any) -> None:
        self.id, self._clock, self._sender = str(uuid.uuid4()), time.perf_counter(), sender
        self.start = datetime.datetime.now(datetime.timezone.utc)
        self.endpoint, self.streamed = str(params.get("EndpointName")), streamed
        self.ended: str | None = None
        self._seen: float | None = None
        self.variant: str = params.get("TargetVariant") or params.get("InferenceComponentName") or "unknown"
        # SageMaker takes no longer ones.
        about = (("inferenceId", "InferenceId", 64), ("customAttributes", "CustomAttributes", 1024))
        self.about = {name: params[given][:most] for name, given, most in about if params.get(given)}
        most = sender.settings.max_body_bytes
        #: The pieces are JSON: `[ms,bytes],` for each.
        self.request, self.reply, self.pieces = self.sides = Side(most, params.get("ContentType")), Side(most), Side(float("inf"))
        #: Of the request, until it was sent: the application's own bytes, which take no memory.
        self.body: bytes | None = _content(params.get("Body") or b"", most)
        #: Of a stream's connection, less those of the frames that were parsed.
        self.frame_bytes = 0
        #: Fields of the line's `client`.
        self.client: dict[str, Any] = {"streamed": streamed, "traceparent": _traceparent()}

    def now(self) -> float:
        """Milliseconds since the start, by a clock that does not jump."""
        return round((time.perf_counter() - self._clock) * 1000, 3)

    def saw(self, data: bytes) -> None:
        """Takes a piece of the reply. Nothing that goes wrong reaches the application."""
        if self.ended is None:
            with self._sender.losing(0):
                ms = self._seen = self.now()
                self.client["pieceCount"] = self.client.get("pieceCount", 0) + 1
                # The first 512 take about 7 KB.
                if self.streamed and self.client["pieceCount"] <= 512:
                    self.pieces.add(b"[%.3f,%d]," % (ms, len(data)))
                self.reply.add(data)
                self._sender.grow(len(data))

    def end(self, ended: str, kind: str | None = None, error: object = None) -> None:
        """Ends the call, once: whole, broke, left or failed. The garbage collector may call it."""
        if self.ended is None:
            if ended == "left" and self._seen is None:
                # Not a reply of 0 bytes: nobody knows what came.
                self.reply.leave_out("unread")
            # The application left a stream after what it read last, whenever the garbage collector comes.
            ms = (self._seen or self.client.get("firstByteMs")) if ended == "left" else self.now()
            self.client.update(ended=ended, endMs=ms, error=kind and {"kind": kind, "class": _class_of(error)})
            self.ended = ended


def _class_of(error: object) -> str:
    """The code of AWS's error, or of a reply with one; the class of another. The reader of the line takes no other characters."""
    reply = getattr(error, "response", error)
    code = reply.get("Error", {}).get("Code") if isinstance(reply, dict) else type(error).__name__
    return re.sub(r"[^\w.-]", "_", str(code or "Unknown")[:100], flags=re.ASCII)


def _content(body: Any, most: float) -> bytes | None:
    """Returns bytes, of a file one more than is kept; None for what can be read only once."""
    if getattr(body, "seekable", lambda: hasattr(body, "seek"))():
        file, at = body, body.tell()
        body = file.read(int(min(most, 2**40)) + 1)
        file.seek(at)
    body = body.encode() if isinstance(body, str) else body
    return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else None
