/** ForwardCaptures: the queued events of new capture files → each file to Arthur, once. */
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import type { ForwardMetric } from '../../src/core/contract/metric-names.ts';
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { limitsTable } from '../../src/limits/table.ts';
import { connectArthur } from '../../src/monitoring/arthur/arthur.ts';
import { forwardFiles } from '../../src/monitoring/arthur/forward-files.ts';
import { queueHandler } from '../../src/monitoring/queued.ts';

const environment = readForwardEnvironment();
const storage = new Storage(createS3Client());
const connected = { environment, storage, table: limitsTable(environment), post: connectArthur(environment) };

export const handler = queueHandler<ForwardMetric>(environment, storage, (event, queue) =>
  forwardFiles(event, { ...connected, ...queue }),
);
