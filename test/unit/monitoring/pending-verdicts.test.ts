/** Deciding which scorers a trace still needs. */
import { chancesOf } from '../../../src/judge/scorers/chances.ts';
import type { JudgeScorer, Scorer } from '../../../src/judge/types.ts';
import { RUN_METADATA, type StoredAssessment, type StoredTrace } from '../../../src/mlflow/types.ts';
import { pendingVerdicts } from '../../../src/monitoring/evaluate/pending-verdicts.ts';
import { chatCapture, scorerOf as scorer } from '../judge/captures.ts';

const code: Scorer = { kind: 'code', name: 'words', version: '1', description: 'Words.', score: () => ({ value: 1 }) };

const TRACES = Array.from({ length: 400 }, (_, n) => `tr-${String(n).padStart(32, '0')}`);
const all = { reevaluate: false, chances: chancesOf({ sampleRate: 1 }) };

const stored = (assessments: Partial<StoredAssessment>[] = []): StoredTrace =>
  ({ assessments: assessments.map((one) => ({ valid: true, metadata: {}, ...one })) }) as unknown as StoredTrace;

const pending = (
  scorers: readonly Scorer[],
  { traceId = TRACES[0] ?? '', options = all, always = false, trace = stored() } = {},
) =>
  pendingVerdicts(
    traceId,
    { capture: chatCapture(), timeMs: 1_000, rule: () => (always ? 'rule' : undefined) },
    trace,
    scorers,
    options,
    'this-run',
  );

/** Returns the traces for which the judge is asked about the scorer. */
const asked = (judge: JudgeScorer, sampleRate: number, always = false): string[] =>
  TRACES.filter(
    (traceId) =>
      pending([judge], { traceId, options: { ...all, chances: chancesOf({ sampleRate }) }, always }).judge.length > 0,
  );

describe('sampling', () => {
  it('selects about its share of the traces, and a larger sample includes a smaller one', () => {
    const [tenth, fifth] = [asked(scorer('safety'), 0.1), asked(scorer('safety'), 0.2)];
    expect(tenth.length).toBeGreaterThan(20);
    expect(tenth.length).toBeLessThan(65);
    expect(fifth).toEqual(expect.arrayContaining(tenth));
    expect(fifth.length).toBeGreaterThan(tenth.length);
  });

  it('of a scorer is part of the run’s, and counts with its reason', () => {
    const rare = scorer('rare', { sampleRate: 0.5 });
    expect(asked(scorer('safety'), 0.4)).toEqual(expect.arrayContaining(asked(rare, 0.4)));
    expect(asked(rare, 1).length).toBeLessThan(260);
    const never = pending([scorer('never', { sampleRate: 0 }), code]);
    expect(never).toMatchObject({
      judge: [],
      code: [code],
      settled: [{ scorer: 'never', term: 'notSampled', reason: 'notSampled' }],
    });
  });

  it('is overridden by a rule, for the scorer and for the run', () => {
    expect(asked(scorer('never', { sampleRate: 0 }), 0, true)).toEqual(TRACES);
  });
});

describe('an existing verdict', () => {
  const verdict: Partial<StoredAssessment> = { name: 'safety', sourceType: 'LLM_JUDGE', value: 'yes' };

  it('is not asked for again by the retry of a re-evaluation that gave it', () => {
    const options = { ...all, reevaluate: true, continues: ['that-run', 'its-retry'] };
    for (const run of options.continues) {
      const done = stored([{ ...verdict, metadata: { [RUN_METADATA]: run } }]);
      expect(pending([scorer('safety')], { trace: done, options })).toMatchObject({
        judge: [],
        settled: [{ scorer: 'safety', term: 'alreadyThere' }],
      });
    }
    expect(pending([scorer('safety')], { trace: stored([verdict]), options }).judge).toHaveLength(1);
  });

  it('is not replaced when a person assessed the trace', () => {
    const person = stored([verdict, { name: 'safety', sourceType: 'HUMAN', value: 'no' }]);
    const options = { ...all, reevaluate: true };
    expect(pending([scorer('safety')], { trace: person, options })).toMatchObject({
      judge: [],
      settled: [{ scorer: 'safety', term: 'alreadyThere' }],
    });
  });
});
