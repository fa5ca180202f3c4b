/**
 * Counts state transitions by the definition of the state machine. The emulator writes the states of a run into its history, but
 * none of the branches of a Parallel and of the children of a Map.
 */
import type { HistoryEvent } from '@aws-sdk/client-sfn';

interface State {
  Type: string;
  Resource?: string;
  Next?: string;
  Default?: string;
  Choices?: { Next: string }[];
  Branches?: Machine[];
  ItemProcessor?: Machine;
}

export interface Machine {
  StartAt: string;
  States: Record<string, State>;
}

type Goal = (state: State) => boolean;

const isEnd: Goal = ({ Type, Next, Default }) =>
  Type === 'Succeed' || (Type !== 'Choice' && Next === undefined && Default === undefined && Type !== 'Fail');

/** The states of the shortest way to a state, both ends included; `undefined` if there is none. Errors are no way. */
function wayTo({ States }: Machine, from: string, goal: Goal): string[] | undefined {
  const ways = [[from]];
  const seen = new Set([from]);
  for (const way of ways) {
    const state = States[way.at(-1) ?? ''];
    if (state === undefined) continue;
    if (goal(state)) return way;
    for (const next of [state.Default, state.Next, ...(state.Choices ?? []).map(({ Next }) => Next)]) {
      if (next === undefined || seen.has(next)) continue;
      seen.add(next);
      ways.push([...way, next]);
    }
  }
  return undefined;
}

/** How many states are entered on the shortest way through a state to the end; 0 if there is none. */
function statesThrough(machine: Machine, goal: Goal): number {
  const to = wayTo(machine, machine.StartAt, goal);
  const on = to && wayTo(machine, to.at(-1) ?? '', isEnd);
  return to && on ? to.length + on.length - 1 : 0;
}

const mapsOf = ({ States }: Machine): Machine[] =>
  Object.values(States).flatMap(({ ItemProcessor, Branches = [] }) => [
    ...(ItemProcessor ? [ItemProcessor] : []),
    ...Branches.flatMap(mapsOf),
  ]);

/**
 * Counts what Standard workflows charge for an execution or a child of a Map: its start, each state that is entered, and each
 * retry of one.
 */
export function transitionsIn(history: readonly HistoryEvent[], machine: Machine): number {
  const scheduled = history.flatMap((event) => event.taskScheduledEventDetails?.resource ?? []);
  const invokes: Goal = ({ Resource = '' }) => scheduled.some((each) => Resource !== '' && each === Resource);
  const entered = history.flatMap(({ stateEnteredEventDetails }) => stateEnteredEventDetails?.name ?? []);
  const own = entered.flatMap((name) => machine.States[name] ?? []);
  const branches = own.flatMap(({ Branches = [] }) => Branches);
  // A child: its states are those of the Map that invokes its function.
  const inner =
    own.length > 0
      ? branches
      : mapsOf(machine)
          .filter((map) => statesThrough(map, invokes) > 0)
          .slice(0, 1);
  const tasks = own.filter(({ Type }) => Type === 'Task').length;
  const ways = inner.map((branch) => {
    const invoking = statesThrough(branch, invokes);
    return { states: invoking || statesThrough(branch, () => true), tasks: invoking > 0 ? 1 : 0 };
  });
  const sum = (of: (way: (typeof ways)[number]) => number) => ways.reduce((total, way) => total + of(way), 0);
  const retries = Math.max(0, scheduled.length - tasks - sum(({ tasks: its }) => its));
  return 1 + own.length + sum(({ states }) => states) + retries;
}

/** The transitions of a judged run of one chunk, which needs no Map. */
export const transitionsOfLoneRun = (machine: Machine): number =>
  1 + statesThrough(machine, (state) => state === machine.States.EvaluateTracesOnlyChunk);
