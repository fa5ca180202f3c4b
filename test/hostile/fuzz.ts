/**
 * Searches for harmful captures, judge’s answers and servers’ replies:
 *
 *     npm run fuzz -- --minutes 30 [--seed 1]
 *     npm run fuzz -- --cases 200 --seed 1
 *
 * Each case runs in a child process with limits on its heap, its CPU time and its memory. A finding is shrunk and printed. A
 * capture line is printed in the form of `test/hostile/found.jsonl`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { parseArgs } from 'node:util';
import fc from 'fast-check';
import { corpusFiles, linesOf } from '../helpers/corpus.ts';
import { judgeAnswers, linesFrom, serverReplies } from './arbitraries.ts';
import type { Case } from './cases.ts';
import type { CaseResult } from './fuzz-worker.ts';
import { goodLine, hostileLines } from './lines.ts';

const HEAP_MB = 384;
/** A case has two good lines and a bad one. The limit is far above any ordinary case, and far below a function’s time. */
const MAX_CPU_MS = 20_000;
const MAX_WAIT_MS = 120_000;
const MAX_PEAK_MB = 700;
/** A process is replaced after this many cases, so that its memory peak belongs to few of them. */
const CASES_A_PROCESS = 200;

class Worker {
  #child: ChildProcess | undefined;
  #cases = 0;

  async run(one: Case): Promise<void> {
    if (this.#cases >= CASES_A_PROCESS) this.stop();
    this.#child ??= fork(new URL('fuzz-worker.ts', import.meta.url), {
      execArgv: [`--max-old-space-size=${HEAP_MB}`],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    this.#cases += 1;
    const child = this.#child;
    let stderr = '';
    const onStderr = (text: Buffer) => {
      stderr = `${stderr}${text}`.slice(-2000);
    };
    child.stderr?.on('data', onStderr);
    const result = await new Promise<CaseResult | string>((resolve) => {
      const timer = setTimeout(() => {
        child.kill('SIGKILL');
        resolve(`it did not end within ${MAX_WAIT_MS / 1000} s`);
      }, MAX_WAIT_MS);
      const end = (outcome: CaseResult | string) => {
        clearTimeout(timer);
        child.removeAllListeners('message').removeAllListeners('exit');
        resolve(outcome);
      };
      child.once('message', (message) => end(message as CaseResult));
      child.once('exit', (code, signal) => end(`it ended the process (${signal ?? code}): ${stderr}`));
      child.send(one);
    });
    child.stderr?.off('data', onStderr);
    if (typeof result === 'string') {
      this.stop();
      throw new Error(result);
    }
    if (result.error !== undefined) throw new Error(result.error);
    const isOver = result.cpuMs > MAX_CPU_MS || result.peakMb > MAX_PEAK_MB;
    if (isOver) {
      const isAlone = this.#cases === 1;
      this.stop();
      // The memory of the process includes that of earlier cases.
      if (!isAlone) return this.run(one);
      throw new Error(`it took ${Math.round(result.cpuMs)} ms of CPU time, and ${Math.round(result.peakMb)} MB`);
    }
  }

  stop(): void {
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
    this.#cases = 0;
  }
}

/** Returns the corpus of formats, the short hostile lines, and an ordinary line. */
async function seeds(): Promise<string[]> {
  const lines = (await Promise.all(corpusFiles().map(linesOf))).flat().map(({ bytes }) => bytes.toString());
  const hostile = hostileLines()
    .map(({ line }) => line.toString())
    .filter((line) => line.length < 2000);
  return [...lines, ...hostile, goodLine(7).toString()];
}

const versions = fc.constantFrom('3.17.2' as const, '3.10.1' as const);

export function cases(corpus: readonly string[]): fc.Arbitrary<Case> {
  const line = linesFrom(corpus);
  return fc.oneof(
    { weight: 12, arbitrary: fc.record({ kind: fc.constant('capture' as const), line, version: versions }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('replay' as const), line }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('answer' as const), answer: judgeAnswers }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant('mlflow' as const), reply: serverReplies, version: versions }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('s3' as const), reply: serverReplies }) },
  );
}

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    cases: { type: 'string', default: '1000000' },
    seed: { type: 'string' },
    help: { type: 'boolean' },
  },
});
const minutes = Number(values.minutes);
const most = Number(values.cases);
if (values.help || !(minutes > 0) || !(most > 0)) {
  console.log(
    [
      'npm run fuzz -- [--minutes N] [--cases N] [--seed N]',
      '',
      '  --minutes  how long to search; default 60',
      '  --cases    how many cases to run; default no limit',
      '  --seed     seed of the first round; default random',
    ].join('\n'),
  );
  process.exit(values.help ? 0 : 2);
}

const corpus = await seeds();
const worker = new Worker();
const end = Date.now() + minutes * 60_000;
let seed = values.seed === undefined ? Date.now() % 1e6 : Number(values.seed);
const counts: Record<string, number> = {};
const failures = new Map<string, string>();
console.log(`fuzzing for ${minutes} min from ${corpus.length} lines, seed ${seed}`);
const all = (): number => Object.values(counts).reduce((sum, count) => sum + count, 0);
for (; Date.now() < end && all() < most; seed += 1) {
  const result = await fc.check(
    fc.asyncProperty(cases(corpus), async (one) => {
      counts[one.kind] = (counts[one.kind] ?? 0) + 1;
      await worker.run(one);
    }),
    {
      seed,
      numRuns: most - all(),
      interruptAfterTimeLimit: end - Date.now(),
      markInterruptAsFailure: false,
      endOnFailure: false,
    },
  );
  if (!result.failed || result.counterexample === null) continue;
  const [one] = result.counterexample;
  const reason = result.errorInstance instanceof Error ? result.errorInstance.message : String(result.errorInstance);
  // The same fault occurs many times, and is reported once.
  const name = reason.split('\n').slice(0, 2).join(' ').replaceAll(/\d+/g, 'N');
  if (failures.has(name)) continue;
  failures.set(name, reason);
  console.log(
    `\nfound (${one.kind}, seed ${seed}, ${Date.now() < end ? 'shrunk' : 'out of time'}):\n${reason}\n${'line' in one ? one.line : JSON.stringify(one)}`,
  );
}
worker.stop();
console.log(
  `\n${all()} cases (${Object.entries(counts)
    .map(([kind, count]) => `${kind} ${count}`)
    .join(', ')}), ${failures.size} faults found`,
);
process.exit(failures.size === 0 ? 0 : 1);
