"""What is known of one call while it runs: its times, its bytes, and how it ended."""

import time
import uuid

#: Pieces of a stream whose times are kept.
_MOST_PIECES = 512


class Side:
    """The request or the reply: its content type, its bytes, and why they were left out. Memory adds the bytes."""

    def __init__(self, kind):
        self.kind, self.total, self.left, self.data = kind, 0, None, b""


class Call:
    def __init__(self, params, streamed, most):
        self.id, self.start, self._clock = str(uuid.uuid4()), time.time(), time.perf_counter()
        self.endpoint, self.streamed, self.most = params["EndpointName"], streamed, most
        self.variant = params.get("TargetVariant") or params.get("InferenceComponentName") or "unknown"
        self.about = {"inferenceId": params.get("InferenceId"), "customAttributes": params.get("CustomAttributes")}
        self.request, self.reply = Side(params.get("ContentType")), Side(None)
        #: Fields of the line's `client`.
        self.client = {"streamed": streamed}
        self.pieces, self._body = [], params.get("Body")
        is_file = hasattr(self._body, "seek") and getattr(self._body, "seekable", lambda: True)()
        self._at = self._body.tell() if is_file else None

    @property
    def ended(self):
        return self.client.get("ended")

    def now(self):
        """Milliseconds since the start, by a clock that does not jump."""
        return round((time.perf_counter() - self._clock) * 1000, 3)

    def end(self, ended):
        if self.ended is None:
            self.client.update(ended=ended, endMs=self.now())

    def take_request(self):
        """Returns the bytes of the request. A file is read again and set back; None for what can be read only once."""
        body, self._body = self._body, None
        if self._at is not None:
            there = body.tell()
            try:
                body.seek(self._at)
                # One more than is kept shows that there is too much.
                content = body.read(self.most + 1)
            finally:
                body.seek(there)
            body = content
        if isinstance(body, str):
            return body.encode()
        return bytes(body) if isinstance(body, (bytes, bytearray, memoryview)) else None if body else b""

    def piece(self, size):
        """Keeps the time of a piece of the reply."""
        ms = self.now()
        if size > 0:
            self.client.setdefault("firstContentMs", ms)
        self.client["pieceCount"] = self.client.get("pieceCount", 0) + 1
        if len(self.pieces) < _MOST_PIECES:
            self.pieces.append((ms, size))
