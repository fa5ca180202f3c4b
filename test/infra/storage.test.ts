/** The work bucket, the budget's table and the alarms' topic: encryption, TLS and expiration. */
import { readFileSync } from 'node:fs';
import { areaOf, ledgerKeys, markKeys, replayKeys, truthKeys, workKeys } from '../../src/core/contract/work-keys.ts';
import { flattened, onlyResource, resourcesOfType, templateOf } from '../helpers/synth.ts';

const template = templateOf();

describe('the work bucket', () => {
  const bucket = onlyResource(template, 'AWS::S3::Bucket');

  const { Rules } = bucket.Properties.LifecycleConfiguration as { Rules: Record<string, unknown>[] };

  it('expires every kind of object, counts last', () => {
    const days = (key: string): unknown => Rules.find(({ Prefix }) => key.startsWith(String(Prefix)))?.ExpirationInDays;
    const run = 'some-run';
    expect(days(workKeys.manifest(run, 0, 'a'))).toBe(90);
    expect(days(workKeys.plan(run, 0))).toBe(90);
    expect(days(workKeys.receipt(run, 0, 'log', 0, 'id'))).toBe(90);
    expect(days(workKeys.summary(run))).toBe(90);
    expect(days(`${workKeys.mapResultPrefix(run)}/id/manifest.json`)).toBe(90);
    expect(days(`${areaOf('replayResults', run)}profile_export.jsonl`)).toBe(90);
    expect(days(replayKeys.schedule(run, 0))).toBe(90);
    expect(days(`${replayKeys.shardPrefix(run, 0)}claim.json`)).toBe(90);
    expect(days(workKeys.claim('digest'))).toBe(14);
    // What `rates` shows outlives the runs that counted it.
    expect(days(ledgerKeys.part('captures', '2026-11-20', '09-10', 'digest'))).toBe(731);
    expect(days(ledgerKeys.sum('2026-11-20'))).toBe(731);
    expect(days(truthKeys.labeled('2026-11-20T10'))).toBe(731);
    expect(days(truthKeys.toPublish('2026-11-20T10', 'etag'))).toBe(731);
    expect(days(truthKeys.file('digest'))).toBe(731);
    expect(days(truthKeys.waiting('part'))).toBe(731);
    expect(days(truthKeys.reports('2026-11-20', 'statistics.json'))).toBe(731);
    expect(days(truthKeys.upload('labels.csv'))).toBe(90);
    expect(days(truthKeys.summary(run))).toBe(90);
    expect(days(markKeys.mark('0'.repeat(16)))).toBe(400);
    // These contain captured data.
    expect(days(workKeys.batchInput(run, 0, 0))).toBe(7);
    expect(days(`${areaOf('batchOutput', run)}job/0.jsonl.out`)).toBe(7);
    expect(days(workKeys.batchJobs(run))).toBe(7);
    expect(days(`${ledgerKeys.resultsPrefix}query.csv`)).toBe(7);
    expect(days(workKeys.quarantine(run, 0))).toBe(365);
  });

  it('expires objects as docs/your-data.md says', () => {
    const rows = readFileSync('docs/your-data.md', 'utf8')
      .split('\n')
      .filter((row) => row.startsWith('| `'));
    const wrong = Rules.filter(({ Prefix, Id, ExpirationInDays }) => {
      // Ids have the days of a setting, and their own words there.
      if (Prefix === undefined || Id === 'ids') return false;
      const row = rows.find((one) => one.split(' | ')[0]?.includes(`\`${Prefix}\``));
      return row?.split(' | ').at(-1)?.startsWith(`${ExpirationInDays} days`) !== true;
    });
    expect(wrong).toEqual([]);
  });

  it.each([
    [undefined, 30],
    // What was written before goes.
    ['{"days":0}', 1],
  ])('keeps ids of predictions for the days of GROUND_TRUTH=%s', (setting, days) => {
    const own = onlyResource(templateOf(setting === undefined ? {} : { GROUND_TRUTH: setting }), 'AWS::S3::Bucket');
    const { Rules: rules } = own.Properties.LifecycleConfiguration as {
      Rules: { Prefix?: string; ExpirationInDays: number }[];
    };
    const daysOf = (table: string) => {
      const key = ledgerKeys.part(table, '2026-11-20', '09-10', 'digest');
      const own = rules.filter(({ Prefix = '-' }) => key.startsWith(Prefix));
      return Math.min(...own.map(({ ExpirationInDays }) => ExpirationInDays));
    };
    const kept = ['ids/inferences', 'ids/people', 'inferences'].map(daysOf);
    expect(kept).toEqual([days, 90, 731]);
  });

  it('sends no events, so that nothing in it can start the pipeline', () => {
    expect(bucket.Properties.NotificationConfiguration).toBeUndefined();
    const patterns = Object.values(resourcesOfType(template, 'AWS::Events::Rule')).map(({ Properties }) =>
      flattened(Properties.EventPattern),
    ) as { source: string[]; detail: { bucket?: { name: string[] }; object?: unknown } }[];
    expect(patterns.filter(({ detail }) => detail.bucket?.name.includes('<WorkBucket>'))).toEqual([]);
    // Every rule on S3 events names its bucket.
    for (const { source, detail } of patterns)
      if (source.includes('aws.s3')) expect(detail.bucket?.name).toHaveLength(1);
  });
});
