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

test('what is absent is created', () => {
  expect(plan([], [safety])).toEqual({ ...nothing, create: [safety], alreadyThere: [] });
});

test('what is there is not sent again, valid or not, whatever its version', () => {
  expect(plan([stored(safety)], [safety])).toEqual({ ...nothing, alreadyThere: [safety.assessmentId] });
  expect(plan([stored(safety, { valid: false })], [safety])).toMatchObject(nothing);
  expect(plan([stored(safety)], [newer])).toEqual({ ...nothing, alreadyThere: [newer.assessmentId] });
});

test('another scorer’s verdict does not stand in the way', () => {
  expect(plan([stored(verdict(traceId, 'fluency'))], [safety]).create).toEqual([safety]);
});

test('an error becomes a verdict: the same id by an update, another version by an override', () => {
  expect(plan([stored(failed)], [safety])).toEqual({ ...nothing, update: [safety], alreadyThere: [] });
  const overriding = { ...newer, overrides: failed.assessmentId };
  expect(plan([stored(failed)], [newer])).toEqual({ ...nothing, override: [overriding], alreadyThere: [] });
});

test('an error is not written over an error, nor beside a verdict', () => {
  expect(plan([stored(failed)], [failed])).toMatchObject(nothing);
  expect(plan([stored(failed)], [verdict(traceId, 'safety', { version: '2', error })])).toMatchObject(nothing);
  expect(plan([stored(safety)], [verdict(traceId, 'safety', { version: '2', error })])).toMatchObject(nothing);
});

test('an override takes the place of the verdict in force, and of no other', () => {
  const overriding = { ...newer, overrides: safety.assessmentId };
  expect(plan([stored(safety)], [overriding])).toEqual({ ...nothing, override: [overriding], alreadyThere: [] });
  expect(plan([stored(safety, { valid: false })], [overriding])).toMatchObject(nothing);
  expect(plan([], [overriding])).toMatchObject(nothing);
  expect(plan([stored(safety)], [{ ...overriding, value: undefined, error }])).toMatchObject(nothing);
});

test('where a person has spoken nothing is written', () => {
  const wanted = [safety, newer, { ...newer, overrides: safety.assessmentId }];
  for (const one of wanted) {
    expect(plan([person], [one])).toMatchObject(nothing);
    expect(plan([stored(safety, { valid: false }), person], [one])).toMatchObject(nothing);
    expect(plan([stored(failed), person], [one])).toMatchObject(nothing);
  }
});
