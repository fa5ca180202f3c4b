"""What is known of one call while it runs: its times, its bytes, and how it ended."""

import time
import uuid

#: Pieces whose times are all kept, and the most times that are kept of a stream.
_SINGLE_PIECES = 128
_MOST_PIECES = 512


class Side:
    """The request or the reply. Only Memory changes its content."""

    def __init__(self, most):
        self.content_type = None
        self.total = 0
        self.left = None
        self.data = b""
        self.most = most


class Call:
    def __init__(self, params, streamed, most):
        self.id = str(uuid.uuid4())
        self.start = time.time()
        self._started = time.perf_counter()
        self.streamed = streamed
        self.endpoint = params["EndpointName"]
        self.target = params.get("TargetVariant") or params.get("InferenceComponentName")
        self.inference_id = params.get("InferenceId")
        self.custom_attributes = params.get("CustomAttributes")
        self.request, self.reply = Side(most), Side(most)
        self.request.content_type = params.get("ContentType")
        self.variant = self.ended = self.error = self.status = self.original_status = self.attempts = None
        self.first_byte_ms = self.first_content_ms = None
        self.end_ms = 0
        self.pieces, self.piece_count = [], 0
        self._body, self._at = params.get("Body"), None
        if hasattr(self._body, "seekable") and self._body.seekable():
            self._at = self._body.tell()

    def now(self):
        """Milliseconds since the start, by a clock that does not jump."""
        return round((time.perf_counter() - self._started) * 1000, 3)

    def end(self, ended):
        self.ended = ended
        self.end_ms = self.now()

    def take_request(self):
        """Returns the request's bytes, or None. A file is read again and set back; what can be read only once is not touched."""
        body, self._body = self._body, None
        if body is None or isinstance(body, bytes):
            return body or b""
        if isinstance(body, str):
            return body.encode()
        if isinstance(body, (bytearray, memoryview)):
            return bytes(body)
        if self._at is None:
            return None
        there = body.tell()
        try:
            body.seek(self._at)
            # One more than is kept shows that there is too much.
            data = body.read(self.request.most + 1)
        finally:
            body.seek(there)
        return data.encode() if isinstance(data, str) else data

    def piece(self, size):
        """Keeps the time of a piece of the reply."""
        ms = self.now()
        if size > 0 and self.first_content_ms is None:
            self.first_content_ms = ms
        self.piece_count += 1
        self.pieces.append((ms, size))
        if len(self.pieces) == _MOST_PIECES:
            tail = self.pieces[_SINGLE_PIECES:]
            joined = [(ms, size + after) for (ms, size), (_, after) in zip(tail[::2], tail[1::2])]
            self.pieces = self.pieces[:_SINGLE_PIECES] + joined
