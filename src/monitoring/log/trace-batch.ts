/** Collects traces that are written together. */

import { weightAtOnce } from '../../core/process/memory.ts';
import type { NewAssessment } from '../../mlflow/types.ts';
import { captureFacts } from '../../quality/tally.ts';
import type { BuiltLine, LineBook, TraceableLine } from './line-book.ts';

/** The most memory that traces may take before they are written; less in a small function. */
const BATCH_WEIGHT = 64 * 1024 * 1024;
/** The least memory that a span takes. A short record may contain thousands of rows, and each is a span. */
const SPAN_BYTES = 1000;
/** Two OTLP requests of 100 traces, both in flight together. More traces would only wait in memory. */
const BATCH_LINES = 200;

/** Traces that are written together, when there are enough of them or when they take enough memory. */
export class TraceBatch {
  /** Traces that existed when they were to be written, and traces that were written without their assessments. */
  readonly there: string[] = [];
  readonly bare: string[] = [];
  readonly #book: LineBook;
  readonly #assessmentsOf: ReadonlyMap<string, readonly NewAssessment[]> | undefined;
  #lines: BuiltLine[] = [];
  #weight = 0;

  constructor(book: LineBook, assessmentsOf?: ReadonlyMap<string, readonly NewAssessment[]>) {
    this.#book = book;
    this.#assessmentsOf = assessmentsOf;
  }

  async add(line: TraceableLine): Promise<void> {
    const trace = this.#book.trace(line);
    if (trace === undefined) return;
    const weight = Math.max(line.weight, trace.spans.length * SPAN_BYTES);
    const most = Math.min(BATCH_WEIGHT, weightAtOnce());
    if (this.#weight + weight > most) await this.flush();
    const facts = captureFacts(line.capture, line.raw.place, line.replay);
    this.#lines.push({ trace, range: line.range, raw: line.raw, facts });
    this.#weight += weight;
    if (this.#lines.length >= BATCH_LINES || this.#weight >= most) await this.flush();
  }

  async flush(): Promise<void> {
    const lines = this.#lines;
    this.#lines = [];
    this.#weight = 0;
    const { there, bare } = await this.#book.write(lines, this.#assessmentsOf);
    this.there.push(...there);
    this.bare.push(...bare);
  }
}
