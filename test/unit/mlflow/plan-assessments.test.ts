/** Tests of the plan for writing assessments. */
import { planAssessments } from '../../../src/mlflow/plan-assessments.ts';
import type { NewAssessment, StoredAssessment } from '../../../src/mlflow/types.ts';
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
const nothing = { create: [], override: [], update: [] };

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

test('overrides only the valid verdict', () => {
  const overriding = { ...newer, overrides: safety.assessmentId };
  expect(plan([stored(safety)], [overriding])).toEqual({ ...nothing, override: [overriding], alreadyThere: [] });
  expect(plan([stored(safety, { valid: false })], [overriding])).toMatchObject(nothing);
  expect(plan([], [overriding])).toMatchObject(nothing);
  expect(plan([stored(safety)], [{ ...overriding, value: undefined, error }])).toMatchObject(nothing);
});

test('writes nothing if a person has assessed the trace', () => {
  const wanted = [safety, newer, { ...newer, overrides: safety.assessmentId }];
  for (const one of wanted) {
    expect(plan([person], [one])).toMatchObject(nothing);
    expect(plan([stored(safety, { valid: false }), person], [one])).toMatchObject(nothing);
    expect(plan([stored(failed), person], [one])).toMatchObject(nothing);
  }
});

test('leaves alone what somebody has edited, an error too', () => {
  const isEdited = { isEdited: true as const };
  expect(plan([stored(failed, isEdited)], [safety])).toMatchObject(nothing);
  expect(plan([stored(failed, isEdited)], [newer])).toMatchObject(nothing);
  expect(plan([stored(safety, isEdited)], [{ ...newer, overrides: safety.assessmentId }])).toMatchObject(nothing);
  // It has been overridden since.
  const before = stored(verdict(traceId, 'safety', { version: '0' }), { ...isEdited, valid: false });
  const overriding = { ...newer, overrides: safety.assessmentId };
  expect(plan([before, stored(safety)], [overriding]).override).toEqual([overriding]);
});
