/** MLflow's review queues (3.14 and newer): a list of traces that people label, with the questions to answer. */

import * as z from 'zod';
import { PermanentError } from '../../core/errors/errors.ts';
import { batches } from '../../core/values/batches.ts';
import { describeValues, valueNames } from '../../core/values/scorer-values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import { MlflowRefusedError, orAbsent } from '../../mlflow/errors.ts';
import { pagesOf } from '../../mlflow/existing-traces.ts';
import { anyReply } from '../../mlflow/replies.ts';
import type { Call } from '../../mlflow/rest.ts';
import type { Rest } from './assessed-traces.ts';

const schemaReply = z.object({
  label_schema: z.object({
    schema_id: z.string(),
    input: z
      .object({
        pass_fail: z.unknown().optional(),
        categorical: z.object({ options: z.array(z.string()).default([]) }).optional(),
      })
      .default({}),
  }),
});
const queueReply = z.object({ review_queue: z.object({ queue_id: z.string() }) });
const itemsReply = z.object({
  items: z.array(z.object({ item_id: z.string() })).default([]),
  next_page_token: z.string().optional(),
});

/** Items per request. */
const PAGE = 100;
/** MLflow's own limit. */
const MAX_INSTRUCTION_CHARS = 1000;

export const queueName = (scorer: string): string => `labels: ${scorer}`;

/** A server without review queues lacks all of their routes, whatever its version. */
type FoundQueue = 'no queues' | { id: string | undefined };

type Named = 'review-queues' | 'label-schemas';
const byName = (what: Named, experimentId: string, name: string): Call => ({
  method: 'GET',
  path: `/api/3.0/mlflow/${what}/get-by-name`,
  query: { experiment_id: experimentId, name },
});

/** Asks the server whether it has review queues, and for the scorer's queue. */
export async function findQueue(rest: Rest, experimentId: string, scorer: string): Promise<FoundQueue> {
  try {
    const call = byName('review-queues', experimentId, queueName(scorer));
    return { id: (await rest.repeat(call, queueReply).catch(orAbsent))?.review_queue.queue_id };
  } catch (error) {
    if (error instanceof MlflowRefusedError && error.routeMissing) return 'no queues';
    throw error;
  }
}

/** Finds a named object in an experiment, or creates it. Another process may create it at the same moment. */
async function ensured<T>(rest: Rest, what: Named, json: { experiment_id: string; name: string }, reply: z.ZodType<T>) {
  const find = () => rest.repeat(byName(what, json.experiment_id, json.name), reply).catch(orAbsent);
  const found = await find();
  if (found !== undefined) return found;
  try {
    return await rest.repeat({ method: 'POST', path: `/api/3.0/mlflow/${what}/create`, json }, reply);
  } catch (error) {
    const other = error instanceof MlflowRefusedError ? await find() : undefined;
    if (other === undefined) throw error;
    return other;
  }
}

/**
 * Returns the label schema with the question, whose answers are values of the scorer. A schema that people made is used
 * unchanged.
 */
async function schemaOf(rest: Rest, experimentId: string, scorer: JudgeScorer): Promise<string> {
  const { name, values, question } = scorer;
  const json = {
    experiment_id: experimentId,
    name,
    type: 'FEEDBACK',
    // A list shows no thumbs, of which one would seem to be the right answer.
    input: { categorical: { options: valueNames(values), multi_select: false } },
    instruction: question.slice(0, MAX_INSTRUCTION_CHARS),
    enable_comment: true,
  };
  const { label_schema: schema } = await ensured(rest, 'label-schemas', json, schemaReply);
  const { pass_fail: passFail, categorical } = schema.input;
  const isTwofold = values.kind === 'yes-no' || values.kind === 'boolean';
  const isFit =
    (isTwofold && passFail !== undefined) || valueNames(values).every((one) => categorical?.options.includes(one));
  if (!isFit) {
    throw new PermanentError('LabelSchemaUnfit', 'A label schema has the name of the scorer, but not its values', {
      got: categorical === undefined ? 'no list of options' : `${categorical.options.length} options`,
      expected: `${describeValues(values)}; rename or delete that label schema`,
      where: `label schema ${name}`,
    });
  }
  return schema.schema_id;
}

/**
 * Returns the scorer's queue: a list of traces for people to label, with the questions to answer. Creates the queue if
 * necessary.
 *
 * @throws PermanentError `LabelSchemaUnfit`
 */
export async function queueOf(rest: Rest, experimentId: string, scorer: JudgeScorer): Promise<string> {
  const schemaId = await schemaOf(rest, experimentId, scorer);
  const name = queueName(scorer.name);
  const json = { experiment_id: experimentId, name, queue_type: 'CUSTOM', schema_ids: [schemaId] };
  const { review_queue: queue } = await ensured(rest, 'review-queues', json, queueReply);
  return queue.queue_id;
}

/** Puts traces into the queue. Traces that are already in it are unchanged, reviewed or not. */
export async function addToQueue(rest: Rest, queueId: string, traceIds: readonly string[]): Promise<void> {
  for (const batch of batches(traceIds, PAGE)) {
    const json = { queue_id: queueId, item_type: 'TRACE', item_ids: batch };
    await rest.repeat({ method: 'POST', path: '/api/3.0/mlflow/review-queues/items/add', json }, anyReply);
  }
}

/** Returns the traces that people have set aside without a label. */
export async function declinedIn(rest: Rest, queueId: string): Promise<Set<string>> {
  const declined = new Set<string>();
  const asked = { queue_id: queueId, status: 'DECLINED', max_results: String(PAGE) };
  const list = { method: 'GET', path: '/api/3.0/mlflow/review-queues/items/list' } as const;
  const callOf = (token: object): Call => ({ ...list, query: { ...asked, ...token } });
  for await (const { items } of pagesOf(rest, itemsReply, callOf)) {
    for (const { item_id: id } of items) declined.add(id);
  }
  return declined;
}
