/**
 * Changes the core at random places, two at a time, each in a copy of the last commit, and runs the unit tests that depend on
 * the changed file until one notices. The same seed draws the same changes from the same commit.
 *
 *   npm run mutations -- --seed 1 --count 40 --seconds 60 --results .local/mutations.jsonl [src/replay/gate …]
 */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/values/random.ts';
import { type Import, importsOf } from '../helpers/imports.ts';
import { type Change, changesOf } from './changes.ts';
import { HANGS, OUTCOMES, type Result, runTests, stop, tryChange } from './try-change.ts';

/** All of `src`, but of the replay only what says whether a release is good. */
const CORE = /^src\/(?!replay\/(?!compare\/|gate\/|measure\/)).*\.ts$/;

const text = { type: 'string' } as const;
const { values: options, positionals: paths } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { ...text, default: '1' },
    count: { ...text, default: '40' },
    /** For one change. A busy machine needs more. */
    seconds: { ...text, default: '60' },
    results: { ...text, default: '.local/mutations.jsonl' },
  },
});

const git = (...command: string[]): string => execFileSync('git', command, { encoding: 'utf8' }).trim();

const listed = (root: string, ...only: string[]): string[] => git('-C', root, 'ls-files', ...only).split('\n');

function draw(root: string): Change[] {
  const files = listed(root, ...paths).filter((file) => CORE.test(file));
  const all = files.flatMap((file) => changesOf(file, readFileSync(join(root, file), 'utf8')));
  const random = new Random(Number(options.seed));
  return Array.from({ length: Number(options.count) }, () => all.splice(random.below(all.length), 1)).flat();
}

/** Returns the tests of the file's own room, then the others; of both first those with the fewest imports between. */
function relatedTests(file: string, imports: readonly Import[]): string[] {
  const reached = new Set([file]);
  for (const near of reached) {
    for (const { file: importer } of imports.filter(({ imported }) => imported === near)) reached.add(importer);
  }
  const tests = [...reached].filter((path) => /^test\/unit\/.*\.test\.ts$/.test(path));
  const isOther = (test: string) => Number(!test.startsWith(`test/unit/${file.split('/')[1]}/`));
  return tests.sort((a, b) => isOther(a) - isOther(b));
}

function report({ file, line, what, after }: Change, result: Result): void {
  const entry = { file, line: line + 1, change: what, after: after.trim(), ...result };
  appendFileSync(options.results, `${JSON.stringify(entry)}\n`);
  const by = result.testFile ? `\n  by ${result.testFile}: ${result.test || 'the file as a whole'}` : '';
  console.log(`${result.outcome}  ${file}:${entry.line}  ${what}: ${entry.after}${by}`);
}

async function testChanges(folders: readonly string[], root: string): Promise<void> {
  const imports = importsOf(
    listed(root, '*.ts').map((file) => ({ file, text: readFileSync(join(root, file), 'utf8') })),
  ).filter(({ typesAlone }) => !typesAlone);
  const changes = draw(root).map((change) => ({ change, tests: relatedTests(change.file, imports) }));
  const all = [...new Set(changes.flatMap(({ tests }) => tests))];
  console.log(`${changes.length} changes. First ${all.length} test files without a change`);
  const parts = folders.map((_, part) => all.filter((_test, at) => at % folders.length === part));
  const runs = folders.map((folder, part) => runTests(folder, parts[part] ?? []));
  for (const { state, testFile, test } of await Promise.all(runs)) {
    if (state !== 'passed') throw new Error(`Tests fail without a change; got: ${state}; where: ${testFile}: ${test}`);
  }
  const next = changes.values();
  const outcomes: string[] = [];
  const inFolder = async (folder: string) => {
    for (const { change, tests } of next) {
      const result = await tryChange(folder, change, tests, Number(options.seconds) * 1000);
      outcomes.push(result.outcome);
      report(change, result);
    }
  };
  await Promise.all(folders.map(inFolder));
  const counts = OUTCOMES.map((outcome) => `${outcomes.filter((other) => other === outcome).length} ${outcome}`);
  console.log(`Seed ${options.seed}: ${counts.join(', ')}.
Caught by time: a test file ran until the time was up, and passed ${HANGS} times faster without the change.
Not decided in time: the tests that ran passed. Others did not run.`);
}

mkdirSync(dirname(options.results), { recursive: true });
writeFileSync(options.results, '');
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop.abort());
const folders = [1, 2].map(() => mkdtempSync(join(tmpdir(), 'mutations-')));
const copies = folders.map((folder) => join(folder, 'copy'));
try {
  for (const copy of copies) {
    git('worktree', 'add', '--detach', '--quiet', copy, 'HEAD');
    symlinkSync(resolve('node_modules'), join(copy, 'node_modules'));
  }
  await testChanges(folders, copies[0] ?? '');
} catch (error) {
  if (!stop.signal.aborted) throw error;
  console.log('Stopped');
  process.exitCode = 1;
} finally {
  stop.abort();
  await setImmediate(); // All tests are killed in it.
  for (const copy of copies.filter(existsSync)) git('worktree', 'remove', '--force', copy);
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}
