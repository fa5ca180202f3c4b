/** The environment of the functions, as `src/core/settings/environment.ts` reads it. */
import { CONTRACT } from '../../src/core/contract/contract.ts';
import { SMALL_MALLOC } from '../../src/core/process/malloc.ts';
import { forwardSettings, otlpSettings } from '../../src/core/settings/forward-settings.ts';
import { packed } from '../../src/core/settings/packed.ts';
import { functionSettings, replaySettings, type Settings } from '../../src/core/settings/schema.ts';

/** Lists that are JSON in `.env`. Other lists are names, separated by commas. */
const JSON_LISTS = new Set<string>(['EVALUATION_ALWAYS', 'FEATURE_NAMES', 'NOT_TRAFFIC', 'QUALITY_OBJECTIVES']);

/** Returns the value of a setting in the format of `.env`. */
export function asVariable(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  return Array.isArray(value) && !JSON_LISTS.has(name) ? value.join(',') : JSON.stringify(value);
}

/** Variables that only the functions of a replay read. */
export const replayEnvironment = (settings: Settings): Record<string, string> =>
  variables(settings, Object.keys(replaySettings));

/** Variables that only the function that sends to an OpenTelemetry receiver reads. */
export const otlpEnvironment = (settings: Settings): Record<string, string> =>
  variables(settings, Object.keys(otlpSettings));

/** The settings of the function that forwards files. */
export const FORWARD_NAMES: readonly string[] = [
  ...['STACK_PREFIX', 'DATA_CAPTURE_S3_BUCKET', 'DATA_CAPTURE_S3_PREFIX', 'BEDROCK_MODEL_ID', 'JUDGE_CASCADE'],
  ...Object.keys(forwardSettings),
];

/** Settings that are set, as texts. */
const variables = (settings: Settings, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(settings)
      .filter(([name, value]) => names.includes(name) && value !== undefined)
      .map(([name, value]) => [
        name,
        typeof value === 'object' ? packed(asVariable(name, value)) : asVariable(name, value),
      ]),
  );

/**
 * Share of a function's memory for V8's old generation. The rest is for Node itself (60 MB), for Lambda's runtime (60 MB), and
 * for memory outside the heap: buffers of lines, which are tens of MB if payloads are large. V8 fills the heap with garbage
 * before it collects, and keeps the pages afterwards, so the whole share becomes resident.
 */
const HEAP_SHARE = 0.65;

/**
 * A young generation of 2 MB per semi-space instead of 16 keeps processes small, together with malloc's settings. With
 * 1 MB, garbage collection takes a twentieth more of the processor time. Lambda gives V8 nine tenths of a function's
 * memory, unless NODE_OPTIONS sets any size: then V8 uses only half of the memory that it sees. So both sizes are set.
 */
export const nodeOptions = (memoryMb: number): string =>
  `--max-semi-space-size=2 --max-old-space-size=${Math.floor(memoryMb * HEAP_SHARE)}`;

/** The environment of a function. @param names the settings that it reads */
export const functionEnvironment = (
  settings: Settings,
  workBucket: string,
  budgetTable: string,
  names: readonly string[] = Object.keys(functionSettings),
): Record<string, string> => ({
  ...variables(settings, names),
  WORK_BUCKET: workBucket,
  BUDGET_TABLE: budgetTable,
  // The deployed version, for doctor.
  CONTRACT: String(CONTRACT),
  ...SMALL_MALLOC,
});
