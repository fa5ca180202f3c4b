/** Labels that met their predictions, as the join keeps them. */
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import { areaOf, truthKeys } from '../../src/core/contract/work-keys.ts';
import { type HourDraft, readLabeled, rewriteHour } from '../../src/ground-truth/join/labeled-store.ts';
import { hourOf } from '../../src/quality/tally.ts';
import { MemoryStorage } from '../doubles/memory-storage.ts';

export const LABELED_AT = Date.parse('2026-11-20T12:00:00Z');

/** Returns a label of a trace, which answered `0`. */
export const labeled = (traceId: string, label: LabeledRow['label'], more: Partial<LabeledRow> = {}): LabeledRow => ({
  id: `id of ${traceId}`,
  endpoint: 'my-endpoint',
  variant: 'AllTraffic',
  second: LABELED_AT / 1000,
  traceId,
  prediction: { value: 0 },
  label,
  timeMs: LABELED_AT,
  line: 1,
  ...more,
});

/** Labeled hours with marks, as the join leaves them. */
export class LabeledHours {
  readonly memory = new MemoryStorage();

  /** Adds rows, each in place of an earlier one of the same id. */
  async join(rows: readonly LabeledRow[]): Promise<void> {
    for (const [hour, own] of Map.groupBy(rows, ({ second }) => hourOf(second * 1000))) {
      const etag = await rewriteHour(this.memory.work, hour, async function* (draft: HourDraft) {
        draft.changed = true;
        const added = new Map(own.map((row) => [row.id, row]));
        for await (const row of draft.rows) {
          const later = added.get(row.id);
          added.delete(row.id);
          yield later === undefined ? row : { ...later, ...(row.noted === undefined ? {} : { noted: false }) };
        }
        yield* added.values();
      });
      this.memory.put(truthKeys.toPublish(hour, etag ?? ''), {});
    }
  }

  async rows(): Promise<LabeledRow[]> {
    const hours = [...this.memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthLabeled')));
    const found: LabeledRow[] = [];
    const names = hours.map((key) => key.slice(areaOf('truthLabeled').length).replace('.jsonl.gz', ''));
    for await (const row of readLabeled(this.memory.work, names)) found.push(row);
    return found.sort((a, b) => a.second - b.second || (a.id < b.id ? -1 : 1));
  }

  marks(): number {
    return [...this.memory.objects.keys()].filter((key) => key.startsWith(areaOf('truthOpen'))).length;
  }
}
