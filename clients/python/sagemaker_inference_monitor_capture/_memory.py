"""Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents."""

import threading

#: Memory of a call without its contents, and of a piece's time.
_OVERHEAD, _PIECE = 4096, 160


class Memory:
    def __init__(self, most):
        self.most, self.used, self.without_content = most, 0, 0
        #: Never taken by what the garbage collector calls, which may run while it is held.
        self._lock = threading.Lock()
        self.sizes = {}
        #: Calls that have contents, by the binary logarithm of their size, so that a large one is found at once.
        self._by_size = [{} for _ in range(64)]

    def add(self, call, side, data):
        """Adds bytes to a side of a call."""
        with self._lock:
            side.total += len(data)
            if side.left is None and data:
                if side.total > call.most:
                    self._leave_out(side, "too-large")
                elif not side.data:
                    side.data = data
                else:
                    side.data = bytearray(side.data) if isinstance(side.data, bytes) else side.data
                    side.data += data
            self._count(call)
            for calls in reversed(self._by_size):
                while calls and self._is_over():
                    largest = next(iter(calls))
                    for each in (largest.request, largest.reply):
                        if each.data:
                            self._leave_out(each, "memory")
                    self._count(largest)

    def release(self, calls, size=0):
        """Forgets calls that became a batch of this size; negative: of one that was sent."""
        with self._lock:
            for call in calls:
                self._forget(call)
            self.used += size

    def is_full(self):
        """Whether there is too much even without contents."""
        with self._lock:
            return self._is_over()

    def _is_over(self):
        return self.used > self.most

    def _leave_out(self, side, why):
        side.left, side.data = why, b""
        self.without_content += 1

    def _count(self, call):
        self._forget(call)
        contents = len(call.request.data) + len(call.reply.data)
        # A bytearray has an eighth more than it needs.
        size = self.sizes[call] = _OVERHEAD + _PIECE * len(call.pieces) + contents + contents // 8
        self.used += size
        if contents:
            self._by_size[size.bit_length()][call] = True

    def _forget(self, call):
        size = self.sizes.pop(call, 0)
        self.used -= size
        self._by_size[size.bit_length()].pop(call, None)
