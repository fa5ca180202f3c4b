/** The examples for CI: their commands are real, and all three outcomes of the gate are handled. */
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import compareCommand from '../../../../bin/commands/compare.ts';
import replayCommand from '../../../../bin/commands/replay.ts';
import { parseGateFile, readGateFile } from '../../../../src/replay/gate/gate-file.ts';
import { GATE_EXIT_CODES } from '../../../../src/replay/gate/types.ts';

const ROOT = `${__dirname}/../../../..`;
const example = (name: string) => parse(readFileSync(`${ROOT}/examples/ci/${name}`, 'utf8'));

interface Step {
  id?: string;
  run?: string;
  uses?: string;
  with?: Record<string, string>;
  env?: Record<string, string>;
}

const github = example('github-actions.yml');
const gitlab = example('gitlab-ci.yml');
const steps: Step[] = github.jobs.gate.steps;
const scripts: Record<string, string> = {
  'github-actions.yml': steps.map(({ run = '' }) => run).join('\n'),
  'gitlab-ci.yml': gitlab.gate.script.join('\n'),
};

/** The words of each call of the command line, as a shell splits them. */
const callsIn = (script: string): string[][] =>
  [...script.replaceAll('\\\n', ' ').matchAll(/npm run monitor -- (.*?)(?:\s\|\||$)/gm)].map(([, words = '']) =>
    [...words.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare ?? ''),
  );

/** Parses the words with the real command, which is not carried out. */
async function optionsOf([name, ...words]: readonly string[]): Promise<Record<string, unknown>> {
  const command = name === 'compare' ? compareCommand() : replayCommand();
  expect(command.name()).toBe(name);
  await command
    .exitOverride()
    .action(() => {})
    .parseAsync(words, { from: 'user' });
  return command.opts();
}

test.each(Object.keys(scripts))('%s replays the captures and compares, with options that exist', async (name) => {
  const [replay = [], compare = [], ...others] = callsIn(scripts[name] ?? '');
  expect(others).toEqual([]);
  expect(replay.slice(0, 2)).toEqual(['replay', '$CAPTURES']);
  expect(await optionsOf(replay)).toMatchObject({ endpoint: '$CANDIDATE', compare: true, run: 'candidate' });
  expect(compare.slice(0, 3)).toEqual(['compare', '$BASELINE', 'replays/candidate']);
  const options = await optionsOf(compare);
  expect(options).toMatchObject({ gate: 'examples/ci/gate.yaml', junit: 'gate.xml' });
  const { thresholds } = await readGateFile(`${ROOT}/${options.gate}`);
  expect(thresholds.length).toBeGreaterThan(3);
});

test.each(Object.keys(scripts))('%s names every variable that it uses', (name) => {
  const variables = { ...github.env, CANDIDATE: steps.find(({ env }) => env?.CANDIDATE)?.env?.CANDIDATE };
  const given = name === 'github-actions.yml' ? variables : gitlab.variables;
  for (const call of callsIn(scripts[name] ?? '')) {
    for (const word of call.filter((text) => text.startsWith('$'))) expect(given[word.slice(1)]).toBeTruthy();
  }
});

test('the gate file in the documentation is valid', () => {
  const [, text = ''] =
    readFileSync(`${ROOT}/docs/replay.md`, 'utf8').match(/```yaml\n(# yaml-language-server[\s\S]*?)```/) ?? [];
  const { judge, errorsTogether } = parseGateFile(text, 'docs/replay.md');
  expect([judge?.model, errorsTogether]).toEqual([expect.stringMatching(/^bedrock:/), 1]);
});

const CANNOT_TELL = GATE_EXIT_CODES['cannot-tell'];

test('GitHub Actions: a person decides about a release if the gate cannot tell', () => {
  const { gate, release } = github.jobs;
  const compare = steps.find(({ id }) => id === 'compare')?.run ?? '';
  expect(compare).toMatch(/0\) echo "outcome=passed"/);
  expect(compare).toMatch(new RegExp(`${CANNOT_TELL}\\) echo "outcome=cannot-tell"[^;]*::warning`));
  expect(compare).toMatch(/\*\) exit \$code ;;/);
  expect(gate.outputs.outcome).toBe(`\${{ steps.compare.outputs.outcome }}`);
  expect(release.needs).toBe('gate');
  expect(release.environment).toContain("needs.gate.outputs.outcome == 'passed' && 'production' ||");
  const upload = steps.find(({ uses }) => uses?.startsWith('actions/upload-artifact@'));
  expect(upload).toMatchObject({ if: expect.stringContaining('!cancelled()') });
  expect(upload?.with?.path?.split('\n')).toContain('gate.xml');
  for (const { run, uses } of steps) expect([run, uses].filter((given) => given !== undefined)).toHaveLength(1);
});

test('GitLab: the job shows a warning if the gate cannot tell, and the release waits for a person', () => {
  const { gate, release, stages } = gitlab;
  expect(gate.allow_failure).toEqual({ exit_codes: CANNOT_TELL });
  expect(gate.artifacts).toMatchObject({ when: 'always', reports: { junit: 'gate.xml' } });
  expect(gate.artifacts.paths).toContain('gate.md');
  expect(release).toMatchObject({ needs: ['gate'], when: 'manual' });
  expect([gate.stage, release.stage]).toEqual(stages);
});
