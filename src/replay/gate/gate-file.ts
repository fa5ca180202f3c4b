/** Reads a gate file: the thresholds of a release, and the settings that belong to them, as YAML. */
import { type Document, isNode, LineCounter, parseDocument, type YAMLError } from 'yaml';
import * as z from 'zod';
import { PermanentError, withFacts } from '../../core/errors/errors.ts';
import { nearest } from '../../core/errors/nearest.ts';
import { readText } from '../../core/errors/read-text.ts';
import { parseThreshold, type Threshold } from './thresholds.ts';

const thresholdSchema = z
  .string({ error: 'a text such as request_latency:p95:10% or error_rate:1, without spaces' })
  .meta({
    description:
      'How much worse the second run may be: metric:statistic:limit, with % for a relative limit, or share:percent.',
    examples: [
      'request_latency:p95:10%',
      'error_rate:1',
      'newly_failing:0',
      'new_failures:cut_off:2',
      'judged_worse:5',
    ],
  })
  .transform((text, context): Threshold => {
    try {
      return parseThreshold(text);
    } catch (error) {
      if (!(error instanceof PermanentError)) throw error;
      context.issues.push({ code: 'custom', message: error.message, input: text, params: { complete: true } });
      return z.NEVER;
    }
  });

const AMOUNT = 'US dollars, 0 or more; 0: no limit';
const TOGETHER = 'a whole number from 1 on';

const judgeSchema = z.strictObject(
  {
    model: z
      .string({ error: 'the id of a model' })
      .min(1)
      .describe('The judge to ask. Default: BEDROCK_MODEL_ID.')
      .optional(),
    budgetUsd: z
      .number({ error: AMOUNT })
      .min(0, AMOUNT)
      .describe('Maximum cost of the judge in US dollars. 0: no limit.')
      .optional(),
  },
  { error: 'model and budgetUsd, or {} for the defaults' },
);

/** The published form is docs/gate.schema.json. */
export const gateSchema = z
  .strictObject(
    {
      thresholds: z
        .array(thresholdSchema, { error: 'a list of thresholds such as request_latency:p95:10%' })
        .min(1, 'at least one threshold')
        .describe('The gate passes if every threshold passes.'),
      errorsTogether: z
        .number({ error: TOGETHER })
        .int(TOGETHER)
        .min(1, TOGETHER)
        .describe('Errors are taken to come this many at a time, if they do not show that more do. Default: 1.')
        .optional(),
      judge: judgeSchema
        .describe('Asks the judge about the replies that differ, as --judge does. {}: with the default settings.')
        .optional(),
    },
    { error: 'a mapping with thresholds' },
  )
  .meta({ title: 'Release gate of inference-monitor compare' });

type GateSettings = z.infer<typeof gateSchema>;

interface Mistake {
  message: string;
  got?: unknown;
  expected?: string;
  offset: number;
}

/** @throws PermanentError `FileUnreadable`, `InvalidGateFile` with all mistakes, each with its line and column */
export const readGateFile = (path: string): GateSettings => parseGateFile(readText(path, 'The gate file'), path);

/**
 * @param name the file's name, for messages
 * @throws PermanentError `InvalidGateFile`
 */
export function parseGateFile(text: string, name: string): GateSettings {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const fail = (mistakes: readonly Mistake[]): never => {
    const inOrder = mistakes.toSorted((a, b) => a.offset - b.offset);
    const texts = inOrder.map(({ message, got, expected, offset }) => {
      const { line, col } = lines.linePos(offset);
      return withFacts(message, { got, expected, where: `${name}, line ${line}, column ${col}` });
    });
    throw new PermanentError('InvalidGateFile', texts.join('\n'));
  };
  const unread = [...document.errors, ...document.warnings];
  if (unread.length > 0) {
    const said = ({ code, message }: YAMLError): string =>
      code === 'MULTIPLE_DOCS' ? 'more than one document' : message;
    fail(unread.map((error) => ({ message: `The file is not valid YAML: ${said(error)}`, offset: error.pos[0] })));
  }
  const parsed = gateSchema.safeParse(plainValue(document, fail));
  return parsed.success ? parsed.data : fail(parsed.error.issues.flatMap((issue) => mistakesOf(issue, document)));
}

function plainValue(document: Document, fail: (mistakes: readonly Mistake[]) => never): unknown {
  try {
    return document.toJS();
  } catch (error) {
    // The file has aliases without an anchor, or aliases that multiply its size.
    return fail([{ message: `The file is not valid YAML: ${(error as Error).message}`, offset: 0 }]);
  }
}

function mistakesOf(issue: z.core.$ZodIssue, document: Document): Mistake[] {
  const path = issue.path.map((part) => (typeof part === 'symbol' ? String(part) : part));
  const node = document.getIn(path, true);
  const offset = startOf(document, path);
  if (issue.code === 'unrecognized_keys') return issue.keys.map((key) => unknownKey(key, path, document));
  if (issue.code === 'custom' && issue.params?.complete) return [{ message: issue.message, offset }];
  const got = isNode(node) ? node.toJS(document) : undefined;
  const isThreshold = path[0] === 'thresholds' && path.length === 2;
  const subject = isThreshold ? 'a threshold' : path.join('.') || 'the file';
  const message = `The gate file is invalid: ${subject} is ${got === undefined ? 'missing' : 'not valid'}`;
  return [{ message, got, expected: issue.message, offset }];
}

/** Returns the offset of a value, or of the mapping that should contain it. */
function startOf(document: Document, path: readonly (string | number)[]): number {
  const node = document.getIn(path, true);
  if (isNode(node)) return node.range?.[0] ?? 0;
  return path.length > 0 ? startOf(document, path.slice(0, -1)) : 0;
}

/** The mistake is placed at the value of the key. */
function unknownKey(key: string, path: readonly (string | number)[], document: Document): Mistake {
  const allowed = Object.keys((path[0] === 'judge' ? judgeSchema : gateSchema).shape);
  const meant = nearest(key, allowed);
  return {
    message: 'The gate file is invalid: the key is unknown',
    got: key,
    expected: allowed.join(', ') + (meant === undefined ? '' : `; did you mean ${meant}?`),
    offset: startOf(document, [...path, key]),
  };
}
