/** Collects lines that are written together. */
import { weightAtOnce } from '../../core/process/memory.ts';
import type { ChunkWriter, WriteItem, WriteOutcome } from './chunk-writer.ts';

/** The most memory that traces may take before they are written; less in a small function. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** The least memory that a span takes. A short record may contain thousands of rows, and each is a span. */
const SPAN_BYTES = 1000;
/** Two OTLP requests of 100 traces, both in flight together. More traces would only wait in memory. */
const BATCH_LINES = 200;

/** Lines that are written together, when there are enough of them or when they take enough memory. */
export class WriteBatch<Item extends WriteItem> {
  readonly #writer: ChunkWriter;
  readonly #done: (item: Item, outcome: WriteOutcome) => void;
  #items: Item[] = [];
  #weight = 0;

  /** @param done is told what MLflow has of each line now */
  constructor(writer: ChunkWriter, done: (item: Item, outcome: WriteOutcome) => void) {
    this.#writer = writer;
    this.#done = done;
  }

  /** @param lineWeight the memory that the line takes when decoded, in bytes */
  async add(item: Item, lineWeight: number): Promise<void> {
    const { trace } = item;
    const weight = trace === undefined ? 0 : Math.max(lineWeight, trace.spans.length * SPAN_BYTES);
    const most = Math.min(BATCH_WEIGHT, weightAtOnce());
    if (this.#weight + weight > most) await this.flush();
    this.#items.push(item);
    this.#weight += weight;
    if (this.#items.length >= BATCH_LINES || this.#weight >= most) await this.flush();
  }

  async flush(): Promise<void> {
    const items = this.#items;
    this.#items = [];
    this.#weight = 0;
    for (const [item, outcome] of await this.#writer.write(items)) this.#done(item, outcome);
  }
}
