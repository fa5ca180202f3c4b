/** What a capture's two payloads mean together: a conversation, inferences, an embedding, an error, or just documents. */

import { errorReply } from '../errors/error-reply.ts';
import { isObject } from '../json.ts';
import { documentOf, isThere } from '../payload/decode-payload.ts';
import type { Capture, CaptureFormat, DecodeOptions, Payload } from '../types.ts';
import { readWirePrompt, readWireReply } from '../wire/registry.ts';
import { conversationOf } from './conversation.ts';
import { asksWithText, summarizeEmbedding } from './embedding.ts';
import { tabularInferences } from './tabular.ts';
import { tokenUsageOf } from './token-usage.ts';

type Interpretation = Pick<
  Capture,
  | 'format'
  | 'wireFormat'
  | 'streamed'
  | 'response'
  | 'conversation'
  | 'inferences'
  | 'inferenceCount'
  | 'inferenceMismatch'
  | 'error'
  | 'usage'
  | 'model'
>;

/**
 * @param baseId id that the inferences' own ids are made of.
 * @param notes collects what a reader should know.
 * @returns with the format, whatever the two sides mean together; of a reply alone, what it alone means.
 */
export function interpret(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId?: string,
  options: DecodeOptions = {},
  notes: string[] = [],
): Interpretation {
  const error = errorReply(response);
  const meaning = error === undefined ? meaningOf(request, response, baseId, options, notes) : undefined;
  const asked = meaning ?? meaningOf(request, undefined, baseId, options, notes);
  const usage = tokenUsageOf(documentOf(response));
  const model = modelOf(documentOf(response)) ?? modelOf(documentOf(request));
  return {
    ...asked,
    ...(error === undefined ? {} : { format: 'error' as const, error }),
    response: meaning?.response ?? response,
    ...(response?.kind === 'event-stream' ? { streamed: true } : {}),
    ...(usage === undefined ? {} : { usage }),
    ...(model === undefined ? {} : { model }),
  };
}

function meaningOf(
  request: Payload | undefined,
  response: Payload | undefined,
  baseId: string | undefined,
  options: DecodeOptions,
  notes: string[],
): Interpretation {
  if (!isThere(request) && !isThere(response)) return { format: 'empty' };
  const reply = readWireReply(documentOf(response));
  const prompt = readWirePrompt(documentOf(request), reply?.wire);
  const embedding = reply === undefined ? embeddingOf(request, response) : undefined;
  if (embedding !== undefined) return embedding;
  // A request for text with an answer that is none of the known ones is looked at below.
  if (reply === undefined && (prompt === undefined || prompt.format === 'text-generation')) {
    const table = tabularInferences(request, response, baseId, options, notes);
    if (table !== undefined) {
      return {
        format: tabularFormat(request, response),
        inferences: table.inferences,
        inferenceCount: table.count,
        inferenceMismatch: table.mismatch,
      };
    }
  }
  return (
    conversationOf({ prompt, reply, request, response, baseId, notes }) ?? { format: plainFormat(request, response) }
  );
}

function embeddingOf(request: Payload | undefined, response: Payload | undefined): Interpretation | undefined {
  const value = documentOf(response);
  if (value === undefined) return undefined;
  // Bare numbers are a vector only in reply to text; an object says by its names what it holds.
  if (Array.isArray(value) && !value.every(isObject) && isThere(request)) {
    const asked = request.kind === 'text' ? request.value : documentOf(request);
    if (!asksWithText(asked)) return undefined;
  }
  const summary = summarizeEmbedding(value);
  if (summary === undefined) return undefined;
  return { format: 'embedding', response: { ...(response as Payload), value: summary } };
}

const tabularFormat = (request: Payload | undefined, response: Payload | undefined): CaptureFormat => {
  // The first side that is of a kind which says it.
  const kinds = [request?.kind, response?.kind];
  const telling = kinds.filter((kind) => kind === 'csv' || kind === 'json' || kind === 'jsonlines');
  if (telling[0] === 'csv') return 'tabular-csv';
  return telling.includes('jsonlines') ? 'jsonlines' : 'tabular-json';
};

/** The format of an exchange that is neither a conversation nor a table. */
function plainFormat(request: Payload | undefined, response: Payload | undefined): CaptureFormat {
  const kinds = [request, response].filter(isThere).map((payload) => payload.kind);
  if (kinds.includes('binary')) return 'binary';
  if (kinds.includes('jsonlines')) return 'jsonlines';
  if (kinds.some((kind) => kind === 'json' || kind === 'event-stream' || kind === 'csv')) return 'json';
  return 'text';
}

function modelOf(value: unknown): string | undefined {
  const body = Array.isArray(value) ? value[0] : value;
  if (!isObject(body)) return undefined;
  for (const name of ['model', 'modelId', 'model_id', 'modelVersion', 'model_name']) {
    const model = body[name];
    if (typeof model === 'string' && model !== '') return model;
  }
  return undefined;
}
