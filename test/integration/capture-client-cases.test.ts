/** What applications in Python do with the capture client, by `capture_cases.py`. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { captureSurroundings, clientsIn } from '../helpers/capture-surroundings.ts';

const here = captureSurroundings();

/** Returns the lines that a case prints. */
async function printedBy(name: string, ...more: string[]): Promise<string[]> {
  const script = packagePath('test', 'helpers', 'capture_cases.py');
  const { python } = await lockedEnvironment('capture-apps');
  const { stdout, stderr } = await promisify(execFile)(python, [script, name, here.endpoint.url, here.s3.url, ...more]);
  return (stderr + stdout).trim().split('\n');
}

test('another object than a client of the runtime is refused by its type, and than one of boto3 for S3', async () => {
  const [client, s3] = ['client', 's3'].map((name) => `capture_invocations: ${name}`);
  expect(await printedBy('refused')).toEqual([...Array(5).fill(client), ...Array(3).fill(s3)]);
});

test('credentials of aiobotocore that renew themselves are asked for in the loop of the call, and serve after it', async () => {
  expect(await printedBy('renewed')).toEqual(['1', '2 None True True']);
  const signed = here.s3.requests.map(({ headers }) => /Credential=(AKID\d+)/.exec(headers.authorization ?? '')?.[1]);
  expect(signed).toEqual([expect.stringMatching(/AKID/), expect.stringMatching(/AKID/)]);
});

test('a task that is cancelled in a stream of aiobotocore has left it', async () => {
  expect(await printedBy('cancelled')).toEqual(['1']);
  expect(clientsIn(here.s3)[0]).toMatchObject({ ended: 'left', pieceCount: 1 });
});

test('capture_all captures the clients of both SDKs that are made later, and tells of those that were made earlier', async () => {
  const earlier = "capture_all: 1 clients of SageMaker's runtime were made earlier, and are not captured";
  expect(await printedBy('everything')).toEqual([earlier, 'True', 'True', '4 1']);
});

test.each(['before', 'after'])('tracers set up %s neither see nor break what is sent', async (when) => {
  const printed = await printedBy('traced', when);
  const names = ['SageMaker Runtime.InvokeEndpointWithResponseStream', 'S3.PutObject'];
  const spans = `['${names[0]}', '${names.join("', '")}']`;
  const segments = "[['runtime.sagemaker', 'runtime.sagemaker', 's3']]";
  // Of S3, the application's own call alone.
  const [{ traceparent } = {}] = clientsIn(here.s3);
  expect(printed).toEqual(['[1, 1]', '[None, None]', `${segments} ${spans} [True, False]`, traceparent]);
});
