"""Lines that become one object in S3."""

import re
import time
import uuid

from ._line import iso, line_of

#: Bytes that are encoded before a pause, and the pause in seconds: who waits for the interpreter gets it.
_WORK_BYTES, _PAUSE = 8 * 1024, 0.0005


class Batch:
    def __init__(self, bucket, key, body=b""):
        self.bucket, self.key, self.body, self.calls = bucket, key, bytearray(body), []

    @property
    def lines(self):
        return self.body.count(b"\n")


def encode(calls, settings, dropped):
    """Makes a batch of the calls with the place of the first, as many as fit in one."""
    place, at = _place_of(calls[0], settings.prefix), iso(calls[0].start)
    batch = Batch(settings.bucket, f"{place}/{at[14:16]}-{at[17:19]}-{at[20:23]}-{uuid.uuid4()}.jsonl")
    for call in calls:
        if len(batch.body) < settings.batch_bytes and _place_of(call, settings.prefix) == place:
            for part in line_of(call, settings, 0 if batch.calls else dropped):
                batch.body += part
                if len(batch.body) % _WORK_BYTES < len(part):
                    time.sleep(_PAUSE)
            batch.calls.append(call)
    return batch


def _place_of(call, prefix):
    """SageMaker's layout: endpoint, variant, hour."""
    # SageMaker's names have no other characters. A key that S3 refuses would be tried for good.
    names = (re.sub(r"[^\w-]", "_", name, flags=re.ASCII)[:63] for name in (call.endpoint, call.variant))
    hour = re.sub("[-T]", "/", iso(call.start)[:13])
    return "/".join(part for part in (prefix.strip("/"), *names, hour) if part)
