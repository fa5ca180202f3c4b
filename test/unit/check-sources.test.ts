/** The parts of `npm run sources` that need no network. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { projectPath } from '../../local/project-root.ts';
import { AWS_SOURCES, LOCKED_ENVIRONMENTS, SOURCES } from '../../local/python/python-presets.ts';
import { CHECKS, isNewer, newestIn, sourcesReport } from '../../tools/check-sources.ts';

it('reads the newest version from what pip prints', () => {
  const output = 'cfn-lint (1.60.0)\nAvailable versions: 1.60.0, 1.58.0\n  INSTALLED: 1.58.0\n  LATEST:    1.60.0\n';
  expect(newestIn(output, 'cfn-lint')).toBe('1.60.0');
  expect(() => newestIn('', 'cfn-lint')).toThrow('The newest version of cfn-lint is unknown; got: nothing; expected:');
});

it.each([
  ['1.58.1', '1.58.0', true],
  ['1.100.0', '1.58.9', true],
  ['2.0', '1.58.0', true],
  ['1.58.0.1', '1.58.0', true],
  ['1.58.0', '1.58.0', false],
  ['1.58', '1.58.0', false],
  ['1.57.9', '1.58.0', false],
])('compares versions: is %s newer than %s? %s', (one, other, newer) => {
  expect(isNewer(one, other)).toBe(newer);
});

it('reports each source on a line', () => {
  const sources = [
    { name: 'mlflow', pinned: '3.17.2', newest: '3.17.2' },
    { name: 'policy-sentry', pinned: '0.15.2', newest: '0.16.0' },
  ];
  expect(sourcesReport(sources)).toEqual([
    'mlflow         3.17.2    the newest',
    'policy-sentry  0.15.2    0.16.0 is newer',
  ]);
});

it('knows every package that is pinned', () => {
  const pinned = LOCKED_ENVIRONMENTS.flatMap(({ packages }) => Object.keys(packages));
  expect(Object.keys(SOURCES).toSorted()).toEqual([...new Set(pinned)].toSorted());
  expect(Object.keys(AWS_SOURCES)).toEqual(['cfn-lint', 'botocore', 'policy-sentry']);
});

it('runs every test of the templates that reads what AWS publishes', () => {
  const reads = /awsChecksEnvironment|iam-reference|helpers\/cfn-lint/;
  const found = ['infra', 'slow'].flatMap((level) =>
    readdirSync(projectPath('test', level))
      .filter((name) => name.endsWith('.test.ts') && reads.test(readFileSync(projectPath('test', level, name), 'utf8')))
      .map((name) => `test/${level}/${name}`),
  );
  expect(CHECKS.filter((file) => !file.startsWith('test/integration/'))).toEqual(found);
  expect(CHECKS.filter((file) => !existsSync(projectPath(file)))).toEqual([]);
});
