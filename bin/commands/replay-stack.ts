/** The stack that a replay names: its work bucket has the registrations of replays. It is opened when it is first needed. */
import type { Marks } from '../../src/replay/marks/believe.ts';
import { type CommandSettings, commandSettings, namesStack, type SettingFlags } from '../cli/settings.ts';
import type { DeployedStack, StackFlags } from '../cli/stack.ts';

export type ReplayStack = ReturnType<typeof replayStack>;

export function replayStack(flags: StackFlags) {
  /** The registration of this replay; without an id, its requests count as traffic. */
  const mark: { id?: string } = {};
  let opened: Promise<DeployedStack> | undefined;
  const open = (): Promise<DeployedStack> => {
    opened ??= import('../cli/stack.ts').then(({ openStack }) => openStack(flags));
    return opened;
  };

  /** Returns the settings of the stack that the user names, else the settings of the environment and `.env`. */
  async function settings(own: SettingFlags): Promise<CommandSettings> {
    if (!namesStack(flags)) return commandSettings(own);
    return (await import('../cli/stack.ts')).stackSettings(await open(), own);
  }

  /** Registers the run, and again each day. If that fails, prints a notice on standard error. */
  async function register(run: string): Promise<void> {
    const { MARK_MS, registerReplay } = await import('../../src/replay/marks/believe.ts');
    const registered = async (): Promise<void> => {
      try {
        const { storage, outputs } = await open();
        mark.id = (await registerReplay(storage, outputs.workBucket, { run, atMs: Date.now() })).id;
      } catch (error) {
        console.error(`The requests of this replay count as traffic of the endpoint: ${(error as Error).message}`);
      }
    };
    await registered();
    setInterval(registered, MARK_MS).unref();
  }

  /**
   * Returns the reader of replay registrations, to leave out requests of earlier replays. Requests that cannot be
   * looked up count as traffic.
   */
  function marks(): Pick<Marks, 'runOf'> {
    let found: Promise<Marks> | undefined;
    const find = async (): Promise<Marks> => {
      const { Marks } = await import('../../src/replay/marks/believe.ts');
      const { storage, outputs } = await open();
      return new Marks(storage, outputs.workBucket);
    };
    return {
      runOf: async (claim) => {
        found ??= find();
        return found.then((known) => known.runOf(claim)).catch(warn);
      },
    };
  }

  let hasWarned = false;
  function warn({ message }: Error): undefined {
    if (!hasWarned) console.error(`Captures that are marked as requests of replays are replayed too: ${message}`);
    hasWarned = true;
  }
  return { mark, settings, register, marks };
}
