/** Measures the time from process start to the first record in MLflow, and the size and init time of each bundle. */
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import {
  type BenchStack,
  HANDLERS,
  type Handler,
  PEER_MLFLOW,
  type SideReport,
  startBenchStack,
} from './support/bench-stack.ts';
import { chatFile } from './support/records.ts';
import { atLeast, atMost, type BenchResult, type Check, median, round } from './support/result.ts';

const ROUNDS = 7;
const MAX_BUNDLE_MB = 2;
const MAX_INIT_MS = 250;

export default async function run(log: Log): Promise<BenchResult> {
  const stack = await startBenchStack(log);
  try {
    const ours: number[] = [];
    const peer: number[] = [];
    for (let n = 0; n <= ROUNDS; n += 1) {
      const key = await stack.put(`round-${n}`, chatFile(1, n));
      const own = await stack.ours('log-traces', 'ours', key);
      const other = await stack.python('cold_start.py', [
        'peer',
        join(stack.directory, `round-${n}.jsonl`),
        'bench-captures',
        key,
      ]);
      // The first round warms the disk cache and the server for both sides.
      if (n === 0) continue;
      ours.push(untilWritten(own));
      peer.push(untilWritten(other));
      log(`round ${n}: ours ${ours.at(-1)} s, peer ${peer.at(-1)} s`);
    }
    const { checks, figures } = await bundles(stack);
    const ratio = median(peer) / median(ours);
    return {
      ratio: round(ratio),
      ours: { 'seconds to the first record': median(ours), rounds: ours, ...figures },
      peer: { 'seconds to the first record': median(peer), rounds: peer },
      versions: {
        'MLflow server': DEFAULT_MLFLOW_VERSION,
        'MLflow client of the peer': PEER_MLFLOW,
      },
      checks: [atLeast('ratio of seconds', ratio, 10), ...checks],
      notes: [
        'from process start to the written record, imports included',
        'the peer imports what a single function for logging and judging needs; ours has a function for each',
      ],
    };
  } finally {
    await stack.stop();
  }
}

const untilWritten = ({ importSeconds, seconds }: SideReport): number => round(importSeconds + seconds, 3);

/** Measures each bundle's size and its init as Lambda does it: the module is imported into a running process. */
async function bundles(stack: BenchStack): Promise<{ checks: Check[]; figures: Record<string, number> }> {
  const checks: Check[] = [];
  const figures: Record<string, number> = {};
  for (const handler of HANDLERS) {
    const megabytes = statSync(stack.bundle(handler)).size / 1e6;
    const times: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) times.push(await initMs(stack, handler));
    checks.push(
      atMost(`bundle of ${handler}, MB`, megabytes, MAX_BUNDLE_MB),
      atMost(`init of ${handler}, ms`, median(times), MAX_INIT_MS),
    );
    figures[`${handler} MB`] = round(megabytes);
    figures[`${handler} init ms`] = round(median(times), 0);
  }
  return { checks, figures };
}

async function initMs(stack: BenchStack, handler: Handler): Promise<number> {
  const code = `const t=performance.now();await import(${JSON.stringify(`file://${stack.bundle(handler)}`)});console.log(performance.now()-t);process.exit(0)`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    env: stack.handlerEnvironment('init'),
  });
  return Number(stdout.trim().split('\n').at(-1));
}
