/** The context that every function of the stack passes to its work. */
import type { LambdaEnvironment } from '../settings/environment.ts';
import type { Storage } from './storage.ts';

export interface FunctionContext<Environment = LambdaEnvironment> {
  storage: Storage;
  environment: Environment;
  /** Returns the milliseconds until the function is killed. */
  remainingMs(): number;
}
