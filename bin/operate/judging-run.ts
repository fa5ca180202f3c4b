/** The verdicts on the replies of a cloud replay, by the run of the monitoring that judges them. */
import { Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { PAIRWISE_SCORER } from '../../src/judge/pairwise.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { type Judged, nothingJudged } from '../../src/replay/compare/quality.ts';
import type { RunData } from '../../src/replay/compare/run-data.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';
import { orMissing } from './aws-calls.ts';
import { environmentClients } from './aws-clients.ts';
import { describeExecution } from './executions.ts';
import { followRuns } from './run-progress.ts';

type JudgingRun = NonNullable<RunData['monitoringRun']>;

/**
 * Waits until the run has ended, and adds up its verdicts and the verdicts of its retries.
 *
 * @throws PermanentError `JudgingUnfinished` if it ended without a summary; the reason with which the signal was
 *   aborted
 */
export async function verdictsOf({ name, arn, verdicts }: JudgingRun, signal: AbortSignal): Promise<Judged> {
  const [, , , region] = arn.split(':');
  const { s3, sfn } = environmentClients({ ...(region && { region }) });
  const { bucket, key } = parseS3Location(verdicts) ?? { bucket: '', key: '' };
  const storage = new Storage(s3);
  const judged = nothingJudged();
  let summaries = 0;
  // Step Functions deletes executions after 90 days; the summary stays.
  const statusOf = async () => (await describeExecution(sfn, arn).catch(orMissing))?.status ?? 'DELETED';
  await followRuns([async () => ({ status: await statusOf(), news: [] })], () => {}, signal);
  for await (const object of storage.list(bucket, key)) {
    const summary = await storage.getJson<RunSummary>(bucket, object.key);
    summaries++;
    // Failed and held pairs have no verdict, unless a retry has given one.
    for (const value of VERDICTS) judged[value] += summary?.verdictsByScorer[PAIRWISE_SCORER.name]?.[value] ?? 0;
  }
  if (summaries > 0) return judged;
  throw new PermanentError('JudgingUnfinished', 'The run that judges the replies has ended without a summary', {
    got: name,
    expected: `a summary under ${verdicts}; inference-monitor retry ${name} with the --stack of that run writes one, and compare --judge asks the judge here`,
  });
}

const VERDICTS = ['better', 'same', 'worse', 'undecided'] as const;
