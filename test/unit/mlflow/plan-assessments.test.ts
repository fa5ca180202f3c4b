/** Tests of the plan for writing assessments. */

import { rootSpanIdOf } from '../../../src/captures/trace/ids.ts';
import { labelMetadata, planAssessments } from '../../../src/mlflow/plan-assessments.ts';
import {
  LABEL_METADATA,
  type LabelLeft,
  type NewAssessment,
  type StoredAssessment,
} from '../../../src/mlflow/types.ts';
import { verdict } from '../../helpers/mlflow-traces.ts';

const traceId = 'tr-1';
const stored = (assessment: NewAssessment, changes: Partial<StoredAssessment> = {}): StoredAssessment => ({
  assessmentId: assessment.assessmentId,
  name: assessment.name,
  sourceType: assessment.sourceType,
  sourceId: assessment.sourceId,
  ...(assessment.error ? { errorCode: assessment.error.code } : { value: 'yes' }),
  valid: true,
  metadata: {},
  ...changes,
});
const plan = (there: StoredAssessment[], wanted: NewAssessment[]) =>
  planAssessments({ traceId, state: 'OK', assessments: there }, wanted);

const safety = verdict(traceId, 'safety');
const newer = verdict(traceId, 'safety', { version: '2' });
const error = { code: 'JUDGE_REFUSED', message: 'no answer' };
const failed = verdict(traceId, 'safety', { error });
const person: StoredAssessment = stored(verdict(traceId, 'safety', { version: 'person' }), { sourceType: 'HUMAN' });
const nothing = { create: [], override: [], update: [], doubles: [], left: new Map() };
const anew: NewAssessment = { ...newer, replaces: true };

test('creates a missing assessment', () => {
  expect(plan([], [safety])).toEqual({ ...nothing, create: [safety], alreadyThere: [] });
});

test('does not send an existing assessment again, valid or not, of any version', () => {
  expect(plan([stored(safety)], [safety])).toEqual({ ...nothing, alreadyThere: [safety.assessmentId] });
  expect(plan([stored(safety, { valid: false })], [safety])).toMatchObject(nothing);
  expect(plan([stored(safety)], [newer])).toEqual({ ...nothing, alreadyThere: [newer.assessmentId] });
});

test('ignores verdicts of other scorers', () => {
  expect(plan([stored(verdict(traceId, 'fluency'))], [safety]).create).toEqual([safety]);
});

test('replaces an error by a verdict: with the same id by an update, of another version by an override', () => {
  expect(plan([stored(failed)], [safety])).toEqual({ ...nothing, update: [safety], alreadyThere: [] });
  const overriding = { ...newer, overrides: failed.assessmentId };
  expect(plan([stored(failed)], [newer])).toEqual({ ...nothing, override: [overriding], alreadyThere: [] });
});

test('writes no error over an error or next to a verdict', () => {
  expect(plan([stored(failed)], [failed])).toMatchObject(nothing);
  expect(plan([stored(failed)], [verdict(traceId, 'safety', { version: '2', error })])).toMatchObject(nothing);
  expect(plan([stored(safety)], [verdict(traceId, 'safety', { version: '2', error })])).toMatchObject(nothing);
});

test('overrides the verdict in force, whichever it is', () => {
  const overriding = { ...anew, overrides: safety.assessmentId };
  expect(plan([stored(safety)], [anew])).toEqual({ ...nothing, override: [overriding], alreadyThere: [] });
  const older = stored(verdict(traceId, 'safety', { version: '0' }), { valid: false });
  expect(plan([older, stored(safety)], [anew]).override).toEqual([overriding]);
  expect(plan([stored(safety, { valid: false })], [anew])).toMatchObject(nothing);
  expect(plan([], [anew])).toMatchObject(nothing);
  expect(plan([stored(safety)], [{ ...anew, value: undefined, error }])).toMatchObject(nothing);
});

test('of several verdicts in force, all but the one that is overridden are to be deleted first', () => {
  const double = (version: string, overrides?: string) =>
    stored(verdict(traceId, 'safety', { version }), overrides === undefined ? {} : { overrides });
  const [one, other] = [double('3', safety.assessmentId), double('4', safety.assessmentId)];
  const both = plan([stored(safety, { valid: false }), one, other], [anew]);
  expect(both.doubles).toEqual([other.assessmentId]);
  // MLflow has restored the one that it had overridden.
  const restored = plan([stored(safety), one], [anew]);
  expect(restored.doubles).toEqual([one.assessmentId]);
  expect(restored.override).toEqual([{ ...anew, overrides: safety.assessmentId }]);
});

test('writes nothing if a person has assessed the trace', () => {
  const wanted = [safety, newer, anew];
  for (const one of wanted) {
    expect(plan([person], [one])).toMatchObject(nothing);
    expect(plan([stored(safety, { valid: false }), person], [one])).toMatchObject(nothing);
    expect(plan([stored(failed), person], [one])).toMatchObject(nothing);
  }
});

test('leaves alone what a person has edited, an error too', () => {
  const isEdited = { isEdited: true as const };
  expect(plan([stored(failed, isEdited)], [safety])).toMatchObject(nothing);
  expect(plan([stored(failed, isEdited)], [newer])).toMatchObject(nothing);
  expect(plan([stored(safety, isEdited)], [anew])).toMatchObject(nothing);
  // It has been overridden since.
  const before = stored(verdict(traceId, 'safety', { version: '0' }), { ...isEdited, valid: false });
  expect(plan([before, stored(safety)], [anew]).override).toEqual([{ ...anew, overrides: safety.assessmentId }]);
});

describe('a label', () => {
  const label: NewAssessment = {
    ...{ assessmentId: 'a-label', traceId, name: 'ground_truth', sourceType: 'HUMAN', sourceId: 'ground truth' },
    ...{ isExpectation: true, value: 'b', metadata: labelMetadata('b'), createTimeMs: 1 },
  };
  const earlier = stored(label, { value: 'a', metadata: labelMetadata('a'), isExpectation: true });
  const left = (because: LabelLeft) => ({ ...nothing, left: new Map([['a-label', because]]), alreadyThere: [] });

  test('is created, replaces the earlier one, and is not sent again', () => {
    expect(plan([], [label])).toEqual({ ...nothing, create: [label], alreadyThere: [] });
    expect(plan([earlier], [label])).toEqual({ ...nothing, update: [label], alreadyThere: [] });
    expect(plan([stored(label, { value: 'b' })], [label])).toEqual({ ...nothing, alreadyThere: ['a-label'] });
  });

  test('is left as a person wants it', () => {
    const edits: Partial<StoredAssessment>[] = [
      { value: 'c' },
      { value: undefined },
      { isEdited: true },
      { valid: false },
    ];
    for (const edit of edits) expect(plan([{ ...earlier, ...edit }], [label])).toEqual(left('EditedByPerson'));
    expect(plan([], [{ ...label, wasWritten: true }])).toEqual(left('DeletedByPerson'));
    const own = { ...earlier, assessmentId: 'a-own', sourceId: 'person' };
    expect(plan([own], [label])).toEqual(left('WrittenByPerson'));
    expect(plan([{ ...own, spanId: rootSpanIdOf(traceId) }], [label])).toEqual(left('WrittenByPerson'));
  });

  test('is created next to assessments of something else', () => {
    const own = { ...earlier, assessmentId: 'a-own' };
    const others: StoredAssessment[] = [
      { ...own, spanId: 'another span' },
      { ...own, valid: false },
      { ...own, name: 'another' },
      { ...own, isExpectation: undefined },
    ];
    expect(plan(others, [label]).create).toEqual([label]);
    const { isExpectation: _, ...answer } = label;
    expect(plan([{ ...own, isExpectation: undefined, sourceId: 'another' }, own], [answer])).toEqual(
      left('WrittenByPerson'),
    );
    expect(plan([{ ...own, sourceId: 'another' }], [answer]).create).toEqual([answer]);
  });

  test('that is long is told from another by its digest', () => {
    const [a, b] = ['a', 'b'].map((end) => 'x'.repeat(1000) + end) as [string, string];
    const long = { ...earlier, value: a, metadata: labelMetadata(a) };
    expect(labelMetadata(a)[LABEL_METADATA]?.length).toBeLessThanOrEqual(250);
    expect(plan([long], [{ ...label, value: b }]).update).toHaveLength(1);
    expect(plan([{ ...long, value: b }], [label])).toEqual(left('EditedByPerson'));
  });
});
