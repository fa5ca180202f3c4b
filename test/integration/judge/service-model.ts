/** Checks requests and responses against the AWS SDK's own model of a service. */
import { NormalizedSchema } from '@smithy/core/schema';
import type { SchemaRef } from '@smithy/types';

/** Position of the number of required members in a structure's schema. The required members come first. */
const REQUIRED_COUNT = 6;

function requiredMembers(schema: NormalizedSchema): string[] {
  const raw = schema.getSchema() as unknown as unknown[];
  const names = raw[4] as string[];
  return names.slice(0, (raw[REQUIRED_COUNT] as number | undefined) ?? 0);
}

function faultsOfStruct(schema: NormalizedSchema, value: object, where: string, skip: readonly string[]): string[] {
  const members = new Map(schema.structIterator());
  const given = Object.entries(value).filter(([, member]) => member !== undefined && member !== null);
  const faults = given.flatMap(([name, member]) => {
    const memberSchema = members.get(name);
    if (memberSchema === undefined) return [`${where}.${name}: not a member of ${schema.getName()}`];
    return faultsOf(memberSchema, member, `${where}.${name}`);
  });
  if (schema.isUnionSchema()) {
    return given.length === 1
      ? faults
      : [...faults, `${where}: a ${schema.getName()} has one member, not ${given.length}`];
  }
  const names = new Set(given.map(([name]) => name));
  const missing = requiredMembers(schema).filter((name) => !names.has(name) && !skip.includes(name));
  return [...faults, ...missing.map((name) => `${where}.${name}: missing`)];
}

function faultsOf(schema: NormalizedSchema, value: unknown, where: string): string[] {
  if (schema.isDocumentSchema()) return [];
  if (schema.isListSchema()) {
    if (!Array.isArray(value)) return [`${where}: not a list`];
    return value.flatMap((item, index) => faultsOf(schema.getValueSchema(), item, `${where}[${index}]`));
  }
  if (schema.isStructSchema() || schema.isUnionSchema()) {
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return [`${where}: not an object`];
    return faultsOfStruct(schema, value, where, []);
  }
  if (schema.isMapSchema()) {
    if (value === null || typeof value !== 'object') return [`${where}: not an object`];
    return Object.entries(value).flatMap(([key, item]) => faultsOf(schema.getValueSchema(), item, `${where}.${key}`));
  }
  if (schema.isStringSchema()) return typeof value === 'string' ? [] : [`${where}: not a string`];
  if (schema.isNumericSchema()) return typeof value === 'number' ? [] : [`${where}: not a number`];
  if (schema.isBooleanSchema()) return typeof value === 'boolean' ? [] : [`${where}: not a boolean`];
  return [`${where}: a kind that this check does not know`];
}

/**
 * Returns the problems of a JSON body, by the model's schema of the request or response.
 * @param elsewhere members that are not in the body (path, headers)
 */
export function modelFaults(schema: unknown, body: unknown, elsewhere: readonly string[] = []): string[] {
  const normal = NormalizedSchema.of(schema as SchemaRef);
  if (body === null || typeof body !== 'object') return ['body: not an object'];
  return faultsOfStruct(normal, body, 'body', elsewhere);
}
