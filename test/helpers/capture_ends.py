"""Runs an application to its end: capture_ends.py NAME FOLDER. Prints what it printed.

Each application asks three times. Servers are asked over HTTP; applications that end by a signal have the lines of
docs/capture-client.md. Nothing is written before the end but by these lines.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

CLONE = pathlib.Path(__file__).parents[2]
PAGE = (CLONE / "docs" / "capture-client.md").read_text()

PYTHON = '''
import asyncio, contextlib, os, sys, time
import boto3
from sagemaker_inference_monitor_capture import capture_invocations

client = boto3.client("sagemaker-runtime")
captures = capture_invocations(client, bucket="captures", batch_seconds=600, spool_folder=os.environ.get("SPOOL"))

def answer(event=None):
    stream = client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"]
    return sum(1 for _ in stream)

def asked():
    print("asked three times", file=sys.__stdout__, flush=True)

'''
NODE = '''
import { createServer } from 'node:http';
import { InvokeEndpointWithResponseStreamCommand, SageMakerRuntimeClient } from '@aws-sdk/client-sagemaker-runtime';
const { captureInvocations } = await import(`${process.env.CLONE}/src/capture-client/capture-invocations.ts`);
const client = new SageMakerRuntimeClient({});
const captures = captureInvocations(client, { bucket: 'captures', batchMs: 600_000, spoolFolder: process.env.SPOOL });
async function answer() {
  const { Body } = await client.send(new InvokeEndpointWithResponseStreamCommand({ EndpointName: 'e', Body: '{}' }));
  let count = 0;
  for await (const _ of Body) count += 1;
  return String(count);
}
'''


def block(name):
    return re.search(f"<!-- app: {name} -->\n```\\w+\n(.*?)```", PAGE, re.DOTALL)[1]


MAIN = 'if __name__ == "__main__":\n    import concurrent.futures, multiprocessing\n    kind = multiprocessing.get_context("{}")\n    '
POOL = "with concurrent.futures.ProcessPoolExecutor(2, mp_context=kind) as pool:\n        list(pool.map(answer, range(3)))"
CLOSED = "pool = kind.Pool(2)\n    pool.map(answer, range(3))\n    pool.close()\n    pool.join()"
CHILDREN = "for _ in range(3):\n        child = kind.Process(target=answer)\n        child.start()\n        child.join()"
FASTAPI = f'from fastapi import FastAPI\n{block("fastapi")}\n@app.get("/")\ndef ask():\n    return answer()\n'
WSGI = 'def app(environ, start):\n    start("200 OK", [])\n    return [b"%d" % answer()]\n'
CELERY = f'''
import celery, celery.signals
app = celery.Celery("app", broker="memory://")

@app.task
def ask(n):
    answer()
    if n == 2:
        asked()

@celery.signals.worker_ready.connect
def begin(**_):
    for n in range(3):
        ask.delay(n)

{block("celery")}'''
LAMBDA = f'{block("lambda-python")}\nfor _ in range(3):\n    handler({{}}, None)\nasked()\ntime.sleep(600)\n'
THRICE = "for (let i = 0; i < 3; i++) await"
LAMBDA_NODE = f"{block('lambda-node')}{THRICE} handler({{}});\nconsole.log('asked three times');\nsetInterval(() => {{}}, 1000);\n"
SERVER = f"const server = createServer(async (_, response) => response.end(await answer())).listen(PORT);\n{block('server-node')}"

TRACED = """
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';
import { isTracingSuppressed } from '@opentelemetry/core';
import { S3Client } from '@aws-sdk/client-s3';
const storage = new AsyncLocalStorage();
context.setGlobalContextManager({
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (inner, work, self, ...args) => storage.run(inner, () => work.apply(self, args)),
});
const s3 = new S3Client({});
s3.middlewareStack.add((next) => (args) => {
  console.log(isTracingSuppressed(context.active()), args.request.headers['X-Amzn-Trace-Id']);
  return next(args);
}, { step: 'finalizeRequest' });
const traced = new SageMakerRuntimeClient({});
const others = captureInvocations(traced, { bucket: 'captures', s3 });
const { Body } = await traced.send(new InvokeEndpointWithResponseStreamCommand({ EndpointName: 'e', Body: '{}' }));
for await (const _ of Body);
console.log(isTracingSuppressed(context.active()), (await others.flush()).written);
s3.destroy();
"""

#: The code, the program and its words, and the signal that ends it.
APPS = {
    "python": ("for _ in range(3):\n    answer()\n", "python app.py", None),
    "children": (MAIN.format("fork") + CHILDREN, "python app.py", None),
    "pool of forks": (MAIN.format("fork") + POOL, "python app.py", None),
    "closed pool": (MAIN.format("fork") + CLOSED, "python app.py", None),
    "spawned pool": (MAIN.format("spawn") + POOL, "python app.py", None),
    "fastapi": (FASTAPI, "uvicorn app:app --port PORT", signal.SIGTERM),
    "gunicorn": (WSGI, "gunicorn app:app --bind 127.0.0.1:PORT", signal.SIGTERM),
    "celery": (CELERY, "celery -A app worker --concurrency 1", signal.SIGTERM),
    "lambda in python": (LAMBDA, "python app.py", signal.SIGKILL),
    "node": (f"{THRICE} answer();\n", "node", None),
    "node that exits": (f"{THRICE} answer();\nprocess.exit();\n", "node", None),
    "traced node": (TRACED, "node", None),
    "lambda in node": (LAMBDA_NODE, "node", signal.SIGKILL),
    "server in node": (SERVER, "node", signal.SIGTERM),
}


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


def run(name, folder):
    code, words, ending = APPS[name]
    port = free_port()
    program, *rest = words.replace("PORT", port).split()
    is_node = program == "node"
    (folder / ("app.mjs" if is_node else "app.py")).write_text((NODE if is_node else PYTHON) + code.replace("PORT", port))
    if name == "gunicorn":
        (folder / "gunicorn.conf.py").write_text(block("gunicorn"))
    command = [os.path.join(os.path.dirname(sys.executable), program), *rest]
    if is_node:
        command = [os.environ["NODE"], "--import", str(CLONE / "bin" / "ready.js"), "app.mjs"]
    more = {"CLONE": str(CLONE), "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(CLONE / "clients" / "python")}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    app = subprocess.Popen(command, cwd=folder, env={**os.environ, **more}, **output)
    lines = []
    reading = threading.Thread(target=lambda: [lines.append(line) for line in app.stdout])
    reading.start()
    if ending:
        is_server, count = "PORT" in words + code, 0
        while app.poll() is None and (count < 3 if is_server else "asked three times\n" not in lines):
            try:
                count += is_server and urllib.request.urlopen(f"http://127.0.0.1:{port}").status == 200
            except OSError:
                pass
            time.sleep(0 if count else 0.1)
        app.send_signal(ending)
    app.wait()
    reading.join()
    print("".join(lines), end="")


run(sys.argv[1], pathlib.Path(sys.argv[2]))
