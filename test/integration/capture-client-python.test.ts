/** What an application in Python or its surroundings can do to the capture client, and once did. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { captureSurroundings, clientsIn } from '../helpers/capture-surroundings.ts';

const here = captureSurroundings();

async function python(code: string): Promise<string> {
  const script = `
import atexit, os, sys, tempfile, threading, time
sys.path.insert(0, ${JSON.stringify(packagePath('clients', 'python'))})
import boto3
from sagemaker_inference_monitor_capture import capture_invocations, _call
key = {"region_name": "eu-west-1", "aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "a-secret"}
client = boto3.client("sagemaker-runtime", endpoint_url="${here.endpoint.url}", **key)
s3 = boto3.client("s3", endpoint_url="${here.s3.url}", **key)
def ask():
    return list(client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"])
${code}`;
  const { stdout } = await promisify(execFile)((await defaultPythonEnvironment()).python, ['-c', script]);
  return stdout.trim();
}

test('times without an end end neither the thread nor a flush, and a share may be any number', async () => {
  const code = `
from fractions import Fraction
captures = capture_invocations(client, bucket="captures", s3=s3, batch_seconds=float("inf"), sampling=Fraction(1))
ask()
print(captures.flush(float("inf"))["written"])`;
  expect(await python(code)).toBe('1');
});

test('a forked child writes by connections of its own, also with a client that the application gave', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3)
ask()
captures.flush()
child = os.fork()
if child == 0:
    ask()
    print(captures.flush()["written"], captures._s3 is s3, flush=True)
    os._exit(0)
os.waitpid(child, 0)`;
  expect(await python(code)).toBe('1 False');
});

test('many clients share one model of S3, which is 10 MB', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures")
print(captures._s3._loader is client._loader)`;
  expect(await python(code)).toBe('True');
});

test('without another thread the application goes on, and its captures are counted as dropped', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3)
start = threading.Thread.start
def refuse(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
ask()
print(captures.flush()["dropped"])
threading.Thread.start = start
ask()
stats = captures.flush()
print(stats["written"], stats["open"], stats["waiting"])`;
  expect(await python(code)).toBe('1\n1 0 0');
});

test('calls that end without a pause do not keep their captures from being written', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3, batch_seconds=0.1)
end = time.time() + 3
def work():
    while time.time() < end:
        client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"x" * 20000)["Body"].close()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
time.sleep(2.5)
print(captures.stats()["written"] > 0)
for thread in threads:
    thread.join()
stats = captures.flush()
print(stats["open"], stats["waiting"], stats["dropped"])`;
  expect(await python(code)).toBe('True\n0 0 0');
});

test('a forked child that calls nothing has no thread, and an error of a missing file is told', async () => {
  const code = `
def put_object(**_):
    raise FileNotFoundError("a token")
s3.put_object = put_object
captures = capture_invocations(client, bucket="captures", s3=s3)
child = os.fork()
if child == 0:
    print(threading.active_count(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
ask()
print(captures.flush()["last_error"])`;
  expect(await python(code)).toBe('1\nFileNotFoundError: a token');
});

test('the process may end while its thread makes and spools a batch', async () => {
  const code = `
from botocore.config import Config
down = boto3.client("s3", endpoint_url="http://127.0.0.1:1", config=Config(retries={"total_max_attempts": 1}), **key)
for n in range(40):
    folder = tempfile.mkdtemp()
    runtime = boto3.client("sagemaker-runtime", **key)
    sender = capture_invocations(runtime, bucket="b", s3=down, spool_folder=folder, batch_bytes=20000, batch_seconds=60)
    for _ in range(12):
        call = _call.Call({"EndpointName": "e", "Body": b"x" * 9000}, True, sender)
        sender.begin(call)
        call.end("whole")
    time.sleep(n * 0.0005)
    sender.end_open()
    print(sender.keep_rest())
print("ended")`;
  expect(await python(code)).toBe(`${'0\n'.repeat(40)}ended`);
});

test('a stream that was read in part ends with its last piece, whenever the garbage collector comes', async () => {
  const code = `
import gc
gc.disable()
captures = capture_invocations(client, bucket="captures", s3=s3)
body = client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"]
for event in body:
    break
del body
time.sleep(0.2)
gc.collect()
print(captures.flush()["written"])`;
  expect(await python(code)).toBe('1');
  const [{ ended, endMs, pieces } = {}] = clientsIn(here.s3);
  expect(ended).toBe('left');
  expect(pieces).toEqual([[endMs, expect.any(Number)]]);
});

test('a stream that one thread closes while another reads it was left, and did not break', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3)
body = client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"]
close = body._raw_stream.close
def close_under_a_reader():
    close()
    body._captured.end("broke", "stream", OSError("closed"))
body._raw_stream.close = close_under_a_reader
body.close()
print(captures.flush()["written"])`;
  expect(await python(code)).toBe('1');
  expect(clientsIn(here.s3)[0]).toMatchObject({ ended: 'left' });
});
