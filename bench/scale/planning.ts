/**
 * Measures the processor time of planning a small file. In the emulator, reading a file is the emulator's work, not the
 * planner's; and a plan of a few files says nothing about one of thousands.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ListedFile } from '../../src/core/contract/input.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { fileFinder } from '../../src/monitoring/plan/find-files.ts';
import type { PlannerDependencies } from '../../src/monitoring/plan/types.ts';
import { type PlannedUnit, unitsOfFiles, unitsOfObjects } from '../../src/monitoring/plan/units.ts';
import { testEnvironment } from '../../test/helpers/test-environment.ts';

const FILES = 1500;
const ROUNDS = 3;
const CAPTURES = 'captures';

/** Seconds of a whole processor for a file of a backfill, and for one of a list, which is also found and claimed. */
export interface PlanningSeconds {
  backfill: number;
  list: number;
}

export async function measurePlanning(): Promise<PlanningSeconds> {
  const server = fork(packagePath('bench', 'scale', 's3-of-one-file.ts'), {
    execArgv: ['--import', packagePath('bin', 'ready.js')],
  });
  const [port] = (await once(server, 'message')) as [number];
  const before = { ...process.env };
  const keys = { AWS_ACCESS_KEY_ID: 'none', AWS_SECRET_ACCESS_KEY: 'none', AWS_REGION: 'us-east-1' };
  Object.assign(process.env, keys, { AWS_ENDPOINT_URL: `http://127.0.0.1:${port}` });
  try {
    const storage = new Storage(createS3Client());
    return { backfill: await least(() => backfill(storage)), list: await least(() => list(storage)) };
  } finally {
    process.env = before;
    server.kill();
  }
}

/** The first rounds also compile. */
async function least(units: () => Promise<AsyncIterable<PlannedUnit>>): Promise<number> {
  const seconds: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const planned = await units();
    const before = process.cpuUsage();
    let lines = 0;
    for await (const { ranges } of planned) lines += ranges[0]?.lines ?? 0;
    const { user, system } = process.cpuUsage(before);
    if (lines !== FILES) throw new Error(`Not every file was planned; got: ${lines}; expected: ${FILES}`);
    seconds.push((user + system) / 1e6 / FILES);
  }
  return Math.min(...seconds);
}

const limits = { deadlineMs: () => 900_000 };
const place = (n: number): ListedFile => ({ bucket: CAPTURES, key: `e/AllTraffic/2026/11/20/10/${n}.jsonl` });

async function backfill(storage: Storage): Promise<AsyncIterable<PlannedUnit>> {
  const object = await storage.head(CAPTURES, place(0).key);
  if (object === undefined) throw new Error('There is no file to plan');
  return unitsOfObjects(
    storage,
    Array.from({ length: FILES }, (_, n) => ({ ...object, ...place(n) })),
    limits,
  );
}

async function list(storage: Storage): Promise<AsyncIterable<PlannedUnit>> {
  const environment = testEnvironment({ DATA_CAPTURE_S3_BUCKET: CAPTURES, DATA_CAPTURE_S3_PREFIX: 'e/' });
  const deps = { storage, environment, isRunning: async () => false } as unknown as PlannerDependencies;
  const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' } as const;
  const find = fileFinder(deps, { name: 'r', arn: 'arn:r', startTime: '' }, options, true, []);
  const files = Array.from({ length: FILES }, (_, n) => place(n));
  return unitsOfFiles(storage, files, 0, limits, find);
}
