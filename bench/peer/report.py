"""Prints the figures of MLflow's side of a benchmark, in the form of the product's own figures."""

import json
import resource
import time


def process_seconds() -> float:
    """Returns the seconds since this process started."""
    with open("/proc/self/stat") as stat:
        ticks = int(stat.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as uptime:
        now = float(uptime.read().split()[0])
    import os

    return now - ticks / os.sysconf("SC_CLK_TCK")


class Report:
    def __init__(self) -> None:
        self.import_seconds = process_seconds()
        self.started = time.perf_counter()

    def finish(self, result: dict) -> None:
        seconds = time.perf_counter() - self.started
        # ru_maxrss is in KiB on Linux.
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        print(
            json.dumps(
                {
                    "importSeconds": self.import_seconds,
                    "seconds": seconds,
                    "maxRssMb": rss,
                    "result": result,
                }
            )
        )
