"""Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents."""

import threading

#: Memory of a call without its contents, and of a piece's time.
_OVERHEAD, _PIECE = 4096, 160
#: Contents go until this share of the bound is free, so that the largest need not be looked for with each piece.
_FREED = 1 / 8


class Memory:
    def __init__(self, settings):
        self._settings, self.used, self.without_content, self.sizes = settings, 0, 0, {}
        #: Never taken by what the garbage collector calls, which may run while it is held.
        self._lock = threading.Lock()

    def add(self, call, side, data):
        """Adds bytes to a side of a call; None: bytes that cannot be read. Raises MemoryError if there is no room for a new call."""
        most = self._settings.memory_bytes
        with self._lock:
            if self.used > most and call not in self.sizes:
                raise MemoryError(f"captures are over their bound; got: {self.used} bytes; expected: at most {most}")
            # Another thread may have closed the stream: then the call may be written.
            if not call.ended:
                side.total += len(data or b"")
                if data is None or side.total > self._settings.max_body_bytes:
                    self._leave_out(side, "unreadable" if data is None else "too-large")
                elif side.left is None:
                    side.data += data
                self._count(call)
                if self.used > most and side.data:
                    self._free(most * (1 - _FREED))

    def release(self, calls, size=0):
        """Forgets calls that became a batch of this size; negative: of one that was sent."""
        with self._lock:
            self.used += size - sum(self.sizes.pop(call, 0) for call in calls)
            for call in calls:
                # The application may hold its stream for long.
                call.request.data = call.reply.data = b""

    def _free(self, most):
        for call in sorted(self.sizes, key=self.sizes.get, reverse=True):
            if self.used > most:
                for side in (call.request, call.reply):
                    if side.data:
                        self._leave_out(side, "memory")
                call.most_pieces = len(call.pieces)
                self._count(call)

    def _leave_out(self, side, why):
        if side.left is None:
            side.left, side.data = why, bytearray()
            self.without_content += 1

    def _count(self, call):
        contents = len(call.request.data) + len(call.reply.data)
        # A bytearray has an eighth more than it needs.
        size = _OVERHEAD + call.about_size + _PIECE * len(call.pieces) + contents + contents // 8
        self.used += size - self.sizes.get(call, 0)
        self.sizes[call] = size
