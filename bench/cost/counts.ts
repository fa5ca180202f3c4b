/** The counts of calls that `npm run bench -- cost --write` keeps: of docs/scale.md. */
import { readFileSync } from 'node:fs';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { Units } from './count-calls.ts';

export const COUNTS_FILE = packagePath('bench', 'cost', 'counts.json');

/** What the files of one window took, in total. */
export interface Counted {
  /** Captures in each file. */
  captures: number;
  files: number;
  runs: number;
  /** Requests to MLflow. */
  mlflow: number;
  units: Units;
}

export interface Counts {
  /** ISO 8601. */
  at: string;
  machine: string;
  mlflow: string;
  /** By captures a file, the fewest first. */
  counted: Counted[];
}

export const readCounts = (): Counts => JSON.parse(readFileSync(COUNTS_FILE, 'utf8')) as Counts;
