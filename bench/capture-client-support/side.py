"""Requests of an application in Python, bare and captured by turns: side.py <JSON of SideOptions>. Prints SideFigures."""

import itertools
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

options = json.loads(sys.argv[1])
key = {"region_name": "eu-west-1", "aws_access_key_id": "a", "aws_secret_access_key": "b"}
config = Config(retries={"total_max_attempts": 1}, max_pool_connections=100)
short = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=15)
names = options["series"]
clients = {
    name: boto3.client("sagemaker-runtime", endpoint_url=options["endpoint"], config=config, **key)
    for name in ("bare", "again", "captured")
}
if "captured" in names:
    s3 = boto3.client("s3", endpoint_url=options["s3"], config=short, **key)
    capture_invocations(clients["captured"], bucket="b", s3=s3)


def body_of(content):
    return json.dumps({"messages": [{"role": "user", "content": content}]}, ensure_ascii=False).encode()


SMALL, LARGE = body_of("hello"), body_of('ä"\n' * 190_000)


def ask(name, body):
    started, first = time.perf_counter(), None
    stream = clients[name].invoke_endpoint_with_response_stream(EndpointName="e", Body=body, ContentType="application/json")
    for _ in stream["Body"]:
        first = first or (time.perf_counter() - started) * 1000
    return first


def large(done):
    while not done.wait(options["largeEveryMs"] / 1000):
        ask("captured", LARGE)


for name in names:
    for _ in range(50):
        ask(name, SMALL)
times, failed, numbers, done = {name: [] for name in names}, [], itertools.count(), threading.Event()
if options["largeEveryMs"]:
    threading.Thread(target=large, args=(done,), daemon=True).start()


def work():
    for number in iter(lambda: next(numbers), None):
        if number >= options["requests"]:
            return
        name = names[number % len(names)]
        try:
            times[name].append(ask(name, SMALL))
        except Exception:
            failed.append(name)


threads = [threading.Thread(target=work) for _ in range(options["workers"])]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
done.set()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"times": times, "failed": len(failed), "peakBytes": peak}), flush=True)
os._exit(0)
