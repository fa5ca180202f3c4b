/**
 * Says which of the sources that this project is checked against have newer versions on the package index. If AWS's have, the
 * checks run with the newest, which says whether they differ in anything that the project uses.
 *
 *     npm run sources        exit code 1 if a check fails with the newest versions
 */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { projectPath } from '../local/project-root.ts';
import { ensurePythonEnvironment, uvEnvironment } from '../local/python/python-environment.ts';
import { AWS_SOURCES, OTHER_CHECKS, SOURCES } from '../local/python/python-presets.ts';
import { describeError } from '../src/core/errors/describe-error.ts';
import { type PriceTable, TABLE_FILE } from './refresh-prices.ts';

/** The tests that hold the project against what AWS publishes: permissions, templates, and the requests of each operation. */
export const CHECKS = [
  'test/infra/calls.test.ts',
  'test/infra/cfn-lint.test.ts',
  'test/integration/aws-requests.test.ts',
  'test/integration/deployed-batch.test.ts',
  'test/integration/deployed-policies.test.ts',
  'test/integration/deployed-replay.test.ts',
  'test/slow/cfn-lint.test.ts',
];

export interface Source {
  name: string;
  pinned: string;
  newest: string;
}

/** Reads the newest version from the output of `pip index versions`. @throws Error if there is none */
export function newestIn(output: string, name: string): string {
  const [, version] = /^\S+ \((\S+)\)$/m.exec(output) ?? [];
  if (version === undefined) {
    throw new Error(
      `The newest version of ${name} is unknown; got: ${output.trim() || 'nothing'}; expected: a line such as ${name} (1.2.3)`,
    );
  }
  return version;
}

/** Whether a version of numbers is newer than another. A suffix such as `.post1` does not count. */
export function isNewer(one: string, other: string): boolean {
  const [a, b] = [one, other].map((text) => text.split('.').map((part) => Number.parseInt(part, 10) || 0));
  const differences = (a ?? []).map((part, index) => part - (b?.[index] ?? 0));
  return (differences.find((difference) => difference !== 0) ?? 0) > 0;
}

/** Formats a line for each source. */
export function sourcesReport(sources: readonly Source[]): string[] {
  const width = Math.max(...sources.map(({ name }) => name.length));
  return sources.map(({ name, pinned, newest }) => {
    const state = isNewer(newest, pinned) ? `${newest} is newer` : 'the newest';
    return `${name.padEnd(width)}  ${pinned.padEnd(8)}  ${state}`;
  });
}

/** Asks the package index that pip is configured for. */
async function newestVersions(): Promise<Source[]> {
  const { python } = await uvEnvironment({ log: console.log });
  const sources: Source[] = [];
  for (const [name, pinned] of Object.entries(SOURCES)) {
    const { stdout } = await promisify(execFile)(python, ['-m', 'pip', 'index', 'versions', name]);
    sources.push({ name, pinned, newest: newestIn(stdout, name) });
  }
  const { source } = JSON.parse(readFileSync(projectPath(TABLE_FILE), 'utf8')) as PriceTable;
  const newest = sources.find(({ name }) => name === 'mlflow')?.newest ?? '';
  return [...sources, { name: 'prices, from MLflow', pinned: source.split(' ').at(-1) ?? '', newest }];
}

/** Runs the checks with other versions of AWS's packages. @returns whether they pass */
async function checkWith(packages: Record<string, string>): Promise<boolean> {
  const { bin } = await ensurePythonEnvironment({ name: 'newest-aws-checks', packages, log: console.log });
  try {
    const jest = projectPath('node_modules', 'jest', 'bin', 'jest.js');
    const { status } = spawnSync(process.execPath, [jest, '--runTestsByPath', ...CHECKS], {
      cwd: projectPath(),
      env: { ...process.env, [OTHER_CHECKS]: bin },
      stdio: 'inherit',
    });
    return status === 0;
  } finally {
    rmSync(dirname(bin), { recursive: true, force: true });
    rmSync(`${dirname(bin)}.lock`, { force: true });
  }
}

async function main(): Promise<void> {
  const sources = await newestVersions();
  for (const line of sourcesReport(sources)) console.log(line);
  const ofAws = sources.filter(({ name }) => AWS_SOURCES[name] !== undefined);
  if (!ofAws.some(({ pinned, newest }) => isNewer(newest, pinned))) return;
  console.log("Running the checks with the newest of AWS's:");
  const pass = await checkWith(Object.fromEntries(ofAws.map(({ name, newest }) => [name, newest])));
  console.log(pass ? 'They say nothing else about this project.' : 'They say otherwise about this project: see above.');
  if (!pass) process.exitCode = 1;
}

if (process.argv[1]?.endsWith('check-sources.ts')) {
  main().catch((error: unknown) => {
    console.error(describeError(error));
    // 1 means that a check fails.
    process.exitCode = 2;
  });
}
