"""An application in Python that calls an endpoint as a test asks, and prints what it saw: capture_app.py FILE.

With `async` it uses aiobotocore, and its calls run in one loop.
"""

import asyncio
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
settings = {"retries": {"total_max_attempts": 2}, "max_pool_connections": 1000}
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
captures = None


def capture(client):
    global captures
    captures = None if spec.get("bare") else capture_invocations(client, bucket="captures", s3=s3, **options)
    return client


class OwnFile:
    """As little of a file as boto3 needs."""

    def __init__(self, data):
        self._file = io.BytesIO(data)
        self.read, self.seek, self.tell = self._file.read, self._file.seek, self._file.tell


def asked(call):
    body = base64.b64decode(call["body"])
    body = {"bytes": io.BytesIO, "own": OwnFile}.get(call.get("file"), bytes)(body)
    names = {"contentType": "ContentType", "inferenceId": "InferenceId", "variant": "TargetVariant"}
    return {"EndpointName": call.get("endpointName", "e"), "Body": body, **{names[name]: call[name] for name in names if name in call}}


class Reply:
    def __init__(self, call):
        self.started, self.times, self.parts, self.most = time.perf_counter(), [], [], call.get("pieces")

    def take(self, event):
        """Returns whether the application has read enough."""
        self.times.append((time.perf_counter() - self.started) * 1000)
        self.parts.append(event["PayloadPart"]["Bytes"])
        return len(self.parts) == self.most

    def told(self, error=None):
        reply = base64.b64encode(b"".join(self.parts)).decode()
        ms = (time.perf_counter() - self.started) * 1000
        return {"reply": reply, "error": error and type(error).__name__, "pieceMs": self.times, "endMs": ms}


def ask(call):
    reply = Reply(call)
    try:
        if not call.get("streamed"):
            with client.invoke_endpoint(**asked(call))["Body"] as body:
                reply.parts.append(body.read())
        else:
            stream = client.invoke_endpoint_with_response_stream(**asked(call))["Body"]
            for event in stream if reply.most != 0 else []:
                if reply.take(event):
                    break
    except Exception as error:
        return reply.told(error)
    return reply.told()


async def ask_async(client, call):
    reply = Reply(call)
    try:
        if not call.get("streamed"):
            async with (await client.invoke_endpoint(**asked(call)))["Body"] as body:
                reply.parts.append(await body.read())
        else:
            stream = (await client.invoke_endpoint_with_response_stream(**asked(call)))["Body"]
            if reply.most != 0:
                async for event in stream:
                    if reply.take(event):
                        break
    except Exception as error:
        return reply.told(error)
    return reply.told()


async def ask_all_async():
    import aiobotocore.config
    import aiobotocore.session

    config = aiobotocore.config.AioConfig(**settings)
    making = aiobotocore.session.get_session().create_client("sagemaker-runtime", endpoint_url=spec["endpoint"], config=config, **key)
    async with making as client:
        capture(client)
        if spec.get("concurrent"):
            return list(await asyncio.gather(*(ask_async(client, call) for call in spec["calls"])))
        return [await ask_async(client, call) for call in spec["calls"]]


def set_clock_back(now=time.time):
    time.time = lambda: now() - 3600


if spec.get("clockBackAfterMs") is not None:
    threading.Timer(spec["clockBackAfterMs"] / 1000, set_clock_back).start()
if not spec.get("async"):
    client = capture(boto3.client("sagemaker-runtime", endpoint_url=spec["endpoint"], config=Config(**settings), **key))
if spec.get("async"):
    replies = asyncio.run(ask_all_async())
elif spec.get("concurrent"):
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
