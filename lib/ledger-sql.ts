/**
 * The ledger in Athena: a Glue database with its tables and views, and a workgroup that limits the bytes that a query
 * reads.
 */
import { Stack } from 'aws-cdk-lib';
import { CfnWorkGroup } from 'aws-cdk-lib/aws-athena';
import { CfnDatabase, CfnTable } from 'aws-cdk-lib/aws-glue';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { Construct } from 'constructs';
import { resourceNames, sqlDatabaseName } from '../src/core/contract/names.ts';
import { ledgerKeys } from '../src/core/contract/work-keys.ts';
import { columnsOf, PARTITION, rowsTable, sqlViews, typedFor } from '../src/ledger/sql.ts';
import { TABLE_NAMES, type Table } from '../src/ledger/tables.ts';
import GLUE from './glue-tables.json' with { type: 'json' };

/** Maximum number of bytes that a query may read: half a dollar. */
const QUERY_BYTES = 100e9;
/** Athena's variable for a day. */
const DAY = '$'.concat('{dt}');

/** @param prefix of the stack. @returns outputs, by which people find both */
export function ledgerSql(scope: Construct, prefix: string, { bucketName, encryptionKey }: IBucket) {
  const { account: catalogId } = Stack.of(scope);
  const name = sqlDatabaseName(prefix);
  const database = new CfnDatabase(scope, 'Database', { catalogId, databaseInput: { name } });
  for (const tableInput of [...TABLE_NAMES.map((table) => tableOf(bucketName, table)), ...viewsOf(name)]) {
    new CfnTable(scope, tableInput.name, { catalogId, databaseName: database.ref, tableInput });
  }
  const workGroup = new CfnWorkGroup(scope, 'WorkGroup', {
    name: resourceNames(prefix).sqlWorkGroup,
    // Else a workgroup that was used could not be deleted.
    recursiveDeleteOption: true,
    workGroupConfiguration: {
      enforceWorkGroupConfiguration: true,
      bytesScannedCutoffPerQuery: QUERY_BYTES,
      resultConfiguration: {
        outputLocation: `s3://${bucketName}/${ledgerKeys.resultsPrefix}`,
        encryptionConfiguration: encryptionKey
          ? { encryptionOption: 'SSE_KMS', kmsKey: encryptionKey.keyArn }
          : { encryptionOption: 'SSE_S3' },
      },
    },
  });
  return { sqlDatabase: database.ref, sqlWorkGroup: workGroup.ref };
}

const tableOf = (bucket: string, table: Table) => ({
  ...GLUE.table,
  name: rowsTable(table),
  // Athena derives the days from a pattern of the keys, so no catalog of days must be maintained.
  parameters: { ...GLUE.parameters, 'storage.location.template': `s3://${bucket}/${ledgerKeys.day(table, DAY)}` },
  partitionKeys: typedFor('glue', PARTITION),
  storageDescriptor: {
    ...GLUE.storage,
    columns: typedFor('glue', columnsOf(table)),
    location: `s3://${bucket}/${ledgerKeys.table(table)}`,
  },
});

/** Uses the format in which Trino itself keeps a view in a catalog: HiveViewCodec of its Hive connector. */
const viewsOf = (schema: string) =>
  Object.entries(sqlViews()).map(([name, { columns, text: originalSql }]) => {
    const view = { originalSql, catalog: 'awsdatacatalog', schema, columns: typedFor('trino', columns) };
    const viewOriginalText = `/* Presto View: ${Buffer.from(JSON.stringify(view)).toString('base64')} */`;
    const storageDescriptor = { columns: typedFor('glue', columns), location: '', serdeInfo: {} };
    return { ...GLUE.view, name, viewOriginalText, storageDescriptor };
  });
