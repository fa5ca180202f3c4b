/**
 * Changes the core at random places, one at a time, and runs the unit tests that depend on the changed file. A change that no test
 * notices has survived. The same seed draws the same changes from the same sources.
 *
 *   npm run mutations -- --seed 1 --count 40 [--root ../another-checkout]
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Random } from '../../src/core/values/random.ts';

/** The core is all of `src` but the replay. */
const CORE = ['src/**/*.ts', ':!src/replay'];
/** A change can cause an endless loop, which counts as noticed after this time. */
const LONGEST_MS = 300_000;

interface Mutation {
  file: string;
  /** From 0. */
  line: number;
  what: string;
  after: string;
}

const OPPOSITES: Record<string, string> = { '<': '>=', '<=': '>', '>': '<=', '>=': '<', '===': '!==', '!==': '===' };

const KINDS: readonly { what: string; place: RegExp; change(found: string): string }[] = [
  { what: 'flip a comparison', place: /(?<= )(?:[<>]=?|[!=]==)(?= )/g, change: (found) => OPPOSITES[found] ?? found },
  { what: 'negate a condition', place: /(?<=\bif \().+(?=\) )/g, change: (found) => `!(${found})` },
  { what: 'drop a statement', place: /(?<=^ +)(?:await )?[\w.#]+(?:\(.*\)| [-+]?= .+);$/g, change: () => ';' },
  {
    what: 'change a number',
    place: /(?<![\w.'-])\d[\d_]*(?![\w.'])/g,
    change: (found) => String(Number(found.replaceAll('_', '')) + 1),
  },
];

/** Comments, imports and types have no behavior. */
const WITHOUT_BEHAVIOR = /^\s*(?:\/[/*]|\*|import |export \*|(?:export )?(?:type|interface) )/;

function mutationsOf(file: string, text: string): Mutation[] {
  const found: Mutation[] = [];
  for (const [line, before] of text.split('\n').entries()) {
    if (WITHOUT_BEHAVIOR.test(before)) continue;
    for (const { what, place, change } of KINDS) {
      for (const { 0: part, index } of before.matchAll(place)) {
        const after = before.slice(0, index) + change(part) + before.slice(index + part.length);
        found.push({ file, line, what, after });
      }
    }
  }
  return found;
}

/** Runs the unit tests that depend on these files. Returns whether they pass in time. */
function testsPass(root: string, files: readonly string[], timeout?: number): boolean {
  // In one process, which a change that loops for ever cannot outlive.
  const options = ['--runInBand', '--bail', '--silent', '--passWithNoTests', '--findRelatedTests'];
  const jest = ['node_modules/jest/bin/jest.js', '--selectProjects', 'unit', ...options];
  const { status } = spawnSync(process.execPath, [...jest, ...files], {
    cwd: root,
    timeout,
    killSignal: 'SIGKILL',
    stdio: timeout === undefined ? 'inherit' : 'ignore',
  });
  return status === 0;
}

/** Makes each change in turn, and undoes it. Returns the changes that no test noticed. */
function survivorsOf(root: string, mutations: readonly Mutation[]): Mutation[] {
  return mutations.filter((mutation) => {
    const { file, line, what, after } = mutation;
    const path = join(root, file);
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.split('\n').with(line, after).join('\n'));
    const survived = testsPass(root, [file], LONGEST_MS);
    writeFileSync(path, text);
    console.log(`${survived ? 'survived' : 'caught  '}  ${file}:${line + 1}  ${what}: ${after.trim()}`);
    return survived;
  });
}

function main(): void {
  const text = { type: 'string' } as const;
  const options = {
    seed: { ...text, default: '1' },
    count: { ...text, default: '40' },
    root: { ...text, default: '.' },
  };
  const { seed, count, root } = parseArgs({ options }).values;
  const sources = resolve(root);
  const files = execFileSync('git', ['ls-files', ...CORE], { cwd: sources, encoding: 'utf8' })
    .trim()
    .split('\n');
  const all = files.flatMap((file) => mutationsOf(file, readFileSync(join(sources, file), 'utf8')));
  const random = new Random(Number(seed));
  const drawn = Array.from({ length: Number(count) }, () => all.splice(random.below(all.length), 1)).flat();
  const copy = join(mkdtempSync(join(tmpdir(), 'mutations-')), 'copy');
  execFileSync('git', ['worktree', 'add', '--detach', '--quiet', copy, 'HEAD'], { cwd: sources });
  try {
    for (const folder of ['node_modules', '.venvs']) symlinkSync(join(sources, folder), join(copy, folder));
    const touched = [...new Set(drawn.map(({ file }) => file))];
    if (!testsPass(copy, touched)) throw new Error('The tests fail without a change');
    const survivors = survivorsOf(copy, drawn);
    console.log(`${drawn.length - survivors.length} of ${drawn.length} changes were caught (seed ${seed})`);
  } finally {
    execFileSync('git', ['worktree', 'remove', '--force', copy], { cwd: sources });
    rmSync(join(copy, '..'), { recursive: true, force: true });
  }
}

main();
