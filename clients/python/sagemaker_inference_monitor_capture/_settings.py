"""The options of capture_invocations, and their defaults."""

from dataclasses import dataclass
from typing import Any, Optional

_MB = 1_000_000


@dataclass(frozen=True)
class Settings:
    bucket: str
    prefix: str = ""
    calls: str = "streams"
    sampling: float = 1
    s3: Any = None
    max_body_bytes: int = _MB
    memory_bytes: int = 8 * _MB
    batch_bytes: int = _MB
    batch_seconds: float = 5
    spool_folder: Optional[str] = None
    spool_bytes: int = 256 * _MB

    def __post_init__(self):
        amounts = (self.max_body_bytes, self.memory_bytes, self.batch_bytes, self.batch_seconds, self.spool_bytes)
        is_allowed = isinstance(self.prefix, str) and isinstance(self.bucket, str) and self.bucket and "/" not in self.bucket
        if not (is_allowed and self.calls in ("streams", "all") and 0 < self.sampling <= 1 and min(amounts) > 0):
            expected = "the name of a bucket; calls streams or all; sampling over 0, at most 1; bytes and seconds over 0"
            raise ValueError(f"capture_invocations: an option is not allowed; got: {self}; expected: {expected}")
