/** Asks for the state of an endpoint, or makes its page, in a process of its own. Prints an `AskReport` as the last line. */
import { setFlagsFromString } from 'node:v8';
import { SFNClient } from '@aws-sdk/client-sfn';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { healthOf } from '../../src/health/findings.ts';
import { readFacts } from '../../src/health/gather.ts';
import { makePage } from '../../src/health/make-page.ts';
import { scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import { type CountedCell, cellsOf, readWindow } from '../../src/quality/counts-store.ts';
import { groupRates } from '../../src/quality/rates.ts';
import { testEnvironment } from '../../test/helpers/test-environment.ts';
import { peakBytes } from '../support/peak-memory.js';

export interface AskReport {
  seconds: number;
  captures: number;
  peakMb: number;
  /** 0: no page was made. */
  pageBytes: number;
}

// As bin/inference-monitor.ts does.
setFlagsFromString('--semi-space-growth-factor=1');
const [bucket = '', what, from, to] = process.argv.slice(2);
const [fromMs, toMs] = [Number(from), Number(to)];
const query = { window: { fromMs, toMs }, nowMs: toMs };
const stack = {
  storage: new Storage(createS3Client()),
  sfn: new SFNClient({}),
  stateMachineArn: 'arn:aws:states:us-east-1:000000000000:stateMachine:none',
  environment: testEnvironment({ WORK_BUCKET: bucket }),
};
const beganAt = performance.now();
const facts = what === 'status' ? await readFacts(stack, query) : undefined;
const health = facts && healthOf(facts);
const page = what === 'page' ? await makePage(stack, query) : undefined;
const rates = what === 'rates' ? await ratesOf() : [];

/** Reads the counts of the window, and computes the rates by day. */
async function ratesOf(): Promise<CountedCell[]> {
  const cells = cellsOf(await readWindow({ storage: stack.storage, workBucket: bucket }, query.window));
  groupRates(cells, { window: query.window, by: 'day', active: scorersFor() });
  return cells;
}

const report: AskReport = {
  seconds: (performance.now() - beganAt) / 1000,
  captures: (facts?.cells ?? rates).reduce((sum, { cell }) => sum + (cell.captures ?? 0), 0),
  peakMb: peakBytes() / 1e6,
  pageBytes: Buffer.byteLength(page?.html ?? ''),
};
if (what !== 'rates' && (health ?? page?.health)?.state === undefined) throw new Error('no state');
console.log(JSON.stringify(report));
process.exit(0);
