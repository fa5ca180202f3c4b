/** The verdicts on the replies of a cloud replay, by the run of the monitoring that judges them. */
import { DescribeExecutionCommand, ExecutionDoesNotExist, type SFNClient } from '@aws-sdk/client-sfn';
import { Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { PAIRWISE_SCORER } from '../../src/judge/pairwise.ts';
import type { RunSummary } from '../../src/monitoring/summary.ts';
import { type Judged, nothingJudged } from '../../src/replay/compare/quality.ts';
import type { RunData } from '../../src/replay/compare/run-data.ts';
import { parseS3Location } from '../../src/replay/source/open-source.ts';
import { destroyClients, environmentClients } from './aws-clients.ts';
import { followRuns } from './follow-runs.ts';

type JudgingRun = NonNullable<RunData['monitoringRun']>;

/**
 * Waits until the run has ended.
 *
 * @throws PermanentError `JudgingUnfinished` if it ended without a summary; what the signal was aborted with
 */
export async function verdictsOf({ name, arn, summary }: JudgingRun, signal: AbortSignal): Promise<Judged> {
  const clients = environmentClients();
  const { bucket, key } = parseS3Location(summary) ?? { bucket: '', key: '' };
  try {
    const look = async () => ({ status: await statusOf(clients.sfn, arn), news: [] });
    await followRuns([{ look }], { signal, onLook: () => {} });
    const found = await new Storage(clients.s3).getJson<RunSummary>(bucket, key);
    if (found !== undefined) return judgedIn(found);
    throw new PermanentError('JudgingUnfinished', 'The run that judges the replies has ended without a summary', {
      got: name,
      expected: `${summary}; compare --judge asks the judge here`,
    });
  } finally {
    destroyClients(clients);
  }
}

async function statusOf(sfn: SFNClient, executionArn: string): Promise<string> {
  try {
    return (await sfn.send(new DescribeExecutionCommand({ executionArn }))).status ?? '';
  } catch (error) {
    // Step Functions deletes executions after 90 days; the summary stays.
    if (error instanceof ExecutionDoesNotExist) return 'DELETED';
    throw error;
  }
}

/** What is failed, held or lost stays without a verdict. */
function judgedIn({ verdictsByScorer, verdicts }: RunSummary): Judged {
  const { better = 0, same = 0, worse = 0, undecided = 0 } = verdictsByScorer[PAIRWISE_SCORER.name] ?? {};
  const { failed, heldByBudget: overBudget } = verdicts;
  return { ...nothingJudged(), better, same, worse, undecided, failed, overBudget };
}
