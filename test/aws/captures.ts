/** The captures of a canary: the examples of this project, or the newest of an endpoint. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { CHUNK_BOUNDS } from '../../src/monitoring/chunk/chunk-bounds.ts';
import type { Canary } from './canary.ts';

/** Judged one by one, for about 35 cents with the default judge. */
export const JUDGED = 20;
/** Bedrock's minimum for a batch job is 100 requests, and errors and the like are not sent to the judge. */
export const BATCHED = 120;

const EXAMPLES = ['examples', 'replay', 'garden-helpdesk', 'AllTraffic', '2026', '11', '20', '10'];
const FIRST_MS = Date.parse('2026-11-20T10:00:00Z');
const HOUR_MS = 3_600_000;
/** Hours of an endpoint's captures that are searched, newest first. */
const SEARCHED_HOURS = 24;

/** Returns the lines of the examples, chat calls. */
export function exampleLines(count: number): string[] {
  const folder = packagePath(...EXAMPLES);
  const lines = readdirSync(folder).flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'));
  return repeated(lines.filter(Boolean), count);
}

/** If there are too few, each further round gets ids of its own, so that no two lines are the same. */
function repeated(lines: readonly string[], count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const line = lines[index % lines.length] ?? '';
    const round = Math.floor(index / lines.length);
    return round === 0 ? line : (renamed([line], `${round}`)[0] ?? '');
  });
}

/** Returns rows of a table, which the judge is not asked about: one more than a chunk has, so that their run has a Map. */
export function captureTableLines(): string[] {
  const side = (mode: string, data: string) => ({ observedContentType: 'text/csv', mode, data, encoding: 'CSV' });
  const row = (index: number) => ({
    captureData: { endpointInput: side('INPUT', `${index},1`), endpointOutput: side('OUTPUT', '0.5') },
    eventMetadata: { eventId: `row-${index}`, inferenceTime: new Date(FIRST_MS).toISOString() },
    eventVersion: '0',
  });
  return Array.from({ length: CHUNK_BOUNDS.maxLines + 1 }, (_, index) => JSON.stringify(row(index)));
}

/** Returns the captures with other ids, which makes them other traces. */
export const renamed = (lines: readonly string[], prefix: string): string[] =>
  lines.map((line) => line.replaceAll('"eventId":"', `"eventId":"${prefix}-`));

/** Returns the captures with a number in their first message: identical requests of a run are asked of the judge only once. */
export const withOwnQuestions = (lines: readonly string[]): string[] =>
  lines.map((line, index) => line.replace(/\\"content\\": ?\\"/, (start) => `${start}(${index + 1}) `));

export async function canaryLines(canary: Canary, count: number): Promise<string[]> {
  const { endpoint } = canary.state;
  return endpoint ? endpointLines(canary, endpoint, count) : exampleLines(count);
}

/** Yields the lines that SageMaker has captured of an endpoint in the last hours, the newest hour first. */
export async function* newestLines(canary: Canary, endpoint: string): AsyncGenerator<string> {
  type Reply = { DataCaptureConfig?: { DestinationS3Uri?: string } };
  const input = { EndpointName: endpoint };
  const { lambda } = canary.clients;
  const { DataCaptureConfig } = await callAws<Reply>(lambda, 'api.sagemaker', 'DescribeEndpoint', input);
  const place = URL.parse(DataCaptureConfig?.DestinationS3Uri ?? '');
  for (let hours = 0; place && hours < SEARCHED_HOURS; hours += 1) {
    const hour = new Date(Date.now() - hours * HOUR_MS).toISOString().slice(0, 13).replace(/[-T]/g, '/');
    const folder = `${[...place.pathname.split('/'), endpoint].filter(Boolean).join('/')}/`;
    for await (const { key } of canary.storage.list(place.host, folder)) {
      if (!key.includes(`/${hour}/`)) continue;
      const object = await canary.clients.s3.send(new GetObjectCommand({ Bucket: place.host, Key: key }));
      yield* ((await object.Body?.transformToString()) ?? '').split('\n').filter(Boolean);
    }
  }
}

/** @throws Error if SageMaker captures nothing of the endpoint */
async function endpointLines(canary: Canary, endpoint: string, count: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of newestLines(canary, endpoint)) if (lines.push(line) >= count) break;
  // Their own times may be hours apart. A replay of the copies takes a second for each.
  const atSecond = (second: number) => new Date(FIRST_MS + second * 1000).toISOString().replace('.000', '');
  if (lines.length > 0) {
    return repeated(lines, count).map((line, index) =>
      line.replace(/"inferenceTime":"[^"]*"/, `"inferenceTime":"${atSecond(index)}"`),
    );
  }
  throw new Error(
    `The endpoint has no captures; got: none of the last ${SEARCHED_HOURS} hours; expected: an endpoint with Data Capture switched on and called today`,
  );
}
