/** Measures in the emulator what the simulation cannot know: the seconds of the functions, and the numbers of their calls. */
import { writeFileSync } from 'node:fs';
import type { Log } from '../../local/python/python-environment.ts';
import { APP_VERSION, QuotaEnvironment } from '../../test/helpers/quota-environment.ts';
import { definitionOf, templateOf } from '../../test/helpers/synth.ts';
import { countWindow, type Window } from '../cost/count-window.ts';
import { type Machine, transitionsOf } from '../cost/transitions.ts';
import { chatFile } from '../support/records.ts';
import { machine } from '../support/result.ts';
import { explain, type PerUnit, type Shape } from './explain.ts';
import { CALLS, type CallKind, MEASURED_FILE, type Measured, OF_THE_TABLE, ROLES, type Role } from './measured.ts';
import { measurePlanning } from './planning.ts';

interface MeasuredShape {
  files: number;
  captures: number;
  /** Of the judge, milliseconds. */
  delayMs?: number;
}

/**
 * Files and captures a file, and the judge's time. Six different ones are the least from which runs, files, chunks, captures, claims
 * and seconds can be told. The seconds of the functions are those without a judge that is waited for.
 */
const SHAPES = [
  { files: 1, captures: 1 },
  { files: 24, captures: 1 },
  { files: 1, captures: 60 },
  { files: 1, captures: 60, delayMs: 4000 },
  { files: 12, captures: 20 },
  { files: 12, captures: 20, delayMs: 4000 },
  { files: 2, captures: 560 },
  { files: 2, captures: 560, delayMs: 4000 },
] as const satisfies MeasuredShape[];
/** So high that nobody waits: then the seconds of the functions are their own. */
const NO_PACE = 100_000;
/**
 * Less than the machine bears. As in an account, it is the pace that binds, and a function asks for it once a second. A function
 * also reads the gate every few seconds: the slower the pace, the better these reads are told from those of each chunk.
 */
const BINDING_PACE = 10;

export const SCALE_ENDPOINT = 'bench-scale';

interface Windows {
  judged: Window[];
  unjudged: Window[];
}

export async function measure(log: Log): Promise<Measured> {
  const planning = await measurePlanning();
  log(`planning: ${JSON.stringify(planning)}`);
  const alone = await measureWindows(
    NO_PACE,
    SHAPES.filter((shape) => !('delayMs' in shape)),
    log,
  );
  const paced = await measureWindows(BINDING_PACE, SHAPES, log);
  const measured: Measured = {
    at: new Date().toISOString(),
    machine: machine(),
    mlflow: APP_VERSION,
    seconds: fitSeconds(alone.judged),
    secondsUnjudged: fitSeconds(alone.unjudged),
    planning,
    calls: fitCalls(paced.judged),
    callsUnjudged: fitCalls(paced.unjudged),
  };
  writeFileSync(MEASURED_FILE, `${JSON.stringify(measured, rounded, 2)}\n`);
  return measured;
}

async function measureWindows(perSecond: number, shapes: readonly MeasuredShape[], log: Log): Promise<Windows> {
  const stack = await QuotaEnvironment.start({
    endpoint: SCALE_ENDPOINT,
    limits: {},
    likeApp: true,
    settings: { EVALUATION_BUDGET_USD: '1000', MLFLOW_REQUESTS_PER_SECOND: String(perSecond) },
    log,
  });
  try {
    await countWindow(stack, { name: 'warm-up', bodies: [chatFile(1, 900_000)], captures: 1 });
    const windows: Windows = { judged: [], unjudged: [] };
    for (const [n, { files, captures, delayMs = 0 }] of shapes.entries()) {
      stack.environment.judge.behave({ delayMs });
      for (const kind of delayMs > 0 ? (['judged'] as const) : (['judged', 'unjudged'] as const)) {
        const from = (kind === 'judged' ? 0 : 500_000) + n * 20_000;
        const bodies = Array.from({ length: files }, (_, file) => chatFile(captures, from + file * captures));
        const name = `${kind}-${n}`;
        const judged = kind === 'judged';
        const window = await countWindow(stack, { name, bodies, captures: files * captures, judged });
        windows[kind].push(window);
        const { shape, units, mlflow, seconds } = window;
        log(`${name} at ${perSecond} requests/s: ${JSON.stringify({ ...shape, ...units, mlflow, ...seconds })}`);
      }
    }
    return windows;
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

export const countOf = (kind: CallKind, { units, mlflow }: Window): number =>
  kind === 'mlflow' ? mlflow : units[kind];

/** The shape of a window, with its claims and the seconds of its chunks for what depends on them. */
export const shapeFor = (kind: CallKind, { shape, claimed, seconds }: Window): Shape =>
  OF_THE_TABLE.includes(kind) ? { ...shape, claimed, seconds: seconds.processor + seconds.evaluator } : shape;

function fitCalls(windows: readonly Window[]): Record<CallKind, PerUnit> {
  const fitted = (kind: CallKind): PerUnit =>
    explain(windows.map((window) => ({ shape: shapeFor(kind, window), count: countOf(kind, window) })));
  const all = Object.fromEntries(CALLS.map((kind) => [kind, fitted(kind)])) as Record<CallKind, PerUnit>;
  // Known without a measurement.
  return { ...all, stateTransition: transitionsOf(definitionOf(templateOf()) as unknown as Machine) };
}
