/** A Ctrl-C to `npm start` at each moment. */
import { testStop } from '../helpers/start-command.ts';

// None of the cases waits for MLflow, which takes longest.
testStop([
  ['before anything runs', 'captures:'],
  ['while it starts', 'emulated AWS:'],
  ['while it deploys', 'cdk synth'],
  ['while it processes', 'cdk deploy'],
]);
