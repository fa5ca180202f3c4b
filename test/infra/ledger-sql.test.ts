/** The ledger in Athena: its tables, its views, and the workgroup. */
import { appendRows, writeLabels } from '../../src/ledger/files.ts';
import { sqlViews } from '../../src/ledger/sql.ts';
import { type LedgerRows, TABLE_NAMES } from '../../src/ledger/tables.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { flattened, onlyResource, resourcesOfType, templateOf } from '../helpers/synth.ts';

type Input = Record<'Name' | 'TableType' | 'ViewOriginalText', string> & { Parameters: Record<string, string> };
const KEY = 'arn:aws:kms:eu-west-1:123456789012:key/work';
const template = templateOf({ STACK_PREFIX: 'My-prod', WORK_KMS_KEY_ARN: KEY });
const resources = Object.values(resourcesOfType(template, 'AWS::Glue::Table'));
const inputs = resources.map(({ Properties }) => flattened(Properties.TableInput) as Input);

test('the pattern of days is that of the keys that are written', async () => {
  const [bucket, row] = [new MemoryStorage(), { hour: '2026-11-20T10', traceId: 'tr-1' }];
  const rows = Object.fromEntries(TABLE_NAMES.map((table) => [table, [row]])) as unknown as LedgerRows;
  const work = { storage: bucket.storage, workBucket: 'w' };
  await appendRows(work, rows);
  await writeLabels(work, '2026-11-20', []);
  const written = [...bucket.objects.keys()].map((key) => `s3://<WorkBucket>/${key.replace(/[^/]+$/, '')}`);
  const tables = inputs.filter(({ TableType }) => TableType === 'EXTERNAL_TABLE');
  const patterns = tables.map(({ Parameters }) => Parameters['storage.location.template'] ?? '');
  expect(patterns.map((pattern) => pattern.replace(/[$]\{dt\}/, '2026-11-20')).toSorted()).toEqual(written.toSorted());
});

test('a view has the text and the columns that Trino looks for', () => {
  const views = inputs.filter(({ TableType }) => TableType === 'VIRTUAL_VIEW');
  expect(views.map(({ Name }) => Name).toSorted()).toEqual(Object.keys(sqlViews()).toSorted());
  for (const { Name, ViewOriginalText } of views) {
    const [, encoded = ''] = /^\/\* Presto View: (.+) \*\/$/.exec(ViewOriginalText) ?? [];
    const { originalSql, schema, columns } = JSON.parse(Buffer.from(encoded, 'base64').toString());
    const { text, columns: own = {} } = sqlViews()[Name] ?? {};
    expect([originalSql, schema, columns.length]).toEqual([text, 'inference_monitor_my_prod', Object.keys(own).length]);
  }
});

test('results are encrypted with the key of the bucket', () => {
  const { Properties } = onlyResource(template, 'AWS::Athena::WorkGroup');
  const EncryptionConfiguration = { EncryptionOption: 'SSE_KMS', KmsKey: KEY };
  expect(Properties.WorkGroupConfiguration).toMatchObject({ ResultConfiguration: { EncryptionConfiguration } });
});
