/** Judges captures with a real MLflow, and sends the parts of the ledger to a receiver, as the queue does. */
import type { SQSRecord } from 'aws-lambda';
import { redactionOf } from '../../src/captures/redact/redaction.ts';
import { readOtlpEnvironment } from '../../src/core/settings/environment.ts';
import type { MlflowClient } from '../../src/mlflow/client.ts';
import { evaluateChunk } from '../../src/monitoring/evaluate/evaluate-chunk.ts';
import { connectOtlp } from '../../src/monitoring/otlp/receiver.ts';
import { sendParts } from '../../src/monitoring/otlp/send-parts.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';
import { memoryLimits } from '../doubles/memory-table.ts';
import { scriptedJudge } from '../doubles/scripted-judge.ts';
import { chunkOf, rangeOf } from './chunk-request.ts';
import { CODE, LLM } from './chunk-rig.ts';
import { TEST_VARIABLES } from './test-environment.ts';

const QUEUE = { QUEUE_URL: 'queue', DEAD_LETTERS_URL: 'dead' };

export class OtlpRig {
  readonly storage = new MemoryStorage();
  readonly table = memoryLimits();
  readonly counts: Record<string, number> = {};
  /** What the functions asked of SQS: the error of a dead letter, or how long a message is hidden. */
  readonly asked: unknown[] = [];
  /** Settings of the function. */
  settings: Record<string, string>;
  readonly #mlflow: MlflowClient;
  readonly #experiment: string;

  constructor(mlflow: MlflowClient, endpoint: string, experiment: string) {
    this.#mlflow = mlflow;
    this.#experiment = experiment;
    this.settings = { OTLP_ENDPOINT: endpoint };
  }

  get #environment() {
    const environment = readOtlpEnvironment({ ...TEST_VARIABLES, ...QUEUE, ...this.settings });
    const rules = redactionOf(environment);
    return rules === undefined ? environment : { ...environment, redaction: { ...rules, key: 'k', keyVersion: 'v1' } };
  }

  /** Judges a file. @returns the keys of the parts, captures first */
  async evaluate(lines: readonly string[], run = 'run', file = 'a'): Promise<string[]> {
    const before = new Set(this.#parts());
    const { id: experimentId } = await this.#mlflow.resolveExperiment(this.#experiment);
    const { storage, table } = this;
    const range = rangeOf(storage, `p/AllTraffic/2026/11/20/10/${file}.jsonl`, lines);
    const options = { evaluate: true, reevaluate: false, sampleRate: 1, dryRun: false, judge: 'converse' as const };
    await evaluateChunk(
      { run, attempt: 0, options, chunk: chunkOf([range], { experimentId }) },
      {
        ...{ storage: storage.storage, table, store: this.#mlflow, environment: this.#environment },
        ...{ judge: scriptedJudge().judge, scorers: [...LLM, ...CODE], always: () => undefined },
        ...{ requestId: run, remainingMs: () => 900_000, answers: memoryLimits() },
      },
    );
    return this.#parts().filter((key) => !before.has(key));
  }

  #parts(): string[] {
    return [...this.storage.objects.keys()]
      .filter((key) => /^ledger\/(captures|verdicts)\/.*\.part\.parquet$/.test(key))
      .sort();
  }

  /** Delivers the events of files. @returns how many the queue delivers again */
  async deliver(keys: readonly string[], more: object = {}): Promise<number> {
    const Records = keys.map((key, n) => ({
      ...{ messageId: `m${n}`, receiptHandle: `h${n}` },
      body: JSON.stringify({ detail: { bucket: { name: 'work' }, object: { key } }, ...more }),
      attributes: { SentTimestamp: String(Date.now()), ApproximateReceiveCount: '1' },
    }));
    const environment = this.#environment;
    const count = (metric: string, value: number): void => {
      this.counts[metric] = (this.counts[metric] ?? 0) + value;
    };
    const { batchItemFailures } = await sendParts(
      { Records: Records as SQSRecord[] },
      {
        ...{ environment, storage: this.storage.storage, table: this.table, mlflow: async () => this.#mlflow },
        connect: () => connectOtlp(environment, count, { baseMs: 1, attempts: 2 }),
        // The key of the run, without Secrets Manager.
        redaction: (settings) => async (keyVersion) => {
          const rules = redactionOf(settings);
          return rules ? { ...settings, redaction: { ...rules, key: 'k', keyVersion: keyVersion ?? '' } } : settings;
        },
        sqs: async (operation, input) => {
          const { MessageAttributes, VisibilityTimeout } = input as Record<
            string,
            { ErrorName: { StringValue: string } }
          >;
          this.asked.push(operation === 'SendMessage' ? MessageAttributes?.ErrorName.StringValue : VisibilityTimeout);
        },
        count,
      },
    );
    return batchItemFailures.length;
  }
}
