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
            self._set_size(call, _size_of(call))
            while self.used > self.most:
                largest = max(self.sizes, key=_contents_of, default=call)
                if _contents_of(largest) == 0:
                    break
                for each in (largest.request, largest.reply):
                    if each.data:
                        self._leave_out(each, "memory")
                self._set_size(largest, _size_of(largest))

    def release(self, calls, size=0):
        """Forgets calls that became a batch of this size; negative: of one that was sent."""
        with self._lock:
            for call in calls:
                self._set_size(call, 0)
                del self.sizes[call]
            self.used += size

    def is_full(self):
        """Whether there is too much even without contents."""
        with self._lock:
            return self.used > self.most

    def _leave_out(self, side, why):
        side.left, side.data = why, b""
        self.without_content += 1

    def _set_size(self, call, size):
        self.used += size - self.sizes.get(call, 0)
        self.sizes[call] = size


def _contents_of(call):
    return len(call.request.data) + len(call.reply.data)


def _size_of(call):
    # A bytearray has an eighth more than it needs.
    return _OVERHEAD + _PIECE * len(call.pieces) + _contents_of(call) * 9 // 8
