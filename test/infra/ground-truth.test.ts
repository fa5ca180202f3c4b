/** The stack of labels: what the place of label files adds. recorded.test.ts has the resources and the state machine. */

import { readFileSync } from 'node:fs';
import { build } from 'esbuild';
import { packagePath } from '../../src/core/process/package-folder.ts';
import {
  ARTHUR,
  definitionOf,
  GROUND_TRUTH,
  policiesOf,
  resourcesOf,
  resourcesOfType,
  templateOf,
} from '../helpers/synth.ts';

const PLACE = {
  GROUND_TRUTH_S3_PREFIX: 's3://labels/churn*/true',
  MISSING_LABELS_HOURS: '36',
  JUDGE_GUIDELINES: '{"no_legal_advice":"The reply gives no legal advice."}',
};
const template = templateOf(PLACE);

it('is the same stack without days', () => {
  const none = templateOf({ GROUND_TRUTH: '{"days":0}' });
  expect(Object.keys(resourcesOf(none))).toEqual(Object.keys(resourcesOf(templateOf())));
});

it('reads the whole bucket if the place is one', () => {
  const lines = policiesOf(templateOf({ GROUND_TRUTH_S3_PREFIX: 's3://labels' })).GroundTruthJoinLabelsRole;
  const ofAccount = { StringEquals: { 'aws:ResourceAccount': '123456789012' } };
  expect(lines).toContainEqual([['s3:GetObject', 's3:GetObjectVersion'], ['arn:aws:s3:::labels/*'], ofAccount]);
});

test('the bundle of the function contains nothing of the judge, and none of the forms of captures', async () => {
  const { metafile } = await build({
    entryPoints: ['lambda/ground-truth/handler.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    packages: 'external',
  });
  const files = Object.keys(metafile.inputs);
  expect(files.filter((file) => /^src\/(?:judge|captures\/(?:wire|meaning|stream))\//.test(file))).toEqual([]);
});

describe('new label files', () => {
  it.each([
    ['labels', ['captures', 'labels']],
    ['captures', ['captures']],
  ])('in %s have the events of each bucket switched on once', (bucket, buckets) => {
    const of = templateOf({ GROUND_TRUTH_S3_PREFIX: `s3://${bucket}/true/` });
    const switched = Object.values(resourcesOfType(of, 'Custom::CaptureNotifications'));
    expect(switched.map(({ Properties }) => Properties.BucketName)).toEqual(buckets);
    // A later version looks at the bucket again.
    const { version } = JSON.parse(readFileSync(packagePath('package.json'), 'utf8'));
    expect(switched.map(({ Properties }) => Properties.Deployment)).toEqual(buckets.map(() => version));
    expect(policiesOf(of).CapturesNotificationsRole?.[0]?.[1]).toEqual(buckets.map((name) => `arn:aws:s3:::${name}`));
  });
});

it('knows the scorers whose questions labels may answer, those of guidelines too', () => {
  expect(JSON.stringify(definitionOf(template, GROUND_TRUTH))).toContain(
    '{"name":"no_legal_advice","values":{"kind":"yes-no"}}',
  );
});

it('watches all functions that are optional by one alarm, within CloudWatch’s limit', () => {
  const all = { ...PLACE, ...ARTHUR, OTLP_ENDPOINT: 'https://otel.example.com' };
  const { AlarmsFunctionErrors } = resourcesOfType(templateOf(all), 'AWS::CloudWatch::Alarm');
  // Ten metrics, its maximum, and the expression.
  expect(AlarmsFunctionErrors?.Properties.Metrics).toHaveLength(11);
});
