"""What is known of one call while it runs: its times, its bytes, and how it ended."""

import datetime
import re
import time
import uuid


class Side:
    """The request or the reply: its content type, its bytes, and why they were left out. Memory adds the bytes."""

    def __init__(self, kind=None):
        self.kind, self.total, self.left, self.data = kind, 0, None, bytearray()


class Call:
    def __init__(self, params, streamed, sender):
        self.id, self._clock = str(uuid.uuid4()), time.perf_counter()
        self.start = datetime.datetime.now(datetime.timezone.utc)
        self.endpoint, self.streamed, self._sender = params.get("EndpointName"), streamed, sender
        self.variant = params.get("TargetVariant") or params.get("InferenceComponentName") or "unknown"
        self.about = {"inferenceId": params.get("InferenceId"), "customAttributes": params.get("CustomAttributes")}
        self.about_size = len(str(self.about))
        self.request, self.reply, self.ended = Side(params.get("ContentType")), Side(), None
        #: Times and sizes of the first pieces of a stream: fewer of them where the memory is over its bound.
        self.pieces, self.most_pieces, self._seen = [], 512, None
        #: Fields of the line's `client`.
        self.client = {"streamed": streamed}
        #: Of the request, until it was sent.
        self.body = _content(params.get("Body") or b"", sender.settings.max_body_bytes)

    def now(self):
        """Milliseconds since the start, by a clock that does not jump."""
        return round((time.perf_counter() - self._clock) * 1000, 3)

    def saw(self, data):
        """Takes a piece of the reply. Nothing that goes wrong reaches the application."""
        if self.ended is None:
            try:
                ms = self._seen = self.now()
                if data:
                    self.client.setdefault("firstContentMs", ms)
                self.client["pieceCount"] = self.client.get("pieceCount", 0) + 1
                if len(self.pieces) < self.most_pieces:
                    self.pieces.append((ms, len(data)))
                self._sender.memory.add(self, self.reply, bytes(data))
            except Exception as error:
                self._sender.lose(0, error)

    def broke(self, error):
        """Ends a call whose reply could not be read."""
        name = getattr(error, "response", {}).get("Error", {}).get("Code") or type(error).__name__
        self.end("broke", "stream", str(name))

    def fail(self, kind, name, reply=b""):
        """Ends a call without a reply, or with an error."""
        self._sender.begin(self)
        self._sender.memory.add(self, self.reply, reply)
        self.end("failed", kind, name)

    def forget(self):
        """Ends a call whose stream nobody holds: the application left it after what it read last."""
        self.end("left", at=self._seen or self.client.get("firstByteMs"))

    def end(self, ended, kind=None, name="", at=None):
        """Ends the call, once: whole, broke, left or failed. The garbage collector may call it."""
        if self.ended is None:
            # A server may name its errors in any way; the reader of the line takes no others.
            told = re.sub(r"[^\w.-]", "_", name[:100], flags=re.ASCII) or "Error"
            self.client.update(ended=ended, endMs=at or self.now(), error=kind and {"kind": kind, "class": told})
            self.ended = ended
            self._sender.end(self)


def _content(body, most):
    """Returns bytes, of a file one more than is kept; None for what can be read only once."""
    if hasattr(body, "seek") and getattr(body, "seekable", lambda: True)():
        file, at = body, body.tell()
        try:
            body = file.read(most + 1)
        finally:
            file.seek(at)
    if isinstance(body, str):
        return body.encode()
    return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else None
