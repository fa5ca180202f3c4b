/**
 * Jest's environment: every request to emulated AWS that a test causes is held against AWS's models of its services. A
 * request that AWS would refuse fails the test during which it was made, or the file if that was in its hooks.
 */
import { readdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { TestEnvironment } from 'jest-environment-node';
import { makeOwnFolder, removeFolder } from '../../local/machine/own-folder.ts';
import { lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import type { AwsRequests } from './aws-requests.ts';
import { RequestChecks } from './checks.ts';
import { ServiceModels } from './models.ts';
import { untranslatedPatterns } from './patterns.ts';
import type { Violation } from './rules.ts';

/** What this file uses of jest's events and state. */
interface TestEvent {
  name: string;
  test?: { errors: unknown[] };
}
interface TestState {
  unhandledErrors: unknown[];
}

interface Allowance {
  operation: string;
  where: string;
  reason: string;
  used: boolean;
}

/** Violations that are shown of one test. */
const MAX_SHOWN = 20;

/** Shared by the files of a worker: reading the models takes half a second. */
let models: Promise<ServiceModels> | undefined;

export default class AwsRequestsEnvironment extends TestEnvironment {
  readonly #allowed: Allowance[] = [];
  #folder = '';
  #checks: RequestChecks | undefined;
  #found: Violation[] = [];

  override async setup(): Promise<void> {
    await super.setup();
    this.#folder = makeOwnFolder('requests');
    Object.assign(this.global.process.env, {
      REQUEST_LOG: this.#folder,
      REQUEST_RECORDER: packagePath('test', 'aws-requests', 'recorder.py'),
    });
    const awsRequests: AwsRequests = {
      allow: (operation, where, reason) => this.#allowed.push({ operation, where, reason, used: false }),
      counts: async () => {
        await this.#check();
        return Object.fromEntries(this.#checks?.counts ?? []);
      },
      violations: async () => {
        await this.#check();
        return [...this.#found];
      },
    };
    Object.assign(this.global, { awsRequests });
  }

  override async teardown(): Promise<void> {
    removeFolder(this.#folder);
    await super.teardown();
  }

  async handleTestEvent(event: TestEvent, state: TestState): Promise<void> {
    if (event.name === 'test_done') {
      const error = await this.#refused();
      if (error) event.test?.errors.push(error);
    }
    if (event.name === 'run_finish') {
      const error = await this.#refused();
      if (error) state.unhandledErrors.push(error);
      for (const { operation, where, reason } of this.#allowed.filter(({ used }) => !used))
        state.unhandledErrors.push(
          withoutStack(`No request broke ${operation} ${where}, which was allowed: ${reason}`),
        );
      if (process.env.REQUEST_REPORT) this.#report();
    }
  }

  /** Reads what was logged since the last call. */
  async #check(): Promise<void> {
    if (readdirSync(this.#folder).length === 0) return;
    models ??= lockedEnvironment('aws-checks').then(({ bin }) => new ServiceModels(dirname(bin)));
    this.#checks ??= new RequestChecks(this.#folder, await models);
    this.#found.push(...this.#checks.next());
  }

  async #refused(): Promise<Error | undefined> {
    await this.#check();
    const found = this.#found.filter((one) => !this.#isAllowed(one));
    this.#found = [];
    if (found.length === 0) return undefined;
    const lines = [
      ...new Set(
        found.map(
          ({ operation, where, got, rule }) => `${operation}${where && ` ${where}`}: got ${got}; expected: ${rule}`,
        ),
      ),
    ];
    const more = lines.length > MAX_SHOWN ? [`and ${lines.length - MAX_SHOWN} others`] : [];
    return withoutStack(['AWS would refuse these requests:', ...lines.slice(0, MAX_SHOWN), ...more].join('\n  '));
  }

  #isAllowed({ operation, where }: Violation): boolean {
    const allowances = this.#allowed.filter((one) => one.operation === operation && one.where === where);
    for (const allowance of allowances) allowance.used = true;
    return allowances.length > 0;
  }

  #report(): void {
    const counts = [...(this.#checks?.counts ?? [])].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const lines = counts.map(([operation, count]) => `${String(count).padStart(7)} ${operation}`);
    const patterns = untranslatedPatterns().map((pattern) => `pattern not checked: ${pattern}`);
    if (lines.length > 0) process.stdout.write(`${['requests checked:', ...lines, ...patterns].join('\n')}\n`);
  }
}

/** An error whose place in this file means nothing to the reader. */
function withoutStack(message: string): Error {
  const error = new Error(message);
  error.stack = message;
  return error;
}
