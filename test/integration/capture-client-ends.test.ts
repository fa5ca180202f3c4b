/** The ends of processes: by themselves, and by a signal or frozen, with the lines of docs/capture-client.md. Each asks three times. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { captureSurroundings, clientsIn, spooledIn } from '../helpers/capture-surroundings.ts';
import { run } from '../helpers/package.ts';
import { serve } from '../helpers/serve.ts';

const here = captureSurroundings();

/** @returns what the application printed */
async function endOf(name: string, more: Record<string, string> = {}): Promise<string> {
  mkdirSync(packagePath('.local'), { recursive: true });
  // Below the clone, whose packages an application in Node imports.
  const folder = mkdtempSync(packagePath('.local', 'ends-'));
  const place = { AWS_REGION: 'eu-west-1', AWS_DEFAULT_REGION: 'eu-west-1', NODE: process.execPath };
  const keys = { AWS_ACCESS_KEY_ID: 'AKIDTEST', AWS_SECRET_ACCESS_KEY: 'a-secret' };
  const urls = { AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: here.endpoint.url, AWS_ENDPOINT_URL_S3: here.s3.url };
  const env = { ...process.env, ...place, ...keys, ...urls, ...more };
  const script = packagePath('test', 'helpers', 'capture_ends.py');
  const { stdout } = await run((await lockedEnvironment('capture-apps')).python, [script, name, folder], { env });
  rmSync(folder, { recursive: true });
  return stdout;
}

const BY_THEMSELVES = ['python', 'children', 'pool of forks', 'closed pool', 'spawned pool', 'node'];
const BY_THE_PAGE = ['fastapi', 'gunicorn', 'celery', 'lambda in python', 'lambda in node', 'server in node'];

test.each([...BY_THEMSELVES, ...BY_THE_PAGE])('%s: all captures are written', async (name) => {
  const printed = await endOf(name);
  const ends = clientsIn(here.s3).map(({ ended }) => ended);
  expect({ ends, printed }).toMatchObject({ ends: ['whole', 'whole', 'whole'] });
});

test.each(['python', 'node'])(
  '%s, and an S3 that does not answer: what is left is spooled, or one sentence says it is lost',
  async (name) => {
    const hung = await serve(() => {});
    const env = { AWS_ENDPOINT_URL_S3: hung.url };
    const lost = /^3 captures of SageMaker calls are lost: the process ended before S3 took them.*\n$/;
    expect(await endOf(name, env)).toMatch(lost);
    expect(await endOf(name, { ...env, SPOOL: here.folder })).toBe('');
    await hung.close();
    expect(spooledIn(here.folder)).toHaveLength(1);
  },
);

const LOST = '3 captures of SageMaker calls are lost: the process ended before S3 took them\n';
test.each([
  // It leaves no time to write.
  ['node that exits', LOST],
  // OpenTelemetry makes no span of the request, and X-Ray passes over it.
  ['traced node', 'true Sampled=0\nfalse 1\n'],
])('%s prints what is known', async (name, printed) => expect(await endOf(name)).toBe(printed));
