/** Labels that met their predictions, as the join keeps them. */
import type { LabeledRow } from '../../src/contract/ground-truth.ts';

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
