/** Measures in the emulator what the simulation cannot know: the seconds of the functions, and the numbers of their calls. */
import { writeFileSync } from 'node:fs';
import type { Log } from '../../local/python/python-environment.ts';
import { APP_VERSION, QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import { countWindow, type Window } from '../cost/count-window.ts';
import { chatFile } from '../support/records.ts';
import { machine } from '../support/result.ts';
import { explain, type PerUnit } from './explain.ts';
import { CALLS, type CallKind, MEASURED_FILE, type Measured, ROLES, type Role } from './measured.ts';
import { measurePlanning } from './planning.ts';

/** Files and captures a file. Four different shapes are the least from which runs, files, chunks and captures can be told. */
const SHAPES = [
  { files: 1, captures: 1 },
  { files: 24, captures: 1 },
  { files: 1, captures: 60 },
  { files: 12, captures: 20 },
  { files: 2, captures: 560 },
] as const;

export const SCALE_ENDPOINT = 'bench-scale';

export async function measure(log: Log): Promise<Measured> {
  const planning = await measurePlanning();
  log(`planning: ${JSON.stringify(planning)}`);
  const stack = await QuotaEnvironment.start({
    endpoint: SCALE_ENDPOINT,
    limits: {},
    likeApp: true,
    settings: { EVALUATION_BUDGET_USD: '1000' },
    log,
  });
  try {
    await countWindow(stack, { name: 'warm-up', bodies: [chatFile(1, 900_000)], captures: 1 });
    const judged: Window[] = [];
    const unjudged: Window[] = [];
    for (const [n, { files, captures }] of SHAPES.entries()) {
      for (const kind of ['judged', 'unjudged'] as const) {
        const from = (kind === 'judged' ? 0 : 500_000) + n * 20_000;
        const bodies = Array.from({ length: files }, (_, file) => chatFile(captures, from + file * captures));
        const name = `${kind}-${n}`;
        const window = await countWindow(stack, {
          name,
          bodies,
          captures: files * captures,
          judged: kind === 'judged',
        });
        (kind === 'judged' ? judged : unjudged).push(window);
        log(
          `${name}: ${JSON.stringify({ ...window.shape, ...window.units, mlflow: window.mlflow, ...window.seconds })}`,
        );
      }
    }
    const measured: Measured = {
      at: new Date().toISOString(),
      machine: machine(),
      mlflow: APP_VERSION,
      seconds: fitSeconds(judged),
      secondsUnjudged: fitSeconds(unjudged),
      planning,
      calls: fitCalls(judged),
      callsUnjudged: fitCalls(unjudged),
    };
    writeFileSync(MEASURED_FILE, `${JSON.stringify(measured, rounded, 2)}\n`);
    return measured;
  } finally {
    await stack.stop();
  }
}

const rounded = (_: string, value: unknown): unknown =>
  typeof value === 'number' ? Number(value.toPrecision(4)) : value;

function fitSeconds(windows: readonly Window[]): Record<Role, PerUnit> {
  return Object.fromEntries(
    ROLES.map((role) => [role, explain(windows.map(({ shape, seconds }) => ({ shape, count: seconds[role] })))]),
  ) as Record<Role, PerUnit>;
}

function fitCalls(windows: readonly Window[]): Record<CallKind, PerUnit> {
  const countOf = (kind: CallKind, { units, mlflow }: Window): number => (kind === 'mlflow' ? mlflow : units[kind]);
  return Object.fromEntries(
    CALLS.map((kind) => [
      kind,
      explain(windows.map((window) => ({ shape: window.shape, count: countOf(kind, window) }))),
    ]),
  ) as Record<CallKind, PerUnit>;
}
