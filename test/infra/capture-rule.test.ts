/** The path of an event to its run: matching objects, the queue, and the bucket's notifications. recorded.test.ts has the resources. */
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { flattened, onlyResource, resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Pattern {
  detail: { object: { key: { wildcard: string }[] } };
}

const patternOf = (settings: Record<string, string> = {}) =>
  resourcesOfType(templateOf(settings), 'AWS::Events::Rule').CapturesRule?.Properties.EventPattern as Pattern;

/** Matches like EventBridge: `*` is any characters, `\*` and `\\` are the characters themselves, the rest is literal. */
function matchesWildcard(pattern: string, text: string): boolean {
  const parts = pattern.match(/\\[\s\S]|\*|[^\\*]+|\\$/g) ?? [];
  const source = parts.map((part) => {
    if (part === '*') return '[\\s\\S]*';
    if (part.startsWith('\\') && part !== '\\*' && part !== '\\\\')
      throw new Error(`Not allowed in a wildcard: ${part}`);
    const literal = part.startsWith('\\') ? part.slice(1) : part;
    return literal.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${source.join('')}$`).test(text);
}

/** Whether the rule delivers the event of an object, by EventBridge's logic: the entries of an array are alternatives. */
const starts = (pattern: Pattern, key: string): boolean =>
  pattern.detail.object.key.some(({ wildcard }) => matchesWildcard(wildcard, key));

describe('the pattern', () => {
  it.each([
    ['my-endpoint/AllTraffic/2026/11/20/09/05-12-345-abc.jsonl', true],
    ['my-endpoint/x.jsonl', true],
    // EventBridge delivers raw keys.
    ['my-endpoint/All Traffic/2026+11/ü.jsonl', true],
    ['my-endpoint-v2/AllTraffic/2026/11/20/09/a.jsonl', false],
    ['other/my-endpoint/AllTraffic/a.jsonl', false],
    ['my-endpoint/AllTraffic/2026/11/20/09/a.jsonl.tmp', false],
    ['my-endpoint/AllTraffic/2026/11/20/09/a.json', false],
    ['my-endpointXAllTraffic/a.jsonl', false],
    ['my-endpoint', false],
    // Objects of a replay, in case the buckets are the same.
    [`${areaOf('replayResults', 'run')}profile_export.jsonl`, false],
    [replayKeys.schedule('run', 0), false],
    [`${replayKeys.shardPrefix('run', 0)}profile_export.jsonl`, false],
  ])('of %s: %s', (key, expected) => {
    expect(starts(patternOf(), key)).toBe(expected);
  });

  it.each([
    ['data*capture', 'data*capture/a.jsonl', 'dataXcapture/a.jsonl'],
    ['back\\slash', 'back\\slash/a.jsonl', 'backslash/a.jsonl'],
    ['both\\*', 'both\\*/a.jsonl', 'both\\anything/a.jsonl'],
    ['a**b', 'a**b/a.jsonl', 'aXXb/a.jsonl'],
    ['dots.and+plus?', 'dots.and+plus?/a.jsonl', 'dotsXandplus/a.jsonl'],
    ['a$b(c)', 'a$b(c)/a.jsonl', 'abc/a.jsonl'],
  ])('treats the prefix %s literally', (prefix, own, other) => {
    const pattern = patternOf({ DATA_CAPTURE_S3_PREFIX: prefix });
    expect(starts(pattern, own)).toBe(true);
    expect(starts(pattern, other)).toBe(false);
  });

  it('never has two consecutive wildcards, which EventBridge rejects', () => {
    expect(patternOf({ DATA_CAPTURE_S3_PREFIX: 'data*' }).detail.object.key).toEqual([{ wildcard: 'data\\*/*.jsonl' }]);
  });
});

describe('the queue of events', () => {
  it('gives up as late as EventBridge with the longest window', () => {
    const queue = resourcesOfType(templateOf({ BATCH_WINDOW_SECONDS: '300' }), 'AWS::SQS::Queue').CapturesEvents;
    const { VisibilityTimeout, RedrivePolicy } = flattened(queue?.Properties) as {
      VisibilityTimeout: number;
      RedrivePolicy: { maxReceiveCount: number };
    };
    expect(VisibilityTimeout * RedrivePolicy.maxReceiveCount).toBeGreaterThanOrEqual(86_400);
  });

  it('is connected after the function has its permissions', () => {
    const { DependsOn } = onlyResource(templateOf(), 'AWS::Lambda::EventSourceMapping');
    expect(DependsOn).toEqual(expect.arrayContaining([expect.stringMatching(/^StartRunsRoleDefaultPolicy/)]));
  });
});

describe('the notifications of the existing bucket', () => {
  const template = templateOf({ LOG_RETENTION_DAYS: '90' });

  it('are changed by a function with a role and a log group of the stack', () => {
    const { CapturesNotificationsFunction: handler } = resourcesOfType(template, 'AWS::Lambda::Function');
    expect(flattened(handler?.Properties)).toMatchObject({
      Role: '<CapturesNotificationsRole.Arn>',
      LoggingConfig: { LogGroup: '<CapturesNotificationsLogs>' },
    });
    // It would fail without its policy, and the deployment with it.
    expect(handler?.DependsOn).toEqual(
      expect.arrayContaining([expect.stringMatching(/^CapturesNotificationsRoleDefaultPolicy/)]),
    );
    const groups = resourcesOfType(template, 'AWS::Logs::LogGroup');
    expect(groups.CapturesNotificationsLogs?.Properties).toEqual({
      LogGroupName: '/aws/lambda/sagemaker-data-capture-notifier-test',
      RetentionInDays: 90,
    });
  });
});
