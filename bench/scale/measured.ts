/** What `npm run bench -- scale --measure` measured in the emulator, and what cannot be measured there. */
import { existsSync, readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { PerUnit } from './explain.ts';
import type { PlanningSeconds } from './planning.ts';

export const MEASURED_FILE = packagePath('bench', 'scale', 'measured.json');

/** Functions of a run, by what they do. */
export const ROLES = ['starter', 'planner', 'processor', 'evaluator', 'summarizer'] as const;
export type Role = (typeof ROLES)[number];

/** Calls and units of a run. */
export const CALLS = [
  'stateTransition',
  's3Write',
  's3Read',
  'dynamodbWriteUnit',
  'dynamodbReadUnit',
  'eventBridgeEvent',
  'sqsRequest',
  'logsGb',
  'mlflow',
] as const;
export type CallKind = (typeof CALLS)[number];

/** Permits, rates and blocks of the budget are written for as long as a function runs, and claims for each question. */
export const OF_THE_TABLE: readonly CallKind[] = ['dynamodbWriteUnit', 'dynamodbReadUnit'];

export interface Measured {
  /** ISO 8601. */
  at: string;
  machine: string;
  mlflow: string;
  /** What people must know of these figures. */
  note?: string;
  /** Seconds of each function, without the judge's time, explained by runs, files, chunks and captures. */
  seconds: Record<Role, PerUnit>;
  /** The same, for a run that is not judged. */
  secondsUnjudged: Record<Role, PerUnit>;
  /** Of a whole processor, for each file that is planned. */
  planning: PlanningSeconds;
  calls: Record<CallKind, PerUnit>;
  callsUnjudged: Record<CallKind, PerUnit>;
}

/**
 * S3's time to the first byte of a small object, which the emulator does not have. Within a region it is usually 20 to 50 ms;
 * S3's developer guide counts on 100 to 200.
 */
export const S3_SECONDS = 0.04;
/** Requests to S3 for a file that is planned: it is read; one of a list is also found and claimed. */
export const PLANNING_REQUESTS = { backfill: 1, list: 3 };
/** Lambda gives a function a whole processor at this memory (Lambda's developer guide, "Configure Lambda function memory"). */
export const PROCESSOR_MB = 1769;
/** From `StartExecution` to the first state, from one state to the next function, and a function's start from nothing. */
export const STEP_SECONDS = 0.1;
/** A real judge's answer for all scorers (src/monitoring/chunk/chunk-bounds.ts). */
export const JUDGE_SECONDS = 10;

export function readMeasured(): Measured {
  if (!existsSync(MEASURED_FILE)) throw new Error('Nothing is measured yet; run: npm run bench -- scale --measure');
  return JSON.parse(readFileSync(MEASURED_FILE, 'utf8')) as Measured;
}
