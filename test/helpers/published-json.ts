/** What `--json` prints, against the schemas that the package publishes. */
import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { packagePath } from '../../src/core/process/package-folder.ts';

/** A published schema lets later versions print more. Here every field has to be in it. */
function strict(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(strict);
  if (typeof schema !== 'object' || schema === null) return schema;
  const all = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value)]));
  return all.type === 'object' && 'properties' in all ? { additionalProperties: false, ...all } : all;
}

/** Expects that a command's published schema describes the whole of what it printed. Returns the output. */
export function expectPublished<T>(command: string, stdout: string): T {
  const printed: unknown = JSON.parse(stdout);
  const { title: _, ...schema } = JSON.parse(readFileSync(packagePath('schemas', `${command}.json`), 'utf8'));
  z.fromJSONSchema(strict(schema) as never).parse(printed);
  return printed as T;
}
