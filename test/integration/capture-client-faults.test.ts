/** What an application or its surroundings can do to the capture clients, and once did. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type InvokeEndpointWithResponseStreamCommandInput as Input,
  InvokeEndpointWithResponseStreamCommand,
  SageMakerRuntimeClient,
} from '@aws-sdk/client-sagemaker-runtime';
import { projectPath } from '../../local/project-root.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { type CaptureOptions, captureInvocations } from '../../src/capture-client/capture-invocations.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { S3Wire } from '../doubles/s3-wire.ts';

let endpoint: StandInEndpoint;
let s3: S3Wire;
let folder: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'capture-client-'));
  endpoint = await startStandInEndpoint({ latencyMs: 1, words: 4, interTokenMs: 5 });
  s3 = await S3Wire.start();
});
afterEach(async () => {
  jest.restoreAllMocks();
  await endpoint.close();
  await s3.stop();
  rmSync(folder, { recursive: true });
});

function start(options: Partial<CaptureOptions> = {}, url = endpoint.url) {
  const place = { region: 'eu-west-1', credentials: { accessKeyId: 'AKIDTEST', secretAccessKey: 'a-secret' } };
  const client = new SageMakerRuntimeClient({ ...place, endpoint: url });
  const wire = { ...place, endpoint: s3.url, forcePathStyle: true };
  const captures = captureInvocations(client, { bucket: 'captures', batchMs: 60_000, s3: wire, ...options });
  const ask = async (more: Partial<Input> = {}, abortSignal?: AbortSignal) => {
    const input = { EndpointName: 'e', Body: Buffer.from('{"inputs":"a"}'), ContentType: 'application/json', ...more };
    const { Body } = await client.send(new InvokeEndpointWithResponseStreamCommand(input), { abortSignal });
    return Body ?? [];
  };
  return { captures, ask, client };
}
const clients = () =>
  s3
    .keys('captures')
    .flatMap((key) => s3.lines<{ client: Record<string, unknown> }>('captures', key).map((l) => l.client));
async function readAll(stream: AsyncIterable<unknown> | unknown[]): Promise<void> {
  for await (const _ of stream);
}

const REFUSED = { kind: 'error', status: 403, code: 'AccessDenied' } as const;
/** A role that may write where captures go now, and no more where they went. */
const refusesFormer = ({ key }: { key: string }) => (key.startsWith('former/') ? REFUSED : undefined);

/** An endpoint that names its error in a way of its own. */
async function startOddServer() {
  const server = createServer((_, response) => response.writeHead(400, { 'x-amzn-errortype': 'Odd Type!' }).end('{}'));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
/** As the reader of the line takes it. */
const ODD = { ended: 'failed', error: { kind: 'refused', class: 'Odd_Type_' } };

test('node: a stream that the application aborts was left, and is no error of the endpoint; one that the server cuts is', async () => {
  const { captures, ask } = start();
  const stop = new AbortController();
  const read = async () => {
    for await (const _ of await ask({}, stop.signal)) stop.abort();
  };
  await expect(read()).rejects.toThrow('aborted');
  const cut = async () => {
    for await (const _ of await ask()) await endpoint.close();
  };
  await expect(cut()).rejects.toThrow('aborted');
  await captures.flush();
  expect(clients()[0]).toMatchObject({ ended: 'left', status: 200 });
  expect(clients()[0]).not.toHaveProperty('error');
  expect(clients()[1]).toMatchObject({ ended: 'broke', error: { kind: 'stream', class: 'ECONNRESET' } });
});

test('node: a call that cannot be written costs its own capture alone', async () => {
  const { captures, ask } = start();
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  await readAll(await ask({ InferenceId: 5n as unknown as string }));
  await readAll(await ask());
  expect(await captures.flush()).toMatchObject({ open: 0, waiting: 0, written: 1, dropped: 1 });
});

test('node: times without an end are no times of a millisecond', async () => {
  const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { captures, ask } = start({ batchMs: Number.POSITIVE_INFINITY });
  await readAll(await ask());
  expect(await captures.flush(Number.POSITIVE_INFINITY)).toMatchObject({ written: 1 });
  expect(warned).not.toHaveBeenCalled();
});

test('node: a bucket that refuses writes nothing to the application’s console but one warning', async () => {
  s3.fault = () => ({ kind: 'error', status: 403, code: 'AccessDenied' });
  const warned = jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const printed = jest.spyOn(console, 'warn').mockImplementation(() => {});
  const { captures, ask } = start();
  await readAll(await ask());
  await captures.flush();
  expect(await captures.flush()).toMatchObject({ waiting: 1 });
  expect(warned).toHaveBeenCalledTimes(1);
  expect(printed).not.toHaveBeenCalled();
});

test('node: an error with a name of any form has a class that the reader takes', async () => {
  const { server, url } = await startOddServer();
  const { captures, ask } = start({}, url);
  await expect(ask()).rejects.toThrow();
  await captures.flush();
  server.close();
  expect(clients()[0]).toMatchObject(ODD);
});

test('node: a reply that another middleware has frozen is dropped once, and is not open', async () => {
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const { captures, ask, client } = start();
  const freeze = (next: (args: never) => Promise<object>) => async (args: never) => {
    const result = (await next(args)) as { output: { Body: object } };
    Object.freeze(result.output.Body);
    return result;
  };
  client.middlewareStack.add(freeze as never, { step: 'deserialize', priority: 'high' });
  await readAll(await ask());
  expect(await captures.flush()).toMatchObject({ open: 0, waiting: 0, written: 0, dropped: 1 });
});

test('node: a request that names no endpoint is no call', async () => {
  const { captures, ask } = start();
  await expect(ask({ EndpointName: undefined })).rejects.toThrow('EndpointName');
  expect(await captures.flush()).toMatchObject({ written: 0, dropped: 0 });
});

test('node: a spooled batch that is refused holds nothing back', async () => {
  s3.fault = () => REFUSED;
  jest.spyOn(process, 'emitWarning').mockImplementation(() => {});
  const [former, present] = ['former', 'p'].map((prefix) => start({ prefix, spoolFolder: folder }));
  for (const each of [former, present]) {
    await readAll((await each?.ask()) ?? []);
    await each?.captures.flush();
  }
  s3.fault = refusesFormer;
  for (const _ of [1, 2]) await present?.captures.flush();
  expect(s3.keys('captures')).toEqual([expect.stringMatching(/^p\//)]);
  expect(readdirSync(folder)).toHaveLength(1);
});

async function python(code: string): Promise<string> {
  const script = `
import atexit, os, sys, tempfile, threading, time
sys.path.insert(0, ${JSON.stringify(projectPath('clients', 'python'))})
import boto3
from sagemaker_inference_monitor_capture import capture_invocations, _call
key = {"region_name": "eu-west-1", "aws_access_key_id": "AKIDTEST", "aws_secret_access_key": "a-secret"}
client = boto3.client("sagemaker-runtime", endpoint_url="${endpoint.url}", **key)
s3 = boto3.client("s3", endpoint_url="${s3.url}", **key)
def ask():
    return list(client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"])
${code}`;
  const { stdout } = await promisify(execFile)((await defaultPythonEnvironment()).python, ['-c', script]);
  return stdout.trim();
}

test('python: times without an end end neither the thread nor a flush', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3, batch_seconds=float("inf"))
ask()
print(captures.flush(float("inf"))["written"])`;
  expect(await python(code)).toBe('1');
});

test('python: a forked child writes by connections of its own, also with a client that the application gave', async () => {
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

test('python: many clients share one model of S3, which is 10 MB', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures")
print(captures._s3._loader is client._loader)`;
  expect(await python(code)).toBe('True');
});

test('python: without another thread the application goes on, and its captures wait', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3)
start = threading.Thread.start
def refuse(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
ask()
print(captures.flush()["waiting"])
threading.Thread.start = start
print(captures.flush()["written"])`;
  expect(await python(code)).toBe('1\n1');
});

test('python: the process may end while its thread makes and spools a batch', async () => {
  const code = `
class Down:
    def put_object(self, **_):
        raise OSError("down")
for n in range(40):
    folder = tempfile.mkdtemp()
    runtime = boto3.client("sagemaker-runtime", **key)
    sender = capture_invocations(runtime, bucket="b", s3=Down(), spool_folder=folder, batch_bytes=20000, batch_seconds=60)
    atexit.unregister(sender._finish)
    for _ in range(12):
        call = _call.Call({"EndpointName": "e", "Body": b"x" * 9000}, True, sender)
        sender.begin(call)
        call.end("whole")
    time.sleep(n * 0.0005)
    sender._finish()
print("ended")`;
  expect(await python(code)).toBe('ended');
});

test('python: an error with a name of any form has a class that the reader takes', async () => {
  const { server, url } = await startOddServer();
  const code = `
client = boto3.client("sagemaker-runtime", endpoint_url="${url}", **key)
captures = capture_invocations(client, bucket="captures", s3=s3)
try:
    ask()
except client.exceptions.ClientError:
    print(captures.flush()["written"])`;
  expect(await python(code)).toBe('1');
  server.close();
  expect(clients()[0]).toMatchObject(ODD);
});

test('python: a spooled batch that is refused holds nothing back', async () => {
  s3.fault = () => REFUSED;
  const spooling = (prefix: string) => `
client = boto3.client("sagemaker-runtime", endpoint_url="${endpoint.url}", **key)
captures = capture_invocations(client, bucket="captures", prefix="${prefix}", s3=s3, spool_folder="${folder}")`;
  for (const prefix of ['former', 'p']) await python(`${spooling(prefix)}\nask()\ncaptures.flush()`);
  s3.fault = refusesFormer;
  await python(`${spooling('p')}\ncaptures.flush()\ncaptures.flush()`);
  expect(s3.keys('captures')).toEqual([expect.stringMatching(/^p\//)]);
  expect(readdirSync(folder)).toHaveLength(1);
});

test('python: a stream that was read in part ends with its last piece, whenever the garbage collector comes', async () => {
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
  const [{ ended, endMs, firstContentMs } = {}] = clients();
  expect(ended).toBe('left');
  expect(endMs).toBe(firstContentMs);
});

test('python: a stream that one thread closes while another reads it was left, and did not break', async () => {
  const code = `
captures = capture_invocations(client, bucket="captures", s3=s3)
body = client.invoke_endpoint_with_response_stream(EndpointName="e", Body=b"{}")["Body"]
close = body._raw_stream.close
def close_under_a_reader():
    close()
    body._captured.broke(OSError("closed"))
body._raw_stream.close = close_under_a_reader
body.close()
print(captures.flush()["written"])`;
  expect(await python(code)).toBe('1');
  expect(clients()[0]).toMatchObject({ ended: 'left' });
});
