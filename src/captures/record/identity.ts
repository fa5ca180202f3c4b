/** Finds the user, the session and the parent span of a request, in its body and in SageMaker's custom attributes. */

import { jsonIn } from '../../core/values/json-in.ts';
import NAMES from '../field-names.json' with { type: 'json' };
import { firstOf } from '../first-of.ts';
import { asText, isObject, type JsonObject } from '../json.ts';
import type { Identity } from '../types.ts';
import { fieldsOf } from '../wire/wire-format.ts';
import { traceparentIn } from './traceparent.ts';

/** Maximum number and length of attributes. A header of custom attributes has at most 1,024 characters. */
const MAX_ATTRIBUTES = 64;
const MAX_VALUE_CHARS = 1024;

/**
 * Adds custom attributes from an object, a list, or a header's text: `a=1,b=2`, `a=1;b=2`, a JSON object, or one value
 * without a name, which is kept as `custom_attributes`.
 */
function addCustomAttributes(found: Map<string, string>, value: unknown): void {
  if (Array.isArray(value)) {
    for (const item of value) addCustomAttributes(found, item);
  } else if (isObject(value)) {
    // Or a list of {name, value} or {key, value}.
    const name = asText(value.name ?? value.key ?? value.Key);
    const text = asText(value.value ?? value.Value);
    if (name !== undefined && text !== undefined) found.set(name, text);
    else addFields(found, value);
  } else if (typeof value === 'string') addHeader(found, value);
}

function addHeader(found: Map<string, string>, header: string): void {
  const parsed = header.trimStart().startsWith('{') ? jsonIn(header) : undefined;
  if (isObject(parsed)) {
    addFields(found, parsed);
    return;
  }
  const pairs = header.split(/[,;&]/).flatMap((pair) => {
    const [name = '', ...value] = pair.split('=');
    const isPair = value.length > 0 && /^[\w.:-]{1,128}$/.test(name.trim());
    return isPair ? [[name.trim(), value.join('=').trim()] as const] : [];
  });
  if (pairs.length > 0) {
    for (const [name, value] of pairs) found.set(name, value);
  } else if (header.trim() !== '') found.set('custom_attributes', header.trim());
}

function addFields(found: Map<string, string>, fields: JsonObject): void {
  for (const [name, value] of Object.entries(fields)) {
    const text = asText(value);
    if (text !== undefined) found.set(name, text);
  }
}

/** Returns the first text under one of the names, place by place. */
const textUnder = (names: readonly string[], ...places: (JsonObject | Map<string, string>)[]) =>
  firstOf(places, (place) =>
    firstOf(names, (name) => {
      if (place instanceof Map) return asText(place.get(name));
      return Object.hasOwn(place, name) ? asText(place[name]) : undefined;
    }),
  );

/** Returns the values at all places where SageMaker may capture custom attributes. */
function customAttributesOf(record: JsonObject, metadata: JsonObject): unknown[] {
  const { endpointInput, endpointOutput } = fieldsOf(record.captureData);
  const places = [metadata, record, endpointInput, endpointOutput].map(fieldsOf);
  return places.flatMap((place) => [place.customAttributes, place.CustomAttributes, place.custom_attributes]);
}

/**
 * @param record the whole capture record.
 * @param metadata its `eventMetadata`.
 * @param request value of the decoded request.
 */
export function identityOf(record: JsonObject, metadata: JsonObject, request: unknown): Identity {
  const custom = new Map<string, string>();
  for (const value of customAttributesOf(record, metadata)) addCustomAttributes(custom, value);
  const body = fieldsOf(request);
  const [given, extra] = [fieldsOf(body.metadata), fieldsOf(body.extra_body)];

  const found = new Map<string, string>();
  addFields(found, given);
  for (const [name, value] of custom) found.set(name, value);
  const kept = [...found].slice(0, MAX_ATTRIBUTES).map(([name, value]) => [name, value.slice(0, MAX_VALUE_CHARS)]);

  const sessionId =
    textUnder(NAMES.session, body, given, extra, custom) ?? textUnder(['sessionId', 'SessionId'], metadata);
  const userId = textUnder(NAMES.user, body, given, extra, custom);
  const replayRun = textUnder(NAMES.replayRun, custom, given, body);
  const named = textUnder(['traceparent'], custom, given);
  const traceparent = traceparentIn(named) ?? traceparentIn(fieldsOf(record.client).traceparent);
  return { sessionId, userId, replayRun, traceparent, attributes: Object.fromEntries(kept) as Record<string, string> };
}
