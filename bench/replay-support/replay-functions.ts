/**
 * The functions of a replay as deployed: their bundles, each call in a separate process with a Lambda's resources, and S3 in
 * the emulator.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { type AwsClients, destroyClients } from '../../bin/operate/aws-clients.ts';
import { ONE_VCPU_MB } from '../../lib/replay-functions.ts';
import { functionEnvironment, nodeOptions, replayEnvironment } from '../../lib/settings/function-environment.ts';
import { parseSettings } from '../../lib/settings/settings.ts';
import { freePort } from '../../local/machine/free-port.ts';
import { startGuarded } from '../../local/machine/guarded-process.ts';
import type { Log } from '../../local/python/python-environment.ts';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, makeCertificate, startMiniStack, type Tls } from '../../local/servers/ministack.ts';
import type { Execution } from '../../src/core/contract/execution.ts';
import { forEachConcurrently } from '../../src/core/process/concurrency.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { bundle, CAPTURES, ENDPOINT, type Handler, runSide, type SideReport, WORK } from '../support/bench-stack.ts';
import { moveTo } from '../support/processors.ts';
import type { Command } from './measure.ts';
import type { Server } from './server.ts';

/** File descriptors of a Lambda. */
const LAMBDA_DESCRIPTORS = 1024;
/** The function's CPU. All servers run on the other one. */
const OWN_PROCESSOR = '0';
const OTHER_PROCESSOR = '1';
/** Objects that are put concurrently. */
const PUTS = 4;

export class MeasuredFunctions {
  readonly ministack: MiniStack;
  readonly tls: Tls;
  readonly directory: string;
  /** Whether functions have a dedicated CPU. */
  readonly pinned: boolean;
  readonly #clients: AwsClients;
  readonly #bundles: Map<Handler, string>;

  private constructor(
    ministack: MiniStack,
    clients: AwsClients,
    bundles: Map<Handler, string>,
    tls: Tls,
    directory: string,
    pinned: boolean,
  ) {
    this.ministack = ministack;
    this.#clients = clients;
    this.#bundles = bundles;
    this.tls = tls;
    this.directory = directory;
    this.pinned = pinned;
  }

  static async start(log: Log): Promise<MeasuredFunctions> {
    mkdirSync(packagePath('.local'), { recursive: true });
    const directory = mkdtempSync(packagePath('.local', 'bench-'));
    const ministack = await startMiniStack({ log });
    const clients = emulatedClients(ministack);
    for (const Bucket of [CAPTURES, WORK]) await clients.s3.send(new CreateBucketCommand({ Bucket }));
    const bundles = await bundle(ministack, directory, log);
    const tls = await makeCertificate(await defaultPythonEnvironment(log), directory);
    const pinned = cpus().length > 1 && (await moveTo(OTHER_PROCESSOR, ministack.pid));
    return new MeasuredFunctions(ministack, clients, bundles, tls, directory, pinned);
  }

  /**
   * @param runtime address of the endpoint
   * @param storage address of S3; default: the emulator
   */
  async call(handler: Handler, event: object, runtime: string, storage?: string): Promise<SideReport> {
    const script = packagePath('bench', 'support', 'invoke.js');
    const env = { ...this.#environment(runtime), ...(storage ? { AWS_ENDPOINT_URL_S3: storage } : {}) };
    return this.run([script, this.#bundles.get(handler) ?? '', JSON.stringify(event)], env);
  }

  /** Starts an S3 with the latency of the real one. @returns its address and its process, which the caller stops */
  async distantS3(delayMs: number): Promise<Server> {
    const port = await freePort();
    const script = packagePath('bench', 'replay-support', 'distant-s3.ts');
    const args = [script, String(port), this.ministack.url, String(delayMs)];
    const started = startGuarded(process.execPath, args, { logFile: join(this.directory, 'distant-s3.log') });
    const server = { url: `http://127.0.0.1:${port}`, process: started };
    await this.aside(started.pid);
    while (
      !(await fetch(server.url).then(
        () => true,
        () => false,
      ))
    ) {
      if (started.ended()) throw new Error(`The S3 proxy ended: ${started.logTail()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return server;
  }

  /** Returns a Node command with a Lambda's CPU and descriptors. */
  run(args: readonly string[], env: Record<string, string> = this.#environment('')): Promise<SideReport> {
    const limited = this.limited({ command: process.execPath, args });
    return runSide(limited.command, [...limited.args], env);
  }

  /** Returns a command with a Lambda's CPU and descriptors that trusts the endpoint's certificate. */
  limited({ command, args }: Command): Command {
    const own = this.pinned ? ['taskset', '-c', OWN_PROCESSOR] : [];
    return {
      command: '/bin/sh',
      args: ['-c', `ulimit -n ${LAMBDA_DESCRIPTORS} && exec "$@"`, 'sh', ...own, command, ...args],
      env: { ...process.env, NODE_EXTRA_CA_CERTS: this.tls.certificate },
    };
  }

  /** Moves a server off the function's CPU. */
  async aside(pid: number): Promise<void> {
    if (this.pinned) await moveTo(OTHER_PROCESSOR, pid);
  }

  #environment(runtime: string): Record<string, string> {
    const settings = parseSettings({
      STACK_PREFIX: 'bench',
      MLFLOW_TRACKING_URI: 'http://127.0.0.1:5000',
      SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
      DATA_CAPTURE_S3_BUCKET: CAPTURES,
      REPLAY_ENDPOINT_NAMES: ENDPOINT,
    });
    return {
      PATH: process.env.PATH ?? '',
      ...this.ministack.env,
      ...functionEnvironment(settings, WORK, 'bench-budget'),
      ...replayEnvironment(settings),
      NODE_OPTIONS: nodeOptions(ONE_VCPU_MB),
      AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME: runtime,
      NODE_EXTRA_CA_CERTS: this.tls.certificate,
      POWERTOOLS_LOG_LEVEL: 'WARN',
    };
  }

  async put(bucket: string, key: string, body: string | Buffer): Promise<void> {
    await this.#clients.s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }));
  }

  /** Puts the objects, several concurrently. */
  async putAll(bucket: string, parts: Iterable<{ key: string; body(): string | Buffer }>): Promise<void> {
    await forEachConcurrently(PUTS, parts, (part) => this.put(bucket, part.key, part.body()));
  }

  async text(key: string): Promise<string> {
    const { Body } = await this.#clients.s3.send(new GetObjectCommand({ Bucket: WORK, Key: key }));
    return (await Body?.transformToString()) ?? '';
  }

  async json<T>(key: string): Promise<T> {
    return JSON.parse(await this.text(key)) as T;
  }

  /** Returns the size of the objects under a prefix of the work bucket by name. */
  async sizes(prefix: string): Promise<Map<string, number>> {
    const { Contents = [] } = await this.#clients.s3.send(new ListObjectsV2Command({ Bucket: WORK, Prefix: prefix }));
    return new Map(Contents.map(({ Key = '', Size = 0 }) => [Key.slice(prefix.length), Size]));
  }

  async stop(): Promise<void> {
    destroyClients(this.#clients);
    await this.ministack.stop();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export const execution = (name: string): Execution => ({
  name,
  arn: `arn:aws:states:us-east-1:000000000000:execution:bench:${name}`,
  startTime: new Date().toISOString(),
});
