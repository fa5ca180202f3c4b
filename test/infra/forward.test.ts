/** Forwarding to Arthur: the rule, the queue, the function, the alarm, and nothing of it without a host. */
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { flattened, resourcesOf, resourcesOfType, templateOf } from '../helpers/synth.ts';

const ARTHUR = {
  ARTHUR_HOST: 'https://app.arthur.ai',
  ARTHUR_MODEL_ID: 'some-model',
  ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
};
const template = templateOf(ARTHUR);
const properties = (type: string, id: string, of = template): Record<string, unknown> =>
  flattened(resourcesOfType(of, type)[id]?.Properties) as Record<string, unknown>;

it('exists only with a host, and changes nothing else', () => {
  const before = resourcesOf(templateOf());
  const added = Object.keys(resourcesOf(template)).filter((id) => !Object.hasOwn(before, id));
  expect(added.length).toBeGreaterThan(8);
  for (const id of added) expect(id).toMatch(/^(Forward|AlarmsForwardFailed)/);
  const changed = Object.keys(before).filter(
    (id) => JSON.stringify(before[id]) !== JSON.stringify(resourcesOf(template)[id]),
  );
  // Its errors are among those of the functions, its receipts expire, and the dashboard shows its alarm.
  expect(changed.map((id) => id.replace(/[0-9A-F]{8}$/, '')).toSorted()).toEqual([
    'AlarmsFunctionErrors',
    'AlarmsFunctionThrottled',
    'Dashboard',
    'WorkBucket',
  ]);
  const rules = JSON.stringify(properties('AWS::S3::Bucket', 'WorkBucket').LifecycleConfiguration);
  expect(rules).toContain('"ExpirationInDays":400,"Id":"forwards","Prefix":"forwards/"');
});

it('matches keys by prefix and suffix, by default those of the captures', () => {
  const keysOf = (more: object) => {
    const rule = properties('AWS::Events::Rule', 'ForwardRule', templateOf({ ...ARTHUR, ...more }));
    return (rule.EventPattern as { detail: object }).detail;
  };
  expect(keysOf({})).toEqual({
    bucket: { name: ['captures'] },
    object: { key: [{ wildcard: 'my-endpoint/*.jsonl' }] },
  });
  expect(keysOf({ ARTHUR_S3_PREFIX: 'a*b', ARTHUR_S3_SUFFIX: '-x.jsonl' })).toMatchObject({
    object: { key: [{ wildcard: 'a\\*b/*-x.jsonl' }] },
  });
});

it('has a function whose environment the code accepts, without the settings of others', () => {
  const { Environment, Timeout, MemorySize } = properties('AWS::Lambda::Function', 'ForwardForwarderFunction');
  const { Variables } = Environment as { Variables: Record<string, string> };
  expect([Timeout, MemorySize]).toEqual([900, 1024]);
  expect(readForwardEnvironment(Variables)).toMatchObject({
    ...ARTHUR,
    ARTHUR_S3_PREFIX: 'my-endpoint/',
    FORWARD_QUEUE: '<ForwardEvents>',
    FORWARD_DEAD_LETTERS: '<ForwardDeadLetters>',
    ARTHUR_S3_SUFFIX: '.jsonl',
    BUDGET_TABLE: '<BudgetTable>',
    FORWARD_RETRY_SECONDS: 60,
    STACK_PREFIX: 'test',
  });
  // For the captures of a judge, which are not forwarded.
  expect(Variables).toHaveProperty('BEDROCK_MODEL_ID');
  expect(Variables).not.toHaveProperty('MLFLOW_TRACKING_URI');
});
