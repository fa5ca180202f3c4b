/** Checks the gate of a cloud replay before anything is sent: its thresholds, and that its baseline can be read. */
import { replayKeys } from '../../../contract/work-keys.ts';
import { PermanentError } from '../../../shared/errors.ts';
import type { Storage } from '../../../shared/storage.ts';
import { findResults } from '../../compare/open-run.ts';
import { REPLIES_FILE } from '../../compare/replies-file.ts';
import { parseThreshold, type Threshold } from '../../gate/thresholds.ts';
import { FILES } from '../../results/result-set.ts';
import { parseS3Location } from '../../source/open-source.ts';
import { MAX_GATE_BYTES, MAX_GATE_REQUESTS } from '../limits.ts';
import type { PlannedGate } from '../work-bucket/stored-plan.ts';
import type { ReplayJob } from './input.ts';

/** What a threshold is decided on. A share of pairs is decided on the captured replies if there is no baseline. */
type Basis = 'baseline' | 'replies' | 'judge';

function basisOf(threshold: Threshold, hasBaseline: boolean): Basis {
  if (threshold.kind === 'metric' || threshold.share === 'error_rate') return 'baseline';
  if (threshold.share === 'judged_worse') return 'judge';
  // A baseline has the outcome of each request, with or without its reply.
  return threshold.share === 'newly_failing' && hasBaseline ? 'baseline' : 'replies';
}

const refused = (problem: string, got: string, expected: string): PermanentError =>
  new PermanentError('InvalidReplayInput', `The execution's input is invalid: ${problem}`, { got, expected });

/**
 * Checks the gate, and where its baseline is.
 *
 * @returns the gate with the place of the baseline's results; `null` if the input has none
 * @throws PermanentError `InvalidThreshold`, `InvalidReplayInput`, `BaselineNotAllowed`, `NotAReplay`, `GateTooLarge`, and
 * errors of the storage
 */
export async function planCloudGate(
  { gate, compare, judge }: Pick<ReplayJob, 'gate' | 'compare' | 'judge'>,
  storage: Storage,
  workBucket: string,
): Promise<PlannedGate | null> {
  if (!gate) return null;
  const { baseline, thresholds, zeroTolerance } = gate;
  let needsReplies = false;
  for (const text of thresholds) {
    const basis = basisOf(parseThreshold(text), baseline !== undefined);
    if (basis === 'baseline' && baseline === undefined) {
      throw refused(
        'a threshold needs gate.baseline, because captures have no outcomes and times to compare with',
        text,
        'without a baseline: regressed, newly_failing, new_refusals and judged_worse, against the captured replies',
      );
    }
    if (basis === 'judge' && !judge) throw refused('a threshold needs the judge', text, '"judge": true');
    if (basis === 'replies' && !compare) throw refused('a threshold needs the replies', text, '"compare": true');
    needsReplies ||= basis === 'replies';
  }
  const more = zeroTolerance === undefined ? {} : { zeroTolerance };
  if (baseline === undefined) return { thresholds, ...more };
  return { baseline: await baselineOf(baseline, needsReplies, storage, workBucket), thresholds, ...more };
}

/** Only this part of a location is readable for the stack's functions. */
const EXECUTION = /^replays\/([^/]+)\/?(?:results\/?)?$/;

async function baselineOf(
  baseline: string,
  needsReplies: boolean,
  storage: Storage,
  workBucket: string,
): Promise<NonNullable<PlannedGate['baseline']>> {
  const { bucket, key } = parseS3Location(baseline) ?? {};
  const execution = EXECUTION.exec(key ?? '')?.[1];
  if (bucket !== workBucket || execution === undefined) {
    throw new PermanentError('BaselineNotAllowed', "This stack's replays may not read that baseline", {
      got: baseline,
      expected: `s3://${workBucket}/replays/<execution>, an earlier replay of this stack, or results copied to there`,
    });
  }
  const location = `s3://${workBucket}/${replayKeys.resultPrefix(execution)}`;
  const files = await findResults(location, storage);
  const expected = 'an earlier replay of the same captures, with "compare": true';
  if (files.get(FILES.records)?.size === 0) throw refused('the baseline has no request', baseline, expected);
  if (needsReplies && !files.has(REPLIES_FILE)) throw refused('the baseline kept no replies', baseline, expected);
  const { sent = 0 } = (await storage.getJson<{ sent?: number }>(workBucket, replayKeys.figures(execution))) ?? {};
  const bytes = [...files.values()].reduce((sum, { size }) => sum + size, 0);
  checkGateSize(baseline, sent, bytes);
  return { location, bytes };
}

/** @param of the run with so many requests. @throws PermanentError `GateTooLarge` */
export function checkGateSize(of: string, requests: number, bytes = 0): void {
  if (requests <= MAX_GATE_REQUESTS && bytes <= MAX_GATE_BYTES) return;
  throw new PermanentError('GateTooLarge', 'A run has more requests than the gate of a cloud replay can compare', {
    got: `${requests} requests${bytes > 0 ? `, ${bytes} bytes of records and replies` : ''}`,
    expected: `at most ${MAX_GATE_REQUESTS} requests and ${MAX_GATE_BYTES} bytes; \`inference-monitor compare\` compares more`,
    where: of,
  });
}
