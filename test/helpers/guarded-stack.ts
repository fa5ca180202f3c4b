/**
 * A stack on an emulated AWS that enforces the policies of each function's role, over TLS, with secrets for the headers of replays
 * and for MLflow, and a capture file to replay.
 */
import { Agent } from 'node:https';
import { CreateSecretCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { replayKeys } from '../../src/core/contract/work-keys.ts';
import { type Arthur, MODEL, startArthur, TOKEN } from '../doubles/arthur.ts';
import { type StandInEndpoint, startStandInEndpoint } from '../doubles/recording-endpoint.ts';
import { DeployedPipeline } from './deployed-pipeline.ts';
import { DeployedReplay, numberedCapture, received } from './deployed-replay.ts';
import { type LocalEnvironment, startEnvironment } from './local-environment.ts';
import { chatLine } from './replay.ts';

export const PREFIX = 'policies';
export const ENDPOINT = 'guarded-endpoint';
export const HOUR = `${ENDPOINT}/AllTraffic/2026/11/20/10`;
/** The prefix of the files that are forwarded. */
export const FOR_ARTHUR = 'for-arthur/';
/** The name of the replay that every later call is about. */
export const RUN = 'guarded-replay';

const CAPTURES = [0, 1, 2].map((number) => numberedCapture(number, number));
const KEY = `${ENDPOINT}/replayed/AllTraffic/2026/11/20/10/a.jsonl`;
/** A capture with its reply, so that the judge has something to compare. */
const COMPARED = chatLine('compared', 2, 'Where is parcel 8841?', 'I do not know.');

export class GuardedStack {
  readonly environment: LocalEnvironment;
  readonly pipeline: DeployedPipeline;
  readonly replays: DeployedReplay;
  readonly arthur: Arthur;
  readonly #endpoint: StandInEndpoint;
  readonly #headersArn: string;

  private constructor(pipeline: DeployedPipeline, arthur: Arthur, endpoint: StandInEndpoint, headersArn: string) {
    this.arthur = arthur;
    this.environment = pipeline.environment;
    this.pipeline = pipeline;
    this.replays = new DeployedReplay(pipeline);
    this.#endpoint = endpoint;
    this.#headersArn = headersArn;
  }

  static async deploy(): Promise<GuardedStack> {
    const [endpoint, arthur] = await Promise.all([startStandInEndpoint({ record: true }), startArthur()]);
    // Shortens only the waits of the state machine. A shard also waits for its clock in the function.
    const environment = await startEnvironment({ enforcePolicies: true, awsEnv: { SFN_WAIT_SCALE: '0.01' } });
    try {
      const { ministack } = environment;
      const config = {
        endpoint: ministack.url,
        region: ministack.region,
        credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
        requestHandler: new NodeHttpHandler({ httpsAgent: new Agent({ ca: ministack.ca }) }),
      };
      const secrets = new SecretsManagerClient(config);
      const headersArn = await makeSecret(secrets, 'replay-headers', { 'x-team': 'search' });
      // This server does not require a login.
      const loginArn = await makeSecret(secrets, 'mlflow', { token: 'a-token' });
      const tokenArn = await makeSecret(secrets, 'arthur', { token: TOKEN });
      secrets.destroy();
      const outputs = await environment.deployStack({
        STACK_PREFIX: PREFIX,
        SAGEMAKER_ENDPOINT_NAME: ENDPOINT,
        REPLAY_URLS: new URL(endpoint.url).origin,
        REPLAY_HEADERS_SECRET_ARN: headersArn,
        MLFLOW_SECRET_ARN: loginArn,
        ARTHUR_HOST: arthur.url,
        ARTHUR_MODEL_ID: MODEL,
        ARTHUR_SECRET_ARN: tokenArn,
        // No run processes these files.
        ARTHUR_S3_PREFIX: FOR_ARTHUR,
      });
      await environment.mlflow;
      const pipeline = new DeployedPipeline(environment, PREFIX, outputs);
      return new GuardedStack(pipeline, arthur, endpoint, headersArn);
    } catch (error) {
      await environment.stop();
      await Promise.all([endpoint.close(), arthur.stop()]);
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.environment.stop();
    await Promise.all([this.#endpoint.close(), this.arthur.stop()]);
  }

  /** The input of a replay to a URL, with a secret's headers, the judge and MLflow. */
  input(): object {
    return {
      source: { prefix: `${ENDPOINT}/replayed/` },
      target: { url: `${this.#endpoint.url}/invocations`, headersSecretArn: this.#headersArn },
      judge: true,
    };
  }

  /** Replays the captures with every permission. */
  async replayWhole(): Promise<void> {
    const { pipeline, replays } = this;
    await pipeline.process(KEY, [...CAPTURES.map(({ line }) => line), COMPARED]);
    const outcome = await replays.ended(await replays.start(this.input(), RUN));
    expect(DeployedReplay.facts(outcome)).toEqual({ status: 'SUCCEEDED' });
    const { numbers, requests } = received(this.#endpoint, CAPTURES);
    expect(numbers).toEqual([0, 1, 2]);
    expect(requests.map(({ headers }) => headers['x-team'])).toEqual(['search', 'search', 'search']);
    const { records, summary, names } = await replays.results(outcome.name);
    expect(records).toHaveLength(4);
    expect(summary.is_complete).toBe(true);
    expect(names).toContain('compare.json');
    expect(outcome.output).toMatchObject({ monitoringRun: `replay-${RUN}`, mlflow: { leftOut: [] } });
    const judged = await pipeline.ended(replays.monitoringArn(RUN));
    expect([judged.status, judged.cause]).toEqual(['SUCCEEDED', undefined]);
    expect(judged.summary).toMatchObject({ lines: { traced: 4 }, verdicts: { newVerdicts: 1, notJudgeable: 3 } });
  }

  /** Calls StopReplay as the event of an aborted execution does. */
  stopReplay(): ReturnType<DeployedPipeline['invoke']> {
    const executionArn = `arn:aws:states:us-east-1:000000000000:execution:replays:${RUN}`;
    return this.replays.invoke('replayStopper', { detail: { executionArn, status: 'ABORTED' } });
  }

  /** With a stop order the later functions do less, and after the publication StopReplay does less. */
  async forgetStop(): Promise<void> {
    for (const key of [replayKeys.stop(RUN), replayKeys.publication(RUN)]) await this.replays.deleteWork(key);
  }
}

async function makeSecret(client: SecretsManagerClient, Name: string, value: object): Promise<string> {
  const { ARN = '' } = await client.send(new CreateSecretCommand({ Name, SecretString: JSON.stringify(value) }));
  return ARN;
}
