/** Replays on a deployed stack: captures, executions, results, and the requests that reached the endpoint. */

import { join } from 'node:path';
import { ListExecutionsCommand } from '@aws-sdk/client-sfn';
import type * as z from 'zod';
import { areaOf, replayKeys } from '../../src/core/contract/work-keys.ts';
import { openRun } from '../../src/replay/compare/open-run.ts';
import { FILES } from '../../src/replay/results/result-set.ts';
import type { StandInEndpoint } from '../doubles/recording-endpoint.ts';
import { recordSchema, summarySchema } from './aiperf-files.ts';
import { DeployedPipeline, type Outcome } from './deployed-pipeline.ts';
import { captureLine, chatBody, readLines } from './replay.ts';

/** A captured request with a number, by which the endpoint's records of arrivals identify it. */
export interface NumberedCapture {
  number: number;
  eventId: string;
  /** Seconds after the first capture. */
  second: number;
  body: Buffer;
  contentType: string;
  streaming: boolean;
  line: string;
}

const KINDS = ['json', 'stream', 'csv', 'binary'] as const;

/** Alternates between chats with unusual whitespace, streamed chats, tables, and binary data. */
export function numberedCapture(number: number, second: number, eventId = `event-${number}`): NumberedCapture {
  const mark = `#${String(number).padStart(6, '0')}`;
  const kind = KINDS[number % KINDS.length];
  const bodies = {
    json: ` {"messages" : [{"role":"user","content":"[${mark}] ünïcode"}],\t"n": 1.0} `,
    stream: chatBody(`[${mark}] hello`, { stream: true, stream_options: { include_usage: true } }),
    csv: `note,x\n${mark} ,1.50\n`,
    binary: Buffer.concat([Buffer.from([0, 255, 128, 10]), Buffer.from(mark), Buffer.from([13, 0])]),
  };
  const contentTypes = { json: 'application/json', stream: 'application/json', csv: 'text/csv', binary: 'image/png' };
  const body = Buffer.from(bodies[kind ?? 'json']);
  const contentType = contentTypes[kind ?? 'json'];
  const encoding = { json: 'JSON', stream: 'JSON', csv: 'CSV', binary: 'BASE64' }[kind ?? 'json'];
  const data = encoding === 'BASE64' ? body.toString('base64') : body.toString();
  const line = captureLine(eventId, second, { data, encoding, contentType });
  return { number, eventId, second, body, contentType, streaming: kind === 'stream', line };
}

export interface ReplayResults {
  records: z.infer<typeof recordSchema>[];
  summary: z.infer<typeof summarySchema>;
  /** Names of the files with figures. */
  names: string[];
}

export class DeployedReplay extends DeployedPipeline {
  readonly #monitoring: string;

  /** @param monitoring the deployed stack, by its monitoring pipeline */
  constructor(monitoring: DeployedPipeline) {
    const { environment, prefix, outputs } = monitoring;
    super(environment, prefix, { ...outputs, stateMachineArn: outputs.replayStateMachineArn });
    this.#monitoring = outputs.stateMachineArn.replace(':stateMachine:', ':execution:');
  }

  /** The execution that traces and judges the exchanges of a replay. */
  monitoringArn(run: string): string {
    return `${this.#monitoring}:replay-${run}`;
  }

  async text(key: string): Promise<string> {
    return (await this.storage.getText(this.outputs.workBucket, key))?.text ?? '';
  }

  /** Keys under a prefix of the work bucket, without the prefix. */
  async names(prefix: string): Promise<string[]> {
    return (await this.keysUnder(prefix)).map((key) => key.slice(prefix.length));
  }

  /** The results, with each file checked against AIPerf's format. */
  async results(run: string): Promise<ReplayResults> {
    const folder = areaOf('replayResults', run);
    const location = `s3://${this.outputs.workBucket}/${folder}`;
    const { directory, dispose } = await openRun(location, async () => this.storage);
    const records = readLines(join(directory, FILES.records)).map((record) => recordSchema.parse(record));
    await dispose();
    const summary = summarySchema.parse(JSON.parse(await this.text(`${folder}profile_export_aiperf.json`)));
    return { records, summary, names: await this.names(folder) };
  }

  /** Epoch ms at which the clock of all shards starts. */
  async clockStart(run: string): Promise<number> {
    return (JSON.parse(await this.text(replayKeys.plan(run))) as { startAtEpochMs: number }).startAtEpochMs;
  }

  /** Executions of the stack's other state machine. */
  async monitoringExecutions(stateMachineArn: string): Promise<string[]> {
    const { sfn } = this.environment.clients;
    const { executions = [] } = await sfn.send(new ListExecutionsCommand({ stateMachineArn }));
    return executions.map(({ name = '' }) => name);
  }

  /** The facts of an outcome, so that a failed expectation shows the cause. */
  static facts({ status, error, cause }: Outcome): Pick<Outcome, 'status' | 'error' | 'cause'> {
    return { status, error, cause };
  }
}

/** The requests for these captures that reached the endpoint, with their arrivals. */
export function received(endpoint: StandInEndpoint, captures: readonly NumberedCapture[]) {
  const numbers = new Set(captures.map(({ number }) => number));
  const arrivals = endpoint.arrivals.list().filter(({ number }) => numbers.has(number));
  const requests = endpoint.requests.filter(({ body }) => {
    const [, number] = /#(\d{6})/.exec(body.toString('latin1')) ?? [];
    return number !== undefined && numbers.has(Number(number));
  });
  return { arrivals, requests, numbers: arrivals.map(({ number }) => number).toSorted((a, b) => a - b) };
}
