"""Bounds the memory of all calls that run or wait to be written: over the bound, the largest lose their contents."""

import threading

#: Memory of a call without its contents, and of a piece's time.
_OVERHEAD = 4096
_PIECE = 160


class Memory:
    def __init__(self, most):
        self.most = most
        self.used = 0
        self.stripped = 0
        #: Never taken by what the garbage collector calls, which may run while it is held.
        self.lock = threading.Lock()
        self._sizes = {}
        #: Calls that have contents, by the binary logarithm of their size, so that a large one is found at once.
        self._by_size = [{} for _ in range(64)]

    def add(self, call, side, data):
        """Adds bytes to a side of a call."""
        with self.lock:
            side.total += len(data)
            if side.left is None and data:
                if side.total > side.most:
                    side.left, side.data = "too-large", b""
                elif not side.data and isinstance(data, bytes):
                    side.data = data
                else:
                    if isinstance(side.data, bytes):
                        side.data = bytearray(side.data)
                    side.data += data
            self._count(call)
            self._strip()

    def count(self, call):
        with self.lock:
            self._count(call)
            self._strip()

    def leave_out(self, call, side, why):
        with self.lock:
            side.left, side.data = why, b""
            self._count(call)

    def release(self, call):
        with self.lock:
            self._forget(call)

    def hold(self, size):
        """Counts other memory, such as a batch; less with a negative size."""
        with self.lock:
            self.used += size

    def is_over(self):
        return self.used > self.most

    def _count(self, call):
        self._forget(call)
        contents = len(call.request.data) + len(call.reply.data)
        size = _OVERHEAD + _PIECE * len(call.pieces) + contents + (contents >> 3)
        self._sizes[call] = size
        self.used += size
        if contents:
            self._by_size[size.bit_length()][call] = True

    def _forget(self, call):
        size = self._sizes.pop(call, 0)
        self.used -= size
        self._by_size[size.bit_length()].pop(call, None)

    def _strip(self):
        for calls in reversed(self._by_size):
            while calls and self.is_over():
                call = next(iter(calls))
                for side in (call.request, call.reply):
                    if side.data:
                        side.left, side.data = "memory", b""
                self.stripped += 1
                self._count(call)
