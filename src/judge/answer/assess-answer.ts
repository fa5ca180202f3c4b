/** Evaluates a model's answer: which scorers it answers, and which to ask again. */
import { VERDICT_ERRORS, type VerdictProblem } from '../errors.ts';
import type { JudgeScorer, ModelAnswer } from '../types.ts';
import { correctionOf, problemOf, type Reading, readAnswer } from './read-answer.ts';

/**
 * Returns one reading for each asked scorer, in the same order, and by name the problems of scorers that must be asked
 * again.
 * @param record returns the record that the judge has read
 */
export function assessAnswer(answer: ModelAnswer, asked: readonly JudgeScorer[], record?: () => string) {
  const read = readAnswer(answer, asked, record);
  if (!read.readable) {
    const { code, problem } = unreadable(answer, read.problem);
    const message = `The judge’s answer could not be read: ${problem}`;
    return {
      readings: asked.map((): Reading => ({ kind: 'missing' })),
      problems: new Map(asked.map(({ name }) => [name, { code, message }])),
      inForm: code !== VERDICT_ERRORS.unreadable,
      correction: problem,
    };
  }
  const readings = asked.map(({ name }): Reading => read.byScorer.get(name) ?? { kind: 'missing' });
  const problems = new Map<string, VerdictProblem>();
  const corrections: string[] = [];
  asked.forEach((scorer, index) => {
    const reading = readings[index] as Reading;
    if (reading.kind === 'verdict') return;
    const ifMissing = answer.stop === 'cut' ? VERDICT_ERRORS.cut : VERDICT_ERRORS.missing;
    const code = reading.kind === 'value' ? VERDICT_ERRORS.value : ifMissing;
    problems.set(scorer.name, { code, message: problemOf(scorer, reading) });
    corrections.push(correctionOf(scorer, reading));
  });
  /** `inForm`: the answer, possibly cut, has the requested form. `correction`: describes the problems to the judge. */
  return { readings, problems, inForm: true, correction: corrections.join('; ') };
}

function unreadable({ stop }: ModelAnswer, problem: string): { code: VerdictProblem['code']; problem: string } {
  if (stop === 'cut') return { code: VERDICT_ERRORS.cut, problem: 'it was cut off at its bound of tokens' };
  if (stop === 'context') return { code: VERDICT_ERRORS.tooLong, problem: 'the record filled the context window' };
  return { code: VERDICT_ERRORS.unreadable, problem };
}

/** Returns the reason to give up if the same question would end in the same way, otherwise `undefined`. */
export function finalStop({ stop, stopReason, text }: ModelAnswer): VerdictProblem | undefined {
  const said = text.trim() === '' ? '' : `: ${text.trim().slice(0, 200)}`;
  if (stop === 'guardrail')
    return { code: VERDICT_ERRORS.guardrail, message: `A guardrail intervened (${stopReason})${said}` };
  if (stop === 'filtered')
    return { code: VERDICT_ERRORS.filtered, message: `The judge’s content filter intervened (${stopReason})${said}` };
  return undefined;
}
