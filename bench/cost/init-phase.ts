/**
 * The INIT phase of functions that start cold, which Lambda bills since August 2025, also of zips with managed runtimes
 * (aws.amazon.com/blogs/compute/aws-lambda-standardizes-billing-for-init-phase).
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GetFunctionConfigurationCommand } from '@aws-sdk/client-lambda';
import { resourceNames } from '../../src/core/contract/names.ts';
import type { QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import { median } from '../support/result.ts';

/** The functions of a judged run, by their bundles. */
const OF_A_RUN = {
  starter: 'start-runs',
  planner: 'plan-captures',
  evaluator: 'evaluate-traces',
  summarizer: 'summarize-run',
} as const;
const ROUNDS = 5;

/** Returns the GB-seconds of a run whose functions all start cold: processor time of Node's start and of the import, which a busy machine does not lengthen. */
export async function initGbSeconds({ environment, pipeline }: QuotaEnvironment): Promise<number> {
  const folder = process.env.FUNCTION_BUNDLES ?? join(environment.directory, 'functions');
  const names = resourceNames(pipeline.prefix) as Record<string, string>;
  let sum = 0;
  for (const [name, bundle] of Object.entries(OF_A_RUN)) {
    const query = new GetFunctionConfigurationCommand({ FunctionName: names[name] });
    const { MemorySize = Number.NaN, Environment } = await environment.clients.lambda.send(query);
    const url = JSON.stringify(`file://${join(folder, bundle, 'index.mjs')}`);
    const code = `await import(${url});const{user,system}=process.cpuUsage();console.log((user+system)/1e6);process.exit(0)`;
    const env = { PATH: process.env.PATH, ...environment.ministack.env, ...Environment?.Variables };
    const seconds: number[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], { env });
      seconds.push(Number(stdout.trim().split('\n').at(-1)));
    }
    sum += median(seconds) * (MemorySize / 1024);
  }
  return sum;
}
