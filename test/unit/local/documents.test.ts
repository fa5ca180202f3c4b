/** The commands and options in the documents exist, and each block of the README is run by a test. */
import { existsSync, readFileSync } from 'node:fs';
import { COMMANDS } from '../../../bin/cli/commands.ts';
import { projectPath } from '../../../local/project-root.ts';
import { type Call, callsIn, documents, shellBlocks } from '../../helpers/document-commands.ts';

const GLOBAL = ['--help', '--version', '--debug', '--no-color'];
/** Its options are those of `cdk deploy`. */
const PASSES_ON = ['deploy'];

const blocks = documents().flatMap(shellBlocks);

test('every command and option of the documents exists', async () => {
  const calls: (Call & { file: string })[] = blocks.flatMap(({ file, lines }) =>
    lines.flatMap((line) => callsIn(line).map((call) => ({ ...call, file }))),
  );
  expect(calls.length).toBeGreaterThan(40);
  const wrong: string[] = [];
  for (const { file, command, options } of calls) {
    const load = COMMANDS[command];
    if (load === undefined) wrong.push(`${file}: ${command}`);
    if (load === undefined || PASSES_ON.includes(command)) continue;
    const known = [...GLOBAL, ...(await load()).options.flatMap(({ long }) => long ?? [])];
    wrong.push(...options.filter((one) => !known.includes(one)).map((one) => `${file}: ${command} ${one}`));
  }
  expect(wrong).toEqual([]);
});

test('every npm script of the documents exists', () => {
  const { scripts } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as { scripts: object };
  const named = blocks.flatMap(({ lines }) =>
    lines.flatMap((line) => [...line.matchAll(/npm run (?:-s )?([\w:-]+)/g)]),
  );
  const names = named.map(([, name = '']) => name);
  expect(names.length).toBeGreaterThan(10);
  expect(names.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
});

/** What runs the lines of the README that `test/slow/readme.test.ts` does not run: they install, deploy, or are tests themselves. */
const RUN_BY: Record<string, string> = {
  'npm ci': 'package.json',
  'inference-monitor init': 'test/integration/init.test.ts',
  'npx cdk bootstrap': 'local/stack/deploy.ts',
  'inference-monitor doctor': 'test/integration/bin/doctor.ts',
  'inference-monitor deploy': 'test/slow/package-deploy.test.ts',
  'npm run smoke': 'test/integration/deployed-start.test.ts',
  'npm run canary': 'test/slow/canary.test.ts',
};

test('every block of the README says how it is tested, and what runs it exists', () => {
  const readme = shellBlocks('README.md');
  expect(readme.filter(({ test }) => test === 'local').length).toBeGreaterThan(3);
  for (const { test, lines } of readme) {
    expect([test, lines[0]]).toEqual([expect.stringMatching(/^(start|local|account|develop)$/), lines[0]]);
    if (test === 'account') expect(lines.filter((line) => !Object.hasOwn(RUN_BY, line))).toEqual([]);
  }
  for (const file of Object.values(RUN_BY)) expect([file, existsSync(projectPath(file))]).toEqual([file, true]);
  expect(readFileSync(projectPath('README.md'), 'utf8').split('\n').length).toBeLessThanOrEqual(201);
});
