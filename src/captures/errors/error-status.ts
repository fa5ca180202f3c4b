/** Derives the HTTP status of an error reply from its body, since Data Capture records none. */
import { STATUS_CODES } from 'node:http';
import { firstOf } from '../../core/values/first-of.ts';
import { field, type JsonObject } from '../json.ts';
import names from './error-names.json' with { type: 'json' };

const MIN_ERROR_STATUS = 400;
const MAX_ERROR_STATUS = 599;

/** Returns the status of an error from a number, or from a text of three digits. */
export function statusOf(value: unknown): number | undefined {
  const number = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  const isStatus =
    typeof number === 'number' && Number.isInteger(number) && number >= MIN_ERROR_STATUS && number <= MAX_ERROR_STATUS;
  return isStatus ? number : undefined;
}

/** Returns the status under one of the usual names. */
export const statusIn = (body: JsonObject): number | undefined =>
  firstOf(names.statusFields, (name) => statusOf(field(body, name)));

/** Error types with one documented status: OpenAI, Anthropic, vLLM, TorchServe, TGI. */
const STATUS_OF_TYPE: Record<string, number> = names.statusOfType;

/** HTTP's own phrases as whole messages: `Not Found`, `BAD_REQUEST`. */
const STATUS_OF_PHRASE = new Map(
  Object.entries(STATUS_CODES).flatMap(([code, phrase]) =>
    Number(code) >= MIN_ERROR_STATUS && phrase !== undefined ? [[phrase.toLowerCase(), Number(code)] as const] : [],
  ),
);

export function statusOfPhrase(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  const plain = text.trim().replace(/[.!]$/, '').replaceAll('_', ' ').toLowerCase();
  return STATUS_OF_PHRASE.get(plain.replace('temporarily ', '').replace('time-out', 'timeout'));
}

export function statusOfType(type: unknown): number | undefined {
  const name = typeof type === 'string' ? type.toLowerCase() : '';
  return Object.hasOwn(STATUS_OF_TYPE, name) ? STATUS_OF_TYPE[name] : statusOfPhrase(type);
}
