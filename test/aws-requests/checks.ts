/** Holds the requests in the logs of a folder against the models, each once. */
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { callOfStep, type LoggedStep, tooMuchData } from './integrations.ts';
import type { ServiceModels } from './models.ts';
import { type Violation, violationsOf } from './rules.ts';
import { type Call, type LoggedRequest, readCall } from './wire.ts';

/** Requests without a signature of AWS, which no SDK sends, or of an API without a model. */
const UNSIGNED = 'not signed';

export class RequestChecks {
  readonly #folder: string;
  readonly #models: ServiceModels;
  readonly #read = new Map<string, number>();
  /** Requests by operation, such as `s3:PutObject`, so far. */
  readonly counts = new Map<string, number>();

  constructor(folder: string, models: ServiceModels) {
    this.#folder = folder;
    this.#models = models;
  }

  /** Returns what is wrong with the requests since the last call. */
  next(): Violation[] {
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith('.jsonl'))
      .flatMap((name) => this.#newLines(join(this.#folder, name)))
      .flatMap((line) => this.check(JSON.parse(line) as LoggedRequest | LoggedStep));
  }

  check(entry: LoggedRequest | LoggedStep): Violation[] {
    const isStep = 'resource' in entry;
    const call = isStep ? callOfStep(entry, this.#models) : readCall(entry, this.#models);
    const found = isStep ? tooMuchData(entry) : [];
    if (typeof call === 'string')
      return [...found, { operation: 'unknown', where: '', got: call, rule: 'a known operation' }];
    if (call === undefined) {
      if (!isStep) this.#count(UNSIGNED);
      return found;
    }
    this.#count(nameOf(call, isStep));
    return [...found, ...violationsOf(call)];
  }

  #count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1);
  }

  /** The complete lines that were appended to a file since the last call. */
  #newLines(path: string): string[] {
    const from = this.#read.get(path) ?? 0;
    const file = openSync(path, 'r');
    try {
      const buffer = Buffer.alloc(fstatSync(file).size - from);
      const length = readSync(file, buffer, 0, buffer.length, from);
      const end = buffer.subarray(0, length).lastIndexOf('\n') + 1;
      this.#read.set(path, from + end);
      return buffer.toString('utf8', 0, end).split('\n').filter(Boolean);
    } finally {
      closeSync(file);
    }
  }
}

const nameOf = ({ model, operation }: Call, isStep: boolean): string =>
  `${isStep ? 'states → ' : ''}${model.name}:${operation.name}`;
