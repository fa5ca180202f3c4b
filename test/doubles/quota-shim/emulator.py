"""What the quota shim imposes and counts inside the emulator, where no request passes: open Map Runs, and invocations.

The emulator runs this file before it starts (REQUEST_RECORDER), and then the one in QUOTA_NEXT, if there is one. It appends
lines of JSON to the file in QUOTA_LOG: {"function", "memoryMb", "ms", "error", "logBytes"} for each invocation, "throttled"
for one without a free place, and {"mapRun": "waited"|"open"|"ended", "open"}. The limits are in the JSON file QUOTA_LIMITS,
which may change: `lambdaConcurrency` and `openMapRuns`, both without a limit if absent.

Step Functions has at most 1,000 open Map Runs; others wait in MapRunStarted until one ends.
"""

import functools
import json
import os
import runpy
import threading
import time


class Log:
    def __init__(self, path):
        self._file = open(path, "a", buffering=1)
        self._lock = threading.Lock()

    def write(self, entry):
        with self._lock:
            self._file.write(json.dumps({"at": int(time.time() * 1000), **entry}) + "\n")


def limit(name):
    with open(os.environ["QUOTA_LIMITS"]) as file:
        return json.load(file).get(name)


def limit_map_runs(stepfunctions, log):
    run_map = stepfunctions._run_distributed_map
    free = threading.Condition()
    state = {"open": 0}

    @functools.wraps(run_map)
    def run_when_free(*args, **kwargs):
        most = limit("openMapRuns") or float("inf")
        with free:
            if state["open"] >= most:
                log.write({"mapRun": "waited", "open": state["open"]})
            free.wait_for(lambda: state["open"] < most)
            state["open"] += 1
            log.write({"mapRun": "open", "open": state["open"]})
        try:
            return run_map(*args, **kwargs)
        finally:
            with free:
                state["open"] -= 1
                log.write({"mapRun": "ended", "open": state["open"]})
                free.notify()

    stepfunctions._run_distributed_map = run_when_free


def record_invocations(lambda_svc, log):
    execute = lambda_svc._execute_function_warm
    acquire = lambda_svc._acquire_execution_slot
    usual = lambda_svc._ACCOUNT_CONCURRENCY_CAP

    @functools.wraps(execute)
    def execute_and_record(func, event, request_id):
        started = time.monotonic()
        config = func.get("config") or func
        result = execute(func, event, request_id)
        text = result.get("log") or ""
        log.write(
            {
                "function": config.get("FunctionName"),
                "memoryMb": config.get("MemorySize"),
                "ms": round((time.monotonic() - started) * 1000, 1),
                "error": bool(result.get("error")),
                "logBytes": len(text.encode()),
            }
        )
        return result

    @functools.wraps(acquire)
    def acquire_and_record(func, config):
        lambda_svc._ACCOUNT_CONCURRENCY_CAP = limit("lambdaConcurrency") or usual
        slot, by = acquire(func, config)
        if slot is None:
            log.write({"throttled": config.get("FunctionName"), "by": by})
        return slot, by

    lambda_svc._execute_function_warm = execute_and_record
    lambda_svc._acquire_execution_slot = acquire_and_record


def install():
    """Wraps the emulator before it starts. A part that a newer emulator lacks is an AttributeError, which stops it."""
    from ministack.services import lambda_svc, stepfunctions

    log = Log(os.environ["QUOTA_LOG"])
    record_invocations(lambda_svc, log)
    limit_map_runs(stepfunctions, log)
    following = os.environ.get("QUOTA_NEXT")
    if following:
        runpy.run_path(following)["install"]()
