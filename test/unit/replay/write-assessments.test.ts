/** Writing the judge's verdicts on pairs to MLflow. */
import { MAX_RATIONALE_CHARS } from '../../../src/mlflow/limits.ts';
import type { NewAssessment, StoredTrace } from '../../../src/mlflow/types.ts';
import type { JudgedReply } from '../../../src/replay/compare/judge-replies.ts';
import { replayTraceIdOf } from '../../../src/replay/publish/replay-trace.ts';
import { pairAssessment, writeAssessments } from '../../../src/replay/publish/write-assessments.ts';

const judged = (more: Partial<JudgedReply> = {}): JudgedReply => ({
  key: 'e:1',
  event_id: 'e',
  request_id: 'r',
  captured_trace_id: 'tr-captured',
  judge: 'bedrock:/m',
  verdict: 'worse',
  rationales: ['Reply 1 is right.', 'Reply 2 is right.'],
  usd: 0.002,
  ...more,
});

describe('the assessment of a pair', () => {
  test('has the same id for the same verdict, and different ids for other judges or traces', () => {
    const ids = [
      pairAssessment('tr-1', judged()),
      pairAssessment('tr-1', judged({ verdict: 'same' })),
      pairAssessment('tr-1', judged({ judge: 'bedrock:/n' })),
      pairAssessment('tr-2', judged()),
    ].map(({ assessmentId }) => assessmentId);
    expect(ids[1]).toBe(ids[0]);
    expect(new Set(ids).size).toBe(3);
  });

  test('is an error with both rationales if the judge returned no verdict', () => {
    const error = { code: 'ANSWER_UNUSABLE', message: 'no JSON' };
    const made = pairAssessment(
      'tr-1',
      judged({ verdict: 'failed', error, rationales: ['x', 'ANSWER_UNUSABLE: no JSON'] }),
    );
    expect(made).toMatchObject({ error, rationale: expect.stringContaining('captured: ANSWER_UNUSABLE: no JSON') });
    expect(made).not.toHaveProperty('value');
  });

  test('omits an unknown price and an unknown captured trace', () => {
    const { captured_trace_id: _, ...unlinked } = judged({ usd: null });
    expect(Object.keys(pairAssessment('tr-1', unlinked).metadata)).toEqual([
      'mlflow.assessment.scorerName',
      'mlflow.assessment.scorerVersion',
    ]);
  });

  test('cuts both rationales separately, so that a long one does not displace the other', () => {
    const { rationale = '' } = pairAssessment('tr-1', judged({ rationales: ['a'.repeat(40_000), 'b'.repeat(40_000)] }));
    expect(rationale.length).toBeLessThanOrEqual(MAX_RATIONALE_CHARS);
    expect(rationale).toMatch(
      /^Reply 1 captured, reply 2 new: a{7000,}… \[cut\]\n\nReply 1 new, .*: b{7000,}… \[cut\]$/,
    );
  });
});

describe('writing assessments', () => {
  const experiment = { id: '7', name: 'replays', artifactLocation: '' };
  const idOf = (request: string): string => replayTraceIdOf('7', 'run', request);
  const trace = (traceId: string): StoredTrace => ({ traceId, state: 'OK', assessments: [] });
  const client = (there: string[], write: (assessment: NewAssessment) => boolean) => {
    const written: string[] = [];
    return {
      written,
      getTraces: async (id: string, ids: readonly string[]) => {
        expect(id).toBe('7');
        return new Map(ids.filter((one) => there.includes(one)).map((one) => [one, trace(one)]));
      },
      writeAssessments: async (_: StoredTrace, [one]: readonly NewAssessment[]) => {
        if (!one) throw new Error('nothing to write');
        if (!write(one)) return { written: [], alreadyThere: [], traceMissing: true as const };
        written.push(one.traceId);
        return { written: [one.assessmentId], alreadyThere: [] };
      },
    };
  };
  const verdicts = ['a', 'b', 'c'].map((request_id) => judged({ request_id }));

  test('tries the other verdicts if one fails', async () => {
    const mlflow = client(['a', 'b', 'c'].map(idOf), ({ traceId }) => {
      if (traceId === idOf('a')) throw new Error('no');
      return true;
    });
    const result = { written: 5, withoutTrace: 1 };
    await expect(writeAssessments({ client: mlflow, experiment }, 'run', verdicts, result)).rejects.toThrow('no');
    expect(mlflow.written).toEqual([idOf('b'), idOf('c')]);
    expect(result).toEqual({ written: 7, withoutTrace: 1 });
  });
});
