/** Interprets tabular requests and replies as inferences: one per row, with features and prediction. */

import { isObject, type JsonObject } from '../json.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import type { DecodeOptions, Inferences, Payload } from '../types.ts';
import { readGenericReply } from '../wire/registry.ts';
import { listInferences } from './inferences.ts';
import { isPredictions, predictionsOf, whyMoved, whyUnclear } from './reply-rows.ts';
import { answeredTable, requestTable, type Table } from './request-rows.ts';

/**
 * Maximum number of inferences that are listed. Each becomes a span of about 600 bytes: 10,000 are 6 MB, which still fits
 * one request to MLflow. The rest stays in the payload, with a note.
 */
const MAX_ROWS = 10_000;

/** Unwraps `{features: […]}` and `{data: {features: {values: […]}}}` (SageMaker's built-in algorithms). */
function cellsOf(row: unknown): unknown {
  if (!isObject(row)) return row;
  const features = row.features ?? (isObject(row.data) ? row.data.features : undefined);
  if (isObject(features) && Array.isArray(features.values)) return features.values;
  return features ?? row;
}

/** Names the features, by position where there is no name. */
function featuresOf(row: unknown, names: readonly string[]): JsonObject {
  const cells = cellsOf(row);
  if (isObject(cells)) return cells;
  const list = Array.isArray(cells) ? cells : [cells];
  return Object.fromEntries(list.map((cell, position) => [names[position] ?? String(position), cell]));
}

// ------------------------------------------------------------------------------------------------------ inferences

/**
 * Interprets an exchange as inferences, one per row.
 *
 * @param request `undefined` when it was not captured.
 * @param reply `undefined` when it was not captured, or is an error.
 * @param baseId `inferenceId`, else `eventId`.
 * @param notes collects facts that a reader should know.
 * @returns `undefined` when the exchange is not tabular.
 */
export function tabularInferences(
  request: Payload | undefined,
  reply: Payload | undefined,
  baseId: string | undefined,
  options: DecodeOptions,
  notes: string[],
): Inferences | undefined {
  const table = isThere(request) ? (requestTable(request, options) ?? tableOfAnswered(request, reply)) : undefined;
  if (table === undefined) {
    if (isThere(request) && reply?.kind !== 'csv') return undefined;
    if (!isThere(reply) || !isPredictions(reply)) return undefined;
  }
  const inputs = table?.rows.length;
  const predictions = isThere(reply) ? (predictionsOf(reply, inputs, options.csvHeader) ?? [reply.value]) : undefined;
  const outputs = predictions?.length;
  const count = Math.max(inputs ?? 0, outputs ?? 0);
  if (count === 0) return undefined;
  const names = options.featureNames?.length ? options.featureNames : (table?.names ?? []);
  checkNames(table, options, notes);
  const mismatch = inputs !== undefined && outputs !== undefined && inputs !== outputs && { inputs, outputs };
  const call = { count, most: MAX_ROWS, what: 'inferences', baseId, mismatch, notes };
  const found = listInferences(call, (index) => ({
    ...(inputs !== undefined && index < inputs ? { features: featuresOf(table?.rows[index], names) } : {}),
    ...(predictions !== undefined && index < predictions.length ? { prediction: predictions[index] } : {}),
  }));
  if (!isThere(reply)) return found;
  const isCounted = inputs !== undefined && !table?.isFlat;
  const why = isCounted ? whyMoved(request, reply, options.csvHeader) : whyUnclear(request, reply);
  return { ...found, ...unindexed(why, notes) };
}

/** Marks predictions that are kept from no label, since they may be those of other inferences. @param why `undefined` if they are not */
export function unindexed(why: string | undefined, notes: string[]): Pick<Inferences, 'unclear'> {
  if (why === undefined) return {};
  notes.push(`${why}; it is not kept as a prediction`);
  return { unclear: true };
}

/** Texts are rows if a list answers them, but not a list of texts: that is a conversation. */
function tableOfAnswered(request: Payload, reply: Payload | undefined): Table | undefined {
  if (!isThere(reply) || readGenericReply(documentOf(reply)) !== undefined) return undefined;
  if (reply.kind !== 'csv' && documentOf(reply) === undefined) return undefined;
  const table = answeredTable(request);
  return table && predictionsOf(reply, table.rows.length) && table;
}

function checkNames(table: Table | undefined, options: DecodeOptions, notes: string[]): void {
  const expected = options.featureNames?.length;
  const first = cellsOf(table?.rows[0]);
  if (expected === undefined || expected === 0 || !Array.isArray(first) || first.length === expected) return;
  notes.push(`${expected} feature names are set, the first row has ${first.length} features`);
}
