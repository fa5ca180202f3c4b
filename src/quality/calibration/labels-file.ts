/**
 * Reads labels from a file with one JSON object per line:
 *
 *     {"request": "…", "reply": "…", "scorer": "safety", "label": "no", "reason": "…"}
 *
 * `request` is the user's message or the list of messages in OpenAI's format. `reply` is a text or a message with its
 * tool calls. `system`, `tools`, `reason` and `id` are optional. If a line contains `verdict` (and `rationale`), that
 * verdict is compared and the judge is not asked.
 */

import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import * as z from 'zod';
import type { ChatMessage } from '../../captures/types.ts';
import { PermanentError } from '../../core/errors/errors.ts';
import { nearest } from '../../core/errors/nearest.ts';
import { packagePath } from '../../core/process/package-folder.ts';
import { jsonIn } from '../../core/values/json-in.ts';
import { describeValues, readLabel } from '../../core/values/scorer-values.ts';
import type { JudgeScorer } from '../../judge/types.ts';
import type { AssessmentValue } from '../../mlflow/types.ts';
import type { LabeledItem } from './types.ts';

const messageSchema = z.looseObject({
  role: z.string().min(1),
  content: z.union([z.string(), z.array(z.unknown()), z.null()]).default(null),
});
const valueSchema = z.union([z.string(), z.number(), z.boolean()]);

const lineSchema = z.looseObject({
  id: z
    .union([z.string().min(1), z.number()])
    .transform(String)
    .optional(),
  request: z.union([z.string(), z.array(messageSchema)]),
  reply: z.union([z.string(), messageSchema]),
  system: z.string().optional(),
  tools: z.array(z.unknown()).optional(),
  scorer: z.string().min(1),
  label: valueSchema,
  reason: z.string().optional(),
  verdict: valueSchema.optional(),
  rationale: z.string().optional(),
  judge: z.string().optional(),
});

type LabeledScorer = Pick<JudgeScorer, 'name' | 'values'>;

/** Number of invalid lines in the error. In a file of another format all lines are invalid. */
const MAX_FAULTS = 10;

const digest = (value: unknown): string => hash('sha256', JSON.stringify(value)).slice(0, 12);

/**
 * Reads labels from the text of a file with one JSON object per line:
 *
 *     {"request": "…", "reply": "…", "scorer": "safety", "label": "no", "reason": "…"}
 *
 * `request` is the user's message or the list of messages in OpenAI's format. `reply` is a text or a message with its
 * tool calls. `system`, `tools`, `reason` and `id` are optional. If a line contains `verdict` (and `rationale`), that
 * verdict is compared and the judge is not asked.
 *
 * @param file for errors
 * @throws PermanentError `InvalidLabels` with the invalid lines
 *
 * @example
 *     const items = parseLabels(readFileSync('labels.jsonl', 'utf8'), 'labels.jsonl', scorers);
 */
export function parseLabels(text: string, file: string, scorers: readonly LabeledScorer[]): LabeledItem[] {
  const faults: string[] = [];
  const items: LabeledItem[] = [];
  const ids = new Map<string, number>();
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue;
    try {
      const item = parseLine(line, scorers);
      // Two people may label the same question about the same exchange.
      const times = (ids.get(item.id) ?? 0) + 1;
      ids.set(item.id, times);
      items.push(times === 1 ? item : { ...item, id: `${item.id}-${times}` });
    } catch (error) {
      faults.push(`line ${index + 1}: ${(error as Error).message}`);
    }
  }
  if (faults.length > 0 || items.length === 0) {
    const shown = faults.slice(0, MAX_FAULTS);
    const more = faults.length > shown.length ? `; and ${faults.length - shown.length} more` : '';
    throw new PermanentError('InvalidLabels', 'The labels are invalid', {
      got: faults.length === 0 ? 'no lines' : `${shown.join('; ')}${more}`,
      expected: 'a JSON object per line: {"request", "reply", "scorer", "label"}',
      where: file,
    });
  }
  return items;
}

function parseLine(line: string, scorers: readonly LabeledScorer[]): LabeledItem {
  const json = jsonIn(line);
  if (json === undefined) throw new Error('not JSON');
  const parsed = lineSchema.safeParse(json);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the line'}: ${message}`);
    throw new Error(faults.join(', '));
  }
  const { id, request, reply, system, tools, scorer, label, reason, verdict, rationale, judge } = parsed.data;
  const values = scorers.find(({ name }) => name === scorer)?.values;
  if (values === undefined) {
    // A list of all scorers would hide the faults of the next lines: a message has an end.
    const names = scorers.map(({ name }) => name);
    const meant = nearest(scorer, names);
    const hint = meant === undefined ? `; the scorers are ${names.join(', ')}` : ` (did you mean ${meant}?)`;
    throw new Error(`unknown scorer ${scorer}${hint}`);
  }
  const read = (name: string, given: unknown): AssessmentValue => {
    const value = readLabel(values, given);
    if (value === undefined)
      throw new Error(`${name} ${JSON.stringify(given)} is not a value of ${scorer} (${describeValues(values)})`);
    return value;
  };
  const messages: ChatMessage[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    ...(typeof request === 'string' ? [{ role: 'user', content: request }] : request),
  ];
  const message: ChatMessage = typeof reply === 'string' ? { role: 'assistant', content: reply } : reply;
  return {
    ...{ id: id ?? digest([messages, message, scorer]), scorer, messages, reply: message, tools },
    ...{ label: read('label', label), labelRationale: reason },
    ...{ verdict: verdict === undefined ? undefined : read('verdict', verdict), verdictRationale: rationale, judge },
  };
}

// ------------------------------------------------------------------------------------------------------ anchor set
// Exchanges with fixed labels, which show whether the judge or the endpoint has changed.

/** Relative to the project's root. */
const ANCHORS_FILE = 'src/quality/calibration/anchors.jsonl';

/**
 * Reads the anchor set: exchanges with fixed labels, which show whether the judge or the endpoint has changed.
 *
 * @param only names of the scorers to read; default: all of `scorers`
 * @throws PermanentError `InvalidLabels`
 */
export function readAnchors(scorers: readonly LabeledScorer[], only?: readonly string[]): LabeledItem[] {
  const text = readFileSync(packagePath(ANCHORS_FILE), 'utf8');
  // Items of scorers that the user has removed are left out. A line without a scorer is a fault, which is reported.
  const kept = new Set([undefined, ...(only ?? scorers.map(({ name }) => name))]);
  const lines = text.split('\n').filter((line) => kept.has((jsonIn(line) as Partial<LabeledItem>)?.scorer));
  return parseLabels(lines.join('\n'), ANCHORS_FILE, scorers);
}
