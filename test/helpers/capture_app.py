"""An application in Python that calls an endpoint as a test asks, and prints what it saw: capture_app.py FILE."""

import base64
import concurrent.futures
import gc
import io
import json
import os
import resource
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "clients", "python"))

import boto3
from botocore.config import Config

from sagemaker_inference_monitor_capture import capture_invocations

with open(sys.argv[1]) as file:
    spec = json.load(file)
key = {"region_name": "eu-west-1", "aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "a-secret"}
config = Config(retries={"total_max_attempts": 2}, max_pool_connections=1000)
client = boto3.client("sagemaker-runtime", endpoint_url=spec["endpoint"], config=config, **key)
given = {
    "prefix": "prefix",
    "calls": "calls",
    "sampling": "sampling",
    "maxBodyBytes": "max_body_bytes",
    "memoryBytes": "memory_bytes",
    "batchSeconds": "batch_seconds",
    "batchBytes": "batch_bytes",
    "spoolFolder": "spool_folder",
    "spoolBytes": "spool_bytes",
}
options = {given[name]: value for name, value in spec["options"].items()}
s3 = boto3.client("s3", endpoint_url=spec["s3"], config=Config(retries={"total_max_attempts": 1}), **key)
captures = None if spec.get("bare") else capture_invocations(client, bucket="captures", s3=s3, **options)


class OwnFile:
    """As little of a file as boto3 needs."""

    def __init__(self, data):
        self._file = io.BytesIO(data)
        self.read, self.seek, self.tell = self._file.read, self._file.seek, self._file.tell


def ask(call):
    started = time.perf_counter()
    times, parts, error = [], [], None
    body = base64.b64decode(call["body"])
    body = {"bytes": io.BytesIO, "own": OwnFile}.get(call.get("file"), bytes)(body)
    names = {"contentType": "ContentType", "inferenceId": "InferenceId", "variant": "TargetVariant"}
    asked = {"EndpointName": "e", "Body": body, **{names[name]: call[name] for name in names if name in call}}
    try:
        if not call.get("streamed"):
            with client.invoke_endpoint(**asked)["Body"] as reply:
                parts.append(reply.read())
        else:
            stream = client.invoke_endpoint_with_response_stream(**asked)["Body"]
            for event in stream if call.get("pieces") != 0 else []:
                times.append((time.perf_counter() - started) * 1000)
                parts.append(event["PayloadPart"]["Bytes"])
                if len(parts) == call.get("pieces"):
                    break
    except Exception as raised:
        error = type(raised).__name__
    reply = base64.b64encode(b"".join(parts)).decode()
    return {"reply": reply, "error": error, "pieceMs": times, "endMs": (time.perf_counter() - started) * 1000}


def set_clock_back(now=time.time):
    time.time = lambda: now() - 3600


if spec.get("clockBackAfterMs") is not None:
    threading.Timer(spec["clockBackAfterMs"] / 1000, set_clock_back).start()
if spec.get("concurrent"):
    with concurrent.futures.ThreadPoolExecutor(1000) as pool:
        replies = list(pool.map(ask, spec["calls"]))
else:
    replies = [ask(call) for call in spec["calls"]]
# Streams that were not read to the end have ended when they are collected.
gc.collect()
stats = None
if captures is not None:
    stats = captures.stats() if spec.get("flushSeconds") is None else captures.flush(spec["flushSeconds"])
    stats["withoutContent"], stats["lastError"] = stats.pop("without_content"), stats.pop("last_error")
if spec.get("fork"):
    child = os.fork()
    if child == 0:
        ask(spec["calls"][0])
        print(json.dumps(captures.flush(10)["written"]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"replies": replies, "stats": stats, "rssBytes": rss}))
