/** The path of an event to its run: matching objects, the queues, the mapping, and the bucket's notifications. */
import type { Template } from 'aws-cdk-lib/assertions';
import { escapeWildcard } from '../../lib/object-rule.ts';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { flattened, onlyResource, type Resource, resourcesOfType, templateOf } from '../helpers/synth.ts';

interface Pattern {
  source: string[];
  'detail-type': string[];
  detail: { bucket: { name: string[] }; object: { key: { wildcard: string }[] } };
}

function ruleOf(template: Template): Resource {
  const rule = resourcesOfType(template, 'AWS::Events::Rule').CapturesRule;
  if (rule === undefined) throw new Error('No rule CapturesRule');
  return rule;
}

const patternOf = (settings: Record<string, string> = {}): Pattern =>
  ruleOf(templateOf(settings)).Properties.EventPattern as Pattern;

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

/** Whether the rule delivers an event of S3, by EventBridge's logic. */
function starts(pattern: Pattern, bucket: string, key: string, type = 'Object Created'): boolean {
  // The entries of one array are alternatives; the fields must all match.
  return (
    pattern.source.includes('aws.s3') &&
    pattern['detail-type'].includes(type) &&
    pattern.detail.bucket.name.includes(bucket) &&
    pattern.detail.object.key.some(({ wildcard }) => matchesWildcard(wildcard, key))
  );
}

describe('the pattern', () => {
  it('matches .jsonl objects below the prefix', () => {
    expect(patternOf()).toEqual({
      source: ['aws.s3'],
      'detail-type': ['Object Created'],
      detail: { bucket: { name: ['captures'] }, object: { key: [{ wildcard: 'my-endpoint/*.jsonl' }] } },
    });
  });

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
    [`${replayKeys.resultPrefix('run')}profile_export.jsonl`, false],
    [replayKeys.schedule('run', 0), false],
    [`${replayKeys.shardPrefix('run', 0)}profile_export.jsonl`, false],
  ])('of %s: %s', (key, expected) => {
    expect(starts(patternOf(), 'captures', key)).toBe(expected);
  });

  it('matches only this bucket and created objects', () => {
    const key = 'my-endpoint/AllTraffic/a.jsonl';
    expect(starts(patternOf(), 'captures', key)).toBe(true);
    expect(starts(patternOf(), 'captures-2', key)).toBe(false);
    expect(starts(patternOf(), 'captures', key, 'Object Deleted')).toBe(false);
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
    expect(starts(pattern, 'captures', own)).toBe(true);
    expect(starts(pattern, 'captures', other)).toBe(false);
  });

  it('escapes only the special characters of a wildcard', () => {
    expect(escapeWildcard('a*b\\c/d.e?f')).toBe('a\\*b\\\\c/d.e?f');
  });

  it('never has two consecutive wildcards, which EventBridge rejects', () => {
    expect(patternOf({ DATA_CAPTURE_S3_PREFIX: 'data*' }).detail.object.key).toEqual([{ wildcard: 'data\\*/*.jsonl' }]);
  });
});

describe('the target', () => {
  const template = templateOf();

  it('gets the complete event', () => {
    const [target] = ruleOf(template).Properties.Targets as object[];
    for (const name of ['Input', 'InputPath', 'InputTransformer']) expect(target).not.toHaveProperty(name);
  });
});

describe('the queue of events', () => {
  const queueOf = (settings = {}) =>
    flattened(resourcesOfType(templateOf(settings), 'AWS::SQS::Queue').CapturesEvents?.Properties ?? {});

  it('hides its messages for six timeouts and the window, and gives up as late as EventBridge', () => {
    expect(queueOf()).toEqual({
      MessageRetentionPeriod: 14 * 86_400,
      SqsManagedSseEnabled: true,
      VisibilityTimeout: 6 * 60 + 60,
      RedrivePolicy: { deadLetterTargetArn: '<CapturesDeadLetters.Arn>', maxReceiveCount: 206 },
    });
    const { VisibilityTimeout, RedrivePolicy } = queueOf({ BATCH_WINDOW_SECONDS: '300' }) as {
      VisibilityTimeout: number;
      RedrivePolicy: { maxReceiveCount: number };
    };
    expect(VisibilityTimeout * RedrivePolicy.maxReceiveCount).toBeGreaterThanOrEqual(86_400);
    // The limit of SQS.
    expect(queueOf({ BATCH_WINDOW_SECONDS: '0' })).toMatchObject({ RedrivePolicy: { maxReceiveCount: 240 } });
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

  it('belong to a bucket that is not in the template', () => {
    const buckets = Object.values(resourcesOfType(template, 'AWS::S3::Bucket'));
    expect(buckets).toHaveLength(1);
    expect(buckets[0]?.Properties.BucketName).toBeUndefined();
  });
});
