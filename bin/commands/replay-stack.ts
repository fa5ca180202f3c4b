/** The stack that a replay names: its work bucket has the registrations of replays. It is opened when it is first needed. */
import type { Marks } from '../../src/replay/marks/believe.ts';
import type { DeployedStack, StackFlags } from '../cli/stack.ts';

export class ReplayStack {
  /** The registration of this replay; without an id, its requests count as traffic. */
  readonly mark: { id?: string } = {};
  readonly #flags: StackFlags;
  #opened: Promise<DeployedStack> | undefined;
  #hasWarned = false;

  constructor(flags: StackFlags) {
    this.#flags = flags;
  }

  /** Registers the run, and again each day. If that is not possible, it says so on standard error. */
  async register(run: string): Promise<void> {
    const { MARK_MS, registerReplay } = await import('../../src/replay/marks/register.ts');
    const register = async (): Promise<void> => {
      try {
        const { storage, outputs } = await this.#open();
        this.mark.id = (await registerReplay(storage, outputs.workBucket, { run, atMs: Date.now() })).id;
      } catch (error) {
        console.error(`The requests of this replay count as traffic of the endpoint: ${(error as Error).message}`);
      }
    };
    await register();
    setInterval(register, MARK_MS).unref();
  }

  /** Returns what tells the requests of earlier replays in a file. What cannot be looked up counts as traffic. */
  marks(): Pick<Marks, 'isLeftOut'> {
    let marks: Promise<Marks> | undefined;
    const open = async (): Promise<Marks> => {
      const { Marks } = await import('../../src/replay/marks/believe.ts');
      const { storage, outputs } = await this.#open();
      return new Marks(storage, outputs.workBucket);
    };
    return {
      isLeftOut: async (claim) => {
        marks ??= open();
        return marks.then((known) => known.isLeftOut(claim)).catch((error: Error) => this.#warn(error));
      },
    };
  }

  #open(): Promise<DeployedStack> {
    this.#opened ??= import('../cli/stack.ts').then(({ openStack }) => openStack(this.#flags));
    return this.#opened;
  }

  #warn({ message }: Error): false {
    if (!this.#hasWarned) console.error(`Captures that claim to be requests of replays are replayed too: ${message}`);
    this.#hasWarned = true;
    return false;
  }
}
