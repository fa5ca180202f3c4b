/** The local environment, with a judge that can have faults and counts its calls. */
import {
  type LocalEnvironment as Environment,
  type EnvironmentOptions,
  startEnvironment as startLocal,
} from '../../local/start/environment.ts';
import { type StandInJudge, type StandInOptions, startStandInJudge } from '../doubles/faulty-judge/server.ts';

export { CAPTURE_BUCKET } from '../../local/start/environment.ts';
export type LocalEnvironment = Environment<StandInJudge>;

interface Options extends Omit<EnvironmentOptions<StandInJudge>, 'judge' | 'startJudge'> {
  judge?: Omit<StandInOptions, 'port'>;
}

export async function startEnvironment({ judge, ...options }: Options = {}): Promise<LocalEnvironment> {
  const started = await startLocal({ ...options, startJudge: (given) => startStandInJudge({ ...judge, ...given }) });
  started.judge.batch.s3 = started.clients.s3;
  return started;
}
