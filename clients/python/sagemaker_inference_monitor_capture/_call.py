"""What is known of one call while it runs: its times, its bytes, and how it ended."""

import re
import time
import uuid


class Side:
    """The request or the reply: its content type, its bytes, and why they were left out. Memory adds the bytes."""

    def __init__(self, kind=None):
        self.kind, self.total, self.left, self.data = kind, 0, None, bytearray()


class Call:
    def __init__(self, params, streamed, sender):
        self.id, self.start, self._clock = str(uuid.uuid4()), time.time(), time.perf_counter()
        self.endpoint, self.streamed, self._sender = params.get("EndpointName"), streamed, sender
        self.variant = params.get("TargetVariant") or params.get("InferenceComponentName") or "unknown"
        self.about = {"inferenceId": params.get("InferenceId"), "customAttributes": params.get("CustomAttributes")}
        self.about_size = len(str(self.about))
        self.request, self.reply, self.ended = Side(params.get("ContentType")), Side(), None
        #: Times and sizes of the first pieces of a stream: fewer of them where the memory is over its bound.
        self.pieces, self.most_pieces, self._seen = [], 512, None
        #: Fields of the line's `client`.
        self.client = {"streamed": streamed}
        self._body = params.get("Body")
        is_file = hasattr(self._body, "seek") and getattr(self._body, "seekable", lambda: True)()
        self._at = self._body.tell() if is_file else None

    def now(self):
        """Milliseconds since the start, by a clock that does not jump."""
        return round((time.perf_counter() - self._clock) * 1000, 3)

    def take_request(self, most):
        """Returns the bytes of the request. A file is read again and set back; None for what can be read only once."""
        body, self._body = self._body, None
        if self._at is not None:
            file, there = body, body.tell()
            try:
                file.seek(self._at)
                # One more than is kept shows that there is too much.
                body = file.read(most + 1)
            finally:
                file.seek(there)
        if isinstance(body, str):
            return body.encode()
        return bytes(body or b"") if isinstance(body, (bytes, bytearray, memoryview, type(None))) else None

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
        if self._sender.begin(self):
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
