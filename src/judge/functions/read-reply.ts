/** Reads the reply of a scorer function. */

import { cut } from '../../captures/trace/text.ts';
import { PipelineError, withFacts } from '../../core/errors/errors.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { describeValues, readValue } from '../../core/values/scorer-values.ts';
import { CallFailure } from '../errors.ts';
import type { JudgeScorer, Verdict } from '../types.ts';
import { MAX_REPLY_BYTES, scorerResultSchema } from './contract.ts';

/** A failure of the function. Its name is the code of an error verdict, whose message may quote the capture. */
export class ScorerFault extends PipelineError {}

/** The outcome of a record. */
export type RecordOutcome =
  | Pick<Extract<Verdict, { outcome: 'verdict' }>, 'outcome' | 'value' | 'rationale'>
  | Pick<Extract<Verdict, { outcome: 'error' }>, 'outcome' | 'error'>;
/** With the reported cost in US dollars. */
type ReadResult = RecordOutcome & { usd?: number | undefined };

const MAX_ERROR_CHARS = 1000;

/** Returns what a function says of an error. */
export function errorText(error: unknown, name = 'name', message = 'message'): string {
  const said = Object(error);
  return cut([said[name], said[message]].filter((part) => typeof part === 'string').join(': '), MAX_ERROR_CHARS);
}

/** Returns a text of JSON with `null` for the numbers that Python writes and JSON does not have. */
function withoutNaN(text: string): string {
  let isString = false;
  return text.replace(/\\.|"|-?\b(?:NaN|Infinity)\b/gs, (token) => {
    if (token === '"') isString = !isString;
    return isString || token === '"' || token.startsWith('\\') ? token : 'null';
  });
}

/**
 * @param count records that were asked about
 * @returns an outcome for each record, in their order
 * @throws ScorerFault if the reply is not one of so many results; CallFailure `refused` if the function does not have the scorer
 */
export function readReply(text: string, scorer: JudgeScorer, count: number): ReadResult[] {
  if (Buffer.byteLength(text) > MAX_REPLY_BYTES) throw replyTooLong();
  const { results, error } = Object(jsonIn(text) ?? jsonIn(withoutNaN(text))) as Record<string, unknown>;
  if (Object(error).name === 'UnknownScorer')
    throw new CallFailure('refused', 'The function does not have this scorer');
  if (error !== undefined) throw new ScorerFault('ScorerFailed', errorText(error));
  if (!Array.isArray(results)) {
    const facts = { got: text.slice(0, 100), expected: '{"results":[…]}' };
    throw new ScorerFault('ScorerReplyUnreadable', 'The reply of the function cannot be read', facts);
  }
  if (results.length === count) return results.map((result) => readResult(result, scorer));
  const facts = { got: String(results.length), expected: String(count) };
  throw new ScorerFault('ScorerWrongLength', 'The function did not answer each record', facts);
}

export const replyTooLong = (): ScorerFault =>
  new ScorerFault('ScorerReplyTooLong', 'The reply of the function is too long', {
    expected: `at most ${MAX_REPLY_BYTES} bytes`,
  });

function readResult(result: unknown, { name, values }: JudgeScorer): ReadResult {
  const wrong = (code: string, what: string, got: unknown, expected: string): ReadResult => {
    const message = withFacts(what, { got: got === undefined ? 'nothing' : got, expected });
    return { outcome: 'error', error: { code, message } };
  };
  const { error, value, name: given = name, usd, rationale } = Object(result) as Record<string, unknown>;
  if (error !== undefined) return { outcome: 'error', error: { code: 'ScorerFailed', message: errorText(error) } };
  if (given !== name) return wrong('ScorerUnknownName', 'The result is of another scorer', given, name);
  if (value === undefined || readValue(values, value) !== value)
    return wrong('ScorerWrongValue', 'The value is not one of the scorer', value, describeValues(values));
  const { data } = scorerResultSchema.safeParse(result);
  if (data === undefined || 'error' in data)
    return wrong('ScorerWrongValue', 'The result is not in form', { usd, rationale }, 'dollars and a text');
  return { outcome: 'verdict', value: data.value, rationale: data.rationale ?? '', usd: data.usd };
}
