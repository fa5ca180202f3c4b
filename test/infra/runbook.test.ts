/** The runbook matches the stack: alarms, names, inputs and commands. */
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { OUTPUT_PARAMETERS } from '../../src/core/contract/names.ts';
import { parseInput } from '../../src/monitoring/plan/input.ts';
import { ARTHUR, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

const runbook = readFileSync('docs/runbook.md', 'utf8');
/** With the page that uses the runbook's first block. */
const text = runbook + readFileSync('docs/upgrading.md', 'utf8');
const template = templateOf({
  OTLP_ENDPOINT: 'https://otel.example.com',
  ...ARTHUR,
  STACK_PREFIX: 'prod',
  QUALITY_OBJECTIVES: '[{"scorer":"safety","atLeast":0.95}]',
  GROUND_TRUTH_S3_PREFIX: 's3://my-labels/churn/',
  MISSING_LABELS_HOURS: '48',
});

const sections = Object.fromEntries(
  runbook
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [title = '', ...rest] = section.split('\n');
      return [title, rest.join('\n')];
    }),
);
const alarms = Object.values(resourcesOfType(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) =>
  // The alarms of all objectives have one section.
  String(Properties.AlarmName)
    .replace('sagemaker-monitoring-prod-', '')
    .replace(/^Quality-.*/, 'QualityMissed'),
);

it('has a section for exactly the alarms', () => {
  const general = ['Before you start', 'Nothing is processed'];
  expect(
    Object.keys(sections)
      .filter((title) => !general.includes(title))
      .toSorted(),
  ).toEqual(alarms.toSorted());
});

it.each(alarms)('explains for %s the meaning, where to look, how to repair and how to verify', (alarm) => {
  const parts = ['What it means', 'Where to look first', 'How to repair', 'How to verify'];
  const places = parts.map((part) => sections[alarm]?.indexOf(`**${part}.**`) ?? -1);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(Math.min(...places)).toBeGreaterThanOrEqual(0);
  expect(sections[alarm]).toContain('```bash\n');
});

it('lists every alarm in its first table', () => {
  const listed = [...text.matchAll(/^\| \[(\w+)\]\(#(\w+)\) \|/gm)].map(([, name, anchor]) => {
    expect(anchor).toBe(name?.toLowerCase());
    return name;
  });
  expect(listed.toSorted()).toEqual(alarms.toSorted());
});

it('names only deployed resources', () => {
  const deployed = JSON.stringify(resourcesOf(template)).concat(JSON.stringify(template.toJSON().Outputs));
  const named = [...text.matchAll(/[\w/-]{3,}(?:\$PREFIX|<prefix>)[\w-]*/g)].map(([name]) =>
    name.replace('$PREFIX', 'prod').replace('<prefix>', 'prod'),
  );
  const functions = ['planner', 'processor', 'evaluator', 'batcher', 'summarizer'].map(
    (each) => `/aws/lambda/sagemaker-data-capture-${each}-prod`,
  );
  const names = new Set([...named, ...functions]);
  // The name of the stack, which is in no template, and the pattern of the alarms' names.
  expect(names.delete('SageMakerInferenceMonitoringStack-prod')).toBe(true);
  expect(names.size).toBeGreaterThan(5);
  for (const name of names) expect({ name, deployed: deployed.includes(name) }).toEqual({ name, deployed: true });
  const outputs = [...text.matchAll(/\$\(out ([\w-]+)\)/g)].map(([, output]) => output);
  expect(outputs.length).toBeGreaterThan(3);
  for (const output of outputs) expect(Object.values(OUTPUT_PARAMETERS)).toContain(output);
});

it('has only inputs that planning accepts', () => {
  const inputs = [...text.matchAll(/start "(\{.*?\})"/g)].map(([, input = '']) =>
    input.replaceAll('\\"', '"').replaceAll('$RUN', 'some-run').replaceAll('$CAPTURES', 'captures'),
  );
  expect(inputs.length).toBeGreaterThan(0);
  for (const input of inputs) expect(parseInput(JSON.parse(input))).toHaveProperty('kind');
});

it('lists the resources of the stack page by page, since it has more than the 100 that DescribeStackResources returns', () => {
  expect(Object.keys(resourcesOf(templateOf())).length).toBeGreaterThan(100);
  const files = globSync(['README.md', 'docs/**/*.md', 'examples/**/*.*', 'package.json']);
  const said = files.map((file) => readFileSync(file, 'utf8'));
  expect(said.filter((each) => each.includes('describe-stack-resources'))).toEqual([]);
  expect(said.join('\n')).toContain('aws cloudformation list-stack-resources');
});

describe('the first block', () => {
  const [, block = ''] = /```bash\n([\s\S]*?)```/.exec(sections['Before you start'] ?? '') ?? [];
  /** AWS for a queue that says twice, between its messages, that it has none. It refuses to start a run for the event `refused`. */
  const aws = `aws() {
  case "$2" in
    get-parameter) echo arn:of:the:machine ;;
    receive-message)
      [[ "$*" == *"--wait-time-seconds 20"* ]] || echo SHORT >&2
      ASKED=$(($(cat asked 2>/dev/null || echo 0) + 1)); echo "$ASKED" >asked
      NEXT=$(ls events | head -1)
      if [ $((ASKED % 3)) = 1 ] && [ -n "$NEXT" ]; then jq -n --arg it "$NEXT" '{Messages: [{Body: $it, ReceiptHandle: $it}]}'; fi ;;
    start-execution) [[ "$*" != *refused* ]] && echo "arn:run-of-$6" ;;
    delete-message) rm "events/$6" ;;
  esac
}`;
  const drained = (events: readonly string[]) => {
    const cwd = temporaryFolder('runbook-');
    mkdirSync(join(cwd, 'events'));
    for (const event of events) writeFileSync(join(cwd, 'events', event), '');
    const input = `${aws}\n${block}\ndrain the-queue start`;
    const { stdout, stderr } = spawnSync('bash', { input, cwd, encoding: 'utf8' });
    const left = readdirSync(join(cwd, 'events'));
    return { stdout: stdout.split('\n').filter(Boolean), stderr, left };
  };

  it('starts a run for each dead letter, also after the queue has said that it is empty', () => {
    expect(drained(['a', 'b', 'c'])).toEqual({ stdout: ['run-of-a', 'run-of-b', 'run-of-c'], stderr: '', left: [] });
  });

  it('keeps a dead letter whose run does not start', () => {
    expect(drained(['a', 'refused'])).toEqual({ stdout: ['run-of-a'], stderr: '', left: ['refused'] });
  });
});
